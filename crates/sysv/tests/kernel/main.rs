//! Random programs do the same here as in the kernel.
//!
//! A program is a seed. Several processes make calls, one at a time, of the kernel and of [`multigrain_sysv::ipc`];
//! those that block really do, and are woken, interrupted and killed. After each step, the answers are compared, who
//! still waits, and all that can be read of every object. Each program has a namespace of its own, so that ids are
//! the same, too; it goes with its processes. That needs root: without, there is nothing to compare.
//!
//! `MULTIGRAIN_IPC_RUNS` is how many programs are run, `MULTIGRAIN_IPC_SEED` the first one's seed.

mod here;
mod kernel_calls;
mod namespace;
mod normalized;
mod random;
mod scripts;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use multigrain_sysv::ipc::{Limits, Request};
use world::World;

const RUNS: u64 = 40;
const STEPS: usize = 250;
/// As much of the log of a program that fails as is shown.
const SHOWN_LINES: usize = 80;

#[test]
fn random_programs_do_the_same_as_in_the_kernel() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let first: u64 = number("MULTIGRAIN_IPC_SEED").unwrap_or(0);
    let runs = number("MULTIGRAIN_IPC_RUNS").unwrap_or(RUNS);
    let mut late = Late::default();
    for seed in first..first + runs {
        let limits = limits(seed);
        if !namespace::enter(&limits) {
            return;
        }
        late.add(run(seed, limits));
    }
    println!("{runs} programs, answered after they had waited: {late:?}");
    let least = late.operations.min(late.sends).min(late.receives);
    assert!(runs < RUNS || least > runs / 4, "the programs hardly ever wait: {late:?}");
}

/// Runs a program, and tells which calls were answered late.
fn run(seed: u64, limits: Limits) -> Late {
    let mut world = World::new(seed, limits);
    for step in 0..STEPS {
        shown_if_it_fails(&mut world, &format!("seed {seed}, step {step}"), World::step);
    }
    shown_if_it_fails(&mut world, &format!("seed {seed}, at the end"), World::finish);
    world.late_replies
}

/// Does this, and shows the log if it fails.
fn shown_if_it_fails(world: &mut World, place: &str, act: impl FnOnce(&mut World)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| act(world))) {
        let lines: Vec<&str> = world.log().lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        println!("{place}:\n{}", lines[from..].join("\n"));
        resume_unwind(panic);
    }
}

/// Every other program has the kernel's limits, the rest ones that are soon reached.
fn limits(seed: u64) -> Limits {
    let segment_bytes = 65_536;
    if seed.is_multiple_of(2) {
        return Limits { segment_bytes, ..Limits::default() };
    }
    Limits {
        segments: 3,
        segment_bytes,
        pages: 20,
        set_semaphores: 8,
        semaphores: 12,
        operations: 5,
        sets: 3,
        message_bytes: 4096,
        queue_bytes: 5000,
        queues: 3,
    }
}

/// How many calls were answered after they had waited, not by a signal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Late {
    operations: u64,
    sends: u64,
    receives: u64,
}

impl Late {
    pub(crate) fn count(&mut self, request: &Request) {
        if let Request::SemOperate { .. } = request {
            self.operations += 1;
        } else if let Request::MsgSend { .. } = request {
            self.sends += 1;
        } else {
            self.receives += 1;
        }
    }

    /// Adds those of another program.
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.sends += other.sends;
        self.receives += other.receives;
    }
}
