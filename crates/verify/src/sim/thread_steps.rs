//! What a thread does when its turn comes: accesses, traps, and calls of the runtime.

use crate::LockWindows;
use multigrain_protocol::held_accesses::Asking;
use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{Input, Kind, Words};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

use super::cluster::{Broken, Subject};
use super::operation::Op;
use super::simulation::{FREE, Result, Simulation};
use super::threads::State;

impl Op {
    /// The minipage this touches, and how.
    fn access(self) -> Option<(u32, Kind)> {
        match self {
            Self::Read(page) | Self::Peek(page) | Self::Await(page) => Some((page, Kind::Read)),
            Self::Write(page) | Self::Add(page) | Self::Change(page, _) => {
                Some((page, Kind::Write))
            }
            Self::Prefetch(..)
            | Self::Push(_)
            | Self::Lock(_)
            | Self::Unlock(_)
            | Self::Down(_)
            | Self::Up(_)
            | Self::Signal(..)
            | Self::Publish(_)
            | Self::Leave(_)
            | Self::Free(_)
            | Self::Barrier => None,
        }
    }
}

/// How long a lock's token may stay.
const LOCK_WINDOW_NS: u64 = 200_000;

/// The timer of a lock at a node; threads have the numbers below.
fn lock_timer(node: NodeId, lock: u32) -> u64 {
    1 << 63 | u64::from(node.0) << 32 | u64::from(lock)
}

impl Simulation {
    /// The window of a lock is over; false if that was not its timer.
    pub(super) fn end_lock_window(&mut self, timer: u64) -> Result<bool> {
        if timer >> 63 == 0 {
            return Ok(false);
        }
        let node = NodeId(u16::try_from(timer >> 32 & 0xffff).unwrap_or(0));
        if self.cluster.is_alive(node) {
            let id = self.program.ids.of(u32::try_from(timer & 0xffff_ffff).unwrap_or(0));
            self.ask(node, SyncInput::LockWindowOver { id })?;
            self.cluster.flush(node);
        }
        Ok(true)
    }

    /// One operation; false if the thread has to wait.
    pub(super) fn perform(&mut self, thread: u32, op: Op) -> Result<bool> {
        match op.access() {
            Some((page, kind)) => self.access(thread, op, page, kind),
            None => self.call(thread, op),
        }
    }

    fn access(&mut self, thread: u32, op: Op, page: u32, kind: Kind) -> Result<bool> {
        let node = self.numbers.node(thread);
        let minipage = self.cluster.id(page);
        let allowed = match (kind, self.cluster.access(node, minipage)) {
            (Kind::Read, Access::ReadOnly) | (_, Access::ReadWrite) => true,
            (Kind::Read | Kind::Write, Access::NoAccess) | (Kind::Write, Access::ReadOnly) => false,
        };
        if allowed {
            self.threads[thread as usize].held.forget();
            let goes_on = self.touch(thread, op, page, minipage)?;
            self.retire(thread)?;
            return if goes_on { Ok(true) } else { self.wait_for_change(thread, page) };
        }
        let gap_ns = self.cluster.timing().gap_ns(node);
        if gap_ns == 0 {
            self.fault(thread)?;
        } else {
            self.threads[thread as usize].state = State::Trapped;
            self.cluster.timer(gap_ns, thread.into());
        }
        Ok(false)
    }

    /// The trap handler's first half.
    pub(super) fn fault(&mut self, thread: u32) -> Result<()> {
        let node = self.numbers.node(thread);
        let (minipage, kind) = self.target(thread);
        self.threads[thread as usize].state = State::Faulted;
        let local = self.local(thread);
        let Asking { given_up, pinned } = self.threads[thread as usize].held.fault((), minipage);
        for minipage in given_up {
            self.cluster.step(node, Input::Retired { thread: local, minipage, turn_us: 0 })?;
        }
        self.cluster.step(
            node,
            if pinned {
                Input::PinnedRetry { thread: local, minipage, kind }
            } else {
                Input::Fault { thread: local, minipage, kind }
            },
        )?;
        self.enter_wait(thread);
        Ok(())
    }

    /// Its second half; then the access is tried again.
    pub(super) fn resume(&mut self, thread: u32) -> Result<()> {
        let node = self.numbers.node(thread);
        let (minipage, _) = self.target(thread);
        self.threads[thread as usize].state = State::Running;
        self.cluster.step(node, Input::Resumed { thread: self.local(thread), minipage })?;
        if self.cluster.take_asked_to_hold().is_some() {
            self.threads[thread as usize].held.hold(minipage);
        }
        let gap_ns = self.cluster.timing().gap_ns(node);
        if gap_ns == 0 {
            return self.go(thread);
        }
        self.cluster.timer(gap_ns, thread.into());
        Ok(())
    }

    fn target(&self, thread: u32) -> (MinipageId, Kind) {
        let op = self.threads[thread as usize].op();
        let (page, kind) = op.and_then(Op::access).expect("only accesses trap");
        (self.cluster.id(page), kind)
    }

    /// An access that the page tables allow: it happens at once, no engine sees it. False if the
    /// thread does not find what it awaits.
    fn touch(&mut self, number: u32, op: Op, page: u32, minipage: MinipageId) -> Result<bool> {
        let node = self.numbers.node(number);
        let thread = &mut self.threads[number as usize];
        let (mut saw, mut wrote) = (None, None);
        if !matches!(op, Op::Write(_) | Op::Change(..)) {
            saw = Some(self.cluster.read(node, minipage)?);
        }
        if let Op::Peek(_) = op {
            return Ok(true);
        }
        let sum = &mut self.oracle.sums[page as usize];
        if let Op::Write(_) = op {
            thread.stores += 1;
            wrote = Some(u64::from(number + 1) << 32 | u64::from(thread.stores));
        } else if let Op::Change(_, by) = op {
            *sum = sum.wrapping_add_signed(by.into());
            wrote = Some(thread.seen.wrapping_add_signed(by.into()));
        } else if let (Op::Add(_), Some(seen)) = (op, saw) {
            *sum += 1;
            wrote = Some(seen + 1);
        } else {
            thread.seen = saw.unwrap_or_default();
        }
        if let Some(value) = wrote {
            self.cluster.write(node, minipage, value);
        }
        self.record(number, page, (saw, wrote))?;
        Ok(!matches!((op, saw), (Op::Await(_), Some(0))))
    }

    /// The instruction of a thread is through.
    fn retire(&mut self, number: u32) -> Result<()> {
        let (node, thread) = (self.numbers.node(number), self.local(number));
        for minipage in self.threads[number as usize].held.retire() {
            self.cluster.step(node, Input::Retired { thread, minipage, turn_us: 0 })?;
        }
        Ok(())
    }

    fn wait_for_change(&mut self, number: u32, page: u32) -> Result<bool> {
        // The engine gives the lock back when the wait is known to the condition's manager.
        self.oracle.owners[page as usize] = None;
        let (thread, id) = (self.local(number), self.program.ids.of(page));
        self.wait_in(number, SyncInput::ConditionWait { thread, id, lock: id })
    }

    /// A call of the runtime.
    fn call(&mut self, number: u32, op: Op) -> Result<bool> {
        let node = self.numbers.node(number);
        let thread = self.local(number);
        match op {
            Op::Prefetch(page, kind) => {
                let minipage = self.cluster.id(page);
                self.cluster.step(node, Input::Prefetch { minipage, kind })?;
            }
            Op::Push(page) => {
                let minipage = self.cluster.id(page);
                self.cluster.step(node, Input::Push { minipage })?;
            }
            Op::Lock(page) => {
                return self
                    .wait_in(number, SyncInput::Lock { thread, id: self.program.ids.of(page) });
            }
            Op::Unlock(page) => {
                self.oracle.owners[page as usize] = None;
                let id = self.program.ids.of(page);
                // Two times of three the lock may stay free here, for as long as a frame travels or so.
                let windows = LockWindows::ALL[(self.cluster.steps() % 3) as usize];
                self.ask(node, windows.unlock(thread, id))?;
                if windows != LockWindows::None {
                    self.cluster.timer(LOCK_WINDOW_NS, lock_timer(node, page));
                }
                self.cluster.flush(node);
            }
            Op::Down(index) => {
                let id = self.program.ids.of(index);
                return self.wait_in(number, SyncInput::SemaphoreWait { thread, id });
            }
            Op::Up(index) => {
                self.oracle.units[index as usize].0 += 1;
                self.ask(
                    node,
                    SyncInput::SemaphorePost { id: self.program.ids.of(index), count: 1 },
                )?;
            }
            Op::Signal(page, all) => {
                self.ask(node, SyncInput::ConditionSignal { id: self.program.ids.of(page), all })?;
            }
            Op::Publish(page) => self.program.heap.publish(page),
            Op::Leave(page) => self.program.heap.leave(page),
            Op::Free(page) => {
                self.free(number, page);
                return Ok(false);
            }
            Op::Barrier => return self.meet(number),
            Op::Read(_)
            | Op::Peek(_)
            | Op::Write(_)
            | Op::Add(_)
            | Op::Change(..)
            | Op::Await(_) => {
                unreachable!("accesses are no calls")
            }
        }
        Ok(true)
    }

    /// The barrier's id and the way a node announces its threads change from one to the next.
    fn meet(&mut self, number: u32) -> Result<bool> {
        self.oracle.arrivals += 1;
        let episode = self.threads[number as usize].episode;
        let id = self.program.ids.of(episode % 3);
        let local = if episode & 4 == 0 { self.plan.threads } else { 0 };
        let (thread, total) = (self.local(number), self.plan.all_threads());
        self.wait_in(number, SyncInput::Barrier { thread, id, local, total, quiescent: false })
    }

    fn free(&mut self, number: u32, page: u32) {
        let (from, to) = (self.numbers.node(number), self.program.heap.owner(page));
        let subject = self.cluster.id(page).0;
        self.threads[number as usize].state = State::Blocked;
        let words = Words { kind: FREE, thread: number, subject, ..Words::default() };
        self.cluster.send_control(from, to, words);
        self.enter_wait(number);
    }

    fn wait_in(&mut self, number: u32, input: SyncInput) -> Result<bool> {
        self.threads[number as usize].state = State::Blocked;
        self.ask(self.numbers.node(number), input)?;
        self.enter_wait(number);
        Ok(false)
    }

    fn ask(&mut self, node: NodeId, input: SyncInput) -> Result<()> {
        self.cluster.step(node, Input::Sync(input))
    }

    /// A thread returns from a call that waited: was it its turn?
    pub(super) fn granted(&mut self, number: u32, op: Op) -> Result<()> {
        let mut wrong = None;
        if let Op::Lock(page) | Op::Await(page) = op {
            let other = self.oracle.owners[page as usize].replace(number);
            wrong = other
                .map(|other| format!("thread {number} has the lock that thread {other} holds"));
        } else if let Op::Down(index) = op {
            let (posted, taken) = &mut self.oracle.units[index as usize];
            *taken += 1;
            wrong = (taken > posted).then(|| format!("{taken} units are taken of {posted} posted"));
        } else if op == Op::Barrier {
            let episode = u64::from(self.threads[number as usize].episode) + 1;
            let (came, all) = (self.oracle.arrivals, u64::from(self.plan.all_threads()));
            wrong = (came < episode * all).then(|| {
                let here = came + all - episode * all;
                format!("thread {number} leaves the barrier, {here} of {all} have come")
            });
        }
        match wrong {
            Some(text) => Err(Broken { subject: self.subject_of(number, op), text }),
            None => Ok(()),
        }
    }

    /// What an operation of a thread is about.
    pub(super) fn subject_of(&self, number: u32, op: Op) -> Subject {
        match op {
            Op::Read(page)
            | Op::Peek(page)
            | Op::Write(page)
            | Op::Add(page)
            | Op::Change(page, _)
            | Op::Prefetch(page, _)
            | Op::Push(page)
            | Op::Publish(page)
            | Op::Leave(page)
            | Op::Free(page) => Subject::Minipage(self.cluster.id(page)),
            Op::Lock(index)
            | Op::Unlock(index)
            | Op::Down(index)
            | Op::Up(index)
            | Op::Await(index)
            | Op::Signal(index, _) => Subject::Id(self.program.ids.of(index)),
            Op::Barrier => {
                Subject::Id(self.program.ids.of(self.threads[number as usize].episode % 3))
            }
        }
    }

    fn local(&self, thread: u32) -> ThreadId {
        ThreadId(thread % self.numbers.of_node)
    }
}
