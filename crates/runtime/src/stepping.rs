//! An instruction that holds minipages until it is through (ADR 17).
//!
//! Role: tells the thread's [`Accesses`] which instruction trapped, and has the processor say when it
//! is through: the trap flag in the frame that the handler returns to makes it raise SIGTRAP right
//! behind the instruction, and what the thread holds is retired there. Until then no asynchronous
//! signal is let through: its handler would run before the instruction, for as long as it likes.
//!
//! Where that cannot be (another architecture, a program with a SIGTRAP handler of its own, a
//! debugger's that was there first), what was granted is retired before the instruction, and a
//! contended minipage may be lost again.

#![expect(unsafe_code, reason = "reads and writes the frame a signal handler returns to")]

use core::cell::Cell;
use core::ffi::{c_int, c_void};

use multigrain_protocol::Input;
use multigrain_protocol::access::{Accesses, Asking};
use multigrain_types::{MinipageId, ThreadId};

use crate::boot::{Runtime, started};
use crate::slots::{self, Slot};

/// Which instruction: the registers it begins with. It has them again whenever it is retried, and
/// the same instruction in the next turn of a loop hardly ever has.
pub(crate) type Instruction = u64;

thread_local! {
    /// Constant and without destructor: usable in a trap.
    static ACCESSES: Cell<Accesses<Instruction>> = const { Cell::new(Accesses::new()) };
    /// The instructions that are stepped, the innermost last: a program's handler of a signal that one
    /// of them raised itself may need another.
    static STEPPED: Cell<Stepped> = const { Cell::new(Stepped::NONE) };
}

/// Handlers that are left by `siglongjmp` leave theirs behind: of so many, the oldest are forgotten.
const DEEPEST: usize = 4;

/// Instructions that are stepped, each by the signals that its thread had blocked.
#[derive(Clone, Copy)]
struct Stepped {
    blocked: [u64; DEEPEST],
    count: usize,
}

impl Stepped {
    const NONE: Self = Self { blocked: [0; DEEPEST], count: 0 };

    fn push(mut self, blocked: u64) -> Self {
        if self.count == DEEPEST {
            self.blocked.rotate_left(1);
            self.count -= 1;
        }
        self.blocked[self.count] = blocked;
        self.count += 1;
        self
    }

    fn pop() -> Option<u64> {
        let mut stepped = STEPPED.with(Cell::get);
        stepped.count = stepped.count.checked_sub(1)?;
        STEPPED.with(|place| place.set(stepped));
        Some(stepped.blocked[stepped.count])
    }
}

fn with<R>(act: impl FnOnce(&mut Accesses<Instruction>) -> R) -> R {
    ACCESSES.with(|cell| {
        let mut accesses = cell.get();
        let result = act(&mut accesses);
        cell.set(accesses);
        result
    })
}

/// What the thread was granted says nothing about what comes: it calls the runtime, so no instruction
/// is under way, or one whose signal a handler of the program serves, which may never return to it.
pub(crate) fn forget() {
    if with(|accesses| accesses.holds_any()) {
        retire_all();
    }
    with(Accesses::forget);
    if let (Some(runtime), Some((thread, _))) = (started(), slots::known()) {
        runtime.end_windows_of(thread);
    }
}

impl Runtime {
    /// The instruction that trapped gives up what it must not hold while it waits for a minipage;
    /// true if it is a pinned retry.
    pub(crate) fn begin_access(
        &self,
        thread: ThreadId,
        minipage: MinipageId,
        context: *const c_void,
    ) -> bool {
        // SAFETY: the kernel gave the handler this context.
        let Some(at) = (unsafe { frame::instruction(context) }) else { return false };
        // SAFETY: as above.
        if !unsafe { frame::is_stepped(context) } && with(|accesses| accesses.holds_any()) {
            // Another instruction, in a handler that the stepped one has run into.
            retire_all();
        }
        let Asking { given_up, pinned } = with(|accesses| accesses.fault(at, minipage));
        for &minipage in &given_up {
            self.end_windows_on(minipage);
        }
        self.retire(thread, given_up);
        pinned
    }

    /// Somebody waits for them.
    fn retire(&self, thread: ThreadId, minipages: impl IntoIterator<Item = MinipageId>) {
        for minipage in minipages {
            self.let_go(minipage);
            self.step_sure(Input::Retired { thread, minipage });
        }
    }

    /// A thread that is about to retry its access says so. Told to hold the minipage, it does so if
    /// it comes back here when it is through.
    pub(crate) fn resume(
        &self,
        (thread, slot): (ThreadId, &Slot),
        minipage: MinipageId,
        for_: For,
    ) {
        self.step_sure(Input::Resumed { thread, minipage });
        let Some((turns, urgent)) = slot.take_told_to_hold() else { return };
        let step = || urgent && frame::is_ours() && with(|all| all.hold(minipage));
        let kept = match for_ {
            For::Instruction { pinned, since_ns } => {
                let stepped = pinned && step();
                self.begin_window((thread, minipage), since_ns, (turns, urgent), stepped)
                    || stepped
                    || step()
            }
            For::Call => false,
        };
        if !kept && urgent {
            self.retire(thread, [minipage]);
        } else if !kept {
            self.step_sure(Input::Retired { thread, minipage });
        }
    }
}

/// What wants a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// An instruction that trapped, and may have lost the minipage before.
    Instruction {
        /// Whether it did.
        pinned: bool,
        /// When it trapped.
        since_ns: u64,
    },
    /// A call of the runtime, which does not access the minipage itself.
    Call,
}

/// The handler of a trap is about to return to the instruction: whatever that holds shall be retired
/// behind it.
pub(crate) fn leave(context: *mut c_void) {
    if !with(|accesses| accesses.holds_any()) {
        return;
    }
    // SAFETY: the kernel gave the handler this context, which it returns to.
    if unsafe { frame::is_stepped(context) } {
        // A second trap of the same instruction.
        return;
    }
    // SAFETY: as above.
    let blocked = unsafe { frame::step(context) };
    STEPPED.with(|stepped| stepped.set(stepped.get().push(blocked)));
}

/// The instruction ends in somebody else's handler.
pub(crate) fn abandon(context: *mut c_void) {
    // SAFETY: the kernel gave the handler this context.
    if !unsafe { frame::is_stepped(context) } {
        return;
    }
    if let Some(blocked) = Stepped::pop() {
        // SAFETY: as above; the handler returns to it.
        unsafe { frame::end_step(context, blocked) };
        retire_all();
    }
}

fn retire_all() {
    let held = with(Accesses::retire);
    if let (Some(runtime), Some((thread, _))) = (started(), slots::known()) {
        let through = |minipage: &MinipageId| runtime.is_through(thread, *minipage);
        runtime.retire(thread, held.into_iter().filter(through));
    }
}

/// SIGTRAP: true if it came from an instruction that was stepped here.
pub(crate) fn on_step(info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the kernel gave the handler this information.
    let code: c_int = unsafe { (*info).si_code };
    if code != libc::TRAP_TRACE || STEPPED.with(Cell::get).count == 0 {
        return false;
    }
    abandon(context);
    true
}

#[cfg(target_arch = "x86_64")]
mod frame {
    use core::ffi::c_void;

    use super::Instruction;
    use crate::fault;

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
        fault::handles(libc::SIGTRAP)
    }

    /// Whether the instruction that trapped is stepped. The kernel enters handlers without the flag.
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

    /// # Safety
    /// As for [`step`].
    pub(super) unsafe fn end_step(context: *mut c_void, before: u64) {
        // SAFETY: as the caller says.
        unsafe { change(context, |flags| flags & !TRAP, before) };
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
}

#[cfg(not(target_arch = "x86_64"))]
mod frame {
    use core::ffi::c_void;

    use super::Instruction;

    pub(super) unsafe fn instruction(_: *const c_void) -> Option<Instruction> {
        None
    }

    /// No processor's step is known here.
    pub(super) fn is_ours() -> bool {
        false
    }

    pub(super) unsafe fn is_stepped(_: *const c_void) -> bool {
        false
    }

    pub(super) unsafe fn step(_: *mut c_void) -> u64 {
        unreachable!("nothing is held here")
    }

    pub(super) unsafe fn end_step(_: *mut c_void, _: u64) {
        unreachable!("nothing is stepped here")
    }
}
