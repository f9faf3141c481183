//! How access is taken from processes: writers are write-protected, what they wrote is read, and then a page's hole is punched.

use core::ops::Range;

use multigrain_memory::MemoryError;
use multigrain_types::{Access, AreaId, PAGE_BYTES};
use rustix::io::Errno;

use super::super::end;
use super::super::images::ImageKey;
use super::super::kernel::Kernel;
use super::{Attach, State};

impl<K: Kernel> State<K> {
    /// The access of the node to bytes of an area becomes `to`; the caller has the locks of their minipages.
    pub(super) fn change(
        &mut self,
        area: AreaId,
        bytes: Range<u64>,
        contents: *mut u8,
        to: Access,
    ) -> Result<bool, MemoryError> {
        let Some(segment) = self.segments.get(&area.0) else { return Ok(false) };
        let page = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX) / PAGE_BYTES;
        let pages = page(bytes.start)
            ..page(bytes.end.next_multiple_of(PAGE_BYTES as u64)).min(segment.pages);
        if to == Access::ReadWrite {
            return Ok(true);
        }
        let first = pages.start;
        for page in pages.clone() {
            self.close_to_writers(area.0, page);
            self.read_back(area.0, page, contents.wrapping_add((page - first) * PAGE_BYTES))?;
        }
        if to == Access::NoAccess {
            self.punch(area.0, pages)?;
        }
        Ok(true)
    }

    /// Takes write access to a page from every image that has it.
    fn close_to_writers(&mut self, area: u32, page: usize) {
        loop {
            let writer = self.segments.get(&area).and_then(|segment| {
                let attach = segment.attaches.iter().find(|attach| attach.writable.has(page))?;
                Some((attach.image, attach.start, attach.address_of(page)))
            });
            let Some((image, start, address)) = writer else { return };
            if is_to_repeat(self.protect(image, address, true)) {
                // A fork has added one, with what its parent has, or this one has moved or gone.
                self.take_events(image);
                continue;
            }
            let attaches = self.segments.get_mut(&area).map(|segment| &mut segment.attaches);
            attaches.into_iter().flatten().for_each(|attach| {
                if (attach.image, attach.start) == (image, start) {
                    attach.writable.set(page, false);
                }
            });
        }
    }

    /// Write-protects a page in an image, or opens it. [`Errno::AGAIN`] until its events are read, and after them things may be
    /// elsewhere; [`Errno::SRCH`] and [`Errno::NOENT`] say that it is not there any more.
    pub(super) fn protect(
        &mut self,
        key: ImageKey,
        address: usize,
        protect: bool,
    ) -> Result<(), Errno> {
        let image = self.images.get(&key).ok_or(Errno::SRCH)?;
        self.kernel.protect(&image.userfault, (address, PAGE_BYTES), protect)
    }

    /// What was written to a page that nobody can write now.
    fn read_back(&mut self, area: u32, page: usize, place: *mut u8) -> Result<(), MemoryError> {
        let segment = self.segments.get_mut(&area).filter(|segment| segment.written.has(page));
        let Some(segment) = segment else { return Ok(()) };
        segment.written.set(page, false);
        self.kernel
            .read(&segment.object, page, place)
            .map_err(|errno| failing("pread of an export", errno))
    }

    fn punch(&mut self, area: u32, pages: Range<usize>) -> Result<(), MemoryError> {
        let mut page = pages.start;
        while page < pages.end {
            let Some(segment) = self.segments.get_mut(&area) else { return Ok(()) };
            let start = page;
            while page < pages.end && segment.present.has(page) {
                segment.present.set(page, false);
                page += 1;
            }
            if page == start {
                page += 1;
                continue;
            }
            self.kernel
                .punch(&segment.object, start..page)
                .map_err(|errno| failing("fallocate of an export", errno))?;
            self.protect_holes(area, &(start..page));
        }
        Ok(())
    }

    /// Write-protects holes in all images. The kernel unmaps a page that becomes a hole twice: before it takes it from the object,
    /// and keeps who was write-protected so; and if somebody has read it in between, once more, and forgets that.
    pub(super) fn protect_holes(&mut self, area: u32, holes: &Range<usize>) {
        'anew: loop {
            let Some(segment) = self.segments.get(&area) else { return };
            let holes_of = |attach: &Attach| {
                let start = attach.part.start.max(holes.start);
                let end = attach.part.end.min(holes.end);
                let bytes = end.saturating_sub(start) * PAGE_BYTES;
                (bytes > 0).then(|| (attach.image, attach.address_of(start), bytes))
            };
            let all: Vec<_> = segment.attaches.iter().filter_map(holes_of).collect();
            for (key, address, bytes) in all {
                let Some(image) = self.images.get(&key) else { continue };
                let protected = self.kernel.protect(&image.userfault, (address, bytes), true);
                if is_to_repeat(protected) {
                    // A fork has added one, or this one has moved or gone.
                    self.take_events(key);
                    continue 'anew;
                }
            }
            return;
        }
    }
}

/// Whether access could not be taken because of an event. If it is not known to be taken or to be nowhere, this node ends: the
/// program would write what nobody reads. (The kernel has no memory for the page tables that say so.)
fn is_to_repeat(protected: Result<(), Errno>) -> bool {
    match protected {
        Ok(()) | Err(Errno::SRCH | Errno::NOENT) => false,
        Err(Errno::AGAIN) => true,
        Err(errno) => end(&format!("it cannot write-protect a page of a segment: {errno}")),
    }
}

fn failing(call: &'static str, errno: Errno) -> MemoryError {
    MemoryError::System { call, address: 0, bytes: PAGE_BYTES, errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_taken_where_nothing_is_and_taken_again_after_an_event() {
        assert!(!is_to_repeat(Ok(())) && is_to_repeat(Err(Errno::AGAIN)));
        assert!(!is_to_repeat(Err(Errno::SRCH)) && !is_to_repeat(Err(Errno::NOENT)));
    }

    /// There is no job here to end.
    #[test]
    #[should_panic(expected = "it cannot write-protect a page of a segment: ")]
    fn access_that_may_not_have_been_taken_ends_the_site() {
        is_to_repeat(Err(Errno::NOMEM));
    }
}
