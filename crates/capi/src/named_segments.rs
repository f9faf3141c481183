//! Named segments.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::time::Duration;

use multigrain_runtime::{Error, SegmentOptions, SegmentStat};
use multigrain_types::{Access, Compression, Consistency, Placement};

use crate::memory::{bytes_of, policy};
use crate::status::{calling, pointer, with_runtime};

/// `struct mg_segment_policy`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SegmentPolicy {
    size: usize,
    consistency: c_uint,
    placement: c_uint,
    grain: usize,
    window_us: u64,
    compression: c_uint,
}

/// `struct mg_segment_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SegmentFacts {
    address: *mut c_void,
    bytes: usize,
    grain: usize,
    library: c_int,
    consistency: c_uint,
    placement: c_uint,
    user: u32,
    group: u32,
    mode: u32,
    removed: c_int,
    attached_nodes: u32,
    access: c_int,
    attached: u64,
    attaches: u64,
    window_us: u64,
    read_faults: u64,
    write_faults: u64,
    wait_ns: u64,
    longest_wait_ns: u64,
    windows: u64,
    retries: u64,
    compression: c_uint,
    pages_tried: u64,
    pages_compressed: u64,
    raw_bytes: u64,
    sent_bytes: u64,
}

const READ_ONLY: c_int = 1;
const WAIT: c_int = 2;

/// `MG_SEGMENT_WINDOW`.
const WINDOW: c_uint = 1;

impl SegmentFacts {
    fn of(stat: &SegmentStat) -> Self {
        Self {
            address: core::ptr::with_exposed_provenance_mut(stat.address),
            bytes: stat.bytes,
            grain: stat.sharing.grain,
            library: stat.library.0.into(),
            consistency: match stat.sharing.consistency {
                Consistency::Sequential => 1,
                Consistency::EagerRelease => 2,
                Consistency::LazyRelease => 3,
                Consistency::Auto => 4,
            },
            placement: match stat.sharing.placement {
                Placement::Allocator => 0,
                Placement::Spread => 1,
                Placement::First => 2,
                Placement::Block => 3,
            },
            user: stat.rights.user,
            group: stat.rights.group,
            mode: stat.rights.mode,
            removed: stat.uses.removed.into(),
            attached_nodes: stat.uses.nodes.into(),
            access: match stat.uses.access {
                Access::NoAccess => 0,
                Access::ReadOnly => 1,
                Access::ReadWrite => 2,
            },
            attached: stat.uses.attached,
            attaches: stat.uses.attaches,
            window_us: u64::try_from(stat.sharing.window.as_micros()).unwrap_or(u64::MAX),
            read_faults: stat.shares.read_faults,
            write_faults: stat.shares.write_faults,
            wait_ns: stat.shares.wait_ns,
            longest_wait_ns: stat.shares.longest_wait_ns,
            windows: stat.shares.windows,
            retries: stat.shares.retries,
            compression: match stat.sharing.compression {
                Compression::None => 0,
                Compression::RunLength => 1,
                Compression::Lz4 => 2,
                Compression::Zstd => 3,
            },
            pages_tried: stat.compressed.tried,
            pages_compressed: stat.compressed.pages,
            raw_bytes: stat.compressed.raw_bytes,
            sent_bytes: stat.compressed.sent_bytes,
        }
    }
}

/// What a program asks for; NULL asks for nothing.
///
/// # Safety
/// `asked` is NULL or points to a policy of the size that it says.
unsafe fn options(asked: *const SegmentPolicy) -> Result<SegmentOptions, Error> {
    let mut options = SegmentOptions::default();
    if asked.is_null() {
        return Ok(options);
    }
    // SAFETY: not NULL, so it begins with its size.
    let size = unsafe { asked.cast::<usize>().read() };
    if size != size_of::<SegmentPolicy>() {
        let line =
            format!("a segment policy of {size} bytes: size is sizeof(struct mg_segment_policy)");
        return Err(Error::Invalid(line));
    }
    // SAFETY: it has the size of a policy.
    let policy = unsafe { asked.read() };
    let SegmentPolicy { consistency, placement, grain, window_us, compression, .. } = policy;
    options.window = Duration::from_micros(window_us);
    options.policy = self::policy(consistency)?;
    options.compression = match compression {
        0 => Compression::None,
        1 => Compression::RunLength,
        2 => Compression::Lz4,
        3 => Compression::Zstd,
        _ => {
            return Err(Error::Invalid(format!(
                "{compression} is no compression: see mg_compression"
            )));
        }
    };
    if grain != 0 {
        options.policy = options.policy.grain(grain);
    }
    options.placement = Some(match placement {
        0 => Placement::Allocator,
        1 => Placement::Spread,
        2 => Placement::First,
        3 => Placement::Block,
        _ => return Err(Error::Invalid(format!("{placement} is no placement: see mg_placement"))),
    });
    Ok(options)
}

/// Makes a segment under a name.
///
/// # Safety
/// `name` is NULL or a C string; `policy` is NULL or points to a policy of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_segment_create(
    name: *const c_char,
    bytes: usize,
    mode: c_uint,
    policy: *const SegmentPolicy,
) -> c_int {
    with_runtime(|runtime| {
        // SAFETY: the caller gives NULL or a C string.
        let name = unsafe { bytes_of(name) }?;
        // SAFETY: the caller gives NULL or a policy.
        let options = unsafe { options(policy) }?;
        runtime.segment_create(name, bytes, mode, options)
    })
}

/// Attaches to the segment of a name.
///
/// # Safety
/// `name` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_segment_attach(name: *const c_char, flags: c_int) -> *mut c_void {
    pointer(calling(|runtime| {
        // SAFETY: the caller gives NULL or a C string.
        let name = unsafe { bytes_of(name) }?;
        if flags & !(READ_ONLY | WAIT) != 0 {
            let line =
                format!("flags {flags:#x}: MG_SEGMENT_READ_ONLY, MG_SEGMENT_WAIT, both or 0");
            return Err(Error::Invalid(line));
        }
        runtime.segment_attach(name, flags & READ_ONLY == 0, flags & WAIT != 0)
    }))
}

/// Ends an attach.
#[unsafe(no_mangle)]
pub extern "C" fn mg_segment_detach(p: *const c_void) -> c_int {
    with_runtime(|runtime| runtime.segment_detach(p.addr()))
}

/// Takes the name of a segment away.
///
/// # Safety
/// `name` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_segment_remove(name: *const c_char) -> c_int {
    with_runtime(|runtime| {
        // SAFETY: the caller gives NULL or a C string.
        runtime.segment_remove(unsafe { bytes_of(name) }?)
    })
}

/// Sets an option of pages of a segment.
#[unsafe(no_mangle)]
pub extern "C" fn mg_segment_set(
    p: *const c_void,
    bytes: usize,
    option: c_uint,
    value: u64,
) -> c_int {
    with_runtime(|runtime| match option {
        WINDOW => runtime.segment_set_window(p.addr(), bytes, Duration::from_micros(value)),
        _ => Err(Error::Invalid(format!("{option} is no option: see mg_segment_option"))),
    })
}

/// Locks pages to write.
#[unsafe(no_mangle)]
pub extern "C" fn mg_write_lock(p: *const c_void, bytes: usize) -> c_int {
    with_runtime(|runtime| runtime.write_lock(p.addr(), bytes))
}

/// Unlocks them.
#[unsafe(no_mangle)]
pub extern "C" fn mg_write_unlock(p: *const c_void, bytes: usize) -> c_int {
    with_runtime(|runtime| runtime.write_unlock(p.addr(), bytes))
}

/// # Safety
/// `out` is NULL or has room for `size` bytes.
unsafe fn give(
    out: *mut SegmentFacts,
    size: usize,
    stat: impl FnOnce() -> Result<SegmentStat, Error>,
) -> Result<(), Error> {
    if out.is_null() || size != size_of::<SegmentFacts>() {
        let line = "NULL for what is known of a segment, or a size that is not its structure's";
        return Err(Error::Invalid(line.into()));
    }
    let facts = SegmentFacts::of(&stat()?);
    // SAFETY: the caller gives room for it.
    unsafe { out.write(facts) };
    Ok(())
}

/// The segment of a name, as it is now.
///
/// # Safety
/// `name` is NULL or a C string; `out` is NULL or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_segment_stat(
    name: *const c_char,
    out: *mut SegmentFacts,
    size: usize,
) -> c_int {
    with_runtime(|runtime| {
        // SAFETY: the caller gives NULL or a C string.
        let name = unsafe { bytes_of(name) }?;
        // SAFETY: the caller gives NULL or room.
        unsafe { give(out, size, || runtime.segment_stat(name)) }
    })
}

/// The segment at an address, as it is now.
///
/// # Safety
/// `out` is NULL or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_segment_stat_at(
    p: *const c_void,
    out: *mut SegmentFacts,
    size: usize,
) -> c_int {
    with_runtime(|runtime| {
        // SAFETY: the caller gives NULL or room.
        unsafe { give(out, size, || runtime.segment_stat_at(p.addr())) }
    })
}
