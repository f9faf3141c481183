//! A thread's argument that is an address of this process's stack or heap, which means nothing on another node: the first
//! mistake in porting a threaded program, and one that no access reveals, for every node has something there.

#![expect(unsafe_code, reason = "asks the C library where the heap ends")]

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use multigrain_types::NodeId;

use crate::program::Program;

/// How far a stack is taken to reach; of a thread's own the usual limit.
const STACK_BYTES: u64 = 8 << 20;
/// Where programs at fixed addresses have their heap, numbers may look like addresses of it.
const NUMBERS: u64 = 1 << 32;

/// What to say of an argument for a thread of another node; once in a process.
pub(super) fn warning(program: &Program, to: NodeId, argument: u64) -> Option<String> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let place = private_place(program, argument)?;
    let is_new = !SAID.swap(true, Ordering::Relaxed);
    is_new.then(|| {
        format!(
            "the argument {argument:#x} of a thread for {to} is an address of this process's {place}, where {to} has \
             something else: hand it a number, or memory of mg_malloc"
        )
    })
}

fn private_place(program: &Program, argument: u64) -> Option<&'static str> {
    let here = 0_u8;
    let top = (&raw const here).addr() as u64;
    if (top..top.saturating_add(STACK_BYTES)).contains(&argument) {
        return Some("stack");
    }
    let Range { start, end } = heap(program);
    (argument >= NUMBERS.max(start) && argument < end).then_some("heap")
}

/// Where small blocks of `malloc` are: from the executable's end to the program break.
fn heap(program: &Program) -> Range<u64> {
    // SAFETY: an increment of zero changes nothing.
    let end = unsafe { libc::sbrk(0) }.addr() as u64;
    program.end()..end
}

#[cfg(all(test, not(miri), not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_stack_or_the_heap_is_private_and_no_other_number_is() {
        let program = Program::of_this_process();
        let local = 1_u64;
        let place = |argument| private_place(&program, argument);
        assert_eq!(place((&raw const local).addr() as u64), Some("stack"));
        let heap = heap(&program);
        if heap.start >= NUMBERS && !heap.is_empty() {
            assert_eq!(place(heap.end - 8), Some("heap"));
        }
        static SHARED: u64 = 1;
        for number in [0, 1, 1 << 20, (&raw const SHARED).addr() as u64, heap.end, u64::MAX] {
            assert_eq!(place(number), None, "{number:#x}");
        }
    }
}
