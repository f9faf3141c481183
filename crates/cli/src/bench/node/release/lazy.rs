//! Home-based lazy release consistency: node 1 is the home.

use super::{BATCH, MESSAGE_BYTES, Traffic, rounds};
use crate::bench::clock::{store, timed};
use crate::bench::node::fetch::Access;
use crate::bench::node::pool::Pool;
use crate::bench::node::raw_sockets::REQUEST_BYTES;
use crate::bench::node::team::{Sums, Team};
use crate::bench::row::Row;
use crate::bench::samples::Samples;
use anyhow::Result;
use multigrain_types::{Consistency, PAGE_BYTES};

pub(super) fn measure(team: &mut Team) -> Result<()> {
    let pool = Pool::of_pages(team, "lazy", BATCH, Consistency::LazyRelease)?;
    let (mut fetch, mut upgrade, mut release) =
        (Measured::default(), Measured::default(), Measured::default());
    let (mut page, mut word) = (Samples::default(), Samples::default());
    let rounds = rounds(team);
    for round in 0..rounds {
        team.barrier()?;
        if team.me == 1 {
            pool.store_all();
        }
        // Here node 0 forgets its copies.
        team.barrier()?;
        let floor = match team.me {
            0 => (
                team.raw.ask(1, BATCH, PAGE_BYTES)?,
                team.raw.there_and_back(BATCH, MESSAGE_BYTES)?,
            ),
            _ => {
                team.raw.serve(BATCH, PAGE_BYTES)?;
                team.raw.echo_same(BATCH, MESSAGE_BYTES)?;
                Default::default()
            }
        };
        if team.measures() {
            let warm_up = round == 0;
            fetch.take(team, &pool, warm_up, |start| Ok(Access::Load.timed(start)))?;
            upgrade.take(team, &pool, warm_up, |start| Ok(Access::Store.timed(start)))?;
            // All these go with one release; then one page at a time.
            team.runtime.release()?;
            let mut value = 1 + round as u64;
            release.take(team, &pool, warm_up, |start| {
                value += 1;
                store(start, value);
                let mut done = Ok(());
                let time = timed(|| done = team.runtime.release());
                done?;
                Ok(time)
            })?;
            if !warm_up {
                page.append(floor.0);
                word.append(floor.1);
            }
        }
        team.barrier()?;
    }
    let operations = (rounds - 1) * BATCH;
    team.report(
        fetch
            .row("lazy-read-fetch", "page fetch, lazy", operations)
            .over(format!("{REQUEST_BYTES} B -> 4 KiB"), page.summary()),
    );
    team.report(upgrade.row("lazy-upgrade", "upgrade, lazy: the twin alone", operations));
    team.report(
        release
            .row("lazy-release-1", "release, lazy, a word of 1 page", operations)
            .over(format!("{MESSAGE_BYTES} B -> {MESSAGE_BYTES} B"), word.summary()),
    );
    barrier(team, &pool)
}

/// Times and traffic of node 0.
#[derive(Default)]
struct Measured {
    times: Samples,
    traffic: Traffic,
}

impl Measured {
    /// One operation on every page of the pool; the warm-up is not kept.
    fn take(
        &mut self,
        team: &Team,
        pool: &Pool,
        warm_up: bool,
        mut operation: impl FnMut(usize) -> Result<f64>,
    ) -> Result<()> {
        let before = Traffic::settled(team.runtime);
        let times = pool.starts.iter().map(|&start| operation(start)).collect::<Result<_>>()?;
        if !warm_up {
            self.times.append(times);
            self.traffic += Traffic::so_far(team.runtime) - before;
        }
        Ok(())
    }

    fn row(self, key: &str, operation: &str, operations: usize) -> Row {
        let mut row = Row::new(key, operation, self.times.summary());
        row.counts = Some(self.traffic.per(operations));
        row
    }
}

/// A barrier that tells of pages written at their home, of which node 0 has copies.
fn barrier(team: &mut Team, pool: &Pool) -> Result<()> {
    let mut times = Samples::default();
    let mut sums = Sums::default();
    let rounds = rounds(team);
    for _ in 0..rounds {
        team.barrier()?;
        if team.measures() {
            pool.load_all();
        }
        team.barrier()?;
        if team.me == 1 {
            pool.store_all();
        }
        team.meet(1)?;
        let before = team.runtime.stats();
        let mut met = Ok(());
        times.push(timed(|| met = team.barrier()));
        met?;
        sums += team.sum_since(&before)?;
    }
    let operation = format!("barrier, lazy, {BATCH} pages written at home");
    let mut row = Row::new("lazy-barrier", operation, times.summary());
    row.counts = Some(sums.per(rounds));
    team.report(row);
    Ok(())
}
