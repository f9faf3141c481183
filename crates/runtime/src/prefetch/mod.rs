//! Copies ahead of time: what the program asks for (prefetch, push, touch), what a node fetched in
//! intervals before ([`history`]), and what lies beside what a thread reads ([`spatial`]).

mod history;
mod spatial;

use multigrain_protocol::{Input, Kind};
use multigrain_types::{Access, MinipageId, ThreadId};

use crate::driver::Driver;
use crate::driver::access::For;
use crate::error::Error;
use crate::heap::Heap;
use crate::receiver::slots::Slot;
use crate::shim::{Mutex, lock};
use history::AccessHistory;

/// What moves copies ahead of time. A wrong guess costs messages and nothing else.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    /// Whether anything is fetched that nobody asked for.
    learns: bool,
    history: Mutex<AccessHistory>,
}

impl Prefetcher {
    pub(crate) fn new(learns: bool) -> Self {
        Self { learns, history: Mutex::default() }
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
        let reads = self.learns && kind == Kind::Read;
        match reads.then(|| spatial::page_of(driver.tables(), minipage)).flatten() {
            Some(page) => spatial::fetch(driver, (thread, slot), minipage, &page),
            None => driver.fetch((thread, slot), minipage, kind, for_),
        }
    }

    /// A thread has passed a barrier. `first`: of those of this node that pass it together, one looks
    /// ahead for the node.
    pub(crate) fn pass_barrier(&self, driver: &Driver, thread: ThreadId, slot: &Slot, first: bool) {
        spatial::forget(slot);
        if first && self.learns {
            let candidates = lock(&self.history).end_interval();
            driver.forget_access();
            self.obtain(driver, thread, slot, &candidates);
        }
    }

    /// Asks for copies of the minipages in `bytes` from `address`, without waiting for them (Millipage
    /// 4.3.1, the prefetch calls of LU).
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for a range that ends beyond its allocation.
    pub(crate) fn prefetch(
        driver: &Driver,
        address: usize,
        bytes: usize,
        kind: Kind,
    ) -> Result<(), Error> {
        each_minipage(driver, address, bytes, |minipage| {
            driver.engine().step_sure(Input::Prefetch { minipage, kind });
            driver.apply_back_pressure_to_all();
        })
    }

    /// Hands read copies of the minipages to every node (Millipage 4.3.1, TSP), without waiting
    /// for them.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for a range that ends beyond its allocation.
    pub(crate) fn push(driver: &Driver, address: usize, bytes: usize) -> Result<(), Error> {
        each_minipage(driver, address, bytes, |minipage| {
            driver.engine().step_sure(Input::Push { minipage });
            driver.apply_back_pressure_to_all();
        })
    }

    /// Returns once this node has held every minipage for `kind` of access: what a system call
    /// needs, for the kernel does not trap but fails.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for a range that ends beyond its allocation.
    pub(crate) fn touch(
        &self,
        driver: &Driver,
        address: usize,
        bytes: usize,
        kind: Kind,
    ) -> Result<(), Error> {
        let (thread, slot) = driver.my_slot()?;
        let mut candidates = Vec::new();
        each_minipage(driver, address, bytes, |minipage| candidates.push((minipage, kind)))?;
        self.obtain(driver, thread, slot, &candidates);
        Ok(())
    }

    /// Asks for all of these at once, then waits for each.
    fn obtain(
        &self,
        driver: &Driver,
        thread: ThreadId,
        slot: &Slot,
        candidates: &[(MinipageId, Kind)],
    ) {
        // What a node remembers may have been freed since.
        let is_there =
            |(minipage, _): &&(MinipageId, Kind)| driver.memory().area(minipage.area()).is_some();
        let candidates: Vec<_> = candidates.iter().filter(is_there).collect();
        for &&(minipage, kind) in &candidates {
            driver.engine().step_gathered(Input::Prefetch { minipage, kind });
        }
        driver.mesh().flush_deferred();
        for &(minipage, kind) in candidates {
            let access = driver.tables().lock(minipage).access();
            let enough = match kind {
                Kind::Read => access != Access::NoAccess,
                Kind::Write => access == Access::ReadWrite,
            };
            // A watched minipage may be closed though its engine has access.
            if !enough || driver.races().are_checked() {
                self.fetch(driver, (thread, slot), minipage, kind, For::Call);
            }
        }
    }
}

fn each_minipage(
    driver: &Driver,
    address: usize,
    bytes: usize,
    mut act: impl FnMut(MinipageId),
) -> Result<(), Error> {
    Heap::check_range(driver, address, bytes)?;
    driver.memory().translate_range(address, bytes).for_each(&mut act);
    Ok(())
}
