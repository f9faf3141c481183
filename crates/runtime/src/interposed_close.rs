//! Interposed `close`, `dup2`, `dup3`, `close_range` and `closefrom`: a program does not close the file
//! descriptors of its node.
//!
//! A program that closes all descriptors it has not opened, as daemons do, means all but these. To these calls
//! the node's descriptors look as if they were not open. In a child of the node they are not: fork() is such a call, too.

#![expect(unsafe_code, reason = "the C library's interface")]

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::os::fd::RawFd;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use multigrain_types::descriptor::open_by;
use rustix::thread::gettid;

const BITS: usize = u64::BITS as usize;
/// Descriptors from here on are not kept from the program: more than any node has.
const MOST: usize = 1 << 17;

/// One bit a descriptor: the node's own, to which links are added as they are made. None in a child.
static OWN: [AtomicU64; MOST / BITS] = [const { AtomicU64::new(0) }; MOST / BITS];

/// These are the node's, as long as it lives.
pub(crate) fn keep(descriptors: &[RawFd]) {
    for place in descriptors.iter().filter_map(|&one| usize::try_from(one).ok()) {
        if let Some(word) = OWN.get(place / BITS) {
            word.fetch_or(1 << (place % BITS), Ordering::Relaxed);
        }
    }
}

/// The threads that make links while the program runs, or end what is being made as the node leaves; 0 for none. What they
/// open is the node's from the first moment on, and they may close it.
static LINK_THREADS: [AtomicI32; 2] = [const { AtomicI32::new(0) }; 2];

/// How many calls of the program that close or fork are running; [`OPENING`] while a link thread opens or closes a descriptor.
static GATE: AtomicU32 = AtomicU32::new(0);
const OPENING: u32 = 1 << 31;
/// A call that closes may last (SO_LINGER), be interrupted by a handler that waits for the very link, or be left by longjmp and
/// by cancellation: then the descriptor is opened beside it.
/// A thread that has no processor in the middle of such a call is not that: of a hundred on two processors it may be without
/// one for a tenth of a second.
const MOST_WAIT: Duration = Duration::from_secs(1);
/// The same once that was over, until no call is running.
const NEXT_WAIT: Duration = Duration::from_millis(50);
/// Whether it was.
static IS_LASTING: AtomicBool = AtomicBool::new(false);
/// The link thread that has set [`OPENING`], once it knows; 0 for none.
static OPENER: AtomicI32 = AtomicI32::new(0);

/// The calling thread is one of [`LINK_THREADS`] as long as this lives.
pub(crate) struct LinkThread(usize);

impl LinkThread {
    /// The thread that makes links. It takes no signals of the program.
    pub(crate) fn of_links() -> Self {
        open_by(|open| {
            if !is_link_thread() {
                open();
                return;
            }
            alone(|| keep(open().as_slice()));
        });
        Self::at(0)
    }

    /// The thread that leaves.
    pub(crate) fn leaving() -> Self {
        Self::at(1)
    }

    fn at(place: usize) -> Self {
        LINK_THREADS[place].store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
        Self(place)
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        LINK_THREADS[self.0].store(0, Ordering::Relaxed);
    }
}

/// What a link thread does while no call of the program closes anything, if that can be had soon.
fn alone<T>(act: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let most = if IS_LASTING.load(Ordering::Relaxed) { NEXT_WAIT } else { MOST_WAIT };
    let own = gettid().as_raw_nonzero().get();
    let had = loop {
        match GATE.compare_exchange(0, OPENING, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => break true,
            // This thread's, around this.
            Err(now) if now & OPENING != 0 && OPENER.load(Ordering::Relaxed) == own => break false,
            Err(_) if since.elapsed() > most => {
                IS_LASTING.store(true, Ordering::Relaxed);
                break false;
            }
            Err(_) => yield_now(),
        }
    };
    if had {
        OPENER.store(own, Ordering::Relaxed);
    }
    let done = act();
    if had {
        OPENER.store(0, Ordering::Relaxed);
        GATE.store(0, Ordering::Release);
    }
    done
}

/// A call of the program that closes descriptors or forks begins: none is opened for a link meanwhile. A handler may make
/// one in the middle of another.
fn enter() {
    // A handler that has interrupted the leaving thread would wait for itself.
    if is_link_thread() {
        return;
    }
    let enter = |calls: u32| (calls & OPENING == 0).then_some(calls + 1);
    while GATE.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
        yield_now();
    }
}

fn leave() {
    if is_link_thread() {
        return;
    }
    // In a child it may have begun before the fork.
    let leave = |calls: u32| calls.checked_sub(1);
    if GATE.fetch_update(Ordering::Release, Ordering::Relaxed, leave) == Ok(1) {
        IS_LASTING.store(false, Ordering::Relaxed);
    }
}

/// What fork() does first: a child would keep a descriptor that is opened in the same moment, and peers take the end of a
/// stream for the end of its node.
pub(crate) extern "C" fn before_fork() {
    enter();
}

/// What fork() does in the parent before it returns.
pub(crate) extern "C" fn after_fork() {
    leave();
}

fn is_link_thread() -> bool {
    let threads = || LINK_THREADS.iter().map(|thread| thread.load(Ordering::Relaxed));
    threads().any(|thread| thread != 0) && {
        let own = gettid().as_raw_nonzero().get();
        threads().any(|thread| thread == own)
    }
}

/// The descriptors of one word of [`OWN`], ascending.
fn of_word(index: usize, mut bits: u64) -> impl Iterator<Item = RawFd> {
    core::iter::from_fn(move || {
        let place = (bits != 0).then(|| index * BITS + bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        RawFd::try_from(place).ok()
    })
}

/// Closes them, in a child. Allocates nothing and takes no lock.
pub(crate) fn close_all() {
    // No link thread is here.
    GATE.store(0, Ordering::Relaxed);
    for (index, word) in OWN.iter().enumerate() {
        let own = word.load(Ordering::Relaxed);
        if own == 0 {
            continue;
        }
        word.store(0, Ordering::Relaxed);
        for descriptor in of_word(index, own) {
            // SAFETY: the runtime uses it no more in this process.
            unsafe { libc::close(descriptor) };
        }
    }
}

#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
mod interposed {
    use core::ffi::{c_int, c_uint};

    use core::sync::atomic::Ordering;

    use super::{BITS, OWN, alone, enter, is_link_thread, leave, of_word};
    use crate::errno::fail;

    /// A call of the program that closes descriptors, as long as it lasts.
    struct Closing;

    impl Closing {
        fn begin() -> Self {
            enter();
            Self
        }
    }

    impl Drop for Closing {
        fn drop(&mut self) {
            leave();
        }
    }

    /// A link thread closes what it has opened.
    fn give_up(descriptor: c_int) {
        if let Ok(place) = usize::try_from(descriptor)
            && let Some(word) = OWN.get(place / BITS)
        {
            word.fetch_and(!(1 << (place % BITS)), Ordering::Relaxed);
        }
    }

    unsafe extern "C" {
        fn __close(descriptor: c_int) -> c_int;
        fn __dup2(from: c_int, to: c_int) -> c_int;
    }

    /// Whether a descriptor is kept from the program.
    fn is_kept(descriptor: c_int) -> bool {
        let Ok(place) = usize::try_from(descriptor) else { return false };
        let word = OWN.get(place / BITS).map_or(0, |word| word.load(Ordering::Relaxed));
        word & (1 << (place % BITS)) != 0
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn close(descriptor: c_int) -> c_int {
        if is_link_thread() {
            return alone(|| {
                give_up(descriptor);
                // SAFETY: the caller's promise.
                unsafe { __close(descriptor) }
            });
        }
        let _closing = Closing::begin();
        if is_kept(descriptor) {
            return fail(libc::EBADF);
        }
        // SAFETY: the caller's promise.
        unsafe { __close(descriptor) }
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
        let _closing = Closing::begin();
        if is_kept(to) {
            return fail(libc::EBUSY);
        }
        // SAFETY: the caller's promise.
        unsafe { __dup2(from, to) }
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        let _closing = Closing::begin();
        if is_kept(to) {
            return fail(libc::EBUSY);
        }
        // SAFETY: the caller's promise.
        let done = unsafe { libc::syscall(libc::SYS_dup3, from, to, flags) };
        c_int::try_from(done).unwrap_or(-1)
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if first > last {
            return fail(libc::EINVAL);
        }
        let _closing = Closing::begin();
        let mut next = u64::from(first);
        let words = OWN.iter().enumerate();
        let kept = words.flat_map(|(index, word)| of_word(index, word.load(Ordering::Relaxed)));
        let kept = kept.filter_map(|kept| c_uint::try_from(kept).ok());
        for kept in kept.filter(|kept| (first..=last).contains(kept)).map(u64::from) {
            if next < kept && close_each(next, kept - 1, flags) != 0 {
                return -1;
            }
            next = kept + 1;
        }
        if next > last.into() { 0 } else { close_each(next, last.into(), flags) }
    }

    /// The kernel's `close_range`, or errno.
    fn close_each(first: u64, last: u64, flags: c_int) -> c_int {
        // SAFETY: the caller of `close_range` owns these descriptors.
        let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
        c_int::try_from(done).unwrap_or(-1)
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn closefrom(first: c_int) {
        let first = c_uint::try_from(first).unwrap_or(0);
        // SAFETY: the caller's promise.
        unsafe { close_range(first, c_uint::MAX, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Its handler runs in the middle of what it does alone.
    #[test]
    fn a_handler_of_the_leaving_thread_closes_and_forks_beside_what_the_thread_does_alone() {
        let (said, answered) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let leaving = LinkThread::leaving();
            alone(|| {
                before_fork();
                after_fork();
                // SAFETY: there are no such descriptors.
                let duplicate = unsafe { libc::dup2(-1, -1) };
                said.send((duplicate, GATE.load(Ordering::Relaxed))).unwrap();
            });
            drop(leaving);
        });
        assert_eq!(answered.recv_timeout(Duration::from_secs(10)), Ok((-1, OPENING)));
        thread.join().unwrap();
        assert_eq!(GATE.load(Ordering::Relaxed) & OPENING, 0);
    }
}
