//! A job of one node: operations without a message.
#![expect(unsafe_code, reason = "takes page table entries away behind the runtime's back")]

use super::team::Team;
use super::traps::{self, EmptyTrap};
use super::{NodeArgs, alloc, sync};
use crate::bench::clock::{grouped, load, store, timed};
use crate::bench::row::Row;
use crate::bench::samples::Samples;
use anyhow::Result;
use core::ffi::c_void;
use multigrain_memory::GuardKind;
use multigrain_protocol::Kind;
use multigrain_types::PAGE_BYTES;
use rustix::mm::{Advice, MprotectFlags, madvise, mprotect};

pub(super) fn run(args: &NodeArgs) -> Result<()> {
    // First, so that a runtime that guards with the same signal hands these traps on.
    let empty = traps::empty_segv()?;
    let mut team = Team::join(args)?;
    fault(&mut team, &empty)?;
    state(&mut team)?;
    alloc::measure(&mut team)?;
    sync::cached(&mut team, 7)?;
    sync::barriers(&mut team, 1..=1)?;
    team.finish()
}

/// A trap on a page whose state allows the access: trap, look-up, protocol step, mapping, return.
fn fault(team: &mut Team, empty: &EmptyTrap) -> Result<()> {
    const PAGES: usize = 256;
    let base = team.runtime.malloc_grain(PAGES * PAGE_BYTES, PAGE_BYTES)?;
    let pages: Vec<usize> = (0..PAGES).map(|page| base + page * PAGE_BYTES).collect();
    pages.iter().for_each(|&page| store(page, 1));
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..(team.samples / PAGES).max(1) {
        floor.append(empty.time(PAGES));
        for &page in &pages {
            hide(page, team.runtime.guard())?;
            ours.push(timed(|| {
                load(page);
            }));
        }
    }
    let row = Row::new("fault-local", "access fault, answered here", ours.summary());
    team.report(row.over("empty SIGSEGV trap", floor.summary()));
    Ok(())
}

/// The next access of the page traps.
fn hide(page: usize, guard: GuardKind) -> Result<()> {
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(page);
    match guard {
        // SAFETY: drops the entry of a view of ours; the bytes stay in the shared object.
        GuardKind::Uffd => unsafe { madvise(start, PAGE_BYTES, Advice::LinuxDontNeed) }?,
        // SAFETY: a page of ours, which the runtime's handler opens again.
        GuardKind::Mprotect => unsafe { mprotect(start, PAGE_BYTES, MprotectFlags::empty()) }?,
    }
    Ok(())
}

/// Millipage's "get protection": which access this node has.
fn state(team: &mut Team) -> Result<()> {
    const GROUP: usize = 100;
    let place = team.runtime.malloc(128)?;
    store(place, 1);
    let mut result = Ok(());
    let times = grouped(team.samples, GROUP, |_| {
        let done = team.runtime.touch(place, 1, Kind::Read);
        if done.is_err() {
            result = done;
        }
    });
    result?;
    team.report(Row::new("get-protection", "get protection (state table)", times.summary()));
    Ok(())
}
