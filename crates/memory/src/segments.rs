//! The segments of a node: looked up without a lock, for signal context too.
//!
//! Role: keeps segments, which are added and stay, and finds the one that has adopted an address.
//! Each comes with the list of all adopted ranges so far, in order: a reader that sees how many
//! segments there are has a list that does not change any more.

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use multigrain_types::{AreaId, PAGE_BYTES, SegmentPolicy};

use crate::error::MemoryError;
use crate::layout::{PRIVILEGED_BASE, VIEWS_BASE, VIEWS_END, index};
use crate::object::Object;
use crate::segment::Segment;
use crate::segment_id::SegmentId;

/// Segments that a node can have.
pub const MAX_SEGMENTS: usize = 64;

#[derive(Debug)]
pub(crate) struct Segments {
    entries: [OnceLock<Entry>; MAX_SEGMENTS],
    count: AtomicUsize,
    /// Where the next privileged view may lie.
    next: Mutex<usize>,
}

#[derive(Debug)]
struct Entry {
    segment: Segment,
    /// The addresses adopted by this segment and those before it, ascending.
    adopted: Vec<(Range<usize>, SegmentId)>,
}

impl Segments {
    /// No segments.
    pub(crate) fn new() -> Self {
        Self {
            entries: [const { OnceLock::new() }; MAX_SEGMENTS],
            count: AtomicUsize::new(0),
            next: Mutex::new(PRIVILEGED_BASE),
        }
    }

    /// Makes a segment of an object.
    pub(crate) fn add(
        &self,
        object: Object,
        policy: SegmentPolicy,
    ) -> Result<SegmentId, MemoryError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.load(Ordering::Relaxed);
        let (Ok(id), Some(entry)) = (u8::try_from(count), self.entries.get(count)) else {
            return Err(MemoryError::TooManySegments { limit: MAX_SEGMENTS });
        };
        let id = SegmentId(id);
        let mut adopted = self.newest().map_or_else(Vec::new, |entry| entry.adopted.clone());
        let segment = Segment::new(object, policy, *next)?;
        if let Some(addresses) = segment.adopted() {
            let Range { start, end } = *addresses;
            let place = adopted.partition_point(|(other, _)| other.end <= start);
            let taken = adopted.get(place).is_some_and(|(other, _)| other.start < end);
            if taken || (start < VIEWS_END && end > VIEWS_BASE) {
                return Err(MemoryError::AddressTaken { address: start, end });
            }
            adopted.insert(place, (start..end, id));
        }
        // A page that nobody maps keeps privileged views apart.
        *next += index(segment.bytes()) + PAGE_BYTES;
        // Only here, under the lock, and every entry once.
        let set = entry.set(Entry { segment, adopted });
        debug_assert!(set.is_ok());
        self.count.store(count + 1, Ordering::Release);
        Ok(id)
    }

    pub(crate) fn get(&self, id: SegmentId) -> Option<&Segment> {
        self.entries.get(usize::from(id.0))?.get().map(|entry| &entry.segment)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.entries.iter().map_while(OnceLock::get).map(|entry| &entry.segment)
    }

    /// The area at an adopted address, in O(log segments).
    pub(crate) fn adopted_at(&self, address: usize) -> Option<AreaId> {
        self.get(self.adopter(address)?)?.area_at(address)
    }

    /// Whether a segment has adopted an address.
    pub(crate) fn adopted(&self, address: usize) -> bool {
        self.adopter(address).is_some()
    }

    fn adopter(&self, address: usize) -> Option<SegmentId> {
        let adopted = &self.newest()?.adopted;
        let place = adopted.partition_point(|(range, _)| range.end <= address);
        let (range, id) = adopted.get(place)?;
        range.contains(&address).then_some(*id)
    }

    fn newest(&self) -> Option<&Entry> {
        let last = self.count.load(Ordering::Acquire).checked_sub(1)?;
        self.entries.get(last)?.get()
    }
}
