//! Deadlocks: a helper thread looks at what the program's threads wait for, and reports to the launcher, which
//! collects the reports of all nodes and decides ([`multigrain_types::deadlock`]).
//!
//! A look costs next to nothing while a thread runs. It is taken a few times a second, and every other second in
//! a job of many hundred nodes. The time between looks decides how soon a deadlock is named, never whether there
//! is one. The same thread watches the links to other hosts, which may be cut off.
//!
//! A thread counts as running unless it is known to wait for another thread of the job: so do a thread in a
//! system call, a thread of the process that this library does not know, a call that ends by a time-out, and any
//! thread of a program with signal handlers of its own, which may post a semaphore.

mod process;

use core::time::Duration;

use multigrain_types::deadlock::{BlockingCall, Report, Waiter, deadlock};

use crate::driver::Driver;
use crate::receiver::slots;

/// Between two looks, at least; and for each node of the job, whose messages a look counts.
const PERIOD: Duration = Duration::from_millis(200);
const PERIOD_FOR_EACH: Duration = Duration::from_millis(2);

/// Locks of a thread that a report names: a thread with more is in no cycle that is found while others run.
const MOST_HELD: usize = 256;

/// The helper's work, until this node leaves.
pub(crate) fn watch(driver: &Driver) {
    let launcher = driver.platform().launcher();
    let period = PERIOD.max(PERIOD_FOR_EACH * driver.nodes().into());
    let mut last = Report::default();
    let mut told = Report::default();
    while driver.membership().is_member() && !driver.membership().is_leaving() {
        let question = launcher.question(period);
        launcher.end_if_orphaned();
        driver.mesh().look_after_links();
        let report = look(driver);
        if question != 0 {
            told = Report { question, ..report.clone() };
            launcher.waits(&told);
            told.question = 0;
        } else if let Some(steady) = steady(&last, &report).filter(|steady| *steady != told) {
            told = steady;
            if !launcher.waits(&told) && driver.nodes() == 1 {
                judge_alone(driver, &told);
            }
        }
        last = report;
    }
}

/// What of a report was so at the look before: all of it, or which threads hold locks and wait for others,
/// which messages that come and go do not change.
fn steady(last: &Report, report: &Report) -> Option<Report> {
    if report == last {
        return Some(report.clone());
    }
    let locks = of_locks(report.waiters.clone());
    (locks == of_locks(last.waiters.clone())).then_some(locks)
}

/// The report of a node of which other threads run.
fn of_locks(mut waiters: Vec<Waiter>) -> Report {
    waiters.retain(|of| matches!(of.place, BlockingCall::Lock(_)) && !of.holds.is_empty());
    Report { waiters, ..Report::default() }
}

/// A node without a launcher and without peers knows the whole job.
fn judge_alone(driver: &Driver, before: &Report) {
    let [before, after] = [before.clone(), look(driver)].map(Some);
    if let Some(text) = deadlock(&[before], &[after]) {
        driver.platform().launcher().deadlocked(&text);
    }
}

/// What is worth telling now: that all threads wait, or which of those that hold locks wait for others.
fn look(driver: &Driver) -> Report {
    let waiters = slots::waiters();
    if waiters.is_empty() {
        return Report::default();
    }
    // What a thread has deferred that parked since would count as under way for ever: nobody receives, and nobody sends.
    driver.mesh().flush_deferred();
    let counters = driver.mesh().counters();
    let (sent, received) = (counters.frames_sent, counters.frames_received);
    let waiters = with_locks(driver, waiters);
    match changes_if_all_wait(driver, &waiters) {
        Some(changes) => Report { question: 0, all: true, sent, received, changes, waiters },
        None => of_locks(waiters),
    }
}

fn with_locks(driver: &Driver, mut waiters: Vec<Waiter>) -> Vec<Waiter> {
    for (lock, owner) in driver.tables().owned_locks() {
        let mut waiters = waiters.iter_mut();
        let waiter = waiters.find(|waiter| waiter.thread == owner.0);
        if let Some(waiter) = waiter.filter(|waiter| waiter.holds.len() < MOST_HELD) {
            waiter.holds.push(lock);
        }
    }
    waiters
}

/// How often a thread has begun or ended, if every thread of the process waits for one of the job.
fn changes_if_all_wait(driver: &Driver, waiters: &[Waiter]) -> Option<u64> {
    let waiting = waiters.len() as u64;
    let before = driver.threads_but(waiting);
    let (changes, others) = before?;
    let others = others.checked_sub(driver.membership().awaiting_finalizer())?;
    let proven = others == 0 || (process::threads_that_only_join()? == others);
    let steady = || driver.threads_but(waiting) == before;
    (proven && process::handles_no_signal() && steady()).then_some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(received: u64, turn: u64) -> Report {
        let (place, holds, name) = (BlockingCall::Lock(7), vec![8], String::new());
        let waiter = Waiter { thread: 0, turn, place, holds, party: 0, whole: false, name };
        let other =
            Waiter { thread: 1, place: BlockingCall::Barrier(1), holds: vec![], ..waiter.clone() };
        Report { all: true, received, waiters: vec![waiter, other], ..Report::default() }
    }

    #[test]
    fn who_waits_for_a_lock_is_told_while_messages_come_and_go() {
        assert_eq!(steady(&report(5, 1), &report(5, 1)), Some(report(5, 1)), "nothing moves");
        let locks = of_locks(report(6, 1).waiters);
        assert_eq!((locks.all, locks.waiters.len()), (false, 1));
        assert_eq!(steady(&report(5, 1), &report(6, 1)), Some(locks.clone()));
        assert_eq!(steady(&locks, &report(6, 1)), Some(locks), "a thread has come to wait");
        assert_eq!(steady(&report(5, 1), &report(6, 2)), None, "another wait");
    }
}
