//! Threads on named nodes.

use core::ffi::{c_int, c_void};

use multigrain_runtime::{Error, ThreadAttributes, ThreadFunction, ThreadHandle};

use crate::status::with_runtime;

/// Any node will do.
const MG_ANY_NODE: c_int = -1;

/// A function of the program that a thread runs.
type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// `struct mg_thread_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    size: usize,
    stack_bytes: usize,
    detached: c_int,
}

impl Attributes {
    fn to_thread(self) -> Result<ThreadAttributes, Error> {
        if self.size != size_of::<Self>() {
            let (size, known) = (self.size, size_of::<Self>());
            return Err(Error::Invalid(format!(
                "struct mg_thread_attr says that it has {size} bytes, not {known}"
            )));
        }
        let stack_bytes = (self.stack_bytes > 0).then_some(self.stack_bytes);
        Ok(ThreadAttributes { stack_bytes, detached: self.detached != 0 })
    }
}

/// Starts a thread on a node.
///
/// # Safety
/// `thread` is NULL or a place for one handle; `start` is NULL or a function of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_thread_create(
    thread: *mut u64,
    node: c_int,
    start: Option<Start>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says; NULL is no attributes.
    unsafe { mg_thread_create_with(thread, node, core::ptr::null(), start, argument) }
}

/// Starts a thread with attributes on a node.
///
/// # Safety
/// As [`mg_thread_create`]; `attributes` is NULL or points to a structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_thread_create_with(
    thread: *mut u64,
    node: c_int,
    attributes: *const Attributes,
    start: Option<Start>,
    argument: *mut c_void,
) -> c_int {
    with_runtime(|runtime| {
        let Some(start) = start.filter(|_| !thread.is_null()) else {
            return Err(Error::Invalid("NULL for a thread or its function".into()));
        };
        let attributes = match attributes.is_null() {
            true => ThreadAttributes::default(),
            // SAFETY: not NULL, so it points to a structure.
            false => unsafe { attributes.read() }.to_thread()?,
        };
        let node = if node == MG_ANY_NODE { runtime.any_node() } else { node.into() };
        // SAFETY: pointers go by value in the same register as 64-bit numbers.
        let start = unsafe { core::mem::transmute::<Start, ThreadFunction>(start) };
        let argument = argument.expose_provenance() as u64;
        let ThreadHandle(handle) = runtime.thread_create_with(node, attributes, start, argument)?;
        // SAFETY: not NULL, and the caller gives a place for the handle.
        unsafe { thread.write(handle) };
        Ok(())
    })
}

/// Waits for the end of a thread.
///
/// # Safety
/// `result` is NULL or a place for one pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_thread_join(thread: u64, result: *mut *mut c_void) -> c_int {
    with_runtime(|runtime| {
        let value = runtime.thread_join(ThreadHandle(thread))?;
        if !result.is_null() {
            let value = usize::try_from(value).unwrap_or(0);
            // SAFETY: not NULL, and the caller gives a place for the pointer.
            unsafe { result.write(core::ptr::with_exposed_provenance_mut(value)) };
        }
        Ok(())
    })
}

/// Nobody will wait for the end of a thread.
#[unsafe(no_mangle)]
pub extern "C" fn mg_thread_detach(thread: u64) -> c_int {
    with_runtime(|runtime| runtime.thread_detach(ThreadHandle(thread)))
}
