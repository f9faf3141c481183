//! Prefetch: what the program asks for (prefetch, push, touch), what a node fetched in earlier intervals
//! ([`history`]) or needed again whenever a barrier had taken it ([`refetch_history`]), what comes next in an array that a
//! thread scans ([`streams`]) or faults on in no order ([`dense_blocks`]), the neighbours of what it reads ([`spatial`]), and write access for what it reads and then writes ([`migratory`]).

mod block_faults;
mod dense_blocks;
mod history;
mod migratory;
mod page_scans;
mod refetch_history;
mod scans_of_threads;
mod spatial;
mod streams;

use core::ops::Range;

use multigrain_memory::{GROUP_PAGES, Shape};
use multigrain_protocol::{Cell, EngineKind, Input, Kind};
use multigrain_types::{Access, MinipageId, ThreadId};

use crate::area::AreaRecord;
use crate::driver::Driver;
use crate::driver::fetch::{For, Wanted};
use crate::driver::steps::Batch;
use crate::engine::Expected;
use crate::error::Error;
use crate::heap::Heap;
use crate::minipage_run::{MAX_RUN, MAX_RUN_BYTES, Run};
use crate::receiver::critical_section::{self, SectionLength};
use crate::receiver::slots::Slot;
use crate::shim::{Mutex, lock};
use crate::time_windows::now_ns;
use history::AccessHistory;
use migratory::Migratory;
use refetch_history::RefetchHistory;
use streams::Prediction;

/// What moves copies ahead of time. A wrong guess costs messages, and may take a minipage from
/// a node that still writes it; what any access reads stays the same.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    /// Whether anything is fetched that nobody asked for.
    learns: bool,
    history: Mutex<AccessHistory>,
    refetches: Mutex<RefetchHistory>,
    migratory: Mutex<Migratory>,
}

impl Prefetcher {
    pub(crate) fn new(learns: bool) -> Self {
        Self {
            learns,
            history: Mutex::default(),
            refetches: Mutex::default(),
            migratory: Mutex::default(),
        }
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
        let mut expected = Expected::default();
        if learns && kind == Kind::Write {
            let came_ahead;
            (came_ahead, expected) = open_ahead(driver, (thread, slot), minipage);
            if came_ahead {
                let alone = Wanted::Run(Run::one(minipage), minipage, None);
                return driver.fetch((thread, slot), alone, kind, for_);
            }
        }
        // What the history foresees, or a call has asked for with others, is no step of a scan. What another thread of this
        // node has asked for is.
        let scans = match for_ {
            For::Instruction { .. } => true,
            For::Call { .. } => !is_coming(driver, minipage),
            For::Later => false,
        };
        let reads = self.learns && kind == Kind::Read && scans && !driver.races().are_checked();
        if let Some(page) = reads.then(|| spatial::page_of(driver.tables(), minipage)).flatten() {
            return spatial::fetch(driver, (thread, slot), minipage, &page, for_);
        }
        let (prediction, wanted, ahead) = match learns {
            true => scanned(driver, (thread, slot), minipage, kind),
            false => (Prediction::Run(Run::one(minipage)), kind, None),
        };
        let run = match prediction {
            Prediction::Run(run) => run,
            Prediction::Strided { step, count } => {
                let mut ask_for_others = |batch: Batch<'_>| {
                    for steps in 1..=count {
                        let minipage = streams::beyond(minipage, step, steps);
                        batch.step(Input::Prefetch { minipage, kind: wanted });
                    }
                };
                let wants = Wanted::With(minipage, &mut ask_for_others);
                return driver.fetch((thread, slot), wants, wanted, for_);
            }
        };
        let alone = run.count() == 1 && wanted == kind && ahead.is_none();
        if alone && expected.fetched && !is_here(driver, (minipage, Kind::Read)) {
            return spatial::fetch_to_write(driver, (thread, slot), minipage, &expected.runs, for_);
        }
        if alone && for_.is_first_try() && self.is_migratory(driver, minipage, kind) {
            let at_once =
                driver.fetch((thread, slot), Wanted::Run(run, minipage, None), Kind::Write, for_);
            if let Some(checksum) = driver.platform().checksum(minipage) {
                lock(&self.migratory).came(minipage, checksum);
            }
            return at_once;
        }
        if !(alone && learns && for_.is_first_try()) {
            return driver.fetch((thread, slot), Wanted::Run(run, minipage, ahead), wanted, for_);
        }
        let block = dense_blocks::missing(driver, (thread, slot), minipage);
        let mut ask_for_block = |batch: Batch<'_>| {
            for &run in &block {
                let kind = Kind::Read;
                batch.step_run(run, |minipage| Input::Prefetch { minipage, kind });
            }
        };
        let wants = match block.is_empty() {
            true => Wanted::Run(run, minipage, ahead),
            false => Wanted::With(minipage, &mut ask_for_block),
        };
        let at_once = driver.fetch((thread, slot), wants, wanted, for_);
        if !at_once {
            dense_blocks::has_come(driver, (thread, slot), minipage);
        }
        at_once
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

    /// A thread has passed a barrier. `fetches`: of those of this node that pass it together, one looks
    /// ahead for the node.
    pub(crate) fn pass_barrier(
        &self,
        driver: &Driver,
        thread: ThreadId,
        slot: &Slot,
        fetches: bool,
    ) {
        scans_of_threads::forget((thread, slot));
        critical_section::pass_barrier();
        if fetches && self.learns {
            let mut candidates = lock(&self.history).end_interval();
            self.foresee_lost(driver, &mut candidates);
            driver.forget_access();
            self.obtain(driver, (thread, slot), &candidates, |_| For::Later);
        }
    }

    /// Adds what the barrier has just taken away, and is likely to be needed again.
    fn foresee_lost(&self, driver: &Driver, candidates: &mut Vec<(MinipageId, Kind)>) {
        if driver.races().are_checked() {
            return;
        }
        let lost = driver.engine().take_lost();
        let here = |minipage| is_here(driver, (minipage, Kind::Read));
        let again = lock(&self.refetches).end_interval(lost, here);
        let known = candidates.len();
        for minipage in again {
            if !candidates[..known].iter().any(|(other, _)| *other == minipage) {
                candidates.push((minipage, Kind::Read));
            }
        }
        // Neighbours are asked for together.
        candidates.sort_unstable();
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
    /// needs, for the kernel does not trap but fails. Whether another node was asked for any.
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
    ) -> Result<bool, Error> {
        let mut candidates = Vec::new();
        each_run(driver, address, bytes, kind, |run| {
            candidates.extend(run.minipages().map(|minipage| (minipage, kind)));
        })?;
        // A thread that waits for nothing keeps its turn (ADR 17).
        if candidates.iter().all(|&wanted| is_here(driver, wanted)) {
            return Ok(false);
        }
        let (thread, slot) = driver.my_slot()?;
        let since_ns = now_ns();
        Ok(self.obtain(driver, (thread, slot), &candidates, |kind| For::Call { since_ns, kind }))
    }

    /// Asks for all of these at once, then waits for each; whether it was for another node.
    fn obtain(
        &self,
        driver: &Driver,
        (thread, slot): (ThreadId, &Slot),
        candidates: &[(MinipageId, Kind)],
        for_: impl Fn(Kind) -> For,
    ) -> bool {
        // What a node remembers may have been freed since, or be in a segment that it has detached from.
        let is_there = |&&(minipage, kind): &&(MinipageId, Kind)| {
            driver.memory().limit(minipage.area()) >= kind.access()
        };
        let candidates: Vec<_> = candidates.iter().filter(is_there).copied().collect();
        // One alone is asked for by the thread that waits for it, and its request takes along what was deferred.
        if candidates.len() != 1 {
            ask_for_all(driver, &candidates);
        }
        let mut has_asked = false;
        for (minipage, kind) in candidates {
            if !is_here(driver, (minipage, kind)) {
                has_asked |= !self.fetch(driver, (thread, slot), minipage, kind, for_(kind));
            }
        }
        has_asked
    }
}

/// Asks for all of these, in as few frames as it can be; what was deferred goes, too.
fn ask_for_all(driver: &Driver, candidates: &[(MinipageId, Kind)]) {
    let mut rest = candidates;
    driver.batch(|batch| {
        while let Some(&(first, kind)) = rest.first() {
            let most = may_go_together(driver, first).steps(first.index(), 1);
            let mut run = Run::one(first);
            while let Some(&(next, same)) = rest.get(run.count() as usize)
                && same == kind
                && run.count() < most
                && let Some(longer) = run.with(next)
            {
                run = longer;
            }
            batch.step_run(run, |minipage| Input::Prefetch { minipage, kind });
            rest = &rest[run.count() as usize..];
        }
    });
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

/// What a thread gets that needs a minipage, and what for: those behind it, or before it, too, if it scans. And what is
/// read ahead.
fn scanned(
    driver: &Driver,
    of_thread: (ThreadId, &Slot),
    minipage: MinipageId,
    kind: Kind,
) -> (Prediction, Kind, Option<Run>) {
    let bounds = may_go_together(driver, minipage);
    let alone = Prediction::Run(Run::one(minipage));
    if bounds.most == 1 || bounds.together.len() == 1 {
        return (alone, kind, None);
    }
    let sequential = driver.tables().consistency_of(minipage).is_sequential();
    let is_coming = is_coming(driver, minipage);
    scans_of_threads::with(of_thread, |of| {
        let has_come = || is_here(driver, (minipage, kind));
        if is_coming || of.streams.is_ahead(minipage, kind) && has_come() {
            return (alone, kind, of.streams.follow(minipage, kind, &bounds));
        }
        let (prediction, wanted) = of.streams.need(minipage, kind, bounds.clone(), sequential);
        // What is written comes to be read where consistency is relaxed, and is opened when it is written.
        let may = sequential || kind == Kind::Read;
        (prediction, wanted, may.then(|| of.streams.read_ahead(minipage, &bounds)).flatten())
    })
}

/// Whether a minipage has been asked for: it was foreseen rightly, and is waited for.
fn is_coming(driver: &Driver, minipage: MinipageId) -> bool {
    let mut cell = driver.tables().lock(minipage);
    match EngineKind::of(cell.consistency()) {
        EngineKind::Sequential => cell.holder().is_fetching(),
        EngineKind::Eager => cell.client().may_receive(),
        EngineKind::Lazy => !cell.copy().is_idle(),
    }
}

/// A thread is about to write a minipage: other minipages that this node is likely to write are opened with it. They were
/// written before, lie behind others that are written, or came ahead with this one in a scan that writes: then the result is true.
/// In a short critical section nothing is opened, for it would be closed too soon.
fn open_ahead(
    driver: &Driver,
    of_thread: (ThreadId, &Slot),
    minipage: MinipageId,
) -> (bool, Expected) {
    let lazy = driver.tables().consistency_of(minipage).is_lazy();
    let within = critical_section::writes();
    if !lazy || within == SectionLength::Short || driver.races().are_checked() {
        return (false, Expected::default());
    }
    let adapts = spatial::page_of(driver.tables(), minipage).is_some();
    let writes = driver.engine().writes();
    let mut expected = match within {
        SectionLength::Long => writes.trapped_in_section(minipage),
        SectionLength::None | SectionLength::Short => {
            let guessed = if adapts { in_use_together(driver, minipage) } else { 0..0 };
            writes.trapped(minipage, guessed)
        }
    };
    expected.fetched &= adapts;
    driver.open_ahead(&expected.runs);
    let ahead = scans_of_threads::with(of_thread, |of| of.streams.got_ahead(minipage));
    if let Some(run) = ahead.flatten() {
        driver.engine().writes().opened(run);
        driver.open_ahead(&[run]);
    }
    (ahead.is_some(), expected)
}

/// Minipages that may be asked for at once with one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RunBounds {
    /// Where they lie in its area.
    together: Range<u32>,
    /// At once, that one counted; at least one.
    most: u32,
}

impl RunBounds {
    /// How many of them there are in steps from this one on, itself counted.
    fn steps(&self, index: u32, step: i32) -> u32 {
        let room = match step {
            ..0 => index.saturating_sub(self.together.start),
            _ => self.together.end.saturating_sub(index).saturating_sub(1),
        };
        (room / step.unsigned_abs().max(1)).saturating_add(1).min(self.most)
    }
}

/// Which minipages may be asked for at once with this one.
fn may_go_together(driver: &Driver, minipage: MinipageId) -> RunBounds {
    let index = minipage.index();
    let area = driver.memory().area(minipage.area());
    // With races checked each access is a matter of its own.
    let Some(area) = area.filter(|_| !driver.races().are_checked()) else {
        return RunBounds { together: index..index.saturating_add(1), most: 1 };
    };
    let by_bytes = MAX_RUN_BYTES / area.minipage_bytes(index).max(1);
    let most = u32::try_from(by_bytes).unwrap_or(MAX_RUN).clamp(1, MAX_RUN);
    RunBounds { together: in_use_together(driver, minipage), most }
}

/// Minipages around this one that its owner has handed out, or made ready for that, if this one is. Minipages behind
/// them may not be: the owner opens those without asking anybody.
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
        let most = may_go_together(driver, first).steps(first.index(), 1);
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
