//! Synchronization calls.

use core::ffi::c_int;

use crate::status::with_runtime;

/// Takes a lock.
#[unsafe(no_mangle)]
pub extern "C" fn mg_lock(id: u32) -> c_int {
    with_runtime(|runtime| runtime.lock(id))
}

/// Gives a lock back.
#[unsafe(no_mangle)]
pub extern "C" fn mg_unlock(id: u32) -> c_int {
    with_runtime(|runtime| runtime.unlock(id))
}

/// Waits for `threads` threads of the job.
#[unsafe(no_mangle)]
pub extern "C" fn mg_barrier(id: u32, threads: u32) -> c_int {
    with_runtime(|runtime| runtime.barrier(id, threads))
}

/// Adds units to a semaphore.
#[unsafe(no_mangle)]
pub extern "C" fn mg_sem_post(id: u32, count: u32) -> c_int {
    with_runtime(|runtime| runtime.semaphore_post(id, count))
}

/// Takes a unit of a semaphore.
#[unsafe(no_mangle)]
pub extern "C" fn mg_sem_wait(id: u32) -> c_int {
    with_runtime(|runtime| runtime.semaphore_wait(id))
}

/// Waits for a signal, giving the lock back meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn mg_cond_wait(id: u32, lock: u32) -> c_int {
    with_runtime(|runtime| runtime.condition_wait(id, lock))
}

/// Wakes one waiting thread.
#[unsafe(no_mangle)]
pub extern "C" fn mg_cond_signal(id: u32) -> c_int {
    with_runtime(|runtime| runtime.condition_signal(id, false))
}

/// Wakes all waiting threads.
#[unsafe(no_mangle)]
pub extern "C" fn mg_cond_broadcast(id: u32) -> c_int {
    with_runtime(|runtime| runtime.condition_signal(id, true))
}
