//! The program of a site: started with the library that takes its System V calls, and waited for.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use multigrain_runtime::Runtime;
use multigrain_types::sysv::SITE_VARIABLE;
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use super::descendants::{self, WaitStatus};

/// Exit codes of shells.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Variables of a node that are none of its program's.
const OF_NODE: [&str; 3] =
    ["MULTIGRAIN_LISTEN_FD", "MULTIGRAIN_CONTROL_FD", "MULTIGRAIN_SECRET_FD"];

/// Runs it to its end; its exit code. One that a signal has ended ends this process so as well.
///
/// # Errors
/// It cannot be waited for.
pub(super) fn run(
    runtime: &Runtime,
    command: &[OsString],
    (library, site): (&Path, &str),
    descriptors: Rlimit,
) -> Result<i32, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("no program to run".to_owned());
    };
    let mut preloaded = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preloaded.push(":");
        preloaded.push(others);
    }
    let mut child = Command::new(program);
    child.args(arguments).env("LD_PRELOAD", preloaded).env(SITE_VARIABLE, site);
    OF_NODE.iter().for_each(|name| {
        child.env_remove(name);
    });
    let prepare = move || {
        // What the user has.
        setrlimit(Resource::Nofile, descriptors)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // What does not load the library is not to use the host's objects. Not everybody may.
        // SAFETY: a flag, for this process alone.
        unsafe { libc::unshare(libc::CLONE_NEWIPC) };
        Ok(())
    };
    // SAFETY: system calls, which allocate nothing.
    unsafe { child.pre_exec(prepare) };
    let child = match child.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("multigrain: cannot start {}: {error}", program.to_string_lossy());
            return Ok(if error.kind() == ErrorKind::NotFound {
                NOT_FOUND
            } else {
                NOT_EXECUTABLE
            });
        }
    };
    let ended = descendants::reap(child.id());
    match ended.map_err(|why| format!("waiting for the program: {why}"))? {
        WaitStatus::Exited(code) => Ok(code),
        WaitStatus::Killed(signal) => {
            let program = program.to_string_lossy();
            runtime
                .tell_crash(signal, &format!("as its program {program} (pid {}) was", child.id()));
            descendants::kill_all();
            end_by(signal)
        }
    }
}

/// Ends this process by a signal, as its program has ended.
fn end_by(signal: i32) -> ! {
    // SAFETY: takes numbers; the default has no handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // The program has left a core, if any is wanted.
    // SAFETY: a limit.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    // SAFETY: a signal to this process.
    unsafe { libc::raise(signal) };
    // A signal that ends nothing by default.
    std::process::exit(128 + signal)
}
