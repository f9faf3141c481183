//! The runtime's own threads of a node: one that starts others, one that looks for deadlocks, and where there
//! are peers one that receives while nobody waits and one that ends windows.

#![expect(
    unsafe_code,
    reason = "threads of the C library, and a scheduling attribute of the kernel"
)]

use core::ffi::c_void;
use std::ffi::CString;

use super::Runtime;
use crate::deadlock;
use crate::driver::Driver;
use crate::error::Error;
use crate::signals::SignalMask;

/// A helper: its name, and what it does until this node leaves.
type Helper = (&'static str, fn(&Driver));

/// Those of a node that has peers.
const HELPERS: [Helper; 2] = [("mg-service", Driver::serve_peers), ("mg-turns", Driver::keep_time)];

/// Starts them.
///
/// # Errors
/// [`Error::System`] if a thread cannot be started.
pub(super) fn start(runtime: &'static Runtime) -> Result<(), Error> {
    let driver = &runtime.driver;
    let threads = &runtime.services.threads;
    let starts = threads.open();
    // Threads inherit the signal mask: the program's handlers must not run in ours.
    let masked = SignalMask::block_all();
    let started = spawn(driver, "mg-start", move || threads.start_as_asked(driver, &starts));
    let watches = spawn(driver, "mg-watch", move || deadlock::watch(driver));
    let mut helpers = vec![started, watches];
    if driver.nodes() > 1 {
        helpers.extend(HELPERS.map(|(name, run)| {
            spawn(driver, name, move || {
                prefer_latency();
                run(driver);
            })
        }));
    }
    drop(masked);
    helpers.into_iter().collect()
}

/// A thread of the C library's: one of Rust's maps a stack for overflows as it begins, and panics where a
/// limit of memory has come by then.
fn spawn(driver: &Driver, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    type Work = Box<dyn FnOnce() + Send>;
    extern "C" fn begin(work: *mut c_void) -> *mut c_void {
        // SAFETY: `spawn` has made it of this type, and gave it to this thread alone.
        let work = unsafe { Box::from_raw(work.cast::<Work>()) };
        work();
        core::ptr::null_mut()
    }
    driver.has_helper();
    let work: *mut Work = Box::into_raw(Box::new(Box::new(run)));
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is a valid place, and `begin` takes over what `work` points to.
    let failed = unsafe {
        libc::pthread_create(&raw mut thread, core::ptr::null(), begin, work.cast::<c_void>())
    };
    if failed != 0 {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(work) });
        let error = std::io::Error::from_raw_os_error(failed);
        return Err(Error::System(format!("cannot start a thread: {error}")));
    }
    if let Ok(name) = CString::new(name) {
        // SAFETY: the thread runs for the life of this node, and the name lives through the call.
        unsafe { libc::pthread_setname_np(thread, name.as_ptr()) };
    }
    // SAFETY: nobody waits for its end.
    unsafe { libc::pthread_detach(thread) };
    Ok(())
}

/// Short slices make the scheduler run a helper soon after it wakes, before a thread that
/// computes (EEVDF: an earlier deadline).
fn prefer_latency() {
    #[repr(C)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const SLICE_NS: u64 = 100_000;
    let size = u32::try_from(size_of::<SchedAttr>()).unwrap_or(0);
    let attr = SchedAttr {
        size,
        policy: 0,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: SLICE_NS,
        deadline: 0,
        period: 0,
    };
    // SAFETY: `attr` is a valid sched_attr of the size it states; older kernels refuse it, which
    // leaves the thread as it was.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}
