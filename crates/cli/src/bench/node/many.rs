//! More than two nodes: invalidations, forwarding, barriers by number of nodes.

use super::fetch::{Access, Before, Fetch, Server};
use super::pool::Pool;
use super::team::Team;
use super::{NodeArgs, sync};
use anyhow::Result;

/// Read copies at most, beside the manager's.
const MOST_READERS: usize = 3;
const BATCH: usize = 32;

pub(super) fn run(args: &NodeArgs) -> Result<()> {
    let mut team = Team::join(args)?;
    let pool = Pool::new(&team, "pool", BATCH, 4096)?;
    let rounds = (args.samples / BATCH).max(1) + 1;
    let base = Fetch {
        key: "read-fetch-forward".to_owned(),
        operation: "read fetch 4 KiB through a forward".to_owned(),
        pool: &pool,
        access: Access::Load,
        before: Before::Third,
        server: Server::Waiting,
        rounds,
    };
    base.measure(&mut team)?;
    let (key, operation) = ("read-fetch-direct", "read fetch 4 KiB, manager has it");
    let (key, operation) = (key.to_owned(), operation.to_owned());
    Fetch { key, operation, before: Before::Manager, ..base }.measure(&mut team)?;
    for readers in 0..=MOST_READERS.min(team.nodes - 2) {
        let key = format!("write-fetch-copies-{readers}");
        let operation = format!("write fetch 4 KiB, {readers} read copies more");
        let (access, before) = (Access::Store, Before::Readers(readers));
        Fetch { key, operation, access, before, ..base }.measure(&mut team)?;
    }
    let most = team.nodes;
    sync::barriers(&mut team, 1..=most)?;
    team.finish()
}
