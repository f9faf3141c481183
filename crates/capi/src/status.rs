//! What a failed call returns and `mg_strerror` says of it; the codes: `runtime/src/error_code.rs`; which code an error
//! has: `runtime/src/error.rs` (`Error::code`).

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write as _;

use crate::forgotten_init;
use multigrain_runtime::{Error, Inside, Runtime, error_code, runtime};

/// Room for what an error says, with the final zero.
const TEXT_BYTES: usize = 320;

/// The same of a number that is no code: 19 characters and those of a number.
const UNKNOWN_BYTES: usize = 19 + 11 + 1;

/// The last call of a thread that failed. Without destructor: there is one to the thread's very end.
struct Failure {
    code: Cell<c_int>,
    /// What the call gave: its code, or -1 of one that fails as a system call does.
    given: Cell<c_int>,
    text: Cell<[u8; TEXT_BYTES]>,
}

thread_local! {
    static LAST: Failure =
        const {
            Failure { code: Cell::new(0), given: Cell::new(0), text: Cell::new([0; TEXT_BYTES]) }
        };
    static UNKNOWN: Cell<[u8; UNKNOWN_BYTES]> = const { Cell::new([0; UNKNOWN_BYTES]) };
}

impl Failure {
    fn set(&self, error: &Error) {
        let mut text = [0; TEXT_BYTES];
        let mut room = &mut text[..TEXT_BYTES - 1];
        let _ = write!(room, "{error}");
        let used = TEXT_BYTES - 1 - room.len();
        // What did not fit may have been cut within a character.
        let whole =
            core::str::from_utf8(&text[..used]).map_or_else(|cut| cut.valid_up_to(), str::len);
        text[whole..].fill(0);
        self.code.set(error.code());
        self.given.set(error.code());
        self.text.set(text);
    }

    /// What the last call with this code, or that gave this number, said, if it was the last that failed and said
    /// anything.
    fn text_of(&self, code: c_int) -> Option<*const c_char> {
        let is_it = self.code.get() == code || self.given.get() == code;
        let said = code != 0 && is_it && self.text.get()[0] != 0;
        said.then(|| self.text.as_ptr().cast::<c_char>().cast_const())
    }
}

/// The code of an error, which this thread remembers. What the error has allocated is gone.
pub(crate) fn failed(error: Error) -> c_int {
    let _inside = Inside::new();
    if matches!(error, Error::NotInitialized) {
        forgotten_init::called_without();
    }
    LAST.with(|last| last.set(&error));
    let code = error.code();
    drop(error);
    code
}

/// A call of the C library failed, and gives -1 and errno as it does itself: this thread remembers `MG_ESYS` and why.
pub(crate) fn system_call_failed(name: &str) {
    let why = std::io::Error::last_os_error();
    LAST.with(|last| {
        last.set(&Error::System(format!("{name}: {why}")));
        last.given.set(-1);
    });
    // SAFETY: it gives the place of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: that place is valid.
    unsafe { errno.write(why.raw_os_error().unwrap_or(0)) };
}

/// The code of a call's result.
pub(crate) fn code<T>(result: Result<T, Error>) -> c_int {
    result.map_or_else(failed, |_| 0)
}

/// Calls the runtime and gives the code.
pub(crate) fn with_runtime(call: impl FnOnce(&'static Runtime) -> Result<(), Error>) -> c_int {
    code(calling(call))
}

/// A call of the runtime.
pub(crate) fn calling<T>(
    call: impl FnOnce(&'static Runtime) -> Result<T, Error>,
) -> Result<T, Error> {
    runtime().and_then(|runtime| call(*runtime))
}

/// The pointer of a call's result; NULL and [`mg_last_error`] if it failed.
pub(crate) fn pointer(result: Result<usize, Error>) -> *mut c_void {
    match result {
        Ok(address) => core::ptr::with_exposed_provenance_mut(address),
        Err(error) => {
            failed(error);
            core::ptr::null_mut()
        }
    }
}

/// The number of a call's result; 0 and [`mg_last_error`] if it failed.
pub(crate) fn number(result: Result<u32, Error>) -> u32 {
    result.unwrap_or_else(|error| {
        failed(error);
        0
    })
}

/// The bytes of a call's result; 0 and [`mg_last_error`] if it failed.
pub(crate) fn size(result: Result<usize, Error>) -> usize {
    result.unwrap_or_else(|error| {
        failed(error);
        0
    })
}

/// The code of the last call of this thread that failed.
#[unsafe(no_mangle)]
pub extern "C" fn mg_last_error() -> c_int {
    LAST.with(|last| last.code.get())
}

/// What the last call of this thread that failed has to say, if it gave this code; one sentence about
/// the code if not.
#[unsafe(no_mangle)]
pub extern "C" fn mg_strerror(error: c_int) -> *const c_char {
    let said = LAST.with(|last| last.text_of(error));
    said.unwrap_or_else(|| sentence(error).map_or_else(|| unknown(error), CStr::as_ptr))
}

/// What is said of a number that is no code: this thread's, until it asks for another.
fn unknown(error: c_int) -> *const c_char {
    UNKNOWN.with(|text| {
        let mut said = [0; UNKNOWN_BYTES];
        let _ = write!(&mut said[..UNKNOWN_BYTES - 1], "unknown error code {error}");
        text.set(said);
        text.as_ptr().cast::<c_char>().cast_const()
    })
}

/// What a code says by itself.
fn sentence(error: c_int) -> Option<&'static CStr> {
    Some(match error {
        0 => c"success",
        error_code::INVALID => c"an argument is NULL, zero or out of range; see multigrain.h",
        error_code::NO_MEMORY => c"out of memory, or the job's shared size is used up: raise `multigrain run --shared`",
        error_code::NOT_INITIALIZED => c"the program has not joined a job: call mg_init first, and nothing after mg_finalize",
        error_code::ALREADY_INITIALIZED => c"mg_init was called already: call it once",
        error_code::NO_NODE => c"no such node: ranks run from 0 to mg_nodes() - 1",
        error_code::NOT_SHARED => c"the address is not shared memory, or not the start of an allocation",
        error_code::LIMIT => c"a limit of minipages, views, areas, threads, synchronization ids or results nobody joins; a line on stderr names it",
        error_code::PEER => c"another node did not come up, or ended while the job started: start all nodes anew",
        error_code::SYSTEM => c"a system call failed; its name was the text of the call that gave this code",
        error_code::NOT_PERMITTED => c"not permitted: unlock without lock, a second free, or barriers of unlike size",
        error_code::BUSY => c"busy: somebody has the lock, or the semaphore has no unit",
        error_code::TIMED_OUT => c"timed out: the deadline came first",
        error_code::EXISTS => c"there is a segment of that name already: attach to it, or take another name",
        error_code::NOT_FOUND => c"there is no segment of that name: create it first, or wait for it",
        error_code::DENIED => c"the segment's mode does not allow that; see mg_segment_create",
        _ => return None,
    })
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

    fn said(code: c_int) -> String {
        // SAFETY: the function returns C strings that live as long as this thread.
        unsafe { CStr::from_ptr(mg_strerror(code)) }.to_str().expect("whole characters").to_owned()
    }

    #[test]
    fn every_code_has_a_sentence_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for error in -15..=0 {
            let text = sentence(error);
            assert!(text.is_some() && seen.insert(text), "{error} repeats {text:?}");
        }
    }

    #[test]
    fn the_last_failure_of_a_thread_says_what_failed_and_other_codes_what_they_mean() {
        let general = said(-10);
        let held = "lock 7 is held by this thread already";
        assert_eq!(failed(Error::NotPermitted(held.into())), -10);
        assert_eq!((said(-10).as_str(), mg_last_error()), (held, -10));
        assert_eq!(said(-1), sentence(-1).unwrap().to_str().unwrap());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| (said(-10), mg_last_error()));
            assert_eq!(other.join().unwrap(), (general, 0));
        });
        failed(Error::Limit(String::new()));
        assert_eq!(said(-7), sentence(-7).unwrap().to_str().unwrap(), "nothing to say");
    }

    #[test]
    fn a_text_too_long_is_cut_between_characters() {
        failed(Error::Limit("ä".repeat(TEXT_BYTES)));
        assert_eq!(said(-7), "ä".repeat((TEXT_BYTES - 1) / 2));
        failed(Error::Limit(format!("x{}", "ä".repeat(TEXT_BYTES))));
        assert_eq!(said(-7).len(), TEXT_BYTES - 1 - (TEXT_BYTES - 2) % 2);
    }
}
