//! The real world: effects of the protocol become protections, frames and wake-ups.

#![expect(unsafe_code, reason = "page bytes are sent straight from the privileged view")]

use core::sync::atomic::Ordering;
use std::sync::Once;

use multigrain_memory::diff::{self, Diff, DiffError, Others};
use multigrain_protocol::release::WriteNotices;
use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{
    Attach, HlrcMessage, Input, Message, Node, PageMessage, ReleaseWorld, SyncMessage, Violation,
    World,
};
use multigrain_transport::{Header, LinkError, LostReason, Payload};
use multigrain_types::{Access, Consistency, MinipageId, NodeId, ThreadId};

use crate::boot::Runtime;
use crate::control::kind;
use crate::error::Error;
use crate::headers::{header_of, words_of};
use crate::parking::Waking;
use crate::slots;
use crate::tables::lock;

/// The runtime as the protocol sees it, for the length of one step.
pub(crate) struct RealWorld<'a> {
    runtime: &'a Runtime,
    /// Who sent the message at hand; this node itself for anything else.
    from: NodeId,
    /// The diff that came with the message at hand.
    diff: Option<&'a [u8]>,
    /// What [`ReleaseWorld::buffer_diff`] keeps, as long as the step may use it up.
    held: Option<(MinipageId, &'a [u8])>,
    /// Write notices that go with the next message to this node.
    news: Option<(NodeId, Vec<u8>)>,
    /// Requests go together: the caller sends what is kept.
    gather: bool,
    /// What [`ReleaseWorld::closing`] has closed, as long as nothing was opened since.
    closed: Option<Closed>,
}

/// Runs of minipages whose threads cannot write any more, though their states say so.
struct Closed {
    runs: Vec<(MinipageId, u32)>,
    /// [`Runtime::opened`] before they were closed.
    opened: u64,
}

impl Closed {
    fn contains(&self, minipage: MinipageId) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= minipage);
        self.runs[..after].last().is_some_and(|(first, count)| {
            first.area() == minipage.area() && minipage.index() - first.index() < *count
        })
    }
}

/// Answers of at most so many bytes are copied to go together: a page's worth of small minipages is
/// one message.
const SMALL: usize = 2048;

/// While more bytes wait for a peer, answers to it are not copied.
const COPIED: usize = 1 << 20;

/// Notices, or moves, in one frame.
const NEWS_PART: usize = 50_000;

impl Runtime {
    /// One protocol step. A program's misuse is returned; a peer's violation ends the node.
    pub(crate) fn step(&self, input: Input) -> Result<(), Error> {
        self.step_with(input, None, false)
    }

    /// The step of a message that has arrived, with its diff.
    pub(crate) fn step_received(&self, from: NodeId, message: Message, diff: Option<&[u8]>) {
        if let Err(error) = self.step_with(Input::Message { from, message }, diff, false) {
            self.fatal(&error.to_string());
        }
    }

    fn step_with(&self, input: Input, diff: Option<&[u8]>, gather: bool) -> Result<(), Error> {
        let from = if let Input::Message { from, .. } = input { from } else { self.me };
        let mut node = Node { me: self.me, nodes: self.nodes, tables: &self.tables };
        let mut world =
            RealWorld { runtime: self, from, diff, held: None, news: None, gather, closed: None };
        let done = {
            #[cfg(feature = "mutants")]
            let mut world = crate::mutants::Bent::new(&mut world);
            node.step(input, &mut world)
        };
        world.finish();
        match done {
            Ok(()) => Ok(()),
            Err(Violation::Misuse(text)) => Err(Error::NotPermitted(text)),
            Err(Violation::Limit { from, text }) if from == self.me => {
                // A C program sees the code alone.
                static TOLD: Once = Once::new();
                TOLD.call_once(|| crate::report::last_words(self.me, &text));
                Err(Error::Limit(text))
            }
            Err(Violation::Limit { from, text }) => self.peer_broke(from, text),
            Err(Violation::Peer { from, role, state, event }) if from != self.me => {
                self.peer_broke(from, format!("{event} for the {role} in state {state}"))
            }
            Err(violation) => self.fatal(&violation.to_string()),
        }
    }

    /// A peer did what no correct one does: it is lost.
    pub(crate) fn peer_broke(&self, peer: NodeId, what: String) -> ! {
        self.peer_lost(peer, &LostReason::Violation(what).to_string())
    }

    /// A step that no program can misuse.
    pub(crate) fn step_sure(&self, input: Input) {
        if let Err(error) = self.step(input) {
            self.fatal(&error.to_string());
        }
    }

    /// A step whose requests for lazily consistent minipages are kept, to go with others to the same
    /// node; the caller sends them.
    pub(crate) fn step_gathered(&self, input: Input) {
        if let Err(error) = self.step_with(input, None, true) {
            self.fatal(&error.to_string());
        }
    }

    /// Wakes a thread of this node, wherever it waits.
    pub(crate) fn wake_thread(&self, thread: ThreadId) {
        let Some(slot) = slots::slot(thread) else { return };
        // A thread that wakes itself is not asleep.
        let own = slots::held() == Some(thread);
        if slot.word.wake(own) == Waking::KickMesh && !own {
            self.mesh.wake();
        }
    }

    /// Sends a frame; a peer that is gone is noticed by the receiver, not here.
    pub(crate) fn send_frame(&self, to: NodeId, header: Header, payload: Payload<'_>) {
        // SAFETY: memory payloads come from `RealWorld::send`, which says why they stay unchanged.
        self.check_sent(to, unsafe { self.mesh.send(to, header, payload) });
    }

    fn check_sent(&self, to: NodeId, sent: Result<(), LinkError>) {
        match sent {
            Ok(()) | Err(LinkError::Gone { .. }) => {}
            Err(error) => self.fatal(&format!("cannot send to {to}: {error}")),
        }
    }
}

impl<'a> RealWorld<'a> {
    /// A minipage has been opened; its lock is held.
    fn count_opened(&self, access: Access) {
        if access == Access::ReadWrite {
            self.runtime.opened.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether no thread of this node can write the minipage since [`ReleaseWorld::closing`]. Whoever
    /// opens one counts when it is open and before it gives up the lock, which the caller holds
    /// now; so whatever was opened after it was closed has been counted.
    fn is_closed(&self, minipage: MinipageId) -> bool {
        self.closed.as_ref().is_some_and(|closed| {
            closed.contains(minipage)
                && closed.opened == self.runtime.opened.load(Ordering::Relaxed)
        })
    }

    /// Keeps a frame with a payload, to go with others to the same node; the payload's length, if the
    /// peer is there.
    fn keep_with(
        &self,
        to: NodeId,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Option<u64> {
        match self.runtime.mesh.keep_with(to, header, fill) {
            Ok(bytes) => Some(bytes),
            Err(LinkError::Gone { .. }) => None,
            Err(error) => self.runtime.fatal(&format!("cannot send to {to}: {error}")),
        }
    }

    /// One acknowledgement for two, of diffs of one flush. Not where homes go from hand to hand, for
    /// there each minipage counts its own.
    fn join(&self, last: &Header, message: Message) -> Option<Header> {
        use HlrcMessage::DiffAck;
        let last = Message::from_words(&words_of(last)).ok()?;
        let (
            Message::Hlrc { minipage, body: DiffAck { flush, count } },
            Message::Hlrc { minipage: other, body: DiffAck { flush: same, count: more } },
        ) = (last, message)
        else {
            return None;
        };
        let stays = |of| self.runtime.tables.consistency_of(of) == Consistency::LazyRelease;
        if flush != same || !stays(minipage) || !stays(other) {
            return None;
        }
        let count = count.checked_add(more)?;
        Some(header_of(DiffAck { flush, count }.about(minipage)))
    }

    /// The diff of the message at hand, if it is about this minipage and not used up.
    fn take_held(&mut self, minipage: MinipageId) -> Option<&'a [u8]> {
        self.held.take_if(|(of, _)| *of == minipage).map(|(_, diff)| diff)
    }

    /// The step is done: what it has left over waits.
    fn finish(&mut self) {
        self.keep_held();
        self.keep_news();
    }

    /// Write notices that no message of this step takes along.
    fn keep_news(&mut self) {
        if let Some((to, news)) = self.news.take() {
            let header = Header { kind: kind::NEWS, ..Header::default() };
            self.keep_with(to, header, |out| out.extend(news));
        }
    }

    /// The step has not used up the diff that came.
    fn keep_held(&mut self) {
        if let Some((minipage, diff)) = self.held.take() {
            let (_, len) = self.runtime.memory.privileged(minipage);
            if let Err(error) = Diff::check(diff, len) {
                self.refuse_diff(minipage, &error);
            }
            lock(&self.runtime.kept_diffs).entry(minipage).or_default().push(diff.to_vec());
        }
    }

    /// The diff that came makes no sense. One that is kept made sense when it came.
    fn refuse_diff(&self, minipage: MinipageId, error: &DiffError) -> ! {
        let what = format!("a diff of {minipage} makes no sense: {error}");
        if self.from == self.runtime.me {
            self.runtime.fatal(&what);
        }
        self.runtime.peer_broke(self.from, what)
    }

    /// Writes what is named by a diff.
    fn merge(&self, minipage: MinipageId, diff: &[u8], others: Others) {
        let (page, len) = self.runtime.memory.privileged(minipage);
        // SAFETY: the privileged view is writable for the length of the minipage.
        if let Err(error) = unsafe { diff::apply(diff, page, len, others) } {
            self.refuse_diff(minipage, &error);
        }
    }

    /// Sends what this node wrote since it made the twin, which is used up. A flush has many of
    /// them, so they go together.
    fn send_diff(&self, to: NodeId, message: Message, minipage: MinipageId) {
        let (page, _) = self.runtime.memory.privileged(minipage);
        let twin = self.runtime.twins.take(minipage);
        let encode = |out: &mut Vec<u8>| {
            if let Some(twin) = &twin {
                // SAFETY: the privileged view is readable for the length of the minipage, which is
                // that of its twin.
                unsafe { diff::encode(twin, page, out) };
            }
        };
        let keep = || self.keep_with(to, header_of(message), encode);
        if let Some(bytes) = self.runtime.mesh.unasked(to, keep) {
            let counters = &self.runtime.counters;
            counters.diffs_sent.fetch_add(1, Ordering::Relaxed);
            counters.diff_bytes_sent.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// Appends a minipage as it is now; threads may write it meanwhile.
///
/// # Safety
/// `page` is readable for `len` bytes.
unsafe fn append(page: *const u8, len: usize, out: &mut Vec<u8>) {
    out.reserve(len);
    let room = out.spare_capacity_mut();
    // SAFETY: `page` is readable as the caller says, and there is room for `len` bytes.
    unsafe { core::ptr::copy_nonoverlapping(page, room.as_mut_ptr().cast::<u8>(), len) };
    let whole = out.len() + len;
    // SAFETY: these bytes have just been written.
    unsafe { out.set_len(whole) };
}

/// Whether all bytes of a minipage are zero.
fn is_zero(page: *const u8, len: usize) -> bool {
    // SAFETY: callers give a minipage's place in the privileged view, readable for its length.
    (0..len).all(|index| unsafe { page.wrapping_add(index).read_volatile() } == 0)
}

impl World for RealWorld<'_> {
    fn asks(&mut self, asked: &SyncInput) {
        self.runtime.order_asks(asked);
    }

    fn posts(&mut self, to: NodeId, id: u32, message: SyncMessage) {
        self.runtime.order_posts(to, id, message);
    }

    fn takes(&mut self, from: NodeId, id: u32, message: SyncMessage) {
        self.runtime.order_takes(from, id, message);
    }

    fn send_deferred(&mut self, to: NodeId, message: Message) {
        let header = header_of(message);
        let kept = if let Message::Hlrc { .. } = message {
            // The acknowledgements of a flush are as many as its diffs: they go together like them,
            // and most as one.
            self.runtime.mesh.keep_or_join(to, header, |last| self.join(last, message))
        } else {
            self.runtime.mesh.keep(to, header)
        };
        self.runtime.check_sent(to, kept);
    }

    fn send(&mut self, to: NodeId, message: Message) {
        self.runtime.order_leaves(to, message);
        let header = header_of(message);
        let payload = match (message.attach(), message.minipage()) {
            (Attach::Page, Some(minipage)) => {
                let (ptr, len) = self.runtime.memory.privileged(minipage);
                self.runtime.counters.page_bytes_sent.fetch_add(len as u64, Ordering::Relaxed);
                // An answer: it goes with others to who asked for several, when all that has come
                // is answered.
                if matches!(message, Message::Hlrc { .. })
                    && len <= SMALL
                    && self.runtime.mesh.waiting_bytes(to) <= COPIED
                {
                    self.keep_with(to, header, |out| {
                        // SAFETY: the privileged view is readable for the length of the minipage.
                        unsafe { append(ptr, len, out) };
                    });
                    return;
                }
                // Sequential: the bytes stay unchanged until the requester's ack closes the
                // transaction: this node is ReadOnly or NoAccess now and nobody else is served
                // before that. Release consistent: what changes meanwhile was not released to the
                // requester, who does not look at it.
                Payload::Memory { ptr, len }
            }
            (Attach::Diff, Some(minipage)) => return self.send_diff(to, message, minipage),
            (Attach::Nothing | Attach::Page | Attach::Diff, _) => Payload::None,
        };
        if let Message::Sync { .. } = message
            && let Some((_, news)) = self.news.take_if(|(of, _)| *of == to)
        {
            return self.runtime.send_frame(to, header, Payload::Bytes(&news));
        }
        if self.gather && matches!(message, Message::Hlrc { body: HlrcMessage::Fetch { .. }, .. }) {
            self.keep_with(to, header, |_| ());
            return;
        }
        if let Message::Page { body: PageMessage::Request { .. }, .. } = message {
            // The manager answers first, and then closes what acks of the past close.
            let words = words_of(&header);
            let passes = |kept: &Header| words.may_pass(&words_of(kept));
            return self.runtime.check_sent(to, self.runtime.mesh.send_past(to, header, passes));
        }
        self.runtime.send_frame(to, header, payload);
    }

    fn install(&mut self, minipage: MinipageId, access: Access) {
        // The bytes lie in the privileged view already: the receiver put them there.
        self.protect(minipage, Access::NoAccess, access);
    }

    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        let counters = &self.runtime.counters;
        match (from, to) {
            (Access::ReadOnly, Access::ReadWrite) => {
                counters.upgrades.fetch_add(1, Ordering::Relaxed);
            }
            (Access::ReadOnly | Access::ReadWrite, Access::NoAccess) => {
                counters.invalidations.fetch_add(1, Ordering::Relaxed);
            }
            (Access::NoAccess, _) | (Access::ReadWrite, _) | (_, Access::ReadOnly) => {}
        }
        if to == Access::ReadWrite {
            self.runtime.watch(minipage);
        }
        if to < from {
            self.runtime.taken(minipage);
        }
        let closes = (from, to) == (Access::ReadWrite, Access::ReadOnly);
        if !(closes && self.is_closed(minipage))
            && let Err(error) = self.runtime.memory.protect(minipage, from, to)
        {
            self.runtime.fatal(&error.to_string());
        }
        self.count_opened(to);
        if to != Access::ReadWrite {
            self.runtime.unwatch(minipage);
        }
    }

    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        if access == Access::ReadWrite {
            self.runtime.watch(minipage);
        }
        if let Err(error) = self.runtime.memory.reprotect(minipage, access) {
            self.runtime.fatal(&error.to_string());
        }
        self.count_opened(access);
    }

    fn wake(&mut self, thread: ThreadId) {
        self.runtime.wake_thread(thread);
    }

    fn hold(&mut self, thread: ThreadId, _: MinipageId, turns: u16, urgent: bool) {
        if let Some(slot) = slots::slot(thread) {
            slot.tell_to_hold(turns, urgent);
        }
    }

    fn reclaimed(&mut self, minipage: MinipageId) {
        self.runtime.reclaimed(minipage);
    }

    fn competing(&mut self, _: MinipageId) {
        self.runtime.counters.competing.fetch_add(1, Ordering::Relaxed);
    }

    fn release(&mut self) -> Option<&mut dyn ReleaseWorld> {
        Some(self)
    }
}

impl ReleaseWorld for RealWorld<'_> {
    fn track(&mut self, minipage: MinipageId, from: Access) {
        if let Err(error) = self.runtime.memory.watch(minipage, from) {
            self.runtime.fatal(&error.to_string());
        }
        self.count_opened(Access::ReadWrite);
    }

    fn written(&mut self) -> Vec<MinipageId> {
        let mut found = Vec::new();
        if let Err(error) = self.runtime.memory.written(&mut |minipage| found.push(minipage)) {
            self.runtime.fatal(&error.to_string());
        }
        found
    }

    fn send_notices(&mut self, to: NodeId, news: WriteNotices) {
        let mut parts = news.into_parts(NEWS_PART);
        let count = |part: &WriteNotices| {
            let notices = part.notices.len() as u64;
            self.runtime.counters.notices.fetch_add(notices, Ordering::Relaxed);
        };
        parts.iter().for_each(count);
        // The last goes with what they are about, which comes right behind them.
        self.news = parts.pop().map(|last| (to, last.to_bytes()));
        for part in parts {
            let header = Header { kind: kind::NEWS, ..Header::default() };
            self.keep_with(to, header, |out| out.extend(part.to_bytes()));
        }
    }

    fn send_notices_alone(&mut self) {
        self.keep_news();
    }

    fn closing(&mut self, minipages: &[MinipageId]) {
        // Before they are closed, on every processor: what is opened after it counts as opened since.
        let opened = self.runtime.opened.load(Ordering::Acquire);
        let mut runs: Vec<(MinipageId, u32)> = Vec::new();
        for &minipage in minipages {
            match runs.last_mut() {
                Some((first, count)) if first.0 + u64::from(*count) == minipage.0 => *count += 1,
                Some(_) | None => runs.push((minipage, 1)),
            }
        }
        // One alone costs the same later, under its lock.
        runs.retain(|(_, count)| *count > 1);
        runs.retain(|&(first, count)| match self.runtime.memory.restrict_run(first, count) {
            Ok(closed) => closed,
            Err(error) => self.runtime.fatal(&error.to_string()),
        });
        self.closed = Some(Closed { runs, opened });
    }

    fn send_batched(&mut self) {
        self.runtime.mesh.send_lazy();
    }

    fn make_twin(&mut self, minipage: MinipageId) {
        let (page, len) = self.runtime.memory.privileged(minipage);
        self.runtime.counters.twins.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the privileged view is readable for the length of the minipage.
        unsafe { self.runtime.twins.make(minipage, page, len) };
    }

    fn drop_twin(&mut self, minipage: MinipageId) {
        drop(self.runtime.twins.take(minipage));
    }

    fn store(&mut self, _: MinipageId) {
        // The bytes lie in the privileged view already: the receiver put them there.
    }

    fn buffer_diff(&mut self, minipage: MinipageId) {
        self.held = Some((minipage, self.diff.take().unwrap_or_default()));
    }

    fn merge_diffs(&mut self, minipage: MinipageId, open: bool) {
        let kept = lock(&self.runtime.kept_diffs).remove(&minipage).unwrap_or_default();
        let mut diffs: Vec<&[u8]> = kept.iter().map(Vec::as_slice).collect();
        diffs.extend(self.take_held(minipage));
        self.runtime.close_watched(minipage);
        let others = if open { Others::Write } else { Others::Read };
        for diff in diffs {
            self.merge(minipage, diff, others);
        }
    }

    fn forward_diff(&mut self, to: NodeId, message: Message) {
        let Some(minipage) = message.minipage() else { return };
        self.keep_held();
        let oldest = {
            let mut all = lock(&self.runtime.kept_diffs);
            let kept = all.entry(minipage).or_default();
            let oldest = if kept.is_empty() { Vec::new() } else { kept.remove(0) };
            if kept.is_empty() {
                all.remove(&minipage);
            }
            oldest
        };
        self.keep_with(to, header_of(message), |out| out.extend(oldest));
    }

    fn install_zero(&mut self, minipage: MinipageId, access: Access) {
        let (page, len) = self.runtime.memory.privileged(minipage);
        // SAFETY: the privileged view is writable for the length of the minipage.
        unsafe { core::ptr::write_bytes(page, 0, len) };
        self.protect(minipage, Access::NoAccess, access);
    }

    fn close_if_zero(&mut self, minipage: MinipageId) -> bool {
        let (page, len) = self.runtime.memory.privileged(minipage);
        if !is_zero(page, len) {
            return false;
        }
        self.protect(minipage, Access::ReadWrite, Access::NoAccess);
        // A thread may have written between the look and the closing.
        let zero = is_zero(page, len);
        if !zero {
            self.protect(minipage, Access::NoAccess, Access::ReadWrite);
        }
        zero
    }
}
