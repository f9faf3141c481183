//! An alternate stack for the handler of SIGSEGV in each thread that uses the job: without one, the overflow of a
//! stack could not be reported.
//!
//! Only where accesses do not wait in that handler ([`super::handlers::install`]), and not for a thread that
//! has one already, as Rust's have.

#![expect(unsafe_code, reason = "maps a stack and gives it to the kernel")]

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::handlers::crashes_have_a_stack;
use crate::crash::stack_pointer;
use crate::shim::thread_local;

/// A program's own handler may run there as well.
const BYTES: usize = 64 << 10;

thread_local! {
    /// This thread's; null for none. Constant and without destructor: usable in a trap.
    static LENT: Cell<*mut c_void> = const { Cell::new(null_mut()) };
}

/// What this library's handler needs of an alternate stack below the program's handler that touches shared memory: half
/// of what a thread needs in all.
const ROOM_BYTES: usize = BYTES / 2;

/// The alternate stack that the thread of this context was on, if it ends too near below where the thread was: its
/// beginning and its bytes. The handler would write over what lies below. The kernel has put both into the context.
pub(crate) fn without_room(context: *const c_void) -> Option<(usize, usize)> {
    let pointer = stack_pointer(context)?;
    // SAFETY: there is a pointer in it, so it is the kernel's own context of the signal being handled.
    let alternate = unsafe { (*context.cast::<libc::ucontext_t>()).uc_stack };
    let (start, bytes) = (alternate.ss_sp.addr(), alternate.ss_size);
    let below = pointer.checked_sub(start)?;
    (below <= bytes && below < ROOM_BYTES && bytes > 0).then_some((start, bytes))
}

/// Gives this thread a stack for its handler, if it has none. One that cannot be had does without.
pub(crate) fn lend() {
    if cfg!(miri) || !crashes_have_a_stack() || change(None).ss_flags & libc::SS_DISABLE == 0 {
        return;
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel picks the address, so no memory in use is replaced.
    if let Ok(stack) = unsafe { mmap_anonymous(null_mut(), BYTES, protection, flags) } {
        LENT.with(|lent| lent.set(stack));
        change(Some(libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: BYTES }));
    }
}

/// Takes it from this thread, which ends or has not touched it since.
pub(crate) fn take_back() {
    let stack = LENT.with(|lent| lent.replace(null_mut()));
    if stack.is_null() {
        return;
    }
    let now = change(None);
    // The program may have given the thread another one since; a handler that runs there needs it.
    if now.ss_sp == stack && now.ss_flags & libc::SS_ONSTACK != 0 {
        return;
    }
    if now.ss_sp == stack {
        let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        change(Some(none));
    }
    // SAFETY: mapped by `lend` with this length, and the kernel does not know it any more.
    let _ = unsafe { munmap(stack, BYTES) };
}

/// Changes the stack for handlers; as it was.
fn change(new: Option<libc::stack_t>) -> libc::stack_t {
    let mut before = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let given = new.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: both places live through the call; a new stack is mapped.
    unsafe { libc::sigaltstack(given, &raw mut before) };
    before
}
