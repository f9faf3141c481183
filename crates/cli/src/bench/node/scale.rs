//! The same three operations in jobs of different sizes: `bench costs` compares the jobs.

use super::fetch::{Access, Before, Fetch, Server};
use super::pool::Pool;
use super::team::Team;
use super::{NodeArgs, sync};
use anyhow::Result;

pub(super) fn run(args: &NodeArgs) -> Result<()> {
    let mut team = Team::join(args)?;
    let pool = Pool::some_of(&team, "pool", args.minipages, args.grain, args.batch)?;
    let fetch = Fetch {
        key: "scale-fetch".to_owned(),
        operation: format!("read fetch, {} minipages", args.minipages),
        pool: &pool,
        access: Access::Load,
        before: Before::Manager,
        server: Server::Waiting,
        rounds: (args.samples / args.batch).max(1) + 1,
    };
    fetch.measure(&mut team)?;
    sync::barriers(&mut team, 2..=2)?;
    sync::locks(&mut team)?;
    team.finish()
}
