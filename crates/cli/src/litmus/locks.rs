//! Programs with loops: four locks around a counter that is not atomic, a sequence lock, and counting
//! without a lock.
//!
//! Every thread passes its critical section [`ENTRIES`] times a round. Two threads in it at once
//! show as a mark that another left (`overlaps`), or as a count that is too low at the end. A
//! thread that waits yields its core, and gives up after [`PATIENCE`] (`given_up`): a lock that
//! hangs is a wrong outcome, not a test that never ends.
//!
//! Counting takes as long as a minipage needs to go to another node and back, so that minipages are
//! withdrawn while they are written: a lost store then makes a count too low.

use super::instruction::{Word, mfence};
use super::program::{Cell, Thread, Var};
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Times that each thread enters, or writes or reads.
const ENTRIES: u64 = 4;
/// Times that each thread counts.
const COUNTS: u64 = 1 << 14;
/// Longest wait for another thread; shorter once this node has seen that a lock hangs.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_LOST: Duration = Duration::from_millis(100);
static HANGS: AtomicBool = AtomicBool::new(false);
/// Looks before the core is yielded.
const LOOKS: u32 = 64;

const NAMES: &[&str] = &["overlaps", "given_up"];

/// No overlaps, nobody gave up, nothing lost: two threads, then three.
pub(super) const TWO: &[u64] = &[0, 0, 0, 0, 2 * ENTRIES];
pub(super) const THREE: &[u64] = &[0, 0, 0, 0, 0, 0, 3 * ENTRIES];
/// The same of a writer and two readers; the last values written.
pub(super) const READ_WHOLE: &[u64] = &[0, 0, 0, 0, 0, 0, ENTRIES, ENTRIES];

/// Nothing lost: of one counter, of a counter for each.
pub(super) const COUNTED: &[u64] = &[3 * COUNTS];
pub(super) const COUNTED_EACH: &[u64] = &[0, 0, 0, COUNTS, COUNTS, COUNTS];

const fn thread(run: fn(&mut Cell)) -> Thread {
    Thread { run, ops: &[], registers: NAMES }
}

pub(super) static SPIN: &[Thread] = &[const { thread(spin) }; 3];
pub(super) static TICKET: &[Thread] = &[const { thread(ticket) }; 3];
pub(super) static PETERSON: &[Thread] = &[const { thread(peterson) }; 2];
pub(super) static DEKKER: &[Thread] = &[const { thread(dekker) }; 2];
pub(super) static SEQLOCK: &[Thread] = &[thread(write), thread(read), thread(read)];

const fn counting(run: fn(&mut Cell), registers: &'static [&'static str]) -> Thread {
    Thread { run, ops: &[], registers }
}

pub(super) static ADDING: &[Thread] = &[const { counting(add, &[]) }; 3];
pub(super) static COMPARING: &[Thread] = &[const { counting(compare, &[]) }; 3];
pub(super) static NEIGHBOURS: &[Thread] = &[const { counting(count_alone, &["lost"]) }; 3];

/// `x` is the counter everywhere; the locks use the others. The mark lies in the counter's upper
/// half, where an overlap would also spoil the count.
const MARK: u32 = 32;

fn word(cell: &Cell, var: Var) -> Word {
    cell.words[var as usize]
}

/// What the lock protects.
fn critical_section(cell: &mut Cell) {
    let counter = word(cell, Var::X);
    let before = counter.load();
    let mark = (cell.thread as u64 + 1) << MARK;
    counter.store(before | mark);
    let within = counter.load();
    let overlaps = before >> MARK != 0 || within != before | mark;
    counter.store(before + 1);
    cell.registers[0] += u64::from(overlaps);
}

/// Waits until `ready`; false after [`PATIENCE`].
fn wait(cell: &mut Cell, ready: impl Fn() -> bool) -> bool {
    let hangs = HANGS.load(Ordering::Relaxed);
    let patience = if hangs { PATIENCE_LOST } else { PATIENCE };
    let mut since = None;
    for look in 1_u32.. {
        if ready() {
            return true;
        }
        if look.is_multiple_of(LOOKS) {
            if since.get_or_insert_with(Instant::now).elapsed() > patience {
                break;
            }
            yield_now();
        }
    }
    HANGS.store(true, Ordering::Relaxed);
    cell.registers[1] = 1;
    false
}

fn spin(cell: &mut Cell) {
    let lock = word(cell, Var::Y);
    for _ in 0..ENTRIES {
        if !wait(cell, || lock.load() == 0 && lock.swap(1) == 0) {
            return;
        }
        critical_section(cell);
        lock.store(0);
    }
}

fn ticket(cell: &mut Cell) {
    let (next, serving) = (word(cell, Var::Y), word(cell, Var::Z));
    for _ in 0..ENTRIES {
        let mine = next.add(1);
        if !wait(cell, || serving.load() == mine) {
            return;
        }
        critical_section(cell);
        serving.store(mine + 1);
    }
}

/// This thread's flag, the other's, and whose turn it is.
fn flags(cell: &Cell) -> (Word, Word, Word) {
    let (y, z) = (word(cell, Var::Y), word(cell, Var::Z));
    let (mine, other) = if cell.thread == 0 { (y, z) } else { (z, y) };
    (mine, other, word(cell, Var::W))
}

fn peterson(cell: &mut Cell) {
    let (mine, other, turn) = flags(cell);
    let others = 1 - cell.thread as u64;
    for _ in 0..ENTRIES {
        mine.store(1);
        turn.store(others);
        mfence();
        if !wait(cell, || other.load() == 0 || turn.load() != others) {
            return;
        }
        critical_section(cell);
        mine.store(0);
    }
}

fn dekker(cell: &mut Cell) {
    let (mine, other, turn) = flags(cell);
    let (own, others) = (cell.thread as u64, 1 - cell.thread as u64);
    for _ in 0..ENTRIES {
        mine.store(1);
        mfence();
        while other.load() == 1 {
            if turn.load() == others {
                mine.store(0);
                if !wait(cell, || turn.load() == own) {
                    return;
                }
                mine.store(1);
                mfence();
            } else if !wait(cell, || other.load() == 0 || turn.load() == others) {
                return;
            }
        }
        critical_section(cell);
        turn.store(others);
        mine.store(0);
    }
}

/// `x` and `y` are the data, `z` is the sequence: odd while they change.
fn write(cell: &mut Cell) {
    let [x, y, sequence, _] = cell.words;
    for value in 1..=ENTRIES {
        sequence.store(2 * value - 1);
        x.store(value);
        y.store(value);
        sequence.store(2 * value);
    }
}

fn read(cell: &mut Cell) {
    let [x, y, sequence, _] = cell.words;
    for _ in 0..ENTRIES {
        let found = core::cell::Cell::new((0, 0, 0));
        let whole = wait(cell, || {
            let before = sequence.load();
            found.set((before / 2, x.load(), y.load()));
            before.is_multiple_of(2) && sequence.load() == before
        });
        if !whole {
            return;
        }
        let (written, x, y) = found.get();
        cell.registers[0] += u64::from(x != written || y != written);
    }
}

fn add(cell: &mut Cell) {
    let counter = word(cell, Var::X);
    for _ in 0..COUNTS {
        counter.add(1);
    }
}

fn compare(cell: &mut Cell) {
    let counter = word(cell, Var::X);
    for _ in 0..COUNTS {
        let mut old = counter.load();
        loop {
            let found = counter.compare_exchange(old, old + 1);
            if found == old {
                break;
            }
            old = found;
        }
    }
}

/// Each thread counts in a variable of its own, next to those of the others.
fn count_alone(cell: &mut Cell) {
    let counter = cell.words[cell.thread];
    for count in 0..COUNTS {
        cell.registers[0] += u64::from(counter.load() != count);
        counter.store(count + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::TESTS;
    use super::super::program::{Rule, Test, VARIABLES};
    use super::*;
    use core::sync::atomic::AtomicU64;

    /// Runs the threads of a program on ordinary memory.
    fn check(test: &Test, expected: &[u64], rounds: u32) {
        let (threads, finals) = (test.threads, test.finals);
        for _ in 0..rounds {
            let places: &'static [AtomicU64; VARIABLES] = Box::leak(Box::default());
            let words = places.each_ref().map(Word::of);
            let registers = std::thread::scope(|scope| {
                let started: Vec<_> = threads
                    .iter()
                    .enumerate()
                    .map(|(number, thread)| {
                        scope.spawn(move || {
                            let mut cell = Cell::new(words, number);
                            (thread.run)(&mut cell);
                            cell.registers
                        })
                    })
                    .collect();
                started.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            let mut outcome: Vec<u64> = threads
                .iter()
                .zip(&registers)
                .flat_map(|(thread, found)| found[..thread.registers.len()].to_vec())
                .collect();
            outcome.extend(finals.iter().map(|&var| words[var as usize].load()));
            assert_eq!(outcome, expected);
        }
    }

    #[test]
    fn the_programs_keep_their_promise_on_ordinary_memory() {
        for test in TESTS {
            if let Rule::Only(expected) = test.rule {
                check(test, expected, 20);
            }
        }
    }

    #[test]
    fn threads_without_a_lock_are_found_out() {
        let place: &'static [AtomicU64; VARIABLES] = Box::leak(Box::default());
        let mut cell = Cell::new(place.each_ref().map(Word::of), 0);
        place[0].store(3 << MARK | 5, core::sync::atomic::Ordering::SeqCst);
        critical_section(&mut cell);
        assert_eq!(cell.registers[0], 1);
    }
}
