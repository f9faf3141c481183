//! The program of a site: started with the library that takes its System V calls, and waited for.

use core::mem::MaybeUninit;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use multigrain_runtime::{Runtime, time_slice};
use multigrain_types::sysv::SITE_VARIABLE;
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use super::descendants::{self, WaitStatus};
use super::{no_task, say};

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
    (descriptors, ignores_pipes): (Rlimit, bool),
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
    let ignores_children = notice_children();
    let prepare = move || {
        if ignores_children {
            // SAFETY: the action runs no code.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
        if ignores_pipes {
            // SAFETY: as above.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        // What the user has.
        setrlimit(Resource::Nofile, descriptors)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let _ = time_slice::be_ordinary();
        // What does not load the library is not to use the host's objects. Not everybody may.
        // SAFETY: a flag, for this process alone.
        unsafe { libc::unshare(libc::CLONE_NEWIPC) };
        Ok(())
    };
    survive_signals();
    // SAFETY: system calls, which allocate nothing.
    unsafe { child.pre_exec(prepare) };
    let child = match child.spawn() {
        Ok(child) => child,
        Err(error) => {
            let which = format!("cannot start {}", program.to_string_lossy());
            say(format_args!("{}", no_task(&which, &error)));
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

/// From now on the ends of children are told; whether they were ignored, as the program is to have it.
fn notice_children() -> bool {
    // SAFETY: the default action runs no code.
    (unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) }) == libc::SIG_IGN
}

/// Signals of what goes wrong in this process itself.
const OWN_FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// Signals to the process group, which this process shares with the program, do nothing here: it ends when the program has. What is
/// ignored stays so, in the program too; an exec resets the rest.
fn survive_signals() {
    extern "C" fn nothing(_: i32) {}
    let handler: extern "C" fn(i32) = nothing;
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| !OWN_FAULTS.contains(signal)) {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a place for an action; numbers that are no signals for a program are refused.
        if unsafe { libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) } != 0 {
            continue;
        }
        // SAFETY: zeroes are one, too.
        let mut action = unsafe { action.assume_init() };
        let ends_by_default = ![
            libc::SIGCHLD,
            libc::SIGCONT,
            libc::SIGURG,
            libc::SIGWINCH,
            libc::SIGTSTP,
            libc::SIGTTIN,
            libc::SIGTTOU,
        ]
        .contains(&signal);
        if action.sa_sigaction == libc::SIG_DFL && ends_by_default {
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: a function that does nothing.
            unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) };
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
