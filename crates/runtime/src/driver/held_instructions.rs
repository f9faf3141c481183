//! Instructions that hold minipages until they are complete (ADR 17).
//!
//! Role: tells the thread's [`Accesses`] which instruction trapped, and retires what it holds when the processor
//! reports that it is complete ([`super::single_step`]). Where instructions cannot be stepped, what was granted is retired
//! before the instruction, and a contended minipage may be lost again.

#![expect(unsafe_code, reason = "reads what the kernel gave a signal handler")]

use core::cell::Cell;
use core::ffi::c_void;

use multigrain_protocol::held_accesses::{Accesses, Asking};
use multigrain_protocol::{Input, Kind};
use multigrain_types::{MinipageId, ThreadId};

use super::Driver;
use super::single_step::{self, Instruction};
use crate::receiver::slots;

thread_local! {
    /// Constant and without destructor: usable in a trap.
    static ACCESSES: Cell<Accesses<Instruction>> = const { Cell::new(Accesses::new()) };
}

fn with<R>(act: impl FnOnce(&mut Accesses<Instruction>) -> R) -> R {
    ACCESSES.with(|cell| {
        let mut accesses = cell.get();
        let result = act(&mut accesses);
        cell.set(accesses);
        result
    })
}

/// The instruction that trapped shall hold the minipage until it is complete; false if that is impossible.
pub(super) fn hold(minipage: MinipageId) -> bool {
    single_step::is_possible() && with(|accesses| accesses.hold(minipage))
}

impl Driver {
    /// What the thread was granted says nothing about what comes: it calls the runtime, so no
    /// instruction is under way, or one whose signal a handler of the program serves, which may never
    /// return to it.
    pub(crate) fn forget_access(&self) {
        self.end_access();
        self.engine.windows().called();
        if self.engine.windows().may_be_open()
            && let Some((thread, _)) = slots::known()
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
        let stepped = unsafe { single_step::is_stepped_here(context) };
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
        if !unsafe { single_step::is_stepped_here(context) }
            && with(|accesses| accesses.holds_any())
        {
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
    pub(super) fn retire(&self, thread: ThreadId, minipage: MinipageId, urgent: bool) {
        let released = urgent && !self.tables().manages(minipage);
        let turn_us = self.engine.windows().turn_us(minipage, released);
        self.step_sure(Input::Retired { thread, minipage, turn_us });
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

    /// The instruction ends in somebody else's handler.
    pub(crate) fn abandon_step(&self, context: *mut c_void) {
        // SAFETY: the kernel gave the handler this context.
        if unsafe { single_step::is_stepped_here(context) } {
            self.end_step(context);
        }
    }

    /// The innermost step is over: whether the program does not step itself there.
    fn end_step(&self, context: *mut c_void) -> bool {
        // SAFETY: the kernel gave the handler this context, which it returns to.
        let Some(by_program) = (unsafe { single_step::end(context) }) else { return false };
        self.retire_all();
        !by_program
    }

    /// SIGTRAP: true if it came from an instruction that was stepped here, and only here.
    pub(crate) fn on_step(&self, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        // SAFETY: the kernel gave the handler this information.
        let code = unsafe { (*info).si_code };
        // SAFETY: the kernel gave the handler this context.
        unsafe { single_step::is_step(code, context) && self.end_step(context) }
    }
}

/// The handler of a trap is about to return to the instruction: whatever that holds shall be retired
/// behind it.
pub(crate) fn leave(context: *mut c_void) {
    if !with(|accesses| accesses.holds_any()) {
        return;
    }
    // SAFETY: the kernel gave the handler this context, which it returns to.
    if unsafe { single_step::is_stepped_here(context) } {
        // A second trap of the same instruction.
        return;
    }
    // SAFETY: as above.
    unsafe { single_step::begin(context) };
}
