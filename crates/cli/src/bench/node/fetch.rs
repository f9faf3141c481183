//! Fetches: the cost of a load or a store that finds no copy here, next to the raw round trip of the
//! same size.

use super::bare::Bare;
use super::pool::Pool;
use super::raw_sockets::REQUEST_BYTES;
use super::team::{Sums, Team};
use crate::bench::clock::{load, store, timed};
use crate::bench::row::{Row, size_name};
use crate::bench::samples::{Samples, median};
use anyhow::Result;
use std::thread;
use std::time::Duration;

/// What node 0 does to each minipage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
}

impl Access {
    /// The time it takes at a minipage, nanoseconds.
    pub(super) fn timed(self, start: usize) -> f64 {
        match self {
            Self::Load => timed(|| {
                load(start);
            }),
            Self::Store => timed(|| store(start, 1)),
        }
    }
}

/// The nodes that have copies before it. Node 1 is the manager always.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Node 1, writable.
    Manager,
    /// Node 1 and node 0, for reading: a store upgrades.
    Measurer,
    /// Node 1 and so many others for reading, but not node 0.
    Readers(usize),
    /// Node 2, writable; node 1 has none and forwards.
    Third,
}

/// What node 1's program does meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// Waits in a barrier, and so receives itself.
    Waiting,
    /// Sleeps; its service thread serves.
    Asleep,
    /// Computes without a pause; its service thread serves.
    Computing,
}

/// One row of the table.
pub(super) struct Fetch<'a> {
    pub(super) key: String,
    pub(super) operation: String,
    pub(super) pool: &'a Pool,
    pub(super) access: Access,
    pub(super) before: Before,
    pub(super) server: Server,
    pub(super) rounds: usize,
}

impl Fetch<'_> {
    /// Measures raw, ours, raw, ours, and reports.
    pub(super) fn measure(&self, team: &mut Team) -> Result<()> {
        self.measure_beside(team, None)
    }

    /// The same with the bare mechanism in turn, which is reported, too.
    pub(super) fn measure_beside(
        &self,
        team: &mut Team,
        mut bare: Option<&mut Bare>,
    ) -> Result<()> {
        let batch = self.pool.len();
        let reply = self.reply_bytes();
        let (mut ours, mut raw, mut sums) =
            (Samples::default(), Samples::default(), Sums::default());
        let mut alone = Samples::default();
        // The first touch of a page costs more; it has a row of its own.
        let warm_up = usize::from(self.rounds > 1);
        for round in 0..self.rounds + warm_up {
            self.prepare(team)?;
            let floor = match team.me {
                0 => team.raw.ask(1, batch, reply)?,
                1 => team.raw.serve(batch, reply).map(|()| Samples::default())?,
                _ => Samples::default(),
            };
            let mechanism = bare.as_mut().map(|bare| bare.turn()).transpose()?.unwrap_or_default();
            let (times, counted) = self.round(team)?;
            if round >= warm_up {
                alone.append(mechanism);
                raw.append(floor);
                ours.append(times);
                sums += counted;
            }
        }
        let (what, raw) = (format!("{REQUEST_BYTES} B -> {}", size_name(reply)), raw.summary());
        if bare.is_some() {
            let (key, operation) =
                (format!("bare-{}", self.key), format!("bare {}", self.operation));
            team.report(Row::new(key, operation, alone.summary()).over(&what, raw));
        }
        let mut row = Row::new(&self.key, &self.operation, ours.summary()).over(what, raw);
        row.counts = Some(sums.per(self.rounds * batch));
        row.memcpy_us = (self.before != Before::Measurer).then(|| memcpy_us(self.pool.bytes));
        team.report(row);
        Ok(())
    }

    /// An upgrade's answer has no page in it.
    fn reply_bytes(&self) -> usize {
        if self.before == Before::Measurer {
            multigrain_transport::Header::BYTES
        } else {
            self.pool.bytes
        }
    }

    fn prepare(&self, team: &Team) -> Result<()> {
        let (writer, readers) = match self.before {
            Before::Manager => (1, 0..0),
            Before::Measurer => (1, 0..1),
            Before::Readers(count) => (1, 2..2 + count),
            Before::Third => (2, 0..0),
        };
        team.barrier()?;
        if team.me == writer {
            self.pool.store_all();
        }
        team.barrier()?;
        if readers.contains(&team.me) {
            self.pool.load_all();
        }
        team.barrier()
    }

    fn round(&self, team: &Team) -> Result<(Samples, Sums)> {
        let sent_before = team.runtime.stats().page_bytes_sent;
        let last = sent_before + (self.pool.len() * self.pool.bytes) as u64;
        let all_sent = || team.runtime.stats().page_bytes_sent >= last;
        team.phase(|| {
            if team.measures() {
                return Ok(self.access_all());
            }
            match (team.me, self.server) {
                (1, Server::Asleep) => {
                    while !all_sent() {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                (1, Server::Computing) => compute_until(all_sent),
                (_, Server::Waiting | Server::Asleep | Server::Computing) => {}
            }
            Ok(Samples::default())
        })
    }

    fn access_all(&self) -> Samples {
        self.pool.starts.iter().map(|&start| self.access.timed(start)).collect()
    }
}

/// Full load on one core until `done`, which is asked every few microseconds.
fn compute_until(done: impl Fn() -> bool) {
    let mut number = 1_u64;
    while !done() {
        for _ in 0..10_000 {
            number = core::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
        }
    }
}

/// Median time to copy so many bytes out of a megabyte that is not in the nearest cache.
fn memcpy_us(bytes: usize) -> f64 {
    const SOURCE_BYTES: usize = 4 << 20;
    let source = vec![3_u8; SOURCE_BYTES];
    let mut target = vec![0_u8; bytes];
    let copies = (SOURCE_BYTES / bytes).min(2000);
    let times = (0..copies).map(|number| {
        let from = &source[number * bytes..][..bytes];
        timed(|| core::hint::black_box(&mut target).copy_from_slice(core::hint::black_box(from)))
    });
    median(times) / 1e3
}
