//! Standard descriptors that are closed when the command starts.
//!
//! Rust's runtime opens /dev/null for each of them before `main`, and aborts without a word where there is none.
//! Here something is opened before that: for stdout a descriptor that cannot be written, so that output which is lost
//! is an error; for the others /dev/null, or what is as empty.
#![expect(unsafe_code, reason = "runs before Rust's runtime, with C's calls")]

use core::ffi::c_int;

use multigrain_types::exit_codes::LAUNCHER_FAILED;

/// Called by the loader, before Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static FILL: extern "C" fn() = fill;

extern "C" fn fill() {
    for descriptor in 0..=2 {
        // SAFETY: asks about a number, which may be no descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } != -1 {
            continue;
        }
        // Gets the lowest free number, which is this one.
        if (descriptor == libc::STDOUT_FILENO || open(c"/dev/null", libc::O_RDWR) == -1)
            && open(c"/", libc::O_RDONLY) == -1
        {
            let line = "multigrain: stdin, stdout or stderr is closed, and nothing can be opened in its place\n";
            // SAFETY: the bytes are there, as many as is said; _exit runs nothing more.
            unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
            // SAFETY: it ends this process, which has run nothing yet.
            unsafe { libc::_exit(LAUNCHER_FAILED.into()) };
        }
    }
}

fn open(path: &core::ffi::CStr, flags: c_int) -> c_int {
    // SAFETY: the path ends with a zero byte.
    unsafe { libc::open(path.as_ptr(), flags) }
}
