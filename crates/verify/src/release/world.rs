//! The world of the release checker: memories of a few words a minipage with twins and diffs, page tables
//! of its own, FIFO links that carry write notices. It asserts what real ones rely on.

use std::sync::Arc;

use multigrain_protocol::release::WriteNotices;
use multigrain_protocol::sync::Operand;
use multigrain_protocol::{Attach, Message, ReleaseWorld, Turns, World};
use multigrain_types::{Access, Consistency, MinipageId, NodeId, ThreadId};

use super::program::{Job, Op, WORDS, Words, minipage_index};
use super::state::{Broken, Diff, FREED, NO_COPY, Packet, Page, Phase, State};

/// What one step of one node may touch of a state.
pub(super) struct Stage<'a> {
    pub(super) job: &'a Job,
    pub(super) me: NodeId,
    pub(super) state: &'a mut State,
    /// The minipage that came with the message at hand.
    pub(super) page: Option<Words>,
    /// What came with the message at hand of what was written.
    pub(super) diff: Option<Diff>,
    /// Write notices that the next message takes along.
    pub(super) notices: Option<(NodeId, WriteNotices)>,
    /// Threads whose results of collective operations have come in this step.
    pub(super) results: Vec<ThreadId>,
}

impl Stage<'_> {
    fn at(&mut self, minipage: MinipageId) -> &mut Page {
        &mut self.state.memory[self.me.index()][minipage_index(minipage)]
    }

    fn consistency(&self, minipage: MinipageId) -> Consistency {
        self.job.minipages[minipage_index(minipage)].consistency
    }

    fn post(&mut self, to: NodeId, packet: Packet) {
        if to == self.me || to.0 >= self.job.nodes {
            self.broken(format!("{packet:?} is sent to {to}"));
            return;
        }
        let link = self.job.link(self.me, to);
        if let Some((_, notices)) = self.notices.take_if(|(other, _)| *other == to) {
            let parts = notices.into_parts(self.job.notices_in_a_frame());
            self.state.links[link].extend(parts.into_iter().map(Packet::WriteNotices));
        }
        self.state.links[link].push_back(packet);
    }

    /// The minipage as it is sent.
    fn contents(&mut self, minipage: MinipageId) -> Words {
        let (access, words) = (self.at(minipage).access, self.at(minipage).words);
        let sequential = self.consistency(minipage) == Consistency::Sequential;
        if sequential && access == Access::ReadWrite {
            self.broken(format!("{minipage} is sent while threads may write it"));
        }
        if words.contains(&NO_COPY) {
            self.broken(format!("{minipage} is sent without a copy to send"));
        }
        words
    }

    /// What differs from the twin.
    fn difference(&mut self, minipage: MinipageId) -> Diff {
        let page = self.at(minipage);
        let (words, twin, access) = (page.words, page.twin, page.access);
        if access == Access::ReadWrite {
            self.broken(format!("a diff of {minipage} is sent while threads may write it"));
        }
        let Some(twin) = twin else {
            self.broken(format!("a diff of {minipage} is sent without a twin"));
            return [None; WORDS];
        };
        core::array::from_fn(|word| (words[word] != twin[word]).then_some(words[word]))
    }

    fn closed(&mut self, minipage: MinipageId, what: &str) {
        if self.at(minipage).access != Access::NoAccess {
            self.broken(format!("{minipage} is {what} while threads may access it"));
        }
    }

    /// Remembers the first thing that broke.
    pub(super) fn broken(&mut self, what: String) {
        let text = format!("{}: {what}", self.me);
        self.state.breaks(Broken::World(text));
    }
}

impl World for Stage<'_> {
    fn send(&mut self, to: NodeId, message: Message) {
        let (mut page, mut diff) = (None, None);
        match (message.attach(), message.minipage()) {
            (Attach::Page, Some(minipage)) => page = Some(self.contents(minipage)),
            (Attach::Diff, Some(minipage)) => diff = Some(self.difference(minipage)),
            (Attach::Nothing, _) | (_, None) => {}
        }
        self.post(to, Packet::Message { message, page, diff });
    }

    fn send_deferred(&mut self, to: NodeId, message: Message) {
        self.send(to, message);
    }

    fn install(&mut self, minipage: MinipageId, access: Access) {
        self.closed(minipage, "installed");
        let Some(words) = self.page.take() else {
            self.broken(format!("{minipage} is installed but no page came"));
            return;
        };
        let page = self.at(minipage);
        (page.access, page.words) = (access, words);
    }

    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        let access = self.at(minipage).access;
        if access != from || from == to {
            self.broken(format!("{minipage} goes from {from:?} to {to:?} but has {access:?}"));
        }
        let page = self.at(minipage);
        page.access = to;
        if page.tracked.take() == Some(true) {
            self.broken(format!("{minipage} is closed, and nobody has found what was written"));
        }
    }

    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        let real = self.at(minipage).access;
        if access != real {
            self.broken(format!("{minipage} is said to have {access:?} but has {real:?}"));
        }
    }

    fn send_operand(&mut self, to: NodeId, id: u64, operand: &Operand) {
        self.put_operand(to, id, operand);
    }

    fn result(&mut self, thread: ThreadId, values: Arc<[u8]>) {
        self.take_result(thread, &values);
    }

    fn refuse(&mut self, thread: ThreadId) {
        self.broken(format!("{thread} is refused, and none tries"));
    }

    fn wake(&mut self, thread: ThreadId) {
        let index = thread.0 as usize;
        let here = self.job.threads[index].node == self.me;
        let state = &mut self.state.threads[index];
        match (here, state.phase) {
            (true, Phase::Faulted) => state.phase = Phase::Woken,
            (true, Phase::Blocked) => {
                self.check_result(thread);
                let state = &mut self.state.threads[index];
                state.phase = Phase::Running;
                // A wait on a condition ends with a new look at what was awaited.
                let op = self.job.threads[index].program.get(state.done as usize);
                state.done += u32::from(!matches!(op, Some(Op::Await { .. })));
            }
            (true, Phase::Beginning) => state.phase = Phase::Begun,
            (true, Phase::Resuming) => state.phase = Phase::Resumed,
            (true, Phase::Releasing) => state.phase = Phase::Released,
            (
                _,
                Phase::Running
                | Phase::Trapped
                | Phase::Woken
                | Phase::Unborn
                | Phase::Begun
                | Phase::Resumed
                | Phase::Released
                | Phase::Ended,
            )
            | (
                false,
                Phase::Faulted
                | Phase::Blocked
                | Phase::Beginning
                | Phase::Resuming
                | Phase::Releasing,
            ) => {
                self.broken(format!("{thread} is woken but does not wait"));
            }
        }
    }

    fn hold(&mut self, _: ThreadId, _: MinipageId, _: Turns, _: bool) {
        self.state.asked_to_hold = true;
    }

    fn reclaimed(&mut self, minipage: MinipageId) {
        let index = minipage_index(minipage);
        let freeing = |op: &Op| matches!(op, Op::Reclaim(freed) if usize::from(*freed) == index);
        let (job, me) = (self.job, self.me);
        let waits = |number: &usize| {
            let (now, plan) = (&self.state.threads[*number], &job.threads[*number]);
            now.phase == Phase::Blocked
                && plan.node == me
                && plan.program.get(now.done as usize).is_some_and(freeing)
        };
        let Some(waiting) = (0..job.threads.len()).find(waits) else {
            self.broken(format!("{minipage} came back but nobody freed it"));
            return;
        };
        if self.consistency(minipage) == Consistency::Sequential {
            // Its contents are nobody's: it is written before it is read.
            self.at(minipage).words = [FREED; WORDS];
            self.state.latest[index] = [FREED; WORDS];
        }
        self.state.threads[waiting].phase = Phase::Running;
        self.state.threads[waiting].done += 1;
    }

    fn competing(&mut self, _: MinipageId) {}

    fn release_world(&mut self) -> Option<&mut dyn ReleaseWorld> {
        Some(self)
    }
}

impl ReleaseWorld for Stage<'_> {
    fn send_notices(&mut self, to: NodeId, notices: WriteNotices) {
        if WriteNotices::from_bytes(&notices.to_bytes(), self.job.nodes).as_ref() != Ok(&notices) {
            self.broken(format!("{notices:?} does not survive its bytes"));
        }
        if let Some((other, _)) = self.notices.replace((to, notices)) {
            self.broken(format!("notices for {other} are left when {to} is notified"));
        }
    }

    fn send_notices_alone(&mut self) {
        if let Some((to, notices)) = self.notices.take() {
            for part in notices.into_parts(self.job.notices_in_a_frame()) {
                self.post(to, Packet::WriteNotices(part));
            }
        }
    }

    fn install_zero(&mut self, minipage: MinipageId, access: Access) {
        self.closed(minipage, "made zero");
        let page = self.at(minipage);
        (page.access, page.words) = (access, [0; WORDS]);
    }

    fn track(&mut self, minipage: MinipageId, from: Access) {
        let page = self.at(minipage);
        let (access, tracked) = (page.access, page.tracked);
        (page.access, page.tracked) = (Access::ReadWrite, Some(false));
        if access != from || tracked.is_some() {
            self.broken(format!("{minipage}, tracked with {from:?}, has {access:?}, {tracked:?}"));
        }
    }

    fn written(&mut self) -> Vec<MinipageId> {
        let pages = self.state.memory[self.me.index()].iter_mut().zip(0u8..);
        let found = pages.filter_map(|(page, index)| {
            let written = page.tracked.as_mut().is_some_and(core::mem::take);
            written.then(|| super::program::minipage_id(index))
        });
        found.collect()
    }

    fn make_twin(&mut self, minipage: MinipageId) {
        let arrived = self.page;
        let page = self.at(minipage);
        let (old, access) = (page.twin, page.access);
        // The twin comes before the door opens: it is made of what is about to be installed.
        let words = if access == Access::NoAccess { arrived } else { Some(page.words) };
        page.twin = words;
        if old.is_some() {
            self.broken(format!("{minipage} gets a twin and has one"));
        }
        if words.is_none() {
            self.broken(format!("{minipage} gets a twin of nothing"));
        }
        if access == Access::ReadWrite {
            self.broken(format!("{minipage} gets a twin while threads may write it"));
        }
    }

    fn drop_twin(&mut self, minipage: MinipageId) {
        if self.at(minipage).twin.take().is_none() {
            self.broken(format!("{minipage} loses a twin and has none"));
        }
    }

    fn store(&mut self, minipage: MinipageId) {
        self.closed(minipage, "stored");
        match self.page.take() {
            Some(words) => self.at(minipage).words = words,
            None => self.broken(format!("{minipage} is stored but no page came")),
        }
    }

    fn buffer_diff(&mut self, minipage: MinipageId) {
        match self.diff.take() {
            Some(diff) => self.at(minipage).buffered.push(diff),
            None => self.broken(format!("a diff of {minipage} is buffered but none came")),
        }
    }

    fn merge_diffs(&mut self, minipage: MinipageId, open: bool) {
        let page = self.at(minipage);
        if !open && page.access == Access::ReadWrite {
            self.broken(format!("diffs of {minipage} are merged as if nobody could write it"));
            return;
        }
        let buffered = core::mem::take(&mut page.buffered);
        let named = buffered.iter().flatten().any(Option::is_some);
        for diff in buffered {
            for (word, new) in page.words.iter_mut().zip(diff) {
                *word = new.unwrap_or(*word);
            }
        }
        if named && page.words.contains(&NO_COPY) {
            self.broken(format!("diffs of {minipage} are merged into nothing"));
        }
    }

    fn forward_diff(&mut self, to: NodeId, message: Message) {
        let buffered = message.minipage().map(|minipage| &mut self.at(minipage).buffered);
        let oldest =
            buffered.filter(|buffered| !buffered.is_empty()).map(|buffered| buffered.remove(0));
        match oldest {
            Some(diff) => self.post(to, Packet::Message { message, page: None, diff: Some(diff) }),
            None => self.broken(format!("{message:?} is forwarded but no diff is buffered")),
        }
    }

    fn close_if_zero(&mut self, minipage: MinipageId) -> bool {
        let page = self.at(minipage);
        let zero = page.words == [0; WORDS];
        if page.access != Access::ReadWrite {
            let access = page.access;
            self.broken(format!("{minipage} is closed if zero but has {access:?}"));
        } else if zero {
            page.access = Access::NoAccess;
        }
        zero
    }

    fn close_if_unwritten(&mut self, minipage: MinipageId) -> bool {
        let page = self.at(minipage);
        let (access, twin) = (page.access, page.twin);
        let unwritten = twin == Some(page.words);
        if unwritten {
            page.access = Access::ReadOnly;
        }
        if access != Access::ReadWrite || twin.is_none() {
            self.broken(format!("{minipage}, closed if unwritten, has {access:?}, {twin:?}"));
        }
        unwritten
    }

    fn closing(&mut self, _: &[MinipageId]) {}
    fn losing(&mut self, _: &[MinipageId]) {}

    fn send_batched(&mut self) {}
}
