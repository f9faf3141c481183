//! Creates threads through the C library instead of Rust's `std::thread`, which maps a signal stack as a thread
//! begins and panics where a memory limit forbids that, and aborts the process if the thread's function ends by
//! `pthread_exit`.

#![expect(unsafe_code, reason = "threads of the C library")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use std::ffi::CString;

use rustix::process::{Resource, getrlimit};

use crate::error::Error;
use crate::signals::SignalMask;

/// What a thread begins with. It may be ended by an unwinding that is no panic: no frame
/// below what may do that has anything to drop.
pub(crate) type Begin = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// The C library takes the function as one that does not unwind, which says nothing to it.
type Opaque = extern "C" fn(*mut c_void) -> *mut c_void;

/// A thread's attributes, for one call.
struct Attributes(MaybeUninit<libc::pthread_attr_t>);

impl Attributes {
    fn with_stack(bytes: usize) -> Result<Self, i32> {
        let mut attributes = Self(MaybeUninit::uninit());
        // SAFETY: a valid place.
        let failed = unsafe { libc::pthread_attr_init(attributes.0.as_mut_ptr()) };
        if failed != 0 {
            return Err(failed);
        }
        // SAFETY: initialized above.
        let failed = unsafe { libc::pthread_attr_setstacksize(attributes.0.as_mut_ptr(), bytes) };
        if failed == 0 { Ok(attributes) } else { Err(failed) }
    }
}

/// Starts a thread that takes over `work`; nobody waits for its end until it is detached or joined.
///
/// # Errors
/// The system's error number; `work` is the caller's then.
///
/// # Safety
/// `begin` may be called with `work`, once, in another thread.
pub(crate) unsafe fn create(
    begin: Begin,
    work: *mut c_void,
    stack_bytes: Option<usize>,
) -> Result<libc::pthread_t, i32> {
    let attributes = stack_bytes.map(Attributes::with_stack).transpose()?;
    let given = attributes.as_ref().map_or(core::ptr::null(), |given| given.0.as_ptr());
    // SAFETY: the two differ in what Rust assumes of unwinding alone, and only C calls it.
    let begin = unsafe { core::mem::transmute::<Begin, Opaque>(begin) };
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is a valid place, the attributes are NULL or initialized, and `work` is as the caller says.
    let failed = unsafe { libc::pthread_create(&raw mut thread, given, begin, work) };
    if failed == 0 { Ok(thread) } else { Err(failed) }
}

/// The calling thread's name, for debuggers.
pub(crate) fn name_own(name: &str) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: the calling thread lives, and the name through the call.
        unsafe { libc::pthread_setname_np(own(), name.as_ptr()) };
    }
}

/// The calling thread.
pub(crate) fn own() -> libc::pthread_t {
    // SAFETY: no requirements.
    unsafe { libc::pthread_self() }
}

/// Nobody will wait for the end of the calling thread.
pub(crate) fn detach_own() {
    // SAFETY: the calling thread was created joinable by `create`, and nobody joins it.
    unsafe { libc::pthread_detach(own()) };
}

/// Waits for the end of a thread: what it returned, gave to `pthread_exit`, or `PTHREAD_CANCELED`.
///
/// # Safety
/// Made by [`create`], neither detached nor joined, and nobody else does either.
pub(crate) unsafe fn join(thread: libc::pthread_t) -> *mut c_void {
    let mut result = core::ptr::null_mut();
    // SAFETY: as the caller says; the result's place is valid.
    unsafe { libc::pthread_join(thread, &raw mut result) };
    result
}

/// Starts a thread of the runtime's own, which lets no signal through: the program's handlers must not
/// run there.
///
/// # Errors
/// [`Error::System`].
pub(crate) fn spawn_helper(
    name: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> Result<(), Error> {
    type Work = (&'static str, Box<dyn FnOnce() + Send>);
    unsafe extern "C-unwind" fn begin(work: *mut c_void) -> *mut c_void {
        // SAFETY: `spawn_helper` has made it of this type, and gave it to this thread alone.
        let (name, run) = *unsafe { Box::from_raw(work.cast::<Work>()) };
        detach_own();
        name_own(name);
        run();
        core::ptr::null_mut()
    }
    let work: *mut Work = Box::into_raw(Box::new((name, Box::new(run))));
    // Threads inherit the mask.
    let masked = SignalMask::block_all();
    // SAFETY: `begin` takes over what `work` points to.
    let created = unsafe { create(begin, work.cast::<c_void>(), None) };
    drop(masked);
    created.map(drop).map_err(|errno| {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(work) });
        let error = std::io::Error::from_raw_os_error(errno);
        Error::System(format!("cannot start a thread: {error}; {}", advice()))
    })
}

/// Larger stacks than a program means to have for every thread.
const HUGE_STACK_BYTES: u64 = 1 << 30;

/// What to do where the system starts no thread, by the limits of this process.
fn advice() -> &'static str {
    let limit = |of| getrlimit(of).current;
    if limit(Resource::Stack).is_some_and(|bytes| bytes > HUGE_STACK_BYTES) {
        "every thread has a stack of the limit's size: lower it (ulimit -s)"
    } else if limit(Resource::Data).or(limit(Resource::As)).is_some() {
        "raise the limits of threads (ulimit -u, pids.max of the control group) and of memory (ulimit -d, ulimit -v)"
    } else {
        "raise the limit of threads (ulimit -u, or pids.max of the control group)"
    }
}
