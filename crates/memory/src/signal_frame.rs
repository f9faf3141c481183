//! Decodes a trap's signal: which address, and whether it was a write. Traps enter at `runtime/src/trap.rs`.
//!
//! Role: the only place that reads the kernel's signal frames. Runs in signal context.
#![expect(unsafe_code, reason = "reads siginfo_t and ucontext_t as the kernel laid them out")]

use core::ffi::c_void;

use libc::{siginfo_t, ucontext_t};

/// An access to a view that its protection did not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trap {
    /// The address accessed.
    pub address: usize,
    /// Whether the access was a write.
    pub write: bool,
}

/// BUS_ADRERR and SEGV_ACCERR: an address that exists, an access that is not allowed.
const NOT_ALLOWED: i32 = 2;

/// The trap of `signal`, if the signal is `guard_signal` and its address is `shared`.
///
/// The pointers are null or the ones that the kernel gave to the handler of this signal.
pub(crate) fn decode(
    guard_signal: i32,
    signal: i32,
    info: *const siginfo_t,
    context: *const c_void,
    shared: impl Fn(usize) -> bool,
) -> Option<Trap> {
    if signal != guard_signal || info.is_null() || context.is_null() {
        return None;
    }
    // SAFETY: not null, so the kernel's own siginfo_t of the signal being handled.
    let info = unsafe { &*info };
    if info.si_code != NOT_ALLOWED {
        return None;
    }
    // SAFETY: SIGBUS and SIGSEGV with these codes carry an address.
    let address = unsafe { info.si_addr() }.addr();
    // SAFETY: not null, so the kernel's own context of the signal being handled.
    let fetched = unsafe { instruction(context) } == address;
    // No view may be executed: an instruction that is looked for there does not become one.
    if fetched || !shared(address) {
        return None;
    }
    // SAFETY: as above.
    let context = unsafe { &*context.cast::<ucontext_t>() };
    Some(Trap { address, write: is_write(context) })
}

/// Where the instruction begins that raised a signal.
///
/// # Safety
/// `context` is the third argument of a signal handler with SA_SIGINFO.
#[must_use]
pub unsafe fn instruction(context: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    let context = unsafe { &*context.cast::<ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let address = {
        const REG_RIP: usize = 16;
        context.uc_mcontext.gregs[REG_RIP].cast_unsigned()
    };
    #[cfg(target_arch = "aarch64")]
    let address = context.uc_mcontext.pc;
    usize::try_from(address).unwrap_or(0)
}

/// Bit 1 of the page-fault error code: the access was a write.
#[cfg(target_arch = "x86_64")]
fn is_write(context: &ucontext_t) -> bool {
    const REG_ERR: usize = 19;
    context.uc_mcontext.gregs[REG_ERR] & 0b10 != 0
}

/// Bit 6 (WnR) of the exception syndrome, a record among the extended registers.
#[cfg(target_arch = "aarch64")]
fn is_write(context: &ucontext_t) -> bool {
    const ESR_MAGIC: u32 = 0x4553_5201;
    const RESERVED_OFFSET: usize = 288;
    const RESERVED_BYTES: usize = 4096;
    let records = (&raw const context.uc_mcontext).cast::<u8>();
    let mut offset = RESERVED_OFFSET;
    while offset + 16 <= RESERVED_OFFSET + RESERVED_BYTES {
        // SAFETY: within the 4096 bytes of records that follow the registers in mcontext_t.
        let record = unsafe { records.add(offset) };
        // SAFETY: a record starts with two 32-bit words, magic and size.
        let [magic, bytes] = unsafe { record.cast::<[u32; 2]>().read_unaligned() };
        if magic == ESR_MAGIC {
            // SAFETY: the syndrome is the 64-bit word after the two.
            let syndrome = unsafe { record.cast::<[u64; 2]>().read_unaligned() }[1];
            return syndrome & (1 << 6) != 0;
        }
        if magic == 0 || bytes == 0 {
            break;
        }
        offset += bytes as usize;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_not_the_guards_is_no_trap() {
        let null = core::ptr::null();
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            assert_eq!(decode(libc::SIGBUS, signal, null, core::ptr::null(), |_| true), None);
        }
    }
}
