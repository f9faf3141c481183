//! The table of checked jobs, each with its number of unique states.
//!
//! The numbers are part of the check: a change of the protocol that adds or loses interleavings
//! shows here, and has to be explained.

use multigrain_protocol::Kind::{Read as ForRead, Write as ForWrite};

use super::program::Op::{
    Add, Await, Barrier, Down, Lock, Prefetch, Push, Read, Reclaim, Signal, Unlock, Up, Write,
};
use super::program::{Job, Op};

/// How much to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For every test run: under a minute.
    Short,
    /// The short form and bigger jobs: several minutes.
    Long,
}

/// One job of the table.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What it is called, `group/case`.
    pub name: &'static str,
    /// The job.
    pub job: Job,
    /// Unique states it has.
    pub states: usize,
}

fn row(name: &'static str, states: usize, job: Job) -> Configuration {
    Configuration { name, job, states }
}

/// All configurations of a form, small ones first.
#[must_use]
pub fn configurations(form: Form) -> Vec<Configuration> {
    let mut rows = coherence();
    rows.extend(beyond_the_paper());
    rows.extend(litmus());
    rows.extend(synchronization());
    if form == Form::Long {
        rows.extend(long_coherence());
        rows.extend(long_rest());
    }
    rows
}

/// Millipage 3.3 and Figure 3: misses, upgrades, competing requests.
fn coherence() -> Vec<Configuration> {
    let update: [Op; 2] = [Read(0), Write(0, 1)];
    vec![
        row("coherence/two-writers", 0, Job::new(2).minipage(0, 0).thread(0, &[Add(0), Add(0)]).thread(1, &[Add(0), Add(0)])),
        row("coherence/remote-manager", 0, Job::new(3).minipage(0, 1).thread(1, &[Write(0, 1)]).thread(2, &[Add(0), Read(0)])),
        row("coherence/three-writers", 0, Job::new(3).minipage(0, 1).thread(0, &[Add(0)]).thread(1, &[Add(0)]).thread(2, &[Add(0)])),
        row("coherence/readers-and-a-writer", 0, Job::new(3).minipage(0, 0).thread(0, &[Write(0, 1), Write(0, 2)]).thread(1, &[Read(0), Read(0)]).thread(2, &[Read(0)])),
        row("coherence/upgrades", 0, Job::new(3).minipage(0, 0).thread(1, &update).thread(2, &[Read(0), Write(0, 2)])),
        row("coherence/two-threads-a-node", 0, Job::new(2).minipage(0, 0).thread(0, &[Write(0, 1)]).thread(1, &[Read(0)]).thread(1, &[Write(0, 2)]).with_trap_gap()),
        row("coherence/three-threads-a-node", 0, Job::new(2).minipage(1, 0).thread(0, &[Add(0)]).thread(1, &[Read(0)]).thread(1, &[Write(0, 9), Read(0)]).thread(1, &[Read(0)])),
        row("coherence/four-nodes", 0, Job::new(4).minipage(0, 1).thread(1, &[Read(0)]).thread(2, &[Read(0)]).thread(3, &[Add(0)])),
        row("coherence/two-minipages", 0, Job::new(2).minipage(0, 1).minipage(1, 0).thread(0, &[Add(0), Add(1)]).thread(1, &[Add(1), Add(0)])),
    ]
}

/// Prefetch, push and reclaim: what a real system adds.
fn beyond_the_paper() -> Vec<Configuration> {
    vec![
        row("prefetch/races-with-faults", 0, Job::new(2).minipage(0, 0).thread(0, &[Add(0), Add(0)]).thread(1, &[Prefetch(0, ForRead), Read(0), Add(0)]).thread(1, &[Prefetch(0, ForWrite)])),
        row("prefetch/three-nodes", 0, Job::new(3).minipage(0, 0).thread(0, &[Add(0)]).thread(1, &[Prefetch(0, ForWrite), Read(0)]).thread(2, &[Prefetch(0, ForRead), Add(0)])),
        row("push/meets-a-read", 0, Job::new(3).minipage(1, 0).thread(0, &[Write(0, 1), Push(0)]).thread(1, &[Read(0)]).thread(2, &[Read(0)])),
        row("push/meets-writes", 0, Job::new(3).minipage(0, 0).thread(0, &[Push(0), Add(0)]).thread(1, &[Add(0)]).thread(2, &[Read(0)])),
        row("push/by-two", 0, Job::new(2).minipage(0, 0).thread(0, &[Push(0), Push(0), Push(0)]).thread(1, &[Read(0), Push(0), Add(0)])),
        row("reclaim/meets-accesses", 0, Job::new(2).minipage(1, 0).thread(0, &[Reclaim(0), Write(0, 7), Read(0)]).thread(1, &[Read(0), Read(0)]).thread(1, &[Write(0, 2)])),
        row("reclaim/meets-own-faults", 0, Job::new(2).minipage(1, 0).thread(0, &[Read(0), Reclaim(0), Write(0, 7)]).thread(0, &[Read(0)]).thread(1, &[Write(0, 2)]).with_trap_gap()),
        row("reclaim/three-nodes", 0, Job::new(3).minipage(1, 0).thread(0, &[Reclaim(0), Write(0, 7), Push(0)]).thread(1, &[Read(0)]).thread(2, &[Write(0, 2)])),
    ]
}

/// Litmus tests on two minipages: the outcomes must be those of sequential consistency.
fn litmus() -> Vec<Configuration> {
    let two = |manager, owner| Job::new(2).minipage(manager, owner).minipage(1, 0).observed();
    vec![
        row("litmus/store-buffering", 0, two(0, 0).thread(0, &[Write(0, 1), Read(1)]).thread(1, &[Write(1, 1), Read(0)])),
        row("litmus/message-passing", 0, two(0, 1).thread(0, &[Write(0, 1), Write(1, 1)]).thread(1, &[Read(1), Read(0)])),
        row("litmus/load-buffering", 0, two(1, 1).thread(0, &[Read(0), Write(1, 1)]).thread(1, &[Read(1), Write(0, 1)])),
        row("litmus/write-to-read-causality", 0, Job::new(3).minipage(0, 0).minipage(0, 2).observed().thread(0, &[Write(0, 1)]).thread(1, &[Read(0), Write(1, 1)]).thread(2, &[Read(1), Read(0)])),
        row("litmus/independent-reads", 0, two(0, 0).thread(0, &[Write(0, 1)]).thread(1, &[Write(1, 1)]).thread(0, &[Read(0), Read(1)]).thread(1, &[Read(1), Read(0)])),
        row("litmus/coherence-order", 0, Job::new(3).minipage(0, 0).observed().thread(0, &[Write(0, 1), Write(0, 2)]).thread(1, &[Read(0), Read(0)]).thread(2, &[Read(0), Read(0)])),
        row("litmus/atomic-adds", 0, Job::new(3).minipage(0, 0).observed().thread(0, &[Add(0)]).thread(1, &[Add(0)]).thread(2, &[Add(0)])),
    ]
}

/// Locks, barriers, semaphores and condition variables, alone and over shared data.
fn synchronization() -> Vec<Configuration> {
    let section = [Lock(0), Read(0), Write(0, 1), Unlock(0)];
    let meet = |local, total| Barrier { id: 1, local, total };
    let until = |value| Await { minipage: 0, value, condition: 1, lock: 0 };
    vec![
        row("lock/over-data", 0, Job::new(2).minipage(0, 1).thread(0, &section).thread(1, &section)),
        row("lock/three-nodes", 0, Job::new(3).thread(0, &[Lock(0), Unlock(0)]).thread(1, &[Lock(0), Unlock(0), Lock(0), Unlock(0)]).thread(2, &[Lock(0), Unlock(0), Lock(0), Unlock(0)])),
        row("lock/two-threads-a-node", 0, Job::new(2).thread(0, &[Lock(0), Unlock(0)]).thread(0, &[Lock(0), Unlock(0)]).thread(1, &[Lock(0), Unlock(0), Lock(0), Unlock(0)]).thread(1, &[Lock(0), Unlock(0)])),
        row("barrier/over-data", 0, Job::new(2).minipage(0, 0).thread(0, &[Write(0, 1), meet(1, 2), Read(0), meet(1, 2)]).thread(1, &[meet(1, 2), Read(0), meet(1, 2), Write(0, 2)])),
        row("barrier/threads-together", 0, Job::new(2).thread(0, &[meet(2, 4), meet(2, 4)]).thread(0, &[meet(2, 4), meet(2, 4)]).thread(1, &[meet(0, 4), meet(2, 4)]).thread(1, &[meet(0, 4), meet(2, 4)])),
        row("semaphore/producer-consumers", 0, Job::new(3).thread(0, &[Up(1, 1), Up(1, 2)]).thread(1, &[Down(1), Up(2, 1)]).thread(2, &[Down(1), Down(2)]).thread(2, &[Down(1)])),
        row("condition/hand-over", 0, Job::new(2).minipage(0, 0).thread(0, &[Lock(0), until(1), Unlock(0)]).thread(1, &[Lock(0), Write(0, 1), Signal(1, false), Unlock(0)])),
        row("condition/broadcast", 0, Job::new(3).minipage(2, 2).thread(0, &[Lock(0), until(1), Unlock(0)]).thread(1, &[Lock(0), until(1), Unlock(0)]).thread(2, &[Lock(0), Write(0, 1), Unlock(0), Signal(1, true)])),
    ]
}

/// Bigger jobs over the coherence protocol.
fn long_coherence() -> Vec<Configuration> {
    let mixed = [Read(0), Add(0), Read(0)];
    vec![
        row("long/four-writers", 0, Job::new(4).minipage(0, 1).thread(0, &mixed).thread(1, &[Add(0), Read(0)]).thread(2, &[Add(0), Add(0)]).thread(3, &[Read(0), Add(0)])),
        row("long/four-nodes-prefetch-push", 0, Job::new(4).minipage(0, 0).thread(0, &[Add(0), Push(0), Add(0)]).thread(1, &[Prefetch(0, ForRead), Read(0), Add(0)]).thread(2, &[Prefetch(0, ForWrite), Read(0)]).thread(3, &[Add(0)])),
        row("long/two-threads-on-three-nodes", 0, Job::new(3).minipage(0, 1).thread(0, &[Add(0), Read(0)]).thread(0, &[Read(0)]).thread(1, &[Add(0)]).thread(1, &[Read(0)]).thread(2, &[Add(0)]).thread(2, &[Read(0), Add(0)])),
        row("long/traps-on-three-nodes", 0, Job::new(3).minipage(0, 1).thread(0, &[Read(0), Add(0)]).thread(0, &[Read(0)]).thread(1, &[Add(0)]).thread(2, &[Add(0)]).thread(2, &[Read(0), Add(0)]).with_trap_gap()),
        row("long/three-minipages", 0, Job::new(3).minipage(0, 0).minipage(1, 1).minipage(2, 2).thread(0, &[Add(0), Add(1), Read(2)]).thread(1, &[Add(1), Add(2), Read(0)]).thread(2, &[Add(2), Add(0), Read(1)])),
        row("long/three-pushers", 0, Job::new(3).minipage(0, 0).thread(0, &[Push(0), Add(0), Push(0), Push(0)]).thread(1, &[Read(0), Push(0), Push(0), Add(0)]).thread(2, &[Read(0), Push(0), Add(0)])),
        row("long/reclaim-under-fire", 0, Job::new(3).minipage(1, 0).thread(0, &[Read(0), Reclaim(0), Write(0, 7), Push(0), Reclaim(0), Write(0, 9)]).thread(0, &[Prefetch(0, ForRead), Read(0)]).thread(1, &[Read(0), Push(0), Read(0)]).thread(2, &[Write(0, 2), Prefetch(0, ForRead)])),
    ]
}

/// Bigger litmus tests and synchronization.
fn long_rest() -> Vec<Configuration> {
    let section = [Lock(0), Read(0), Write(0, 1), Unlock(0)];
    let meet = |local, total| Barrier { id: 1, local, total };
    let until = |value| Await { minipage: 0, value, condition: 1, lock: 0 };
    vec![
        row("long/independent-reads-of-four-nodes", 0, Job::new(4).minipage(0, 0).minipage(1, 1).observed().thread(0, &[Write(0, 1)]).thread(1, &[Write(1, 1)]).thread(2, &[Read(0), Read(1)]).thread(3, &[Read(1), Read(0)])),
        row("long/store-buffering-of-three", 0, Job::new(3).minipage(0, 0).minipage(1, 1).minipage(2, 2).observed().thread(0, &[Write(0, 1), Read(1)]).thread(1, &[Write(1, 1), Read(2)]).thread(2, &[Write(2, 1), Read(0)])),
        row("long/peterson-like-prefetch", 0, Job::new(2).minipage(0, 0).minipage(0, 0).observed().thread(0, &[Prefetch(1, ForRead), Write(0, 1), Push(0), Read(1)]).thread(1, &[Prefetch(0, ForRead), Write(1, 1), Push(1), Read(0)])),
        row("long/locks-over-data", 0, Job::new(3).minipage(1, 1).thread(0, &section).thread(0, &section).thread(1, &section).thread(2, &section).thread(2, &section)),
        row("long/lock-of-four-nodes", 0, Job::new(4).thread(0, &[Lock(0), Unlock(0), Lock(0), Unlock(0)]).thread(1, &[Lock(0), Unlock(0), Lock(0), Unlock(0)]).thread(2, &[Lock(0), Unlock(0)]).thread(2, &[Lock(0), Unlock(0)]).thread(3, &[Lock(0), Unlock(0), Lock(0), Unlock(0)])),
        row("long/barrier-of-three", 0, Job::new(3).minipage(0, 0).minipage(1, 2).thread(0, &[Write(0, 1), meet(0, 4), Read(1), meet(0, 4), Write(0, 2)]).thread(0, &[Read(0), meet(0, 4), Read(1), meet(0, 4)]).thread(1, &[Add(1), meet(1, 4), Read(0), meet(1, 4), Read(0)]).thread(2, &[meet(1, 4), Read(0), meet(1, 4), Add(1)])),
        row("long/condition-queue", 0, Job::new(3).minipage(0, 0).thread(0, &[Lock(0), until(1), Write(0, 2), Signal(1, true), Unlock(0)]).thread(1, &[Lock(0), until(2), Write(0, 3), Unlock(0), Signal(1, true)]).thread(2, &[Lock(0), Write(0, 1), Unlock(0), Signal(1, true), Lock(0), until(3), Unlock(0)])),
    ]
}
