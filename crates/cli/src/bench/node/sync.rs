//! Barriers and locks.

use super::team::{Sums, Team};
use crate::bench::clock::{grouped, timed};
use crate::bench::row::Row;
use crate::bench::samples::Samples;
use anyhow::Result;
use core::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Operations of a phase.
const BATCH: usize = 64;
/// Raw bytes of a message without payload.
const MESSAGE_BYTES: usize = multigrain_transport::Header::BYTES;

/// Barriers of the first n nodes for every n; the others sleep.
pub(super) fn barriers(team: &mut Team, nodes: RangeInclusive<usize>) -> Result<()> {
    for count in nodes {
        let id = u32::try_from(count * team.nodes)?;
        let total = u32::try_from(count)?;
        let takes_part = team.me < count;
        let (mut ours, mut raw, mut sums) =
            (Samples::default(), Samples::default(), Sums::default());
        let rounds = (team.samples / BATCH).max(1);
        for _ in 0..rounds {
            team.barrier()?;
            if team.measures() {
                raw.append(team.raw.gather(count, BATCH)?);
            } else if takes_part {
                team.raw.attend(BATCH)?;
            }
            let (times, counted) = team.phase(|| {
                let mut times = Samples::default();
                for _ in 0..if takes_part { BATCH } else { 0 } {
                    let mut met = Ok(());
                    times.push(timed(|| met = team.runtime.barrier(id, total)));
                    met?;
                }
                Ok(times)
            })?;
            ours.append(times);
            sums += counted;
        }
        let mut row = Row::new(
            format!("barrier-{count}"),
            format!("barrier of {count} {}", if count == 1 { "node" } else { "nodes" }),
            ours.summary(),
        );
        if count > 1 {
            row = row.over(format!("{MESSAGE_BYTES} B from and to each"), raw.summary());
        }
        row.counts = Some(sums.per(rounds * BATCH));
        team.report(row);
    }
    Ok(())
}

/// Lock + unlock: the token at its manager (node 1), here, and wanted by both nodes.
pub(super) fn locks(team: &mut Team) -> Result<()> {
    let nodes = u32::try_from(team.nodes)?;
    let mut next = 1_000_000 * nodes + 1;
    let fresh: Vec<u32> = (0..team.samples)
        .map(|_| {
            next += nodes;
            next
        })
        .collect();
    let (mut ours, mut raw, mut sums) = (Samples::default(), Samples::default(), Sums::default());
    for ids in fresh.chunks(BATCH) {
        raw.append(round_trips(team, ids.len())?);
        let (times, counted) = team.phase(|| {
            if !team.measures() {
                return Ok(Samples::default());
            }
            ids.iter().map(|&id| lock_unlock(team, id)).collect()
        })?;
        ours.append(times);
        sums += counted;
    }
    let mut row = Row::new("lock-remote", "lock + unlock, remote", ours.summary())
        .over(format!("{MESSAGE_BYTES} B -> {MESSAGE_BYTES} B"), raw.summary());
    row.counts = Some(sums.per(fresh.len()));
    team.report(row);
    contended(team, next + nodes)?;
    cached(team, next + 2 * nodes)
}

/// All nodes at once, long enough to meet.
fn contended(team: &mut Team, id: u32) -> Result<()> {
    let mut raw = round_trips(team, BATCH)?;
    let span = Duration::from_micros(50 * team.samples as u64);
    let (ours, sums) = team.phase(|| {
        let start = Instant::now();
        let mut times = Samples::default();
        while start.elapsed() < span {
            times.push(lock_unlock(team, id)?);
        }
        Ok(times)
    })?;
    raw.append(round_trips(team, BATCH)?);
    let mut row = Row::new("lock-contended", "lock + unlock, wanted by all", ours.summary())
        .over(format!("{MESSAGE_BYTES} B -> {MESSAGE_BYTES} B"), raw.summary());
    // Those of the other nodes are not known here, but they had the same time.
    row.counts = Some(sums.per(row.ours.samples * team.nodes));
    team.report(row);
    Ok(())
}

/// The token is here already: no message.
pub(super) fn cached(team: &mut Team, id: u32) -> Result<()> {
    const GROUP: usize = 10;
    let (samples, sums) = team.phase(|| {
        if !team.measures() {
            return Ok(Samples::default());
        }
        lock_unlock(team, id)?;
        let mut result = Ok(());
        let times = grouped(team.samples, GROUP, |_| {
            let done = team.runtime.lock(id).and_then(|()| team.runtime.unlock(id));
            if done.is_err() {
                result = done;
            }
        });
        result?;
        Ok(times)
    })?;
    let mut row = Row::new("lock-cached", "lock + unlock, here already", samples.summary());
    row.counts = Some(sums.per(team.samples * GROUP));
    team.report(row);
    Ok(())
}

/// Raw round trips between nodes 0 and 1.
pub(super) fn round_trips(team: &Team, count: usize) -> Result<Samples> {
    team.barrier()?;
    match team.me {
        0 => team.raw.there_and_back(count, MESSAGE_BYTES),
        1 => team.raw.echo_same(count, MESSAGE_BYTES).map(|()| Samples::default()),
        _ => Ok(Samples::default()),
    }
}

/// One lock and unlock, nanoseconds.
pub(super) fn lock_unlock(team: &Team, id: u32) -> Result<f64> {
    let mut done = Ok(());
    let time = timed(|| done = team.runtime.lock(id).and_then(|()| team.runtime.unlock(id)));
    done?;
    Ok(time)
}
