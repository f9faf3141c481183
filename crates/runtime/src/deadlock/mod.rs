//! Deadlocks: a helper thread looks at what the program's threads wait for, and reports to the launcher, which
//! collects the reports of all nodes and decides ([`multigrain_types::deadlock`]).
//!
//! A look costs next to nothing while nobody waits; else it goes through the locks of the node and, if the process has
//! threads that the library does not know to wait, through /proc for each thread until it is clear whether all wait. It
//! is taken five times a second, and every other second in a job of a thousand nodes. The time between looks decides
//! how soon a deadlock is named, never whether there is one. The same thread watches the links to other hosts, which
//! may be cut off.
//!
//! A thread counts as running unless it is known to wait for another thread of the job: so do a thread in a
//! system call, a thread of the process that this library does not know, and a call that ends by a time-out. A program with signal
//! handlers of its own may post a semaphore in one: the report says so.

mod process;

pub use process::{handled_signals, joined_thread};

use core::time::Duration;

use multigrain_types::ThreadId;
use multigrain_types::deadlock::{BlockingCall, Report, Waiter, deadlock};

use crate::driver::Driver;
use crate::receiver::slots;
use crate::threads::Threads;

/// Between two looks, at least; and for each node of the job, whose messages a look counts.
const PERIOD: Duration = Duration::from_millis(200);
const PERIOD_FOR_EACH: Duration = Duration::from_millis(2);

/// Locks that a report names: what waiting threads of a node hold beyond these is in no cycle that is found while others
/// run.
const MOST_HELD: usize = 1 << 16;

/// Threads that wait elsewhere, of a node of which others run.
const MOST_OTHERS: usize = 16;

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

/// What of a report was so at the look before: all of it, or which threads are in the same wait, whatever the others do.
fn steady(last: &Report, report: &Report) -> Report {
    if report == last {
        return report.clone();
    }
    let mut waiters = report.waiters.clone();
    waiters.retain(|waiter| {
        let before = last.waiters.binary_search_by_key(&waiter.thread, |before| before.thread);
        before.is_ok_and(|at| last.waiters[at] == *waiter)
    });
    some_wait(waiters)
}

/// The report of a node of which other threads run: those that may be in a cycle, and of the others the first ones, for
/// the line of a job that its limit of time ends.
fn some_wait(mut waiters: Vec<Waiter>) -> Report {
    let may_be_in_cycle = |of: &Waiter| {
        use BlockingCall::{Join, Lock, ReadWriteLock};
        !of.timed && matches!(of.call, Lock(_) | ReadWriteLock(_) | Join(_)) && !of.holds.is_empty()
    };
    let mut others = 0;
    waiters.retain(|of| {
        let in_cycle = may_be_in_cycle(of);
        others += usize::from(!in_cycle);
        in_cycle || others <= MOST_OTHERS
    });
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

/// What is worth telling now: that all threads wait, or which do.
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
            let handles = process::may_handle_a_signal();
            Report { all: true, handles, sent, received, changes, waiters, ..Report::default() }
        }
        None => some_wait(waiters),
    }
}

/// The same with the threads of the job that this node is to answer.
fn answer(driver: &Driver, threads: &Threads, report: Report) -> Report {
    let known = driver.tables().queued().into_iter().chain(threads.joiners());
    let known_to_wait = known.map(|(node, thread)| (node.0, thread.0)).collect();
    Report { known_to_wait, ..report }
}

/// The same with the locks that they hold. A thread whose condition was signalled, or whose time there is over, waits for its
/// lock, without a deadline.
fn with_locks(driver: &Driver, mut waiters: Vec<Waiter>) -> Vec<Waiter> {
    let index = |waiters: &[Waiter], thread: ThreadId| {
        waiters.binary_search_by_key(&thread.0, |waiter| waiter.thread).ok()
    };
    for (id, thread) in driver.tables().awaited_locks() {
        let waiter = index(&waiters, thread).map(|at| &mut waiters[at]);
        let at_condition = |of: &&mut Waiter| matches!(of.call, BlockingCall::Condition(_));
        if let Some(waiter) = waiter.filter(at_condition) {
            (waiter.call, waiter.timed) = (BlockingCall::Lock(id), false);
        }
    }
    let held = driver.tables().owned_locks().into_iter();
    let held = held.filter_map(|(held, owner)| Some((index(&waiters, owner)?, held)));
    let held: Vec<(usize, BlockingCall)> = held.take(MOST_HELD).collect();
    held.into_iter().for_each(|(at, held)| waiters[at].holds.push(held));
    waiters
}

/// How often a thread has begun or ended, if every thread of the process waits for one of the job.
fn changes_if_all_wait(driver: &Driver, waiters: &[Waiter]) -> Option<u64> {
    let waiting = waiters.iter().filter(|waiter| !waiter.timed).count() as u64;
    let before = driver.threads_but(waiting);
    let (changes, others) = before?;
    let others = others.checked_sub(driver.membership().awaiting_finalizer())?;
    // In a call of the library a handler may post a semaphore alone, in `pthread_join` anything.
    let proven = others == 0 || (!process::may_handle_a_signal() && process::only_join(others)?);
    let steady = || driver.threads_but(waiting) == before;
    (proven && steady()).then_some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(received: u64, wait: u64) -> Report {
        let (call, holds, name) =
            (BlockingCall::Lock(7), vec![BlockingCall::Lock(8)], String::new());
        let waiter =
            Waiter { thread: 0, wait, call, timed: false, holds, expected: 0, whole: false, name };
        let call = BlockingCall::ReadWriteLock(9);
        let nested = Waiter { thread: 1, wait: 1, call, ..waiter.clone() };
        let call = BlockingCall::Barrier(1);
        let other = Waiter { thread: 2, call, holds: vec![], ..waiter.clone() };
        Report { all: true, received, waiters: vec![waiter, nested, other], ..Report::default() }
    }

    #[test]
    fn who_waits_for_a_lock_is_told_while_messages_come_and_go_and_others_wait_for_more() {
        assert_eq!(steady(&report(5, 1), &report(5, 1)), report(5, 1), "nothing moves");
        let some = some_wait(report(6, 1).waiters);
        assert_eq!((some.all, some.waiters.len()), (false, 3));
        assert_eq!(steady(&report(5, 1), &report(6, 1)), some);
        assert_eq!(steady(&some, &report(6, 1)), some, "a thread has come to wait");
        let rest = Report { waiters: some.waiters[1..2].to_vec(), ..some };
        assert_eq!(steady(&report(5, 1), &report(6, 2)), rest, "another wait of two");
        assert_eq!(steady(&report(5, 1), &Report::default()), Report::default());
    }

    #[test]
    fn of_many_threads_those_are_told_that_may_be_in_a_cycle() {
        let report = report(5, 1);
        let [nested, _, other] = report.waiters.try_into().unwrap();
        let waiter =
            |thread| Waiter { thread, ..if thread < 90 { other.clone() } else { nested.clone() } };
        let told = some_wait((0..100).map(waiter).collect()).waiters;
        let threads: Vec<u32> = told.iter().map(|waiter| waiter.thread).collect();
        assert_eq!(threads, (0..16).chain(90..100).collect::<Vec<u32>>());
    }
}
