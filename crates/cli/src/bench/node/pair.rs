//! Two nodes: fetches by size, upgrades, fetches from a node that computes, messages, locks and
//! barriers.

use super::bare::Bare;
use super::fetch::{Access, Before, Fetch, Server};
use super::pool::Pool;
use super::team::Team;
use super::{NodeArgs, collective, messages, sync};
use crate::bench::row::size_name;
use anyhow::Result;

/// Minipage sizes and how many of each are fetched in a row.
const SIZES: [(usize, usize); 5] = [(128, 64), (512, 64), (1024, 64), (4096, 64), (64 << 10, 16)];
const PAGE: usize = 4096;

pub(super) fn run(args: &NodeArgs) -> Result<()> {
    let mut team = Team::join(args)?;
    messages::measure(&mut team, args)?;
    let mut bare = Bare::start(&team, args)?;
    for (bytes, batch) in SIZES {
        let pool = Pool::new(&team, &format!("pool-{bytes}"), batch, bytes)?;
        // Large ones take long enough to need fewer.
        let rounds = (args.samples / batch.max(64)).max(1) + 1;
        fetches(&mut team, &pool, &mut bare, rounds)?;
    }
    drop(bare);
    first_touch(&mut team)?;
    sync::barriers(&mut team, 2..=2)?;
    collective::allreduce(&mut team)?;
    for threads in [16, 64] {
        collective::barrier_of_threads(&mut team, threads)?;
    }
    sync::locks(&mut team)?;
    team.finish()
}

fn fetches(team: &mut Team, pool: &Pool, bare: &mut Bare, rounds: usize) -> Result<()> {
    let (bytes, size) = (pool.bytes, size_name(pool.bytes));
    let base = Fetch {
        key: format!("read-fetch-{bytes}"),
        operation: format!("read fetch {size}"),
        pool,
        access: Access::Load,
        before: Before::Manager,
        server: Server::Waiting,
        rounds,
    };
    let beside = if bytes == PAGE { Some(bare) } else { None };
    base.measure_beside(team, beside)?;
    let (key, operation) = (format!("write-fetch-{bytes}"), format!("write fetch {size}"));
    Fetch { key, operation, access: Access::Store, ..base }.measure(team)?;
    if bytes != PAGE {
        return Ok(());
    }
    let (key, operation) = ("upgrade".to_owned(), format!("upgrade {size}"));
    let (access, before) = (Access::Store, Before::Measurer);
    Fetch { key, operation, access, before, ..base }.measure(team)?;
    for (key, what, server) in [
        ("read-fetch-asleep", "from an idle node", Server::Asleep),
        ("read-fetch-computing", "from a computing node", Server::Computing),
    ] {
        let operation = format!("read fetch {size} {what}");
        Fetch { key: key.to_owned(), operation, server, ..base }.measure(team)?;
    }
    Ok(())
}

/// Pages that never were at node 0: the kernel has to allocate them there.
fn first_touch(team: &mut Team) -> Result<()> {
    let pool = Pool::new(team, "pool-first", team.samples, PAGE)?;
    let fetch = Fetch {
        key: "read-fetch-first".to_owned(),
        operation: "read fetch 4 KiB, first ever here".to_owned(),
        pool: &pool,
        access: Access::Load,
        before: Before::Manager,
        server: Server::Waiting,
        rounds: 1,
    };
    fetch.measure(team)
}
