//! Architectures on which instructions cannot be single-stepped: nothing is held.

#![expect(unsafe_code, reason = "the interface of the other processors")]

use core::ffi::c_void;

use super::{Instruction, StackFrame};

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

pub(super) unsafe fn place(_: *const c_void) -> StackFrame {
    [0; 2]
}

pub(super) unsafe fn end_step(_: *mut c_void, _: u64, _: bool) {
    unreachable!("nothing is stepped here")
}
