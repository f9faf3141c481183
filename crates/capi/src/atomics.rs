//! Atomic operations: checks pointers, copies values in and out.

use core::ffi::{c_int, c_void};

use multigrain_protocol::sync::Element;
use multigrain_runtime::{AtomicAction, AtomicOp, Error};

use crate::collective::{element, operation};
use crate::status::with_runtime;

/// The value that a pointer of the program points to, in the low bytes.
///
/// # Safety
/// It is NULL or points to a value of the type.
unsafe fn value(of: *const c_void, element: Element, what: &str) -> Result<u64, Error> {
    if of.is_null() {
        return Err(Error::Invalid(format!("NULL for {what} of an atomic operation")));
    }
    if element.bytes() == 4 {
        // SAFETY: the caller's promise.
        return Ok(unsafe { of.cast::<u32>().read_unaligned() }.into());
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { of.cast::<u64>().read_unaligned() })
}

/// Does what `action` says of the type.
///
/// # Safety
/// `operand` and `before` are NULL or point to a value of the type.
unsafe fn act(
    word: *mut c_void,
    kind: c_int,
    action: impl FnOnce(Element) -> Result<AtomicAction, Error>,
    operand: *const c_void,
    before: *mut c_void,
) -> c_int {
    with_runtime(|runtime| {
        let element = element(kind)?;
        let action = action(element)?;
        // SAFETY: the caller's promise.
        let operand = unsafe { value(operand, element, "the operand") }?;
        if word.is_null() {
            return Err(Error::Invalid("NULL for the word of an atomic operation".into()));
        }
        let was = runtime.fetch_op(word.addr(), AtomicOp::new(action, element, operand)?)?;
        if before.is_null() {
            return Ok(());
        }
        let bytes = was.to_le_bytes();
        // SAFETY: the caller's promise; of 4 bytes the low ones.
        unsafe {
            before.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), element.bytes() as usize);
        };
        Ok(())
    })
}

/// Combines a word with an operand, where the word lives.
///
/// # Safety
/// `operand` and `before` are NULL or point to a value of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_fetch_op(
    word: *mut c_void,
    kind: c_int,
    what: c_int,
    operand: *const c_void,
    before: *mut c_void,
) -> c_int {
    let action = |_| operation(what).map(AtomicAction::Combine);
    // SAFETY: as the caller says.
    unsafe { act(word, kind, action, operand, before) }
}

/// Changes a word, where it lives.
///
/// # Safety
/// As [`mg_fetch_op`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_exchange(
    word: *mut c_void,
    kind: c_int,
    operand: *const c_void,
    before: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { act(word, kind, |_| Ok(AtomicAction::Exchange), operand, before) }
}

/// Changes a word that has the expected value, where it lives.
///
/// # Safety
/// As [`mg_fetch_op`]; `expected` as `operand`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_compare_exchange(
    word: *mut c_void,
    kind: c_int,
    expected: *const c_void,
    operand: *const c_void,
    before: *mut c_void,
) -> c_int {
    let action = |element| {
        // SAFETY: as the caller says.
        let expected = unsafe { value(expected, element, "the expected value") };
        expected.map(AtomicAction::CompareExchange)
    };
    // SAFETY: as the caller says.
    unsafe { act(word, kind, action, operand, before) }
}
