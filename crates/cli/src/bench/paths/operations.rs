//! The memory layer alone, by path (ParADE Table 1).
#![expect(
    unsafe_code,
    reason = "updates pages as the runtime does, and private memory as the floor"
)]

use super::{Way, median, table};
use crate::bench::clock::timed;
use crate::bench::samples::{Samples, Summary};
use anyhow::Result;
use core::ffi::c_void;
use multigrain_memory::{Area, Config, Memory, MemoryError, Shape, VIEWS_BASE};
use multigrain_types::{Access, AreaId, MinipageId, PAGE_BYTES};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use serde::Serialize;

/// ParADE's larger size.
pub(super) const BYTES: usize = 64 << 20;
const PAGES: u32 = 256;

/// The operations of a path, or of private memory.
#[derive(Debug, Default, Serialize)]
pub(super) struct Costs {
    /// The memory is made and mapped twice.
    make: Summary,
    /// A page gets its first contents, and then others.
    first_copy: Summary,
    copy: Summary,
    /// Threads get access to a page, and lose it.
    open: Summary,
    close: Summary,
    /// It is unmapped.
    end: Summary,
}

impl Costs {
    /// New contents of a page, and threads that see them.
    fn update_us(&self) -> f64 {
        self.copy.median_us + self.open.median_us
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Operations {
    floor: Costs,
    ways: Vec<(Way, Costs)>,
}

#[derive(Debug, Default)]
struct Times {
    make: Samples,
    first_copy: Samples,
    copy: Samples,
    open: Samples,
    close: Samples,
    end: Samples,
}

impl Times {
    fn costs(&self) -> Costs {
        Costs {
            make: self.make.summary(),
            first_copy: self.first_copy.summary(),
            copy: self.copy.summary(),
            open: self.open.summary(),
            close: self.close.summary(),
            end: self.end.summary(),
        }
    }
}

/// Memory of this way, with an area of all of these bytes that nobody may access; with none, nothing is mapped twice.
pub(super) fn made(way: Way, bytes: usize) -> core::result::Result<Memory, MemoryError> {
    let whole = bytes.max(PAGE_BYTES) as u64;
    let memory = Memory::new(&Config { path: way.path, ..Config::new(whole, way.choice()) })?;
    if bytes > 0 {
        let (id, base) = (AreaId(0), VIEWS_BASE);
        let (bytes, shape) = (bytes as u64, Shape::Pages { pages: 1 });
        memory.map_area(Area { id, base, file_offset: 0, bytes, shape }, false)?;
    }
    Ok(memory)
}

pub(super) fn measure(ways: &[Way], quick: bool) -> Result<Operations> {
    let rounds = if quick { 2 } else { 20 };
    let mut floor = Times::default();
    let mut times: Vec<Times> = ways.iter().map(|_| Times::default()).collect();
    // In turn: the machine's speed drifts.
    for _ in 0..rounds {
        private(&mut floor)?;
        for (&way, times) in ways.iter().zip(&mut times) {
            of_way(way, times)?;
        }
    }
    let costs = times.iter().map(Times::costs);
    Ok(Operations { floor: floor.costs(), ways: ways.iter().copied().zip(costs).collect() })
}

fn of_way(way: Way, times: &mut Times) -> Result<()> {
    let contents = [7_u8; PAGE_BYTES];
    let mut memory = None;
    times.make.push(timed(|| memory = Some(made(way, BYTES))));
    let Some(memory) = memory else { return Ok(()) };
    let memory = memory?;
    for first in [true, false] {
        for index in 0..PAGES {
            let minipage = MinipageId::new(AreaId(0), index);
            let (page, _) = memory.privileged(minipage);
            // SAFETY: a page of the privileged view, which nobody else accesses.
            let copy = || unsafe { page.copy_from_nonoverlapping(contents.as_ptr(), PAGE_BYTES) };
            let copied = timed(copy);
            if first {
                times.first_copy.push(copied);
                continue;
            }
            times.copy.push(copied);
            let mut done = [Ok(()), Ok(())];
            let (none, read) = (Access::NoAccess, Access::ReadOnly);
            times.open.push(timed(|| done[0] = memory.protect(minipage, none, read)));
            times.close.push(timed(|| done[1] = memory.protect(minipage, read, none)));
            done.into_iter().collect::<core::result::Result<(), _>>()?;
        }
    }
    times.end.push(timed(|| drop(memory)));
    Ok(())
}

/// The same on private memory, mapped once, and with a page in a mapping of its own, so that nothing is split.
fn private(times: &mut Times) -> Result<()> {
    let contents = [7_u8; PAGE_BYTES];
    let (protection, nowhere) = (ProtFlags::READ | ProtFlags::WRITE, core::ptr::null_mut());
    // SAFETY: the kernel picks the address, so no memory in use is replaced.
    let map = |bytes| unsafe { mmap_anonymous(nowhere, bytes, protection, MapFlags::PRIVATE) };
    let mut all = Ok(nowhere);
    times.make.push(timed(|| all = map(BYTES)));
    let (all, one) = (all?, map(PAGE_BYTES)?);
    for first in [true, false] {
        for index in 0..PAGES as usize {
            let page = all.cast::<u8>().wrapping_add(index * PAGE_BYTES);
            // SAFETY: a page of the mapping above.
            let copy = || unsafe { page.copy_from_nonoverlapping(contents.as_ptr(), PAGE_BYTES) };
            let copied = timed(copy);
            if first {
                times.first_copy.push(copied);
                continue;
            }
            times.copy.push(copied);
            times.open.push(changed(one, MprotectFlags::READ)?);
            times.close.push(changed(one, MprotectFlags::empty())?);
        }
    }
    let mut ended = Ok(());
    // SAFETY: mapped above, and nobody accesses it any more.
    times.end.push(timed(|| ended = unsafe { munmap(all, BYTES) }));
    ended?;
    // SAFETY: as above.
    Ok(unsafe { munmap(one, PAGE_BYTES) }?)
}

fn changed(page: *mut c_void, to: MprotectFlags) -> Result<f64> {
    let mut done = Ok(());
    // SAFETY: nobody accesses the page.
    let time = timed(|| done = unsafe { mprotect(page, PAGE_BYTES, to) });
    done?;
    Ok(time)
}

impl Operations {
    pub(super) fn text(&self) -> String {
        let row = |names: [&str; 2], costs: &Costs| {
            let cells =
                [costs.make, costs.first_copy, costs.copy, costs.open, costs.close, costs.end];
            let times = cells.into_iter().map(median);
            let ratio = format!("{:.2}", costs.update_us() / self.floor.update_us());
            names.map(str::to_owned).into_iter().chain(times).chain([ratio]).collect()
        };
        let floor = row(["private memory", "mprotect"], &self.floor);
        let ways = self.ways.iter().map(|(way, costs)| row([way.path.name(), way.guard], costs));
        let heads =
            ["path", "guard", "make", "first copy", "copy", "open", "close", "end", "update/floor"];
        format!(
            "Operations by path, us, medians: 64 MiB are made and end; a page of 4 KiB is copied, opened for reading and closed; an\n\
             update is a copy and an opening\n{}\n",
            table(heads, core::iter::once(floor).chain(ways))
        )
    }
}
