//! The steps that a state allows, and the state after each.

use crate::LockWindows;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{Input, Kind};
use multigrain_types::{Access, Consistency, NodeId, ThreadId};

pub use super::action::Action;
use super::collectives::meet;
use super::program::{Job, Op, SERVED, WORDS, Words, minipage_id};
use super::properties;
use super::state::{Broken, Diff, NO_COPY, Packet, Phase, State};
use super::world::Stage;

impl State {
    /// Everything that can happen next.
    pub fn actions(&self, job: &Job, actions: &mut Vec<Action>) {
        if self.broken.is_some() {
            return;
        }
        let able = (0..self.threads.len()).filter(|&thread| self.is_able(job, thread));
        actions.extend(able.map(Action::Run));
        // Links are many and most are empty.
        for (row, from) in self.links.chunks(usize::from(job.nodes.max(1))).zip(0..) {
            let filled = row.iter().zip(0..).filter(|(link, _)| !link.is_empty());
            let deliver = |(_, to)| Action::Deliver { from: NodeId(from), to: NodeId(to) };
            actions.extend(filled.map(deliver));
        }
        if job.locks.windows != LockWindows::None {
            for node in &self.nodes {
                let kept = node.tables.sync_tables().kept_locks();
                actions.extend(kept.map(|id| Action::EndLock(node.me, id)));
            }
        }
        if !self.unqueued.is_empty() {
            actions.retain(|&action| !self.is_stopped(action));
            actions.extend((0..self.unqueued.len()).map(Action::Queue));
        }
    }

    fn is_able(&self, job: &Job, thread: usize) -> bool {
        let (now, plan) = (&self.threads[thread], &job.threads[thread]);
        match now.phase {
            Phase::Running => match plan.program.get(now.done as usize) {
                Some(Op::Receive(id)) => self.notified[plan.node.index()].contains(id),
                Some(_) => true,
                None => plan.started,
            },
            Phase::Trapped | Phase::Woken | Phase::Begun | Phase::Resumed | Phase::Released => true,
            Phase::Faulted
            | Phase::Blocked
            | Phase::Unborn
            | Phase::Beginning
            | Phase::Resuming
            | Phase::Releasing
            | Phase::Ended => false,
        }
    }

    /// Takes one step.
    pub fn take(&mut self, job: &Job, action: Action) {
        match action {
            Action::Deliver { from, to } => self.deliver(job, from, to),
            Action::Run(thread) => self.run(job, thread),
            Action::EndLock(node, id) => {
                self.input(job, node, Input::Sync(SyncInput::LockWindowOver { id }));
            }
            Action::Queue(index) => self.queue(job, index),
        }
        self.stepped(action);
    }

    /// When all threads are done: one of every node releases, and everything arrives.
    pub(super) fn settle(&mut self, job: &Job) {
        for rank in (0..job.nodes).map(NodeId) {
            let Some(thread) = job.threads.iter().position(|thread| thread.node == rank) else {
                continue;
            };
            self.threads[thread].phase = Phase::Blocked;
            self.input(job, rank, Input::Release { thread: id(thread) });
        }
        let mut actions = Vec::new();
        loop {
            actions.clear();
            self.actions(job, &mut actions);
            let travels = |action: &&Action| !matches!(action, Action::Run(_));
            let Some(&action) = actions.iter().find(travels) else { return };
            self.take(job, action);
        }
    }

    fn deliver(&mut self, job: &Job, from: NodeId, to: NodeId) {
        let Some(packet) = self.links[job.link(from, to)].pop_front() else { return };
        match packet {
            Packet::Message { message, page, diff } => {
                self.step(job, to, Input::Message { from, message }, page, diff);
            }
            Packet::WriteNotices(notices) => {
                self.input(job, to, Input::WriteNotices { from, notices: Box::new(notices) })
            }
            Packet::Operand(id, operand) => {
                self.input(job, to, Input::Operand { from, id, operand: Box::new(operand) });
            }
            Packet::Notified(SERVED) => self.input(job, to, Input::Acquire),
            Packet::Notified(id) => self.notified[to.index()].push(id),
            Packet::Start(thread) => self.begin(job, thread),
            Packet::Started(thread) => self.answer(job, Op::Start(thread)),
            Packet::Join(thread) => self.join(job, thread),
            Packet::Ended(thread) => self.resume(job, Op::Join(thread)),
        }
    }

    fn run(&mut self, job: &Job, thread: usize) {
        let plan = &job.threads[thread];
        let now = &mut self.threads[thread];
        let op = plan.program.get(now.done as usize).copied();
        let op = match (now.phase, op) {
            (Phase::Begun, _) => return self.begun(job, thread),
            (Phase::Resumed, _) => return self.go_on(job, thread),
            (Phase::Released, Some(Op::Start(started))) => return self.start(job, thread, started),
            (Phase::Released, _) => return self.ended(job, thread),
            (Phase::Running, Some(Op::Join(ended))) => {
                now.phase = Phase::Blocked;
                let to = job.threads[usize::from(ended)].node;
                let pause = SyncInput::Pause { thread: id(thread) };
                self.input(job, plan.node, Input::Sync(pause));
                return self.notify(job, (plan.node, to), Packet::Join(ended));
            }
            (Phase::Running, Some(Op::Start(_)) | None) => {
                now.phase = Phase::Releasing;
                return self.input(job, plan.node, Input::Release { thread: id(thread) });
            }
            (_, None) => unreachable!("no action is offered to an ended thread"),
            (_, Some(op)) => op,
        };
        let now = &mut self.threads[thread];
        match (now.phase, op.access()) {
            (Phase::Woken, Some((minipage, ..))) => {
                now.phase = Phase::Running;
                let minipage = minipage_id(minipage);
                let thread = id(thread);
                self.input(job, plan.node, Input::Resumed { thread, minipage });
                // The other checker looks what holding is good for.
                if core::mem::take(&mut self.asked_to_hold) {
                    self.input(job, plan.node, Input::Retired { thread, minipage, turn_us: 0 });
                }
            }
            (Phase::Running, Some((minipage, word, kind))) => {
                let access = self.memory[plan.node.index()][usize::from(minipage)].access;
                let allowed = match kind {
                    Kind::Read => access != Access::NoAccess,
                    Kind::Write => access == Access::ReadWrite,
                };
                if allowed {
                    self.touch(job, thread, op, (minipage, word));
                } else if job.trap_gap {
                    now.phase = Phase::Trapped;
                } else {
                    self.fault(job, thread, minipage, kind);
                }
            }
            (Phase::Trapped, Some((minipage, _, kind))) => self.fault(job, thread, minipage, kind),
            (Phase::Running, None) => self.call(job, thread, op),
            (
                Phase::Faulted
                | Phase::Blocked
                | Phase::Unborn
                | Phase::Beginning
                | Phase::Begun
                | Phase::Resuming
                | Phase::Resumed
                | Phase::Releasing
                | Phase::Released
                | Phase::Ended,
                _,
            )
            | (Phase::Trapped | Phase::Woken, None) => {
                unreachable!("no action is offered to a waiting thread")
            }
        }
    }

    fn fault(&mut self, job: &Job, thread: usize, minipage: u8, kind: Kind) {
        self.threads[thread].phase = Phase::Faulted;
        let minipage = minipage_id(minipage);
        let input = Input::Fault { thread: id(thread), minipage, kind };
        self.input(job, job.threads[thread].node, input);
    }

    /// An access the page tables allow: it happens at once, no engine sees it.
    fn touch(&mut self, job: &Job, thread: usize, op: Op, (minipage, word): (u8, u8)) {
        let (index, word) = (usize::from(minipage), usize::from(word));
        let node = job.threads[thread].node;
        let latest = &mut self.latest[index][word];
        let page = &mut self.memory[node.index()][index];
        let reads = matches!(op, Op::Read(..) | Op::Await { .. });
        if let (Some(written), false) = (&mut page.tracked, reads) {
            *written = true;
        }
        let seen = &mut page.words[word];
        let stale = (*seen != *latest && !matches!(op, Op::Write(..))).then_some((*seen, *latest));
        if let Op::Write(_, _, value) = op {
            (*seen, *latest) = (value, value);
        } else if let Op::Add(..) = op {
            *seen = seen.wrapping_add(1);
            *latest = *seen;
        }
        let awaited = matches!(op, Op::Await { value, .. } if value != *seen);
        if !awaited {
            self.threads[thread].done += 1;
        }
        if let (Op::Await { condition, lock, .. }, true) = (op, awaited) {
            self.threads[thread].phase = Phase::Blocked;
            let asked = SyncInput::ConditionWait {
                thread: id(thread),
                id: condition.into(),
                lock: lock.into(),
            };
            self.input(job, node, Input::Sync(asked));
        }
        if let Some((seen, latest)) = stale {
            let text = format!(
                "thread {thread} on {node} reads {seen} in m{index}[{word}]; latest is {latest}"
            );
            self.breaks(Broken::StaleRead(text));
        }
    }

    /// An operation that asks the node for something.
    fn call(&mut self, job: &Job, index: usize, op: Op) {
        let (thread, node) = (id(index), job.threads[index].node);
        let (input, blocks) = match op {
            Op::Prefetch(page, kind) => {
                (Input::Prefetch { minipage: minipage_id(page), kind }, false)
            }
            Op::AwaitedPrefetch(page) => {
                (Input::AwaitedPrefetch { minipage: minipage_id(page) }, false)
            }
            Op::OpenAhead(page) => (Input::OpenAhead { minipage: minipage_id(page) }, false),
            Op::Push(page) => (Input::Push { minipage: minipage_id(page) }, false),
            Op::Reclaim(page) => (Input::Reclaim { minipage: minipage_id(page) }, true),
            Op::Signal(id, all) => {
                (Input::Sync(SyncInput::ConditionSignal { id: id.into(), all }), false)
            }
            Op::Lock(id) => (Input::Sync(SyncInput::Lock { thread, id: id.into() }), true),
            Op::Unlock(id) => (Input::Sync(job.locks.windows.unlock(thread, id.into())), false),
            Op::Barrier { id, local, total, quiescent } => {
                (Input::Sync(meet(job, thread, id, (local, total, quiescent))), true)
            }
            Op::Down(id) => (Input::Sync(SyncInput::SemaphoreWait { thread, id: id.into() }), true),
            Op::Up(id, count) => {
                (Input::Sync(SyncInput::SemaphorePost { id: id.into(), count }), false)
            }
            Op::Release => (Input::Release { thread }, true),
            Op::Notify(to, _) => (Input::Notify { node: NodeId(to) }, false),
            Op::Receive(id) => {
                let notified = &mut self.notified[node.index()];
                if let Some(place) = notified.iter().position(|other| *other == id) {
                    notified.remove(place);
                }
                (Input::Acquire, false)
            }
            Op::Read(..)
            | Op::Write(..)
            | Op::Add(..)
            | Op::Await { .. }
            | Op::Start(_)
            | Op::Join(_) => {
                unreachable!("no calls of the engines")
            }
        };
        let now = &mut self.threads[index];
        if blocks {
            now.phase = Phase::Blocked;
        } else {
            now.done += 1;
        }
        self.input(job, node, input);
        if let Op::Notify(to, id) = op {
            self.say(job, (node, NodeId(to)), Packet::Notified(id));
        }
    }

    pub(super) fn input(&mut self, job: &Job, me: NodeId, input: Input) {
        self.step(job, me, input, None, None);
    }

    /// The real node takes one input.
    fn step(
        &mut self,
        job: &Job,
        me: NodeId,
        input: Input,
        page: Option<Words>,
        diff: Option<Diff>,
    ) {
        let about = match &input {
            Input::Message { message, .. } => message.minipage(),
            Input::Fault { .. }
            | Input::PinnedRetry { .. }
            | Input::Prefetch { .. }
            | Input::AwaitedPrefetch { .. }
            | Input::OpenAhead { .. }
            | Input::Push { .. }
            | Input::Resumed { .. }
            | Input::Retired { .. }
            | Input::Reclaim { .. }
            | Input::Sync(_)
            | Input::Release { .. }
            | Input::Notify { .. }
            | Input::Acquire
            | Input::Operand { .. }
            | Input::WriteNotices { .. } => None,
        };
        let mut nodes = core::mem::take(&mut self.nodes);
        let node = &mut nodes[me.index()];
        let mut stage =
            Stage { job, me, state: self, page, diff, notices: None, results: Vec::new() };
        let taken = catch_unwind(AssertUnwindSafe(|| Arc::make_mut(node).step(input, &mut stage)));
        let unused = (stage.page.is_some(), stage.diff.is_some());
        let notices = stage.notices.take();
        self.nodes = nodes;
        if let Some((to, notices)) = notices {
            self.leave_over(me, to, notices);
        }
        match (taken, about) {
            (Err(_), _) => self.breaks(Broken::Protocol(format!("{me}: the engine panicked"))),
            (Ok(Err(violation)), _) => {
                self.breaks(Broken::Protocol(format!("{me}: {violation}")));
            }
            (Ok(Ok(())), Some(minipage)) => {
                // What the lazy engine asked for in vain is thrown away.
                let lazy =
                    job.minipages[super::program::minipage_index(minipage)].consistency.is_lazy();
                if unused.1 || (unused.0 && !lazy) {
                    let text = format!("{me}: what came of {minipage} was not used");
                    self.breaks(Broken::World(text));
                }
            }
            (Ok(Ok(())), None) => {}
        }
        self.forget_lost_copies(job, me);
        if let Err(text) = properties::node(job, self, me) {
            self.breaks(Broken::Disagreement(format!("{me}: {text}")));
        }
    }

    /// What a node holds of a minipage it may not access means nothing, but for the home copy under
    /// eager release consistency: states that differ in it only are one, and an engine that sends
    /// it later is found out.
    fn forget_lost_copies(&mut self, job: &Job, me: NodeId) {
        for (page, placed) in self.memory[me.index()].iter_mut().zip(&job.minipages) {
            let home = placed.consistency == Consistency::EagerRelease && placed.manager == me;
            if page.access == Access::NoAccess && !home {
                page.words = [NO_COPY; WORDS];
            }
        }
    }
}

pub(super) fn id(thread: usize) -> ThreadId {
    ThreadId(u32::try_from(thread).unwrap_or(u32::MAX))
}
