//! Release consistency: fetches, upgrades and releases of both protocols.
//!
//! `eager`: MGS, with other nodes that read or write the same pages. `lazy`: home-based lazy release.
//! `bulk`: many dirty pages at once.
//!
//! Node 1 allocates, and so is the home; node 0 measures. What it costs in messages is taken from
//! the counters of a node that takes part in all of them, while it does nothing else.

mod bulk;
mod eager;
mod lazy;

use super::NodeArgs;
use super::team::{TALLY_WORDS, Team};
use crate::bench::row::Counts;
use anyhow::Result;
use core::ops::{AddAssign, Sub};
use multigrain_runtime::Runtime;
use std::thread;
use std::time::Duration;

/// Pages of a round.
const BATCH: usize = 32;
/// What an acknowledged release of a word is held against: that many bytes there and back.
const MESSAGE_BYTES: usize = multigrain_transport::Header::BYTES;

pub(super) fn run(args: &NodeArgs) -> Result<()> {
    let mut team = Team::join(args)?;
    if team.nodes == 2 {
        eager::fetches(&mut team)?;
        eager::releases(&mut team, 2)?;
        lazy::measure(&mut team)?;
        bulk::measure(&mut team)?;
    } else {
        let most = team.nodes;
        eager::releases(&mut team, most)?;
    }
    team.finish()
}

/// Frames a node sent or received so far, their payload, and copies it lost.
#[derive(Clone, Copy, Default)]
struct Traffic {
    frames: u64,
    payload: u64,
    invalidations: u64,
}

impl Traffic {
    fn so_far(runtime: &Runtime) -> Self {
        const HEADER_BYTES: u64 = multigrain_transport::Header::BYTES as u64;
        let stats = runtime.stats();
        let frames = stats.messages_sent + stats.messages_received;
        Self {
            frames,
            payload: stats.bytes_sent + stats.bytes_received - HEADER_BYTES * frames,
            invalidations: stats.invalidations,
        }
    }

    /// When the others have come to the barrier in which they wait, which they say: nothing has
    /// arrived for a while.
    fn settled(runtime: &Runtime) -> Self {
        const WHILE: Duration = Duration::from_millis(1);
        loop {
            let now = Self::so_far(runtime);
            thread::sleep(WHILE);
            if Self::so_far(runtime).frames == now.frames {
                return now;
            }
        }
    }

    fn words(self) -> [u64; TALLY_WORDS] {
        [self.frames, self.payload, self.invalidations, 0]
    }

    fn from_words([frames, payload, invalidations, _]: [u64; TALLY_WORDS]) -> Self {
        Self { frames, payload, invalidations }
    }

    fn per(self, operations: usize) -> Counts {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let share = |count: u64| count as f64 / operations.max(1) as f64;
        Counts {
            messages: share(self.frames),
            page_bytes: share(self.payload),
            invalidations: share(self.invalidations),
            notices: 0.0,
        }
    }
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            frames: self.frames - before.frames,
            payload: self.payload - before.payload,
            invalidations: self.invalidations - before.invalidations,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        self.frames += more.frames;
        self.payload += more.payload;
        self.invalidations += more.invalidations;
    }
}

/// Rounds for the samples asked for, one more to bring copies to where they belong.
fn rounds(team: &Team) -> usize {
    (team.samples / BATCH).max(1) + 1
}
