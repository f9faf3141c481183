//! Fault entry: a trap becomes a protocol input, in the faulting thread (Millipage Figure 3, "On
//! Read or Write Fault").
//!
//! The handler runs in signal context, but synchronously: the thread stopped at an access to shared
//! memory, so it holds no lock of the runtime, which never touches an application view. All other
//! signals stay blocked until the access is there.

#![expect(unsafe_code, reason = "the signal entry")]

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use multigrain_memory::Trap;
use multigrain_protocol::{Input, Kind};
use multigrain_types::{MinipageId, ThreadId};

use crate::boot::{Runtime, started};
use crate::error::Error;
use crate::slots::Slot;
use crate::stepping::{self, For};
use crate::tables::lock;
use crate::turns::now_ns;

/// What handled a signal before us: traps that are not ours go there.
static PREVIOUS: [OnceLock<Previous>; 2] = [const { OnceLock::new() }; 2];

/// The place of a signal's previous handler: the guard's signal, and SIGTRAP.
fn previous(signal: c_int) -> &'static OnceLock<Previous> {
    &PREVIOUS[usize::from(signal == libc::SIGTRAP)]
}

struct Previous(libc::sigaction);

/// Installs the handler of the guard's signal, or of SIGTRAP.
pub(crate) fn install(signal: c_int) -> Result<(), Error> {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut previous: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = on_trap as *const () as usize;
    // Not SA_ONSTACK: the alternate stacks of Rust's threads hold 8 KiB, which the protocol and the
    // transport need for themselves; the thread's own stack is sound, for it only touched memory.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the mask is a valid place.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: both structures live through the call.
    if unsafe { libc::sigaction(signal, &raw const action, &raw mut previous) } != 0 {
        return Err(Error::System(format!("sigaction: {}", std::io::Error::last_os_error())));
    }
    let _ = self::previous(signal).set(Previous(previous));
    Ok(())
}

/// Whether a signal is still handled here: a program may install a handler of its own.
pub(crate) fn handles(signal: c_int) -> bool {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: the structure lives through the call, which changes nothing.
    let failed = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut action) };
    failed == 0 && action.sa_sigaction == on_trap as *const () as usize
}

extern "C" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the call has no requirements.
    let errno_place = unsafe { libc::__errno_location() };
    // SAFETY: errno's place is valid for this thread.
    let errno = unsafe { errno_place.read() };
    let handled = if signal == libc::SIGTRAP {
        stepping::on_step(info, context)
    } else {
        started().is_some_and(|runtime| {
            let trap = runtime.memory.decode(signal, info, context);
            trap.is_some_and(|trap| runtime.on_fault(trap, context))
        })
    };
    if !handled {
        stepping::abandon(context);
        chain(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { errno_place.write(errno) };
}

/// Not our trap: the previous handler's, or the default, which ends the program as it should.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let found = previous(signal).get();
    let previous = found.map_or(libc::SIG_DFL, |previous| previous.0.sa_sigaction);
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        // SAFETY: the kernel gave the handler this information.
        let code = unsafe { (*info).si_code };
        if previous == libc::SIG_IGN && code <= 0 {
            return;
        }
        // SAFETY: restoring the default action is always allowed; an access then traps again.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        if signal == libc::SIGTRAP || code <= 0 {
            // A breakpoint, or somebody's kill: nothing traps again. It is blocked until this returns.
            // SAFETY: sending this thread a signal has no requirements.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    let takes_info = found.is_some_and(|previous| previous.0.sa_flags & libc::SA_SIGINFO != 0);
    if takes_info {
        // SAFETY: the program installed it with SA_SIGINFO, so it has this signature.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { core::mem::transmute(previous) };
        handler(signal, info, context);
    } else {
        // SAFETY: the program installed it without SA_SIGINFO, so it has this signature.
        let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(previous) };
        handler(signal);
    }
}

impl Runtime {
    /// A thread of the program trapped; false if the address is not shared memory.
    fn on_fault(&self, trap: Trap, context: *mut c_void) -> bool {
        let Some(minipage) = self.memory.translate(trap.address) else { return false };
        if !self.tables.knows(minipage) {
            return false;
        }
        let kind = if trap.write { Kind::Write } else { Kind::Read };
        let Some((thread, slot)) = self.own_slot() else {
            self.fatal("more than 4,096 threads of this node use shared memory");
        };
        let faults = match kind {
            Kind::Read => &self.counters.read_faults,
            Kind::Write => &self.counters.write_faults,
        };
        faults.fetch_add(1, Ordering::Relaxed);
        let since_ns = now_ns();
        if kind == Kind::Write {
            self.end_windows_on(minipage);
        }
        let pinned = self.begin_access(thread, minipage, context);
        let at_once =
            self.fetch((thread, slot), minipage, kind, For::Instruction { pinned, since_ns });
        stepping::leave(context);
        if at_once {
            self.counters.local_faults.fetch_add(1, Ordering::Relaxed);
        } else if self.learn {
            lock(&self.habits).note(minipage, kind);
        }
        true
    }

    /// Steps the protocol for a thread that needs access and waits for it; true if no message was
    /// needed.
    pub(crate) fn fetch(
        &self,
        (thread, slot): (ThreadId, &Slot),
        minipage: MinipageId,
        kind: Kind,
        for_: For,
    ) -> bool {
        let page = if kind == Kind::Read { self.page_of(minipage) } else { None };
        match page {
            Some(page) => self.fetch_with_companions((thread, slot), minipage, &page),
            None => self.fetch_alone((thread, slot), minipage, kind, for_),
        }
    }

    /// The same, whatever else may be wanted.
    pub(crate) fn fetch_alone(
        &self,
        (thread, slot): (ThreadId, &Slot),
        minipage: MinipageId,
        kind: Kind,
        for_: For,
    ) -> bool {
        slot.arm();
        self.step_sure(match for_ {
            For::Instruction { pinned: true, .. } => Input::PinnedRetry { thread, minipage, kind },
            For::Instruction { pinned: false, .. } | For::Call => {
                Input::Fault { thread, minipage, kind }
            }
        });
        let at_once = slot.word.is_woken_at_once();
        self.wait_for(slot);
        self.resume((thread, slot), minipage, for_);
        at_once
    }
}
