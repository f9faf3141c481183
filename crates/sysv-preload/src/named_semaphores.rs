//! Named POSIX semaphores: sem_open, sem_close, sem_unlink, and what is done with those that sem_open gave.
//!
//! A `sem_t` of the C library is memory that threads of one machine wait at. What sem_open returns here is a record of this
//! library, known by its address, and calls with it go to the site; those with any other `sem_t` go to the C library.
//!
//! An exec forgets the records; the process counts as having them open until its end.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::{MaybeUninit, size_of, transmute};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use libc::{sem_t, timespec};
use multigrain_types::sysv::{Ask, MOST_NAME};

use crate::cancellation;
use crate::datagrams::{Bytes, close};
use crate::errno;
use crate::names::{name_of, unlink};
use crate::site_connection::{ask, exchange_at_point};
use crate::spin_lock::SpinLock;
use crate::waits::{Blocked, Wait};
use crate::{failed, returned};

/// What a `sem_t *` of sem_open points to, as large as a `sem_t`.
#[repr(C, align(32))]
struct Record {
    id: AtomicI32,
    /// How often it is open; 0: the record is free.
    opens: AtomicU32,
    _rest: UnsafeCell<[u32; 6]>,
}

// SAFETY: the rest is never touched.
unsafe impl Sync for Record {}

impl Record {
    const fn free() -> Self {
        let rest = UnsafeCell::new([0; 6]);
        Self { id: AtomicI32::new(0), opens: AtomicU32::new(0), _rest: rest }
    }

    fn is_open(&self) -> bool {
        self.opens.load(Ordering::Acquire) > 0
    }
}

/// The semaphores of this process, and of a child after a fork.
static RECORDS: [Record; 1024] = [const { Record::free() }; 1024];
/// Whoever opens, closes or forks.
static CHANGING: SpinLock = SpinLock::new();

/// Whose a `sem_t` is.
enum Owner {
    /// The job's, of this id.
    Job(i32),
    /// The job's before it was closed.
    Closed,
    /// The C library's.
    Library,
}

fn record_at(semaphore: *mut sem_t) -> Option<&'static Record> {
    let from_first = semaphore.addr().checked_sub(RECORDS.as_ptr().addr())?;
    RECORDS.get(from_first / size_of::<Record>())
}

fn owner(semaphore: *mut sem_t) -> Owner {
    match record_at(semaphore) {
        Some(record) if record.is_open() => Owner::Job(record.id.load(Ordering::Relaxed)),
        Some(_) => Owner::Closed,
        None => Owner::Library,
    }
}

/// A function of the C library, which this library stands before.
struct Next(AtomicPtr<c_void>, &'static CStr);

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self(AtomicPtr::new(null_mut()), name)
    }

    fn find(&self) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: a string that ends.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.1.as_ptr()) };
        self.0.store(found, Ordering::Relaxed);
        found
    }

    /// Calls it with a semaphore and what else there is, in the registers that a function of fewer does not look at.
    fn call(&self, semaphore: *mut sem_t, clock: usize, at: usize) -> c_int {
        type Function = unsafe extern "C-unwind" fn(*mut sem_t, usize, usize) -> c_int;
        let found = self.find();
        if found.is_null() {
            return failed(libc::ENOSYS);
        }
        // SAFETY: a function of up to three words.
        let function = unsafe { transmute::<*mut c_void, Function>(found) };
        // SAFETY: the caller's arguments.
        unsafe { function(semaphore, clock, at) }
    }
}

static CLOSE: Next = Next::new(c"sem_close");
static POST: Next = Next::new(c"sem_post");
static WAIT: Next = Next::new(c"sem_wait");
static TRY_WAIT: Next = Next::new(c"sem_trywait");
static TIMED_WAIT: Next = Next::new(c"sem_timedwait");
static CLOCK_WAIT: Next = Next::new(c"sem_clockwait");
static GET_VALUE: Next = Next::new(c"sem_getvalue");

/// Finds sem_post, which a handler of a signal may call and dlsym may not.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        POST.find();
    }
    at_start
};

/// sem_open(3). It is variadic in C: on the processors that this is built for, its third and fourth arguments lie where those
/// of a function of four lie.
///
/// # Safety
/// As the C library's: a string, and two arguments more with O_CREAT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_open(
    name: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
    value: c_uint,
) -> *mut sem_t {
    let opened = name_of(name, MOST_NAME).and_then(|name| {
        let flags = flags & (libc::O_CREAT | libc::O_EXCL);
        let (mode, value) = if flags & libc::O_CREAT == 0 { (0, 0) } else { (mode, value) };
        let _no_signals = Blocked::new();
        CHANGING.lock();
        let opened = open(name, [flags.into(), mode.into(), value.into(), 0]);
        CHANGING.unlock();
        opened
    });
    match opened {
        Ok(record) => core::ptr::from_ref(record).cast_mut().cast(),
        Err(errno) => {
            failed(errno);
            null_mut()
        }
    }
}

fn open(name: Bytes, arguments: [i64; 4]) -> Result<&'static Record, c_int> {
    let id = ask(Ask::PosixSemOpen, arguments, name)?;
    let id = c_int::try_from(id).map_err(|_| libc::EPROTO)?;
    let is_it = |record: &&Record| record.is_open() && record.id.load(Ordering::Relaxed) == id;
    let record =
        RECORDS.iter().find(is_it).or_else(|| RECORDS.iter().find(|record| !record.is_open()));
    let Some(record) = record else {
        // It has it open until its end where this fails.
        let _ = ask(Ask::PosixSemClose, [id.into(), 0, 0, 0], Bytes::NONE);
        return Err(libc::EMFILE);
    };
    record.id.store(id, Ordering::Relaxed);
    record.opens.fetch_add(1, Ordering::Release);
    Ok(record)
}

/// sem_close(3).
///
/// # Safety
/// As the C library's: a semaphore that sem_open gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_close(semaphore: *mut sem_t) -> c_int {
    let Some(record) = record_at(semaphore) else { return CLOSE.call(semaphore, 0, 0) };
    let _no_signals = Blocked::new();
    CHANGING.lock();
    let closed = if record.is_open() {
        let last = record.opens.fetch_sub(1, Ordering::Relaxed) == 1;
        let id = record.id.load(Ordering::Relaxed);
        if last { about(Ask::PosixSemClose, id) } else { Ok(0) }
    } else {
        Err(libc::EINVAL)
    };
    CHANGING.unlock();
    returned(closed)
}

/// sem_unlink(3).
///
/// # Safety
/// As the C library's: a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_unlink(name: *const c_char) -> c_int {
    returned(unlink(Ask::PosixSemUnlink, name, MOST_NAME))
}

/// Asks something of a semaphore.
fn about(asked: Ask, id: i32) -> Result<i64, c_int> {
    ask(asked, [id.into(), 0, 0, 0], Bytes::NONE)
}

/// sem_post(3).
///
/// # Safety
/// As the C library's: a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(semaphore: *mut sem_t) -> c_int {
    match owner(semaphore) {
        Owner::Job(id) => {
            // A handler that posts must not change what was going on.
            let before = errno();
            let posted = returned(about(Ask::PosixSemPost, id));
            if posted == 0 {
                failed(before);
            }
            posted
        }
        Owner::Closed => failed(libc::EINVAL),
        Owner::Library => POST.call(semaphore, 0, 0),
    }
}

fn wait(id: i32, how: Wait) -> Result<i64, c_int> {
    let none = (Bytes::NONE, Bytes::NONE);
    exchange_at_point(Ask::PosixSemWait, [id.into(), 1, 0, 0], none, how).map(|it| it.result)
}

/// Waits, and is a cancellation point.
fn wait_at_point(attempt: impl Fn() -> Result<i64, c_int>) -> c_int {
    loop {
        cancellation::point();
        match attempt() {
            Err(cancellation::ENDED) => {}
            waited => return returned(waited),
        }
    }
}

/// sem_wait(3).
///
/// # Safety
/// As the C library's: a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    match owner(semaphore) {
        Owner::Job(id) => wait_at_point(|| wait(id, Wait::Restarting)),
        Owner::Closed => failed(libc::EINVAL),
        Owner::Library => WAIT.call(semaphore, 0, 0),
    }
}

/// sem_trywait(3).
///
/// # Safety
/// As the C library's: a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_trywait(semaphore: *mut sem_t) -> c_int {
    match owner(semaphore) {
        Owner::Job(id) => returned(about(Ask::PosixSemWait, id)),
        Owner::Closed => failed(libc::EINVAL),
        Owner::Library => TRY_WAIT.call(semaphore, 0, 0),
    }
}

/// sem_timedwait(3).
///
/// # Safety
/// As the C library's: a semaphore and a time.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(
    semaphore: *mut sem_t,
    until: *const timespec,
) -> c_int {
    match owner(semaphore) {
        Owner::Job(id) => wait_at_point(|| wait_until(id, libc::CLOCK_REALTIME, until)),
        Owner::Closed => failed(libc::EINVAL),
        Owner::Library => TIMED_WAIT.call(semaphore, until.expose_provenance(), 0),
    }
}

/// sem_clockwait(3).
///
/// # Safety
/// As the C library's: a semaphore and a time.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: libc::clockid_t,
    until: *const timespec,
) -> c_int {
    match owner(semaphore) {
        Owner::Job(id) => wait_at_point(|| wait_until(id, clock, until)),
        Owner::Closed => failed(libc::EINVAL),
        Owner::Library => {
            // The low half of a register is an int.
            let clock = usize::try_from(clock.cast_unsigned()).unwrap_or(0);
            CLOCK_WAIT.call(semaphore, clock, until.expose_provenance())
        }
    }
}

/// Waits until a time of a clock, as far away as it is now: a clock that is set meanwhile changes nothing.
fn wait_until(id: i32, clock: libc::clockid_t, until: *const timespec) -> Result<i64, c_int> {
    if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's time, as the C library reads it.
    let until = unsafe { until.read_unaligned() };
    if !(0..1_000_000_000).contains(&until.tv_nsec) {
        return Err(libc::EINVAL);
    }
    let mut now = MaybeUninit::<timespec>::zeroed();
    // SAFETY: the kernel writes a timespec.
    unsafe { libc::clock_gettime(clock, now.as_mut_ptr()) };
    // SAFETY: zeroed is a timespec, too.
    let now = unsafe { now.assume_init() };
    let seconds = until.tv_sec.saturating_sub(now.tv_sec);
    let ns = seconds.saturating_mul(1_000_000_000).saturating_add(until.tv_nsec - now.tv_nsec);
    let within = Wait::Event(Some(u64::try_from(ns).unwrap_or(0)));
    // The site is asked in any case: what can be had at once is.
    wait(id, within).map_err(|errno| if errno == libc::EAGAIN { libc::ETIMEDOUT } else { errno })
}

/// sem_getvalue(3).
///
/// # Safety
/// As the C library's: a semaphore and a place for an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_getvalue(semaphore: *mut sem_t, value: *mut c_int) -> c_int {
    let id = match owner(semaphore) {
        Owner::Job(id) => id,
        Owner::Closed => return failed(libc::EINVAL),
        Owner::Library => return GET_VALUE.call(semaphore, value.expose_provenance(), 0),
    };
    let asked = about(Ask::PosixSemValue, id);
    if let Ok(now) = asked {
        // SAFETY: the caller's place, as the C library writes it.
        unsafe { value.write_unaligned(c_int::try_from(now).unwrap_or(c_int::MAX)) };
    }
    returned(asked.map(|_| 0))
}

/// The signals that were blocked before a fork.
struct BeforeFork(UnsafeCell<libc::sigset_t>);

// SAFETY: who changes has it alone.
unsafe impl Sync for BeforeFork {}

// SAFETY: zeroes are a set.
static BEFORE_FORK: BeforeFork =
    BeforeFork(UnsafeCell::new(unsafe { MaybeUninit::zeroed().assume_init() }));

/// Of the fork under way: a pipe on which the child says that the site knows of it, and its parent. -1 and 0 where there is none.
static KNOWN: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];
static PARENT: AtomicI32 = AtomicI32::new(0);

/// Has the parent wait until the child has what it has open: it may close it or end at once.
///
/// No handler runs until the fork is over: one that forks, or opens a semaphore, would wait for its own thread.
pub(crate) fn before_fork() {
    let before = Blocked::new().keep();
    CHANGING.lock();
    // SAFETY: who changes has the place for itself.
    unsafe { BEFORE_FORK.0.get().write(before) };
    if !RECORDS.iter().any(Record::is_open) {
        return;
    }
    let mut ends = [-1; 2];
    // SAFETY: a place for two ints.
    unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    for (place, end) in KNOWN.iter().zip(ends) {
        place.store(end, Ordering::Relaxed);
    }
    // SAFETY: takes nothing.
    PARENT.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

pub(crate) fn in_parent() {
    let [to_read, to_write] = KNOWN.each_ref().map(|end| end.swap(-1, Ordering::Relaxed));
    if to_write >= 0 {
        close(to_write);
        let mut byte = 0_u8;
        let place = &raw mut byte;
        // It says so, or ends, or never was. (The C library's function is a cancellation point, and fork is none.)
        // SAFETY: a place for a byte.
        while unsafe { libc::syscall(libc::SYS_read, to_read, place, 1) } < 0
            && errno() == libc::EINTR
        {}
        close(to_read);
    }
    fork_is_over();
}

fn fork_is_over() {
    // SAFETY: as in `before_fork`, which has written it.
    let before = unsafe { BEFORE_FORK.0.get().read() };
    CHANGING.unlock();
    Blocked::restore(&before);
}

pub(crate) fn in_child() {
    let ends = KNOWN.each_ref().map(|end| end.swap(-1, Ordering::Relaxed));
    if RECORDS.iter().any(Record::is_open) {
        // Where it fails calls of the child do, with EINVAL.
        let _ = about(Ask::PosixInherit, PARENT.load(Ordering::Relaxed));
    }
    ends.into_iter().filter(|&end| end >= 0).for_each(close);
    fork_is_over();
}
