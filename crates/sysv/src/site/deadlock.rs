//! Deadlocks of a job's processes: all of them wait in System V calls, and nobody is left who could end that.
//!
//! Role: once a second site 0 looks which calls wait. Where they are the same for a second it asks all sites, twice, what their
//! processes do ([`look`]), and judges the answers ([`Proof`]). It claims nothing that is not certain: a process with a thread that
//! does anything else, a handler of a signal, a timer or a time-out may let others go on, and so the job is not ended.
//!
//! The proof: a call has a number of its own, so a thread that is in it in both answers was in it between them, and so was one that waits
//! for a child or a thread and was not switched to in between. Between the last first answer and the first question of
//! the second round all processes stood still, then, and none came or went. What sites have sent before they answered
//! has arrived before the answers do: calls that wait at site 0 still are answered by nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_to_string};

use multigrain_runtime::{Runtime, handled_signals, joined_thread};
use serde::{Deserialize, Serialize};

use super::{Site, descendants};
use crate::ipc::CallId;

/// What the processes of a site do, if none of them does anything but wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standstill {
    /// The numbers of the calls that its threads are in.
    calls: Vec<u64>,
    /// Threads that wait for children or other threads, and how often each was switched to.
    others: Vec<(i32, u64)>,
    /// All processes.
    processes: Vec<i32>,
}

/// What follows from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing yet, or nothing at all.
    Wait,
    /// All sites are to be asked this question.
    Ask(u64),
    /// These calls wait for ever, if they are not answered by now.
    Claim(BTreeSet<CallId>),
}

/// The questions of site 0, and what was answered.
#[derive(Debug, Default)]
pub(super) struct Proof {
    question: u64,
    /// The answers to the first of two questions.
    first: Option<BTreeMap<u16, Standstill>>,
    answers: BTreeMap<u16, Standstill>,
    is_open: bool,
}

impl Proof {
    /// The next question, unless one is under way.
    pub(super) fn begin(&mut self) -> Option<u64> {
        if self.is_open {
            return None;
        }
        self.first = None;
        Some(self.ask())
    }

    fn ask(&mut self) -> u64 {
        self.answers.clear();
        self.is_open = true;
        self.question += 1;
        self.question
    }

    /// An answer of one of so many sites.
    pub(super) fn receive(
        &mut self,
        (site, sites): (u16, u16),
        question: u64,
        answer: Option<Standstill>,
    ) -> Next {
        if !self.is_open || question != self.question {
            return Next::Wait;
        }
        let Some(answer) = answer else {
            self.is_open = false;
            return Next::Wait;
        };
        self.answers.insert(site, answer);
        if self.answers.len() < usize::from(sites) {
            return Next::Wait;
        }
        self.is_open = false;
        let answers = core::mem::take(&mut self.answers);
        match self.first.take() {
            None => {
                self.first = Some(answers);
                Next::Ask(self.ask())
            }
            Some(first) if first == answers => {
                let calls = answers.iter().flat_map(|(&site, of_site)| {
                    of_site.calls.iter().map(move |&number| CallId { site, number })
                });
                Next::Claim(calls.collect())
            }
            Some(_) => Next::Wait,
        }
    }
}

/// What the processes of this site do; none if any does anything but wait. What they have sent is on its way when this returns.
pub(super) fn look(site: &'static Site, runtime: &'static Runtime) -> Option<Standstill> {
    let mut calls = BTreeMap::<i32, usize>::new();
    let mut seen = Standstill::default();
    for (number, pid, for_ever) in site.authority.waiting_calls() {
        if !for_ever {
            return None;
        }
        seen.calls.push(number);
        *calls.entry(pid).or_default() += 1;
    }
    let processes = descendants::all();
    if processes.is_empty() && !site.program_has_ended() {
        return None;
    }
    for pid in processes {
        let others = threads_that_wait(pid, calls.remove(&pid).unwrap_or(0))?;
        seen.others.extend(others);
        seen.processes.push(pid);
    }
    seen.processes.sort_unstable();
    // Whoever is gone is known to be: what its end has changed is on its way.
    site.catch_up(runtime);
    site.pass_notifications(runtime);
    let is_seen = |pid: &i32| seen.processes.binary_search(pid).is_ok();
    // Of others nobody knows what they do.
    (calls.is_empty() && site.processes.all().iter().all(is_seen)).then_some(seen)
}

/// The threads of a process that wait for a child or each other, if so many others are in calls of this site, and nothing else
/// goes on in it.
fn threads_that_wait(pid: i32, calls: usize) -> Option<Vec<(i32, u64)>> {
    let of = |file: &str| read_to_string(format!("/proc/{pid}/{file}")).ok();
    // No child ends.
    let of_children = 1 << (libc::SIGCHLD - 1);
    if handled_signals(format!("/proc/{pid}/status"))? & !of_children != 0
        || !of("timers")?.is_empty()
    {
        return None;
    }
    let (mut in_calls, mut others) = (0, Vec::new());
    for task in read_dir(format!("/proc/{pid}/task")).ok()? {
        let task: i32 = task.ok()?.file_name().to_str()?.parse().ok()?;
        let call = of(&format!("task/{task}/syscall"))?;
        match call.split_whitespace().next()?.parse().ok()? {
            libc::SYS_ppoll => in_calls += 1,
            libc::SYS_wait4 | libc::SYS_waitid => {
                others.push((task, switches(&of(&format!("task/{task}/status"))?)?));
            }
            _ => {
                joined_thread(&call)?;
                others.push((task, switches(&of(&format!("task/{task}/status"))?)?));
            }
        }
    }
    others.sort_unstable();
    (in_calls == calls).then_some(others)
}

/// How often a thread was switched to, by its `status` in /proc.
fn switches(status: &str) -> Option<u64> {
    let of = |name: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    Some(of("voluntary_ctxt_switches:")? + of("nonvoluntary_ctxt_switches:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(number: u64) -> Option<Standstill> {
        Some(Standstill { calls: vec![number], others: vec![(7, 3)], processes: vec![6, 7] })
    }

    #[test]
    fn what_all_sites_say_twice_is_a_deadlock() {
        let mut proof = Proof::default();
        assert_eq!(proof.begin(), Some(1));
        assert_eq!(proof.begin(), None, "one question at a time");
        assert_eq!(proof.receive((0, 2), 1, waits(5)), Next::Wait);
        assert_eq!(proof.receive((1, 2), 1, Some(Standstill::default())), Next::Ask(2));
        assert_eq!(proof.receive((1, 2), 2, Some(Standstill::default())), Next::Wait);
        let calls = BTreeSet::from([CallId { site: 0, number: 5 }]);
        assert_eq!(proof.receive((0, 2), 2, waits(5)), Next::Claim(calls));
    }

    #[test]
    fn who_does_anything_else_or_has_moved_ends_it() {
        let mut proof = Proof::default();
        proof.begin();
        assert_eq!(proof.receive((0, 2), 1, None), Next::Wait);
        assert_eq!(proof.begin(), Some(2));
        assert_eq!(proof.receive((1, 2), 1, waits(5)), Next::Wait, "of the question before");
        assert_eq!(proof.receive((0, 2), 2, waits(5)), Next::Wait);
        assert_eq!(proof.receive((1, 2), 2, waits(5)), Next::Ask(3));
        assert_eq!(proof.receive((0, 2), 3, waits(5)), Next::Wait);
        assert_eq!(proof.receive((1, 2), 3, waits(6)), Next::Wait, "another call");
        assert_eq!(proof.begin(), Some(4));
        let _ = proof.receive((0, 1), 4, waits(5));
        let ran = Some(Standstill { others: vec![(7, 4)], ..waits(5).unwrap() });
        assert_eq!(proof.receive((0, 1), 5, ran), Next::Wait, "a parent was switched to");
    }

    #[test]
    fn switches_are_those_of_both_kinds() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches(status), Some(7));
        assert_eq!(switches(""), None);
    }
}
