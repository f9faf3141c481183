//! Back-pressure: a thread that sends without waiting for an answer waits for room instead, once enough
//! waits for the receiver. A node that is slow, or stopped, slows down its senders; it does not fill their memory.
//!
//! Any thread may wait so, with no lock held. The service thread, or the thread with the receiver's role, goes on
//! receiving meanwhile: so nodes that wait for room at each other make it, and the loss of a peer ends the node
//! as ever. Nor does the thread that waits keep a minipage that others want.

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants::Mutant;
use multigrain_types::NodeId;

use super::{Driver, WaitReason};
use crate::error::Error;
#[cfg(feature = "mutants")]
use crate::mutants::bound;
use crate::time_windows::now_ns;

/// Bytes that may wait for a peer before those who send of their own accord wait.
const WAITING: usize = 4 << 20;
/// Messages that may wait in the tracker for flushes to end.
const HELD: usize = 1 << 16;

impl Driver {
    /// After something was sent to a peer that does not answer.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub(crate) fn apply_back_pressure(&self, to: NodeId) -> Result<(), Error> {
        let (room, most) = (WAITING, HELD);
        #[cfg(feature = "mutants")]
        let (room, most) = (
            bound(Mutant::named("posts-without-room"), room),
            bound(Mutant::named("held-without-end"), most),
        );
        while self.mesh().waiting_bytes(to) > room {
            self.forget_access();
            self.wait_for_room(to);
        }
        if self.tables().withheld() > most {
            self.release()?;
        }
        Ok(())
    }

    /// The same, whoever it was sent to.
    pub(crate) fn apply_back_pressure_to_all(&self) {
        let room = WAITING;
        #[cfg(feature = "mutants")]
        let room = bound(Mutant::named("hints-without-room"), room);
        while let Some(to) = self.mesh().most_waiting(room) {
            self.forget_access();
            self.wait_for_room(to);
        }
    }

    fn wait_for_room(&self, to: NodeId) {
        let since_ns = now_ns();
        self.mesh().wait_for_room(to);
        self.count_wait(WaitReason::Other, since_ns, now_ns());
    }
}
