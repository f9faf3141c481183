//! Functions of the program are called by address on other nodes, so they must lie at the same ones. `multigrain
//! run` turns address randomization off before it starts nodes. Where a process manager starts them, the program
//! executes itself anew before its `main`, once.

#![expect(unsafe_code, reason = "runs before main, and executes the program anew")]

use core::ffi::{CStr, c_char, c_int, c_ulong};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

use crate::program::Program;

/// Set in a program that was executed anew: where the system does not let addresses be fixed, not again.
const DONE: &CStr = c"MULTIGRAIN_ADDRESSES_FIXED";
/// Started by a process manager.
const MANAGED: [&CStr; 3] = [c"PMI_FD", c"PMI_PORT", c"PMIX_RANK"];
/// Started by `multigrain run`, which has seen to it.
const LAUNCHED: &CStr = c"MULTIGRAIN_RANK";

type Strings = *const *const c_char;

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn(c_int, Strings, Strings) = before_main;

extern "C" fn before_main(_count: c_int, arguments: Strings, _environment: Strings) {
    if MANAGED.into_iter().any(is_set) && !is_set(LAUNCHED) && !is_set(DONE) {
        execute_anew(arguments);
    }
}

fn is_set(name: &CStr) -> bool {
    // SAFETY: a C string, and no other thread is there to change the environment.
    !unsafe { libc::getenv(name.as_ptr()) }.is_null()
}

/// Returns if addresses are fixed, or cannot be.
fn execute_anew(arguments: Strings) {
    const QUERY: c_ulong = 0xffff_ffff;
    unsafe extern "C" {
        static environ: Strings;
    }
    // SAFETY: the query changes nothing.
    let now = unsafe { libc::personality(QUERY) };
    let fixed = libc::ADDR_NO_RANDOMIZE;
    // SAFETY: reads what the kernel has told the loader.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // Of a library that a program loads later, its `main` runs already.
    if is_privileged
        || now < 0
        || now & fixed != 0
        || !Program::is_linked_at_start(before_main as *const ())
    {
        return;
    }
    let wanted = c_ulong::try_from(now | fixed).unwrap_or(QUERY);
    // SAFETY: affects later execs only.
    if unsafe { libc::personality(wanted) } < 0 {
        return;
    }
    // SAFETY: C strings, in a process of one thread.
    unsafe { libc::setenv(DONE.as_ptr(), c"1".as_ptr(), 1) };
    // SAFETY: the pointer is the C library's, of an array that ends with NULL.
    let environment = unsafe { environ };
    // By its path, for its name is that of the file that is executed.
    let path = std::fs::read_link("/proc/self/exe").ok();
    let path = path.and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    let path = path.unwrap_or_else(|| c"/proc/self/exe".to_owned());
    // SAFETY: as the loader has them: arrays of C strings that end with NULL.
    unsafe { libc::execve(path.as_ptr(), arguments, environment) };
    // It could not: the nodes compare their addresses as they meet.
}
