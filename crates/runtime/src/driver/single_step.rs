//! Instructions that are single-stepped: the trap flag, in the frame that a trap's handler returns to, raises SIGTRAP right
//! behind the instruction. Until then asynchronous signals stay blocked: a handler would run before the
//! instruction, for any length of time.
//!
//! Where that is impossible (another architecture, a SIGTRAP handler of the program, a debugger that was there
//! first), nothing is stepped ([`is_possible`]).

#![expect(unsafe_code, reason = "reads and writes the frame a signal handler returns to")]

#[cfg_attr(target_arch = "x86_64", path = "single_step_x86.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "single_step_other.rs")]
mod arch;

use core::cell::Cell;
use core::ffi::{c_int, c_void};

/// Which instruction: the registers it begins with. It has them again whenever it is retried, and
/// the same instruction in the next turn of a loop hardly ever has.
pub(super) type Instruction = u64;

thread_local! {
    /// The instructions that are stepped, the innermost last: a program's handler of a signal that one
    /// of them raised itself may need another.
    static STEPPED: Stepped = const { Stepped { steps: Cell::new([Step::NONE; DEEPEST]), count: Cell::new(0) } };
}

/// Handlers that are left by `siglongjmp` leave theirs behind: of so many, the oldest are forgotten.
const DEEPEST: usize = 4;

/// Where an instruction lies, and its stack.
type StackFrame = [i64; 2];

/// An instruction that is stepped.
#[derive(Clone, Copy)]
struct Step {
    place: StackFrame,
    /// The signals that its thread had blocked.
    blocked: u64,
    /// The program steps through itself.
    by_program: bool,
}

impl Step {
    const NONE: Self = Self { place: [0; 2], blocked: 0, by_program: false };
}

/// Instructions that are stepped.
struct Stepped {
    steps: Cell<[Step; DEEPEST]>,
    count: Cell<usize>,
}

impl Stepped {
    fn innermost(&self) -> Option<Step> {
        self.count.get().checked_sub(1).map(|last| self.steps.get()[last])
    }

    fn push(&self, step: Step) {
        let (mut steps, mut count) = (self.steps.get(), self.count.get());
        if count == DEEPEST {
            steps.rotate_left(1);
            count -= 1;
        }
        steps[count] = step;
        self.steps.set(steps);
        self.count.set(count + 1);
    }

    fn pop(&self) -> Option<Step> {
        let step = self.innermost()?;
        self.count.set(self.count.get() - 1);
        Some(step)
    }
}

/// Whether the instruction that trapped is stepped by this runtime, perhaps beside the program.
///
/// # Safety
/// `context` is the third argument of a signal handler.
pub(super) unsafe fn is_stepped_here(context: *const c_void) -> bool {
    let Some(Step { place: innermost, .. }) = STEPPED.with(Stepped::innermost) else {
        return false;
    };
    // SAFETY: as the caller says.
    let place = unsafe { arch::place(context) };
    // SAFETY: as the caller says.
    place == innermost && unsafe { arch::is_stepped(context) }
}

/// Which instruction trapped; none where nothing can be stepped.
///
/// # Safety
/// `context` is the third argument of a signal handler.
pub(super) unsafe fn instruction(context: *const c_void) -> Option<Instruction> {
    // SAFETY: as the caller says.
    unsafe { arch::instruction(context) }
}

/// Whether a SIGTRAP of this code ends a step. A kernel that finds the processor's debug status empty takes the trap for that
/// of `int1` (not seen so far, ADR 17); then the flag in the frame says what it was.
///
/// # Safety
/// `context` is the third argument of a signal handler.
pub(super) unsafe fn is_step(code: c_int, context: *const c_void) -> bool {
    match code {
        libc::TRAP_TRACE => true,
        // SAFETY: as the caller says.
        libc::TRAP_BRKPT => unsafe { arch::is_stepped(context) },
        _ => false,
    }
}

/// Whether an instruction can be stepped now: SIGTRAP's handler is the runtime's.
pub(super) fn is_possible() -> bool {
    arch::is_ours()
}

/// The instruction that the handler returns to is stepped.
///
/// # Safety
/// `context` is the third argument of a signal handler.
pub(super) unsafe fn begin(context: *mut c_void) {
    // SAFETY: as the caller says.
    let place = unsafe { arch::place(context) };
    // SAFETY: as the caller says.
    let by_program = unsafe { arch::is_stepped(context) };
    // SAFETY: as the caller says.
    let step = Step { place, by_program, blocked: unsafe { arch::step(context) } };
    STEPPED.with(|stepped| stepped.push(step));
}

/// The innermost step is over; whether the program steps itself there. None if nothing is stepped.
///
/// # Safety
/// `context` is the third argument of a signal handler.
pub(super) unsafe fn end(context: *mut c_void) -> Option<bool> {
    let Step { blocked, by_program, .. } = STEPPED.with(Stepped::pop)?;
    // SAFETY: as the caller says.
    unsafe { arch::end_step(context, blocked, by_program) };
    Some(by_program)
}
