//! Exit codes of nodes and of the command, with what the manual says of them.
//!
//! Role: the only list. 126, 127 and 128 + S are as shells and `env` use them, 124 and 125 as `timeout` does.

/// The command line is wrong.
pub const WRONG_USE: u8 = 2;

/// The job is in a deadlock: the number of EDEADLK.
pub const DEADLOCK: u8 = 35;

/// Races were reported (`--check-races`).
pub const RACES: u8 = 66;

/// A node that failed by itself (EX_SOFTWARE).
pub const FATAL: u8 = 70;

/// A node that ends because it lost a peer (EX_TEMPFAIL): a consequence, the launcher looks for the cause.
pub const PEER_LOST: u8 = 75;

/// Something would keep a job from running, says `multigrain doctor` (EX_CONFIG).
pub const PREVENTED: u8 = 78;

/// The time of `--timeout` was over.
pub const TIME_OUT: u8 = 124;

/// The launcher, or the agent of a host, failed itself.
pub const LAUNCHER_FAILED: u8 = 125;

/// The program cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;

/// The program was not found.
pub const NOT_FOUND: u8 = 127;

/// Plus the number of the signal that ended a process.
pub const SIGNALLED: u8 = 128;

/// What the manual says of a code.
pub const MEANINGS: &[(&str, &str)] = &[
    ("0", "Every node ended with 0."),
    ("1-255", "That of the first node that failed; 128 + S if signal S killed it."),
    ("1", "Also: a node exited with 0 but left the others without mg_finalize."),
    ("2", "The command line is wrong."),
    ("35", "A deadlock: the line before it says who waits where."),
    (
        "66",
        "All went well, or the time of --timeout was over, but --check-races has reported races.",
    ),
    (
        "70",
        "A node ended itself, and its line says why: barriers that disagree, or shared memory touched after mg_finalize.",
    ),
    (
        "75",
        "A node lost a peer that did not fail itself: it hangs, cannot be reached, broke the protocol, or went beyond a limit at another node.",
    ),
    ("78", "Of `multigrain doctor`: something would keep a job from running."),
    ("124", "The time of --timeout was over."),
    ("125", "The launcher itself failed: too few file descriptors, or stdout on a full disk."),
    ("126", "The program cannot be executed."),
    ("127", "The program was not found."),
    ("130", "Ended by Ctrl-C."),
    ("141", "Nobody read the launcher's stdout any more."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_meaning() {
        let codes =
            [WRONG_USE, DEADLOCK, RACES, FATAL, PEER_LOST, PREVENTED, TIME_OUT, LAUNCHER_FAILED];
        for code in codes.into_iter().chain([NOT_EXECUTABLE, NOT_FOUND]) {
            let code = code.to_string();
            assert!(MEANINGS.iter().any(|(of, _)| *of == code), "{code}");
        }
    }
}
