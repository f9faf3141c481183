//! A release of many dirty pages, next to sending the changed bytes over a plain socket.

use crate::bench::clock::{store, timed};
use crate::bench::node::pool::Pool;
use crate::bench::node::team::Team;
use crate::bench::row::{Row, size_name};
use crate::bench::samples::Samples;
use anyhow::Result;
use multigrain_types::{Consistency, PAGE_BYTES};

const PAGES: usize = 1000;
const WORD_BYTES: usize = size_of::<u64>();

pub(super) fn measure(team: &mut Team) -> Result<()> {
    let pool = Pool::of_pages(team, "bulk", PAGES, Consistency::LazyRelease)?;
    // The home has written them, or they would move to node 0, which writes first.
    if team.me == 1 {
        pool.store_all();
    }
    team.barrier()?;
    release(team, &pool, PAGE_BYTES, "lazy-release-1000-full", "fully changed")?;
    release(team, &pool, WORD_BYTES, "lazy-release-1000-word", "one word of each")
}

/// `changed` bytes of each page are new in each round.
fn release(team: &mut Team, pool: &Pool, changed: usize, key: &str, words: &str) -> Result<()> {
    let mut bytes = vec![1; PAGES * changed];
    let (mut ours, mut raw) = (Samples::default(), Samples::default());
    let rounds = (team.samples / 16).max(4);
    for round in 0..=rounds {
        team.barrier()?;
        let floor = match team.me {
            0 => team.raw.hand_over(&bytes)?,
            _ => team.raw.take_over(&mut bytes).map(|()| Samples::default())?,
        };
        if team.measures() {
            for &start in &pool.starts {
                (start..start + changed)
                    .step_by(WORD_BYTES)
                    .for_each(|word| store(word, (round as u64 + 2) * 0x0101_0101_0101_0101));
            }
            let mut done = Ok(());
            let time = timed(|| done = team.runtime.release());
            done?;
            if round > 0 {
                raw.append(floor);
                ours.push(time);
            }
        }
        team.barrier()?;
    }
    let operation = format!("release, lazy, {PAGES} pages, {words}");
    let row = Row::new(key, operation, ours.summary());
    team.report(row.over(format!("{} -> 32 B", size_name(bytes.len())), raw.summary()));
    Ok(())
}
