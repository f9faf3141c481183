//! Who is in the job: how far this node is with leaving, and what the loss of a peer means.
//!
//! A peer that is lost, because its link ended or because it broke a rule, is an input like any other: the verdict is given
//! here, and acted upon in one place, `Platform::peer_lost`.

use core::sync::atomic::Ordering;

use multigrain_transport::LostReason;

use crate::shim::{AtomicBool, AtomicI32, AtomicU8};

const JOINED: u8 = 0;
const FINALIZING: u8 = 1;
const LEFT: u8 = 2;

/// This node's part in its job.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    state: AtomicU8,
    leaving: AtomicBool,
    /// The thread in which the process ends, if that is why this node leaves; 0 before.
    exiting: AtomicI32,
}

/// What the loss of a peer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The job is over, and the peer was quicker.
    Expected,
    /// The job cannot go on, for this reason.
    EndsJob(String),
}

impl Membership {
    /// A peer's link has ended, or it did what no correct peer does.
    pub(crate) fn lost(&self, reason: &LostReason) -> Loss {
        match reason {
            // Who has passed the leaving barrier may go before we have.
            LostReason::Left if self.is_finalizing() => Loss::Expected,
            // It has left, and nobody waits any more for what was to be said to it.
            LostReason::Unreached(_) if self.is_finalizing() => Loss::Expected,
            LostReason::Left => Loss::EndsJob("it left without waiting for the others".into()),
            LostReason::Died
            | LostReason::Failed(_)
            | LostReason::Violation(_)
            | LostReason::Unreached(_) => Loss::EndsJob(reason.to_string()),
        }
    }

    /// The program calls for the end; false if it has done so before.
    pub(crate) fn finalize(&self) -> bool {
        let (from, to) = (JOINED, FINALIZING);
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The process ends in this thread.
    pub(crate) fn exits(&self, thread: i32) {
        self.exiting.store(thread, Ordering::Release);
    }

    /// Whether the process ends in another thread than this one.
    pub(crate) fn exits_beside(&self, thread: i32) -> bool {
        let exiting = self.exiting.load(Ordering::Acquire);
        exiting != 0 && exiting != thread
    }

    /// All nodes have come to the end: helpers stop.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// This node takes part no more.
    pub(crate) fn has_left(&self) {
        self.state.store(LEFT, Ordering::Release);
    }

    /// Whether the program has called for the end: peers may leave from now on.
    pub(crate) fn is_finalizing(&self) -> bool {
        self.state.load(Ordering::Acquire) != JOINED
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Whether the program may still call.
    pub(crate) fn is_member(&self) -> bool {
        self.state.load(Ordering::Acquire) != LEFT
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_peer_may_leave_when_the_program_has_called_for_the_end_and_may_never_die() {
        let membership = Membership::default();
        let too_early = Loss::EndsJob("it left without waiting for the others".into());
        let unreached = LostReason::Unreached("cannot connect to n1".into());
        assert_eq!(membership.lost(&LostReason::Left), too_early);
        assert!(matches!(membership.lost(&unreached), Loss::EndsJob(_)));
        assert!(membership.finalize() && !membership.finalize(), "once");
        assert_eq!(membership.lost(&LostReason::Left), Loss::Expected);
        assert_eq!(membership.lost(&unreached), Loss::Expected);
        assert!(matches!(membership.lost(&LostReason::Died), Loss::EndsJob(_)));
        let violation = LostReason::Violation("a kind that makes no sense".into());
        assert!(matches!(membership.lost(&violation), Loss::EndsJob(_)), "whenever it is");
        assert!(membership.is_member() && !membership.is_leaving());
        membership.has_left();
        assert!(!membership.is_member());
    }
}
