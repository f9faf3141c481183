//! Prefetch: what the program asks for (prefetch, push, touch), what a node fetched in earlier intervals
//! ([`history`]), what comes next in an array that a thread scans ([`streams`]), the neighbours of what it reads
//! ([`spatial`]), and write access for what it reads and then writes ([`migratory`]).

mod history;
mod migratory;
mod spatial;
mod streams;

use core::ops::Range;

use multigrain_memory::{GROUP_PAGES, Shape};
use multigrain_protocol::{Cell, Input, Kind};
use multigrain_types::{Access, MinipageId, ThreadId};

use crate::area::AreaRecord;
use crate::driver::Driver;
use crate::driver::fetch::{For, Wanted};
use crate::error::Error;
use crate::heap::Heap;
use crate::minipage_run::{MAX_RUN, MAX_RUN_BYTES, Run};
use crate::receiver::critical_section;
use crate::receiver::slots::Slot;
use crate::shim::{Mutex, lock};
use crate::time_windows::now_ns;
use history::AccessHistory;
use migratory::Migratory;
use streams::Streams;

/// What moves copies ahead of time. A wrong guess costs messages, and may take a minipage from
/// a node that still writes it; what any access reads stays the same.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    /// Whether anything is fetched that nobody asked for.
    learns: bool,
    history: Mutex<AccessHistory>,
    migratory: Mutex<Migratory>,
}

impl Prefetcher {
    pub(crate) fn new(learns: bool) -> Self {
        Self { learns, history: Mutex::default(), migratory: Mutex::default() }
    }

    /// A thread of this node had to fetch.
    pub(crate) fn note(&self, minipage: MinipageId, kind: Kind) {
        if self.learns {
            lock(&self.history).note(minipage, kind);
        }
    }

    /// Gets a thread the access it needs, and what is likely to be needed next; true if no message was
    /// needed.
    pub(crate) fn fetch(
        &self,
        driver: &Driver,
        (thread, slot): (ThreadId, &Slot),
        minipage: MinipageId,
        kind: Kind,
        for_: For,
    ) -> bool {
        let learns = self.learns && matches!(for_, For::Instruction { .. });
        if learns && kind == Kind::Write && open_ahead(driver, minipage) {
            return driver.fetch(
                (thread, slot),
                Wanted::Run(Run::one(minipage), minipage),
                kind,
                for_,
            );
        }
        let reads = self.learns && kind == Kind::Read;
        if let Some(page) = reads.then(|| spatial::page_of(driver.tables(), minipage)).flatten() {
            return spatial::fetch(driver, (thread, slot), minipage, &page, for_);
        }
        let (run, wanted) = match learns {
            true => scanned(driver, minipage, kind),
            false => (Run::one(minipage), kind),
        };
        let alone = run.count() == 1 && wanted == kind;
        if alone && for_.is_first_try() && self.is_migratory(driver, minipage, kind) {
            let at_once =
                driver.fetch((thread, slot), Wanted::Run(run, minipage), Kind::Write, for_);
            if let Some(checksum) = driver.platform().checksum(minipage) {
                lock(&self.migratory).came(minipage, checksum);
            }
            return at_once;
        }
        driver.fetch((thread, slot), Wanted::Run(run, minipage), wanted, for_)
    }

    /// Whether a minipage that a thread needs for `kind` is to be fetched to write though it reads.
    fn is_migratory(&self, driver: &Driver, minipage: MinipageId, kind: Kind) -> bool {
        if !self.learns || !critical_section::is_critical() || driver.races().are_checked() {
            return false;
        }
        let access = {
            let mut cell = driver.tables().lock(minipage);
            if !cell.consistency().is_sequential() || cell.holder().is_fetching() {
                return false;
            }
            cell.access()
        };
        let checksum = || driver.platform().checksum(minipage);
        lock(&self.migratory).need(minipage, (kind, access), checksum)
    }

    /// A thread has passed a barrier. `first`: of those of this node that pass it together, one looks
    /// ahead for the node.
    pub(crate) fn pass_barrier(&self, driver: &Driver, thread: ThreadId, slot: &Slot, first: bool) {
        spatial::forget(slot);
        Streams::forget();
        critical_section::pass_barrier();
        if first && self.learns {
            let candidates = lock(&self.history).end_interval();
            driver.forget_access();
            self.obtain(driver, (thread, slot), &candidates, |_| For::Later);
        }
    }

    /// Asks for copies of the minipages in `bytes` from `address`, without waiting for them (Millipage
    /// 4.3.1, the prefetch calls of LU).
    ///
    /// # Errors
    /// As [`Prefetcher::touch`].
    pub(crate) fn prefetch(
        driver: &Driver,
        address: usize,
        bytes: usize,
        kind: Kind,
    ) -> Result<(), Error> {
        each_run(driver, address, bytes, kind, |run| {
            driver.step_run(run, |minipage| Input::Prefetch { minipage, kind });
            driver.apply_back_pressure_to_all();
        })
    }

    /// Hands read copies of the minipages to every node (Millipage 4.3.1, TSP), without waiting
    /// for them.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for a range that ends beyond its allocation.
    pub(crate) fn push(driver: &Driver, address: usize, bytes: usize) -> Result<(), Error> {
        each_run(driver, address, bytes, Kind::Read, |run| {
            driver.step_run(run, |minipage| Input::Push { minipage });
            driver.apply_back_pressure_to_all();
        })
    }

    /// Returns once this node has held every minipage for `kind` of access: what a system call
    /// needs, for the kernel does not trap but fails.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for a range that ends beyond its allocation; [`Error::Denied`] in a
    /// segment that this node is not attached to, or only to read where that is not enough.
    pub(crate) fn touch(
        &self,
        driver: &Driver,
        address: usize,
        bytes: usize,
        kind: Kind,
    ) -> Result<(), Error> {
        let mut candidates = Vec::new();
        each_run(driver, address, bytes, kind, |run| {
            candidates.extend(run.minipages().map(|minipage| (minipage, kind)));
        })?;
        // A thread that waits for nothing keeps its turn (ADR 17).
        if candidates.iter().all(|&wanted| is_here(driver, wanted)) {
            return Ok(());
        }
        let (thread, slot) = driver.my_slot()?;
        let since_ns = now_ns();
        self.obtain(driver, (thread, slot), &candidates, |kind| For::Call { since_ns, kind });
        Ok(())
    }

    /// Asks for all of these at once, then waits for each.
    fn obtain(
        &self,
        driver: &Driver,
        (thread, slot): (ThreadId, &Slot),
        candidates: &[(MinipageId, Kind)],
        for_: impl Fn(Kind) -> For,
    ) {
        // What a node remembers may have been freed since.
        let is_there =
            |(minipage, _): &&(MinipageId, Kind)| driver.memory().area(minipage.area()).is_some();
        let candidates: Vec<_> = candidates.iter().filter(is_there).copied().collect();
        // One alone is asked for by the thread that waits for it.
        let mut rest = if candidates.len() > 1 { candidates.as_slice() } else { &[] };
        driver.batch(|batch| {
            while let Some(&(first, kind)) = rest.first() {
                let most = may_go_together(driver, first).from;
                let mut run = Run::one(first);
                while let Some(&(next, same)) = rest.get(run.count() as usize)
                    && same == kind
                    && run.count() < most
                    && let Some(longer) = run.with(next)
                {
                    run = longer;
                }
                match run.count() {
                    1 => batch.step(Input::Prefetch { minipage: first, kind }),
                    _ => driver.step_run(run, |minipage| Input::Prefetch { minipage, kind }),
                }
                rest = &rest[run.count() as usize..];
            }
        });
        for (minipage, kind) in candidates {
            if !is_here(driver, (minipage, kind)) {
                self.fetch(driver, (thread, slot), minipage, kind, for_(kind));
            }
        }
    }
}

/// Whether this node has a minipage that exists for a kind of access.
fn is_here(driver: &Driver, (minipage, kind): (MinipageId, Kind)) -> bool {
    // A watched minipage may be closed though its engine has access.
    if driver.races().are_checked() || driver.memory().area(minipage.area()).is_none() {
        return false;
    }
    match (kind, driver.tables().lock(minipage).access()) {
        (Kind::Read, Access::ReadOnly) | (_, Access::ReadWrite) => true,
        (Kind::Write, Access::ReadOnly) | (_, Access::NoAccess) => false,
    }
}

/// What a thread gets that needs a minipage, and what for: those behind it, or before it, too, if it scans.
fn scanned(driver: &Driver, minipage: MinipageId, kind: Kind) -> (Run, Kind) {
    let most = may_go_together(driver, minipage);
    if most == Reach::ALONE {
        return (Run::one(minipage), kind);
    }
    let alone = driver.tables().consistency_of(minipage).is_sequential();
    Streams::need(minipage, kind, most, alone)
}

/// A thread is about to write a minipage: what else this node is likely to write is opened with it, for it was written
/// before, or came ahead with this one in a scan that writes; true for the latter.
/// Not while it holds a lock: what is opened there is closed too soon.
fn open_ahead(driver: &Driver, minipage: MinipageId) -> bool {
    let lazy = driver.tables().consistency_of(minipage).is_lazy();
    if !lazy || critical_section::has_lock() || driver.races().are_checked() {
        return false;
    }
    let open = |run| driver.step_run(run, |minipage| Input::OpenAhead { minipage });
    driver.engine().writes().trapped(minipage).into_iter().for_each(open);
    let ahead = Streams::got_ahead(minipage);
    ahead.flatten().into_iter().for_each(open);
    ahead.is_some()
}

/// How many minipages may be asked for at once with one of them, that one counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    /// From it on.
    from: u32,
    /// Up to it.
    up_to: u32,
}

impl Reach {
    /// A run is not possible.
    const ALONE: Self = Self { from: 1, up_to: 1 };
}

/// How many minipages from this one on, or up to this one, may be asked for at once.
fn may_go_together(driver: &Driver, minipage: MinipageId) -> Reach {
    let Some(area) = driver.memory().area(minipage.area()) else { return Reach::ALONE };
    // With races checked each access is a matter of its own.
    if driver.races().are_checked() {
        return Reach::ALONE;
    }
    let by_bytes = MAX_RUN_BYTES / area.minipage_bytes(minipage.index()).max(1);
    let most = u32::try_from(by_bytes).unwrap_or(MAX_RUN).min(MAX_RUN);
    let (index, together) = (minipage.index(), in_use_together(driver, minipage));
    Reach {
        from: together.end.saturating_sub(index).min(most).max(1),
        up_to: (index + 1).saturating_sub(together.start).min(most).max(1),
    }
}

/// Minipages around this one that are handed out by its owner, or made ready for that, if this one is. What lies
/// behind may not be: its owner will open it without asking anybody.
fn in_use_together(driver: &Driver, minipage: MinipageId) -> Range<u32> {
    let index = minipage.index();
    let Some(states) = driver.tables().area(minipage.area()) else { return index..index + 1 };
    let AreaRecord { area, items, .. } = states.record;
    let group = match area.shape {
        _ if items.array || items.count == 1 => return 0..area.minipages(),
        Shape::Sub { per_page, .. } => GROUP_PAGES * u32::from(per_page),
        Shape::Pages { .. } => u32::try_from(items.span(area.shape)).unwrap_or(u32::MAX).max(1),
    };
    let start = index / group * group;
    start..start.saturating_add(group).min(area.minipages())
}

/// The minipages in `bytes` from `address`, as many at a time as go together.
fn each_run(
    driver: &Driver,
    address: usize,
    bytes: usize,
    kind: Kind,
    mut act: impl FnMut(Run),
) -> Result<(), Error> {
    Heap::check_range(driver, address, bytes, kind)?;
    let mut minipages = driver.memory().translate_range(address, bytes).peekable();
    while let Some(first) = minipages.next() {
        let most = may_go_together(driver, first).from;
        let mut run = Run::one(first);
        while run.count() < most
            && let Some(longer) = minipages.peek().and_then(|&next| run.with(next))
        {
            run = longer;
            minipages.next();
        }
        act(run);
    }
    Ok(())
}
