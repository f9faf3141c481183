//! The memory of a node: its segments and their guard behind one handle.
//!
//! Role: what `runtime` sees of this crate. Look-ups and protection changes take no lock and
//! allocate nothing, for they run in the trap handler; mapping areas takes a lock of their segment
//! that is never held while a view is touched.

mod exported;
mod limit;
mod view_addresses;

use core::ffi::c_void;
use core::ops::Range;
use std::os::fd::RawFd;
use std::sync::OnceLock;

use libc::siginfo_t;
use multigrain_types::{Access, AreaId, MinipageId, PAGE_BYTES, SegmentPolicy};
use rustix::param::page_size;

use crate::access_path::AccessPath;
use crate::areas::{Areas, Mapped, Minipages};
use crate::checksum::checksum;
use crate::discard::Discard;
use crate::error::MemoryError;
use crate::export::Export;
use crate::guard::{Guard, Vpages, choose, choose_for};
use crate::guard_kind::{GuardChoice, GuardKind};
use crate::layout::{Area, VIEW_ALIGN, VIEWS_END};
use crate::object::Object;
use crate::privileged::discard;
use crate::segment::Segment;
use crate::segment_id::SegmentId;
use crate::segments::Segments;
use crate::signal_frame::{Trap, decode};
use crate::track::{Tracker, TrackingKind};

/// What a node's memory is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the first segment, rounded up to whole pages; sparse, so it may exceed the machine's.
    pub shared_bytes: u64,
    /// How the first segment is shared.
    pub policy: SegmentPolicy,
    /// How its pages are mapped twice.
    pub path: AccessPath,
    /// Which guard to use.
    pub guard: GuardChoice,
    /// How written pages are found.
    pub tracking: TrackingKind,
}

impl Config {
    /// So many bytes under this guard, and the defaults of the rest.
    #[must_use]
    pub fn new(shared_bytes: u64, guard: GuardChoice) -> Self {
        let (policy, path) = (SegmentPolicy::default(), AccessPath::default());
        Self { shared_bytes, policy, path, guard, tracking: TrackingKind::Faults }
    }
}

/// The shared memory of this process; there is room for one at a time.
#[derive(Debug)]
pub struct Memory {
    /// Dropped first: at the kernel's limit of mappings nothing else can be unmapped before views are.
    segments: Segments,
    areas: Areas,
    guard: Box<dyn Guard>,
    note: String,
    tracker: Option<Tracker>,
    discard: Discard,
    /// Addresses that are kept for views, mapped or not.
    views: Range<usize>,
    exports: OnceLock<Box<dyn Export>>,
}

impl Memory {
    /// Makes memory of one segment, and opens the guard.
    ///
    /// # Errors
    /// A size out of range, addresses in use, an access path that cannot be had here, a guard that was asked for by
    /// name and does not work here or with that path, or a failing system call; for scans, those of [`Memory::with_tracking`].
    pub fn new(config: &Config) -> Result<Self, MemoryError> {
        let object = Object::of_path(config.path, config.shared_bytes)?;
        let memory = Self::with_guard(choose_for(config.guard, config.path, &object)?)?;
        memory.add_segment(object, config.policy)?;
        match config.tracking {
            TrackingKind::Faults => Ok(memory),
            TrackingKind::Scans => memory.with_tracking(),
        }
    }

    /// Memory without a segment, for objects of all kinds.
    ///
    /// # Errors
    /// A guard that was asked for by name and does not work here, or a failing system call.
    pub fn without_segments(guard: GuardChoice) -> Result<Self, MemoryError> {
        Self::with_guard(choose(guard)?)
    }

    fn with_guard((guard, note): (Box<dyn Guard>, String)) -> Result<Self, MemoryError> {
        let bytes = page_size();
        if bytes != PAGE_BYTES {
            return Err(MemoryError::PageSize { bytes });
        }
        let (areas, segments, discard) = (Areas::new()?, Segments::new(), Discard::default());
        let views = view_addresses::addresses()?;
        let exports = OnceLock::new();
        Ok(Self { areas, segments, guard, note, tracker: None, discard, views, exports })
    }

    /// The same memory, where writes to areas can be tracked ([`Memory::track_area`]).
    ///
    /// # Errors
    /// [`MemoryError::TrackedAndGuarded`] under the guard uffd; the kernel cannot do it, or may not.
    pub fn with_tracking(mut self) -> Result<Self, MemoryError> {
        if self.guard.kind() == GuardKind::Uffd {
            return Err(MemoryError::TrackedAndGuarded);
        }
        self.tracker = Some(Tracker::open()?);
        self.note.push_str("; scans find what homes write");
        Ok(self)
    }

    /// Whether writes to areas can be tracked.
    #[must_use]
    pub fn tracks(&self) -> bool {
        self.tracker.is_some()
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

    /// Bytes of the first segment, whole pages.
    #[must_use]
    pub fn shared_bytes(&self) -> u64 {
        self.segments.get(SegmentId::FIRST).map_or(0, Segment::bytes)
    }

    /// Adds a segment, which stays as long as this memory. Nothing of it is guarded before its areas
    /// are mapped.
    ///
    /// # Errors
    /// Too many segments, addresses in use, or a failing system call.
    pub fn add_segment(
        &self,
        object: Object,
        policy: SegmentPolicy,
    ) -> Result<SegmentId, MemoryError> {
        self.segments.add(object, policy)
    }

    /// How a segment is shared; the default for one that is not there.
    #[must_use]
    pub fn policy(&self, id: SegmentId) -> SegmentPolicy {
        self.segments.get(id).map(Segment::policy).unwrap_or_default()
    }

    /// Maps the views of an area of the first segment. `fresh` on its initial holder: every minipage
    /// starts ReadWrite here (for [`Shape::Sub`] once populated); elsewhere every minipage starts
    /// NoAccess.
    ///
    /// No thread may touch the views before this returns; other areas are not disturbed.
    ///
    /// # Errors
    /// An area that is not valid or leaves the segment, an id or addresses in use, or no room for
    /// that many views. Nothing stays mapped then.
    ///
    /// [`Shape::Sub`]: crate::Shape::Sub
    pub fn map_area(&self, area: Area, fresh: bool) -> Result<(), MemoryError> {
        self.map_area_of(SegmentId::FIRST, area, fresh)
    }

    /// As [`Memory::map_area`], of any segment. An area of an adopted object has one view, at the
    /// addresses that the program has those bytes at.
    ///
    /// # Errors
    /// As for [`Memory::map_area`], and [`MemoryError::NotGuarded`] where the guard uffd does not
    /// work on the object.
    pub fn map_area_of(&self, id: SegmentId, area: Area, fresh: bool) -> Result<(), MemoryError> {
        let segment = self.segments.get(id).ok_or(MemoryError::UnknownSegment { id })?;
        area.validate_size()?;
        if !self.areas.claim(area.id) {
            return Err(MemoryError::AreaExists { id: area.id });
        }
        let mapped = segment.map(&area, &*self.guard, fresh);
        let privileged = mapped.inspect_err(|_| self.areas.disclaim(area.id))?.expose_provenance();
        self.areas.publish(Mapped { area, fresh, segment: id, privileged });
        Ok(())
    }

    /// Takes a mapped area's views away, for ever: no address is its any more. Its minipages can still be
    /// named, but what is done to their protection does nothing, and [`Memory::privileged`] gives a place
    /// for bytes that nobody reads. The caller holds the locks of all its minipages; pointers that were
    /// given out before lead to its bytes until [`Memory::discard_area`].
    ///
    /// # Errors
    /// The area is not mapped, or a failing system call: it is retired, and its addresses and bytes are
    /// not to be used again.
    pub fn retire_area(&self, id: AreaId) -> Result<(), MemoryError> {
        let Mapped { area, segment, .. } = self.mapped(id)?;
        self.discard.make_room(area.minipage_bytes(0))?;
        self.areas.retire(id);
        let segment = self.segments.get(segment);
        segment.map_or(Ok(()), |segment| segment.unmap(&area))
    }

    /// Gives the bytes of a retired area back to the system; they are zero for the next area there.
    ///
    /// # Errors
    /// The area is not retired, or a failing system call.
    pub fn discard_area(&self, id: AreaId) -> Result<(), MemoryError> {
        let retired = self.areas.retired(id).ok_or(MemoryError::UnknownArea { id })?;
        let start = core::ptr::with_exposed_provenance_mut(retired.privileged);
        discard(start, retired.area.view_bytes())
    }

    /// Whether an address belonged to an area that is retired, and to none since.
    #[must_use]
    pub fn is_retired(&self, address: usize) -> bool {
        let retired = self.areas.at(address).and_then(|id| self.areas.retired(id));
        retired.is_some_and(|retired| retired.area.locate(address).is_some())
    }

    /// Prepares an area that was just mapped for [`Memory::track`]; no thread may touch it before
    /// this returns. Nothing happens in memory that does not track.
    ///
    /// # Errors
    /// The area is not mapped, or a failing system call.
    pub fn track_area(&self, id: AreaId) -> Result<(), MemoryError> {
        let Mapped { area, .. } = self.mapped(id)?;
        self.tracker.as_ref().map_or(Ok(()), |tracker| tracker.attach(&area))
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

    /// The segment that the area of that id is a part of; None if it is not mapped.
    #[must_use]
    pub fn segment_of(&self, id: AreaId) -> Option<SegmentId> {
        self.areas.get(id).map(|mapped| mapped.segment)
    }

    /// How many areas are mapped here.
    #[must_use]
    pub fn areas(&self) -> usize {
        self.areas.count()
    }

    /// The minipage whose vpage holds `address`. Lock-free, for signal context too: in O(1) among
    /// the views, in O(log segments) at adopted addresses.
    #[must_use]
    #[inline]
    pub fn translate(&self, address: usize) -> Option<MinipageId> {
        let (area, index) = self.find(address)?;
        Some(MinipageId::new(area.id, index))
    }

    /// The minipages that `len` bytes from `address` lie in, up to the end of the view; of a
    /// [`Shape::Sub`] area the one minipage of `address`. None for an empty range.
    ///
    /// [`Shape::Sub`]: crate::Shape::Sub
    #[must_use]
    pub fn translate_range(&self, address: usize, len: usize) -> Minipages {
        let Some((area, first)) = self.find(address).filter(|_| len > 0) else {
            return Minipages::new(AreaId(0), 0..0);
        };
        let last = match area.shape {
            crate::Shape::Sub { .. } => first,
            crate::Shape::Pages { .. } => {
                let end = address.saturating_add(len - 1).min(area.base + area.view_bytes() - 1);
                area.locate(end).unwrap_or(first)
            }
        };
        Minipages::new(area.id, u64::from(first)..u64::from(last) + 1)
    }

    /// Where a minipage lies in the privileged view, and its bytes. Of a retired area: somewhere.
    ///
    /// # Panics
    /// If the area was not mapped or has no such minipage: the caller's broken invariant.
    #[must_use]
    #[inline]
    pub fn privileged(&self, minipage: MinipageId) -> (*mut u8, usize) {
        let mapped = self.areas.get(minipage.area()).or_else(|| {
            let retired = self.areas.retired(minipage.area())?;
            // All of its minipages lie in the same place now.
            let offset = retired.area.range(minipage.index()).0;
            Some(Mapped { privileged: self.discard.place().wrapping_sub(offset), ..retired })
        });
        let Some(Mapped { area, privileged, .. }) =
            mapped.filter(|mapped| minipage.index() < mapped.area.minipages())
        else {
            panic!("{minipage} is not mapped on this node");
        };
        let (offset, bytes) = area.range(minipage.index());
        (core::ptr::with_exposed_provenance_mut(privileged.wrapping_add(offset)), bytes)
    }

    /// A number that changes with the contents of a minipage, but for one chance in 2^64. Threads may write them
    /// meanwhile.
    ///
    /// # Panics
    /// As [`Memory::privileged`].
    #[must_use]
    pub fn checksum(&self, minipage: MinipageId) -> u64 {
        let (page, bytes) = self.privileged(minipage);
        checksum(page, bytes)
    }

    /// Allocates pages of a fresh area on its initial holder and maps them in every view, so
    /// that no touch traps. Only for pages whose minipages are all ReadWrite here: before they
    /// are handed out.
    ///
    /// # Errors
    /// The area is not mapped or not fresh, the pages leave it, or memory is short.
    pub fn populate(&self, id: AreaId, pages: Range<u32>) -> Result<(), MemoryError> {
        let Mapped { area, fresh, privileged, .. } = self.mapped(id)?;
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
        let (offset, bytes) = (start as usize * PAGE_BYTES, (end - start) as usize * PAGE_BYTES);
        let (address, privileged) = (area.base + offset, privileged + offset);
        let first = Vpages { address, bytes, privileged, fresh };
        self.guard.populate(first, area.views(), area.view_bytes())
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
        let limit = self.limit(minipage.area());
        let vpages = self.vpages(minipage)?;
        if self.exports_change(minipage, 1, [from, to])? {
            return Ok(());
        }
        vpages.map_or(Ok(()), |vpages| self.guard.protect(vpages, from.min(limit), to.min(limit)))
    }

    /// [`Memory::protect`] of `count` minipages from `first` on, which are all in state `from`, with as few
    /// changes of protection as they lie together in views.
    ///
    /// # Errors
    /// As for [`Memory::protect`]; some may have changed then.
    pub fn protect_run(
        &self,
        first: MinipageId,
        count: u32,
        from: Access,
        to: Access,
    ) -> Result<(), MemoryError> {
        if self.exports_change(first, count, [from, to])? {
            return Ok(());
        }
        let limit = self.limit(first.area());
        let (from, to) = (from.min(limit), to.min(limit));
        let mut run: Option<Vpages> = None;
        for index in first.index()..first.index().saturating_add(count) {
            let Some(next) = self.vpages(MinipageId::new(first.area(), index))? else {
                return Ok(());
            };
            match &mut run {
                Some(run) if run.is_followed_by(&next) => run.bytes += next.bytes,
                run => {
                    if let Some(whole) = run.replace(next) {
                        self.guard.protect(whole, from, to)?;
                    }
                }
            }
        }
        run.map_or(Ok(()), |last| self.guard.protect(last, from, to))
    }

    /// Takes access from `count` minipages from `first` on, which are neighbours in one view,
    /// with one change of protection; false if they are not (of a [`Shape::Sub`] area). For
    /// minipages that have the first access now and shall have the second; the caller sees to it that none of them is opened again
    /// unnoticed.
    ///
    /// # Errors
    /// As for [`Memory::protect`].
    ///
    /// [`Shape::Sub`]: crate::Shape::Sub
    pub fn restrict_run(
        &self,
        first: MinipageId,
        count: u32,
        (from, to): (Access, Access),
    ) -> Result<bool, MemoryError> {
        let last = first.index().checked_add(count.saturating_sub(1));
        let (Some(mut run), Some(last)) = (self.vpages(first)?, last) else { return Ok(false) };
        let Mapped { area, .. } = self.mapped(first.area())?;
        let crate::Shape::Pages { .. } = area.shape else { return Ok(false) };
        let limit = self.limit(first.area());
        let (from, to) = (from.min(limit), to.min(limit));
        if from == to {
            return Ok(true);
        }
        let Some(end) = self.vpages(MinipageId::new(first.area(), last))? else {
            return Ok(false);
        };
        run.bytes = end.address + end.bytes - run.address;
        self.guard.protect(run, from, to)?;
        Ok(true)
    }

    /// Opens a minipage of a tracked area, and counts it as not written: what is written from now on
    /// is named by [`Memory::written`]. The caller holds its lock. For signal context too.
    ///
    /// # Errors
    /// As for [`Memory::protect`].
    pub fn track(&self, minipage: MinipageId, from: Access) -> Result<(), MemoryError> {
        let Some(Vpages { address, bytes, .. }) = self.vpages(minipage)? else { return Ok(()) };
        if let Some(tracker) = &self.tracker {
            tracker.track((minipage.area(), minipage.index()), address, bytes)?;
        }
        self.protect(minipage, from, Access::ReadWrite)
    }

    /// Names minipages of tracked areas that were written since they were tracked or last named, and
    /// perhaps others of these areas; none is left out that was written before the call. What is
    /// written meanwhile is named now or by the next call.
    ///
    /// # Errors
    /// A failing system call; minipages may have been named before.
    pub fn written(&self, named: &mut dyn FnMut(MinipageId)) -> Result<(), MemoryError> {
        let Some(tracker) = &self.tracker else { return Ok(()) };
        let addresses = |id, minipages: &Range<u32>| {
            let area = self.areas.get(id)?.area;
            let last = self.vpages(MinipageId::new(id, minipages.end - 1)).ok()??;
            Some(area.address(minipages.start)..last.address + last.bytes)
        };
        tracker.written(addresses, &mut |Range { start, end }| {
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
        let vpages = self.vpages(minipage)?;
        let limit = self.limit(minipage.area());
        vpages.map_or(Ok(()), |vpages| self.guard.reprotect(vpages, access.min(limit)))
    }

    /// Takes all access to all areas away, for good: what touches them from now on raises SIGSEGV,
    /// whatever the guard. No other call that changes a protection may follow.
    ///
    /// # Errors
    /// A failing system call; some areas may be sealed then.
    pub fn seal(&self) -> Result<(), MemoryError> {
        self.segments.iter().try_for_each(Segment::seal)
    }

    /// Whether a range holds any address that this memory keeps for its views, mapped or not.
    #[must_use]
    pub fn keeps(&self, range: &Range<usize>) -> bool {
        let overlaps = |kept: &Range<usize>| kept.start < range.end && range.start < kept.end;
        // Behind those only where an area lies, as few do: each begins a step.
        let behind = self.views.end.max(range.start)..VIEWS_END.min(range.end);
        overlaps(&self.views)
            || behind.step_by(VIEW_ALIGN).any(|address| self.areas.at(address).is_some())
            || range.end.checked_sub(1).is_some_and(|last| self.areas.at(last).is_some())
            || self.segments.iter().any(|segment| segment.keeps(overlaps))
    }

    /// Unlocks all that is mapped here, so that nothing of it is allocated before it is used.
    pub fn unlock(&self) {
        self.segments.iter().for_each(Segment::unlock);
    }

    /// The file descriptors that this memory keeps open as long as it lives.
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        let tracker = self.tracker.iter().flat_map(Tracker::descriptors);
        let segments = self.segments.iter().filter_map(Segment::descriptor);
        self.guard.descriptor().into_iter().chain(tracker).chain(segments).collect()
    }

    /// The trap behind a signal, if it is this guard's and lies in shared memory. Call it in the
    /// signal's handler with the handler's own arguments, and with no others: it reads them.
    #[must_use]
    pub fn decode(
        &self,
        signal: i32,
        info: *const siginfo_t,
        context: *const c_void,
    ) -> Option<Trap> {
        decode(self.guard.signal(), signal, info, context, |address| self.reserves(address))
    }

    /// Whether shared memory may lie at `address`, whatever does.
    #[must_use]
    pub fn reserves(&self, address: usize) -> bool {
        self.views.contains(&address)
            || self.areas.at(address).is_some()
            || self.segments.adopted(address)
    }

    /// The area and the index of the minipage whose vpage holds `address`.
    #[inline]
    fn find(&self, address: usize) -> Option<(Area, u32)> {
        let id = self.areas.at(address).or_else(|| self.segments.adopted_at(address))?;
        let area = self.areas.get(id)?.area;
        Some((area, area.locate(address)?))
    }

    fn mapped(&self, id: AreaId) -> Result<Mapped, MemoryError> {
        self.areas.get(id).ok_or(MemoryError::UnknownArea { id })
    }

    /// The vpages of a minipage; None of a retired area.
    #[inline]
    fn vpages(&self, minipage: MinipageId) -> Result<Option<Vpages>, MemoryError> {
        let Some(Mapped { area, fresh, privileged, .. }) = self.areas.get(minipage.area()) else {
            let id = minipage.area();
            return self.areas.retired(id).map(|_| None).ok_or(MemoryError::UnknownArea { id });
        };
        if minipage.index() >= area.minipages() {
            return Err(MemoryError::UnknownMinipage { minipage, count: area.minipages() });
        }
        let address = area.address(minipage.index());
        let (offset, bytes) = area.range(minipage.index());
        let within = address % PAGE_BYTES;
        Ok(Some(Vpages {
            address: address - within,
            bytes: bytes.next_multiple_of(PAGE_BYTES),
            privileged: privileged + offset - within,
            fresh,
        }))
    }
}
