//! Which programs are measured, and with which inputs.

use super::floor::Floor;

/// One line of `bench programs`: an application with an input.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The application, and its words; with `--quick` others.
    pub(super) app: &'static str,
    pub(super) input: &'static [&'static str],
    pub(super) quick: &'static [&'static str],
    pub(super) nodes: u16,
    /// Of each node.
    pub(super) threads: u16,
    pub(super) unit: Unit,
    pub(super) baselines: Baselines,
    pub(super) floor: Option<Floor>,
}

/// In what a program's speed is said, and where its result line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// The section's time.
    Millis,
    /// A figure of the application, the time of one of what it does.
    Micros(&'static str),
    /// A figure that is the better the larger it is, and its name.
    Rate(&'static str, &'static str),
}

/// Which other builds of it are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Baselines {
    /// Threads that hand a mutex to and fro spend their time asleep: nothing to be held against.
    Nothing,
    Threads,
    SequentialAndThreads,
}

impl Unit {
    /// The key in the result line.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Micros(key) | Self::Rate(key, _) => key,
        }
    }

    /// For the head of a column.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Micros(_) => "us",
            Self::Rate(_, name) => name,
        }
    }

    /// How many times as long `ours` takes as `other`.
    pub(super) fn ratio(self, ours: f64, other: f64) -> Option<f64> {
        let (over, under) = match self {
            Self::Millis | Self::Micros(_) => (ours, other),
            Self::Rate(..) => (other, ours),
        };
        (under > 0.0).then(|| over / under)
    }
}

/// What is common to most rows.
const PAIR: Row = Row {
    name: "",
    what: "",
    app: "",
    input: &[],
    quick: &[],
    nodes: 2,
    threads: 1,
    unit: Unit::Millis,
    baselines: Baselines::SequentialAndThreads,
    floor: None,
};
const MB_S: Unit = Unit::Rate("mb_s", "MB/s");
const BULK: Row = Row { app: "bulk", unit: MB_S, baselines: Baselines::Threads, ..PAIR };
const BARRIER: Row = Row {
    app: "barrier",
    quick: &["--rounds", "20"],
    unit: Unit::Micros("barrier_us"),
    baselines: Baselines::Threads,
    ..PAIR
};
const REDUCE: Row =
    Row { app: "reduce", unit: Unit::Micros("round_us"), baselines: Baselines::Threads, ..PAIR };
const FLOYD: Row = Row { app: "floyd", ..PAIR };
const ALLOC: Row = Row {
    app: "alloc",
    nodes: 1,
    threads: 2,
    unit: Unit::Rate("m_s", "M/s"),
    baselines: Baselines::Threads,
    ..PAIR
};

/// All rows, in the order in which they are measured.
pub(super) static ROWS: [Row; 36] = [
    Row {
        name: "counter",
        what: "one counter under one lock, a hand-over from node to node",
        app: "counter",
        quick: &["--handovers", "100"],
        unit: Unit::Micros("hand_over_us"),
        baselines: Baselines::Nothing,
        floor: Some(Floor::HandOver),
        ..PAIR
    },
    Row {
        name: "queue",
        what: "a task queue under one lock, a task",
        app: "queue",
        quick: &["--tasks", "300"],
        unit: Unit::Micros("task_us"),
        ..PAIR
    },
    Row {
        name: "lock-after-barrier",
        what: "a lock right behind a barrier, the slower node",
        input: &["--lock", "1"],
        quick: &["--lock", "1", "--rounds", "20"],
        unit: Unit::Micros("lock_us"),
        baselines: Baselines::Nothing,
        ..BARRIER
    },
    Row {
        name: "reduce-lock",
        what: "a word added to by all under a lock, read by all, a round",
        quick: &["--rounds", "20"],
        ..REDUCE
    },
    Row {
        name: "reduce-atomic",
        what: "the same by an atomic addition",
        input: &["--how", "1"],
        quick: &["--how", "1", "--rounds", "20"],
        ..REDUCE
    },
    Row {
        name: "reduce-fetch",
        what: "the same by an atomic addition where the word lives",
        input: &["--how", "2"],
        quick: &["--how", "2", "--rounds", "20"],
        ..REDUCE
    },
    Row {
        name: "bulk-read",
        what: "first read of 256 MiB",
        input: &["--what", "0", "--mib", "256"],
        quick: &["--what", "0", "--mib", "1"],
        floor: Some(Floor::Fresh),
        ..BULK
    },
    Row {
        name: "bulk-again",
        what: "the same again after it was written elsewhere",
        input: &["--what", "1", "--mib", "256"],
        quick: &["--what", "1", "--mib", "1"],
        floor: Some(Floor::Requests),
        ..BULK
    },
    Row {
        name: "bulk-write",
        what: "write of 256 MiB that another node wrote",
        input: &["--what", "2", "--mib", "256"],
        quick: &["--what", "2", "--mib", "1"],
        floor: Some(Floor::Requests),
        ..BULK
    },
    Row {
        name: "bulk-fresh",
        what: "first write of 8 MiB that another node allocated",
        input: &["--what", "3", "--mib", "8"],
        quick: &["--what", "3", "--mib", "1"],
        ..BULK
    },
    Row {
        name: "bulk-fresh-rows",
        what: "the same in elements of 256 bytes, as SOR's rows",
        input: &["--what", "3", "--mib", "8", "--element", "256"],
        quick: &["--what", "3", "--mib", "1", "--element", "256"],
        ..BULK
    },
    Row {
        name: "water",
        what: "WATER, Table 2's input",
        app: "water",
        quick: &["--molecules", "45"],
        ..PAIR
    },
    Row {
        name: "lurows",
        what: "LU of a plain matrix of 512, rows interleaved",
        app: "lurows",
        quick: &["--size", "64"],
        ..PAIR
    },
    Row {
        name: "fft",
        what: "FFT with transpositions, 2^16",
        app: "fft",
        quick: &["--numbers", "8"],
        ..PAIR
    },
    Row { name: "radix", what: "radix sort, 2^18", app: "radix", quick: &["--keys", "10"], ..PAIR },
    Row {
        name: "tree",
        what: "tree code, 2,048 bodies, a lock a cell",
        app: "tree",
        quick: &["--bodies", "60"],
        ..PAIR
    },
    Row {
        name: "jacobi",
        what: "Jacobi, 1024 x 50",
        app: "jacobi",
        quick: &["--size", "66", "--iterations", "3"],
        ..PAIR
    },
    Row { name: "lu", what: "LU, 1024, blocks", app: "lu", quick: &["--size", "64"], ..PAIR },
    Row { name: "is", what: "IS, 2^23 keys", app: "is", quick: &["--keys", "12"], ..PAIR },
    Row {
        name: "sor",
        what: "SOR, Table 2's input",
        app: "sor",
        quick: &["--rows", "100"],
        ..PAIR
    },
    Row {
        name: "sor-alone",
        what: "SOR's 16 views on one node",
        app: "sor",
        quick: &["--rows", "100"],
        nodes: 1,
        ..PAIR
    },
    Row {
        name: "tsp",
        what: "TSP, Table 2's input",
        app: "tsp",
        quick: &["--cities", "9", "--level", "6"],
        ..PAIR
    },
    Row {
        name: "falseshare",
        what: "each page written by all",
        app: "falseshare",
        quick: &["--pages", "4", "--iterations", "3"],
        ..PAIR
    },
    Row {
        name: "ep",
        what: "NAS EP, class W",
        app: "ep",
        input: &["--log2", "25"],
        quick: &["--log2", "16"],
        ..PAIR
    },
    Row {
        name: "cg",
        what: "NAS CG, class W",
        app: "cg",
        input: &["--rows", "7000", "--nonzeros", "8", "--shift", "12"],
        quick: &["--rows", "200", "--nonzeros", "5", "--iterations", "2"],
        ..PAIR
    },
    Row {
        name: "helmholtz",
        what: "Helmholtz's equation, 1000 x 1000, 100 steps",
        app: "helmholtz",
        quick: &["--rows", "60", "--cols", "60", "--iterations", "5"],
        ..PAIR
    },
    Row {
        name: "md",
        what: "molecular dynamics, 500 particles, 100 steps",
        app: "md",
        input: &["--steps", "100"],
        quick: &["--particles", "30", "--steps", "4"],
        ..PAIR
    },
    Row {
        name: "floyd",
        what: "shortest paths between all of 512, consecutive rows",
        quick: &["--size", "32"],
        ..FLOYD
    },
    Row {
        name: "floyd-apart",
        what: "the same of 1,024, a page a row",
        input: &["--size", "1024", "--apart", "1"],
        quick: &["--size", "32", "--apart", "1"],
        ..FLOYD
    },
    Row {
        name: "floyd-dealt",
        what: "the same of 512, rows dealt out in turn, two a page",
        input: &["--deal", "1"],
        quick: &["--size", "32", "--deal", "1"],
        ..FLOYD
    },
    Row {
        name: "align",
        what: "alignment of two sequences of 1,024",
        app: "align",
        quick: &["--length", "100", "--block", "16"],
        ..PAIR
    },
    Row {
        name: "hash",
        what: "40,000 words counted, a lock a bucket",
        app: "hash",
        quick: &["--words", "200"],
        ..PAIR
    },
    Row {
        name: "alloc-64",
        what: "allocations and frees of 64 bytes, 2 threads",
        quick: &["--count", "500"],
        ..ALLOC
    },
    Row {
        name: "alloc-100k",
        what: "the same of 100 KB",
        input: &["--bytes", "100000", "--count", "20000"],
        quick: &["--bytes", "100000", "--count", "500"],
        ..ALLOC
    },
    Row {
        name: "barrier-16",
        what: "a barrier of 2 nodes with 16 threads each",
        threads: 16,
        ..BARRIER
    },
    Row {
        name: "barrier-64",
        what: "the same with 64 threads each",
        input: &["--rounds", "500"],
        threads: 64,
        ..BARRIER
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_name_of_its_own_and_an_application() {
        let names: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|row| !row.app.is_empty() && !row.quick.is_empty()));
    }

    #[test]
    fn a_ratio_is_how_much_longer_it_takes() {
        assert_eq!(Unit::Millis.ratio(6.0, 2.0), Some(3.0));
        assert_eq!(Unit::Rate("m_s", "M/s").ratio(2.0, 6.0), Some(3.0));
        assert_eq!(Unit::Millis.ratio(6.0, 0.0), None);
    }
}
