//! Output that cannot be printed: a reader of stdout that goes away, as `head` does, ends a command silently, and a full disk
//! with a line.
//!
//! The print macros panic then. The command ends by unwinding, which also ends what it has started and removes
//! what it has made; the panic's message and exit code are suppressed.

use multigrain_types::exit_codes::{LAUNCHER_FAILED, SIGNALLED};
use std::any::Any;
use std::fmt::Display;
use std::io;
use std::panic::{
    AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook,
};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Exit code of a program that SIGPIPE has ended, as shells give it.
const UNREAD: u8 = SIGNALLED + 13;

/// Why a print macro has failed.
static WHY: OnceLock<String> = OnceLock::new();

/// Runs a command that prints.
pub(crate) fn until_unprinted(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let before = take_hook();
    set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        if let Some(why) = why(panic.payload()) {
            let _ = WHY.set(why.to_owned());
        }
        // Other threads may fail because this one has.
        if WHY.get().is_none() {
            before(panic);
        }
    }));
    match (catch_unwind(AssertUnwindSafe(command)), WHY.get()) {
        (Ok(code), _) => code,
        (Err(_), Some(why)) if why.contains("Broken pipe") => UNREAD.into(),
        (Err(_), Some(why)) => lost(why),
        (Err(panic), None) => resume_unwind(panic),
    }
}

/// What was printed otherwise, and whether it could be: then the command's exit code.
pub(crate) fn or_lost(printed: io::Result<()>, code: ExitCode) -> ExitCode {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => lost(error),
        Ok(()) | Err(_) => code,
    }
}

fn lost(why: impl Display) -> ExitCode {
    eprintln!("multigrain: stdout: {why}; make room there, or send it elsewhere");
    LAUNCHER_FAILED.into()
}

/// Why printing has failed, if it is that.
fn why(payload: &(dyn Any + Send)) -> Option<&str> {
    let why = payload.downcast_ref::<String>()?.strip_prefix("failed printing to ")?;
    ["stdout: ", "stderr: "].iter().find_map(|stream| why.strip_prefix(stream))
}
