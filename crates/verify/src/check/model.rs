//! The model of the checker: which steps a state allows, and the state after each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use multigrain_protocol::held_accesses::Asking;
use multigrain_protocol::sync::{SyncInput, Withdrawable};
use multigrain_protocol::{Input, Kind, Message, ReadWriteMessage, SyncMessage};
use multigrain_types::{Access, NodeId, ThreadId};
use stateright::{Model, Property};

pub use super::action::{Action, JobModel};
use super::program::{Content, Op, Wanted, Windows, minipage_id, minipage_index};
use super::properties;
use super::state::{Broken, Packet, Phase, State};
use super::sync_calls::{end_of_window, synchronization};
use super::world::Stage;

impl Model for JobModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(&self.job)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for (thread, (now, plan)) in state.threads.iter().zip(&self.job.threads).enumerate() {
            let able = match now.phase {
                Phase::Running => usize::from(now.done) < plan.program.len(),
                Phase::Trapped(_) | Phase::Woken(_) | Phase::Through => true,
                Phase::Faulted(_) | Phase::Blocked => false,
            };
            if able {
                actions.push(Action::Run(thread));
            }
            let op = plan.program.get(usize::from(now.done));
            let waits = now.phase == Phase::Blocked && !now.wait.withdrawn;
            if waits && op.is_some_and(|op| op.is_timed()) {
                actions.push(Action::Withdraw(thread));
            }
            if let (true, Phase::Running, [Some(_), Some((other, _))]) =
                (able, now.phase, self.missing(state, thread))
            {
                actions.push(Action::Miss(thread, other));
            }
        }
        self.windows(state, actions);
        actions.extend(state.kept_locks().map(|(node, id)| Action::EndLock(node, id)));
        for from in (0..self.job.nodes).map(NodeId) {
            for to in (0..self.job.nodes).map(NodeId) {
                let link = &state.links[self.link(from, to)];
                if link.first().is_some_and(|packet| !packet.deferred) {
                    actions.push(Action::Deliver { from, to });
                }
                if link.last().is_some_and(|packet| packet.deferred) {
                    actions.push(Action::Release { from, to });
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Deliver { from, to } => self.deliver(&mut state, from, to),
            Action::Run(thread) => self.run(&mut state, thread),
            Action::Miss(thread, minipage) => self.trap(&mut state, thread, minipage),
            Action::Withdraw(thread) => self.withdraw(&mut state, thread),
            Action::Keep(thread) => keep(&mut state, thread),
            Action::End(thread, minipage) => self.end_window(&mut state, thread, minipage),
            Action::EndLock(node, id) => self.step(&mut state, node, end_of_window(id), None),
            Action::Release { from, to } => release(&mut state.links[self.link(from, to)]),
        }
        state.forget_lost_copies();
        self.see_contention(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl JobModel {
    /// The place of a link in [`State::links`].
    pub(super) fn link(&self, from: NodeId, to: NodeId) -> usize {
        from.index() * usize::from(self.job.nodes) + to.index()
    }

    /// What windows allow in this state. An instruction that pinned is through before its windows can
    /// end, so they begin then.
    fn windows(&self, state: &State, actions: &mut Vec<Action>) {
        if self.job.windows == Windows::None {
            return;
        }
        for (index, thread) in state.threads.iter().enumerate() {
            let ready = match thread.phase {
                Phase::Running => !thread.pinned,
                Phase::Through => true,
                Phase::Trapped(_) | Phase::Faulted(_) | Phase::Woken(_) | Phase::Blocked => false,
            };
            if ready && thread.accesses.holds_any() {
                actions.push(Action::Keep(index));
            }
            let held = (0..8).filter(|minipage| thread.windows & 1 << minipage != 0);
            actions.extend(held.map(|minipage| Action::End(index, minipage)));
        }
    }

    fn end_window(&self, state: &mut State, thread: usize, minipage: u8) {
        if state.threads[thread].windows & 1 << minipage != 0 {
            state.threads[thread].windows &= !(1 << minipage);
            let input =
                Input::Retired { thread: id(thread), minipage: minipage_id(minipage), turn_us: 0 };
            self.step(state, self.job.threads[thread].node, input, None);
        }
    }

    /// Nobody of this node keeps the minipage for a while any more.
    fn end_windows_on(&self, state: &mut State, node: NodeId, minipage: u8) {
        for thread in 0..state.threads.len() {
            if self.job.threads[thread].node == node {
                self.end_window(state, thread, minipage);
            }
        }
    }

    fn withdraw(&self, state: &mut State, thread: usize) {
        let plan = &self.job.threads[thread];
        state.threads[thread].wait.withdrawn = true;
        let op = plan.program[usize::from(state.threads[thread].done)];
        let from = match (op.wanted(), op.awaits()) {
            (Some(Wanted::Lock(id)), _) => Withdrawable::Lock(id.into()),
            (Some(Wanted::Unit(id)), _) => Withdrawable::Semaphore(id.into()),
            (None, Some((_, _, condition, _))) => Withdrawable::Condition(condition.into()),
            (Some(Wanted::Hold(..)) | None, _) => unreachable!("{op} is not timed"),
        };
        let withdraw = SyncInput::Withdraw { thread: id(thread), from };
        self.step(state, plan.node, Input::Sync(withdraw), None);
    }

    /// Notes for threads that try whether a refusal would be true: another holds what they want, or is
    /// about to, or the word that it was given back is on its way. A semaphore may be without units at any time.
    fn see_contention(&self, state: &mut State) {
        let given_back = state.links.iter().flatten().any(|packet| {
            let release =
                |body| matches!(body, SyncMessage::ReadWrite(ReadWriteMessage::Release { .. }));
            matches!(packet.message, Message::Sync { body, .. } if release(body))
        });
        for index in 0..state.threads.len() {
            let now = &state.threads[index];
            if now.phase != Phase::Blocked || now.wait.contended {
                continue;
            }
            let op = self.job.threads[index].program[usize::from(now.done)];
            let Op::Attempt { what, timed: false, .. } = op else { continue };
            let others = (0..state.threads.len()).filter(|&other| other != index);
            state.threads[index].wait.contended = others.into_iter().any(|other| {
                let (now, program) = (&state.threads[other], &self.job.threads[other].program);
                let held = self.job.held(other, now.done.into(), now.skipped);
                let wants =
                    program.get(usize::from(now.done)).filter(|_| now.phase == Phase::Blocked);
                let wants = wants.and_then(|op| op.wanted());
                match what {
                    Wanted::Unit(_) => true,
                    Wanted::Lock(id) => wants == Some(what) || held.contains(&(id, None)),
                    Wanted::Hold(id, _) => {
                        given_back
                            || matches!(wants, Some(Wanted::Hold(it, _)) if it == id)
                            || held.iter().any(|(it, kind)| *it == id && kind.is_some())
                    }
                }
            });
        }
    }

    fn deliver(&self, state: &mut State, from: NodeId, to: NodeId) {
        let packet = state.links[self.link(from, to)].remove(0);
        let input = Input::Message { from, message: packet.message };
        self.step(state, to, input, packet.page);
        // A node that receives something sends what it has deferred (`Effect::SendDeferred`).
        let links = self.link(to, NodeId(0))..self.link(to, NodeId(self.job.nodes));
        state.links[links].iter_mut().for_each(|link| release(link));
    }

    fn run(&self, state: &mut State, thread: usize) {
        let plan = &self.job.threads[thread];
        let now = &mut state.threads[thread];
        match now.phase {
            Phase::Woken(minipage) => {
                now.phase = Phase::Running;
                if self.job.windows == Windows::Asked && !now.pinned {
                    now.windows |= 1 << minipage;
                    return;
                }
                let (thread, minipage) = (id(thread), minipage_id(minipage));
                self.step(state, plan.node, Input::Resumed { thread, minipage }, None);
            }
            Phase::Trapped(minipage) => self.fault(state, thread, minipage),
            Phase::Through => {
                now.phase = Phase::Running;
                self.retire(state, thread);
            }
            Phase::Running => {
                let op = plan.program[usize::from(now.done)];
                match (op.accesses(), self.missing(state, thread)) {
                    ([None, None], _) => self.call(state, thread, op),
                    (_, [None, None]) => self.touch(state, thread, op),
                    (_, [Some((minipage, _)), _] | [None, Some((minipage, _))]) => {
                        self.trap(state, thread, minipage);
                    }
                }
            }
            Phase::Faulted(_) | Phase::Blocked => {
                unreachable!("no action is offered to a waiting thread")
            }
        }
    }

    /// What the page tables deny the operation of a thread; the first one first.
    fn missing(&self, state: &State, thread: usize) -> [Option<(u8, Kind)>; 2] {
        let plan = &self.job.threads[thread];
        let op = plan.program.get(usize::from(state.threads[thread].done));
        let missing = |(minipage, kind): &(u8, Kind)| {
            let access = state.memory[plan.node.index()][usize::from(*minipage)].access;
            match kind {
                Kind::Read => access == Access::NoAccess,
                Kind::Write => access != Access::ReadWrite,
            }
        };
        let [first, second] = op.map_or([None, None], |op| op.accesses());
        match [first.filter(missing), second.filter(missing)] {
            [None, second] => [second, None],
            both => both,
        }
    }

    fn trap(&self, state: &mut State, thread: usize, minipage: u8) {
        if self.job.trap_gap {
            state.threads[thread].phase = Phase::Trapped(minipage);
        } else {
            self.fault(state, thread, minipage);
        }
    }

    fn fault(&self, state: &mut State, thread: usize, minipage: u8) {
        let plan = &self.job.threads[thread];
        let now = &mut state.threads[thread];
        let op = plan.program[usize::from(now.done)];
        now.phase = Phase::Faulted(minipage);
        if self.job.progress {
            // One fault too many says all.
            now.faults = (now.faults + 1).min(op.most_faults() + 1);
        }
        let wanted = op.accesses().into_iter().flatten().find(|(wanted, _)| *wanted == minipage);
        let kind = wanted.map_or(Kind::Read, |(_, kind)| kind);
        let (me, index, minipage) = (id(thread), minipage, minipage_id(minipage));
        let Asking { given_up, pinned } = now.accesses.fault((), minipage);
        if !self.job.progress {
            now.accesses.forget();
        }
        now.pinned = pinned && self.job.windows != Windows::None;
        if kind == Kind::Write || self.job.windows == Windows::Asked {
            self.end_windows_on(state, plan.node, index);
        }
        for minipage in given_up {
            self.step(state, plan.node, Input::Retired { thread: me, minipage, turn_us: 0 }, None);
        }
        let input = if pinned {
            Input::PinnedRetry { thread: me, minipage, kind }
        } else {
            Input::Fault { thread: me, minipage, kind }
        };
        self.step(state, plan.node, input, None);
    }

    /// A thread gives up what its instruction held.
    fn retire(&self, state: &mut State, thread: usize) {
        let held = state.threads[thread].accesses.retire();
        for minipage in held {
            let input = Input::Retired { thread: id(thread), minipage, turn_us: 0 };
            self.step(state, self.job.threads[thread].node, input, None);
        }
    }

    /// An access the page tables allow: it happens at once, no engine sees it.
    fn touch(&self, state: &mut State, thread: usize, op: Op) {
        let node = self.job.threads[thread].node;
        let mut awaited = true;
        for (minipage, kind) in op.accesses().into_iter().flatten() {
            let seen = self.touch_one(state, thread, op, (minipage, kind));
            awaited &= op.awaits().is_none_or(|(_, value, ..)| value == seen);
        }
        let now = &mut state.threads[thread];
        (now.faults, now.phase, now.pinned) = (0, Phase::Running, false);
        now.accesses.forget();
        if let (false, Some((_, _, condition, lock))) = (awaited, op.awaits()) {
            self.retire(state, thread);
            state.threads[thread].phase = Phase::Blocked;
            let (condition, lock) = (condition.into(), lock.into());
            let asked = SyncInput::ConditionWait { thread: id(thread), id: condition, lock };
            self.step(state, node, Input::Sync(asked), None);
            return;
        }
        now.done += 1;
        if !self.job.progress {
            self.retire(state, thread);
        } else if now.accesses.holds_any() {
            now.phase = Phase::Through;
        }
    }

    fn touch_one(
        &self,
        state: &mut State,
        thread: usize,
        op: Op,
        (minipage, kind): (u8, Kind),
    ) -> Content {
        let index = usize::from(minipage);
        let node = self.job.threads[thread].node;
        let latest = state.latest[index];
        let page = &mut state.memory[node.index()][index];
        let seen = page.content;
        match op {
            Op::Write(_, value) => page.content = value,
            Op::Add(_) | Op::AddBoth(..) => page.content = seen.wrapping_add(1),
            Op::Read(_) | Op::Await { .. } | Op::TimedAwait { .. } => {}
            Op::Prefetch(..)
            | Op::Push(_)
            | Op::Reclaim(_)
            | Op::Lock(_)
            | Op::Unlock(_)
            | Op::Barrier { .. }
            | Op::Down(_)
            | Op::Up(..)
            | Op::Attempt { .. }
            | Op::Hold(..)
            | Op::LetGo(_)
            | Op::Signal(..) => {
                unreachable!("calls touch nothing")
            }
        }
        if kind == Kind::Write {
            state.latest[index] = page.content;
        }
        if !matches!(op, Op::Write(..)) {
            if seen != latest {
                let text = format!("thread {thread} reads {seen} in m{index}; latest is {latest}");
                state.broken.get_or_insert(Broken::StaleRead(text));
            }
            if self.job.observe {
                state.threads[thread].reads.push(seen);
            }
        }
        seen
    }

    /// An operation that asks the node for something.
    fn call(&self, state: &mut State, index: usize, op: Op) {
        let thread = id(index);
        let (input, blocks) = match op {
            Op::Prefetch(page, kind) => {
                (Input::Prefetch { minipage: minipage_id(page), kind }, false)
            }
            Op::Push(page) => (Input::Push { minipage: minipage_id(page) }, false),
            Op::Reclaim(page) => (Input::Reclaim { minipage: minipage_id(page) }, true),
            Op::Read(_)
            | Op::Write(..)
            | Op::Add(_)
            | Op::AddBoth(..)
            | Op::Await { .. }
            | Op::TimedAwait { .. } => {
                unreachable!("accesses are no calls")
            }
            Op::Lock(_)
            | Op::Unlock(_)
            | Op::Barrier { .. }
            | Op::Down(_)
            | Op::Up(..)
            | Op::Signal(..)
            | Op::Attempt { .. }
            | Op::Hold(..)
            | Op::LetGo(_) => {
                let (input, blocks) = synchronization(thread, op, self.job.lock_windows);
                (Input::Sync(input), blocks)
            }
        };
        let now = &mut state.threads[index];
        if blocks {
            now.phase = Phase::Blocked;
        } else {
            now.done += 1;
        }
        self.see_contention(state);
        self.step(state, self.job.threads[index].node, input, None);
    }

    /// The real node takes one input.
    fn step(&self, state: &mut State, me: NodeId, input: Input, arrived: Option<u8>) {
        let mut node = Arc::clone(&state.nodes[me.index()]);
        let mut stage = Stage { job: &self.job, me, state, arrived };
        let taken =
            catch_unwind(AssertUnwindSafe(|| Arc::make_mut(&mut node).step(input, &mut stage)));
        let refused = match taken {
            Ok(Ok(())) => None,
            Ok(Err(violation)) => Some(format!("{me}: {violation}")),
            Err(_) => Some(format!("{me}: the engine panicked")),
        };
        if stage.arrived.is_some() && refused.is_none() {
            let text = format!("{me}: a page came and was not installed");
            stage.state.broken.get_or_insert(Broken::World(text));
        }
        if let Some(text) = refused {
            state.broken.get_or_insert(Broken::Protocol(text));
        }
        state.nodes[me.index()] = node;
    }
}

/// What a thread was asked to hold, a window holds from now on.
fn keep(state: &mut State, thread: usize) {
    let now = &mut state.threads[thread];
    for minipage in now.accesses.retire() {
        now.windows |= 1 << minipage_index(minipage);
    }
    now.phase = Phase::Running;
}

fn release(link: &mut [Packet]) {
    link.iter_mut().for_each(|packet| packet.deferred = false);
}

fn id(thread: usize) -> ThreadId {
    ThreadId(u32::try_from(thread).expect("a job has few threads"))
}
