//! What MIRAGE+ measures of a page fault (4.2 to 4.7): fetches by size, by what the other node does meanwhile, upgrades, and with
//! more than two nodes writes of what others have read.

use super::NodeArgs;
use super::fetch::{Access, Before, Fetch, Server};
use super::pool::Pool;
use super::team::Team;
use crate::bench::row::{Row, size_name};
use anyhow::Result;

/// Of transfers; the first is a packet of the paper's.
const SIZES: [usize; 5] = [1 << 10, 2 << 10, PAGE, 16 << 10, 64 << 10];
const PAGE: usize = 4 << 10;

/// `--grain` is the largest transfer, `--batch` how many are made in a row.
pub(super) fn run(args: &NodeArgs) -> Result<()> {
    let mut team = Team::join(args)?;
    let rounds = (args.samples / args.batch).max(1);
    if team.nodes > 2 {
        invalidations(&mut team, args.batch, rounds)?;
    } else {
        for bytes in SIZES.into_iter().filter(|&bytes| bytes <= args.grain) {
            fetches(&mut team, bytes, (args.batch, rounds))?;
        }
        raw(&mut team, args.samples)?;
    }
    team.finish()
}

fn fetches(team: &mut Team, bytes: usize, (batch, rounds): (usize, usize)) -> Result<()> {
    let size = size_name(bytes);
    let pool = Pool::new(team, &format!("pool-{bytes}"), batch, bytes)?;
    let base = Fetch {
        key: format!("read-fetch-{bytes}"),
        operation: format!("read fetch {size}"),
        pool: &pool,
        access: Access::Load,
        before: Before::Manager,
        server: Server::Waiting,
        rounds,
    };
    base.measure(team)?;
    if bytes != PAGE {
        return Ok(());
    }
    for (key, server) in [("asleep", Server::Asleep), ("computing", Server::Computing)] {
        let (key, operation) = (format!("read-fetch-{key}"), format!("read fetch {size}, {key}"));
        Fetch { key, operation, server, ..base }.measure(team)?;
    }
    let (key, operation) = ("upgrade".to_owned(), format!("upgrade {size}"));
    Fetch { key, operation, access: Access::Store, before: Before::Measurer, ..base }.measure(team)
}

/// The plain socket: a short message there and back, and a packet in answer to a short message.
fn raw(team: &mut Team, samples: usize) -> Result<()> {
    let short = multigrain_transport::Header::BYTES;
    for (key, bytes) in [("raw-short", short), ("raw-packet", 1 << 10)] {
        team.barrier()?;
        if team.measures() {
            let times = team.raw.ask(1, samples, bytes)?;
            team.report(Row::new(key, format!("64 B -> {bytes} B"), times.summary()));
        } else {
            team.raw.serve(samples, bytes)?;
        }
    }
    Ok(())
}

/// A page that is written where so many nodes more have a copy to read.
fn invalidations(team: &mut Team, batch: usize, rounds: usize) -> Result<()> {
    let pool = Pool::new(team, "pool", batch, PAGE)?;
    for readers in 0..=team.nodes - 2 {
        let fetch = Fetch {
            key: format!("write-fetch-copies-{readers}"),
            operation: format!("write fetch 4 KiB, {readers} read copies more"),
            pool: &pool,
            access: Access::Store,
            before: Before::Readers(readers),
            server: Server::Waiting,
            rounds,
        };
        fetch.measure(team)?;
    }
    Ok(())
}
