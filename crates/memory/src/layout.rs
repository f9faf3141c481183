//! Where minipages lie: arithmetic between indices, addresses and file offsets.
//!
//! Role: MultiView's layout (Millipage 2.2), made per area: allocations of less than a page get
//! as many views as minipages share a page; larger ones span whole pages of a single view. Pure:
//! it touches no memory.

use core::ops::Range;

use multigrain_types::{AreaId, PAGE_BYTES};

use crate::error::MemoryError;

/// First address of the application views, on every node. AddressSanitizer's shadow ends below.
#[cfg(not(feature = "tsan"))]
pub const VIEWS_BASE: usize = 0x1001_0000_0000;
/// Address after the last one of the application views.
#[cfg(not(feature = "tsan"))]
pub const VIEWS_END: usize = 0x2000_0000_0000;
/// Alignment of an area's first address: one translation chunk.
pub const VIEW_ALIGN: usize = 4 << 20;
/// First address of the privileged view, on every node.
#[cfg(not(feature = "tsan"))]
pub(crate) const PRIVILEGED_BASE: usize = VIEWS_END;

// ThreadSanitizer has shadow for few addresses only: those of programs and those of libraries.
// Ours lie in the gaps that a program at fixed addresses leaves there.
#[cfg(feature = "tsan")]
mod tsan {
    /// First address of the application views, on every node.
    pub const VIEWS_BASE: usize = 0x5600_0000_0000;
    /// Address after the last one of the application views.
    pub const VIEWS_END: usize = 0x5680_0000_0000;
    /// First address of the privileged view, on every node.
    pub(crate) const PRIVILEGED_BASE: usize = 0x7e80_0000_0000;
}
#[cfg(feature = "tsan")]
pub(crate) use tsan::PRIVILEGED_BASE;
#[cfg(feature = "tsan")]
pub use tsan::{VIEWS_BASE, VIEWS_END};

/// The smallest minipage of a [`Shape::Sub`], in bytes; slots are multiples of it.
pub const MIN_SLOT_BYTES: u32 = 4;

/// Pages of a page group: within it, minipages fill view after view, so that neighbours lie in
/// neighbouring vpages of one view. That halves the cost of walking over them (ADR 5) and lets them
/// be protected together.
pub const GROUP_PAGES: u32 = 16;

const PAGE: u64 = PAGE_BYTES as u64;
const GROUP: usize = GROUP_PAGES as usize;

/// Area ids are below this number; an id is used once.
pub const MAX_AREAS: usize = 1 << 24;

/// Most bytes of a minipage: it travels whole, and whoever waits for it can do nothing else.
pub const MAX_MINIPAGE_BYTES: usize = 1 << 30;

/// How an area is divided into minipages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// Several minipages to a page, each in a view of its own.
    Sub {
        /// Bytes of a minipage, a multiple of [`MIN_SLOT_BYTES`].
        slot: u32,
        /// Minipages in a page, and so views: the page's bytes divided by `slot`.
        per_page: u16,
    },
    /// A minipage is a run of whole pages of the only view.
    Pages {
        /// Pages of a minipage.
        pages: u32,
    },
}

impl Shape {
    /// The shape for allocations of `bytes` bytes aligned to `align` (a power of two, at least
    /// 4): as many as fit a page share one. None above half a page: use [`Shape::Pages`].
    #[must_use]
    pub fn sub_for(bytes: usize, align: usize) -> Option<Self> {
        let align = align.checked_next_power_of_two()?.max(MIN_SLOT_BYTES as usize);
        let bytes = bytes.max(1).checked_next_multiple_of(align)?;
        if bytes > PAGE_BYTES / 2 {
            return None;
        }
        let per_page = PAGE_BYTES / bytes;
        let slot = (PAGE_BYTES / per_page) & !(align - 1);
        Some(Self::Sub { slot: u32::try_from(slot).ok()?, per_page: u16::try_from(per_page).ok()? })
    }

    /// Application views an area of this shape has.
    #[must_use]
    pub const fn views(self) -> u16 {
        match self {
            Self::Sub { per_page, .. } => per_page,
            Self::Pages { .. } => 1,
        }
    }

    fn broken_rule(self) -> Option<&'static str> {
        match self {
            Self::Sub { slot, .. } if !slot.is_multiple_of(MIN_SLOT_BYTES) => {
                Some("a slot is a multiple of 4 bytes")
            }
            Self::Sub { slot, .. } if slot == 0 || slot as usize > PAGE_BYTES => {
                Some("a slot is at most a page and not empty")
            }
            Self::Sub { slot, per_page } if usize::from(per_page) != PAGE_BYTES / slot as usize => {
                Some("minipages in a page are the page divided by the slot")
            }
            Self::Pages { pages: 0 } => Some("a minipage has at least one page"),
            Self::Pages { pages } if pages as usize > MAX_MINIPAGE_BYTES / PAGE_BYTES => {
                Some("a minipage is at most 1 GiB")
            }
            Self::Sub { .. } | Self::Pages { .. } => None,
        }
    }
}

/// A page range of the memory object with one minipage shape, mapped as views one after the
/// other: view v starts at `base + v * bytes`. The same on every node.
///
/// All methods but `validate` presume that [`Area::validate`] would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its id, below [`MAX_AREAS`].
    pub id: AreaId,
    /// First address of view 0, a multiple of [`VIEW_ALIGN`].
    pub base: usize,
    /// First byte in the memory object, a multiple of a page.
    pub file_offset: u64,
    /// Bytes in the memory object and of each view, a multiple of a page.
    pub bytes: u64,
    /// Its minipages.
    pub shape: Shape,
}

impl Area {
    /// Pages of the memory object in this area.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.bytes / PAGE
    }

    /// Minipages in this area.
    #[must_use]
    pub const fn minipages(&self) -> u32 {
        low_half(self.minipages_wide())
    }

    /// Application views of this area.
    #[must_use]
    pub const fn views(&self) -> u16 {
        self.shape.views()
    }

    /// Bytes of one view.
    #[must_use]
    pub const fn view_bytes(&self) -> usize {
        index(self.bytes)
    }

    /// Bytes of address space over all views.
    #[must_use]
    pub const fn span_bytes(&self) -> usize {
        self.view_bytes() * self.views() as usize
    }

    /// Address of the first byte of minipage `index` in its own view.
    #[must_use]
    pub fn address(&self, index: u32) -> usize {
        let (view, offset) = self.place(index);
        self.base + view * self.view_bytes() + offset
    }

    /// Bytes of minipage `index`; the last one of a [`Shape::Pages`] area may be shorter.
    #[must_use]
    pub fn minipage_bytes(&self, index: u32) -> usize {
        self.range(index).1
    }

    /// Where minipage `index` lies in the bytes of the area: the first, and how many.
    pub(crate) fn range(&self, index: u32) -> (usize, usize) {
        let (_, offset) = self.place(index);
        let bytes = match self.shape {
            Shape::Sub { slot, .. } => slot as usize,
            Shape::Pages { pages } => {
                (pages as usize * PAGE_BYTES).min(self.view_bytes().saturating_sub(offset))
            }
        };
        (offset, bytes)
    }

    /// Where minipage `index` lies in the memory object: first byte and length.
    #[must_use]
    pub fn file_range(&self, index: u32) -> (u64, usize) {
        let (offset, bytes) = self.range(index);
        (self.file_offset + offset as u64, bytes)
    }

    /// The minipage whose vpage holds `address`; None outside of the area.
    #[must_use]
    pub fn locate(&self, address: usize) -> Option<u32> {
        let from_base = address.checked_sub(self.base)?;
        if from_base >= self.span_bytes() {
            return None;
        }
        let page = from_base % self.view_bytes() / PAGE_BYTES;
        let found = match self.shape {
            Shape::Sub { per_page, .. } => {
                let (group, within) = (page / GROUP, page % GROUP);
                let view = from_base / self.view_bytes();
                group * GROUP * usize::from(per_page) + view * self.group_pages(group) + within
            }
            Shape::Pages { pages } => page / pages as usize,
        };
        Some(low_half(found as u64))
    }

    /// The minipage that holds the byte at `address` in its own view, and the byte's offset in it; None outside of the area,
    /// and in a vpage before its minipage.
    #[must_use]
    pub fn locate_byte(&self, address: usize) -> Option<(u32, usize)> {
        let minipage = self.locate(address)?;
        let from_base = address - self.base;
        let first = match self.shape {
            Shape::Sub { slot, .. } => {
                let view = from_base / self.view_bytes();
                (from_base & !(PAGE_BYTES - 1)) + view * slot as usize
            }
            Shape::Pages { pages } => minipage as usize * pages as usize * PAGE_BYTES,
        };
        Some((minipage, from_base.checked_sub(first)?))
    }

    /// Checks every rule of the layout, for areas received from peers and before mapping.
    ///
    /// # Errors
    /// [`MemoryError::BadArea`] with the first broken rule. Whether the memory object is long
    /// enough is checked when the area is mapped.
    pub fn validate(&self) -> Result<(), MemoryError> {
        let broken = self.broken_size().or_else(|| self.broken_place());
        broken.map_or(Ok(()), |rule| Err(self.bad(rule)))
    }

    /// The part of this that does not hang on where the area is mapped.
    pub(crate) fn validate_size(&self) -> Result<(), MemoryError> {
        self.broken_size().map_or(Ok(()), |rule| Err(self.bad(rule)))
    }

    /// The same for an area of a segment whose bytes the program had at `addresses` before.
    pub(crate) fn validate_in_place(&self, addresses: &Range<usize>) -> Result<(), MemoryError> {
        let broken = self.broken_size().or_else(|| {
            let place = self.base.checked_sub(addresses.start).map(|offset| offset as u64);
            if self.views() > 1 || place != Some(self.file_offset) {
                Some("its one view is where the program has its bytes")
            } else if self.file_offset + self.bytes > addresses.len() as u64 {
                Some("it ends in its segment")
            } else {
                None
            }
        });
        broken.map_or(Ok(()), |rule| Err(self.bad(rule)))
    }

    /// Whether areas have an address of their views in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.base < other.base + other.span_bytes() && other.base < self.base + self.span_bytes()
    }

    pub(crate) const fn bad(&self, rule: &'static str) -> MemoryError {
        MemoryError::BadArea { id: self.id, base: self.base, bytes: self.bytes, rule }
    }

    fn broken_size(&self) -> Option<&'static str> {
        if self.id.0 as usize >= MAX_AREAS {
            return Some("its id is too large");
        }
        if let Some(rule) = self.shape.broken_rule() {
            return Some(rule);
        }
        if self.bytes == 0 || !self.bytes.is_multiple_of(PAGE) {
            return Some("its bytes are whole pages, at least one");
        }
        if !self.file_offset.is_multiple_of(PAGE) {
            return Some("its place in the memory object starts a page");
        }
        if self.file_offset.checked_add(self.bytes).is_none() {
            return Some("its place in the memory object ends somewhere");
        }
        if self.minipages_wide() > u64::from(u32::MAX) {
            return Some("it has fewer than 2^32 minipages");
        }
        None
    }

    fn broken_place(&self) -> Option<&'static str> {
        if !self.base.is_multiple_of(VIEW_ALIGN) || self.base < VIEWS_BASE {
            return Some("its base is a multiple of 4 MiB among the views");
        }
        let room = (VIEWS_END as u64).saturating_sub(self.base as u64);
        if self.bytes.checked_mul(u64::from(self.views())).is_none_or(|span| span > room) {
            return Some("its views end among the views");
        }
        None
    }

    const fn minipages_wide(&self) -> u64 {
        match self.shape {
            Shape::Sub { per_page, .. } => self.pages() * per_page as u64,
            Shape::Pages { pages } => self.pages().div_ceil(pages as u64),
        }
    }

    /// The view minipage `index` lies in.
    #[must_use]
    pub fn view(&self, index: u32) -> u16 {
        u16::try_from(self.place(index).0).unwrap_or(u16::MAX)
    }

    /// Pages of a page group; the last one of an area may be shorter.
    fn group_pages(&self, group: usize) -> usize {
        index(self.pages()).saturating_sub(group * GROUP).clamp(1, GROUP)
    }

    /// View of a minipage, and its offset within the view.
    fn place(&self, index: u32) -> (usize, usize) {
        let index = index as usize;
        match self.shape {
            Shape::Sub { slot, per_page } => {
                let in_group = GROUP * usize::from(per_page);
                let (group, within) = (index / in_group, index % in_group);
                let pages = self.group_pages(group);
                let (view, page) = (within / pages, group * GROUP + within % pages);
                (view, page * PAGE_BYTES + view * slot as usize)
            }
            Shape::Pages { pages } => (0, index * pages as usize * PAGE_BYTES),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits: checked in lib.rs")]
pub(crate) const fn index(wide: u64) -> usize {
    wide as usize
}

#[expect(clippy::cast_possible_truncation, reason = "validate() keeps counts below 2^32")]
const fn low_half(wide: u64) -> u32 {
    wide as u32
}
