//! Addresses: whether the program's functions lie at the same ones on every node, and the limit of a process.
#![expect(unsafe_code, reason = "personality(2) has no safe interface")]

use super::finding::Finding;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::io;

const ADDR_NO_RANDOMIZE: libc::c_ulong = 0x004_0000;

/// Turns address randomization off for the programs this process will start, so that addresses of
/// functions and globals agree on all nodes. Some containers forbid it.
pub(crate) fn fix_addresses() -> io::Result<()> {
    const QUERY: libc::c_ulong = 0xffff_ffff;
    // SAFETY: the query changes nothing.
    let current = unsafe { libc::personality(QUERY) };
    let wanted = libc::c_ulong::try_from(current).unwrap_or(0) | ADDR_NO_RANDOMIZE;
    // SAFETY: affects later execs only, no memory of this process.
    if unsafe { libc::personality(wanted) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What it means where that has failed, and what to do; none where the whole system does not randomize.
pub(crate) fn randomized(error: &io::Error) -> Option<(String, &'static str)> {
    let found = format!(
        "address randomization is on, and `multigrain run` cannot switch it off for nodes ({error})"
    );
    let remedy = "allow personality(2), or set kernel.randomize_va_space to 0 (sysctl -w kernel.randomize_va_space=0)";
    (level().as_deref() != Some("0")).then_some((found, remedy))
}

/// What the system does by itself: 0 if it does not randomize.
fn level() -> Option<String> {
    let level = fs::read_to_string("/proc/sys/kernel/randomize_va_space").ok()?;
    Some(level.trim().to_owned())
}

/// Whether functions lie at the same addresses on all nodes.
pub(super) fn randomization(far: bool) -> Finding {
    let check = "addresses";
    let error = fix_addresses().err();
    let Some((found, remedy)) = error.as_ref().and_then(randomized) else {
        return Finding::fine(check, fixed(level().as_deref()));
    };
    if far {
        let limits = "functions would lie elsewhere than on other hosts";
        Finding::prevents(check, found, limits, remedy)
    } else {
        Finding::limits(check, found, ELSEWHERE, remedy)
    }
}

/// What does not work on a host where that has failed.
pub(crate) const ELSEWHERE: &str =
    "functions may lie elsewhere on each node, and then none can start a thread on another";

/// That nodes have the same addresses, and whether somebody has to do anything about it.
fn fixed(level: Option<&str>) -> String {
    match level {
        Some("0") => {
            "address randomization is off (kernel.randomize_va_space is 0), as nodes need it"
                .to_owned()
        }
        level => {
            let level = level.map(|level| format!(" (kernel.randomize_va_space is {level})"));
            format!(
                "address randomization is on{}, and may stay so: `multigrain run` switches it off for its nodes alone",
                level.unwrap_or_default()
            )
        }
    }
}

/// How many addresses a process may use.
pub(super) fn limit() -> Finding {
    let check = "address space";
    for (resource, flag) in [(Resource::As, "-v"), (Resource::Data, "-d")] {
        if let Some(bytes) = getrlimit(resource).current {
            return Finding::limits(
                check,
                format!("a process may use {} MiB of addresses (ulimit {flag})", bytes >> 20),
                "shared memory is mapped several times over, and ends there",
                format!("ulimit {flag} unlimited"),
            );
        }
    }
    Finding::fine(check, "unlimited")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_randomization_is_on_is_said_and_that_nothing_is_to_be_done() {
        let off = "address randomization is off (kernel.randomize_va_space is 0), as nodes need it";
        assert_eq!(fixed(Some("0")), off);
        let on = "and may stay so: `multigrain run` switches it off for its nodes alone";
        for (level, said) in [(Some("2"), " (kernel.randomize_va_space is 2)"), (None, "")] {
            assert_eq!(fixed(level), format!("address randomization is on{said}, {on}"));
        }
    }
}
