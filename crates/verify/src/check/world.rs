//! The world of the model checker under sequential consistency: a memory of one value a minipage, page
//! tables of its own, FIFO links. It asserts what a real memory and a real link rely on, and has no
//! release consistent minipages.
//!
//! When a message goes is asked of `protocol::send_timing`. Of the outbox (the table in the head of
//! `transport/src/outbox/send_rules.rs`) a link has only that a deferred frame goes before the next one to the same node: it is
//! a mark on frames that are in order already. Batches and queues keep the order, which is all that a state has of a
//! link; and that deferred frames go at any time, so also when there are eight of them, is among the steps of the model.

use std::sync::Arc;

use multigrain_protocol::send_timing::{SendContext, SendTiming, send_timing};
use multigrain_protocol::sync::Operand;
use multigrain_protocol::{Attach, Message, Turns, World};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

use super::program::{Content, FREED, Job, NO_COPY, Op, minipage_index};
use super::state::{Broken, Packet, Page, Phase, State, WaitOutcome};

/// What one step of one node may touch of a state.
pub(super) struct Stage<'a> {
    pub(super) job: &'a Job,
    pub(super) me: NodeId,
    pub(super) state: &'a mut State,
    /// The page that came with the message at hand.
    pub(super) arrived: Option<Content>,
}

impl Stage<'_> {
    fn page(&mut self, minipage: MinipageId) -> &mut Page {
        &mut self.state.memory[self.me.index()][minipage_index(minipage)]
    }

    fn post(&mut self, to: NodeId, message: Message, deferred: bool) {
        let context = SendContext { later: deferred, ..SendContext::default() };
        let deferred = send_timing(message, context, None, |_| true) != SendTiming::Now;
        let page = match (message, message.attach()) {
            (Message::Page { minipage, .. }, Attach::Page) => {
                let page = *self.page(minipage);
                if page.access == Access::ReadWrite {
                    self.broken(format!("{minipage} is sent while threads may write it"));
                }
                if page.content == NO_COPY {
                    self.broken(format!("{minipage} is sent without a copy to send"));
                }
                Some(page.content)
            }
            (
                Message::Page { .. }
                | Message::Mgs { .. }
                | Message::Hlrc { .. }
                | Message::Sync { .. },
                Attach::Nothing | Attach::Page | Attach::Diff,
            ) => None,
        };
        if to == self.me || to.0 >= self.job.nodes {
            self.broken(format!("{message:?} is sent to {to}"));
            return;
        }
        let link = self.me.index() * usize::from(self.job.nodes) + to.index();
        let link = &mut self.state.links[link];
        link.push(Packet { message, page, deferred });
        if !deferred {
            // What was deferred goes with it.
            link.iter_mut().for_each(|packet| packet.deferred = false);
        }
    }

    /// Remembers the first thing that broke.
    fn broken(&mut self, what: String) {
        let text = format!("{}: {what}", self.me);
        self.state.broken.get_or_insert(Broken::World(text));
    }
}

impl World for Stage<'_> {
    fn send(&mut self, to: NodeId, message: Message) {
        self.post(to, message, false);
    }

    fn send_operand(&mut self, _: NodeId, id: u64, _: &Operand) {
        self.broken(format!("an operand of {id:#x}, and nobody collects"));
    }

    fn result(&mut self, thread: ThreadId, _: Arc<[u8]>) {
        self.broken(format!("a result for {thread}, and nobody collects"));
    }

    fn send_deferred(&mut self, to: NodeId, message: Message) {
        if message.attach() == Attach::Page {
            self.broken(format!("{message:?} is deferred though a page goes with it"));
        }
        self.post(to, message, true);
    }

    fn install(&mut self, minipage: MinipageId, access: Access) {
        if self.page(minipage).access != Access::NoAccess {
            self.broken(format!("{minipage} is installed while threads may access it"));
        }
        let Some(content) = self.arrived.take() else {
            self.broken(format!("{minipage} is installed but no page came"));
            return;
        };
        *self.page(minipage) = Page { access, content };
    }

    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        let access = self.page(minipage).access;
        if access != from || from == to {
            self.broken(format!("{minipage} goes from {from:?} to {to:?} but has {access:?}"));
        }
        self.page(minipage).access = to;
    }

    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        let real = self.page(minipage).access;
        if access != real {
            self.broken(format!("{minipage} is said to have {access:?} but has {real:?}"));
        }
    }

    fn wake(&mut self, thread: ThreadId) {
        let index = thread.0 as usize;
        let here = self.job.threads[index].node == self.me;
        let state = &mut self.state.threads[index];
        match (here, state.phase) {
            (true, Phase::Faulted(minipage)) => state.phase = Phase::Woken(minipage),
            (true, Phase::Blocked) => {
                state.phase = Phase::Running;
                let op = self.job.threads[index].program[usize::from(state.done)];
                let WaitOutcome { refused, contended, .. } = core::mem::take(&mut state.wait);
                match (op, refused) {
                    // A wait on a condition ends with a new look at what was awaited.
                    (Op::Await { .. }, false) | (Op::TimedAwait { .. }, _) => {}
                    (Op::Attempt { timed, skip, .. }, true) => {
                        let first = state.done;
                        state.done += 1 + skip;
                        (first..state.done).for_each(|place| state.skipped |= 1 << place);
                        if !timed && !contended {
                            self.broken(format!("{thread} is refused what nobody has"));
                        }
                    }
                    (_, true) => self.broken(format!("{thread} is refused what it waits for")),
                    (_, false) => state.done += 1,
                }
            }
            (_, Phase::Running | Phase::Trapped(_) | Phase::Woken(_) | Phase::Through)
            | (false, Phase::Faulted(_) | Phase::Blocked) => {
                self.broken(format!("{thread} is woken but does not wait"));
            }
        }
    }

    fn refuse(&mut self, thread: ThreadId) {
        let index = thread.0 as usize;
        let state = &mut self.state.threads[index];
        state.wait.refused = true;
        if self.job.threads[index].node != self.me || state.phase != Phase::Blocked {
            self.broken(format!("{thread} is refused but does not wait"));
        }
    }

    fn hold(&mut self, thread: ThreadId, minipage: MinipageId, _: Turns, _: bool) {
        let index = thread.0 as usize;
        let here = self.job.threads[index].node == self.me;
        if !here || !self.state.threads[index].accesses.hold(minipage) {
            self.broken(format!("{thread} cannot hold {minipage}"));
        }
    }

    fn reclaimed(&mut self, minipage: MinipageId) {
        let index = minipage_index(minipage);
        self.page(minipage).content = FREED;
        self.state.latest[index] = FREED;
        let freeing = |op: &Op| matches!(op, Op::Reclaim(freed) if usize::from(*freed) == index);
        let (job, me) = (self.job, self.me);
        let mut waiting =
            self.state.threads.iter_mut().zip(&job.threads).filter(|(state, thread)| {
                state.phase == Phase::Blocked
                    && thread.node == me
                    && thread.program.get(usize::from(state.done)).is_some_and(freeing)
            });
        match waiting.next() {
            Some((state, _)) => {
                state.phase = Phase::Running;
                state.done += 1;
            }
            None => {
                drop(waiting);
                self.broken(format!("{minipage} came back but nobody freed it"));
            }
        }
    }

    fn competing(&mut self, _: MinipageId) {}
}
