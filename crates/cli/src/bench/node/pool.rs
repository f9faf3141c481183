//! A pool of minipages to measure with.

use super::team::Team;
use crate::bench::clock::{load, store};
use anyhow::Result;
use multigrain_runtime::Policy;
use multigrain_types::{Consistency, PAGE_BYTES};

/// Minipages of equal size; node 1 allocated them and is their manager.
pub(super) struct Pool {
    pub(super) bytes: usize,
    pub(super) starts: Vec<usize>,
}

/// The node that allocates, and so manages.
const OWNER: usize = 1;

impl Pool {
    /// `count` minipages of `bytes` each; all nodes call it.
    pub(super) fn new(team: &Team, name: &str, count: usize, bytes: usize) -> Result<Self> {
        Self::some_of(team, name, count, bytes, count)
    }

    /// As [`Pool::new`], but keeps `some` of the minipages, evenly spread.
    pub(super) fn some_of(
        team: &Team,
        name: &str,
        count: usize,
        bytes: usize,
        some: usize,
    ) -> Result<Self> {
        let runtime = team.runtime;
        let is_array = bytes < PAGE_BYTES;
        if team.me == OWNER {
            let base = if is_array {
                runtime.malloc_array(count, bytes)?
            } else {
                runtime.malloc_grain(count * bytes, bytes)?
            };
            runtime.publish(name.as_bytes(), base)?;
        }
        let base = runtime.lookup(name.as_bytes())?;
        let start = |number: usize| {
            let index = number * (count / some);
            if is_array { runtime.element(base, index) } else { Ok(base + index * bytes) }
        };
        let starts = (0..some).map(start).collect::<Result<_, _>>()?;
        Ok(Self { bytes, starts })
    }

    /// `count` pages of a consistency, each a minipage; all nodes call it.
    pub(super) fn of_pages(
        team: &Team,
        name: &str,
        count: usize,
        consistency: Consistency,
    ) -> Result<Self> {
        if team.me == OWNER {
            let policy = Policy::new().consistency(consistency).grain(PAGE_BYTES);
            let base = team.runtime.malloc_with(count * PAGE_BYTES, policy)?;
            team.runtime.publish(name.as_bytes(), base)?;
        }
        let base = team.runtime.lookup(name.as_bytes())?;
        let starts = (0..count).map(|page| base + page * PAGE_BYTES).collect();
        Ok(Self { bytes: PAGE_BYTES, starts })
    }

    /// The size of the transfers, which for small minipages is that of their slot.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Reads a word of every minipage.
    pub(super) fn load_all(&self) {
        self.starts.iter().for_each(|&start| {
            load(start);
        });
    }

    /// Writes a word of every minipage.
    pub(super) fn store_all(&self) {
        self.starts.iter().for_each(|&start| store(start, 7));
    }
}
