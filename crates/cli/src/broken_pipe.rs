//! A reader of stdout that goes away, as `head` does, ends a command silently.
//!
//! The print macros panic then. The command ends by unwinding, which also ends what it has started and removes
//! what it has made; the panic's message and exit code are suppressed.

use multigrain_types::exit_codes::SIGNALLED;
use std::any::Any;
use std::panic::{
    AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook,
};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a program that SIGPIPE has ended, as shells give it.
const UNREAD: u8 = SIGNALLED + 13;

/// A print macro has failed because nobody reads.
static IS_UNREAD: AtomicBool = AtomicBool::new(false);

/// Runs a command that prints.
pub(crate) fn until_unread(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let before = take_hook();
    set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        if is_unread(panic.payload()) {
            IS_UNREAD.store(true, Ordering::Relaxed);
        }
        // Other threads may fail because this one has.
        if !IS_UNREAD.load(Ordering::Relaxed) {
            before(panic);
        }
    }));
    match catch_unwind(AssertUnwindSafe(command)) {
        Ok(code) => code,
        Err(_) if IS_UNREAD.load(Ordering::Relaxed) => UNREAD.into(),
        Err(panic) => resume_unwind(panic),
    }
}

fn is_unread(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>().map_or("", String::as_str);
    text.starts_with("failed printing to std") && text.contains("Broken pipe")
}
