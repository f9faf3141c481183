//! Semaphores: semget, semop, semtimedop, semctl.

use core::ffi::c_int;
use core::mem::{MaybeUninit, size_of};

use multigrain_types::sysv::{Ask, MOST_OPERATIONS};

use crate::datagrams::Bytes;
use crate::site_connection::{ask, exchange};
use crate::waits::Wait;
use crate::{failed, returned};

/// semget(2).
#[unsafe(no_mangle)]
pub extern "C" fn semget(key: libc::key_t, count: c_int, flags: c_int) -> c_int {
    returned(ask(Ask::SemGet, [key.into(), count.into(), flags.into(), 0], Bytes::NONE))
}

/// semop(2).
///
/// # Safety
/// As the system call: `operations` are `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semop(id: c_int, operations: *mut libc::sembuf, count: usize) -> c_int {
    operate(id, operations, count, None)
}

/// semtimedop(2).
///
/// # Safety
/// As the system call: `operations` are `count`, and `within` is a time or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semtimedop(
    id: c_int,
    operations: *mut libc::sembuf,
    count: usize,
    within: *const libc::timespec,
) -> c_int {
    if within.is_null() {
        return operate(id, operations, count, None);
    }
    if let Some(errno) = fault_of(within) {
        return failed(errno);
    }
    // SAFETY: the kernel has just read it.
    let time = unsafe { within.read_unaligned() };
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    let (seconds, ns) = (part(time.tv_sec), part(time.tv_nsec));
    operate(id, operations, count, Some(seconds.saturating_mul(1_000_000_000).saturating_add(ns)))
}

/// What the kernel says of a pointer to a time: EFAULT, EINVAL, or nothing.
fn fault_of(time: *const libc::timespec) -> Option<c_int> {
    let word = 1_u32;
    // A wait for a word that has another value than is said: it ends at once, and looks at the time before.
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a word, and a pointer that the kernel checks.
    unsafe { libc::syscall(libc::SYS_futex, &raw const word, wait, 0, time) };
    let errno = crate::errno();
    (errno != libc::EAGAIN).then_some(errno)
}

fn operate(
    id: c_int,
    operations: *mut libc::sembuf,
    count: usize,
    within_ns: Option<u64>,
) -> c_int {
    if count == 0 || id < 0 {
        return failed(libc::EINVAL);
    }
    if count > MOST_OPERATIONS {
        return failed(libc::E2BIG);
    }
    let behind = Bytes(operations.cast(), count * size_of::<libc::sembuf>());
    let number = i64::try_from(count).unwrap_or(0);
    let (both, wait) = ((behind, Bytes::NONE), Wait::Event(within_ns));
    let answered = exchange(Ask::SemOperate, [id.into(), number, 0, 0], both, -1, wait);
    returned(answered.map(|it| it.result))
}

/// semctl(2). It is variadic in C: on the processors that this is built for, its fourth argument lies where that of a
/// function of four lies.
///
/// # Safety
/// As the system call: `argument` is what the command wants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semctl(
    id: c_int,
    number: c_int,
    command: c_int,
    argument: usize,
) -> c_int {
    let place = core::ptr::with_exposed_provenance_mut(argument);
    let structure = Bytes(place, size_of::<libc::semid_ds>());
    let both = match command {
        libc::IPC_SET => (structure, Bytes::NONE),
        libc::IPC_STAT | SEM_STAT | SEM_STAT_ANY => (Bytes::NONE, structure),
        IPC_INFO | SEM_INFO => (Bytes::NONE, Bytes(place, size_of::<libc::seminfo>())),
        libc::GETALL => (Bytes::NONE, Bytes(place, MOST_VALUES_BYTES)),
        libc::SETALL => match values(id) {
            Ok(values) => (Bytes(place, 2 * values), Bytes::NONE),
            Err(errno) => return failed(errno),
        },
        _ => (Bytes::NONE, Bytes::NONE),
    };
    // What the kernel takes of it: an int.
    let value = i64::from(u32::try_from(argument & 0xffff_ffff).unwrap_or(0).cast_signed());
    let arguments = [id.into(), number.into(), command.into(), value];
    returned(exchange(Ask::SemControl, arguments, both, -1, Wait::Answer).map(|it| it.result))
}

const IPC_INFO: c_int = 3;
const SEM_STAT: c_int = 18;
const SEM_INFO: c_int = 19;
const SEM_STAT_ANY: c_int = 20;
/// Of a set with as many semaphores as one can have.
const MOST_VALUES_BYTES: usize = 2 * 32_000;

/// How many semaphores a set has.
fn values(id: c_int) -> Result<usize, c_int> {
    // SAFETY: zeroes are the structure.
    let mut about: libc::semid_ds = unsafe { MaybeUninit::zeroed().assume_init() };
    let into = Bytes::of(&raw mut about);
    // A caller that may write values need not be allowed to read them: the number of values is no secret.
    let arguments = [id.into(), 0, SEM_STAT_OF_ID.into(), 0];
    exchange(Ask::SemControl, arguments, (Bytes::NONE, into), -1, Wait::Answer)?;
    usize::try_from(about.sem_nsems).map_err(|_| libc::EINVAL)
}

/// A command of our own: how many semaphores there are, without a right to read.
const SEM_STAT_OF_ID: c_int = 1 << 20;
