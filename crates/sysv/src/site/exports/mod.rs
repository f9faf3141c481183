//! What processes of this site have mapped of segments, and how they are kept from what the protocol does not grant.
//!
//! Role: the site is a node of the job and has minipages of a segment as any node. Its processes map another memory object,
//! the segment's *export*, guarded by a userfaultfd each. A page is in the export while processes may read it; a hole in it
//! traps. Every mapping is write-protected from its beginning, and stays so where the object has no page, so that the kernel maps a page that
//! is there by itself, to read: read hits need nobody here. Writes are let through to one process at a time, and remembered, for
//! what is taken away has to be write-protected in those first, then read from the export, and then its hole punched.
//!
//! Invariants: a page is in the export only while this node has access to its minipage; who has a minipage's lock changes it.
//! Events of a userfaultfd are read under the lock of this module alone: a fork's event brings a child with all the write access
//! that its parent has at that moment, and until it is read nobody can change that.

mod events;
mod pages;
#[cfg(test)]
mod tests;

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use multigrain_memory::{Export, MemoryError};
use multigrain_types::{Access, AreaId, PAGE_BYTES};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::Errno;

use super::images::{Fault, Image, ImageKey};
use super::userfault::Userfault;
use pages::Pages;

/// What other rooms of the site have to know of, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// An image has one attach more of a segment, by a fork.
    Forked { segment: i32, pid: i32 },
    /// And one less, by its end, an exec or an unmapping.
    Detached { segment: i32, pid: i32 },
    /// There is an image that nobody serves yet.
    NewImage(ImageKey),
}

/// A mapping of a segment, or of a part, in an image.
#[derive(Clone, Debug)]
struct Attach {
    image: ImageKey,
    start: usize,
    /// Pages of the segment that are mapped, the first at `start`.
    part: Range<usize>,
    /// Pages of the segment that this image may write through it.
    writable: Pages,
}

impl Attach {
    fn bytes(&self) -> usize {
        self.part.len() * PAGE_BYTES
    }

    fn address_of(&self, page: usize) -> usize {
        self.start + (page - self.part.start) * PAGE_BYTES
    }

    /// Which page of the segment an address of an image is.
    fn page_at(&self, image: ImageKey, address: usize) -> Option<usize> {
        let within =
            self.image == image && (self.start..self.start + self.bytes()).contains(&address);
        within.then(|| self.part.start + (address - self.start) / PAGE_BYTES)
    }
}

/// A segment as this site has it.
#[derive(Debug)]
struct Segment {
    id: i32,
    /// Where it lies in this node's memory.
    address: usize,
    pages: usize,
    object: Arc<OwnedFd>,
    present: Pages,
    /// Pages that an image could write since they were last read from the export, though it may be gone.
    written: Pages,
    attaches: Vec<Attach>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct State {
    segments: BTreeMap<u32, Segment>,
    images: BTreeMap<ImageKey, Image>,
    newest: u64,
    notes: VecDeque<Note>,
}

/// The exports of a site.
#[derive(Clone, Debug, Default)]
pub(super) struct Exports(Arc<Mutex<State>>);

impl Exports {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Export for Exports {
    fn change(
        &self,
        area: AreaId,
        bytes: Range<u64>,
        contents: *mut u8,
        to: Access,
    ) -> Result<bool, MemoryError> {
        let mut state = self.lock();
        let Some(segment) = state.segments.get(&area.0) else { return Ok(false) };
        let page = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX) / PAGE_BYTES;
        let pages = page(bytes.start)..page(bytes.end.next_multiple_of(4096)).min(segment.pages);
        if to == Access::ReadWrite {
            return Ok(true);
        }
        let first = pages.start;
        for page in pages.clone() {
            state.close_to_writers(area.0, page);
            state.read_back(area.0, page, contents.wrapping_add((page - first) * PAGE_BYTES))?;
        }
        if to == Access::NoAccess {
            state.punch(area.0, pages)?;
        }
        Ok(true)
    }
}

fn failing(call: &'static str, errno: Errno) -> MemoryError {
    MemoryError::System { call, address: 0, bytes: PAGE_BYTES, errno }
}

impl State {
    /// Takes write access to a page from every image that has it.
    fn close_to_writers(&mut self, area: u32, page: usize) {
        loop {
            // A fork may add one meanwhile, with what its parent had.
            let writer = self.segments.get(&area).and_then(|segment| {
                let found = segment.attaches.iter().enumerate();
                let mut found = found.filter(|(_, attach)| attach.writable.has(page));
                let (index, attach) = found.next()?;
                Some((index, attach.image, attach.address_of(page)))
            });
            let Some((index, image, address)) = writer else { return };
            self.protect(image, address, true);
            if let Some(attach) =
                self.segments.get_mut(&area).and_then(|segment| segment.attaches.get_mut(index))
            {
                attach.writable.set(page, false);
            }
        }
    }

    /// Write-protects a page in an image, or opens it. What is not there any more needs nothing.
    fn protect(&mut self, key: ImageKey, address: usize, protect: bool) {
        loop {
            let Some(image) = self.images.get(&key) else { return };
            let userfault = Arc::clone(&image.userfault);
            match userfault.protect(address, PAGE_BYTES, protect) {
                Err(Errno::AGAIN) => self.take_events(key),
                Ok(()) | Err(_) => return,
            }
        }
    }

    /// What was written to a page that nobody can write now.
    fn read_back(&mut self, area: u32, page: usize, place: *mut u8) -> Result<(), MemoryError> {
        let segment = self.segments.get_mut(&area).filter(|segment| segment.written.has(page));
        let Some(segment) = segment else { return Ok(()) };
        segment.written.set(page, false);
        super::page_copies::read(&segment.object, page, place)
            .map_err(|errno| failing("pread of an export", errno))
    }

    fn punch(&mut self, area: u32, pages: Range<usize>) -> Result<(), MemoryError> {
        let Some(segment) = self.segments.get_mut(&area) else { return Ok(()) };
        let mut page = pages.start;
        while page < pages.end {
            let start = page;
            while page < pages.end && segment.present.has(page) {
                segment.present.set(page, false);
                page += 1;
            }
            if page == start {
                page += 1;
                continue;
            }
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let bytes = ((page - start) * PAGE_BYTES) as u64;
            fallocate(&*segment.object, hole, (start * PAGE_BYTES) as u64, bytes)
                .map_err(|errno| failing("fallocate of an export", errno))?;
        }
        Ok(())
    }

    /// A segment that lies at an address of this node's memory is exported from now on; nothing of it yet.
    pub(super) fn add_segment(
        &mut self,
        area: AreaId,
        id: i32,
        address: usize,
        bytes: usize,
    ) -> Result<(), Errno> {
        let pages = bytes.div_ceil(PAGE_BYTES);
        let object = memfd_create("multigrain-sysv", MemfdFlags::CLOEXEC)?;
        ftruncate(&object, (pages * PAGE_BYTES) as u64)?;
        let object = Arc::new(object);
        let none = Pages::none(pages);
        let (present, written, attaches) = (none.clone(), none, Vec::new());
        let segment = Segment { id, address, pages, object, present, written, attaches };
        self.segments.insert(area.0, segment);
        Ok(())
    }

    /// Nobody will attach to it again; where it lay.
    pub(super) fn remove_segment(&mut self, id: i32) -> Option<usize> {
        let area =
            self.segments.iter().find(|(_, segment)| segment.id == id).map(|(area, _)| *area);
        self.segments.remove(&area?).map(|segment| segment.address)
    }

    /// The export of a segment, and where it lies in this node's memory.
    pub(super) fn segment(&self, id: i32) -> Option<(Arc<OwnedFd>, usize)> {
        let segment = self.segments.values().find(|segment| segment.id == id)?;
        Some((Arc::clone(&segment.object), segment.address))
    }

    /// The image of a process: the one that it has named before, or the one that came of a fork.
    pub(super) fn image_of(&mut self, pid: i32, number: i64, fork: i64) -> Option<ImageKey> {
        let bound = self.images.iter().find(|(_, image)| image.process == Some((pid, number)));
        if let Some((key, _)) = bound {
            return Some(*key);
        }
        let forked = |image: &Image| fork != 0 && image.fork == fork && image.process.is_none();
        let (key, image) = self.images.iter_mut().find(|(_, image)| forked(image))?;
        image.process = Some((pid, number));
        Some(*key)
    }

    /// A process has sent the userfaultfd of its image.
    pub(super) fn add_image(
        &mut self,
        pid: i32,
        number: i64,
        userfault: OwnedFd,
    ) -> Result<ImageKey, Errno> {
        let userfault = Userfault(userfault);
        userfault.enable()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let image = Image::new(userfault, bell, Some((pid, number)), 0);
        Ok(self.insert(image))
    }

    fn insert(&mut self, image: Image) -> ImageKey {
        self.newest += 1;
        let key = ImageKey(self.newest);
        self.images.insert(key, image);
        self.notes.push_back(Note::NewImage(key));
        key
    }

    /// The next fork of an image has this number.
    pub(super) fn will_fork(&mut self, key: ImageKey, number: i64) {
        if let Some(image) = self.images.get_mut(&key) {
            image.next_fork = number;
        }
    }

    /// A process has mapped a segment's export, closed: it is guarded when this returns.
    #[cfg(test)]
    fn guard(&mut self, key: ImageKey, id: i32, start: usize, bytes: usize) -> Result<(), Errno> {
        self.guard_part(key, (id, 0), start, bytes)
    }

    /// A process has mapped a part of a segment's export, closed, from a page on: it is guarded when this returns.
    pub(super) fn guard_part(
        &mut self,
        key: ImageKey,
        (id, first): (i32, usize),
        start: usize,
        bytes: usize,
    ) -> Result<(), Errno> {
        let userfault =
            self.images.get(&key).map(|image| Arc::clone(&image.userfault)).ok_or(Errno::INVAL)?;
        let segment = self.segments.values_mut().find(|segment| segment.id == id);
        let segment = segment.ok_or(Errno::INVAL)?;
        let aligned = bytes.is_multiple_of(PAGE_BYTES) && start.is_multiple_of(PAGE_BYTES);
        let end = first.saturating_add(bytes / PAGE_BYTES);
        if !aligned || bytes == 0 || end > segment.pages {
            return Err(Errno::INVAL);
        }
        let writable = Pages::none(segment.pages);
        userfault.register(start, bytes)?;
        loop {
            match userfault.protect(start, bytes, true) {
                Ok(()) => break,
                Err(Errno::AGAIN) => self.take_events(key),
                Err(errno) => return Err(errno),
            }
        }
        let segment = self.segments.values_mut().find(|segment| segment.id == id);
        let segment = segment.ok_or(Errno::INVAL)?;
        segment.attaches.push(Attach { image: key, start, part: first..end, writable });
        Ok(())
    }

    /// Bytes to the end of the segment that an image has attached at an address, by what is left of the attach.
    pub(super) fn attached_bytes(&self, key: ImageKey, start: usize) -> Option<usize> {
        let end_of = |attach: &Attach| {
            let is_it = attach.image == key
                && attach.start.checked_sub(attach.part.start * PAGE_BYTES) == Some(start);
            is_it.then_some(attach.part.end * PAGE_BYTES)
        };
        let segments = self.segments.values().filter(|segment| segment.id >= 0);
        segments.flat_map(|segment| segment.attaches.iter().filter_map(end_of)).max()
    }

    /// Where in this node's memory a fault's page lies, and how many pages the image is to get from there on.
    pub(super) fn place(&mut self, key: ImageKey, fault: Fault) -> Option<(usize, usize)> {
        let (area, page, end) = self.find(key, fault.address)?;
        let segment = self.segments.get(&area)?;
        let image = self.images.get_mut(&key)?;
        let pages = image.scans[usize::from(fault.writes)].fault(fault.address, end - page);
        Some((segment.address + page * PAGE_BYTES, pages))
    }

    /// The segment, the page at an address, and the end of the attach that it is in.
    fn find(&self, key: ImageKey, address: usize) -> Option<(u32, usize, usize)> {
        self.segments.iter().find_map(|(area, segment)| {
            segment.attaches.iter().find_map(|attach| {
                attach.page_at(key, address).map(|page| (*area, page, attach.part.end))
            })
        })
    }

    /// Puts a page into the export that this node has, unless it is there, and lets the thread go on that trapped at an
    /// address. The caller has the minipage's lock.
    pub(super) fn export(
        &mut self,
        key: ImageKey,
        Fault { address, writes }: Fault,
        contents: *const u8,
    ) -> Result<(), Errno> {
        let Some((area, page, _)) = self.find(key, address) else { return Ok(()) };
        let Some(segment) = self.segments.get_mut(&area) else { return Ok(()) };
        if !segment.present.has(page) {
            super::page_copies::write(&segment.object, page, contents)?;
            segment.present.set(page, true);
        }
        if !writes {
            self.wake(key, address);
            return Ok(());
        }
        let mut attaches = segment.attaches.iter_mut();
        if let Some(attach) = attaches.find(|attach| attach.page_at(key, address).is_some()) {
            attach.writable.set(page, true);
            segment.written.set(page, true);
        }
        self.protect(key, address, false);
        Ok(())
    }

    pub(super) fn wake(&self, key: ImageKey, address: usize) {
        if let Some(image) = self.images.get(&key) {
            // Of a process that is gone nobody waits.
            let _ = image.userfault.wake(address, PAGE_BYTES);
        }
    }

    /// The userfaultfd and the bell of an image, for who serves it; none of one that is gone.
    pub(super) fn ways_in(&self, key: ImageKey) -> Option<(Arc<Userfault>, Arc<OwnedFd>)> {
        let image = self.images.get(&key)?;
        Some((Arc::clone(&image.userfault), Arc::clone(&image.bell)))
    }

    /// The next of what other rooms have to know.
    pub(super) fn next_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }
}
