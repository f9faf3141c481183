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

use multigrain_types::ThreadId;
use multigrain_types::deadlock::{BlockingCall, Report, Waiter, deadlock};

use crate::driver::Driver;
use crate::receiver::slots;
use crate::threads::Threads;

/// Between two looks, at least; and for each node of the job, whose messages a look counts.
const PERIOD: Duration = Duration::from_millis(200);
const PERIOD_FOR_EACH: Duration = Duration::from_millis(2);

/// Locks of a thread that a report names: a thread with more is in no cycle that is found while others run.
const MOST_HELD: usize = 256;

/// The helper's work, until this node leaves. Every node speaks once at least: the launcher asks those that have spoken.
pub(crate) fn watch(driver: &Driver, threads: &Threads) {
    let launcher = driver.platform().launcher();
    let period = PERIOD.max(PERIOD_FOR_EACH * driver.nodes().into());
    let mut last = Report::default();
    let mut told = None;
    while driver.membership().is_member() && !driver.membership().is_leaving() {
        let question = launcher.question(period);
        launcher.end_if_orphaned();
        driver.mesh().look_after_links();
        let report = look(driver);
        if question != 0 {
            launcher.waits(&Report { question, ..answer(driver, threads, report.clone()) });
            told = Some(report.clone());
        } else {
            let steady = steady(&last, &report);
            if told.as_ref() != Some(&steady) {
                if !launcher.waits(&steady) && driver.nodes() == 1 {
                    judge_alone(driver, threads, &steady);
                }
                told = Some(steady);
            }
        }
        last = report;
    }
}

/// What of a report was so at the look before: all of it, or which threads have what others wait for, and wait for
/// others themselves: whatever else comes and goes does not change that.
fn steady(last: &Report, report: &Report) -> Report {
    if report == last {
        return report.clone();
    }
    let mut locks = of_locks(report.waiters.clone());
    locks.waiters.retain(|waiter| {
        let before = last.waiters.binary_search_by_key(&waiter.thread, |before| before.thread);
        before.is_ok_and(|at| last.waiters[at] == *waiter)
    });
    locks
}

/// The report of a node of which other threads run.
fn of_locks(mut waiters: Vec<Waiter>) -> Report {
    let may_be_in_cycle = |place| {
        use BlockingCall::{Join, Lock, ReadWriteLock};
        matches!(place, Lock(_) | ReadWriteLock(_) | Join(_))
    };
    waiters.retain(|of| may_be_in_cycle(of.place) && !of.holds.is_empty());
    Report { waiters, ..Report::default() }
}

/// A node without a launcher and without peers knows the whole job.
fn judge_alone(driver: &Driver, threads: &Threads, before: &Report) {
    let between = answer(driver, threads, look(driver));
    let [before, between, after] = [before.clone(), between, look(driver)].map(Some);
    if let Some(text) = deadlock(&[before], &[between], &[after]) {
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
        Some(changes) => {
            Report { all: true, sent, received, changes, waiters, ..Report::default() }
        }
        None => of_locks(waiters),
    }
}

/// The same with the threads of the job that this node is to answer.
fn answer(driver: &Driver, threads: &Threads, report: Report) -> Report {
    let known = driver.tables().queued().into_iter().chain(threads.joiners());
    let known_to_wait = known.map(|(node, thread)| (node.0, thread.0)).collect();
    Report { known_to_wait, ..report }
}

/// The same with the locks that they hold, and with the lock that a thread waits for after a signal has come.
fn with_locks(driver: &Driver, mut waiters: Vec<Waiter>) -> Vec<Waiter> {
    let index = |waiters: &[Waiter], thread: ThreadId| {
        waiters.binary_search_by_key(&thread.0, |waiter| waiter.thread).ok()
    };
    for (held, owner) in driver.tables().owned_locks() {
        let waiter = index(&waiters, owner).map(|at| &mut waiters[at]);
        if let Some(waiter) = waiter.filter(|waiter| waiter.holds.len() < MOST_HELD) {
            waiter.holds.push(held);
        }
    }
    for (id, thread) in driver.tables().awaited_locks() {
        let waiter = index(&waiters, thread).map(|at| &mut waiters[at]);
        let signalled = |of: &&mut Waiter| matches!(of.place, BlockingCall::Condition(_));
        if let Some(waiter) = waiter.filter(signalled) {
            waiter.place = BlockingCall::Lock(id);
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
        let (place, holds, name) =
            (BlockingCall::Lock(7), vec![BlockingCall::Lock(8)], String::new());
        let waiter = Waiter { thread: 0, turn, place, holds, expected: 0, whole: false, name };
        let place = BlockingCall::ReadWriteLock(9);
        let nested = Waiter { thread: 1, turn: 1, place, ..waiter.clone() };
        let place = BlockingCall::Barrier(1);
        let other = Waiter { thread: 2, place, holds: vec![], ..waiter.clone() };
        Report { all: true, received, waiters: vec![waiter, nested, other], ..Report::default() }
    }

    #[test]
    fn who_waits_for_a_lock_is_told_while_messages_come_and_go_and_others_wait_for_more() {
        assert_eq!(steady(&report(5, 1), &report(5, 1)), report(5, 1), "nothing moves");
        let locks = of_locks(report(6, 1).waiters);
        assert_eq!((locks.all, locks.waiters.len()), (false, 2));
        assert_eq!(steady(&report(5, 1), &report(6, 1)), locks);
        assert_eq!(steady(&locks, &report(6, 1)), locks, "a thread has come to wait");
        let rest = Report { waiters: locks.waiters[1..].to_vec(), ..locks };
        assert_eq!(steady(&report(5, 1), &report(6, 2)), rest, "another wait of one");
        assert_eq!(steady(&report(5, 1), &Report::default()), Report::default());
    }
}
