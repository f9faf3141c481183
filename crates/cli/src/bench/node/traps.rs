//! Empty traps: an access that is not allowed, a handler that steps over it, and nothing else.
#![expect(unsafe_code, reason = "the signal entry, and the instruction that traps")]

use crate::bench::clock::timed;
use crate::bench::samples::Samples;
use anyhow::{Result, ensure};
use core::arch::asm;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use multigrain_types::PAGE_BYTES;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The address whose access is stepped over; any other trap of that signal is a real one.
static PROBED: AtomicUsize = AtomicUsize::new(0);

/// Addresses that trap, with a handler that steps over the access.
pub(super) struct EmptyTrap {
    address: usize,
}

/// What the kernel calls for a signal that carries an address.
pub(super) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Has `signal` handled so from now on, all other signals blocked meanwhile.
pub(super) fn catch(signal: c_int, handler: Handler) -> Result<()> {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the mask is a valid place.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: the action lives through the call, and its function has the right signature.
    let failed = unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) };
    ensure!(failed == 0, "sigaction: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Traps on a page of no access in an ordinary mapping.
pub(super) fn empty_segv() -> Result<EmptyTrap> {
    // SAFETY: the kernel picks the address, so no memory in use is replaced.
    let page = unsafe {
        mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, ProtFlags::empty(), MapFlags::PRIVATE)
    }?;
    EmptyTrap::at(page.expose_provenance(), libc::SIGSEGV)
}

impl EmptyTrap {
    /// Traps at `address`, which raise `signal`. The handler stays installed.
    pub(super) fn at(address: usize, signal: c_int) -> Result<Self> {
        catch(signal, step_over)?;
        Ok(Self { address })
    }

    /// Times so many traps.
    pub(super) fn time(&self, count: usize) -> Samples {
        PROBED.store(self.address, Ordering::SeqCst);
        (0..count).map(|_| timed(|| probe(self.address))).collect()
    }
}

/// Bytes of the instruction in [`probe`].
#[cfg(target_arch = "x86_64")]
const PROBE_BYTES: i64 = 2;
#[cfg(target_arch = "aarch64")]
const PROBE_BYTES: u64 = 4;

#[cfg(target_arch = "x86_64")]
fn probe(address: usize) {
    // SAFETY: the load traps, and the handler steps over its two bytes; the register is given up.
    unsafe { asm!("mov al, [rdi]", in("rdi") address, out("al") _, options(nostack, readonly)) };
}

#[cfg(target_arch = "aarch64")]
fn probe(address: usize) {
    // SAFETY: the load traps, and the handler steps over its four bytes; the register is given up.
    unsafe { asm!("ldrb w9, [x0]", in("x0") address, out("w9") _, options(nostack, readonly)) };
}

extern "C" fn step_over(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's own siginfo_t of the signal being handled.
    let info = unsafe { &*info };
    // SAFETY: SIGBUS and SIGSEGV carry an address.
    let address = unsafe { info.si_addr() }.addr();
    if address == 0 || address != PROBED.load(Ordering::Relaxed) {
        // SAFETY: restoring the default action is always allowed; the access then ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    // SAFETY: the kernel's own ucontext_t of the signal being handled, which it reads back.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    advance(context);
}

#[cfg(target_arch = "x86_64")]
fn advance(context: &mut libc::ucontext_t) {
    const REG_RIP: usize = 16;
    context.uc_mcontext.gregs[REG_RIP] += PROBE_BYTES;
}

#[cfg(target_arch = "aarch64")]
fn advance(context: &mut libc::ucontext_t) {
    context.uc_mcontext.pc += PROBE_BYTES;
}
