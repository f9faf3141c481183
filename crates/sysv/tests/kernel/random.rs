//! Random numbers from a seed, and the random calls made of them.

use libc::{IPC_CREAT, IPC_EXCL, IPC_NOWAIT, IPC_PRIVATE, SEM_UNDO};
use multigrain_sysv::ipc::{Operation, Request};

/// A stream of numbers (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("64 bits");
        usize::try_from(self.next() % bound).expect("64 bits")
    }

    /// True as often as this of 100 times.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn flag(&mut self, percent: usize, flag: i32) -> i32 {
        if self.percent(percent) { flag } else { 0 }
    }
}

/// What calls are made about.
#[derive(Debug)]
pub(crate) struct Objects {
    /// Ids that were given out, of objects that are there or not any more.
    pub(crate) segments: Vec<i32>,
    /// Sets' ids and how many semaphores they have.
    pub(crate) sets: Vec<(i32, usize)>,
    pub(crate) queues: Vec<i32>,
    /// How often each kind is used.
    pub(crate) shares: [usize; 3],
    pub(crate) users: Vec<u32>,
}

/// Objects beyond this are seldom made.
const MANY: usize = 4;

impl Objects {
    /// A call; `attached` is what its process has attached.
    pub(crate) fn call(&self, random: &mut Random, attached: &[i32]) -> Request {
        let kind = random.below(self.shares.iter().sum());
        if kind < self.shares[0] {
            self.sem(random)
        } else if kind < self.shares[0] + self.shares[1] {
            self.msg(random)
        } else {
            self.shm(random, attached)
        }
    }

    fn sem(&self, random: &mut Random) -> Request {
        if self.sets.is_empty() || random.percent(if self.sets.len() < MANY { 8 } else { 1 }) {
            let count = random.of(&[1, 2, 3, 3, 4, 4, 0, 8, 9, -1, 32_001]);
            return Request::SemGet { key: key(random), count, flags: get_flags(random) };
        }
        let (known, count) = random.of(&self.sets);
        let id = strange(random, known);
        let number = i32::try_from(random.below(count)).expect("a few");
        let number = if random.percent(3) { random.of(&[-1, 4, 100]) } else { number };
        match random.below(100) {
            0..60 => Request::SemOperate { id, operations: operations(random, count) },
            60..72 => {
                let value = random.of(&[0, 0, 0, 1, 1, 2, 3, 32_766, 32_767, 32_768, -1]);
                Request::SemSetValue { id, number, value }
            }
            72..77 => {
                let values = [0, 0, 0, 1, 2, 32_766, 32_767, 32_768];
                let values = (0..count).map(|_| random.of(&values)).collect();
                // As many values as the set has: not another set's number.
                Request::SemSetAll { id: known, values }
            }
            77..79 => Request::SemGetValue { id, number },
            79..81 => Request::SemGetAll { id },
            81..83 => Request::SemGetPid { id, number },
            83..85 => Request::SemGetWaiters { id, number },
            85..87 => Request::SemGetZeroWaiters { id, number },
            87..89 => Request::SemStat { id },
            89..91 => Request::SemStatIndex { index: index(random, id), any: random.percent(50) },
            91..96 => {
                let (uid, gid, mode) = self.owner(random);
                Request::SemSet { id, uid, gid, mode }
            }
            _ => Request::SemRemove { id },
        }
    }

    fn msg(&self, random: &mut Random) -> Request {
        if self.queues.is_empty() || random.percent(if self.queues.len() < MANY { 8 } else { 1 }) {
            return Request::MsgGet { key: key(random), flags: get_flags(random) };
        }
        let id = random.of(&self.queues);
        let id = strange(random, id);
        match random.below(100) {
            0..44 => {
                let length = random.of(&[0, 0, 1, 2, 3, 4, 4, 5, 8, 8, 12, 20]);
                let long = random.of(&[1000, 4000, 8192, 8193]);
                let length = if random.percent(6) { long } else { length };
                let kind = random.of(&[1, 1, 2, 2, 3, 4, i64::MAX, 0, -1]);
                let first = random.below(256);
                let bytes = (0..length)
                    .map(|at| u8::try_from((first + at) % 256).expect("a byte"))
                    .collect();
                Request::MsgSend { id, kind, bytes, flags: random.flag(15, IPC_NOWAIT) }
            }
            44..78 => {
                let kinds = [0, 0, 0, 0, 0, 1, 2, 3, 4, -1, -2, -3, i64::MAX, i64::MIN];
                let kind = random.of(&kinds);
                let most =
                    random.of(&[0, 2, 8, 100, 8192, 30_000, 30_000, 30_000, 30_000, 1 << 63]);
                let flags = random.flag(35, IPC_NOWAIT)
                    | random.flag(25, libc::MSG_NOERROR)
                    | random.flag(20, libc::MSG_EXCEPT)
                    | random.flag(8, libc::MSG_COPY | random_copy_wait(kind));
                Request::MsgReceive { id, kind, most, flags }
            }
            78..81 => Request::MsgStat { id },
            81..84 => Request::MsgStatIndex { index: index(random, id), any: random.percent(50) },
            84..96 => {
                let (uid, gid, mode) = self.owner(random);
                let most_bytes = random.of(&[0, 2, 4, 8, 8, 8, 16, 16, 24, 24, 40, 16_384, 16_385]);
                Request::MsgSet { id, uid, gid, mode, most_bytes }
            }
            _ => Request::MsgRemove { id },
        }
    }

    fn shm(&self, random: &mut Random, attached: &[i32]) -> Request {
        if self.segments.is_empty()
            || random.percent(if self.segments.len() < MANY { 20 } else { 4 })
        {
            let bytes = random.of(&[0, 1, 100, 4096, 4097, 8192, 20_000, 65_536, 65_537, 1 << 63]);
            return Request::ShmGet { key: key(random), bytes, flags: get_flags(random) };
        }
        let id = random.of(&self.segments);
        let id = strange(random, id);
        match random.below(100) {
            0..40 => {
                let flags = random.flag(40, libc::SHM_RDONLY) | random.flag(10, libc::SHM_EXEC);
                Request::ShmAttach { id, flags }
            }
            40..68 if !attached.is_empty() => Request::ShmDetach { id: random.of(attached) },
            40..72 => Request::ShmStat { id },
            72..76 => Request::ShmStatIndex { index: index(random, id), any: random.percent(50) },
            76..84 => Request::ShmLock { id, locked: random.percent(60) },
            84..92 => {
                let (uid, gid, mode) = self.owner(random);
                Request::ShmSet { id, uid, gid, mode }
            }
            _ => Request::ShmRemove { id },
        }
    }

    fn owner(&self, random: &mut Random) -> (u32, u32, u32) {
        let uid = if random.percent(3) { u32::MAX } else { random.of(&self.users) };
        let gid = if random.percent(3) { u32::MAX } else { random.of(&self.users) };
        (uid, gid, random.of(&[0o600, 0o644, 0o666, 0o666, 0o666, 0o640, 0o060, 0, 0o777, 0o1666]))
    }
}

/// The kernel refuses `MSG_COPY` of one who would wait: mostly it is asked without that.
fn random_copy_wait(kind: i64) -> i32 {
    if kind == 4 { 0 } else { IPC_NOWAIT }
}

fn operations(random: &mut Random, count: usize) -> Vec<Operation> {
    let length = random.of(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4]);
    let length = if random.percent(1) { random.of(&[0, 7, 500, 501]) } else { length };
    (0..length)
        .map(|_| {
            let number = if random.percent(1) { 8 } else { random.below(count) };
            let change = random.of(&[0, 0, 0, 1, 1, 1, 2, -1, -1, -1, -1, -2, -2]);
            let extreme = random.of(&[i16::MAX, i16::MIN, 32_766, -32_767]);
            let flags = random.flag(15, IPC_NOWAIT) | random.flag(35, SEM_UNDO);
            Operation {
                number: u16::try_from(number).expect("a few"),
                change: if random.percent(4) { extreme } else { change },
                flags: i16::try_from(flags).expect("two flags"),
            }
        })
        .collect()
}

fn key(random: &mut Random) -> i32 {
    random.of(&[IPC_PRIVATE, 1, 1, 2, 3, -5])
}

fn get_flags(random: &mut Random) -> i32 {
    let mode = random.of(&[0o600, 0o666, 0o666, 0o666, 0o644, 0o640, 0o060, 0, 0o777]);
    mode | random.flag(80, IPC_CREAT) | random.flag(20, IPC_EXCL)
}

/// Now and then an id that was never given out.
fn strange(random: &mut Random, id: i32) -> i32 {
    if random.percent(2) { random.of(&[-1, i32::MIN, id ^ 0x8000, id + 1, i32::MAX]) } else { id }
}

fn index(random: &mut Random, id: i32) -> i32 {
    random.of(&[id, id & 0x7fff, 0, 1, 2, -1])
}
