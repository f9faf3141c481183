//! Error codes and what they say.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};

use multigrain_runtime::{Error, Runtime, runtime};

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// The code of a call's result.
pub(crate) fn code<T>(result: Result<T, Error>) -> c_int {
    result.map_or_else(|error| error.code(), |_| 0)
}

/// Calls the runtime and gives the code.
pub(crate) fn with_runtime(call: impl FnOnce(&'static Runtime) -> Result<(), Error>) -> c_int {
    code(runtime().and_then(call))
}

/// The pointer of a call's result; NULL and [`mg_last_error`] if it failed.
pub(crate) fn pointer(result: Result<usize, Error>) -> *mut c_void {
    match result {
        Ok(address) => core::ptr::with_exposed_provenance_mut(address),
        Err(error) => {
            LAST.with(|last| last.set(error.code()));
            core::ptr::null_mut()
        }
    }
}

/// The bytes of a call's result; 0 and [`mg_last_error`] if it failed.
pub(crate) fn size(result: Result<usize, Error>) -> usize {
    result.unwrap_or_else(|error| {
        LAST.with(|last| last.set(error.code()));
        0
    })
}

/// The reason of the last NULL in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn mg_last_error() -> c_int {
    LAST.with(Cell::get)
}

/// One sentence for a code.
#[unsafe(no_mangle)]
pub extern "C" fn mg_strerror(error: c_int) -> *const c_char {
    let text: &CStr = match error {
        0 => c"success",
        -1 => c"an argument is NULL, zero or out of range; see multigrain.h",
        -2 => c"out of memory, or the job's shared size is used up: raise `multigrain run --shared`",
        -3 => c"the program has not joined a job: call mg_init first, and nothing after mg_finalize",
        -4 => c"mg_init was called already: call it once",
        -5 => c"no such node: ranks run from 0 to mg_nodes() - 1",
        -6 => c"the address is not shared memory, or not the start of an allocation",
        -7 => c"a limit of minipages, views, areas, threads, synchronization ids or results nobody joins; a line on stderr names it",
        -8 => c"a peer is gone and the job is ending",
        -9 => c"a system call failed; the line on stderr names it",
        -10 => c"not permitted: unlock without lock, a second free, or barriers of unlike size",
        _ => c"unknown error code",
    };
    text.as_ptr()
}

/// Name and version.
#[unsafe(no_mangle)]
pub extern "C" fn mg_version() -> *const c_char {
    const TEXT: &str = concat!("multigrain ", env!("CARGO_PKG_VERSION"), "\0");
    TEXT.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_sentence_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for error in -11..=0 {
            // SAFETY: the function returns static C strings.
            let text = unsafe { CStr::from_ptr(mg_strerror(error)) };
            assert!(seen.insert(text.to_owned()), "{error} repeats {text:?}");
        }
    }
}
