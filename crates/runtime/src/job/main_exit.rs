//! The main thread ends by `pthread_exit`: the process lives until its other threads have ended, then
//! leaves the job as after a return from main.
//!
//! The C library does that for a process whose threads have all ended; here helper threads of the runtime remain,
//! so one of them has to watch. The hook of the main thread's end does not allocate, since the allocator's own
//! hook may have run before.

#![expect(unsafe_code, reason = "a key of thread-specific data, and the end of the process")]

use core::cell::Cell;
use core::ffi::c_void;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use super::{RUNTIME, Runtime};
use crate::child;
use crate::error::Error;
use crate::pthread;
use crate::receiver::slots::{self, Reserved};
use crate::signal_reentrancy::Inside;
use crate::signals::SignalMask;
use crate::uncancellable::Uncancellable;

/// Between two looks at the threads of the process, which say nothing as they end.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

std::thread_local! {
    static IS_LAST: Cell<bool> = const { Cell::new(false) };
}

/// Whether the process ends in this thread because its main thread has ended, and not because the program says so.
pub(super) fn is_last() -> bool {
    IS_LAST.get()
}

/// The main thread's slot, once that has ended.
static LEFT: Mutex<Option<Reserved>> = Mutex::new(None);

/// Has the end of the main thread noticed, if that is who calls.
///
/// # Errors
/// [`Error::System`] if the process has no pthread key left.
pub(super) fn watch_main_thread() -> Result<(), Error> {
    if rustix::thread::gettid() != rustix::process::getpid() {
        return Ok(());
    }
    let mut key = 0;
    // SAFETY: `main_thread_ends` has the signature of a key destructor and `key` is a valid place.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(main_thread_ends)) };
    if failed != 0 {
        let error = std::io::Error::from_raw_os_error(failed);
        return Err(Error::System(format!("no pthread key is left for the main thread: {error}")));
    }
    // SAFETY: the key was just made; any value but NULL has the destructor called.
    unsafe { libc::pthread_setspecific(key, core::ptr::without_provenance(1)) };
    Ok(())
}

/// Not called when the process ends by exit() or a return from main. The key is older than that of the slots,
/// so this thread has its slot still. A child has none of the runtime's threads: the C library ends it.
unsafe extern "C" fn main_thread_ends(_: *mut c_void) {
    if child::is_one() {
        return;
    }
    let Some(runtime) = RUNTIME.get() else { return };
    let _uncancellable = Uncancellable::new();
    let _inside = Inside::new();
    *LEFT.lock().unwrap_or_else(PoisonError::into_inner) = slots::disown();
    runtime.driver.has_helper();
    let masked = SignalMask::block_all();
    // SAFETY: the function needs nothing.
    let created = unsafe { pthread::create(end_with_the_last, core::ptr::null_mut(), None) };
    drop(masked);
    if created.is_err() {
        runtime
            .launcher()
            .fatal("the main thread ended, and no thread can be started to wait for the others");
    }
}

unsafe extern "C-unwind" fn end_with_the_last(_: *mut c_void) -> *mut c_void {
    pthread::detach_own();
    pthread::name_own("mg-last");
    let slot = LEFT.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(slot);
    if let Some(runtime) = RUNTIME.get() {
        end_when_alone(runtime);
    }
    core::ptr::null_mut()
}

/// Waits until no thread of the program is left, and ends the process.
fn end_when_alone(runtime: &'static Runtime) {
    runtime.services.threads.stay(&runtime.driver);
    while !runtime.driver.has_no_thread() {
        std::thread::sleep(BETWEEN_LOOKS);
    }
    IS_LAST.set(true);
    // What the program has registered runs here, as if it were the main thread.
    SignalMask::inherit(0);
    // SAFETY: no other thread of the program is left to call it.
    unsafe { libc::exit(0) };
}
