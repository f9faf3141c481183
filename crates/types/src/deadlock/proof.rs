//! The proof of a deadlock from three reports of each node, of which the second and the third answer questions: each is
//! asked once all reports before it have arrived.
//!
//! Of the *whole job*: every thread of every node is in the same wait in all reports, and no node has sent
//! or received anything in between. So at the moment between the last first report and the question, all
//! waited at once. If as much was received as was sent, no message was under way then, and none was being
//! worked on: nothing is left that could let a thread go on. (Four counters, as in Mattern, 1987.) A signal's handler could
//! by posting a semaphore: where one may run, no thread may wait for a semaphore.
//!
//! Of a *cycle*: each thread of it is in the same wait in all reports, and waits for what the next one has: a lock, or its
//! own end. Whatever else runs, none of them can go on, since nobody else gives these back. That a lock is another
//! thread's says by itself that it has not been given to the one that waits. Many may have a read-write lock, and any
//! thread may be refused a join: there the answer may be under way. So the node that gives it must have said in its second
//! report that the thread waits: that was between the two questions, so in this very wait. In the queue of a read-write
//! lock a thread waits for all that have it, be it behind another one: who is in front is not let in before they have
//! given it back, and the queue is served in its order.

use std::collections::{BTreeMap, BTreeSet};

use super::text;
use super::{BlockingCall, Report, Thread, Waiter};

/// By rank, what each node has said.
type Reports = [Option<Report>];

/// Says who waits where, if that is for ever: from what each node said before it was asked, and its answers to the
/// first question and to the second.
#[must_use]
pub fn deadlock(before: &Reports, between: &Reports, after: &Reports) -> Option<String> {
    let same = in_one_wait(before, after);
    if let Some(cycle) = proven_cycle(&same, between) {
        return Some(text::of_cycle(&cycle));
    }
    whole_job_waits(before, after).then(|| text::of_all(&same, &BTreeSet::new()))
}

/// The threads of a cycle that [`deadlock`] names.
#[cfg(test)]
pub(super) fn accused(before: &Reports, between: &Reports, after: &Reports) -> Vec<Thread> {
    let cycle = proven_cycle(&in_one_wait(before, after), between);
    cycle.into_iter().flatten().map(|(thread, _)| thread).collect()
}

/// A cycle of threads that are in one wait each, by what was said between.
fn proven_cycle<'a>(
    same: &BTreeMap<Thread, &'a Waiter>,
    between: &Reports,
) -> Option<Vec<(Thread, &'a Waiter)>> {
    cycle(&of_locks(same, &known_to_wait(between)))
}

/// Whether what each node said last may be a deadlock, so that it is worth asking.
#[must_use]
pub fn may_be_deadlock(last: &Reports) -> bool {
    let waiting = in_one_wait(last, last);
    let all = waiting.keys().copied().collect();
    cycle(&of_locks(&waiting, &all)).is_some() || whole_job_waits(last, last)
}

/// Who waits where by what the nodes said last, whatever the others do; none if nobody does.
#[must_use]
pub fn waiting(last: &Reports) -> Option<String> {
    let mut threads = BTreeMap::new();
    let mut others_run = BTreeSet::new();
    for (rank, report) in
        last.iter().enumerate().filter_map(|(rank, of)| Some((rank, of.as_ref()?)))
    {
        threads.extend(report.waiters.iter().map(|waiter| ((rank, waiter.thread), waiter)));
        others_run.extend((!report.all).then_some(rank));
    }
    (!threads.is_empty()).then(|| text::of_all(&threads, &others_run))
}

/// The threads that are in the same wait in both reports, and that no deadline ends.
fn in_one_wait<'a>(before: &'a Reports, after: &Reports) -> BTreeMap<Thread, &'a Waiter> {
    let mut same = BTreeMap::new();
    for (rank, reports) in before.iter().zip(after).enumerate() {
        let (Some(before), Some(after)) = reports else { continue };
        let again: BTreeMap<u32, &Waiter> =
            after.waiters.iter().map(|waiter| (waiter.thread, waiter)).collect();
        for waiter in before.waiters.iter().filter(|waiter| !waiter.timed) {
            if again.get(&waiter.thread) == Some(&waiter) {
                same.insert((rank, waiter.thread), waiter);
            }
        }
    }
    same
}

/// Threads that wait by what those say who are to answer them.
fn known_to_wait(reports: &Reports) -> BTreeSet<Thread> {
    let known = reports.iter().flatten().flat_map(|report| &report.known_to_wait);
    known.map(|&(node, thread)| (usize::from(node), thread)).collect()
}

fn whole_job_waits(before: &Reports, after: &Reports) -> bool {
    let unchanged = |(before, after): (&Option<Report>, &Option<Report>)| match (before, after) {
        (Some(before), Some(after)) => before.all && before.is_as(after),
        (None, _) | (_, None) => false,
    };
    let sum = |count: fn(&Report) -> u64| before.iter().flatten().map(count).sum::<u64>();
    let handles = before.iter().flatten().any(|report| report.handles);
    let may_be_posted = |waiter: &Waiter| matches!(waiter.call, BlockingCall::Semaphore(_));
    let for_units = before.iter().flatten().any(|of| of.waiters.iter().any(may_be_posted));
    if before.is_empty() || (handles && for_units) {
        return false;
    }
    before.iter().zip(after).all(unchanged)
        && sum(|report| report.sent) == sum(|report| report.received)
}

/// Those that wait for what only the thread that has it gives back, by the call.
fn of_locks<'a>(
    waiting: &BTreeMap<Thread, &'a Waiter>,
    known: &BTreeSet<Thread>,
) -> BTreeMap<Thread, &'a Waiter> {
    let waits = |(thread, waiter): &(&Thread, &&Waiter)| match waiter.call {
        BlockingCall::Lock(_) => true,
        BlockingCall::ReadWriteLock(_) | BlockingCall::Join(_) => known.contains(thread),
        BlockingCall::Finalize
        | BlockingCall::Barrier(_)
        | BlockingCall::Semaphore(_)
        | BlockingCall::Condition(_)
        | BlockingCall::Name
        | BlockingCall::Segment => false,
    };
    waiting.iter().filter(waits).map(|(&thread, &waiter)| (thread, waiter)).collect()
}

/// Threads of which each waits for what the next one has, and the last for what the first has.
fn cycle<'a>(waiting: &BTreeMap<Thread, &'a Waiter>) -> Option<Vec<(Thread, &'a Waiter)>> {
    let mut left = waiting.clone();
    // Who waits for nobody that waits is in no cycle, and so on.
    let holders = loop {
        let holders: BTreeMap<BlockingCall, Thread> = left
            .iter()
            .flat_map(|(&thread, waiter)| waiter.holds.iter().map(move |&held| (held, thread)))
            .collect();
        let before = left.len();
        left.retain(|_, waiter| holders.contains_key(&waiter.call));
        if left.len() == before {
            break holders;
        }
    };
    let mut walk: Vec<(Thread, &Waiter)> = Vec::new();
    let mut next = left.first_key_value().map(|(&thread, &waiter)| (thread, waiter))?;
    loop {
        if let Some(first) = walk.iter().position(|&(thread, _)| thread == next.0) {
            return Some(walk.split_off(first));
        }
        walk.push(next);
        let holder = holders[&next.1.call];
        next = (holder, left[&holder]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(thread: u32, call: BlockingCall, locks: &[u64]) -> Waiter {
        let holds = locks.iter().map(|&id| BlockingCall::Lock(id)).collect();
        let (timed, name) = (false, String::new());
        Waiter { thread, wait: 1, call, timed, holds, expected: 3, whole: false, name }
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
        assert!(may_be_deadlock(&job));
        assert_eq!(deadlock(&job, &answers, &answers).as_deref(), Some(words));
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
            ("another wait", job.clone(), changed(|of| of.waiters[0].wait = 2)),
            ("a thread that came and went", job.clone(), changed(|of| of.changes = 2)),
            ("a thread that runs", changed(|of| of.all = false), changed(|of| of.all = false)),
            ("a thread that ran", changed(|of| of.all = false), job.clone()),
        ] {
            assert_eq!(deadlock(&before, &after, &after), None, "{what}");
        }
        assert_eq!(deadlock(&[], &[], &[]), None);
        assert!(!may_be_deadlock(&[]));
    }

    #[test]
    fn a_handler_lets_nobody_go_on_but_who_waits_for_a_semaphore() {
        let mut job = finalized_early();
        job[2].iter_mut().for_each(|report| report.handles = true);
        assert!(may_be_deadlock(&job) && deadlock(&job, &job, &job).is_some());
        let posted = waiter(0, BlockingCall::Semaphore(5), &[]);
        job[0].iter_mut().for_each(|report| report.waiters = vec![posted.clone()]);
        assert!(!may_be_deadlock(&job));
        assert_eq!(deadlock(&job, &job, &job), None, "node 2 may post");
        job[2].iter_mut().for_each(|report| report.handles = false);
        assert!(may_be_deadlock(&job) && deadlock(&job, &job, &job).is_some());
    }

    #[test]
    fn a_cycle_of_locks_is_named_while_other_threads_run() {
        let one = [waiter(3, BlockingCall::Lock(8), &[7]), waiter(4, BlockingCall::Lock(7), &[])];
        let job = [some(&one), some(&[waiter(0, BlockingCall::Lock(7), &[9, 8])]), None];
        let words = "thread 3 of node 0 holds lock 7 and waits for lock 8, \
                     thread 0 of node 1 holds lock 8 and waits for lock 7";
        assert!(may_be_deadlock(&job));
        assert_eq!(deadlock(&job, &job, &job).as_deref(), Some(words));
        let mut later = job.clone();
        later[1].iter_mut().for_each(|report| report.waiters[0].wait = 2);
        assert_eq!(deadlock(&job, &job, &later), None, "it waited, was served, and waits again");
    }

    /// Two threads that each have what the other one waits for, and a node that runs.
    fn pair(
        one: (BlockingCall, BlockingCall),
        other: (BlockingCall, BlockingCall),
    ) -> [Option<Report>; 3] {
        let of = |(has, call)| some(&[Waiter { holds: vec![has], ..waiter(0, call, &[]) }]);
        [of(one), of(other), some(&[])]
    }

    /// The same, where the last node says in its answer that these wait.
    fn told(job: &[Option<Report>; 3], known: &[(u16, u32)]) -> [Option<Report>; 3] {
        let mut told = job.clone();
        told[2].iter_mut().for_each(|report| report.known_to_wait = known.to_vec());
        told
    }

    #[test]
    fn a_cycle_of_read_write_locks_needs_the_word_of_who_lets_them_in() {
        let (one, other) = (BlockingCall::ReadWriteLock(1), BlockingCall::ReadWriteLock(2));
        let job = pair((one, other), (other, one));
        assert!(may_be_deadlock(&job));
        let words = "thread 0 of node 0 holds read-write lock 1 and waits for read-write lock 2, \
                     thread 0 of node 1 holds read-write lock 2 and waits for read-write lock 1";
        let both = told(&job, &[(0, 0), (1, 0)]);
        assert_eq!(deadlock(&job, &both, &job).as_deref(), Some(words));
        for known in [&[][..], &[(0, 0)], &[(1, 0)], &[(0, 1), (1, 0)]] {
            let between = told(&job, known);
            assert_eq!(deadlock(&job, &between, &job), None, "one may be let in: {known:?}");
        }
        assert_eq!(deadlock(&both, &job, &both), None, "that was said of other waits, perhaps");
    }

    #[test]
    fn who_joins_a_thread_that_waits_for_its_lock_is_in_a_cycle_with_it() {
        let (lock, end) =
            (BlockingCall::Lock(4), BlockingCall::Join(1 << super::super::HANDLE_NODE | 9));
        let job = pair((lock, end), (end, lock));
        let words = "thread 0 of node 0 holds lock 4 and waits for the end of thread 0 of node 1, \
                     thread 0 of node 1 waits for lock 4";
        assert_eq!(deadlock(&job, &told(&job, &[(0, 0)]), &job).as_deref(), Some(words));
        assert_eq!(deadlock(&job, &job, &job), None, "it may be told that it cannot join");
    }

    #[test]
    fn a_cycle_is_found_among_threads_that_wait_for_it_and_locks_that_many_have() {
        let read = BlockingCall::ReadWriteLock(5);
        let reads = |thread, call| Waiter { holds: vec![read], ..waiter(thread, call, &[]) };
        // Thread 0 reads and waits for a lock that may come; thread 1 reads too, and waits in the cycle.
        let node = [
            reads(0, BlockingCall::Semaphore(1)),
            reads(1, BlockingCall::Lock(6)),
            waiter(2, read, &[6]),
            waiter(3, BlockingCall::Lock(6), &[8]),
            waiter(4, BlockingCall::Lock(8), &[]),
        ];
        let job = [some(&node), None, some(&[])];
        let words = "thread 1 of node 0 holds read-write lock 5 and waits for lock 6, \
                     thread 2 of node 0 holds lock 6 and waits for read-write lock 5";
        assert_eq!(deadlock(&job, &told(&job, &[(0, 2)]), &job).as_deref(), Some(words));
    }

    #[test]
    fn of_a_job_that_may_go_on_it_is_said_who_waits() {
        let mut job = finalized_early();
        job[1] = some(&[waiter(4, BlockingCall::Lock(3), &[])]);
        let words = "nodes 0 and 2 wait in barrier 1 (2 of 3 threads have come), thread 4 of node 1 for lock 3";
        assert_eq!(waiting(&job).as_deref(), Some(words));
        let timed = Waiter { timed: true, ..waiter(5, BlockingCall::Lock(3), &[4]) };
        job[1] = some(&[waiter(4, BlockingCall::Lock(4), &[3]), timed]);
        let words = "nodes 0 and 2 wait in barrier 1 (2 of 3 threads have come), thread 5 of node 1 for lock 3, \
                     which thread 4 of node 1 holds, until its deadline, thread 4 of node 1 for lock 4, \
                     which thread 5 of node 1 holds";
        assert_eq!(waiting(&job).as_deref(), Some(words));
        assert!(!may_be_deadlock(&job), "a deadline ends it");
        assert_eq!(waiting(&[None, some(&[])]), None);
    }

    #[test]
    fn a_chain_of_locks_is_no_cycle() {
        let chain =
            [waiter(0, BlockingCall::Lock(2), &[1]), waiter(1, BlockingCall::Lock(3), &[2])];
        let job = [some(&chain), some(&[waiter(0, BlockingCall::Semaphore(1), &[3])])];
        assert_eq!(deadlock(&job, &job, &job), None, "the semaphore may be posted");
    }
}
