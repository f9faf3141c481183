//! What a fork does to this library, in its order.

use crate::{cancellation, named_semaphores, segments, site_connection};

/// Registers it, before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        // SAFETY: functions of that signature, for good.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    }
    at_start
};

extern "C" fn before_fork() {
    named_semaphores::before_fork();
    site_connection::before_fork();
}

extern "C" fn in_parent() {
    named_semaphores::in_parent();
}

extern "C" fn in_child() {
    cancellation::in_child();
    segments::in_child();
    site_connection::in_child();
    named_semaphores::in_child();
}
