//! The report of a deadlock as text for the user.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use super::{BlockingCall, HANDLE_NODE, Thread, Waiter};
use crate::in_runs;
use crate::sync_id::IdName;
use crate::tree::SMALL_JOB;

/// Parts of a line that are named; the others are counted.
const MOST_PARTS: usize = 12;

impl fmt::Display for BlockingCall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalize => out.write_str("in mg_finalize"),
            Self::Barrier(id) => write!(out, "in barrier {}", IdName(*id)),
            Self::Lock(id) => write!(out, "for lock {}", IdName(*id)),
            Self::ReadWriteLock(id) => write!(out, "for read-write lock {}", IdName(*id)),
            Self::Semaphore(id) => write!(out, "for semaphore {}", IdName(*id)),
            Self::Condition(id) => write!(out, "for a signal on condition {}", IdName(*id)),
            Self::Join(handle) => {
                write!(out, "for the end of a thread of node {}", handle >> HANDLE_NODE)
            }
            Self::Name => out.write_str("for a name"),
            Self::Segment => out.write_str("for a segment"),
        }
    }
}

/// Each has what another waits for.
pub(super) fn of_cycle(cycle: &[(Thread, &Waiter)]) -> String {
    let wanted: Vec<BlockingCall> = cycle.iter().map(|(_, waiter)| waiter.call).collect();
    let part = |(at, &((node, thread), waiter)): (usize, &(Thread, &Waiter))| {
        let held = waiter.holds.iter().filter(|held| wanted.contains(held));
        let held: Vec<String> = held.filter_map(|&held| lock_name(held)).collect();
        let holds = if held.is_empty() {
            String::new()
        } else {
            format!(" holds {} and", held.join(" and "))
        };
        let (next_node, next) = cycle[(at + 1) % cycle.len()].0;
        let call = if matches!(waiter.call, BlockingCall::Join(_)) {
            format!("for the end of thread {next} of node {next_node}")
        } else {
            waiter.call.to_string()
        };
        format!("thread {thread} of node {node}{holds} waits {call}")
    };
    join(cycle.iter().enumerate().map(part).collect())
}

fn lock_name(held: BlockingCall) -> Option<String> {
    match held {
        BlockingCall::Lock(id) => Some(format!("lock {}", IdName(id))),
        BlockingCall::ReadWriteLock(id) => Some(format!("read-write lock {}", IdName(id))),
        BlockingCall::Finalize
        | BlockingCall::Barrier(_)
        | BlockingCall::Semaphore(_)
        | BlockingCall::Condition(_)
        | BlockingCall::Join(_)
        | BlockingCall::Name
        | BlockingCall::Segment => None,
    }
}

/// All these threads of a job, by the places where they wait; of some nodes others run.
pub(super) fn of_all(waiting: &BTreeMap<Thread, &Waiter>, others_run: &BTreeSet<usize>) -> String {
    let mut places: BTreeMap<(BlockingCall, &str, bool, bool), Vec<Thread>> = BTreeMap::new();
    // Of a node of which others run no number of these is all.
    let mut threads: BTreeMap<usize, usize> = others_run.iter().map(|&node| (node, 1)).collect();
    let mut holders: BTreeMap<BlockingCall, Vec<Thread>> = BTreeMap::new();
    let mut sizes: BTreeMap<BlockingCall, u32> = BTreeMap::new();
    for (&thread, waiter) in waiting {
        let mut call = waiter.call;
        if let BlockingCall::Join(handle) = &mut call {
            *handle = *handle >> HANDLE_NODE << HANDLE_NODE;
        }
        let key = (call, waiter.name.as_str(), waiter.whole, waiter.timed);
        places.entry(key).or_default().push(thread);
        sizes.insert(call, waiter.expected);
        *threads.entry(thread.0).or_default() += 1;
        for &held in &waiter.holds {
            holders.entry(held).or_default().push(thread);
        }
    }
    type Place<'a> = (&'a (BlockingCall, &'a str, bool, bool), &'a Vec<Thread>);
    let part = |(index, ((call, name_of, whole, timed), at)): (usize, Place<'_>)| {
        let (who, plural) = name(at, &threads);
        let verb = match (index, plural) {
            (0, false) => " waits",
            (0, true) => " wait",
            _ => "",
        };
        let more = match call {
            BlockingCall::Lock(_) | BlockingCall::ReadWriteLock(_) => {
                holders.get(call).map(|of| match name(of, &threads) {
                    (who, false) => format!(", which {who} holds"),
                    (who, true) => format!(", which {who} hold"),
                })
            }
            BlockingCall::Barrier(_) => sizes.get(call).map(|expected| {
                let is_one_of_two = places.contains_key(&(*call, name_of, !whole, *timed));
                let which = if is_one_of_two { apart(*whole, *expected) } else { String::new() };
                which + &came(at.len(), *expected)
            }),
            BlockingCall::Finalize
            | BlockingCall::Semaphore(_)
            | BlockingCall::Condition(_)
            | BlockingCall::Join(_) => None,
            BlockingCall::Name => Some(format!(" {name_of:?} that nobody publishes")),
            BlockingCall::Segment => Some(format!(" {name_of:?} that nobody creates")),
        };
        let until = match (timed, &more) {
            (false, _) => "",
            (true, None) => " until its deadline",
            (true, Some(_)) => ", until its deadline",
        };
        format!("{who}{verb} {call}{}{until}", more.unwrap_or_default())
    };
    join(places.iter().enumerate().map(part).collect())
}

/// Which of two barriers of one id it is: that of all threads, or that of a number of them.
fn apart(whole: bool, expected: u32) -> String {
    match whole {
        false => format!(" of {expected} threads"),
        true => {
            format!(
                " of all threads, which is another one in a job of more than {SMALL_JOB} nodes,"
            )
        }
    }
}

/// How many of a barrier's threads have come.
fn came(threads: usize, expected: u32) -> String {
    let verb = if threads == 1 { "has" } else { "have" };
    format!(" ({threads} of {expected} threads {verb} come)")
}

fn join(parts: Vec<String>) -> String {
    let more = parts.len().saturating_sub(MOST_PARTS);
    let mut text = parts[..parts.len() - more].join(", ");
    if more > 0 {
        text += &format!(", and {more} more");
    }
    text
}

/// Threads in words, and whether these name several. A node stands for its threads where all of them are
/// meant.
fn name(who: &[Thread], threads: &BTreeMap<usize, usize>) -> (String, bool) {
    let mut nodes: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for &(node, thread) in who {
        nodes.entry(node).or_default().push(thread);
    }
    let is_whole = |node: &usize, some: &[u32]| threads.get(node) == Some(&some.len());
    let whole: Vec<usize> =
        nodes.iter().filter(|(node, some)| is_whole(node, some)).map(|(&node, _)| node).collect();
    let mut names = Vec::new();
    let mut named = whole.len();
    if !whole.is_empty() {
        names.push(numbered("node", &whole));
    }
    for (node, some) in nodes.iter().filter(|(node, some)| !is_whole(node, some)) {
        let some: Vec<usize> = some.iter().map(|&thread| thread as usize).collect();
        named += some.len();
        names.push(format!("{} of node {node}", numbered("thread", &some)));
    }
    (names.join(" and "), named > 1)
}

/// `node 3`, `nodes 0 and 2`, `nodes 0 to 4, 7 and 9`; the numbers ascend.
fn numbered(what: &str, numbers: &[usize]) -> String {
    let plural = if numbers.len() > 1 { "s" } else { "" };
    format!("{what}{plural} {}", in_runs(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_named_where_a_node_waits_in_several_places_and_so_is_who_holds_a_lock() {
        let waiter = |thread, call, holds: &[u64]| {
            let expected = if matches!(call, BlockingCall::Barrier(_)) { 8 } else { 0 };
            Waiter {
                thread,
                wait: 0,
                call,
                timed: false,
                holds: holds.iter().map(|&id| BlockingCall::Lock(id)).collect(),
                expected,
                whole: false,
                name: String::new(),
            }
        };
        let waiters = [
            ((0, 0), waiter(0, BlockingCall::Barrier(5), &[7])),
            ((0, 1), waiter(1, BlockingCall::Lock(7), &[])),
            ((1, 0), waiter(0, BlockingCall::Lock(7), &[])),
        ];
        let waiting = waiters.iter().map(|(thread, waiter)| (*thread, waiter)).collect();
        let words = "thread 0 of node 0 waits in barrier 5 (1 of 8 threads has come), \
                     node 1 and thread 1 of node 0 for lock 7, which thread 0 of node 0 holds";
        assert_eq!(of_all(&waiting, &BTreeSet::new()), words);
        let both =
            [(0, 0), (0, 1)].map(|thread| (thread, waiter(0, BlockingCall::Barrier(5), &[])));
        let waiting = both.iter().map(|(thread, waiter)| (*thread, waiter)).collect();
        let words = "node 0 waits in barrier 5 (2 of 8 threads have come)";
        assert_eq!(of_all(&waiting, &BTreeSet::new()), words);
    }

    #[test]
    fn a_barrier_of_all_threads_is_told_from_one_of_as_many() {
        let waiter = |whole| {
            let (call, holds, name) = (BlockingCall::Barrier(1), Vec::new(), String::new());
            Waiter { thread: 0, wait: 0, call, timed: false, holds, expected: 9, whole, name }
        };
        let waiters = [true, false, true].map(waiter);
        let waiting = (0..).map(|node| (node, 0)).zip(&waiters).collect();
        let words = "node 1 waits in barrier 1 of 9 threads (1 of 9 threads has come), nodes 0 and 2 in barrier 1 of all \
                     threads, which is another one in a job of more than 8 nodes, (2 of 9 threads have come)";
        assert_eq!(of_all(&waiting, &BTreeSet::new()), words);
    }

    #[test]
    fn each_name_that_is_waited_for_is_said() {
        let waiter = |(call, name): (BlockingCall, &str)| Waiter {
            thread: 0,
            wait: 0,
            call,
            timed: false,
            holds: Vec::new(),
            expected: 0,
            whole: false,
            name: name.into(),
        };
        let (name, segment) = (BlockingCall::Name, BlockingCall::Segment);
        let waiters = [(name, "b"), (name, "a\n"), (name, "b"), (segment, "b")].map(waiter);
        let waiting = (0..).map(|node| (node, 0)).zip(&waiters).collect();
        let words = "node 1 waits for a name \"a\\n\" that nobody publishes, \
                     nodes 0 and 2 for a name \"b\" that nobody publishes, \
                     node 3 for a segment \"b\" that nobody creates";
        assert_eq!(of_all(&waiting, &BTreeSet::new()), words);
    }
}
