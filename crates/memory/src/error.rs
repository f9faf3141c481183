//! Errors of the memory layer; each message says what to do about it.
//!
//! Errors hold numbers only, so that making one never allocates: hot paths run in signal context.

use multigrain_types::{AreaId, MinipageId};
use rustix::io::Errno;

use crate::access_path::AccessPath;
use crate::guard_kind::GuardKind;
use crate::segment_id::SegmentId;

/// An error of the memory layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The kernel's pages are not the 4 KiB this build counts in.
    #[error("this kernel has pages of {bytes} bytes: boot one with pages of 4096 bytes")]
    PageSize {
        /// Bytes of the kernel's pages.
        bytes: usize,
    },
    /// The shared size asked for is zero or too large.
    #[error("a shared size of {bytes} bytes is not within 1 to {limit}: choose another size")]
    SharedSize {
        /// Bytes asked for.
        bytes: u64,
        /// The most bytes there can be.
        limit: u64,
    },
    /// The memory object would be larger than the user's limits allow.
    #[error(
        "{bytes} shared bytes are more than `ulimit {flag}` allows: say `ulimit {flag} unlimited`, or \
         choose a smaller `multigrain run --shared`"
    )]
    Ulimit {
        /// Bytes asked for.
        bytes: u64,
        /// The limit, as the shell calls it.
        flag: &'static str,
    },
    /// The tables of the memory layer find no room among the process's addresses.
    #[error(
        "no room for tables of {bytes} bytes of addresses, which cost memory as they are used: raise \
         `ulimit -v` and `ulimit -d`, by a few times as much or to unlimited"
    )]
    NoAddresses {
        /// Bytes of addresses wanted.
        bytes: usize,
    },
    /// An area breaks a rule of the layout; if it came from a peer, the peer is wrong.
    #[error("area {} at {base:#x} of {bytes} bytes is not valid: {rule}", .id.0)]
    BadArea {
        /// The area's id.
        id: AreaId,
        /// Its first address.
        base: usize,
        /// Bytes of one of its views.
        bytes: u64,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// The id is in use on this node.
    #[error("area {} is mapped already: choose another id", .id.0)]
    AreaExists {
        /// The area's id.
        id: AreaId,
    },
    /// No such area is mapped here.
    #[error("area {} is not mapped on this node: map it first", .id.0)]
    UnknownArea {
        /// The area's id.
        id: AreaId,
    },
    /// The area has no minipage of that index.
    #[error("{minipage} does not exist: its area has {count} minipages")]
    UnknownMinipage {
        /// The minipage asked for.
        minipage: MinipageId,
        /// Minipages in its area.
        count: u32,
    },
    /// A page range leaves its area.
    #[error("pages {start}..{end} leave area {}, which has {pages} pages", .id.0)]
    PageRange {
        /// The area's id.
        id: AreaId,
        /// First page asked for.
        start: u32,
        /// Page after the last one asked for.
        end: u32,
        /// Pages in the area.
        pages: u64,
    },
    /// Only areas mapped as fresh can be populated.
    #[error("area {} is not fresh on this node: its minipages come from their holders", .id.0)]
    NotFresh {
        /// The area's id.
        id: AreaId,
    },
    /// Something else of this process lies where shared memory has to be.
    #[error(
        "addresses {address:#x} to {end:#x} are in use in this process: start it through \
         `multigrain run`, with one Memory only; docs/TOOLS.md says how with ThreadSanitizer"
    )]
    AddressTaken {
        /// First address wanted.
        address: usize,
        /// Address after the last one wanted.
        end: usize,
    },
    /// The mprotect guard has reached the kernel's limit of mappings.
    #[error(
        "too many minipages for the mprotect guard at {address:#x}: raise vm.max_map_count \
         or use --guard uffd"
    )]
    TooManyMinipages {
        /// The vpage whose protection could not be changed.
        address: usize,
    },
    /// The kernel's limit of mappings leaves no room for the views of an area.
    #[error(
        "no room to map area {} (views: {views}): raise vm.max_map_count, or allocate more \
         minipages at a time", .id.0
    )]
    TooManyViews {
        /// The area's id.
        id: AreaId,
        /// Its views.
        views: u16,
    },
    /// The limit of a process's addresses leaves no room for the views of an area.
    #[error(
        "no room to map area {} (views: {views}): `ulimit -v` allows {limit} bytes of addresses, which are used \
         up: raise it, or allocate less", .id.0
    )]
    AddressLimit {
        /// The area's id.
        id: AreaId,
        /// Its views.
        views: u16,
        /// Bytes of addresses that the limit allows.
        limit: u64,
    },
    /// What this crate has mapped is not mapped any more, or not guarded.
    #[error(
        "shared memory at {address:#x} is not mapped as it was: this program has unmapped or replaced it by a \
         system call of its own, and only mg_free takes it away"
    )]
    Unmapped {
        /// The first address of what was to be changed.
        address: usize,
    },
    /// A guard that was asked for by name does not work here.
    #[error(
        "the {guard} guard does not work here ({call}: {errno}): allow userfaultfd in the \
         container's seccomp profile (Linux 6.4 or newer), or use --guard mprotect"
    )]
    GuardUnavailable {
        /// The guard asked for.
        guard: GuardKind,
        /// The system call that failed.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// Scans for written pages do not work here.
    #[error(
        "writes cannot be found by scans here ({call}: {errno}): that takes Linux 6.7 or newer, and \
         userfaultfd allowed in containers"
    )]
    TrackingUnavailable {
        /// The system call that failed.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// Scans were asked for beside userfaultfd, and pages have one of them.
    #[error(
        "writes cannot be found by scans under the guard uffd, which has the pages' one userfaultfd: use --guard mprotect"
    )]
    TrackedAndGuarded,
    /// Addresses or lengths that are no whole pages.
    #[error("{bytes} bytes at {address:#x} are not whole pages, at least one: make them so")]
    NotWholePages {
        /// The address; 0 if none.
        address: usize,
        /// The bytes.
        bytes: u64,
    },
    /// The guard uffd does not work on every object.
    #[error(
        "the guard uffd does not work at {address:#x}, for the kernel has it for memfds and files \
         of /dev/shm only: use --guard mprotect"
    )]
    NotGuarded {
        /// The first address of the area.
        address: usize,
    },
    /// No such segment.
    #[error("segment {} is not there: add it first", .id.0)]
    UnknownSegment {
        /// The id.
        id: SegmentId,
    },
    /// No room for another segment.
    #[error("a node has at most {limit} segments: join some")]
    TooManySegments {
        /// Segments that there can be.
        limit: usize,
    },
    /// The physical memory for shared pages could not be had.
    #[error("no memory for {bytes} shared bytes at {address:#x} ({errno}): free or add memory")]
    OutOfMemory {
        /// Address in the privileged view.
        address: usize,
        /// Bytes wanted.
        bytes: usize,
        /// The kernel's error.
        errno: Errno,
    },
    /// This system, or a filter of it, refuses memory objects.
    #[error(
        "no memory to share (memfd_create: {errno}): allow it in the container's seccomp profile"
    )]
    NoObject {
        /// Its error.
        errno: Errno,
    },
    /// The access path that was asked for cannot be had here, or has no more room.
    #[error("no {bytes} shared bytes by --path {path} ({call}: {errno}): {remedy}")]
    NoPath {
        /// The path.
        path: AccessPath,
        /// The system call that failed.
        call: &'static str,
        /// Bytes wanted.
        bytes: u64,
        /// Its error.
        errno: Errno,
        /// What to do.
        remedy: &'static str,
    },
    /// The guard that was asked for does not work with the access path that was asked for.
    #[error(
        "the {guard} guard does not work with --path {path}, for the kernel has it for memfds, shared anonymous memory and files of a tmpfs only: use --guard mprotect with it"
    )]
    PathNotGuarded {
        /// The guard.
        guard: GuardKind,
        /// The path.
        path: AccessPath,
    },
    /// A system call failed in a way nothing above describes.
    #[error("{call} of {bytes} bytes at {address:#x} failed: {errno}")]
    System {
        /// The system call.
        call: &'static str,
        /// The address it was about; 0 if none.
        address: usize,
        /// The bytes it was about.
        bytes: usize,
        /// Its error.
        errno: Errno,
    },
}
