//! Joining and leaving; place in the job; statistics.

use core::ffi::{c_char, c_int, c_void};

use multigrain_runtime::{Error, Runtime, Stats, runtime};

use crate::status::{code, with_runtime};

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Joins the job; prints one line if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn mg_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    match Runtime::join() {
        Ok(_) => {
            // SAFETY: the function has the signature on_exit asks for.
            unsafe { on_exit(at_exit, core::ptr::null_mut()) };
            0
        }
        Err(error) => {
            eprintln!("multigrain: {error}");
            error.code()
        }
    }
}

/// A program that ends well without `mg_finalize` waits for the others here.
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    if status == 0 {
        let _ = runtime().and_then(Runtime::leave_at_exit);
    }
}

/// Waits for every node, then leaves.
#[unsafe(no_mangle)]
pub extern "C" fn mg_finalize() -> c_int {
    code(runtime().and_then(Runtime::leave))
}

/// This node's rank.
#[unsafe(no_mangle)]
pub extern "C" fn mg_node() -> c_int {
    runtime().map_or_else(|error| error.code(), |runtime| runtime.rank().0.into())
}

/// Nodes in the job.
#[unsafe(no_mangle)]
pub extern "C" fn mg_nodes() -> c_int {
    runtime().map_or_else(|error| error.code(), |runtime| runtime.node_count().into())
}

/// Threads each node is meant to run.
#[unsafe(no_mangle)]
pub extern "C" fn mg_threads() -> c_int {
    runtime().map_or_else(
        |error| error.code(),
        |runtime| c_int::try_from(runtime.threads_per_node()).unwrap_or(c_int::MAX),
    )
}

/// Shows progress.
#[unsafe(no_mangle)]
pub extern "C" fn mg_progress(done: u64, total: u64) {
    if let Ok(runtime) = runtime() {
        runtime.progress(done, total);
    }
}

/// This node's counters.
///
/// # Safety
/// `out` is NULL or a place for one `struct mg_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_get_stats(out: *mut Stats) -> c_int {
    with_runtime(|runtime| {
        if out.is_null() {
            return Err(Error::Invalid("NULL for the statistics".into()));
        }
        // SAFETY: not NULL, and the caller gives a place for the structure.
        unsafe { out.write(runtime.stats()) };
        Ok(())
    })
}
