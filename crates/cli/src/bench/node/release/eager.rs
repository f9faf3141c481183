//! MGS: node 1 is the home, others may write too.

use super::{BATCH, MESSAGE_BYTES, Traffic, rounds};
use crate::bench::clock::{store, timed};
use crate::bench::node::fetch::Access;
use crate::bench::node::pool::Pool;
use crate::bench::node::raw_sockets::REQUEST_BYTES;
use crate::bench::node::team::Team;
use crate::bench::row::Row;
use crate::bench::samples::Samples;
use anyhow::Result;
use multigrain_types::{Consistency, PAGE_BYTES};

const HOME: usize = 1;

/// Which copies there are before node 0's access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// None: the home serves at once.
    Home,
    /// The home's, in single-writer mode: it gives it up first.
    Single,
    /// Node 0's own, for reading.
    Here,
}

/// What node 0 does, in which state.
struct Fetch {
    key: &'static str,
    operation: &'static str,
    before: Before,
    access: Access,
}

const FETCHES: [Fetch; 5] = [
    Fetch {
        key: "eager-read-fetch",
        operation: "page fetch, eager",
        before: Before::Home,
        access: Access::Load,
    },
    Fetch {
        key: "eager-write-fetch",
        operation: "page fetch for writing, eager",
        before: Before::Home,
        access: Access::Store,
    },
    Fetch {
        key: "eager-read-fetch-single",
        operation: "page fetch, eager, from a single writer",
        before: Before::Single,
        access: Access::Load,
    },
    Fetch {
        key: "eager-write-fetch-single",
        operation: "page fetch for writing, eager, from a single writer",
        before: Before::Single,
        access: Access::Store,
    },
    Fetch {
        key: "eager-upgrade",
        operation: "upgrade, eager: twin and WNOTIFY",
        before: Before::Here,
        access: Access::Store,
    },
];

/// Fetches and upgrades between two nodes.
pub(super) fn fetches(team: &mut Team) -> Result<()> {
    let pool = Pool::of_pages(team, "eager", BATCH, Consistency::EagerRelease)?;
    FETCHES.iter().try_for_each(|fetch| fetch.measure(team, &pool))
}

impl Fetch {
    fn measure(&self, team: &mut Team, pool: &Pool) -> Result<()> {
        let (mut ours, mut raw, mut traffic) =
            (Samples::default(), Samples::default(), Traffic::default());
        let rounds = rounds(team);
        for round in 0..rounds {
            self.prepare(team, pool)?;
            let floor = match team.me {
                0 => team.raw.ask(HOME, BATCH, PAGE_BYTES)?,
                _ => team.raw.serve(BATCH, PAGE_BYTES).map(|()| Samples::default())?,
            };
            if team.measures() {
                let (times, counted) = self.access_all(team, pool);
                if round > 0 {
                    raw.append(floor);
                    ours.append(times);
                    traffic += counted;
                }
            }
            team.barrier()?;
        }
        let mut row = Row::new(self.key, self.operation, ours.summary());
        if self.before != Before::Here {
            row = row.over(format!("{REQUEST_BYTES} B -> 4 KiB"), raw.summary());
        }
        row.counts = Some(traffic.per((rounds - 1) * BATCH));
        team.report(row);
        Ok(())
    }

    fn prepare(&self, team: &Team, pool: &Pool) -> Result<()> {
        kept_by_node_0(team, pool)?;
        // A second writer: its release takes all copies away, and the home is up to date.
        by_home(team, || pool.store_all())?;
        if self.before == Before::Single {
            by_home(team, || pool.store_all())?;
        }
        Ok(())
    }

    fn access_all(&self, team: &Team, pool: &Pool) -> (Samples, Traffic) {
        if self.before == Before::Here {
            pool.load_all();
        }
        let before = Traffic::settled(team.runtime);
        let times = pool.starts.iter().map(|&start| self.access.timed(start)).collect();
        (times, Traffic::so_far(team.runtime) - before)
    }
}

/// The home does its work between two barriers, which are releases.
fn by_home(team: &Team, work: impl FnOnce()) -> Result<()> {
    if team.me == HOME {
        work();
    }
    team.barrier()
}

/// Node 0 alone has copies: it wrote them, a reader made the home take the contents (1WINV), and
/// its next write asks nobody.
fn kept_by_node_0(team: &Team, pool: &Pool) -> Result<()> {
    team.barrier()?;
    by_home(team, || pool.load_all())?;
    if team.measures() {
        pool.store_all();
    }
    team.barrier()
}

/// Which other nodes have the page that node 0 releases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Nobody: node 0 becomes its single writer.
    Nobody,
    /// The home reads it.
    Reader,
    /// The nodes from 1 up to this one write it.
    Writers(usize),
}

/// Releases of one page by one and more writers, up to all nodes.
pub(super) fn releases(team: &mut Team, nodes: usize) -> Result<()> {
    let pool = Pool::of_pages(team, "writers", BATCH, Consistency::EagerRelease)?;
    release(team, &pool, Others::Nobody)?;
    release(team, &pool, Others::Reader)?;
    (2..=nodes).try_for_each(|writers| release(team, &pool, Others::Writers(writers)))
}

fn release(team: &mut Team, pool: &Pool, others: Others) -> Result<()> {
    let (mut ours, mut raw, mut traffic) =
        (Samples::default(), Samples::default(), Traffic::default());
    let rounds = rounds(team);
    for round in 0..rounds {
        let gate = Gate::new(team)?;
        gate.close(team)?;
        kept_by_node_0(team, pool)?;
        match others {
            Others::Reader if team.me == HOME => pool.load_all(),
            Others::Writers(writers) if (1..writers).contains(&team.me) => {
                // A word of its own, which is another than before.
                let word = team.me * size_of::<u64>();
                pool.starts.iter().for_each(|&start| store(start + word, round as u64 + 1));
            }
            Others::Nobody | Others::Reader | Others::Writers(_) => {}
        }
        let floor = team.meet(BATCH)?;
        let (times, counted) = one_by_one(team, pool, &gate)?;
        let counted = team.counts_of(HOME, counted.words()).map(Traffic::from_words)?;
        if round > 0 {
            raw.append(floor);
            ours.append(times);
            traffic += counted;
        }
    }
    let (key, operation) = others.names();
    let mut row = Row::new(key, operation, ours.summary());
    row = row.over(format!("{MESSAGE_BYTES} B from and to each"), raw.summary());
    row.counts = Some(traffic.per((rounds - 1) * BATCH));
    team.report(row);
    Ok(())
}

impl Others {
    fn names(self) -> (String, String) {
        match self {
            Self::Nobody => (
                "eager-release-single".to_owned(),
                "release, eager: single-writer transition".to_owned(),
            ),
            Self::Reader => (
                "eager-release-1".to_owned(),
                "release, eager, 1 writer, the home reads".to_owned(),
            ),
            Self::Writers(writers) => {
                (format!("eager-release-{writers}"), format!("release, eager, {writers} writers"))
            }
        }
    }
}

/// Node 0 releases page by page; the others wait at the gate, and serve there.
fn one_by_one(team: &Team, pool: &Pool, gate: &Gate) -> Result<(Samples, Traffic)> {
    let before = Traffic::so_far(team.runtime);
    team.meet(1)?;
    if !team.measures() {
        gate.pass(team)?;
        return Ok((Samples::default(), Traffic::so_far(team.runtime) - before - Gate::TRAFFIC));
    }
    let one = |&start: &usize| {
        store(start, 9);
        let mut done = Ok(());
        let time = timed(|| done = team.runtime.release());
        done?;
        Ok(time)
    };
    let times = pool.starts.iter().map(one).collect::<Result<_>>()?;
    gate.open(team)?;
    Ok((times, Traffic::default()))
}

/// Locks that node 0 holds, one for every other node to wait for: to wait in a barrier would be a
/// release.
struct Gate(Vec<u32>);

impl Gate {
    /// A lock asked for, and got.
    const TRAFFIC: Traffic = Traffic { frames: 2, payload: 0, invalidations: 0 };

    /// Node 0 manages the locks.
    fn new(team: &Team) -> Result<Self> {
        let nodes = u32::try_from(team.nodes)?;
        Ok(Self((1..nodes).map(|node| (1000 + node) * nodes).collect()))
    }

    fn close(&self, team: &Team) -> Result<()> {
        if !team.measures() {
            return Ok(());
        }
        Ok(self.0.iter().try_for_each(|&id| team.runtime.lock(id))?)
    }

    fn open(&self, team: &Team) -> Result<()> {
        Ok(self.0.iter().try_for_each(|&id| team.runtime.unlock(id))?)
    }

    fn pass(&self, team: &Team) -> Result<()> {
        let id = self.0[team.me - 1];
        team.runtime.lock(id)?;
        Ok(team.runtime.unlock(id)?)
    }
}
