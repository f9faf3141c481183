//! Reports atomic instructions on release consistent memory, where they do not work across nodes.
//!
//! Each node has a copy of its own, and an atomic instruction is atomic in that copy alone: sums come out wrong
//! without an error. A trap decodes its instruction, so the first one with a lock prefix, or that exchanges with
//! memory, is reported with its place in the program. Atomic loads and stores look like any others.

#![expect(unsafe_code, reason = "reads the program's instructions")]

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

use multigrain_types::Consistency;

use crate::driver::Driver;
use crate::source_location::symbols;

/// Whether the program was told.
static TOLD: AtomicBool = AtomicBool::new(false);

/// A thread of the program trapped, at that address of memory of this consistency: looks at its instruction.
///
/// # Safety
/// `context` is the third argument of the trap's handler.
pub(crate) unsafe fn look(
    driver: &Driver,
    consistency: Consistency,
    address: usize,
    context: *const c_void,
) {
    if consistency.is_sequential() || driver.nodes() == 1 || TOLD.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the caller's promise.
    let instruction = unsafe { multigrain_memory::instruction(context) };
    if is_atomic_at(instruction) && !TOLD.swap(true, Ordering::Relaxed) {
        tell(driver, consistency, (instruction, address));
    }
}

#[cold]
fn tell(driver: &Driver, consistency: Consistency, (instruction, address): (usize, usize)) {
    let place = place(instruction).unwrap_or_else(|| format!("{instruction:#x}"));
    let launcher = driver.platform().launcher();
    let object = format!("an atomic instruction at {place}");
    let text = format!(
        "{object} works on {consistency} memory ({address:#x}), where those of \
         other nodes are lost: allocate what atomics share as sequential, or use a lock"
    );
    if driver.races().are_checked() {
        launcher.race(&object, &text);
    } else {
        launcher.warn(&text);
    }
}

/// Function, file and line of an instruction, as far as the program says.
fn place(instruction: usize) -> Option<String> {
    // What is asked for is a return address, which lies behind the instruction it is about.
    let symbols = symbols(instruction + 1);
    let symbol = symbols.first()?;
    match (symbol.line.and_then(|_| symbol.place()), &symbol.name) {
        (Some(place), Some(name)) => Some(format!("{place} ({name})")),
        (Some(place), None) => Some(place),
        (None, Some(name)) => Some(format!("{instruction:#x} in {name}")),
        (None, None) => None,
    }
}

fn is_atomic_at(instruction: usize) -> bool {
    // As many bytes as an instruction has at most; of what lies behind it nothing is read.
    let bytes = (instruction..instruction + 15).map(|address| {
        let byte = core::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: an instruction that was just executed; it is asked for up to its own end.
        unsafe { byte.read_volatile() }
    });
    is_atomic(bytes)
}

/// Whether an instruction that accesses memory is locked, or exchanges.
#[cfg(target_arch = "x86_64")]
fn is_atomic(bytes: impl Iterator<Item = u8>) -> bool {
    const LOCK: u8 = 0xf0;
    /// Exchange, of bytes and of words: locked without a prefix.
    const EXCHANGE: [u8; 2] = [0x86, 0x87];
    for byte in bytes {
        match byte {
            LOCK => return true,
            // Other prefixes: repetition, segments, sizes, and REX.
            0xf2 | 0xf3 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0x40..=0x4f => {}
            opcode => return EXCHANGE.contains(&opcode),
        }
    }
    false
}

/// Whether an instruction is a load or store exclusive, a compare and swap, or an atomic memory operation.
#[cfg(target_arch = "aarch64")]
fn is_atomic(bytes: impl Iterator<Item = u8>) -> bool {
    let word =
        bytes.take(4).enumerate().fold(0, |word, (at, byte)| word | u32::from(byte) << (8 * at));
    let exclusive = word & 0x3f80_0000 == 0x0800_0000;
    let compares = word & 0x3fa0_7c00 == 0x08a0_7c00;
    let operates = word & 0x3f20_0c00 == 0x3820_0000;
    exclusive || compares || operates
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn locked_and_exchanging_instructions_are_atomic_and_others_are_not() {
        let atomic = |bytes: &[u8]| is_atomic(bytes.iter().copied());
        assert!(atomic(&[0xf0, 0x0f, 0xc1, 0x07]), "lock xadd %eax,(%rdi)");
        assert!(atomic(&[0x66, 0xf0, 0x0f, 0xb1, 0x17]), "lock cmpxchg %dx,(%rdi)");
        assert!(atomic(&[0xf0, 0x48, 0xff, 0x07]), "lock incq (%rdi)");
        assert!(atomic(&[0x48, 0x87, 0x07]), "xchg %rax,(%rdi)");
        assert!(atomic(&[0x86, 0x07]), "xchg %al,(%rdi)");
        assert!(atomic(&[0x64, 0x87, 0x07]), "xchg %eax,%fs:(%rdi)");
        assert!(!atomic(&[0xff, 0x07]), "incl (%rdi)");
        assert!(!atomic(&[0x48, 0x89, 0x07]), "mov %rax,(%rdi)");
        assert!(!atomic(&[0xf3, 0x48, 0xa5]), "rep movsq");
        assert!(!atomic(&[0x0f, 0xc1, 0x07]), "xadd %eax,(%rdi)");
        assert!(!atomic(&[0xc5, 0xfe, 0x7f, 0x07]), "vmovdqu %ymm0,(%rdi)");
        assert!(!atomic(&[]));
    }
}
