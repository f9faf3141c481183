//! The memory of a node: the object, its areas and their guard behind one handle.
//!
//! Role: what `runtime` sees of this crate. Look-ups and protection changes take no lock and
//! allocate nothing, for they run in the trap handler; mapping and unmapping areas are serialized
//! by a lock that is never held while a view is touched.

use core::ffi::c_void;
use core::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::siginfo_t;
use multigrain_types::{Access, AreaId, MinipageId, PAGE_BYTES};
use rustix::io::Errno;
use rustix::param::page_size;

use crate::areas::{Areas, Mapped};
use crate::error::MemoryError;
use crate::guard::{Guard, GuardChoice, GuardKind, Vpages, choose};
use crate::layout::{Area, index};
use crate::object::{Object, settle, taken_or, unmap_views};
use crate::trap::{Trap, decode};
use crate::watch::Watches;

/// What a node's memory is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of shared memory, rounded up to whole pages; sparse, so it may exceed the machine's.
    pub shared_bytes: u64,
    /// Which guard to use.
    pub guard: GuardChoice,
}

/// The shared memory of this process; there is room for one at a time.
#[derive(Debug)]
pub struct Memory {
    areas: Areas,
    guard: Box<dyn Guard>,
    note: String,
    object: Object,
    mapping: Mutex<()>,
    watches: Option<Watches>,
}

impl Memory {
    /// Makes the memory object, maps the privileged view and opens the guard.
    ///
    /// # Errors
    /// A size out of range, addresses in use, a guard that was asked for by name and does not
    /// work here, or a failing system call.
    pub fn new(config: &Config) -> Result<Self, MemoryError> {
        let bytes = page_size();
        if bytes != PAGE_BYTES {
            return Err(MemoryError::PageSize { bytes });
        }
        let object = Object::new(config.shared_bytes)?;
        let (guard, note) = choose(config.guard)?;
        let (areas, mapping) = (Areas::new()?, Mutex::new(()));
        Ok(Self { areas, guard, note, object, mapping, watches: None })
    }

    /// The same memory, where areas can be watched ([`Memory::watch_area`]).
    ///
    /// # Errors
    /// [`MemoryError::WatchedByTwo`] under the guard uffd; the kernel cannot do it, or may not.
    pub fn with_watches(mut self) -> Result<Self, MemoryError> {
        if self.guard.kind() == GuardKind::Uffd {
            return Err(MemoryError::WatchedByTwo);
        }
        self.watches = Some(Watches::open()?);
        self.note.push_str("; scans find what homes write");
        Ok(self)
    }

    /// Whether areas can be watched.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.watches.is_some()
    }

    /// The guard in use.
    #[must_use]
    pub fn guard(&self) -> GuardKind {
        self.guard.kind()
    }

    /// One line that says which guard is in use, and why.
    #[must_use]
    pub fn guard_note(&self) -> &str {
        &self.note
    }

    /// The signal a trap raises: SIGBUS or SIGSEGV.
    #[must_use]
    pub fn signal(&self) -> i32 {
        self.guard.signal()
    }

    /// Bytes of the memory object, whole pages.
    #[must_use]
    pub fn shared_bytes(&self) -> u64 {
        self.object.bytes()
    }

    /// Maps the views of an area. `fresh` on its initial holder: every minipage starts ReadWrite
    /// here (for [`Shape::Sub`] once populated); elsewhere every minipage starts NoAccess.
    ///
    /// No thread may touch the views before this returns; other areas are not disturbed.
    ///
    /// # Errors
    /// An area that is not valid or leaves the memory object, an id or addresses in use, or no
    /// room for that many views. Nothing stays mapped then.
    ///
    /// [`Shape::Sub`]: crate::Shape::Sub
    pub fn map_area(&self, area: Area, fresh: bool) -> Result<(), MemoryError> {
        area.validate()?;
        if area.file_offset + area.bytes > self.object.bytes() {
            return Err(area.bad("it lies in the memory object"));
        }
        let _writer = self.writer();
        if self.areas.get(area.id).is_some() {
            return Err(MemoryError::AreaExists { id: area.id });
        }
        self.map_views(&area, fresh)?;
        let span = area.span_bytes();
        let settled =
            settle(area.base, span).and_then(|()| self.guard.attach(area.base, span, fresh));
        if let Err(error) = settled {
            unmap_views(area.base, span)?;
            return Err(error);
        }
        self.areas.publish(Mapped { area, fresh });
        Ok(())
    }

    /// Prepares an area that was just mapped for [`Memory::watch`]; no thread may touch it before
    /// this returns. Nothing happens in memory without watches.
    ///
    /// # Errors
    /// The area is not mapped, or a failing system call.
    pub fn watch_area(&self, id: AreaId) -> Result<(), MemoryError> {
        let Mapped { area, .. } = self.mapped(id)?;
        self.watches.as_ref().map_or(Ok(()), |watches| watches.attach(&area))
    }

    /// Unmaps the views of an area and gives its pages back. Its id may be used again.
    ///
    /// # Errors
    /// The area is not mapped, or a failing system call.
    pub fn unmap_area(&self, id: AreaId) -> Result<(), MemoryError> {
        let _writer = self.writer();
        let Mapped { area, .. } = self.mapped(id)?;
        self.areas.retire(&area);
        if let Some(watches) = &self.watches {
            watches.detach(id);
        }
        unmap_views(area.base, area.span_bytes())?;
        self.object.punch(area.file_offset, area.view_bytes())
    }

    /// The area of that id, if it is mapped here.
    #[must_use]
    pub fn area(&self, id: AreaId) -> Option<Area> {
        self.areas.get(id).map(|mapped| mapped.area)
    }

    /// Whether the area of that id was mapped as fresh here; None if it is not mapped.
    #[must_use]
    pub fn is_fresh(&self, id: AreaId) -> Option<bool> {
        self.areas.get(id).map(|mapped| mapped.fresh)
    }

    /// How many areas are mapped here.
    #[must_use]
    pub fn areas(&self) -> usize {
        self.areas.count()
    }

    /// The minipage whose vpage holds `address`. Lock-free, in O(1), for signal context too.
    #[must_use]
    #[inline]
    pub fn translate(&self, address: usize) -> Option<MinipageId> {
        self.areas.translate(address)
    }

    /// The minipages that `len` bytes from `address` lie in, up to the end of the view; of a
    /// [`Shape::Sub`] area the one minipage of `address`. None for an empty range.
    ///
    /// [`Shape::Sub`]: crate::Shape::Sub
    #[must_use]
    pub fn translate_range(&self, address: usize, len: usize) -> Minipages {
        let Some((area, first)) = self.areas.find(address).filter(|_| len > 0) else {
            return Minipages { area: AreaId(0), indices: 0..0 };
        };
        let last = match area.shape {
            crate::Shape::Sub { .. } => first,
            crate::Shape::Pages { .. } => {
                let end = address.saturating_add(len - 1).min(area.base + area.view_bytes() - 1);
                area.locate(end).unwrap_or(first)
            }
        };
        Minipages { area: area.id, indices: u64::from(first)..u64::from(last) + 1 }
    }

    /// Where a minipage lies in the privileged view, and its bytes.
    ///
    /// # Panics
    /// If the area is not mapped or has no such minipage: the caller's broken invariant.
    #[must_use]
    #[inline]
    pub fn privileged(&self, minipage: MinipageId) -> (*mut u8, usize) {
        let area = self.areas.get(minipage.area()).map(|mapped| mapped.area);
        let Some(area) = area.filter(|area| minipage.index() < area.minipages()) else {
            panic!("{minipage} is not mapped on this node");
        };
        let (offset, bytes) = area.file_range(minipage.index());
        (self.object.privileged(offset), bytes)
    }

    /// Allocates pages of a fresh area on its initial holder and maps them in every view, so
    /// that no touch traps. Only for pages whose minipages are all ReadWrite here: before they
    /// are handed out.
    ///
    /// # Errors
    /// The area is not mapped or not fresh, the pages leave it, or memory is short.
    pub fn populate(&self, id: AreaId, pages: Range<u32>) -> Result<(), MemoryError> {
        let Mapped { area, fresh } = self.mapped(id)?;
        if !fresh {
            return Err(MemoryError::NotFresh { id });
        }
        let Range { start, end } = pages;
        if start > end || u64::from(end) > area.pages() {
            return Err(MemoryError::PageRange { id, start, end, pages: area.pages() });
        }
        if start == end {
            return Ok(());
        }
        self.guard.populate(&self.object, &area, start as usize..end as usize)
    }

    /// Changes the access of a minipage whose state is `from`. The caller holds its lock. A
    /// restriction holds in every thread when this returns. For signal context too.
    ///
    /// # Errors
    /// No such minipage here, or the kernel's limits or memory are used up.
    #[inline]
    pub fn protect(
        &self,
        minipage: MinipageId,
        from: Access,
        to: Access,
    ) -> Result<(), MemoryError> {
        self.guard.protect(&self.object, self.vpages(minipage)?, from, to)
    }

    /// Takes write access from `count` minipages from `first` on, which are neighbours in one view,
    /// with one change of protection; false if they are not (of a [`Shape::Sub`] area). For
    /// minipages that are `ReadWrite` now; the caller sees to it that none of them is opened again
    /// unnoticed.
    ///
    /// # Errors
    /// As for [`Memory::protect`].
    ///
    /// [`Shape::Sub`]: crate::Shape::Sub
    pub fn restrict_run(&self, first: MinipageId, count: u32) -> Result<bool, MemoryError> {
        let Mapped { area, .. } = self.mapped(first.area())?;
        let crate::Shape::Pages { .. } = area.shape else { return Ok(false) };
        let Some(last) = first.index().checked_add(count.saturating_sub(1)) else {
            return Ok(false);
        };
        let mut run = self.vpages(first)?;
        let end = self.vpages(MinipageId::new(first.area(), last))?;
        run.bytes = end.address + end.bytes - run.address;
        self.guard.protect(&self.object, run, Access::ReadWrite, Access::ReadOnly)?;
        Ok(true)
    }

    /// Opens a minipage of a watched area, and counts it as not written: what is written from now on
    /// is named by [`Memory::written`]. The caller holds its lock. For signal context too.
    ///
    /// # Errors
    /// As for [`Memory::protect`].
    pub fn watch(&self, minipage: MinipageId, from: Access) -> Result<(), MemoryError> {
        let Vpages { address, bytes, .. } = self.vpages(minipage)?;
        if let Some(watches) = &self.watches {
            watches.watch((minipage.area(), minipage.index()), address, bytes)?;
        }
        self.protect(minipage, from, Access::ReadWrite)
    }

    /// Names minipages of watched areas that were written since they were watched or last named, and
    /// perhaps others of these areas; none is left out that was written before the call. What is
    /// written meanwhile is named now or by the next call.
    ///
    /// # Errors
    /// A failing system call; minipages may have been named before.
    pub fn written(&self, named: &mut dyn FnMut(MinipageId)) -> Result<(), MemoryError> {
        let Some(watches) = &self.watches else { return Ok(()) };
        let addresses = |id, minipages: &Range<u32>| {
            let area = self.areas.get(id)?.area;
            let last = self.vpages(MinipageId::new(id, minipages.end - 1)).ok()?;
            Some(area.address(minipages.start)..last.address + last.bytes)
        };
        watches.written(addresses, &mut |Range { start, end }| {
            self.translate_range(start, end - start).for_each(&mut *named);
        })
    }

    /// Makes the page tables agree with `access`, the state of the minipage: the answer to a
    /// trap on an access that the state allows (a page swapped out, or fresh and never touched).
    /// The caller holds the minipage's lock. For signal context too.
    ///
    /// # Errors
    /// As for [`Memory::protect`].
    #[inline]
    pub fn reprotect(&self, minipage: MinipageId, access: Access) -> Result<(), MemoryError> {
        self.guard.reprotect(&self.object, self.vpages(minipage)?, access)
    }

    /// The trap behind a signal, if it is this guard's and lies among the views. Call it in the
    /// signal's handler with the handler's own arguments, and with no others: it reads them.
    #[must_use]
    pub fn decode(
        &self,
        signal: i32,
        info: *const siginfo_t,
        context: *const c_void,
    ) -> Option<Trap> {
        decode(self.guard.signal(), signal, info, context)
    }

    fn writer(&self) -> MutexGuard<'_, ()> {
        self.mapping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mapped(&self, id: AreaId) -> Result<Mapped, MemoryError> {
        self.areas.get(id).ok_or(MemoryError::UnknownArea { id })
    }

    #[inline]
    fn vpages(&self, minipage: MinipageId) -> Result<Vpages, MemoryError> {
        let Mapped { area, fresh } = self.mapped(minipage.area())?;
        if minipage.index() >= area.minipages() {
            return Err(MemoryError::UnknownMinipage { minipage, count: area.minipages() });
        }
        let address = area.address(minipage.index());
        let (file_offset, bytes) = area.file_range(minipage.index());
        let within = address % PAGE_BYTES;
        Ok(Vpages {
            address: address - within,
            bytes: bytes.next_multiple_of(PAGE_BYTES),
            file_offset: file_offset - within as u64,
            fresh,
        })
    }

    fn map_views(&self, area: &Area, fresh: bool) -> Result<(), MemoryError> {
        let bytes = area.view_bytes();
        let protection = self.guard.first_protection(fresh);
        for view in 0..usize::from(area.views()) {
            let address = area.base + view * bytes;
            let Err(errno) = self.object.map_view(address, bytes, area.file_offset, protection)
            else {
                continue;
            };
            if view > 0 {
                unmap_views(area.base, view * bytes)?;
            }
            return Err(match errno {
                Errno::NOMEM => MemoryError::TooManyViews { id: area.id, views: area.views() },
                errno => taken_or("mmap", address, bytes, errno),
            });
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for id in 0..self.areas.ids_end() {
            if let Some(Mapped { area, .. }) = self.areas.get(AreaId(id)) {
                let unmapped = unmap_views(area.base, area.span_bytes());
                debug_assert_eq!(unmapped, Ok(()));
            }
        }
    }
}

/// The minipages of an address range, in order; see [`Memory::translate_range`].
#[derive(Clone, Debug)]
pub struct Minipages {
    area: AreaId,
    indices: Range<u64>,
}

impl Iterator for Minipages {
    type Item = MinipageId;

    fn next(&mut self) -> Option<MinipageId> {
        let next = u32::try_from(self.indices.next()?).ok()?;
        Some(MinipageId::new(self.area, next))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = index(self.indices.end - self.indices.start);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Minipages {}
