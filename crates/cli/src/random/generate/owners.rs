//! The owners of cells in a phase.

use super::super::program::{Group, GroupId, ObjectId, Span, ThreadId};
use super::{Access, Draft, Fate, Life, Owner, Use};

/// How an object is used in a phase.
#[derive(Debug, Clone, Copy)]
enum Sharing {
    /// One thread has all of it.
    One(ThreadId),
    /// Two have a half each.
    Halves(ThreadId, ThreadId),
    /// All read it.
    Read,
    /// Each cell for itself.
    Mixed,
}

/// Most places of a group.
const PLACES: usize = 5;
/// Locks that groups have; every group that is open has its own.
const LOCKS: u32 = 8;

impl Draft {
    /// Deals out all cells that no started thread holds. All initial threads have just met.
    pub(super) fn deal(&mut self) {
        self.close_groups();
        for object in (0..self.fates.len()).map(ObjectId) {
            if self.fates[object.0] == Fate::Freed {
                continue;
            }
            let may_go = self.cells.iter().filter(|cell| cell.object == object);
            let may_go = may_go.clone().all(|cell| self.is_free(&cell.owner));
            let sharing = self.sharing();
            self.fates[object.0] = Fate::Lives;
            let doomed = matches!(sharing, Sharing::One(_)) && may_go && self.rng.once_in(2);
            if doomed && self.lives() > 2 {
                self.fates[object.0] = Fate::Doomed;
            }
            self.deal_object(object, sharing);
        }
        self.open_groups();
    }

    fn lives(&self) -> usize {
        self.fates.iter().filter(|&&fate| fate == Fate::Lives).count()
    }

    /// Whether a cell can be dealt out: no started thread has it.
    fn is_free(&self, owner: &Owner) -> bool {
        match owner {
            Owner::Group(_) => false,
            Owner::Threads(threads) => !threads
                .iter()
                .any(|thread| matches!(self.states[thread.0].life, Life::Started { .. })),
        }
    }

    pub(super) fn initial_thread(&mut self) -> ThreadId {
        let initial_threads = self.job.initial_threads;
        ThreadId(self.below(initial_threads))
    }

    fn sharing(&mut self) -> Sharing {
        let (one, two) = (self.initial_thread(), self.initial_thread());
        match self.rng.below(8) {
            0..3 => Sharing::One(one),
            3 => Sharing::Halves(one, two),
            4 => Sharing::Read,
            _ => Sharing::Mixed,
        }
    }

    fn deal_object(&mut self, object: ObjectId, sharing: Sharing) {
        let all: Vec<_> = (0..self.job.initial_threads).map(ThreadId).collect();
        let half = self.program.objects[object.0].bytes / 2;
        for number in 0..self.cells.len() {
            let cell = &self.cells[number];
            if cell.object != object || !self.is_free(&cell.owner) {
                continue;
            }
            let first = cell.from < half;
            let owner = match sharing {
                Sharing::One(thread) => vec![thread],
                Sharing::Halves(thread, other) => vec![if first { thread } else { other }],
                Sharing::Read => all.clone(),
                Sharing::Mixed if self.rng.once_in(5) => all.clone(),
                Sharing::Mixed => vec![self.initial_thread()],
            };
            self.cells[number].owner = Owner::Threads(owner);
        }
    }

    /// Closes the groups that no started thread has come to know.
    fn close_groups(&mut self) {
        for (number, group) in self.uses.iter_mut().enumerate() {
            let started =
                |thread: &ThreadId| matches!(self.states[thread.0].life, Life::Started { .. });
            if group.users.iter().any(started) {
                continue;
            }
            group.state = Access::Closed;
            for cell in &mut self.cells {
                if cell.owner == Owner::Group(GroupId(number)) {
                    cell.owner = Owner::Threads(Vec::new());
                }
            }
        }
    }

    fn open_groups(&mut self) {
        for _ in 0..self.rng.below(4) {
            self.open_group(Access::Open, PLACES);
        }
        for _ in 0..self.rng.below(3) {
            let teller = self.initial_thread();
            self.open_group(Access::Flag(teller), 1);
        }
    }

    fn open_group(&mut self, state: Access, most: usize) {
        let group = GroupId(self.program.groups.len());
        let taken: Vec<u32> = self.open_locks();
        let Some(lock) = (0..LOCKS).find(|lock| !taken.contains(lock)) else { return };
        let mut places = Vec::new();
        for _ in 0..=self.below(most) {
            let fits: Vec<usize> = (0..self.cells.len())
                .filter(|&number| {
                    let cell = &self.cells[number];
                    cell.to - cell.from >= 2
                        && self.fates[cell.object.0] == Fate::Lives
                        && self.is_free(&cell.owner)
                })
                .collect();
            if fits.is_empty() {
                break;
            }
            let number = self.rng.pick(&fits);
            let (from, room) =
                (self.cells[number].from, self.cells[number].to - self.cells[number].from);
            let widths: Vec<usize> = [2, 4, 8].into_iter().filter(|&width| width <= room).collect();
            let bytes = self.rng.pick(&widths);
            let from = from + self.below(room - bytes + 1);
            self.cells[number].owner = Owner::Group(group);
            places.push(Span { object: self.cells[number].object, from, bytes });
        }
        if places.is_empty() {
            return;
        }
        // Its own: a signal must not wake who waits for something else.
        let condition = u32::try_from(group.0).unwrap_or(u32::MAX);
        let awaited = self.rng.once_in(2);
        self.program.groups.push(Group { lock, condition, places, total: 0 });
        self.uses.push(Use { opened: self.at.phase, state, awaited, users: Vec::new() });
    }

    /// Locks of groups that somebody may still use.
    fn open_locks(&self) -> Vec<u32> {
        let groups = self.uses.iter().zip(&self.program.groups);
        // A flag that was told may not have been received yet.
        let open = groups
            .filter(|(group, _)| group.state != Access::Closed || group.opened == self.at.phase);
        open.map(|(_, group)| group.lock).collect()
    }
}
