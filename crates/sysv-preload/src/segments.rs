//! Shared memory: shmget, shmat, shmdt, shmctl.
//!
//! A segment's bytes lie in a memory object of the site. This process maps it, and hands its userfaultfd to the site, which
//! guards the mapping before anybody can touch it.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::fd::RawFd;

use multigrain_types::PAGE_BYTES;
use multigrain_types::sysv::Ask;

use crate::datagrams::{Answered, Bytes, close};
use crate::site_connection::{ask, exchange, is_guarded, raised, set_guarded};
use crate::spin_lock::SpinLock;
use crate::waits::{Blocked, Wait};
use crate::{failed, returned};

const NEW_FROM_DEVICE: libc::c_ulong = 0xaa00;

/// shmget(2).
#[unsafe(no_mangle)]
pub extern "C" fn shmget(key: libc::key_t, bytes: usize, flags: c_int) -> c_int {
    let bytes = (bytes as u64).cast_signed();
    returned(ask(Ask::ShmGet, [key.into(), bytes, flags.into(), 0], Bytes::NONE))
}

/// shmat(2).
///
/// # Safety
/// As the system call: an address with SHM_REMAP replaces what is mapped there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    match attach(id, address.addr(), flags) {
        Ok(address) => core::ptr::with_exposed_provenance_mut(address),
        Err(errno) => {
            failed(errno);
            core::ptr::without_provenance_mut(usize::MAX)
        }
    }
}

/// shmdt(2).
///
/// # Safety
/// As the system call: nothing uses the segment's addresses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    let _no_signals = Blocked::new();
    DETACHING.lock();
    let detached = detach(address.addr());
    DETACHING.unlock();
    returned(detached.map(|()| 0))
}

/// One thread detaches at a time: of two that do so at one address the second finds nothing.
static DETACHING: SpinLock = SpinLock::new();

/// Pieces of an attach that one answer names.
const PIECES: usize = 64;

/// Unmaps the pieces that are left of an attach, and nothing between them.
fn detach(address: usize) -> Result<(), c_int> {
    let start = i64::try_from(address).unwrap_or(-1);
    loop {
        let mut pieces = [[0_usize; 2]; PIECES];
        let both = (Bytes::NONE, Bytes::of(&raw mut pieces));
        let all = exchange(Ask::ShmDetach, [start, 0, 0, 0], both, -1, Wait::Answer)?.result;
        for [start, bytes] in pieces.into_iter().filter(|[_, bytes]| *bytes > 0) {
            forget_read_only(start, bytes);
            // Returns when the site knows: it reads the event of the userfaultfd.
            unmap(start, bytes);
        }
        if usize::try_from(all).is_ok_and(|all| all <= PIECES) {
            return Ok(());
        }
    }
}

/// shmctl(2).
///
/// # Safety
/// As the system call: `about` is what the command wants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmctl(id: c_int, command: c_int, about: *mut libc::shmid_ds) -> c_int {
    let about = Bytes::of(about);
    let both = match command {
        libc::IPC_SET => (about, Bytes::NONE),
        libc::IPC_STAT | SHM_STAT | SHM_STAT_ANY | IPC_INFO | SHM_INFO => (Bytes::NONE, about),
        _ => (Bytes::NONE, Bytes::NONE),
    };
    let arguments = [id.into(), command.into(), 0, 0];
    returned(exchange(Ask::ShmControl, arguments, both, -1, Wait::Answer).map(|it| it.result))
}

const IPC_INFO: c_int = 3;
const SHM_STAT: c_int = 13;
const SHM_INFO: c_int = 14;
const SHM_STAT_ANY: c_int = 15;

/// Where an attach goes: chosen by the site, or by the program.
fn wanted(address: usize, flags: c_int) -> Result<Option<usize>, c_int> {
    if address == 0 {
        return if flags & libc::SHM_REMAP == 0 { Ok(None) } else { Err(libc::EINVAL) };
    }
    let rest = address % PAGE_BYTES;
    if rest == 0 {
        return Ok(Some(address));
    }
    let rounded = address - rest;
    if flags & libc::SHM_RND == 0 || rounded == 0 && flags & libc::SHM_REMAP != 0 {
        return Err(libc::EINVAL);
    }
    Ok(Some(rounded).filter(|&address| address != 0))
}

fn attach(id: c_int, address: usize, flags: c_int) -> Result<usize, c_int> {
    let wanted = wanted(address, flags)?;
    let none = (Bytes::NONE, Bytes::NONE);
    let arguments = [id.into(), flags.into(), 0, 0];
    let Answered { result, extra, descriptor } =
        exchange(Ask::ShmAttach, arguments, none, -1, Wait::Answer)?;
    let bytes = usize::try_from(result).unwrap_or(0).next_multiple_of(PAGE_BYTES);
    let attached = match (wanted, flags & libc::SHM_REMAP) {
        (None, _) => {
            let suggested = usize::try_from(extra[0]).unwrap_or(0);
            map(suggested, bytes, (descriptor, 0), libc::MAP_FIXED_NOREPLACE)
                .or_else(|_| map(0, bytes, (descriptor, 0), 0))
        }
        (Some(address), 0) => map(address, bytes, (descriptor, 0), libc::MAP_FIXED_NOREPLACE)
            .map_err(|errno| if errno == libc::EEXIST { libc::EINVAL } else { errno }),
        // Moved there when it is guarded and open: other threads may be reading what it replaces.
        (Some(_), _) => map(0, bytes, (descriptor, 0), 0),
    };
    // The mapping does not need it.
    close(descriptor);
    let attached = attached.and_then(|start| {
        let read_only = flags & libc::SHM_RDONLY != 0;
        let mut protection = libc::PROT_READ | if read_only { 0 } else { libc::PROT_WRITE };
        if flags & libc::SHM_EXEC != 0 {
            protection |= libc::PROT_EXEC;
        }
        let guarded = guard(id, (start, bytes), 0, protection, read_only);
        let placed = guarded.and_then(|()| match wanted {
            Some(address) if address != start => replace(address, start, bytes),
            Some(_) | None => Ok(start),
        });
        placed.inspect_err(|_| unmap(start, bytes))
    });
    attached.inspect_err(|_| {
        // Where it fails the site gives the attach back itself, with the last socket of this image.
        let _ = ask(Ask::ShmAbandon, [id.into(), 0, 0, 0], Bytes::NONE);
    })
}

/// Maps a memory object from an offset on, closed.
pub(crate) fn map(
    address: usize,
    bytes: usize,
    (object, offset): (RawFd, libc::off_t),
    how: c_int,
) -> Result<usize, c_int> {
    let place = core::ptr::without_provenance_mut(address);
    let how = libc::MAP_SHARED | how;
    // SAFETY: replaces mappings only if the program has said SHM_REMAP.
    let mapped = unsafe { libc::mmap(place, bytes, libc::PROT_NONE, how, object, offset) };
    if mapped == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM));
    }
    let at = mapped.expose_provenance();
    if how & libc::MAP_FIXED_NOREPLACE != 0 && at != address {
        // A kernel that does not know the flag.
        unmap(at, bytes);
        return Err(libc::EEXIST);
    }
    Ok(at)
}

/// Moves an attach over what is mapped at an address.
fn replace(address: usize, start: usize, bytes: usize) -> Result<usize, c_int> {
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: what lies there is replaced, as the program has said.
    let moved = unsafe { libc::syscall(libc::SYS_mremap, start, bytes, bytes, how, address) };
    if usize::try_from(moved) != Ok(address) {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM));
    }
    forget_read_only(address, bytes);
    move_read_only([start, bytes], [address, bytes]);
    Ok(address)
}

pub(crate) fn unmap(start: usize, bytes: usize) {
    // SAFETY: a mapping of this library that nobody uses any more.
    unsafe { libc::munmap(core::ptr::with_exposed_provenance_mut(start), bytes) };
}

/// Has the site guard a mapping that begins with a page of a segment, and opens it. `read_only`: for good.
pub(crate) fn guard(
    id: c_int,
    (start, bytes): (usize, usize),
    first_page: i64,
    protection: c_int,
    read_only: bool,
) -> Result<(), c_int> {
    let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let arguments = [id.into(), number(start), number(bytes), first_page];
    // One thread opens it; others wait for it.
    let no_signals = Blocked::new();
    OPENING.lock();
    let own = if is_guarded() { Ok(-1) } else { userfaultfd() };
    let none = (Bytes::NONE, Bytes::NONE);
    let guarded = own.and_then(|own| exchange(Ask::ShmGuard, arguments, none, own, Wait::Answer));
    if guarded.is_ok() {
        set_guarded();
    }
    OPENING.unlock();
    drop(no_signals);
    guarded?;
    let place: *mut c_void = core::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the mapping is ours and new.
    match unsafe { libc::syscall(libc::SYS_mprotect, place, bytes, protection) } {
        0 if !read_only || keep_read_only(start, start + bytes) => Ok(()),
        0 => Err(libc::ENOMEM),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM)),
    }
}

/// Attaches to read, as the first address and the one behind the last; zeroes where there is none. The memory object itself may
/// be written: userfaultfd guards mappings alone that may become writable (UFFDIO_REGISTER says EPERM of one of an O_RDONLY descriptor).
static READ_ONLY: [[AtomicUsize; 2]; 1024] =
    [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; 1024];

/// False if there are too many.
fn keep_read_only(start: usize, end: usize) -> bool {
    for [first, last] in &READ_ONLY {
        if first.compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            last.store(end, Ordering::Relaxed);
            return true;
        }
    }
    false
}

/// The part of an entry that lies in a range of addresses, if any does.
fn read_only_within(entry: &[AtomicUsize; 2], start: usize, end: usize) -> Option<[usize; 2]> {
    let [first, last] = [&entry[0], &entry[1]].map(|address| address.load(Ordering::Relaxed));
    let part = [first.max(start), last.min(end)];
    (first != 0 && part[0] < part[1]).then_some(part)
}

/// What lies in a range of addresses is there no more.
pub(crate) fn forget_read_only(start: usize, bytes: usize) {
    let end = start.saturating_add(bytes);
    for entry in &READ_ONLY {
        if read_only_within(entry, start, end).is_none() {
            continue;
        }
        let [first, last] = entry;
        let (before, behind) =
            (first.load(Ordering::Relaxed) < start, last.load(Ordering::Relaxed) > end);
        match (before, behind) {
            (false, false) => {
                last.store(0, Ordering::Relaxed);
                first.store(0, Ordering::Relaxed);
            }
            (false, true) => first.store(end, Ordering::Relaxed),
            (true, false) => last.store(start, Ordering::Relaxed),
            // If there is no room for two it stays one: what comes between cannot be opened to write.
            (true, true) if keep_read_only(end, last.load(Ordering::Relaxed)) => {
                last.store(start, Ordering::Relaxed);
            }
            (true, true) => {}
        }
    }
}

/// Mappings are elsewhere, or smaller.
fn move_read_only([from, bytes]: [usize; 2], [to, new_bytes]: [usize; 2]) {
    if from == to {
        return forget_read_only(from + new_bytes, bytes.saturating_sub(new_bytes));
    }
    for entry in &READ_ONLY {
        if let Some([start, end]) = read_only_within(entry, from, from + new_bytes) {
            // The old one leaves room, at the latest below.
            keep_read_only(start - from + to, end - from + to);
        }
    }
    forget_read_only(from, bytes);
}

/// mprotect(2): what was attached to read cannot be opened to write.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int {
    let (start, end) = (address.addr(), address.addr().saturating_add(bytes));
    let is_within = |[first, last]: &[AtomicUsize; 2]| {
        first.load(Ordering::Relaxed) < end && start < last.load(Ordering::Relaxed)
    };
    if protection & libc::PROT_WRITE != 0 && READ_ONLY.iter().any(is_within) {
        return failed(libc::EACCES);
    }
    // SAFETY: the caller's arguments.
    let changed = unsafe { libc::syscall(libc::SYS_mprotect, address, bytes, protection) };
    c_int::try_from(changed).unwrap_or(-1)
}

/// mremap(2), which has a fifth argument for MREMAP_FIXED: it lies where that of a function of five lies. What is attached does not
/// grow, and is mapped a second time by another attach alone: the kernel would not guard what is new.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    place: *mut c_void,
) -> *mut c_void {
    let pages = bytes.next_multiple_of(PAGE_BYTES);
    let doubles = bytes == 0 || flags & libc::MREMAP_DONTUNMAP != 0;
    if (new_bytes > pages || doubles) && is_guarded() {
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let arguments = [number(address.addr()), number(pages.max(1)), 0, 0];
        if ask(Ask::IsAttached, arguments, Bytes::NONE) == Ok(1) {
            failed(libc::ENOMEM);
            return libc::MAP_FAILED;
        }
    }
    // SAFETY: the caller's arguments.
    let moved = unsafe { libc::syscall(libc::SYS_mremap, address, bytes, new_bytes, flags, place) };
    let moved = usize::try_from(moved).unwrap_or(usize::MAX);
    if moved != usize::MAX {
        move_read_only([address.addr(), pages], [moved, new_bytes.next_multiple_of(PAGE_BYTES)]);
    }
    core::ptr::with_exposed_provenance_mut(moved)
}

/// In a child, the thread that was opening or detaching is its parent's.
pub(crate) fn in_child() {
    OPENING.unlock();
    DETACHING.unlock();
}

static OPENING: SpinLock = SpinLock::new();

/// The userfaultfd of this process. It stays open, so that accesses wait for ever if the site dies, and the process with it.
fn userfaultfd() -> Result<RawFd, c_int> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: takes flags.
    let opened = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let mut opened = RawFd::try_from(opened).unwrap_or(-1);
    if opened < 0 {
        let none = (Bytes::NONE, Bytes::NONE);
        let device = exchange(Ask::Device, [0; 4], none, -1, Wait::Answer)?.descriptor;
        // SAFETY: takes flags.
        opened = unsafe { libc::ioctl(device, NEW_FROM_DEVICE, flags) };
        close(device);
    }
    if opened < 0 {
        return Err(libc::EPERM);
    }
    Ok(raised(opened))
}
