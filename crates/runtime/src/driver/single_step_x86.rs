//! Single-stepping on x86-64, by the frame that a signal handler returns to.

#![expect(unsafe_code, reason = "reads and writes that frame")]

use core::ffi::c_void;

use super::{Instruction, StackFrame};
use crate::signals;

/// The trap flag, and the resume flag, which traps set.
const TRAP: i64 = 1 << 8;
const RESUME: i64 = 1 << 16;
/// Registers that make an instruction: the general ones, the instruction pointer and the flags.
const REGISTERS: usize = 18;
/// What an instruction raises itself is never blocked.
const SYNCHRONOUS: [i32; 7] = [
    libc::SIGTRAP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGKILL,
    libc::SIGSTOP,
];

/// # Safety
/// `context` is the third argument of a signal handler.
pub(super) unsafe fn instruction(context: *const c_void) -> Option<Instruction> {
    let context = context.cast::<libc::ucontext_t>();
    let mut mixed: u64 = 0xcbf2_9ce4_8422_2325;
    for index in 0..REGISTERS {
        // SAFETY: as the caller says; the array has 23 registers.
        let mut value = unsafe { (*context).uc_mcontext.gregs[index] };
        if index == usize::try_from(libc::REG_EFL).unwrap_or_default() {
            value &= !(TRAP | RESUME);
        }
        mixed = (mixed ^ value.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
    }
    Some(mixed)
}

/// Whether a step ends in this runtime's handler.
pub(super) fn is_ours() -> bool {
    !signals::debugger::is_here() && signals::handles(libc::SIGTRAP)
}

/// Where the instruction lies, and its stack: the same when it traps again, also if it has copied some already.
///
/// # Safety
/// As for [`instruction`].
pub(super) unsafe fn place(context: *const c_void) -> StackFrame {
    let context = context.cast::<libc::ucontext_t>();
    [libc::REG_RIP, libc::REG_RSP].map(|register| {
        // SAFETY: as the caller says.
        unsafe { (*context).uc_mcontext.gregs[usize::try_from(register).unwrap_or_default()] }
    })
}

/// Whether the instruction that trapped is stepped, by this runtime or by the program itself. The kernel enters
/// handlers without the flag.
///
/// # Safety
/// As for [`instruction`].
pub(super) unsafe fn is_stepped(context: *const c_void) -> bool {
    let context = context.cast::<libc::ucontext_t>();
    let place = usize::try_from(libc::REG_EFL).unwrap_or_default();
    // SAFETY: as the caller says.
    let flags = unsafe { (*context).uc_mcontext.gregs[place] };
    flags & TRAP != 0
}

/// One instruction, and no signal before it but its own; returns what the thread has blocked.
///
/// # Safety
/// As for [`instruction`]; the handler returns to this frame.
pub(super) unsafe fn step(context: *mut c_void) -> u64 {
    let own = SYNCHRONOUS.iter().fold(0u64, |set, signal| set | 1 << (signal - 1));
    // SAFETY: as the caller says.
    unsafe { change(context, |flags| flags | TRAP, !own) }
}

/// What the thread has blocked again; it goes on without steps, unless they are the program's own as well.
///
/// # Safety
/// As for [`step`].
pub(super) unsafe fn end_step(context: *mut c_void, before: u64, goes_on: bool) {
    let flag = if goes_on { TRAP } else { 0 };
    // SAFETY: as the caller says.
    unsafe { change(context, |flags| flags & !TRAP | flag, before) };
}

/// Changes the flags, and the blocked signals, which it returns as they were. The kernel's set
/// has 64 signals, whatever the C library's type has room for: the rest is not in the frame.
///
/// # Safety
/// As for [`step`].
unsafe fn change(context: *mut c_void, new: impl FnOnce(i64) -> i64, blocked: u64) -> u64 {
    let context = context.cast::<libc::ucontext_t>();
    let place = usize::try_from(libc::REG_EFL).unwrap_or_default();
    // SAFETY: as the caller says.
    let flags = unsafe { &raw mut (*context).uc_mcontext.gregs[place] };
    // SAFETY: as the caller says.
    let set = unsafe { (&raw mut (*context).uc_sigmask).cast::<u64>() };
    // SAFETY: it lies in the frame.
    let old = unsafe { flags.read() };
    // SAFETY: as above.
    unsafe { flags.write(new(old)) };
    // SAFETY: as above.
    unsafe { set.replace(blocked) }
}
