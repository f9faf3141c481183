//! Joining and leaving; place in the job; statistics.

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_long, c_void};
use std::io::Write;

use multigrain_runtime::{Error, Runtime, Stats, Uncancellable, runtime, when_threads_have_ended};

use crate::forgotten_init;
use crate::status::{calling, code, failed, with_runtime};

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;

    /// Of the library's allocator: a default that its variable of the environment overrides.
    fn mi_option_set_default(option: c_int, value: c_long);

    /// Of the same: what the calling thread has allocated is nobody's, and used by others.
    safe fn mi_thread_done();
}

/// `mi_option_arena_reserve`: how much the allocator maps at a time, in KiB. Its binding has no name for it; a
/// test finds the option by its default.
const ARENA_RESERVE: c_int = 23;

/// What it maps is allocated at once in a program that has all its memory locked: not a gibibyte.
const ARENA_KIB: c_long = 32 << 10;

/// Joins the job; prints one line if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn mg_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    let _uncancellable = Uncancellable::new();
    forgotten_init::init_called();
    // SAFETY: sets a number that the allocator reads; nobody uses that before the join.
    unsafe { mi_option_set_default(ARENA_RESERVE, ARENA_KIB) };
    when_threads_have_ended(|| mi_thread_done());
    // Before this node has joined: from then on a peer may start a thread here that calls exit(0).
    call_at_exit();
    match Runtime::join() {
        Ok(_) => 0,
        Err(error) => {
            if !Runtime::tell_of(&error) {
                // One write: in pieces, a kill in between would cut the line.
                let _ = std::io::stderr().write_all(format!("multigrain: {error}\n").as_bytes());
            }
            failed(error)
        }
    }
}

fn call_at_exit() {
    // SAFETY: the function has the signature on_exit asks for.
    unsafe { on_exit(at_exit, core::ptr::null_mut()) };
}

std::thread_local! {
    /// Whether the process ends in this thread, too.
    static EXITS: Cell<bool> = const { Cell::new(false) };
}

/// A program that ends well without `mg_finalize` waits for the others here. The C library calls each function once,
/// and ends the process for the next thread that calls exit(): that one is to wait as well.
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    let _uncancellable = Uncancellable::new();
    if status == 0
        && !EXITS.replace(true)
        && let Ok(runtime) = runtime()
    {
        call_at_exit();
        let _ = runtime.leave_at_exit();
    }
}

/// Waits for every node, then leaves.
#[unsafe(no_mangle)]
pub extern "C" fn mg_finalize() -> c_int {
    let _uncancellable = Uncancellable::new();
    code(calling(Runtime::leave))
}

/// This node's rank.
#[unsafe(no_mangle)]
pub extern "C" fn mg_node() -> c_int {
    runtime().map_or_else(failed, |runtime| runtime.rank().0.into())
}

/// Nodes in the job.
#[unsafe(no_mangle)]
pub extern "C" fn mg_nodes() -> c_int {
    runtime().map_or_else(failed, |runtime| runtime.node_count().into())
}

/// Threads each node is meant to run.
#[unsafe(no_mangle)]
pub extern "C" fn mg_threads() -> c_int {
    runtime().map_or_else(failed, |runtime| {
        c_int::try_from(runtime.threads_per_node()).unwrap_or(c_int::MAX)
    })
}

/// Shows progress.
#[unsafe(no_mangle)]
pub extern "C" fn mg_progress(done: u64, total: u64) {
    if let Ok(runtime) = runtime() {
        runtime.progress(done, total);
    }
}

/// This node's counters, as many as fit; a place beyond those that are known is zero.
///
/// # Safety
/// `out` is NULL or a place for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_get_stats(out: *mut Stats, size: usize) -> c_int {
    with_runtime(|runtime| {
        if out.is_null() {
            return Err(Error::Invalid("NULL for the statistics".into()));
        }
        if size == 0 || !size.is_multiple_of(size_of::<u64>()) {
            return Err(Error::Invalid(format!(
                "{size} bytes for the statistics: give sizeof(struct mg_stats)"
            )));
        }
        let stats = runtime.stats();
        let known = size.min(size_of::<Stats>());
        // SAFETY: not NULL, and the caller gives a place for so many bytes.
        unsafe { out.cast::<u8>().write_bytes(0, size) };
        let from = (&raw const stats).cast::<u8>();
        // SAFETY: as above; the counters are as long at least, and a structure of this function's.
        unsafe { out.cast::<u8>().copy_from_nonoverlapping(from, known) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn the_option_of_the_allocator_is_the_one_of_a_gibibyte() {
        let is_gibibyte = |option: &c_int| {
            // SAFETY: it reads a number; none for an option that does not exist.
            let kib = unsafe { mi_option_get(*option) };
            kib == 1 << 20
        };
        assert_eq!((0..30).filter(is_gibibyte).collect::<Vec<_>>(), [ARENA_RESERVE]);
    }
}
