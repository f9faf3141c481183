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
//! that its parent has at that moment, and until it is read nobody can change that. Once events have been read, attaches may be
//! elsewhere or gone: they are looked up again.

mod events;
#[cfg(test)]
mod model;
mod pages;
mod revoke;

#[cfg(test)]
mod tests;

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use multigrain_memory::{Export, MemoryError};
use multigrain_types::{Access, AreaId, PAGE_BYTES};
use rustix::io::Errno;

use super::images::{Fault, Image, ImageKey};
use super::kernel::{Kernel, Linux};
use super::page_copies;
use pages::Pages;

/// What other rooms of the site have to know of, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Notification {
    /// An image has one attach more of a segment, by a fork.
    Forked { segment: i32, pid: i32 },
    /// And one less, by its end, an exec or an unmapping.
    Detached { segment: i32, pid: i32 },
    /// There is an image that nobody serves yet.
    NewImage(ImageKey),
}

/// A mapping of a segment, or of a part, in an image.
#[derive(Clone, Debug, Hash)]
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
struct Segment<K: Kernel> {
    id: i32,
    /// Where it lies in this node's memory.
    address: usize,
    pages: usize,
    object: Arc<K::Object>,
    present: Pages,
    /// Pages that an image could write since they were last read from the export, though it may be gone.
    written: Pages,
    attaches: Vec<Attach>,
}

/// What guards an image, and the eventfd of who serves it.
type Descriptors<K> = (Arc<<K as Kernel>::Guard>, Arc<<K as Kernel>::Eventfd>);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct State<K: Kernel = Linux> {
    kernel: K,
    segments: BTreeMap<u32, Segment<K>>,
    images: BTreeMap<ImageKey, Image<K>>,
    newest: u64,
    notifications: VecDeque<Notification>,
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
        [_, to]: [Access; 2],
    ) -> Result<bool, MemoryError> {
        self.lock().change(area, bytes, contents, to)
    }
}

impl<K: Kernel> State<K> {
    /// A segment that lies at an address of this node's memory is exported from now on; nothing of it yet.
    pub(super) fn add_segment(
        &mut self,
        area: AreaId,
        id: i32,
        address: usize,
        bytes: usize,
    ) -> Result<(), Errno> {
        let pages = bytes.div_ceil(PAGE_BYTES);
        let object = Arc::new(self.kernel.object(pages * PAGE_BYTES)?);
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
    pub(super) fn segment(&self, id: i32) -> Option<(Arc<K::Object>, usize)> {
        let segment = self.segments.values().find(|segment| segment.id == id)?;
        Some((Arc::clone(&segment.object), segment.address))
    }

    /// The image of a process: the one that it has named before, or the one that came of a fork.
    pub(super) fn image_of(&mut self, pid: i32, number: i64, fork: i64) -> Option<ImageKey> {
        let bound = self.images.iter().find(|(_, image)| image.process == Some((pid, number)));
        if let Some((key, _)) = bound {
            return Some(*key);
        }
        let forked = |image: &Image<K>| fork != 0 && image.fork == fork && image.process.is_none();
        let (key, image) = self.images.iter_mut().find(|(_, image)| forked(image))?;
        image.process = Some((pid, number));
        Some(*key)
    }

    /// A process has sent the userfaultfd of its image.
    pub(super) fn add_image(
        &mut self,
        pid: i32,
        number: i64,
        userfault: impl Into<K::Guard>,
    ) -> Result<ImageKey, Errno> {
        let userfault = userfault.into();
        self.kernel.enable(&userfault)?;
        let eventfd = self.kernel.eventfd()?;
        let image = Image::new(userfault, eventfd, Some((pid, number)), 0);
        Ok(self.insert(image))
    }

    fn insert(&mut self, image: Image<K>) -> ImageKey {
        self.newest += 1;
        let key = ImageKey(self.newest);
        self.images.insert(key, image);
        self.notifications.push_back(Notification::NewImage(key));
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
        self.kernel.register(&userfault, start, bytes)?;
        loop {
            match self.kernel.protect(&userfault, (start, bytes), true) {
                Ok(()) => break,
                Err(Errno::AGAIN) => self.take_events(key),
                Err(errno) => return Err(errno),
            }
        }
        let segment = self.segments.values_mut().find(|segment| segment.id == id);
        let segment = segment.ok_or(Errno::INVAL)?;
        let writable = Pages::none(segment.pages);
        segment.attaches.push(Attach { image: key, start, part: first..end, writable });
        Ok(())
    }

    /// What is left of the attach of an image at an address: the start and the bytes of each piece. As the kernel, of the segment
    /// of which the first piece is.
    pub(super) fn pieces(&self, key: ImageKey, start: usize) -> Vec<(usize, usize)> {
        let is_piece = |attach: &&Attach| {
            attach.image == key
                && attach.start.checked_sub(attach.part.start * PAGE_BYTES) == Some(start)
        };
        let of = |segment: &Segment<K>| {
            let pieces = segment.attaches.iter().filter(is_piece);
            let mut pieces: Vec<_> = pieces.map(|piece| (piece.start, piece.bytes())).collect();
            pieces.sort_unstable();
            pieces
        };
        let segments = self.segments.values().filter(|segment| segment.id >= 0);
        segments.map(of).filter(|pieces| !pieces.is_empty()).min().unwrap_or_default()
    }

    /// Whether an image has anything attached in a range of addresses.
    pub(super) fn is_attached(&self, key: ImageKey, range: Range<usize>) -> bool {
        let attaches = self.segments.values().flat_map(|segment| &segment.attaches);
        let mut of_image = attaches.filter(|attach| attach.image == key);
        of_image
            .any(|attach| attach.start < range.end && range.start < attach.start + attach.bytes())
    }

    /// Where in this node's memory a fault's page lies, and how many pages the image is to get from there on.
    pub(super) fn place(&mut self, key: ImageKey, fault: Fault) -> Option<(usize, usize)> {
        let (area, page, attach) = self.find(key, fault.address)?;
        let segment = self.segments.get(&area)?;
        let image = self.images.get_mut(&key)?;
        let left = segment.attaches[attach].part.end - page;
        let pages = image.scans[usize::from(fault.writes)].fault(fault.address, left);
        Some((segment.address + page * PAGE_BYTES, pages))
    }

    /// The area and the page that an image has at an address, and by which attach.
    fn find(&self, key: ImageKey, address: usize) -> Option<(u32, usize, usize)> {
        self.segments.iter().find_map(|(area, segment)| {
            let mut attaches = segment.attaches.iter().enumerate();
            attaches.find_map(|(index, attach)| Some((*area, attach.page_at(key, address)?, index)))
        })
    }

    /// Puts a page into the export that this node has at `place`, unless it is there, and lets the thread go on that trapped at an
    /// address. The caller has the minipage's lock; `contents` says where a copy of its bytes can be read.
    pub(super) fn export(
        &mut self,
        key: ImageKey,
        Fault { address, writes, is_missing }: Fault,
        (place, contents): (usize, impl Fn() -> *const u8),
    ) -> Result<(), Errno> {
        loop {
            let found = self.find(key, address).and_then(|(area, page, attach)| {
                let segment = self.segments.get_mut(&area)?;
                let lies_there = segment.address + page * PAGE_BYTES == place;
                lies_there.then_some((area, segment, page, attach))
            });
            let Some((area, segment, page, attach)) = found else {
                // Something else is there since the page was asked for: who trapped tries again.
                self.wake(key, address);
                return Ok(());
            };
            if writes {
                // Before it is so: a fork gives a child what its parent has, and is known later.
                segment.attaches[attach].writable.set(page, true);
            }
            if !segment.present.has(page) {
                let Some(image) = self.images.get(&key) else { return Ok(()) };
                let filled = self.kernel.fill(&image.userfault, address, contents(), !writes);
                match filled {
                    Ok(()) => {}
                    Err(Errno::AGAIN) => {
                        self.take_events(key);
                        continue;
                    }
                    // It is mapped when who trapped tries again.
                    Err(_) => self.kernel.write(&segment.object, page, contents())?,
                }
                segment.present.set(page, true);
                // Not before: what is read back of a hole is zeros.
                segment.written.set(page, writes);
                if filled.is_ok() {
                    return Ok(());
                }
            } else if is_missing {
                // Mostly another thread was quicker. But a program can make holes itself (MADV_REMOVE).
                let Some(image) = self.images.get(&key) else { return Ok(()) };
                match self.kernel.fill(&image.userfault, address, page_copies::zeros(), true) {
                    Ok(()) => {
                        segment.written.set(page, true);
                        self.protect_holes(area, &(page..page + 1));
                        // Events may have been read.
                        continue;
                    }
                    Err(Errno::AGAIN) => {
                        self.take_events(key);
                        continue;
                    }
                    Err(_) => {}
                }
            }
            if !writes {
                self.wake(key, address);
                return Ok(());
            }
            segment.written.set(page, true);
            match self.protect(key, address, false) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) => self.take_events(key),
                Err(_) => {
                    self.wake(key, address);
                    return Ok(());
                }
            }
        }
    }

    pub(super) fn wake(&mut self, key: ImageKey, address: usize) {
        if let Some(image) = self.images.get(&key) {
            // Of a process that is gone nobody waits.
            let _ = self.kernel.wake(&image.userfault, address, PAGE_BYTES);
        }
    }

    /// The userfaultfd and the eventfd of an image, for who serves it; none of one that is gone.
    pub(super) fn descriptors_of(&self, key: ImageKey) -> Option<Descriptors<K>> {
        let image = self.images.get(&key)?;
        Some((Arc::clone(&image.userfault), Arc::clone(&image.eventfd)))
    }

    /// Whether there is anything that other rooms have to know.
    pub(super) fn has_notifications(&self) -> bool {
        !self.notifications.is_empty()
    }

    /// The next of what other rooms have to know.
    pub(super) fn next_notification(&mut self) -> Option<Notification> {
        self.notifications.pop_front()
    }
}
