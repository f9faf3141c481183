//! Instructions that hold minipages until they are complete (ADR 17).
//!
//! Role: tells the thread's [`Accesses`] which instruction trapped, and lets the processor report when it is
//! complete: the trap flag, in the frame that the handler returns to, raises SIGTRAP right behind the
//! instruction, and what the thread holds is retired there. Until then asynchronous signals stay blocked: a
//! handler would run before the instruction, for any length of time.
//!
//! Where that is impossible (another architecture, a SIGTRAP handler of the program, a debugger that was there
//! first), what was granted is retired before the instruction, and a contended minipage may be lost again.

#![expect(unsafe_code, reason = "reads and writes the frame a signal handler returns to")]

#[cfg_attr(target_arch = "x86_64", path = "single_step_x86.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "single_step_other.rs")]
mod single_step;

use core::cell::Cell;
use core::ffi::{c_int, c_void};

use multigrain_protocol::access::{Accesses, Asking};
use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{Input, Kind};
use multigrain_types::{MinipageId, ThreadId};

use super::steps::Batch;
use super::{Driver, Wait};
use crate::error::Error;
use crate::minipage_run::Run;
use crate::receiver::slots::{self, Slot};
use crate::time_windows::EndedWindow;

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
#[derive(Clone, Copy)]
struct Stepped {
    steps: [Step; DEEPEST],
    count: usize,
}

impl Stepped {
    const NONE: Self = Self { steps: [Step::NONE; DEEPEST], count: 0 };

    fn push(mut self, step: Step) -> Self {
        if self.count == DEEPEST {
            self.steps.rotate_left(1);
            self.count -= 1;
        }
        self.steps[self.count] = step;
        self.count += 1;
        self
    }

    fn pop() -> Option<Step> {
        let mut stepped = STEPPED.with(Cell::get);
        stepped.count = stepped.count.checked_sub(1)?;
        STEPPED.with(|place| place.set(stepped));
        Some(stepped.steps[stepped.count])
    }
}

/// Whether the instruction that trapped is stepped by this runtime, perhaps beside the program.
///
/// # Safety
/// `context` is the third argument of a signal handler.
unsafe fn is_stepped_here(context: *const c_void) -> bool {
    let Stepped { steps, count } = STEPPED.with(Cell::get);
    let Some(innermost) = count.checked_sub(1).map(|last| steps[last].place) else { return false };
    // SAFETY: as the caller says.
    let place = unsafe { single_step::place(context) };
    // SAFETY: as the caller says.
    place == innermost && unsafe { single_step::is_stepped(context) }
}

fn with<R>(act: impl FnOnce(&mut Accesses<Instruction>) -> R) -> R {
    ACCESSES.with(|cell| {
        let mut accesses = cell.get();
        let result = act(&mut accesses);
        cell.set(accesses);
        result
    })
}

impl Driver {
    /// What the thread was granted says nothing about what comes: it calls the runtime, so no
    /// instruction is under way, or one whose signal a handler of the program serves, which may never
    /// return to it.
    pub(crate) fn forget_access(&self) {
        self.end_access();
        if let Some((thread, _)) = slots::known()
            && self.engine.windows().may_be_open()
        {
            self.retire_ended(self.engine.windows().end_of(thread));
        }
    }

    /// The same of a thread that ends. Its windows go on until their time is over, or until a later thread
    /// in its slot calls the runtime: a program may do each of its steps in a thread of its own. Such a
    /// thread may find the pin of the one before; that costs it its turn at most.
    pub(super) fn end_access(&self) {
        if with(|accesses| accesses.holds_any()) {
            self.retire_all();
        }
        with(Accesses::forget);
    }

    /// Whether the instruction that trapped holds the minipage with the access that it needs: only the page tables
    /// lagged, which agree now. To give it up and ask for it again would let others take it.
    pub(crate) fn holds_already(
        &self,
        minipage: MinipageId,
        kind: Kind,
        context: *const c_void,
    ) -> bool {
        // SAFETY: the kernel gave the handler this context.
        let stepped = unsafe { is_stepped_here(context) };
        stepped && with(|accesses| accesses.holds(minipage)) && self.engine.maps(minipage, kind)
    }

    /// The instruction that trapped gives up what it must not hold while it waits for a minipage;
    /// true if it is a pinned retry.
    pub(crate) fn begin_access(
        &self,
        thread: ThreadId,
        minipage: MinipageId,
        context: *const c_void,
    ) -> bool {
        // SAFETY: the kernel gave the handler this context.
        let Some(at) = (unsafe { single_step::instruction(context) }) else { return false };
        // SAFETY: as above.
        if !unsafe { is_stepped_here(context) } && with(|accesses| accesses.holds_any()) {
            // Another instruction, in a handler that the stepped one has run into.
            self.retire_all();
        }
        let Asking { given_up, pinned } = with(|accesses| accesses.fault(at, minipage));
        for &minipage in &given_up {
            self.end_windows_on(minipage);
        }
        given_up.into_iter().for_each(|minipage| self.retire(thread, minipage, true));
        pinned
    }

    /// A thread that was told to hold a minipage lets it go; somebody waits for it if that is `urgent`.
    fn retire(&self, thread: ThreadId, minipage: MinipageId, urgent: bool) {
        let released = urgent && !self.tables().manages(minipage);
        let turn_us = self.engine.windows().turn_us(minipage, released);
        self.step_sure(Input::Retired { thread, minipage, turn_us });
    }

    /// A thread that is about to retry its access says so. Told to hold the minipage, it does so if
    /// it comes back here when it is through.
    fn resume(&self, (thread, slot): (ThreadId, &Slot), minipage: MinipageId, for_: For) {
        if for_.is_first_try() && self.keep_as_asked(thread, minipage) {
            return;
        }
        self.step_sure(Input::Resumed { thread, minipage });
        let Some((turns, urgent)) = slot.take_told_to_hold() else { return };
        let step = || urgent && single_step::is_ours() && with(|all| all.hold(minipage));
        let window = |since_ns, kind, stepped| {
            let since = (since_ns, self.tables().manages(minipage), kind);
            self.engine.windows().begin((thread, minipage), since, (turns, urgent), stepped)
        };
        let kept = match for_ {
            For::Instruction { pinned, since_ns, kind } => {
                let stepped = pinned && step();
                window(since_ns, kind, stepped) || stepped || step()
            }
            For::Call { since_ns, kind } => window(since_ns, kind, false),
            For::Later => false,
        };
        if !kept {
            self.retire(thread, minipage, urgent);
        }
    }

    /// Whether a window that the program asked for keeps what a thread was granted (Delta). The grant has the
    /// thread's pin then until the window ends, and is not resumed before. Not for a pinned retry, whose instruction
    /// may have to give it up for another.
    fn keep_as_asked(&self, thread: ThreadId, minipage: MinipageId) -> bool {
        let Some(sharing) = self.tables().segment_sharing(minipage.area()) else { return false };
        let delta_ns = sharing.delta_ns(minipage.index());
        if delta_ns == 0 {
            return false;
        }
        let Some(over) = self.engine.windows().keep(thread, minipage, delta_ns) else {
            return false;
        };
        sharing.count_window();
        self.retire_ended(over);
        true
    }

    /// Steps the protocol for a thread that needs access to a minipage, asks for what else is wanted with it, and waits for
    /// the one; true if no message was needed.
    pub(crate) fn fetch(
        &self,
        (thread, slot): (ThreadId, &Slot),
        wanted: Wanted<'_>,
        kind: Kind,
        for_: For,
    ) -> bool {
        let needs = |minipage| match for_ {
            For::Instruction { pinned: true, .. } => Input::PinnedRetry { thread, minipage, kind },
            For::Instruction { pinned: false, .. } | For::Call { .. } | For::Later => {
                Input::Fault { thread, minipage, kind }
            }
        };
        slot.arm();
        let (needed, at_once) = match wanted {
            Wanted::Run(run, needed) => {
                self.step_run(run, |minipage| {
                    if minipage == needed {
                        needs(minipage)
                    } else {
                        Input::Prefetch { minipage, kind }
                    }
                });
                (needed, slot.word.is_woken_at_once())
            }
            Wanted::With(needed, others) => self.batch(|batch| {
                batch.step(needs(needed));
                let at_once = slot.word.is_woken_at_once();
                if !at_once {
                    others(batch);
                }
                (needed, at_once)
            }),
        };
        self.wait_for(slot, Wait::Fault);
        self.resume((thread, slot), needed, for_);
        at_once
    }

    fn retire_all(&self) {
        let held = with(Accesses::retire);
        if let Some((thread, _)) = slots::known() {
            let windows = self.engine.windows();
            let through = |minipage: &MinipageId| windows.is_through(thread, *minipage);
            held.into_iter()
                .filter(through)
                .for_each(|minipage| self.retire(thread, minipage, true));
        }
    }

    /// A thread of this node wants to write a minipage, or has lost it, or an instruction gives it up.
    pub(crate) fn end_windows_on(&self, minipage: MinipageId) {
        self.retire_ended(self.engine.windows().end_on(minipage));
    }

    /// The helper: ends windows when they are over, until this node leaves.
    pub(crate) fn keep_time(&self) {
        while !self.membership().is_leaving() {
            self.engine.windows().sleep();
            for id in self.engine.windows().locks_due() {
                self.end_lock_window(id);
            }
            self.retire_ended(self.engine.windows().end_due());
        }
    }

    /// A thread gives a lock back and is likely to take it again at once: if another node waits for the
    /// token it stays here for a window.
    pub(crate) fn unlock_to_reacquire(
        &self,
        slot: &Slot,
        (thread, id): (ThreadId, u64),
    ) -> Result<(), Error> {
        self.tell(SyncInput::UnlockToReacquire { thread, id })?;
        if self.tables().keeps_lock(id) {
            slot.reacquisition.keep();
            if !self.engine.windows().keep_lock(id) {
                self.end_kept_lock(slot);
            }
        }
        Ok(())
    }

    /// A thread is about to wait for something else, or ends: it does not come back to a lock soon.
    pub(crate) fn end_kept_lock(&self, slot: &Slot) {
        if let Some(id) = slot.reacquisition.take_kept() {
            self.end_lock_window(id);
        }
    }

    fn end_lock_window(&self, id: u64) {
        self.tell_sure(SyncInput::LockWindowOver { id });
    }

    fn retire_ended(&self, ended: Vec<EndedWindow>) {
        for EndedWindow { thread, minipage, urgent } in ended {
            self.retire(thread, minipage, urgent);
        }
    }

    /// The instruction ends in somebody else's handler.
    pub(crate) fn abandon_step(&self, context: *mut c_void) {
        // SAFETY: the kernel gave the handler this context.
        if unsafe { is_stepped_here(context) } {
            self.end_step(context);
        }
    }

    /// The innermost step is over: whether the program does not step itself there.
    fn end_step(&self, context: *mut c_void) -> bool {
        let Some(Step { blocked, by_program, .. }) = Stepped::pop() else { return false };
        // SAFETY: the kernel gave the handler this context, which it returns to.
        unsafe { single_step::end_step(context, blocked, by_program) };
        self.retire_all();
        !by_program
    }

    /// SIGTRAP: true if it came from an instruction that was stepped here, and only here.
    pub(crate) fn on_step(&self, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        // SAFETY: the kernel gave the handler this information.
        let code: c_int = unsafe { (*info).si_code };
        code == libc::TRAP_TRACE && self.end_step(context)
    }
}

/// What is fetched: what a thread waits for, and what comes with it.
pub(crate) enum Wanted<'a> {
    /// One minipage of a run; the others are asked for in the same frame.
    Run(Run, MinipageId),
    /// One minipage. If a message asks for it, others that this asks for travel with that.
    With(MinipageId, &'a mut dyn FnMut(Batch<'_>)),
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
        /// What for.
        kind: Kind,
    },
    /// A call of the program, which is about to access it.
    Call {
        /// When it was made.
        since_ns: u64,
        /// What for.
        kind: Kind,
    },
    /// An access that this node foresees.
    Later,
}

impl For {
    /// Whether it is an instruction that was not granted the minipage before.
    pub(crate) fn is_first_try(self) -> bool {
        matches!(self, Self::Instruction { pinned: false, .. })
    }
}

/// The handler of a trap is about to return to the instruction: whatever that holds shall be retired
/// behind it.
pub(crate) fn leave(context: *mut c_void) {
    if !with(|accesses| accesses.holds_any()) {
        return;
    }
    // SAFETY: the kernel gave the handler this context, which it returns to.
    if unsafe { is_stepped_here(context) } {
        // A second trap of the same instruction.
        return;
    }
    // SAFETY: as above.
    let place = unsafe { single_step::place(context) };
    // SAFETY: as above.
    let by_program = unsafe { single_step::is_stepped(context) };
    // SAFETY: as above.
    let step = Step { place, by_program, blocked: unsafe { single_step::step(context) } };
    STEPPED.with(|stepped| stepped.set(stepped.get().push(step)));
}
