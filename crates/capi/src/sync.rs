//! Synchronization calls, by number and by address.

use core::ffi::{c_int, c_void};

use multigrain_protocol::Kind;
use multigrain_runtime::{Deadline, Error, Runtime, SyncId, WaitLimit};

use crate::status::{calling, number, with_runtime};

/// Calls the runtime with the id that an address of shared memory is.
fn at(
    address: *const c_void,
    call: impl FnOnce(&'static Runtime, SyncId) -> Result<(), Error>,
) -> c_int {
    with_runtime(|runtime| call(runtime, runtime.id_at(address.addr())?))
}

/// A deadline of the program.
///
/// # Safety
/// `deadline` is NULL or points to a time.
unsafe fn until(deadline: *const libc::timespec) -> Result<Deadline, Error> {
    if deadline.is_null() {
        return Err(Error::Invalid("NULL for a deadline".into()));
    }
    // SAFETY: not NULL, so it points to a time.
    let libc::timespec { tv_sec, tv_nsec } = unsafe { deadline.read() };
    Deadline::new(tv_sec, tv_nsec)
}

/// A function of the program that runs once.
fn once(
    runtime: &'static Runtime,
    id: impl Into<SyncId>,
    function: Option<extern "C-unwind" fn()>,
) -> Result<(), Error> {
    let function =
        function.ok_or_else(|| Error::Invalid("NULL for a function that runs once".into()))?;
    runtime.once(id, || function())
}

/// An id that nobody has; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn mg_new_id() -> u32 {
    number(calling(Runtime::new_id))
}

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

/// Takes a lock that is free.
#[unsafe(no_mangle)]
pub extern "C" fn mg_trylock(id: u32) -> c_int {
    with_runtime(|runtime| runtime.lock_with(id, WaitLimit::None))
}

/// Takes a lock by a deadline.
///
/// # Safety
/// `deadline` is NULL or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_timedlock(id: u32, deadline: *const libc::timespec) -> c_int {
    with_runtime(|runtime| {
        // SAFETY: as the caller says.
        let deadline = unsafe { until(deadline) }?;
        runtime.lock_with(id, WaitLimit::Until(deadline))
    })
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

/// Takes a unit of a semaphore that has one.
#[unsafe(no_mangle)]
pub extern "C" fn mg_sem_trywait(id: u32) -> c_int {
    with_runtime(|runtime| runtime.semaphore_wait_with(id, WaitLimit::None))
}

/// Takes a unit of a semaphore by a deadline.
///
/// # Safety
/// `deadline` is NULL or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_sem_timedwait(id: u32, deadline: *const libc::timespec) -> c_int {
    with_runtime(|runtime| {
        // SAFETY: as the caller says.
        let deadline = unsafe { until(deadline) }?;
        runtime.semaphore_wait_with(id, WaitLimit::Until(deadline))
    })
}

/// Waits for a signal, giving the lock back meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn mg_cond_wait(id: u32, lock: u32) -> c_int {
    with_runtime(|runtime| runtime.condition_wait(id, lock))
}

/// Waits for a signal by a deadline.
///
/// # Safety
/// `deadline` is NULL or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_cond_timedwait(
    id: u32,
    lock: u32,
    deadline: *const libc::timespec,
) -> c_int {
    with_runtime(|runtime| {
        // SAFETY: as the caller says.
        let deadline = unsafe { until(deadline) }?;
        runtime.condition_wait_until(id, lock, deadline)
    })
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

/// Takes a read-write lock to read.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_rdlock(id: u32) -> c_int {
    with_runtime(|runtime| runtime.read_write_lock(id, Kind::Read, false))
}

/// Takes a read-write lock to write.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_wrlock(id: u32) -> c_int {
    with_runtime(|runtime| runtime.read_write_lock(id, Kind::Write, false))
}

/// Takes a read-write lock to read, if that is possible at once.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_tryrdlock(id: u32) -> c_int {
    with_runtime(|runtime| runtime.read_write_lock(id, Kind::Read, true))
}

/// Takes a read-write lock to write, if that is possible at once.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_trywrlock(id: u32) -> c_int {
    with_runtime(|runtime| runtime.read_write_lock(id, Kind::Write, true))
}

/// Gives a read-write lock back.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_unlock(id: u32) -> c_int {
    with_runtime(|runtime| runtime.read_write_unlock(id))
}

/// Runs a function once in the job.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn mg_once(id: u32, function: Option<extern "C-unwind" fn()>) -> c_int {
    with_runtime(|runtime| once(runtime, id, function))
}

/// Takes the lock of an address.
#[unsafe(no_mangle)]
pub extern "C" fn mg_lock_at(lock: *const c_void) -> c_int {
    at(lock, |runtime, id| runtime.lock(id))
}

/// Gives the lock of an address back.
#[unsafe(no_mangle)]
pub extern "C" fn mg_unlock_at(lock: *const c_void) -> c_int {
    at(lock, |runtime, id| runtime.unlock(id))
}

/// Takes the lock of an address if it is free.
#[unsafe(no_mangle)]
pub extern "C" fn mg_trylock_at(lock: *const c_void) -> c_int {
    at(lock, |runtime, id| runtime.lock_with(id, WaitLimit::None))
}

/// Takes the lock of an address by a deadline.
///
/// # Safety
/// `deadline` is NULL or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_timedlock_at(
    lock: *const c_void,
    deadline: *const libc::timespec,
) -> c_int {
    at(lock, |runtime, id| {
        // SAFETY: as the caller says.
        let deadline = unsafe { until(deadline) }?;
        runtime.lock_with(id, WaitLimit::Until(deadline))
    })
}

/// Waits for `threads` threads of the job at the barrier of an address.
#[unsafe(no_mangle)]
pub extern "C" fn mg_barrier_at(barrier: *const c_void, threads: u32) -> c_int {
    at(barrier, |runtime, id| runtime.barrier(id, threads))
}

/// Adds units to the semaphore of an address.
#[unsafe(no_mangle)]
pub extern "C" fn mg_sem_post_at(sem: *const c_void, count: u32) -> c_int {
    at(sem, |runtime, id| runtime.semaphore_post(id, count))
}

/// Takes a unit of the semaphore of an address.
#[unsafe(no_mangle)]
pub extern "C" fn mg_sem_wait_at(sem: *const c_void) -> c_int {
    at(sem, |runtime, id| runtime.semaphore_wait(id))
}

/// Takes a unit of the semaphore of an address if it has one.
#[unsafe(no_mangle)]
pub extern "C" fn mg_sem_trywait_at(sem: *const c_void) -> c_int {
    at(sem, |runtime, id| runtime.semaphore_wait_with(id, WaitLimit::None))
}

/// Takes a unit of the semaphore of an address by a deadline.
///
/// # Safety
/// `deadline` is NULL or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_sem_timedwait_at(
    sem: *const c_void,
    deadline: *const libc::timespec,
) -> c_int {
    at(sem, |runtime, id| {
        // SAFETY: as the caller says.
        let deadline = unsafe { until(deadline) }?;
        runtime.semaphore_wait_with(id, WaitLimit::Until(deadline))
    })
}

/// Waits for a signal on the condition of an address, giving the lock of another back meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn mg_cond_wait_at(condition: *const c_void, lock: *const c_void) -> c_int {
    at(condition, |runtime, id| runtime.condition_wait(id, runtime.id_at(lock.addr())?))
}

/// The same by a deadline.
///
/// # Safety
/// `deadline` is NULL or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_cond_timedwait_at(
    condition: *const c_void,
    lock: *const c_void,
    deadline: *const libc::timespec,
) -> c_int {
    at(condition, |runtime, id| {
        // SAFETY: as the caller says.
        let deadline = unsafe { until(deadline) }?;
        runtime.condition_wait_until(id, runtime.id_at(lock.addr())?, deadline)
    })
}

/// Wakes one thread that waits on the condition of an address.
#[unsafe(no_mangle)]
pub extern "C" fn mg_cond_signal_at(condition: *const c_void) -> c_int {
    at(condition, |runtime, id| runtime.condition_signal(id, false))
}

/// Wakes all of them.
#[unsafe(no_mangle)]
pub extern "C" fn mg_cond_broadcast_at(condition: *const c_void) -> c_int {
    at(condition, |runtime, id| runtime.condition_signal(id, true))
}

/// Takes the read-write lock of an address to read.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_rdlock_at(lock: *const c_void) -> c_int {
    at(lock, |runtime, id| runtime.read_write_lock(id, Kind::Read, false))
}

/// Takes the read-write lock of an address to write.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_wrlock_at(lock: *const c_void) -> c_int {
    at(lock, |runtime, id| runtime.read_write_lock(id, Kind::Write, false))
}

/// Takes the read-write lock of an address to read, if that is possible at once.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_tryrdlock_at(lock: *const c_void) -> c_int {
    at(lock, |runtime, id| runtime.read_write_lock(id, Kind::Read, true))
}

/// Takes the read-write lock of an address to write, if that is possible at once.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_trywrlock_at(lock: *const c_void) -> c_int {
    at(lock, |runtime, id| runtime.read_write_lock(id, Kind::Write, true))
}

/// Gives the read-write lock of an address back.
#[unsafe(no_mangle)]
pub extern "C" fn mg_rwlock_unlock_at(lock: *const c_void) -> c_int {
    at(lock, |runtime, id| runtime.read_write_unlock(id))
}

/// Runs a function once in the job, by an address.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn mg_once_at(
    at_address: *const c_void,
    function: Option<extern "C-unwind" fn()>,
) -> c_int {
    at(at_address, |runtime, id| once(runtime, id, function))
}
