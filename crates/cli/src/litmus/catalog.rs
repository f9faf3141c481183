//! The tests: those of the literature under their own names, then atomic instructions, then the
//! programs with loops of `locks`.
//!
//! Sources: Alglave, Maranget, Tautschnig, "Herding Cats" (2014), for the families; Owens, Sarkar,
//! Sewell, "A better x86 memory model: x86-TSO" (2009), for n5 and n6.
//!
//! `exists` asks for the outcome that no interleaving gives.

use super::locks;
use super::program::Op::{Cmpxchg, Load, Mfence, Store, Xadd, Xchg};
use super::program::Var::{self, X, Y, Z};
use super::program::{ANY, Rule, Test, Thread, registers};

/// Each thread's instructions, as code and as a list.
macro_rules! threads {
    ($([$($op:expr),+]),+) => {
        &[$(Thread {
            run: |cell| { $(cell.execute(const { $op });)+ },
            ops: &[$($op),+],
            registers: registers(&[$($op),+]),
        }),+]
    };
}

const fn test(
    name: &'static str,
    about: &'static str,
    threads: &'static [Thread],
    finals: &'static [Var],
    exists: &'static [u64],
) -> Test {
    Test { name, about, threads, finals, exists, rule: Rule::Machine }
}

/// A program with loops: one outcome is right.
const fn program(
    name: &'static str,
    about: &'static str,
    threads: &'static [Thread],
    finals: &'static [Var],
    expected: &'static [u64],
) -> Test {
    Test { name, about, threads, finals, exists: expected, rule: Rule::Only(expected) }
}

/// The test of a name, in any case of letters.
pub(super) fn named(name: &str) -> Option<&'static Test> {
    TESTS.iter().find(|test| test.name.eq_ignore_ascii_case(name))
}

/// All of them.
#[rustfmt::skip]
pub(super) static TESTS: &[Test] = &[
    test("SB", "store buffering: may both loads pass the stores before them?",
        threads!([Store(X, 1), Load(Y)], [Store(Y, 1), Load(X)]), &[], &[0, 0]),
    test("SB+mfences", "store buffering with fences",
        threads!([Store(X, 1), Mfence, Load(Y)], [Store(Y, 1), Mfence, Load(X)]), &[], &[0, 0]),
    test("SB+mfence+po", "store buffering with one fence",
        threads!([Store(X, 1), Mfence, Load(Y)], [Store(Y, 1), Load(X)]), &[], &[0, 0]),
    test("SB+xchgs", "store buffering, the stores are exchanges",
        threads!([Xchg(X, 1), Load(Y)], [Xchg(Y, 1), Load(X)]), &[], &[ANY, 0, ANY, 0]),
    test("SB+rfis", "store buffering, each thread reads its own store first",
        threads!([Store(X, 1), Load(X), Load(Y)], [Store(Y, 1), Load(Y), Load(X)]),
        &[], &[1, 0, 1, 0]),
    test("MP", "message passing: is data seen when the flag is?",
        threads!([Store(X, 1), Store(Y, 1)], [Load(Y), Load(X)]), &[], &[1, 0]),
    test("LB", "load buffering: may loads see stores behind them?",
        threads!([Load(X), Store(Y, 1)], [Load(Y), Store(X, 1)]), &[], &[1, 1]),
    test("S", "store after a load that saw the other's later store: does it come last?",
        threads!([Store(X, 2), Store(Y, 1)], [Load(Y), Store(X, 1)]), &[X], &[1, 2]),
    test("R", "stores in order against a store and a load",
        threads!([Store(X, 1), Store(Y, 1)], [Store(Y, 2), Load(X)]), &[Y], &[0, 2]),
    test("R+mfences", "R with fences",
        threads!([Store(X, 1), Mfence, Store(Y, 1)], [Store(Y, 2), Mfence, Load(X)]),
        &[Y], &[0, 2]),
    test("R+po+mfence", "R with a fence where TSO needs one",
        threads!([Store(X, 1), Store(Y, 1)], [Store(Y, 2), Mfence, Load(X)]), &[Y], &[0, 2]),
    test("R+mfence+po", "R with a fence where TSO needs none",
        threads!([Store(X, 1), Mfence, Store(Y, 1)], [Store(Y, 2), Load(X)]), &[Y], &[0, 2]),
    test("2+2W", "two stores each, crosswise: may both first ones come last?",
        threads!([Store(X, 1), Store(Y, 2)], [Store(Y, 1), Store(X, 2)]), &[X, Y], &[1, 1]),
    test("n5", "may each see the other's store after its own?",
        threads!([Store(X, 1), Load(X)], [Store(X, 2), Load(X)]), &[], &[2, 1]),
    test("n6", "forwarding from the store buffer",
        threads!([Store(X, 1), Load(X), Load(Y)], [Store(Y, 2), Store(X, 2)]), &[X], &[1, 0, 1]),
    test("IRIW", "independent reads of independent writes: do readers agree on the order?",
        threads!([Store(X, 1)], [Store(Y, 1)], [Load(X), Load(Y)], [Load(Y), Load(X)]),
        &[], &[1, 0, 1, 0]),
    test("WRC", "write-to-read causality",
        threads!([Store(X, 1)], [Load(X), Store(Y, 1)], [Load(Y), Load(X)]), &[], &[1, 1, 0]),
    test("RWC", "read-to-write causality",
        threads!([Store(X, 1)], [Load(X), Load(Y)], [Store(Y, 1), Load(X)]), &[], &[1, 0, 0]),
    test("RWC+mfence", "read-to-write causality with a fence",
        threads!([Store(X, 1)], [Load(X), Load(Y)], [Store(Y, 1), Mfence, Load(X)]),
        &[], &[1, 0, 0]),
    test("W+RWC", "read-to-write causality after message passing",
        threads!([Store(X, 1), Store(Y, 1)], [Load(Y), Load(Z)], [Store(Z, 1), Load(X)]),
        &[], &[1, 0, 0]),
    test("W+RWC+mfence", "the same with a fence",
        threads!([Store(X, 1), Store(Y, 1)], [Load(Y), Load(Z)], [Store(Z, 1), Mfence, Load(X)]),
        &[], &[1, 0, 0]),
    test("ISA2", "message passing through a third thread",
        threads!([Store(X, 1), Store(Y, 1)], [Load(Y), Store(Z, 1)], [Load(Z), Load(X)]),
        &[], &[1, 1, 0]),
    test("CoRR", "coherence: may a later load see an older value?",
        threads!([Store(X, 1)], [Load(X), Load(X)]), &[], &[1, 0]),
    test("CoRR2", "coherence: do two readers agree on the order of two stores?",
        threads!([Store(X, 1)], [Store(X, 2)], [Load(X), Load(X)], [Load(X), Load(X)]),
        &[], &[1, 2, 2, 1]),
    test("CoWW", "coherence: does the later of two stores last, while another thread reads?",
        threads!([Store(X, 1), Store(X, 2)], [Load(X)]), &[X], &[ANY, 1]),
    test("CoRW1", "coherence: may a load see the thread's own later store?",
        threads!([Load(X), Store(X, 1)], [Load(X)]), &[], &[1, ANY]),
    test("CoRW2", "coherence: is a store after a load later than what was loaded?",
        threads!([Load(X), Store(X, 1)], [Store(X, 2)]), &[X], &[2, 2]),
    test("CoWR", "coherence: may a load see what the thread's own store replaced?",
        threads!([Store(X, 1), Load(X)], [Store(X, 2)]), &[X], &[2, 1]),
    test("fetch-add", "is one of two additions lost?",
        threads!([Xadd(X, 1)], [Xadd(X, 1)]), &[X], &[ANY, ANY, 1]),
    test("fetch-add-4", "is one of four additions lost?",
        threads!([Xadd(X, 1)], [Xadd(X, 1)], [Xadd(X, 1)], [Xadd(X, 1)]),
        &[X], &[ANY, ANY, ANY, ANY, 3]),
    test("fetch-add+store", "is a store lost between the halves of an addition?",
        threads!([Xadd(X, 1)], [Store(X, 10)]), &[X], &[ANY, 1]),
    test("compare-exchange", "do two succeed?",
        threads!([Cmpxchg(X, 0, 1)], [Cmpxchg(X, 0, 2)]), &[X], &[0, 0, ANY]),
    test("exchange", "do two find what was there at first?",
        threads!([Xchg(X, 1)], [Xchg(X, 2)]), &[X], &[0, 0, ANY]),
    program("spin lock", "exchange, with a load to wait; 3 threads", locks::SPIN, &[X], locks::THREE),
    program("ticket lock", "fetch-add; 3 threads", locks::TICKET, &[X], locks::THREE),
    program("Peterson", "Peterson's algorithm with a fence", locks::PETERSON, &[X], locks::TWO),
    program("Dekker", "Dekker's algorithm with fences", locks::DEKKER, &[X], locks::TWO),
    program("seqlock", "one writer, two readers that try again", locks::SEQLOCK, &[X, Y],
        locks::READ_WHOLE),
    program("fetch-add loop", "is one of many additions of 3 threads lost?",
        locks::ADDING, &[X], locks::COUNTED),
    program("compare-exchange loop", "the same with compare-exchange",
        locks::COMPARING, &[X], locks::COUNTED),
    program("neighbours", "3 threads count, each in a variable of its own: is a store lost?",
        locks::NEIGHBOURS, &[X, Y, Z], locks::COUNTED_EACH),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::litmus::program::{REGISTERS, THREADS};

    #[test]
    fn names_differ_and_no_test_is_larger_than_a_cell() {
        for (number, test) in TESTS.iter().enumerate() {
            assert!(core::ptr::eq(named(test.name).unwrap(), &raw const TESTS[number]), "{test:?}");
            assert!(test.threads.len() <= THREADS, "{test:?}");
            assert!(test.threads.iter().all(|thread| thread.registers.len() <= REGISTERS));
            assert_eq!(test.labels().len(), test.exists.len(), "{test:?}");
        }
    }

    #[test]
    fn a_test_is_shown_as_herd_shows_it() {
        let test = named("r").unwrap();
        assert_eq!(test.condition(), r"exists (1:r0=0 /\ y=2)");
        assert_eq!(test.show(&[1, 2]), "1:r0=1; y=2;");
        assert_eq!(named("SB+xchgs").unwrap().condition(), r"exists (0:r1=0 /\ 1:r1=0)");
    }
}
