//! Whether a debugger was there before the node joined.
//!
//! gdb takes SIGTRAP for itself: told to pass it on, it passes on those of its own breakpoints too, with which the
//! program ends. So a node that was started under a tracer raises none.

use core::sync::atomic::{AtomicBool, Ordering};
use std::fs;

static IS_HERE: AtomicBool = AtomicBool::new(false);

/// Looks once, as the node joins.
pub(crate) fn look() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    IS_HERE.store(is_traced(&status), Ordering::Relaxed);
}

/// Whether one was there.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "nothing is stepped"))]
pub(crate) fn is_here() -> bool {
    IS_HERE.load(Ordering::Relaxed)
}

fn is_traced(status: &str) -> bool {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_a_tracer_is_told_from_others() {
        assert!(is_traced("Name:\ta\nTracerPid:\t17\nUid:\t0"));
        assert!(!is_traced("Name:\ta\nTracerPid:\t0\n") && !is_traced(""));
    }
}
