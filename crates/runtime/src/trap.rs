//! Fault entry: a trap becomes a protocol input, in the faulting thread (Millipage Figure 3, "On
//! Read or Write Fault").
//!
//! The handler runs in signal context, but synchronously: the thread stopped at an access to shared
//! memory, so it holds no lock of the runtime, which never touches an application view. All other
//! signals stay blocked until the access is there, but for those that end a program that has no handler for them
//! (`signals/handlers.rs`).

#![expect(unsafe_code, reason = "the signal entry")]

use core::ffi::{c_int, c_void};
use std::sync::OnceLock;

use multigrain_memory::Trap;
use multigrain_protocol::Kind;
use multigrain_types::Access;

use crate::child;
use crate::crash::Crash;
use crate::driver::Driver;
use crate::driver::fetch::For;
use crate::driver::held_instructions;
use crate::error::Error;
use crate::prefetch::Prefetcher;
use crate::receiver::{critical_section, racing_faults};
use crate::signal_reentrancy::Inside;
use crate::signals;
use crate::stats::Count;
use crate::time_windows::now_ns;
use crate::unsupported_atomics;

/// Where traps of this process go.
#[derive(Debug)]
struct Entry {
    driver: &'static Driver,
    prefetcher: &'static Prefetcher,
}

static ENTRY: OnceLock<Entry> = OnceLock::new();

/// From now on traps on shared memory, and steps of instructions, come to this node.
///
/// # Errors
/// [`Error::System`]; [`Error::AlreadyInitialized`].
pub(crate) fn install(
    driver: &'static Driver,
    prefetcher: &'static Prefetcher,
) -> Result<(), Error> {
    ENTRY.set(Entry { driver, prefetcher }).map_err(|_| Error::AlreadyInitialized)?;
    signals::debugger::look();
    for signal in signals::OURS {
        signals::install(signal, on_trap, signal == driver.memory().signal())?;
    }
    Ok(())
}

/// If a signal is now left to its default action, which ends this process.
fn tell_crash(signal: c_int, info: *const libc::siginfo_t, context: *const c_void) {
    let Some(Entry { driver, .. }) = ENTRY.get() else { return };
    if child::is_one() {
        // What its launcher is told is not about it.
        return;
    }
    let platform = driver.platform();
    let crash = Crash::of(signal, info, context, platform.memory(), platform.nodes());
    if let Some(crash) = crash.filter(|_| signals::is_default(signal)) {
        platform.launcher().crashed(signal, crash);
    }
}

extern "C" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the call has no requirements.
    let errno_place = unsafe { libc::__errno_location() };
    // SAFETY: errno's place is valid for this thread.
    let errno = unsafe { errno_place.read() };
    let entry = ENTRY.get();
    let handled = entry.is_some_and(|entry| entry.takes(signal, info, context));
    if !handled {
        if let Some(Entry { driver, .. }) = entry {
            driver.abandon_step(context);
        }
        signals::chain(signal, info, context);
        tell_crash(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { errno_place.write(errno) };
}

impl Entry {
    /// Whether the signal is the runtime's.
    fn takes(&self, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        // A handler of SIGTERM and its like may be installed while an access waits that does not block them.
        let _inside = Inside::new();
        if signal == libc::SIGTRAP {
            return self.driver.on_step(info, context);
        }
        self.refuse_outsiders(info);
        let trap = self.driver.memory().decode(signal, info, context);
        trap.is_some_and(|trap| self.on_fault(trap, context))
    }

    /// A thread that touches shared memory in a child, or after this node has left, does not go on.
    fn refuse_outsiders(&self, info: *const libc::siginfo_t) {
        let (driver, is_child) = (self.driver, child::is_one());
        if !is_child && driver.membership().is_member() {
            return;
        }
        // SAFETY: the kernel gave the handler this information.
        let info = unsafe { &*info };
        if info.si_code <= 0 {
            // Somebody's kill.
            return;
        }
        // SAFETY: SIGSEGV and SIGBUS of the kernel's own carry an address.
        let address = unsafe { info.si_addr() }.addr();
        let minipage = driver.memory().translate(address);
        if !minipage.is_some_and(|minipage| driver.tables().knows(minipage)) {
            return;
        }
        if is_child {
            child::end(address);
        }
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        while driver.membership().exits_beside(own) {
            rustix::event::pause();
        }
        driver.platform().fatal(&format!(
            "shared memory at {address:#x} was touched after this node had left the job (after \
             mg_finalize, or as the process exits)"
        ));
    }

    /// A thread of the program trapped; false if the address is not shared memory.
    fn on_fault(&self, trap: Trap, context: *mut c_void) -> bool {
        let driver = self.driver;
        let Some(minipage) = driver.memory().translate(trap.address) else { return false };
        let needed = if trap.write { Access::ReadWrite } else { Access::ReadOnly };
        let Some(area) = driver.tables().area_with(minipage) else { return false };
        if driver.memory().limit(minipage.area()) < needed {
            return false;
        }
        if let Some((start, bytes)) = signals::stack::without_room(context) {
            driver.platform().fatal(&format!(
                "a signal handler touched shared memory at {:#x} on the alternate stack of {bytes} bytes at \
                 {start:#x}, which has no room for that: give sigaltstack 64 KiB at least, and let the handler use \
                 no more than half of it",
                trap.address
            ));
        }
        // SAFETY: the handler's own context.
        unsafe { unsupported_atomics::look(driver, area.consistency(), trap.address, context) };
        let kind = if trap.write { Kind::Write } else { Kind::Read };
        let Some((thread, slot)) = driver.own_slot() else {
            driver.platform().fatal("more than 4,096 threads of this node use shared memory");
        };
        if slot.awaited().is_waiting() {
            driver.platform().fatal(&format!(
                "a signal handler touched shared memory at {:#x} while its thread waited in a call of this \
                 library, which would both wait for ever: let the handler touch private memory only",
                trap.address
            ));
        }
        let faults = match kind {
            Kind::Read => Count::ReadFaults,
            Kind::Write => Count::WriteFaults,
        };
        driver.counters().add(faults, 1);
        if driver.holds_already(minipage, kind, context) {
            driver.counters().add(Count::LocalFaults, 1);
            held_instructions::leave(context);
            return true;
        }
        let trapped = driver.engine().trapped((minipage, trap.address), kind);
        let since_ns = now_ns();
        critical_section::needs(minipage);
        let sharing = area.sharing();
        if kind == Kind::Write || sharing.is_some() {
            driver.end_windows_on(minipage);
        }
        let pinned = driver.begin_access(thread, minipage, context);
        let for_ = For::Instruction { pinned, since_ns, kind };
        if racing_faults::begin(thread, minipage) && kind == Kind::Read {
            driver.counters().add(Count::RacingFaults, 1);
        }
        let at_once = self.prefetcher.fetch(driver, (thread, slot), minipage, kind, for_);
        racing_faults::end(thread);
        driver.engine().served(trapped);
        held_instructions::leave(context);
        if let Some(sharing) = sharing {
            sharing.count(kind, pinned, now_ns().saturating_sub(since_ns));
        }
        if at_once {
            driver.counters().add(Count::LocalFaults, 1);
        } else {
            self.prefetcher.note(minipage, kind);
        }
        true
    }
}
