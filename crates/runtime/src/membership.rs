//! Who is in the job: how far this node is with leaving, and what the loss of a peer means.
//!
//! What the loss of a peer means, because its link ended or because it broke a rule, is said here, and acted upon in
//! one place, `Platform::peer_lost`: the loss is expected, or it ends this node. The engines do not learn of it.

use core::sync::atomic::Ordering;

use multigrain_transport::LostReason;

use crate::shim::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, futex_wait, futex_wake};

const JOINED: u8 = 0;
const FINALIZING: u8 = 1;
const LEFT: u8 = 2;

/// This node's part in its job.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    state: AtomicU8,
    leaving: AtomicBool,
    /// The thread that called for the end; 0 before.
    finalizer: AtomicI32,
    /// 1 when that thread's call is through, whatever came of it.
    through: AtomicU32,
    /// Threads that wait for that call.
    awaiting: AtomicU32,
    /// The thread in which the process ends, if that is why this node leaves; 0 before.
    exiting: AtomicI32,
}

/// What the loss of a peer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LossMeaning {
    /// The job is over, and the peer was quicker.
    Expected,
    /// The job cannot go on, for this reason.
    EndsJob(String),
}

/// The call for the end is under way for as long as this lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Finalizing<'a>(&'a Membership);

impl Drop for Finalizing<'_> {
    fn drop(&mut self) {
        self.0.through.store(1, Ordering::Release);
        futex_wake(&self.0.through);
    }
}

impl Membership {
    /// A peer's link has ended, or it did what no correct peer does, or went beyond a limit.
    pub(crate) fn meaning_of_loss(&self, reason: &LostReason) -> LossMeaning {
        match reason {
            // Who has passed the leaving barrier may go before we have.
            LostReason::Left if self.is_finalizing() => LossMeaning::Expected,
            // It has left, and nobody waits any more for what was to be said to it.
            LostReason::Unreached(_) if self.is_finalizing() => LossMeaning::Expected,
            LostReason::Left => {
                LossMeaning::EndsJob("it left without waiting for the others".into())
            }
            LostReason::Died
            | LostReason::Failed(_)
            | LostReason::Violation(_)
            | LostReason::BeyondLimit(_)
            | LostReason::Unreached(_) => LossMeaning::EndsJob(reason.to_string()),
        }
    }

    /// The program calls for the end in this thread; none if it has done so before.
    pub(crate) fn finalize(&self, thread: i32) -> Option<Finalizing<'_>> {
        let (from, to) = (0, thread);
        self.finalizer.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        self.state.store(FINALIZING, Ordering::Release);
        Some(Finalizing(self))
    }

    /// Waits until the call for the end is through, which another thread than this one has made. (A handler
    /// of a signal may end the process in the midst of its own thread's call.)
    pub(crate) fn await_finalizer(&self, thread: i32) {
        if self.finalizer.load(Ordering::Acquire) == thread {
            return;
        }
        self.awaiting.fetch_add(1, Ordering::AcqRel);
        while self.through.load(Ordering::Acquire) == 0 {
            futex_wait(&self.through, 0);
        }
        self.awaiting.fetch_sub(1, Ordering::AcqRel);
        futex_wake(&self.through);
    }

    /// Threads that go on when another one of this process, which calls for the end, does.
    pub(crate) fn awaiting_finalizer(&self) -> u64 {
        self.awaiting.load(Ordering::Acquire).into()
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
        let too_early = LossMeaning::EndsJob("it left without waiting for the others".into());
        let unreached = LostReason::Unreached("cannot connect to n1".into());
        assert_eq!(membership.meaning_of_loss(&LostReason::Left), too_early);
        assert!(matches!(membership.meaning_of_loss(&unreached), LossMeaning::EndsJob(_)));
        let finalizing = membership.finalize(1);
        assert!(finalizing.is_some() && membership.finalize(2).is_none(), "once");
        assert_eq!(membership.meaning_of_loss(&LostReason::Left), LossMeaning::Expected);
        assert_eq!(membership.meaning_of_loss(&unreached), LossMeaning::Expected);
        assert!(matches!(membership.meaning_of_loss(&LostReason::Died), LossMeaning::EndsJob(_)));
        let violation = LostReason::Violation("a kind that makes no sense".into());
        assert!(
            matches!(membership.meaning_of_loss(&violation), LossMeaning::EndsJob(_)),
            "whenever it is"
        );
        assert!(membership.is_member() && !membership.is_leaving());
        membership.has_left();
        assert!(!membership.is_member());
    }

    /// Whether a thread runs still, and does not sleep.
    #[cfg(not(any(miri, feature = "shuttle", feature = "loom")))]
    fn is_awake(thread: rustix::thread::Pid) -> bool {
        let stat = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
        std::fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") S "))
    }

    #[cfg(not(any(miri, feature = "shuttle", feature = "loom")))]
    #[test]
    fn who_ends_the_process_waits_for_the_thread_that_called_for_the_end_and_not_for_itself() {
        let membership = Membership::default();
        let through = AtomicBool::new(false);
        let finalizing = membership.finalize(1);
        membership.await_finalizer(1);
        std::thread::scope(|scope| {
            let (begins, begun) = std::sync::mpsc::channel();
            for thread in 2..5 {
                let (membership, through, begins) = (&membership, &through, begins.clone());
                scope.spawn(move || {
                    begins.send(rustix::thread::gettid()).unwrap();
                    membership.await_finalizer(thread);
                    assert!(through.load(Ordering::Acquire));
                });
            }
            for thread in begun.iter().take(3) {
                while is_awake(thread) {
                    std::thread::yield_now();
                }
            }
            assert_eq!(membership.awaiting_finalizer(), 3);
            through.store(true, Ordering::Release);
            drop(finalizing);
        });
    }
}
