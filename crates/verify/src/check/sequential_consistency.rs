//! Sequential consistency by its definition: a program may read what some interleaving of
//! its operations on one memory reads.

use std::collections::BTreeSet;

use super::program::{Content, Job, Op};

/// What every thread read, in its program order.
pub type Outcome = Vec<Vec<Content>>;

/// The outcomes of all interleavings on one memory. Operations that move copies do nothing here.
#[must_use]
pub fn outcomes(job: &Job) -> BTreeSet<Outcome> {
    let mut outcomes = BTreeSet::new();
    let threads = job.threads.len();
    let first = Interleaving {
        done: vec![0; threads],
        memory: vec![0; job.minipages.len()],
        reads: vec![vec![]; threads],
    };
    let mut open = vec![first];
    while let Some(now) = open.pop() {
        let mut ended = true;
        for thread in 0..threads {
            if let Some(next) = now.step(job, thread) {
                open.push(next);
                ended = false;
            }
        }
        if ended {
            outcomes.insert(now.reads);
        }
    }
    outcomes
}

#[derive(Clone)]
struct Interleaving {
    done: Vec<usize>,
    memory: Vec<Content>,
    reads: Outcome,
}

impl Interleaving {
    fn step(&self, job: &Job, thread: usize) -> Option<Self> {
        let op = *job.threads[thread].program.get(self.done[thread])?;
        let mut next = self.clone();
        next.done[thread] += 1;
        match op {
            Op::Read(minipage) => next.reads[thread].push(self.memory[usize::from(minipage)]),
            Op::Write(minipage, value) => next.memory[usize::from(minipage)] = value,
            Op::Add(minipage) => {
                let word = &mut next.memory[usize::from(minipage)];
                next.reads[thread].push(*word);
                *word = word.wrapping_add(1);
            }
            Op::AddBoth(one, other) => {
                for minipage in [one, other] {
                    let word = &mut next.memory[usize::from(minipage)];
                    next.reads[thread].push(*word);
                    *word = word.wrapping_add(1);
                }
            }
            Op::Prefetch(..) | Op::Push(_) => {}
            Op::Reclaim(_)
            | Op::Lock(_)
            | Op::Unlock(_)
            | Op::Barrier { .. }
            | Op::Down(_)
            | Op::Up(..)
            | Op::Await { .. }
            | Op::TimedAwait { .. }
            | Op::Attempt { .. }
            | Op::Hold(..)
            | Op::LetGo(_)
            | Op::Signal(..) => unreachable!("litmus tests do not synchronize: {op}"),
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_buffering_never_reads_both_old_values() {
        let job = Job::new(2)
            .minipage(0, 0)
            .minipage(1, 1)
            .thread(0, &[Op::Write(0, 1), Op::Read(1)])
            .thread(1, &[Op::Write(1, 1), Op::Read(0)]);
        let outcomes = outcomes(&job);
        let expected = [[0, 1], [1, 0], [1, 1]].map(|[a, b]| vec![vec![a], vec![b]]);
        assert_eq!(outcomes, expected.into_iter().collect());
    }
}
