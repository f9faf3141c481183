//! The memory layer alone: traps, changes of protection, look-ups, diffs. One process, no job.
#![expect(unsafe_code, reason = "the floor is mprotect on a mapping of our own")]

use super::diffs;
use super::traps::{EmptyTrap, empty_segv};
use crate::bench::clock::{grouped, timed};
use crate::bench::row::{Report, Row};
use crate::bench::samples::Samples;
use anyhow::{Result, ensure};
use core::ffi::c_void;
use core::hint::black_box;
use multigrain_memory::{Area, Config, Memory, Shape, VIEWS_BASE};
use multigrain_types::{Access, AreaId, MinipageId, PAGE_BYTES};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

const PAGES: u32 = 256;
/// Minipages of the area that look-ups go through: a million of 128 bytes, 32 a page.
const MANY_PAGES: u64 = 31_250;
const LOOKUPS: usize = 4096;

/// Measures all rows.
pub(super) fn measure(samples: usize) -> Result<Report> {
    let guard = multigrain_runtime::Config::from_environment()?.memory.guard;
    let memory = Memory::new(&Config::new(1 << 30, guard))?;
    let pages = area(0, VIEWS_BASE, 0, PAGES.into(), Shape::Pages { pages: 1 });
    memory.map_area(pages, false)?;
    let mut rows = vec![trap(&memory, &pages, samples)?];
    rows.extend(transitions(&memory, samples)?);
    rows.push(lookup(&memory, samples)?);
    rows.extend(diffs::measure(samples)?);
    Ok(Report { guard: memory.guard_note().to_owned(), rows })
}

fn area(id: u32, base: usize, file_offset: u64, pages: u64, shape: Shape) -> Area {
    Area { id: AreaId(id), base, file_offset, bytes: pages * PAGE_BYTES as u64, shape }
}

fn trap(memory: &Memory, pages: &Area, samples: usize) -> Result<Row> {
    const TURN: usize = 100;
    let plain = empty_segv()?;
    let guarded = EmptyTrap::at(pages.base, memory.signal())?;
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..samples.div_ceil(TURN) {
        floor.append(plain.time(TURN));
        ours.append(guarded.time(TURN));
    }
    let row = Row::new("access-fault", "access fault, the trap alone", ours.summary());
    Ok(row.over("empty SIGSEGV trap", floor.summary()))
}

/// Every change of protection there is, in turn over all pages.
fn transitions(memory: &Memory, samples: usize) -> Result<Vec<Row>> {
    use Access::{NoAccess, ReadOnly, ReadWrite};
    let cycle = [
        (NoAccess, ReadOnly, "set-protection-none-read", "set protection none -> read"),
        (ReadOnly, ReadWrite, "set-protection-read-write", "set protection read -> write"),
        (ReadWrite, ReadOnly, "set-protection-write-read", "set protection write -> read"),
        (ReadOnly, NoAccess, "set-protection-read-none", "set protection read -> none"),
    ];
    let mut ours = [const { Samples::new() }; 4];
    let mut floor = [const { Samples::new() }; 4];
    let rounds = (samples / PAGES as usize).max(1);
    let page = OwnPage::new()?;
    // The first round allocates the pages.
    for round in 0..=rounds {
        for (step, &(from, to, ..)) in cycle.iter().enumerate() {
            let plain = page.time(to)?;
            let mut times = Samples::default();
            for index in 0..PAGES {
                let minipage = MinipageId::new(AreaId(0), index);
                let mut done = Ok(());
                times.push(timed(|| done = memory.protect(minipage, from, to)));
                done?;
            }
            if round > 0 {
                ours[step].append(times);
                floor[step].push(plain);
            }
        }
    }
    let rows = cycle.iter().zip(ours.iter().zip(&floor));
    Ok(rows
        .map(|(&(_, _, key, operation), (ours, floor))| {
            Row::new(key, operation, ours.summary()).over("mprotect, one page", floor.summary())
        })
        .collect())
}

/// A page in a mapping of its own, so that mprotect has nothing to split.
struct OwnPage(*mut c_void);

impl OwnPage {
    fn new() -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (nowhere, flags) = (core::ptr::null_mut(), MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let page = unsafe { mmap_anonymous(nowhere, PAGE_BYTES, protection, flags) }?;
        Ok(Self(page))
    }

    /// The time of one change to `access`, nanoseconds; the previous one differs from it.
    fn time(&self, access: Access) -> Result<f64> {
        let flags = match access {
            Access::NoAccess => MprotectFlags::empty(),
            Access::ReadOnly => MprotectFlags::READ,
            Access::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        let mut done = Ok(());
        // SAFETY: nobody accesses the page.
        let time = timed(|| done = unsafe { mprotect(self.0, PAGE_BYTES, flags) });
        done?;
        Ok(time)
    }
}

/// Address to minipage, random addresses in a million minipages.
fn lookup(memory: &Memory, samples: usize) -> Result<Row> {
    const GROUP: usize = 128;
    let shape = Shape::Sub { slot: 128, per_page: 32 };
    let many = area(1, VIEWS_BASE + (1 << 30), 1 << 29, MANY_PAGES, shape);
    memory.map_area(many, false)?;
    let mut state = 1_u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let count = many.minipages();
    let indices: Vec<usize> = (0..LOOKUPS)
        .map(|_| usize::try_from(random() % u64::from(count)))
        .collect::<Result<_, _>>()?;
    let addresses: Vec<usize> = indices
        .iter()
        .map(|&index| Ok(many.address(u32::try_from(index)?)))
        .collect::<Result<_>>()?;
    for (&address, &index) in addresses.iter().zip(&indices) {
        let found = memory.translate(address).map(|minipage| minipage.index() as usize);
        ensure!(found == Some(index), "the look-up of {address:#x} found {found:?}, not {index}");
    }
    let table: Vec<u32> = (0..count).collect();
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    let groups = 16;
    for _ in 0..samples.div_ceil(groups) {
        floor.append(grouped(groups, GROUP, |i| {
            black_box(table[black_box(indices[i % LOOKUPS])]);
        }));
        ours.append(grouped(groups, GROUP, |i| {
            black_box(memory.translate(black_box(addresses[i % LOOKUPS])));
        }));
    }
    let row = Row::new("lookup", "MPT look-up, 1,000,000 minipages", ours.summary());
    Ok(row.over("a table of 4 MB", floor.summary()))
}
