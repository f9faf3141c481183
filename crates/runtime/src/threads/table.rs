//! What a node knows of the threads started on it: which run, which threads wait for their ends, and which
//! results nobody has asked for yet. Pure: numbers in, decisions out.

use std::collections::BTreeMap;

use multigrain_types::{NodeId, ThreadId};

use super::NUMBER_BITS;
use crate::error::Error;
use crate::frames::Asker;

/// Most results of ended threads that a node keeps for later joins.
const MAX_KEPT: usize = 65_536;

/// Why a node starts no thread. The numbers go over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// All slots are taken.
    Slots = 1,
    /// Too many threads ended and were never joined.
    Unjoined = 2,
    /// All numbers were given out.
    Numbers = 3,
    /// The system starts no more threads.
    System = 4,
    /// The program's functions lie elsewhere than in the process that asked.
    Elsewhere = 5,
    /// The same, where addresses are not random: the program has not loaded there what it has loaded here.
    NotLoaded = 6,
}

impl Refusal {
    const ALL: [Self; 6] = [
        Self::Slots,
        Self::Unjoined,
        Self::Numbers,
        Self::System,
        Self::Elsewhere,
        Self::NotLoaded,
    ];

    pub(super) const fn to_wire(self) -> u64 {
        self as u64
    }

    pub(super) fn from_wire(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.to_wire() == number)
    }

    /// What the one that asked is told.
    pub(super) fn error(self, line: String) -> Error {
        match self {
            Self::Slots | Self::Unjoined | Self::Numbers | Self::System => Error::Limit(line),
            Self::Elsewhere | Self::NotLoaded => Error::System(line),
        }
    }

    /// The limit, and what to do.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Slots => {
                "the limit is 4,096 threads of a node that use shared memory; let some end first"
            }
            Self::Unjoined => {
                "65,536 threads that ended and were never joined; join or detach them"
            }
            Self::Numbers => "2^48 of them have been started, the limit",
            Self::System => {
                "the system refuses one more (ulimit -u, pids.max; ulimit -v; ulimit -s where it is huge)"
            }
            Self::Elsewhere => {
                "functions of the program lie elsewhere there, for addresses are random; allow personality(2) \
                 or link with -no-pie"
            }
            Self::NotLoaded => {
                "the library of its function is not loaded there, or at another address: let all nodes load (dlopen) the same \
                 libraries in the same order before mg_init"
            }
        }
    }
}

/// No thread of that number can be joined or detached: it never was, or was already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Running, and this thread waits for its end.
    Awaited(Asker),
    /// Running, and nobody will ask for its result.
    Detached,
    EndedThread(u64),
}

/// A node's table on its threads.
#[derive(Debug, Default)]
pub(super) struct ThreadTable {
    /// The last number given out.
    pub(super) last: u64,
    threads: BTreeMap<u64, State>,
    /// How many of `threads` have ended.
    kept: usize,
    /// What stderr has been told.
    told: Vec<Refusal>,
}

impl ThreadTable {
    /// A number for a thread that starts now, perhaps one that nobody will join.
    pub(super) fn admit(&mut self, detached: bool) -> Result<u64, Refusal> {
        if self.kept >= MAX_KEPT {
            return Err(Refusal::Unjoined);
        }
        if self.last >= (1 << NUMBER_BITS) - 1 {
            return Err(Refusal::Numbers);
        }
        self.last += 1;
        self.threads.insert(self.last, if detached { State::Detached } else { State::Running });
        Ok(self.last)
    }

    /// The thread could not be started after all.
    pub(super) fn strike(&mut self, number: u64) {
        self.threads.remove(&number);
    }

    /// A thread ends with this result; the threads that wait for it.
    pub(super) fn end(&mut self, number: u64, result: u64) -> Option<Asker> {
        match self.threads.remove(&number) {
            Some(State::Awaited(asker)) => Some(asker),
            Some(State::Running) => {
                self.threads.insert(number, State::EndedThread(result));
                self.kept += 1;
                None
            }
            Some(State::Detached) | None => None,
            Some(State::EndedThread(_)) => unreachable!("thread {number} ends twice"),
        }
    }

    /// Whether the result of a thread that has ended is kept for a later join.
    pub(super) fn keeps(&self, number: u64) -> bool {
        matches!(self.threads.get(&number), Some(State::EndedThread(_)))
    }

    /// The result of a thread that has ended; `None` if the asker has to wait for it.
    pub(super) fn join(&mut self, number: u64, asker: Asker) -> Result<Option<u64>, Unknown> {
        match self.threads.get_mut(&number) {
            Some(state @ State::Running) => {
                *state = State::Awaited(asker);
                Ok(None)
            }
            Some(&mut State::EndedThread(result)) => {
                self.forget(number);
                Ok(Some(result))
            }
            Some(State::Awaited(_) | State::Detached) | None => Err(Unknown),
        }
    }

    /// Threads that wait for an end.
    pub(super) fn joiners(&self) -> impl Iterator<Item = (NodeId, ThreadId)> + '_ {
        self.threads.values().filter_map(|state| match state {
            State::Awaited(asker) => Some((asker.node, asker.thread)),
            State::Running | State::Detached | State::EndedThread(_) => None,
        })
    }

    /// Nobody will join this thread.
    pub(super) fn detach(&mut self, number: u64) -> Result<(), Unknown> {
        match self.threads.get_mut(&number) {
            Some(state @ State::Running) => {
                *state = State::Detached;
                Ok(())
            }
            Some(State::EndedThread(_)) => {
                self.forget(number);
                Ok(())
            }
            Some(State::Awaited(_) | State::Detached) | None => Err(Unknown),
        }
    }

    fn forget(&mut self, number: u64) {
        self.threads.remove(&number);
        self.kept -= 1;
    }

    /// Whether this is the first refusal of its kind.
    pub(super) fn is_new(&mut self, refusal: Refusal) -> bool {
        let is_new = !self.told.contains(&refusal);
        if is_new {
            self.told.push(refusal);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::super::ThreadHandle;
    use super::*;

    const ASKER: Asker = Asker { node: NodeId(1), thread: ThreadId(5) };

    #[test]
    fn a_thread_is_joined_or_detached_once_before_or_after_its_end() {
        let mut table = ThreadTable::default();
        let [early, late, loose, dropped] = [(); 4].map(|()| table.admit(false).unwrap());
        let never = table.admit(true).unwrap();
        assert_eq!((table.join(never, ASKER), table.detach(never)), (Err(Unknown), Err(Unknown)));
        assert_eq!((table.end(never, 1), table.keeps(never)), (None, false));
        assert_eq!(table.join(early, ASKER), Ok(None));
        assert_eq!(table.joiners().collect::<Vec<_>>(), [(ASKER.node, ASKER.thread)]);
        assert_eq!(table.join(early, ASKER), Err(Unknown), "somebody waits already");
        assert_eq!(table.detach(early), Err(Unknown));
        assert_eq!(table.end(early, 7), Some(ASKER));
        assert_eq!(table.end(late, 8), None);
        assert!(table.keeps(late) && !table.keeps(early));
        assert_eq!(table.join(late, ASKER), Ok(Some(8)));
        assert_eq!(table.detach(loose), Ok(()));
        assert_eq!(table.detach(loose), Err(Unknown));
        assert_eq!(table.join(loose, ASKER), Err(Unknown));
        assert_eq!(table.end(loose, 9), None);
        assert!(!table.keeps(loose));
        assert_eq!(table.end(dropped, 10), None);
        assert_eq!(table.detach(dropped), Ok(()));
        for number in [early, late, loose, dropped, 99] {
            assert_eq!(table.join(number, ASKER), Err(Unknown));
            assert_eq!(table.detach(number), Err(Unknown));
        }
        assert!(table.threads.is_empty() && table.kept == 0, "nothing is kept: {table:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "65,536 threads")]
    fn results_nobody_asks_for_are_kept_up_to_the_limit_and_then_refused_by_its_name() {
        let mut table = ThreadTable::default();
        let numbers: Vec<u64> = (0..MAX_KEPT).map(|_| table.admit(false).unwrap()).collect();
        for &number in &numbers {
            assert_eq!(table.end(number, number), None);
        }
        assert_eq!(table.admit(false), Err(Refusal::Unjoined));
        let reason = Refusal::Unjoined.reason();
        assert!(reason.contains("65,536") && MAX_KEPT == 65_536, "{reason}");
        assert!(reason.contains("join or detach them"), "{reason}");
        assert_eq!(table.detach(numbers[0]), Ok(()));
        assert!(table.admit(false).is_ok());
        assert_eq!(table.join(numbers[1], ASKER), Ok(Some(numbers[1])));
        assert_eq!(table.threads.len(), MAX_KEPT - 1);
    }

    #[test]
    fn numbers_pass_32_bits_and_end_at_48() {
        let mut table = ThreadTable { last: (1 << 32) - 2, ..ThreadTable::default() };
        let handles: Vec<u64> = (0..3)
            .map(|_| ThreadHandle::new(NodeId(65_535), table.admit(false).unwrap()))
            .map(|handle| {
                assert_eq!(handle.node(), NodeId(65_535));
                handle.number()
            })
            .collect();
        assert_eq!(handles, [(1 << 32) - 1, 1 << 32, (1 << 32) + 1]);
        table.last = (1 << 48) - 2;
        assert_eq!(table.admit(false), Ok((1 << 48) - 1));
        assert_eq!(table.admit(false), Err(Refusal::Numbers));
        assert!(Refusal::Numbers.reason().contains("2^48"));
    }

    #[test]
    fn a_refusal_crosses_the_wire_and_is_said_once() {
        let mut table = ThreadTable::default();
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::from_wire(refusal.to_wire()), Some(refusal));
            assert!(table.is_new(refusal) && !table.is_new(refusal));
        }
        assert_eq!((Refusal::from_wire(0), Refusal::from_wire(7)), (None, None));
    }

    #[test]
    fn the_limit_of_slots_is_the_one_that_is_named() {
        assert_eq!(multigrain_types::limits::MAX_THREADS, 4096);
        assert!(Refusal::Slots.reason().contains("4,096"));
    }
}
