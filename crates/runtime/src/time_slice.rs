//! How long a thread runs when its turn has come: who has a short slice gets a processor soon after it wakes, before threads that compute
//! or poll (EEVDF's, Linux 6.12). It takes no larger share of a processor.
#![expect(unsafe_code, reason = "a scheduling attribute of the kernel")]

use core::mem::{MaybeUninit, size_of};

/// Of threads that wait for faults and messages and then do microseconds of work; the least there is.
const SHORT_NS: u64 = 100_000;

/// The slice of threads that this one makes from now on, and its own; false where the kernel has one for all.
pub fn be_short() -> bool {
    set(SHORT_NS)
}

/// As the kernel thinks best, for the program. Makes system calls alone.
pub fn be_ordinary() -> bool {
    set(0)
}

fn set(slice_ns: u64) -> bool {
    let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed();
    let size = u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0);
    // SAFETY: a place of that size for what this thread has.
    let known =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, attributes.as_mut_ptr(), size, 0) };
    // SAFETY: zeroes are attributes.
    let mut attributes = unsafe { attributes.assume_init() };
    if known != 0 || attributes.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
        return false;
    }
    attributes.sched_runtime = slice_ns;
    // SAFETY: attributes of an ordinary thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}
