//! Tracked pages in small: a memfd mapped among the addresses of the views, and a handler that lets
//! the tracker answer. Traps are counted per thread.
#![expect(unsafe_code, reason = "maps memory, installs a signal handler and touches pages")]
#![allow(clippy::unwrap_used, reason = "this is test code")]
#![allow(dead_code, reason = "the tests and the example use their own part")]

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::siginfo_t;
use multigrain_memory::{MemoryError, Tracking, TrackingKind, VIEWS_BASE, tracking};
use multigrain_types::PAGE_BYTES;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

static ONE: Mutex<()> = Mutex::new(());
static TRACKER: AtomicPtr<Box<dyn Tracking>> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    static TRAPS: Cell<u64> = const { Cell::new(0) };
}

/// The traps of this thread since the last call.
pub(crate) fn take_traps() -> u64 {
    TRAPS.replace(0)
}

pub(crate) struct Tracked {
    tracker: *mut Box<dyn Tracking>,
    pages: usize,
    _only: MutexGuard<'static, ()>,
}

impl Tracked {
    /// So many pages, attached; None, with a line of output, where the tracker does not work.
    pub(crate) fn start(kind: TrackingKind, pages: usize) -> Option<Self> {
        let only = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let tracker = match tracking(kind) {
            Ok(tracker) => Box::into_raw(Box::new(tracker)),
            Err(error @ MemoryError::TrackingUnavailable { .. }) => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        map(pages);
        TRACKER.store(tracker, Ordering::SeqCst);
        install();
        let tracked = Self { tracker, pages, _only: only };
        // SAFETY: just mapped, of a memfd; the handler answers its traps.
        unsafe { tracked.tracker().attach(VIEWS_BASE, pages * PAGE_BYTES) }.expect("attached");
        take_traps();
        Some(tracked)
    }

    pub(crate) fn tracker(&self) -> &dyn Tracking {
        // SAFETY: leaked by start(), and taken back when `self` is dropped.
        &**unsafe { &*self.tracker }
    }

    /// The numbers of the pages that a scan of these names.
    pub(crate) fn scan(&self, pages: Range<usize>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut name = |named: Range<usize>| {
            assert!(
                named.start.is_multiple_of(PAGE_BYTES)
                    && named.len().is_multiple_of(PAGE_BYTES)
                    && !named.is_empty()
            );
            found.extend(named.step_by(PAGE_BYTES).map(|page| (page - VIEWS_BASE) / PAGE_BYTES));
        };
        let (start, bytes) = (address(pages.start), pages.len() * PAGE_BYTES);
        self.tracker().scan(start, bytes, &mut name).expect("a scan");
        found
    }

    pub(crate) fn scan_all(&self) -> Vec<usize> {
        self.scan(0..self.pages)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let start = std::ptr::with_exposed_provenance_mut(VIEWS_BASE);
        // SAFETY: mapped by start(), and its threads have been joined.
        unsafe { munmap(start, self.pages * PAGE_BYTES) }.expect("unmapped");
        TRACKER.store(std::ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: the box that start() leaked.
        drop(unsafe { Box::from_raw(self.tracker) });
    }
}

/// Runs a test once for each tracker.
pub(crate) fn with_trackers(pages: usize, test: impl Fn(&Tracked)) {
    for kind in [TrackingKind::Faults, TrackingKind::Scans] {
        if let Some(tracked) = Tracked::start(kind, pages) {
            test(&tracked);
        }
    }
}

/// The first address of a page.
pub(crate) fn address(page: usize) -> usize {
    VIEWS_BASE + page * PAGE_BYTES
}

fn word(address: usize) -> *mut u32 {
    std::ptr::with_exposed_provenance_mut(address)
}

pub(crate) fn read(address: usize) -> u32 {
    // SAFETY: tests pass addresses of the mapped pages; a trap opens them and the access is retried.
    unsafe { word(address).read_volatile() }
}

pub(crate) fn write(address: usize, value: u32) {
    // SAFETY: tests pass addresses of the mapped pages; a trap opens them and the access is retried.
    unsafe { word(address).write_volatile(value) }
}

/// Drops the entry of a page, as the kernel may.
pub(crate) fn lose_entry(page: usize) {
    let start = word(address(page)).cast::<c_void>();
    // SAFETY: drops an entry of a shared mapping, which loses no byte.
    let done = unsafe { libc::madvise(start, PAGE_BYTES, libc::MADV_DONTNEED) };
    assert_eq!(done, 0);
}

fn map(pages: usize) {
    let bytes = pages * PAGE_BYTES;
    let file = memfd_create(c"tracked", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, bytes as u64).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64).unwrap();
    let start = std::ptr::with_exposed_provenance_mut(VIEWS_BASE);
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
    // SAFETY: nothing is replaced, or the call fails.
    unsafe { mmap(start, bytes, protection, flags, file.as_fd(), 0) }.unwrap();
}

fn install() {
    let handler: extern "C" fn(i32, *mut siginfo_t, *mut c_void) = on_signal;
    // SAFETY: all-zero is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler has the signature SA_SIGINFO asks for.
    let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    assert_eq!(done, 0);
}

extern "C" fn on_signal(signal: i32, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: null, or the tracker of the test that is running.
    let handled = unsafe { TRACKER.load(Ordering::SeqCst).as_ref() }.and_then(|tracker| {
        let trap = tracker.decode(signal, info, context)?;
        TRAPS.set(TRAPS.get() + 1);
        tracker.open(trap).ok()
    });
    if handled.is_none() {
        // SAFETY: back to the default action, which ends the process at the retried access.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
