//! The proof of a deadlock from two reports of each node; the second reports are asked for once all first ones
//! have arrived.
//!
//! Of the *whole job*: every thread of every node is in the same wait in both reports, and no node has sent
//! or received anything in between. So at the moment between the last first report and the question, all
//! waited at once. If as much was received as was sent, no message was under way then, and none was being
//! worked on: nothing is left that could let a thread go on. (Four counters, as in Mattern, 1987.)
//!
//! Of a *cycle of locks*: each thread of it is in the same wait for a lock in both reports, and holds the
//! lock that the one before waits for. Whatever else runs, none of them can go on, since nobody else
//! gives these locks back.

use std::collections::BTreeMap;

use super::text;
use super::{BlockingCall, Report, Thread, Waiter};

/// Says who waits where, if that is for ever. By rank: what each node said before it was asked, and its
/// answer to the question.
#[must_use]
pub fn deadlock(before: &[Option<Report>], after: &[Option<Report>]) -> Option<String> {
    let same = waits_in_both(before, after);
    if let Some(cycle) = cycle(&same) {
        return Some(text::of_cycle(&cycle));
    }
    whole_job_waits(before, after).then(|| text::of_all(&same))
}

/// Who waits where, of the nodes all of whose threads wait by what they said last, whatever the others do; none if
/// there is no such node.
#[must_use]
pub fn waiting(last: &[Option<Report>]) -> Option<String> {
    let mut threads = BTreeMap::new();
    for (rank, report) in last.iter().enumerate() {
        for waiter in report.iter().filter(|report| report.all).flat_map(|report| &report.waiters) {
            threads.insert((rank, waiter.thread), waiter);
        }
    }
    (!threads.is_empty()).then(|| text::of_all(&threads))
}

/// The threads that are in the same wait in both reports.
fn waits_in_both<'a>(
    before: &'a [Option<Report>],
    after: &[Option<Report>],
) -> BTreeMap<Thread, &'a Waiter> {
    let mut same = BTreeMap::new();
    for (rank, reports) in before.iter().zip(after).enumerate() {
        let (Some(before), Some(after)) = reports else { continue };
        let again: BTreeMap<u32, &Waiter> =
            after.waiters.iter().map(|waiter| (waiter.thread, waiter)).collect();
        for waiter in &before.waiters {
            if again.get(&waiter.thread) == Some(&waiter) {
                same.insert((rank, waiter.thread), waiter);
            }
        }
    }
    same
}

fn whole_job_waits(before: &[Option<Report>], after: &[Option<Report>]) -> bool {
    let unchanged = |(before, after): (&Option<Report>, &Option<Report>)| match (before, after) {
        (Some(before), Some(after)) => {
            before.all && *before == Report { question: before.question, ..after.clone() }
        }
        (None, _) | (_, None) => false,
    };
    let sum = |count: fn(&Report) -> u64| before.iter().flatten().map(count).sum::<u64>();
    !before.is_empty()
        && before.iter().zip(after).all(unchanged)
        && sum(|report| report.sent) == sum(|report| report.received)
}

/// Threads of which each waits for a lock that the next one holds, and the last for one of the first.
fn cycle<'a>(waiting: &BTreeMap<Thread, &'a Waiter>) -> Option<Vec<(Thread, &'a Waiter)>> {
    let mut holders: BTreeMap<u64, Thread> = BTreeMap::new();
    for (&thread, waiter) in waiting {
        holders.extend(waiter.holds.iter().map(|&lock| (lock, thread)));
    }
    let next = |thread: Thread| match waiting.get(&thread)?.place {
        BlockingCall::Lock(id) => holders.get(&id).copied(),
        BlockingCall::Finalize
        | BlockingCall::Barrier(_)
        | BlockingCall::ReadWriteLock(_)
        | BlockingCall::Semaphore(_)
        | BlockingCall::Condition(_)
        | BlockingCall::Join(_)
        | BlockingCall::Name
        | BlockingCall::Segment => None,
    };
    // Each thread is seen once: a walk that meets one of its own has found a cycle.
    let mut seen: BTreeMap<Thread, usize> = BTreeMap::new();
    for (walk, &start) in waiting.keys().enumerate() {
        let mut at = Some(start);
        while let Some(thread) = at {
            match seen.get(&thread) {
                Some(&of) if of == walk => {
                    let mut found = vec![(thread, waiting[&thread])];
                    let mut step = next(thread);
                    while let Some(other) = step.filter(|&other| other != thread) {
                        found.push((other, waiting[&other]));
                        step = next(other);
                    }
                    return Some(found);
                }
                Some(_) => break,
                None => seen.insert(thread, walk),
            };
            at = next(thread);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(thread: u32, place: BlockingCall, holds: &[u64]) -> Waiter {
        let holds = holds.to_vec();
        Waiter { thread, turn: 1, place, holds, party: 3, whole: false, name: String::new() }
    }

    fn all(counts: (u64, u64), waiters: &[Waiter]) -> Option<Report> {
        let (sent, received) = counts;
        Some(Report { all: true, sent, received, waiters: waiters.to_vec(), ..Report::default() })
    }

    fn some(waiters: &[Waiter]) -> Option<Report> {
        Some(Report { waiters: waiters.to_vec(), ..Report::default() })
    }

    /// A job of three nodes, one of which has left `main`.
    fn finalized_early() -> [Option<Report>; 3] {
        let barrier = [waiter(0, BlockingCall::Barrier(1), &[])];
        [
            all((3, 1), &barrier),
            all((1, 2), &[waiter(0, BlockingCall::Finalize, &[])]),
            all((0, 1), &barrier),
        ]
    }

    #[test]
    fn who_waits_where_is_named_when_all_wait_and_nothing_is_under_way() {
        let job = finalized_early();
        let answers = job.clone().map(|report| Some(Report { question: 7, ..report? }));
        let words =
            "node 1 waits in mg_finalize, nodes 0 and 2 in barrier 1 (2 of 3 threads have come)";
        assert_eq!(deadlock(&job, &answers).as_deref(), Some(words));
    }

    #[test]
    fn a_job_that_may_go_on_is_not_accused() {
        let job = finalized_early();
        let changed = |change: fn(&mut Report)| {
            let mut other = job.clone();
            other[1].iter_mut().for_each(change);
            other
        };
        for (what, before, after) in [
            ("an unknown node", job.clone(), [job[0].clone(), None, job[2].clone()]),
            ("a message under way", changed(|of| of.received = 1), changed(|of| of.received = 1)),
            ("a message in between", job.clone(), changed(|of| of.received = 3)),
            ("another wait", job.clone(), changed(|of| of.waiters[0].turn = 2)),
            ("a thread that came and went", job.clone(), changed(|of| of.changes = 2)),
            ("a thread that runs", changed(|of| of.all = false), changed(|of| of.all = false)),
            ("a thread that ran", changed(|of| of.all = false), job.clone()),
        ] {
            assert_eq!(deadlock(&before, &after), None, "{what}");
        }
        assert_eq!(deadlock(&[], &[]), None);
    }

    #[test]
    fn a_cycle_of_locks_is_named_while_other_threads_run() {
        let one = [waiter(3, BlockingCall::Lock(8), &[7]), waiter(4, BlockingCall::Lock(7), &[])];
        let job = [some(&one), some(&[waiter(0, BlockingCall::Lock(7), &[9, 8])]), None];
        let words = "thread 3 of node 0 holds lock 7 and waits for lock 8, \
                     thread 0 of node 1 holds lock 8 and waits for lock 7";
        assert_eq!(deadlock(&job, &job).as_deref(), Some(words));
        let mut later = job.clone();
        later[1].iter_mut().for_each(|report| report.waiters[0].turn = 2);
        assert_eq!(deadlock(&job, &later), None, "it waited, was served, and waits again");
    }

    #[test]
    fn of_a_job_that_may_go_on_it_is_said_which_nodes_wait() {
        let mut job = finalized_early();
        job[1] = some(&[waiter(0, BlockingCall::Lock(3), &[])]);
        let words = "nodes 0 and 2 wait in barrier 1 (2 of 3 threads have come)";
        assert_eq!(waiting(&job).as_deref(), Some(words));
        assert_eq!(waiting(&[None, some(&[])]), None);
    }

    #[test]
    fn a_chain_of_locks_is_no_cycle() {
        let chain =
            [waiter(0, BlockingCall::Lock(2), &[1]), waiter(1, BlockingCall::Lock(3), &[2])];
        let job = [some(&chain), some(&[waiter(0, BlockingCall::Semaphore(1), &[3])])];
        assert_eq!(deadlock(&job, &job), None, "the semaphore may be posted");
    }
}
