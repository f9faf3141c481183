//! Processes that write the pages of a segment while these are taken away: nothing is lost.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt as _;
use std::ptr::null_mut;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{
    MapFlags, ProtFlags, UserfaultfdFlags, mmap, mmap_anonymous, munmap, userfaultfd,
};
use rustix::process::{Pid, WaitOptions, waitpid};

use super::*;

const AREA: AreaId = AreaId(7);
const PAGES: usize = 4;
const BYTES: usize = PAGES * PAGE_BYTES;
/// Where the node would have the segment.
const PLACE: usize = 0x1000_0000;

/// A fork waits until every userfaultfd of its process has told of it: one test at a time has one.
static FORKS: Mutex<()> = Mutex::new(());

/// A site with one segment, and what its node has of it: a lock for each page, and its access.
struct Site {
    exports: Exports,
    /// The privileged view.
    contents: usize,
    access: [Mutex<Access>; PAGES],
    ends: AtomicBool,
}

impl Site {
    fn new() -> Self {
        let exports = Exports::default();
        exports.lock().add_segment(AREA, 3, PLACE, BYTES - 5).unwrap();
        let flags = MapFlags::PRIVATE;
        // SAFETY: new memory.
        let contents =
            unsafe { mmap_anonymous(null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let contents = contents.unwrap().expose_provenance();
        let access = core::array::from_fn(|_| Mutex::new(Access::ReadWrite));
        Self { exports, contents, access, ends: AtomicBool::new(false) }
    }

    fn page(&self, page: usize) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.contents + page * PAGE_BYTES)
    }

    /// The node's access to a page becomes that.
    fn change(&self, page: usize, to: Access) {
        let mut access = self.access[page].lock().unwrap();
        let bytes = (page * PAGE_BYTES) as u64..((page + 1) * PAGE_BYTES) as u64;
        assert!(self.exports.lock().change(AREA, bytes, self.page(page), to).unwrap());
        *access = to;
    }

    /// Maps the segment into this process, guarded.
    fn attach(&self) -> (ImageKey, usize) {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // SAFETY: registered on the mapping below alone.
        let own = unsafe { userfaultfd(flags) }.unwrap();
        let mut exports = self.exports.lock();
        let key = exports.add_image(1, 1, own).unwrap();
        let (object, place) = exports.segment(3).unwrap();
        assert_eq!(place, PLACE);
        // SAFETY: new memory.
        let start = unsafe {
            mmap(null_mut(), BYTES, ProtFlags::empty(), MapFlags::SHARED, object.as_fd(), 0)
        };
        let start = start.unwrap().expose_provenance();
        exports.guard(key, 3, start, BYTES).unwrap();
        let place = core::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the mapping above.
        unsafe {
            rustix::mm::mprotect(
                place,
                BYTES,
                rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE,
            )
        }
        .unwrap();
        (key, start)
    }

    /// Serves the faults of all images, as a node that gets every page at once.
    fn serve(&self) {
        let mut images = Vec::new();
        while !self.ends.load(Ordering::Relaxed) {
            while let Some(notification) = self.exports.lock().next_notification() {
                if let Notification::NewImage(key) = notification {
                    images.push(key);
                }
            }
            let ways: Vec<_> =
                images.iter().filter_map(|key| self.exports.lock().descriptors_of(*key)).collect();
            let mut wanted: Vec<_> = ways
                .iter()
                .map(|(userfault, _)| PollFd::new(&userfault.0, PollFlags::IN))
                .collect();
            let soon = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let _ = poll(&mut wanted, Some(&soon));
            for key in &images {
                let faults = self.exports.lock().faults(*key).unwrap_or_default();
                for fault in faults {
                    let (place, _) = self.exports.lock().place(*key, fault).unwrap();
                    let page = (place - PLACE) / PAGE_BYTES;
                    let mut access = self.access[page].lock().unwrap();
                    *access = if fault.writes {
                        Access::ReadWrite
                    } else {
                        (*access).max(Access::ReadOnly)
                    };
                    let from = (place, || self.page(page).cast_const());
                    self.exports.lock().export(*key, fault, from).unwrap();
                }
            }
        }
    }
}

/// Ends [`Site::serve`], also of a test that fails.
struct EndOfService<'a>(&'a AtomicBool);

impl Drop for EndOfService<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The first word of a page as processes have it.
fn counter(start: usize, page: usize) -> &'static AtomicU64 {
    let place: *const AtomicU64 = core::ptr::with_exposed_provenance(start + page * PAGE_BYTES);
    // SAFETY: mapped, aligned, and used as an atomic alone.
    unsafe { &*place }
}

/// As the system call: the C library's function holds the locks of its allocator until the event is read, which who reads it needs.
fn fork() -> i32 {
    // SAFETY: the child makes system calls and atomic additions, and ends.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    i32::try_from(child).unwrap()
}

/// A child that adds to each page in turn, and one of its own that does as well.
fn adder(start: usize, rounds: usize) -> i32 {
    let add = move |rounds: usize| {
        for round in 0..rounds {
            counter(start, round % PAGES).fetch_add(1, Ordering::SeqCst);
        }
    };
    match fork() {
        0 => {
            add(rounds / 2);
            let child = fork();
            add(rounds / 2);
            if child > 0 {
                // SAFETY: takes numbers.
                unsafe { libc::waitpid(child, null_mut(), 0) };
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        child => child,
    }
}

#[test]
fn what_processes_write_survives_that_pages_are_taken_away() {
    const ROUNDS: usize = 4_000;
    let _alone = FORKS.lock().unwrap_or_else(PoisonError::into_inner);
    let site = Site::new();
    thread::scope(|scope| {
        scope.spawn(|| site.serve());
        let _end = EndOfService(&site.ends);
        let (key, start) = site.attach();
        // Before the first fork, which has to be served.
        counter(start, 0).fetch_add(0, Ordering::SeqCst);
        let children = [adder(start, ROUNDS), adder(start, ROUNDS)];
        let mut turn = 0_usize;
        let mut taken = 0;
        for child in children {
            let child = Pid::from_raw(child).unwrap();
            while waitpid(Some(child), WaitOptions::NOHANG).unwrap().is_none() {
                turn += 1;
                let to = if turn.is_multiple_of(3) { Access::ReadOnly } else { Access::NoAccess };
                site.change(turn % PAGES, to);
                taken += 1;
            }
        }
        (0..PAGES).for_each(|page| site.change(page, Access::NoAccess));
        let sum: u64 = (0..PAGES).map(|page| counter_at(site.page(page))).sum();
        // Each child makes half of its additions before it forks, and both make the other half.
        let all = 2 * (ROUNDS / 2 + 2 * (ROUNDS / 2)) as u64;
        assert_eq!(sum, all, "pages were taken away {taken} times");
        // Who serves takes what it is told of, too.
        let mut exports = site.exports.lock();
        exports.sweep();
        assert!(exports.pieces(key, start) == [(start, BYTES)], "this process lives");
        let told = core::iter::from_fn(|| exports.next_notification());
        let is_detached =
            |notification: &Notification| matches!(notification, Notification::Detached { .. });
        assert_eq!(told.filter(is_detached).count(), 4);
        drop(exports);
        let place = core::ptr::with_exposed_provenance_mut(start);
        // SAFETY: nobody uses it any more.
        unsafe { munmap(place, BYTES) }.unwrap();
    });
}

fn counter_at(page: *mut u8) -> u64 {
    // SAFETY: the privileged view, which nobody changes now.
    unsafe { page.cast::<u64>().read() }
}

#[test]
fn a_page_that_is_there_is_read_without_anybody() {
    let _alone = FORKS.lock().unwrap_or_else(PoisonError::into_inner);
    let site = Site::new();
    let (key, start) = site.attach();
    let fault = Fault { address: start, writes: false, is_missing: true };
    // SAFETY: the privileged view.
    unsafe { site.page(0).cast::<u64>().write(42) };
    site.exports.lock().export(key, fault, (PLACE, || site.page(0).cast_const())).unwrap();
    // Nobody serves faults here: one would never end.
    assert_eq!(counter(start, 0).load(Ordering::SeqCst), 42);
    assert!(site.exports.lock().faults(key).unwrap().is_empty());
    let (object, _) = site.exports.lock().segment(3).unwrap();
    assert!(object.as_raw_fd() > 2);
    // Unmapping waits until the event is read, and detaches.
    let unmaps = thread::spawn(move || {
        let place = core::ptr::with_exposed_provenance_mut(start);
        // SAFETY: nobody uses it any more.
        unsafe { munmap(place, BYTES) }.unwrap();
    });
    while !unmaps.is_finished() {
        assert!(site.exports.lock().faults(key).unwrap().is_empty());
    }
    unmaps.join().unwrap();
    assert_eq!(site.exports.lock().pieces(key, start), []);
}

/// The entry of a page of this process in /proc/self/pagemap: whether something is mapped there, and whether it is write-protected.
fn mapped(address: usize) -> (bool, bool) {
    let mut entry = [0; 8];
    let file = std::fs::File::open("/proc/self/pagemap").unwrap();
    file.read_exact_at(&mut entry, (address / PAGE_BYTES * 8) as u64).unwrap();
    let entry = u64::from_ne_bytes(entry);
    (entry >> 63 & 1 != 0, entry >> 57 & 1 != 0)
}

#[test]
fn what_a_fault_gets_is_mapped_before_its_thread_goes_on() {
    let _alone = FORKS.lock().unwrap_or_else(PoisonError::into_inner);
    let site = Site::new();
    let (key, start) = site.attach();
    for (page, writes) in [(0, false), (1, true)] {
        let address = start + page * PAGE_BYTES;
        let place = PLACE + page * PAGE_BYTES;
        let contents = || site.page(page).cast_const();
        let fault = Fault { address, writes, is_missing: true };
        site.exports.lock().export(key, fault, (place, contents)).unwrap();
        assert_eq!(mapped(address), (true, !writes), "page {page}");
    }
}
