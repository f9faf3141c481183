//! What the kernel says of the threads of this process (/proc).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`, and what else a word of operation says.
const WAITS: [u64; 2] = [0, 9];
const PRIVATE: u64 = 128;
const CLOCK: u64 = 256;

/// Signals that a program may handle and still be stuck: those of its own faults, and the two that the C
/// library keeps for itself. A handler of any other may post a semaphore.
const OF_FAULTS: [i32; 11] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGSYS,
    32,
    33,
];

/// Whether so many threads of this process wait in `pthread_join`, without a time-out, for another one (the
/// kernel ends such a wait when that thread has ended, and nobody else does), or have ended: the main
/// thread, which the system shows to the end. None if that cannot be told. Looks at no more threads than it takes to say no.
pub(super) fn only_join(threads: u64) -> Option<bool> {
    let tasks: Option<BTreeSet<u64>> = fs::read_dir("/proc/self/task")
        .ok()?
        .map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let tasks = tasks?;
    let joins = |task: &u64| {
        let call = fs::read_to_string(format!("/proc/self/task/{task}/syscall"));
        let joined = call.ok().as_deref().and_then(joined_thread);
        joined.is_some_and(|other| other != *task && tasks.contains(&other))
    };
    let has_ended = |task: &u64| {
        let stat = fs::read_to_string(format!("/proc/self/task/{task}/stat"));
        stat.ok().is_some_and(|stat| is_of_ended(&stat))
    };
    let others = tasks.len().checked_sub(usize::try_from(threads).ok()?)?;
    let mut more = tasks.iter().filter(|task| !joins(task) && !has_ended(task));
    Some(more.by_ref().take(others).count() == others && more.next().is_none())
}

/// Whether this line of `/proc` is of a thread that has ended. Its name, in parentheses, may be any.
fn is_of_ended(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z"))
}

/// The thread that is waited for in this call, as `/proc` shows it: a wait on a word that is shared with
/// the kernel and holds that thread's number.
#[must_use]
pub fn joined_thread(call: &str) -> Option<u64> {
    let mut words = call.split_whitespace();
    if words.next()?.parse() != Ok(libc::SYS_futex) {
        return None;
    }
    let mut arguments = words.map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let [_, operation, value, limit] = [(); 4].map(|()| arguments.next().flatten());
    let operation = operation?;
    let waits = WAITS.contains(&(operation & !CLOCK)) && operation & PRIVATE == 0;
    (waits && limit? == 0).then_some(value? & u64::from(u32::MAX))
}

/// Whether a handler of the program's may run while all threads of this process wait, or runs: in it a thread waits that
/// is to go on with it.
pub(super) fn may_handle_a_signal() -> bool {
    handled_signals("/proc/self/status").is_none_or(|handled| handled != 0)
}

/// The signals that a process has handlers for, by its `status` in /proc, but for those of its own faults: a bit for each.
#[must_use]
pub fn handled_signals(status: impl AsRef<Path>) -> Option<u64> {
    let harmless = OF_FAULTS.iter().fold(0, |set, signal| set | 1_u64 << (signal - 1));
    Some(signals(status, "SigCgt:")? & !harmless)
}

/// The set of signals that this file of /proc gives by this name.
fn signals(status: impl AsRef<Path>, name: &str) -> Option<u64> {
    let status = fs::read_to_string(status).ok()?;
    let set = status.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_told_from_others() {
        assert!(is_of_ended("42 (a) Z 1 42"));
        assert!(!is_of_ended("42 (a) Z) S 1 42") && !is_of_ended("42 (a) X 1") && !is_of_ended(""));
    }

    #[test]
    fn a_set_of_signals_is_read_by_its_name() {
        assert_eq!(signals("/proc/self/status", "SigNone:"), None);
        assert!(signals("/proc/thread-self/status", "SigBlk:").is_some());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_join_is_told_from_other_waits() {
        let of = |operation: &str, limit: &str| {
            joined_thread(&format!("202 0x7f0 {operation} 0x2a {limit} 0x0 0xffffffff 0x7ffc 0x7f"))
        };
        assert_eq!(of("0x109", "0x0"), Some(42), "glibc");
        assert_eq!(of("0x109", "0x7ffd"), None, "pthread_timedjoin_np");
        assert_eq!(of("0x189", "0x0"), None, "a word of the program's own");
        assert_eq!(of("0x1", "0x0"), None, "a wake-up");
        for other in ["running", "-1 0x7ffc 0x7f", "0 0x0 0x9 0x2a 0x0 0x0 0x0 0x7ffc 0x7f", ""] {
            assert_eq!(joined_thread(other), None, "{other}");
        }
    }
}
