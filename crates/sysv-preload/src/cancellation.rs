//! Threads that are cancelled (pthread_cancel(3)) while they wait in a call that is a cancellation point.
//!
//! The C library ends such a wait by a signal, and unwinds from where it was. Frames of this library cannot be unwound: cancellation
//! is off while a call is under way. So pthread_cancel is taken here, has the site end the call of a thread that waits, and the
//! thread acts on it in the function that the program called, which has nothing to undo.

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::os::fd::RawFd;

use multigrain_types::PAGE_BYTES;
use multigrain_types::sysv::Ask;

use crate::datagrams::{Bytes, send};
use crate::spin_lock::SpinLock;
use crate::waits::Blocked;

/// A thread in a call.
struct Waiter {
    /// 0 where there is none.
    thread: AtomicUsize,
    socket: AtomicI32,
    /// Its call was ended for it to be cancelled.
    is_ended: AtomicBool,
}

impl Waiter {
    const fn none() -> Self {
        let (thread, socket) = (AtomicUsize::new(0), AtomicI32::new(-1));
        Self { thread, socket, is_ended: AtomicBool::new(false) }
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        let eintr = i64::from(libc::EINTR);
        // Of a site that is gone the answer tells.
        let _ = send(
            self.socket.load(Ordering::Relaxed),
            Ask::Cancel,
            [eintr, 0, 0, 0],
            Bytes::NONE,
            -1,
        );
    }
}

/// What finds no room here is cancelled when its call is over.
static WAITERS: [Waiter; 256] = [const { Waiter::none() }; 256];
/// Threads that were cancelled while they were none of these: one may be about to wait.
static CANCELLED: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
static ANY_CANCELLED: AtomicBool = AtomicBool::new(false);
/// Who has all of these. No handler may run meanwhile: one that came to this would wait for its own thread.
static CHANGING: SpinLock = SpinLock::new();

fn this_thread() -> usize {
    // SAFETY: takes nothing.
    usize::try_from(unsafe { libc::pthread_self() }).unwrap_or(0)
}

/// The places of a thread, beginning with the one that it has if no other came before it.
fn places_of(thread: usize) -> impl Iterator<Item = &'static Waiter> {
    let (before, from) = WAITERS.split_at(thread / PAGE_BYTES % WAITERS.len());
    from.iter().chain(before)
}

fn find(thread: usize) -> Option<&'static Waiter> {
    places_of(thread).find(|waiter| waiter.thread.load(Ordering::Relaxed) == thread)
}

/// Whether a thread was cancelled before it came to wait; it is forgotten.
fn was_cancelled(thread: usize) -> bool {
    let is_it = |place: &&AtomicUsize| place.load(Ordering::Relaxed) == thread;
    let found =
        if ANY_CANCELLED.load(Ordering::Relaxed) { CANCELLED.iter().find(is_it) } else { None };
    found.map(|place| place.store(0, Ordering::Relaxed)).is_some()
}

/// This thread is in a call on a socket. Signals are blocked.
pub(crate) fn begins(socket: RawFd) {
    let thread = this_thread();
    CHANGING.with(|| {
        // One that a handler has jumped out of a call has a place still.
        let mut places = places_of(thread);
        let is_free =
            |waiter: &&Waiter| [0, thread].contains(&waiter.thread.load(Ordering::Relaxed));
        let Some(waiter) = places.find(is_free) else { return };
        waiter.thread.store(thread, Ordering::Relaxed);
        waiter.socket.store(socket, Ordering::Relaxed);
        waiter.is_ended.store(false, Ordering::Relaxed);
        if was_cancelled(thread) {
            waiter.end();
        }
    });
}

/// The call is over; whether it was ended for the thread to be cancelled. Signals are blocked.
pub(crate) fn ends() -> bool {
    let thread = this_thread();
    CHANGING.with(|| {
        find(thread).is_some_and(|waiter| {
            waiter.thread.store(0, Ordering::Relaxed);
            waiter.is_ended.load(Ordering::Relaxed)
        })
    })
}

/// In a child there is one thread, which is in no call.
pub(crate) fn in_child() {
    WAITERS.iter().for_each(|waiter| waiter.thread.store(0, Ordering::Relaxed));
    CHANGING.unlock();
}

unsafe extern "C-unwind" {
    /// The thread ends here if it was cancelled.
    fn pthread_testcancel();
}

/// A cancellation point. To be called by functions alone that the program calls, with nothing that is to be dropped.
pub(crate) fn point() {
    // SAFETY: takes nothing.
    unsafe { pthread_testcancel() };
}

/// The error of a call that was ended for its thread to be cancelled: it reaches a cancellation point, and tries again if it is not.
pub(crate) const ENDED: c_int = c_int::MAX;

/// The C library's.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// pthread_cancel(3).
///
/// # Safety
/// As the C library's: a thread that was not joined.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: libc::pthread_t) -> c_int {
    type Function = unsafe extern "C-unwind" fn(libc::pthread_t) -> c_int;
    let mut next = NEXT.load(Ordering::Relaxed);
    if next.is_null() {
        // SAFETY: a string that ends.
        next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_cancel".as_ptr()) };
        NEXT.store(next, Ordering::Relaxed);
    }
    if next.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: the C library's function of this name.
    let function = unsafe { transmute::<*mut c_void, Function>(next) };
    // SAFETY: the caller's thread.
    let asked = unsafe { function(thread) };
    if asked == 0 {
        end_call_of(usize::try_from(thread).unwrap_or(0));
    }
    asked
}

fn end_call_of(thread: usize) {
    let _no_signals = Blocked::new();
    CHANGING.with(|| match find(thread) {
        Some(waiter) => waiter.end(),
        None => {
            let free = CANCELLED.iter().find(|place| place.load(Ordering::Relaxed) == 0);
            // Of many that never came to wait the first makes room.
            free.unwrap_or(&CANCELLED[0]).store(thread, Ordering::Relaxed);
            ANY_CANCELLED.store(true, Ordering::Relaxed);
        }
    });
}
