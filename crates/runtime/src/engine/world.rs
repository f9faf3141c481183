//! The real world: effects of the protocol become protections, frames and wake-ups.

#![expect(unsafe_code, reason = "page bytes are sent straight from the privileged view")]

mod contents;
mod diffs;
mod first_touch;
mod joined_effects;

use std::sync::Arc;

use multigrain_protocol::release::WriteNotices;
use multigrain_protocol::send_timing::{SendContext, SendTiming, send_timing};
use multigrain_protocol::sync::{Operand, SyncInput};
use multigrain_protocol::{
    Attach, HlrcMessage, Homes, Message, ReleaseWorld, SyncMessage, Turns, World,
};
use multigrain_transport::{Header, Payload};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};
use smallvec::SmallVec;

use super::Engine;
use super::write_protected::Closed;
use crate::frames::{DriverFrame, header_of, words_of};
use crate::minipage_run::Run;
use crate::platform::Platform;
use crate::receiver::slots;
use crate::shim::lock;
use crate::stats::Count;
use contents::append;
use joined_effects::JoinedEffects;

/// The runtime as the protocol sees it, for the length of one step.
pub(super) struct RealWorld<'a> {
    engine: &'a Engine,
    /// The sender of the message at hand; this node itself for anything else.
    from: NodeId,
    /// The diff that came with the message at hand.
    diff: Option<&'a [u8]>,
    /// What [`ReleaseWorld::buffer_diff`] keeps, as long as the step may use it up.
    held: Option<(MinipageId, &'a [u8])>,
    /// Write notices that go with the next message to this node.
    notices: Option<(NodeId, Vec<u8>)>,
    /// Requests go together, and the caller sends what is pending (`batching`); contents that leave are wanted, and no thread
    /// waits for them yet (`later`).
    timing: SendContext,
    /// A thread asks for a lock in this step, and nothing has been sent for it yet.
    asks_lock: bool,
    /// What [`ReleaseWorld::closing`] or [`ReleaseWorld::losing`] has closed, as long as nothing was opened since.
    closed: Option<Closed>,
    /// What the steps of a run want done.
    gathered: Option<JoinedEffects>,
    /// Threads to wake when the step is done, and no lock of it is held: they would run into that.
    woken: SmallVec<[ThreadId; 4]>,
}

/// Notices, or moves, in one frame: with both and numbers as long as can be, three quarters of a MiB, which a receiver takes.
const NOTICES_IN_A_FRAME: usize = 20_000;

impl<'a> RealWorld<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        from: NodeId,
        diff: Option<&'a [u8]>,
        batches: bool,
    ) -> Self {
        Self {
            engine,
            from,
            diff,
            held: None,
            notices: None,
            timing: SendContext { batching: batches, ..SendContext::default() },
            asks_lock: false,
            closed: None,
            gathered: None,
            woken: SmallVec::new(),
        }
    }

    /// For the steps of a run that comes from `from`: the caller holds the locks of all its minipages until
    /// [`RealWorld::finish`] has returned.
    pub(super) fn of_run(engine: &'a Engine, from: NodeId, batches: bool) -> Self {
        Self { gathered: Some(JoinedEffects::default()), ..Self::new(engine, from, None, batches) }
    }

    /// The step is of this message, if it is of any.
    pub(super) fn answering(self, message: Option<Message>) -> Self {
        let Some(Message::Hlrc { body: HlrcMessage::Fetch { waits, .. }, minipage }) = message
        else {
            return self;
        };
        // What may go compressed goes by itself.
        let compresses = self.platform().tables().contents(minipage.area()).is_some();
        let timing = SendContext { later: !waits && !compresses, ..self.timing };
        Self { timing, ..self }
    }

    fn platform(&self) -> &'a Platform {
        &self.engine.platform
    }

    /// A minipage has been opened; its lock is held.
    fn count_opened(&self, access: Access) {
        self.engine.openings.count(access);
    }

    /// Whether no thread of this node can write the minipage since [`ReleaseWorld::closing`].
    fn is_closed(&self, minipage: MinipageId) -> bool {
        self.is_changed(Run::one(minipage), (Access::ReadWrite, Access::ReadOnly))
    }

    /// Whether this change of protection has been made already.
    fn is_changed(&self, run: Run, change: (Access, Access)) -> bool {
        let closed = self.closed.as_ref();
        closed.is_some_and(|closed| closed.still(run, change, &self.engine.openings))
    }

    /// Makes a change of protection of many before their steps do.
    fn close(&mut self, minipages: &[MinipageId], change: (Access, Access)) {
        let openings = &self.engine.openings;
        let memory = self.platform().memory();
        let closed = Closed::close(
            minipages,
            change,
            (self.platform().tables(), openings),
            |run, change| memory.restrict_run(run.first(), run.count(), change),
        );
        self.closed =
            Some(closed.unwrap_or_else(|error| self.platform().fatal(&error.to_string())));
    }

    /// When a message goes, `last` being the last of the batch for the same node.
    #[inline]
    fn send_timing(
        &self,
        message: Message,
        context: SendContext,
        last: Option<Message>,
    ) -> SendTiming {
        send_timing(message, context, last, |minipage| {
            Homes::of(self.platform().tables().consistency_of(minipage)) != Homes::Dynamic
        })
    }

    /// A minipage is about to be protected; its lock is held.
    fn count_change(&self, minipage: MinipageId, from: Access, to: Access) {
        let counters = &self.platform().counters();
        match (from, to) {
            (Access::ReadOnly, Access::ReadWrite) => {
                counters.add(Count::Upgrades, 1);
            }
            (Access::ReadOnly | Access::ReadWrite, Access::NoAccess) => {
                counters.add(Count::Invalidations, 1);
            }
            (Access::NoAccess, _) | (Access::ReadWrite, _) | (_, Access::ReadOnly) => {}
        }
        if to == Access::ReadWrite {
            self.engine.races().watch(minipage);
        }
        if to < from {
            self.engine.windows.revoked(minipage);
        }
    }

    /// Protects neighbours that are alike; their locks are held. What [`ReleaseWorld::closing`] and
    /// [`ReleaseWorld::losing`] have closed and nobody opened since is closed already.
    fn change_protection(&self, run: Run, from: Access, to: Access) {
        // Before any thread can write it.
        if from == Access::NoAccess
            && let Some(sharing) = &self.engine.sharing
            && !self.platform().tables().consistency_of(run.first()).is_sequential()
        {
            run.minipages().for_each(|minipage| sharing.relaxed().comes(minipage, self.platform()));
        }
        if !self.is_changed(run, (from, to))
            && let Err(error) =
                self.platform().memory().protect_run(run.first(), run.count(), from, to)
        {
            self.platform().fatal(&error.to_string());
        }
        self.count_sharing(run, (from, to));
        if to > from {
            self.count_opened(to);
        }
        if to != Access::ReadWrite && self.engine.races().are_checked() {
            run.minipages().for_each(|minipage| self.engine.races().unwatch(minipage));
        }
    }

    /// For the summary.
    fn count_sharing(&self, run: Run, (from, to): (Access, Access)) {
        let Some(sharing) = &self.engine.sharing else { return };
        let goes = to == Access::NoAccess;
        if self.platform().tables().consistency_of(run.first()).is_sequential() {
            if from == Access::NoAccess || goes {
                run.minipages().for_each(|at| sharing.on_change(at, to, self.platform()));
            }
        } else if goes {
            run.minipages().for_each(|at| sharing.relaxed().goes(at, self.platform()));
        }
    }

    /// A message goes with those of its run.
    fn gather(&mut self, to: NodeId, minipage: MinipageId, message: Message) {
        let bytes = match message.attach() {
            Attach::Page => self.platform().memory().privileged(minipage).1,
            Attach::Nothing | Attach::Diff => 0,
        };
        if let Some(gathered) = &mut self.gathered {
            gathered.send((to, false), (minipage, message), bytes);
        }
    }

    /// The step is done: what it has left over waits.
    #[inline]
    pub(super) fn finish(&mut self) {
        self.carry_out_run();
        if self.held.is_some() {
            self.buffer_received();
        }
        if self.notices.is_some() {
            self.defer_notices();
        }
        self.woken.iter().for_each(|&thread| self.engine.platform.wake_thread(thread));
    }

    /// Write notices that no message of this step takes along.
    fn defer_notices(&mut self) {
        if let Some((to, notices)) = self.notices.take() {
            let header = Header { kind: DriverFrame::WriteNotices.number(), ..Header::default() };
            self.platform().defer_with(to, header, |out| out.extend(notices));
        }
    }
}

impl World for RealWorld<'_> {
    fn on_request(&mut self, asked: &SyncInput) {
        self.asks_lock = matches!(
            asked,
            SyncInput::Lock { .. } | SyncInput::TryLock { .. } | SyncInput::TimedLock { .. }
        );
        self.engine.races().on_request(asked);
    }

    fn on_send(&mut self, to: NodeId, id: u64, message: SyncMessage) {
        self.engine.races().on_send(to, id, message);
    }

    fn on_receive(&mut self, from: NodeId, id: u64, message: SyncMessage) {
        self.engine.races().on_receive(from, id, message);
    }

    fn send_operand(&mut self, to: NodeId, id: u64, operand: &Operand) {
        let header =
            Header { kind: DriverFrame::Operand.number(), subject: id, ..Header::default() };
        self.platform().defer_with(to, header, |out| out.extend(operand.to_bytes()));
    }

    fn result(&mut self, thread: ThreadId, values: Arc<[u8]>) {
        lock(&self.engine.step_results.results).insert(thread, values);
    }

    fn send_deferred(&mut self, to: NodeId, message: Message) {
        if message.attach() != Attach::Nothing {
            // Contents are read where they are sent.
            return self.send(to, message);
        }
        if let (Some(gathered), Some(minipage)) = (&mut self.gathered, message.minipage())
            && message.goes_in_runs()
        {
            return gathered.send((to, true), (minipage, message), 0);
        }
        let context = SendContext { later: true, ..SendContext::default() };
        let (mesh, header) = (self.at_once().mesh(), header_of(message));
        let sent = match self.send_timing(message, context, None) {
            SendTiming::Now => return self.send(to, message),
            SendTiming::Defer => mesh.defer(to, header),
            SendTiming::Batch | SendTiming::Merge(_) => mesh.defer_or_merge(to, header, |last| {
                let last = Message::from_words(&words_of(last)).ok()?;
                match self.send_timing(message, context, Some(last)) {
                    SendTiming::Merge(merged) => Some(header_of(merged)),
                    SendTiming::Now | SendTiming::Defer | SendTiming::Batch => None,
                }
            }),
        };
        self.platform().check_sent(to, sent);
    }

    fn send(&mut self, to: NodeId, message: Message) {
        self.engine.races().on_departure(to, message);
        if let Some(minipage) = message.minipage()
            && self.gathered.is_some()
            && message.goes_in_runs()
        {
            return self.gather(to, minipage, message);
        }
        let platform = self.at_once();
        if let Message::Page { minipage, .. } = message {
            let run = (message.attach() == Attach::Page && !self.is_zero(minipage))
                .then_some(Run::one(minipage));
            return self.send_contents(to, header_of(message), run);
        }
        if matches!(message, Message::Sync { .. }) && core::mem::take(&mut self.asks_lock) {
            platform.counters().add(Count::LockMessages, 1);
        }
        let header = header_of(message);
        let mut context = SendContext { later: false, ..self.timing };
        let page = match (message.attach(), message.minipage()) {
            (Attach::Page, Some(minipage)) => {
                let (ptr, len) = platform.memory().privileged(minipage);
                context.page_bytes = len;
                if let Message::Hlrc { .. } = message {
                    context.later = self.timing.later;
                    context.backlog_bytes = platform.mesh().waiting_bytes(to);
                }
                Some((minipage, ptr, len))
            }
            (Attach::Diff, Some(minipage)) => {
                return self.send_diff(to, message, minipage);
            }
            (Attach::Nothing | Attach::Page | Attach::Diff, _) => None,
        };
        if self.send_timing(message, context, None) != SendTiming::Now {
            platform.defer_with(to, header, |out| {
                if let Some((_, ptr, len)) = page {
                    platform.counters().add(Count::PageBytesSent, len as u64);
                    // SAFETY: the privileged view is readable for the length of the minipage.
                    unsafe { append(ptr, len, out) };
                }
            });
            return;
        }
        if let Message::Sync { .. } = message
            && let Some((_, notices)) = self.notices.take_if(|(of, _)| *of == to)
        {
            return platform.send_frame(to, header, Payload::Bytes(&notices));
        }
        self.send_contents(to, header, page.map(|(minipage, ..)| Run::one(minipage)));
    }

    fn install(&mut self, minipage: MinipageId, access: Access) {
        // The bytes lie in the privileged view already: the receiver put them there.
        self.protect(minipage, Access::NoAccess, access);
    }

    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        self.count_change(minipage, from, to);
        match &mut self.gathered {
            Some(gathered) => gathered.protect(minipage, from, to),
            None => self.change_protection(Run::one(minipage), from, to),
        }
    }

    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        let platform = self.at_once();
        if access == Access::ReadWrite {
            self.engine.races().watch(minipage);
        }
        if let Err(error) = platform.memory().reprotect(minipage, access) {
            platform.fatal(&error.to_string());
        }
        self.count_opened(access);
    }

    fn wake(&mut self, thread: ThreadId) {
        self.woken.push(thread);
    }

    fn refuse(&mut self, thread: ThreadId) {
        if let Some(slot) = slots::slot(thread) {
            slot.refuse();
        }
    }

    fn hold(&mut self, thread: ThreadId, _: MinipageId, turns: Turns, urgent: bool) {
        if let Some(slot) = slots::slot(thread) {
            slot.tell_to_hold(turns, urgent);
        }
    }

    fn reclaimed(&mut self, minipage: MinipageId) {
        lock(&self.engine.step_results.reclaimed).push(minipage);
    }

    fn competing(&mut self, _: MinipageId) {
        self.platform().counters().add(Count::Competing, 1);
    }

    fn release_world(&mut self) -> Option<&mut dyn ReleaseWorld> {
        Some(self)
    }
}

impl ReleaseWorld for RealWorld<'_> {
    fn track(&mut self, minipage: MinipageId, from: Access) {
        let platform = self.at_once();
        if let Err(error) = platform.memory().track(minipage, from) {
            platform.fatal(&error.to_string());
        }
        self.count_opened(Access::ReadWrite);
    }

    fn written(&mut self) -> Vec<MinipageId> {
        let mut found = Vec::new();
        if let Err(error) = self.platform().memory().written(&mut |minipage| found.push(minipage)) {
            self.platform().fatal(&error.to_string());
        }
        found
    }

    fn send_notices(&mut self, to: NodeId, notices: WriteNotices) {
        let mut parts = notices.into_parts(NOTICES_IN_A_FRAME);
        let count = |part: &WriteNotices| {
            let notices = part.notices.len() as u64;
            self.platform().counters().add(Count::Notices, notices);
        };
        parts.iter().for_each(count);
        // The last goes with what they are about, which comes right behind them.
        self.notices = parts.pop().map(|last| (to, last.to_bytes()));
        for part in parts {
            let header = Header { kind: DriverFrame::WriteNotices.number(), ..Header::default() };
            self.platform().defer_with(to, header, |out| out.extend(part.to_bytes()));
        }
    }

    fn send_notices_alone(&mut self) {
        self.defer_notices();
    }

    fn close_if_unwritten(&mut self, minipage: MinipageId) -> bool {
        self.close_as_its_twin(minipage)
    }

    fn closing(&mut self, minipages: &[MinipageId]) {
        self.engine.writes.end_interval();
        self.close(minipages, (Access::ReadWrite, Access::ReadOnly));
    }

    fn losing(&mut self, minipages: &[MinipageId]) {
        self.close(minipages, (Access::ReadOnly, Access::NoAccess));
        // A barrier may acquire more than once.
        if !minipages.is_empty() {
            *lock(&self.engine.step_results.lost) = minipages.to_vec();
        }
    }

    fn send_batched(&mut self) {
        self.platform().mesh().flush_deferred();
    }

    fn make_twin(&mut self, minipage: MinipageId) {
        let (page, len) = self.platform().memory().privileged(minipage);
        self.platform().counters().add(Count::Twins, 1);
        // SAFETY: the privileged view is readable for the length of the minipage.
        unsafe { self.engine.twins.make(minipage, page, len) };
    }

    fn drop_twin(&mut self, minipage: MinipageId) {
        drop(self.engine.twins.take(minipage));
    }

    fn store(&mut self, _: MinipageId) {
        // The bytes lie in the privileged view already: the receiver put them there.
    }

    fn buffer_diff(&mut self, minipage: MinipageId) {
        self.held = Some((minipage, self.diff.take().unwrap_or_default()));
    }

    fn merge_diffs(&mut self, minipage: MinipageId, open: bool) {
        self.merge_pending(minipage, open);
    }

    fn forward_diff(&mut self, to: NodeId, message: Message) {
        self.pass_pending(to, message);
    }

    fn install_zero(&mut self, minipage: MinipageId, access: Access) {
        let (page, len) = self.platform().memory().privileged(minipage);
        // SAFETY: the privileged view is writable for the length of the minipage.
        unsafe { core::ptr::write_bytes(page, 0, len) };
        self.protect(minipage, Access::NoAccess, access);
    }

    fn close_if_zero(&mut self, minipage: MinipageId) -> bool {
        self.close_zero(minipage)
    }
}
