//! Critical sections, and the ways to pass cells from thread to thread.

use super::super::program::{GroupId, Op, ThreadId};
use super::{Access, Draft, Owner};
use multigrain_protocol::Kind;

impl Draft {
    /// Groups a thread may use.
    fn groups_of(&self, thread: ThreadId) -> Vec<GroupId> {
        let known = self.states[thread.0].phase;
        let groups = (0..self.uses.len()).map(GroupId);
        let open = |group: &GroupId| {
            let group = &self.uses[group.0];
            group.state == Access::Open && group.opened <= known
        };
        groups.filter(open).collect()
    }

    fn lock_of(&self, group: GroupId) -> u32 {
        self.program.groups[group.0].lock
    }

    pub(super) fn enter(&mut self, thread: ThreadId, group: GroupId) {
        let users = &mut self.uses[group.0].users;
        if !users.contains(&thread) {
            users.push(thread);
        }
        self.emit(thread, Op::Lock(self.lock_of(group)));
    }

    pub(super) fn bump(&mut self, thread: ThreadId, group: GroupId) {
        let amount = 1 + self.rng.below(9);
        self.program.groups[group.0].total += amount;
        self.emit(thread, Op::Bump(group, amount));
    }

    /// Gives the lock back; threads that wait for the group are told before or after.
    pub(super) fn leave(&mut self, thread: ThreadId, group: GroupId) {
        let mut ops = vec![Op::Unlock(self.lock_of(group))];
        if self.uses[group.0].awaited {
            let condition = self.program.groups[group.0].condition;
            let place = self.below(2);
            ops.insert(place, Op::Signal { condition, all: true });
        }
        self.emit_all(thread, ops);
    }

    pub(super) fn critical_section(&mut self, thread: ThreadId) {
        let groups = self.groups_of(thread);
        if groups.is_empty() {
            return self.access_some(thread, 2);
        }
        let group = self.rng.pick(&groups);
        self.enter(thread, group);
        for _ in 0..=self.rng.below(2) {
            match self.rng.below(4) {
                0 => self.emit(thread, Op::Inspect(group)),
                1 => self.access_some(thread, 1),
                _ => self.bump(thread, group),
            }
        }
        self.leave(thread, group);
    }

    /// Two locks at once, always in the same order.
    pub(super) fn nested_sections(&mut self, thread: ThreadId) {
        let mut groups = self.groups_of(thread);
        groups.sort_by_key(|&group| self.lock_of(group));
        if groups.len() < 2 {
            return self.critical_section(thread);
        }
        let first = self.below(groups.len() - 1);
        let second = first + 1 + self.below(groups.len() - first - 1);
        let (outer, inner) = (groups[first], groups[second]);
        self.enter(thread, outer);
        if self.rng.once_in(2) {
            self.bump(thread, outer);
        }
        self.enter(thread, inner);
        self.bump(thread, inner);
        if self.rng.once_in(2) {
            self.bump(thread, outer);
        }
        let (one, other) = if self.rng.once_in(2) { (outer, inner) } else { (inner, outer) };
        self.leave(thread, one);
        self.leave(thread, other);
    }

    /// Some of the cells a thread alone has, by number; it touches one of them first.
    pub(super) fn choose_to_hand_on(&mut self, thread: ThreadId) -> Vec<usize> {
        let mut cells = self.cells_of(thread, Kind::Write);
        let keep = self.rng.below(4);
        cells.retain(|_| self.rng.below(4) >= keep);
        self.touch_one(thread, Kind::Write, &cells);
        cells
    }

    /// A thread touches one of these.
    pub(super) fn touch_one(&mut self, thread: ThreadId, kind: Kind, cells: &[usize]) {
        if !cells.is_empty() {
            let cell = self.rng.pick(cells);
            self.access(thread, kind, cell);
        }
    }

    pub(super) fn give(&mut self, cells: &[usize], threads: &[ThreadId]) {
        for &cell in cells {
            self.cells[cell].owner = Owner::Threads(threads.to_vec());
        }
    }

    pub(super) fn hand_by_semaphore(&mut self, thread: ThreadId) {
        let Some(to) = self.other_than(thread) else { return };
        let cells = self.choose_to_hand_on(thread);
        let id = self.fresh_id();
        self.emit(thread, Op::Post { id, units: 1 });
        self.emit(to, Op::Down(id));
        self.receive(thread, to, &cells);
    }

    /// A thread has learned what another did, and got these cells of it.
    fn receive(&mut self, from: ThreadId, to: ThreadId, cells: &[usize]) {
        self.learn(to, from);
        self.give(cells, &[to]);
        self.touch_one(to, Kind::Write, cells);
    }

    /// One thread lets several read what it has.
    pub(super) fn share_by_semaphore(&mut self, thread: ThreadId) {
        let others = self.alive().into_iter();
        let mut readers: Vec<_> =
            others.filter(|&other| other != thread && self.rng.once_in(2)).collect();
        let Ok(units) = u32::try_from(readers.len()) else { return };
        if units == 0 {
            return;
        }
        let cells = self.choose_to_hand_on(thread);
        let id = self.fresh_id();
        self.emit(thread, Op::Post { id, units });
        readers.push(thread);
        self.give(&cells, &readers);
        readers.pop();
        for reader in readers {
            self.emit(reader, Op::Down(id));
            self.learn(reader, thread);
            self.touch_one(reader, Kind::Read, &cells);
        }
    }

    /// A thread waits under a lock until the group has grown as much as it ever will, and so until
    /// another has added to it; others may wait for the same.
    pub(super) fn hand_by_group(&mut self, thread: ThreadId) {
        let Some(to) = self.other_than(thread) else { return };
        let mut groups = self.groups_of(thread);
        let both = self.groups_of(to);
        groups.retain(|&group| self.uses[group.0].awaited && both.contains(&group));
        if groups.is_empty() {
            return;
        }
        let group = self.rng.pick(&groups);
        let cells = self.choose_to_hand_on(thread);
        self.enter(thread, group);
        self.bump(thread, group);
        self.leave(thread, group);
        for other in self.alive() {
            let may = other != to && self.groups_of(other).contains(&group);
            if may && self.rng.once_in(3) {
                self.await_all(other, group);
            }
        }
        self.await_all(to, group);
        self.uses[group.0].state = Access::Closed;
        self.receive(thread, to, &cells);
    }

    pub(super) fn await_all(&mut self, thread: ThreadId, group: GroupId) {
        self.enter(thread, group);
        let so_far = self.program.groups[group.0].total;
        self.emit(thread, Op::Await(group, so_far));
        self.emit(thread, Op::Unlock(self.lock_of(group)));
    }

    /// The same with a group of two threads: one signal wakes the one who waits.
    pub(super) fn hand_by_flag(&mut self) {
        let flags: Vec<_> = (0..self.uses.len())
            .filter_map(|group| match self.uses[group].state {
                Access::Flag(teller) => Some((GroupId(group), teller)),
                Access::Open | Access::Closed => None,
            })
            .collect();
        if flags.is_empty() {
            return;
        }
        let (group, teller) = self.rng.pick(&flags);
        let Some(to) = self.other_than(teller) else { return };
        let opened = self.uses[group.0].opened;
        if self.states[to.0].phase < opened {
            return;
        }
        let cells = self.choose_to_hand_on(teller);
        self.enter(teller, group);
        self.bump(teller, group);
        let condition = self.program.groups[group.0].condition;
        let mut ops = vec![Op::Unlock(self.lock_of(group))];
        let place = self.below(2);
        ops.insert(place, Op::Signal { condition, all: false });
        self.emit_all(teller, ops);
        self.await_all(to, group);
        self.uses[group.0].state = Access::Closed;
        self.receive(teller, to, &cells);
    }

    /// Some threads meet, and what they have alone is dealt out among them.
    pub(super) fn some_meet(&mut self) {
        let alive = self.alive().into_iter();
        let come: Vec<_> = alive.filter(|_| !self.rng.once_in(3)).collect();
        let Ok(total) = u32::try_from(come.len()) else { return };
        if total < 2 {
            return;
        }
        let id = self.fresh_id();
        for &thread in &come {
            self.emit(thread, Op::Barrier { id, total });
        }
        let latest = come.iter().map(|thread| self.states[thread.0].phase).max().unwrap_or(0);
        for &thread in &come {
            self.states[thread.0].phase = latest;
            for cell in self.cells_of(thread, Kind::Write) {
                if self.rng.once_in(2) {
                    let to = self.rng.pick(&come);
                    self.give(&[cell], &[to]);
                }
            }
        }
    }
}
