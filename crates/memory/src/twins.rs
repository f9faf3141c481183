//! Twins: the contents of dirty minipages from before this node wrote to them.
//!
//! Role: the other half of a [diff](crate::diff). Several threads fault at a time, so minipages are
//! spread over several locks, none of which is held while bytes of a page are copied.
//!
//! Invariant the caller upholds: calls about one minipage come one at a time, under its lock.
//! What it must not know: messages, protocols, which threads wrote.
#![expect(unsafe_code, reason = "copies pages, by pointer")]

use core::fmt;
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use multigrain_types::{AreaId, MinipageId, PAGE_BYTES};

use crate::diff;

const SHARDS: usize = 64;
/// Buffers of a page that a shard keeps.
const KEPT_PAGES: usize = 8;
/// Entries that the table of an empty shard keeps room for.
const KEPT_ENTRIES: usize = 64;

/// The twins of this node's dirty minipages.
///
/// Buffers of one page, the common size, are kept for the next twin: a write fault seldom
/// allocates. At most [`Twins::KEPT_BYTES`] stay so when no twin is left, and tables for 64 entries
/// a shard; all else goes back to the allocator.
pub struct Twins {
    shards: Box<[Shard]>,
    bytes: AtomicUsize,
}

/// On cache lines of its own.
#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    twins: HashMap<MinipageId, Box<[u8]>, BuildHasherDefault<Spread>>,
    kept: Vec<Box<[u8]>>,
}

/// Spreads numbers over a table. Which minipages are dirty no peer decides, so nobody can make them
/// collide, and a hash against such is not worth its time: a release has one of each.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write_u64(&mut self, number: u64) {
        // The low bits of the product know the low bits of the number only, which a shard's
        // minipages have in common; the table takes its place from the low bits of the hash.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Twins {
    /// The most bytes of buffers that are kept while there are no twins.
    pub const KEPT_BYTES: usize = SHARDS * KEPT_PAGES * PAGE_BYTES;

    /// No twins.
    #[must_use]
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect(), bytes: AtomicUsize::new(0) }
    }

    /// Makes the twin of a minipage: a copy of `len` bytes at `page`.
    ///
    /// # Panics
    /// If the minipage has a twin already: the caller's broken invariant.
    ///
    /// # Safety
    /// `len` bytes at `page` are readable.
    pub unsafe fn make(&self, minipage: MinipageId, page: *const u8, len: usize) {
        let kept = if len == PAGE_BYTES { self.entries(minipage).kept.pop() } else { None };
        // SAFETY: the caller's promise; kept buffers have the bytes of a page.
        let twin = unsafe { copy(page, len, kept) };
        self.bytes.fetch_add(len, Ordering::Relaxed);
        let before = self.entries(minipage).twins.insert(minipage, twin);
        assert!(before.is_none(), "{minipage} has a twin already");
    }

    /// Takes the twin of a minipage, if it has one: to compare the page with.
    #[must_use]
    pub fn take(&self, minipage: MinipageId) -> Option<Twin<'_>> {
        let mut entries = self.entries(minipage);
        let bytes = entries.twins.remove(&minipage)?;
        if entries.twins.is_empty() {
            entries.twins.shrink_to(KEPT_ENTRIES);
        }
        Some(Twin { twins: self, minipage, bytes })
    }

    /// Whether a minipage differs from its twin, which stays; true if it has none.
    ///
    /// # Safety
    /// The bytes of the minipage at `page` are readable.
    #[must_use]
    pub unsafe fn differs(&self, minipage: MinipageId, page: *const u8) -> bool {
        // Not compared with a lock held: nobody else looks for it meanwhile.
        let Some(twin) = self.entries(minipage).twins.remove(&minipage) else { return true };
        // SAFETY: the caller's promise; a twin is as long as its minipage.
        let differs = unsafe { diff::differs(&twin, page) };
        self.entries(minipage).twins.insert(minipage, twin);
        differs
    }

    /// Forgets the twin of a minipage: nothing of it will be sent. Whether there was one.
    pub fn discard(&self, minipage: MinipageId) -> bool {
        self.take(minipage).is_some()
    }

    /// Forgets the twins of an area that is retired: what nobody reads has no differences.
    pub fn forget_area(&self, area: AreaId) {
        if self.bytes() == 0 {
            return;
        }
        for shard in &self.shards {
            let mut entries = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            entries.twins.retain(|minipage, twin| {
                let stays = minipage.area() != area;
                if !stays {
                    self.bytes.fetch_sub(twin.len(), Ordering::Relaxed);
                }
                stays
            });
            if entries.twins.is_empty() {
                entries.twins.shrink_to(KEPT_ENTRIES);
            }
        }
    }

    /// Bytes of all twins that were made and are neither discarded nor, once taken, dropped.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn entries(&self, minipage: MinipageId) -> MutexGuard<'_, Entries> {
        // Neighbours fault together, so they are dealt in turn; areas start in different places.
        let deal = minipage.index().wrapping_add(minipage.area().0.wrapping_mul(7));
        let shard = &self.shards[deal as usize % SHARDS];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Twins {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Twins {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Twins").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// A twin that was taken; dropping it gives its bytes back.
pub struct Twin<'t> {
    twins: &'t Twins,
    minipage: MinipageId,
    bytes: Box<[u8]>,
}

impl Deref for Twin<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Twin<'_> {
    fn drop(&mut self) {
        let bytes = core::mem::take(&mut self.bytes);
        self.twins.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
        if bytes.len() != PAGE_BYTES {
            return;
        }
        let mut entries = self.twins.entries(self.minipage);
        if entries.kept.len() < KEPT_PAGES {
            entries.kept.push(bytes);
        }
    }
}

impl fmt::Debug for Twin<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "twin of {:?}, {} bytes", self.minipage, self.bytes.len())
    }
}

/// A copy of `len` bytes at `page`, in `buffer` if there is one.
///
/// # Safety
/// `len` bytes at `page` are readable, and the buffer has `len` bytes.
unsafe fn copy(page: *const u8, len: usize, buffer: Option<Box<[u8]>>) -> Box<[u8]> {
    if let Some(mut buffer) = buffer {
        // SAFETY: the caller's promise; nobody else knows the buffer.
        unsafe { page.copy_to_nonoverlapping(buffer.as_mut_ptr(), len) };
        return buffer;
    }
    let mut buffer = Box::<[u8]>::new_uninit_slice(len);
    // SAFETY: the caller's promise; the buffer was made that long.
    unsafe { page.copy_to_nonoverlapping(buffer.as_mut_ptr().cast(), len) };
    // SAFETY: all of it was written just above.
    unsafe { buffer.assume_init() }
}

#[cfg(test)]
mod tests {
    use multigrain_types::AreaId;

    use super::*;

    fn minipage(index: u32) -> MinipageId {
        MinipageId::new(AreaId(3), index)
    }

    fn make(twins: &Twins, index: u32, page: &[u8]) {
        // SAFETY: the pointer and the length are those of a slice.
        unsafe { twins.make(minipage(index), page.as_ptr(), page.len()) };
    }

    #[test]
    fn a_twin_is_what_the_page_was() {
        let twins = Twins::new();
        for bytes in [1, 4, 63, PAGE_BYTES, PAGE_BYTES + 4, 3 * PAGE_BYTES] {
            let mut page = vec![7; bytes];
            make(&twins, 0, &page);
            page.fill(8);
            assert_eq!(twins.bytes(), bytes);
            let twin = twins.take(minipage(0)).unwrap();
            assert_eq!(*twin, *vec![7; bytes]);
            assert!(twins.take(minipage(0)).is_none());
        }
        assert_eq!(twins.bytes(), 0);
    }

    #[test]
    fn a_page_is_compared_with_its_twin_which_stays() {
        let twins = Twins::new();
        let mut page = [5; 100];
        make(&twins, 0, &page);
        // SAFETY: the pointer and the length are those of a slice.
        let differs = |index, page: &[u8]| unsafe { twins.differs(minipage(index), page.as_ptr()) };
        assert!(!differs(0, &page));
        page[99] = 6;
        assert!(differs(0, &page));
        assert!(differs(1, &page), "no twin says that nothing was written");
        assert_eq!(*twins.take(minipage(0)).unwrap(), [5; 100]);
    }

    #[test]
    fn twins_of_an_area_that_is_retired_are_forgotten() {
        let twins = Twins::new();
        let pages = 3 * SHARDS;
        let of = |area, index: usize| MinipageId::new(AreaId(area), u32::try_from(index).unwrap());
        for index in 0..pages {
            let page = [1; 64];
            // SAFETY: the pointer and the length are those of an array.
            unsafe { twins.make(of(1, index), page.as_ptr(), page.len()) };
            // SAFETY: as above.
            unsafe { twins.make(of(2, index), page.as_ptr(), page.len()) };
        }
        twins.forget_area(AreaId(1));
        assert_eq!(twins.bytes(), pages * 64);
        for index in 0..pages {
            assert!(twins.take(of(1, index)).is_none() && twins.take(of(2, index)).is_some());
        }
        assert_eq!(twins.bytes(), 0);
    }

    #[test]
    fn a_twin_that_was_taken_counts_until_it_is_dropped() {
        let twins = Twins::new();
        make(&twins, 0, &[1; PAGE_BYTES]);
        let twin = twins.take(minipage(0));
        assert_eq!(twins.bytes(), PAGE_BYTES);
        drop(twin);
        assert_eq!(twins.bytes(), 0);
    }

    #[test]
    fn a_buffer_of_a_page_serves_the_next_twin() {
        let twins = Twins::new();
        make(&twins, 0, &[1; PAGE_BYTES]);
        let first = twins.take(minipage(0)).unwrap().as_ptr();
        make(&twins, 0, &[2; PAGE_BYTES]);
        let twin = twins.take(minipage(0)).unwrap();
        assert_eq!((twin.as_ptr(), &*twin), (first, &[2; PAGE_BYTES][..]));
    }

    #[test]
    fn few_buffers_and_small_tables_stay_when_all_twins_have_gone() {
        let twins = Twins::new();
        let count = if cfg!(miri) { 80 } else { 20_000 };
        let page = [1; PAGE_BYTES];
        for index in 0..count {
            make(&twins, index, &page);
        }
        assert_eq!(twins.bytes(), count as usize * PAGE_BYTES);
        for index in 0..count {
            assert!(twins.discard(minipage(index)));
        }
        assert_eq!(twins.bytes(), 0);
        let mut kept = 0;
        for shard in &twins.shards {
            let entries = shard.0.lock().unwrap();
            kept += entries.kept.iter().map(|buffer| buffer.len()).sum::<usize>();
            assert!(entries.twins.capacity() < 4 * KEPT_ENTRIES);
        }
        assert_eq!(kept, Twins::KEPT_BYTES.min(count as usize * PAGE_BYTES));
    }

    #[test]
    #[cfg_attr(miri, ignore = "unwinding takes Miri long")]
    #[should_panic(expected = "minipage 3.0 has a twin already")]
    fn a_second_twin_of_a_minipage_is_a_mistake() {
        let twins = Twins::new();
        make(&twins, 0, &[1; 8]);
        make(&twins, 0, &[1; 8]);
    }

    #[test]
    fn threads_make_twins_of_different_minipages_at_a_time() {
        let twins = Twins::new();
        let rounds = if cfg!(miri) { 3 } else { 500 };
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let twins = &twins;
                scope.spawn(move || {
                    for round in 0..rounds {
                        // All of them in one shard.
                        let index = 64 * (4 * round + u32::from(thread));
                        make(twins, index, &[thread; PAGE_BYTES]);
                        let twin = twins.take(minipage(index)).unwrap();
                        assert_eq!(*twin, [thread; PAGE_BYTES]);
                    }
                });
            }
        });
        assert_eq!(twins.bytes(), 0);
    }
}
