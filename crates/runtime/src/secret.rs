//! The job's secret, and what this node proves itself with, leave the environment as soon as the node has read them.
//!
//! They are overwritten where they lie, so that neither /proc/PID/environ nor the environment of a
//! program this process executes has them. All other variables stay: the launcher's warden finds a
//! job's processes by MULTIGRAIN_JOB.

#![expect(unsafe_code, reason = "environment strings are overwritten in place")]

use core::ffi::{CStr, c_char};

const NAMES: [&str; 2] = ["MULTIGRAIN_SECRET", "MULTIGRAIN_CREDENTIALS"];

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Overwrites every value of these variables and removes them. From the thread that joins, before
/// the runtime has threads of its own.
pub(crate) fn leave_environment() {
    // SAFETY: a copy of the pointer; whoever joins changes the environment in no other thread.
    let mut place = unsafe { environ };
    while !place.is_null() {
        // SAFETY: the array ends with a NULL, which no turn of this loop has seen yet.
        let variable = unsafe { place.read() };
        if variable.is_null() {
            break;
        }
        // SAFETY: as above, there is one more entry.
        place = unsafe { place.add(1) };
        // SAFETY: entries of the environment are C strings.
        let bytes = unsafe { CStr::from_ptr(variable) }.to_bytes();
        for name in NAMES {
            let value = bytes.strip_prefix(name.as_bytes());
            let value = value.and_then(|rest| rest.strip_prefix(b"="));
            if let Some(length) = value.map(<[u8]>::len) {
                overwrite(variable.wrapping_add(name.len() + 1), length);
            }
        }
    }
    for name in NAMES {
        // SAFETY: as above, no other thread reads or changes the environment now.
        unsafe { std::env::remove_var(name) };
    }
}

fn overwrite(value: *mut c_char, length: usize) {
    for place in (0..length).map(|index| value.wrapping_add(index)) {
        // SAFETY: within the value's string, which is writable and is read through its array only.
        unsafe { place.write_volatile(0) };
    }
}
