//! Diffs: made from twins and sent; received, pending until their round is complete, then merged (MGS 3.2,
//! ParADE).

use multigrain_memory::diff::{self, Diff, DiffError, Others};
use multigrain_protocol::Message;
use multigrain_types::{Access, MinipageId, NodeId};

use super::RealWorld;
use crate::frames::header_of;
use crate::shim::lock;
use crate::stats::Count;

impl<'a> RealWorld<'a> {
    /// The diff of the message at hand, if it is about this minipage and not used up.
    fn take_held(&mut self, minipage: MinipageId) -> Option<&'a [u8]> {
        self.held.take_if(|(of, _)| *of == minipage).map(|(_, diff)| diff)
    }

    /// The step has not used up the diff that came.
    pub(super) fn buffer_received(&mut self) {
        if let Some((minipage, diff)) = self.held.take() {
            let (_, len) = self.platform().memory().privileged(minipage);
            if let Err(error) = Diff::check(diff, len) {
                self.refuse_diff(minipage, &error);
            }
            if !lock(&self.engine.pending_diffs).keep(self.from, minipage, diff) {
                let what = "it sends more diffs than are pending".to_owned();
                self.platform().peer_broke(self.from, what);
            }
        }
    }

    /// The diff that came makes no sense. One that is pending made sense when it came.
    fn refuse_diff(&self, minipage: MinipageId, error: &DiffError) -> ! {
        let what = format!("a diff of {minipage} makes no sense: {error}");
        if self.from == self.platform().me() {
            self.platform().fatal(&what);
        }
        self.platform().peer_broke(self.from, what)
    }

    /// Writes what is named by a diff.
    fn merge(&self, minipage: MinipageId, diff: &[u8], others: Others) {
        let (page, len) = self.platform().memory().privileged(minipage);
        // SAFETY: the privileged view is writable for the length of the minipage.
        if let Err(error) = unsafe { diff::apply(diff, page, len, others) } {
            self.refuse_diff(minipage, &error);
        }
    }

    /// Sends what this node wrote since it made the twin, which is used up. A flush has many of
    /// them, so they go together.
    pub(super) fn send_diff(&self, to: NodeId, message: Message, minipage: MinipageId) {
        let (page, _) = self.platform().memory().privileged(minipage);
        let twin = self.engine.twins.take(minipage);
        let encode = |out: &mut Vec<u8>| {
            if let Some(twin) = &twin {
                // SAFETY: the privileged view is readable for the length of the minipage, which is
                // that of its twin.
                unsafe { diff::encode(twin, page, out) };
            }
        };
        let keep = || self.platform().defer_with(to, header_of(message), encode);
        if let Some(bytes) = self.platform().mesh().unsolicited(to, keep) {
            let counters = &self.platform().counters();
            counters.add(Count::DiffsSent, 1);
            counters.add(Count::DiffBytesSent, bytes);
        }
    }

    /// Closes a minipage that was opened ahead if nobody has written it; true if it did.
    pub(super) fn close_as_its_twin(&mut self, minipage: MinipageId) -> bool {
        let (page, _) = self.platform().memory().privileged(minipage);
        // SAFETY: the privileged view is readable for the length of the minipage.
        let differs = || unsafe { self.engine.twins.differs(minipage, page) };
        let is_closed = self.is_closed(minipage);
        let mut written = differs();
        if !written {
            self.protect_at_once(minipage, Access::ReadWrite, Access::ReadOnly);
            // A thread may have written between the look and the closing.
            // SAFETY: as above.
            written = !is_closed && unsafe { self.engine.twins.differs(minipage, page) };
            if written {
                self.protect_at_once(minipage, Access::ReadOnly, Access::ReadWrite);
            }
        }
        self.engine.writes.closed(minipage, written);
        !written
    }

    /// Merges all diffs of a round; `open`: threads of this node may be writing the minipage.
    pub(super) fn merge_pending(&mut self, minipage: MinipageId, open: bool) {
        let pending = lock(&self.engine.pending_diffs).take(minipage);
        let mut diffs: Vec<&[u8]> = pending.iter().map(Vec::as_slice).collect();
        diffs.extend(self.take_held(minipage));
        self.engine.races().close_watched(minipage);
        // A round without writers, as that of a page that is fetched for the first time, goes on with its run.
        if diffs.is_empty() {
            return;
        }
        self.at_once();
        let others = if open { Others::Write } else { Others::Read };
        for diff in diffs {
            self.merge(minipage, diff, others);
        }
    }

    /// Sends the oldest diff on to where the home has moved.
    pub(super) fn pass_pending(&mut self, to: NodeId, message: Message) {
        let Some(minipage) = message.minipage() else { return };
        let platform = self.at_once();
        self.buffer_received();
        let oldest = lock(&self.engine.pending_diffs).take_oldest(minipage);
        platform.defer_with(to, header_of(message), |out| out.extend(oldest));
    }
}
