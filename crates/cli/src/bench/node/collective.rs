//! Sums over all nodes, in turn with barriers; barriers of many threads.

use super::team::{Sums, Team};
use crate::bench::clock::timed;
use crate::bench::row::Row;
use crate::bench::samples::Samples;
use anyhow::Result;
use multigrain_protocol::sync::{Element, Operation};
use multigrain_runtime::{Collective, Party};

/// Operations of a phase.
const BATCH: usize = 64;
/// Barriers of many threads that one sample is the mean of.
const MEETINGS: usize = 16;
/// An id that no other measurement uses.
const ID: u32 = 3_000_001;

/// A sum of one number over all nodes, and the barrier it is.
pub(super) fn allreduce(team: &mut Team) -> Result<()> {
    let all = u32::try_from(team.nodes)?;
    let place = u32::try_from(team.me)?;
    let what = Collective::Reduce(Operation::Sum, None);
    let (mut ours, mut floor, mut sums) = (Samples::default(), Samples::default(), Sums::default());
    let rounds = (team.samples / BATCH).max(1);
    for _ in 0..rounds {
        let (times, _) = team.phase(|| {
            let mut times = Samples::default();
            for _ in 0..BATCH {
                let mut met = Ok(());
                times.push(timed(|| met = team.runtime.barrier(ID, all)));
                met?;
            }
            Ok(times)
        })?;
        floor.append(times);
        let (times, counted) = team.phase(|| {
            let mut times = Samples::default();
            for _ in 0..BATCH {
                let mut sum = 1_f64.to_ne_bytes();
                let mut met = Ok(false);
                let party = Party::new(ID, all, place);
                times.push(timed(|| {
                    met = team.runtime.collect(party, what, (Element::Double, &mut sum), None);
                }));
                met?;
            }
            Ok(times)
        })?;
        ours.append(times);
        sums += counted;
    }
    let key = format!("allreduce-{}", team.nodes);
    let mut row = Row::new(key, "sum of one number over all nodes", ours.summary())
        .over("our barrier", floor.summary());
    row.counts = Some(sums.per(rounds * BATCH));
    team.report(row);
    Ok(())
}

/// Barriers of so many threads on each node.
pub(super) fn barrier_of_threads(team: &mut Team, threads: usize) -> Result<()> {
    let runtime = team.runtime;
    let all = u32::try_from(team.nodes * threads)?;
    let id = ID + u32::try_from(threads)?;
    let meet = |times: usize| -> Result<Vec<f64>> {
        let mut samples = Vec::new();
        for _ in 0..times {
            let mut met = Ok(());
            let time = timed(|| met = (0..MEETINGS).try_for_each(|_| runtime.barrier(id, all)));
            met?;
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            samples.push(time / MEETINGS as f64);
        }
        Ok(samples)
    };
    let times = (team.samples / BATCH).max(2);
    team.barrier()?;
    let samples = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| meet(times))).collect();
        let own = meet(times)?;
        for other in others {
            other.join().map_err(|_| anyhow::anyhow!("a measuring thread panicked"))??;
        }
        anyhow::Ok(own.into_iter().collect::<Samples>())
    })?;
    team.barrier()?;
    let operation = format!("barrier of {} nodes of {threads} threads", team.nodes);
    team.report(Row::new(format!("barrier-threads-{threads}"), operation, samples.summary()));
    Ok(())
}
