//! Each promise, broken once.

use super::*;
use crate::inject::fault::{FaultKind, Limit};

const KILLED: &str = "multigrain: node 1 (pid 7) was killed by signal 9 (SIGKILL); the job ends";

fn seen(end: End, out: &[&str], err: &[&str]) -> Seen {
    let at = Duration::from_millis(1500);
    Seen {
        struck: Struck::At(Duration::from_secs(1)),
        end,
        at,
        out: out.iter().map(|&line| line.to_owned()).collect(),
        err: err.iter().map(|&line| (at, line.to_owned())).collect(),
        orphans: Vec::new(),
        left: Vec::new(),
    }
}

fn kill() -> Fault {
    Fault::Kill(Target::Node(1))
}

fn limit() -> Fault {
    Fault::Limit { kind: FaultKind::Data, target: Target::Node(1), limit: Limit::Later(0) }
}

fn violation(seen: &Seen, fault: &Fault) -> String {
    let outcome = judge(seen, Some(fault));
    let Outcome::Violation { what } = outcome else { panic!("accepted: {outcome}") };
    what
}

#[test]
fn a_right_result_is_right_and_no_result_is_not() {
    let right = seen(End::Code(0), &["[0] result check=ok views=1"], &[]);
    assert_eq!(judge(&right, Some(&kill())), Outcome::Right { early: false });
    let silent = seen(End::Code(0), &["[0] hello"], &[]);
    assert!(violation(&silent, &kill()).starts_with("exit code 0 without a result"));
}

#[test]
fn a_wrong_result_is_a_violation_even_with_an_error() {
    let wrong = seen(End::Code(137), &["[0] result check=FAILED"], &[KILLED]);
    assert!(violation(&wrong, &kill()).starts_with("wrong result"));
}

#[test]
fn hangs_orphans_and_leftovers_are_violations() {
    let hang = seen(End::Hang(vec!["node 0".into()]), &[], &[]);
    assert!(violation(&hang, &kill()).starts_with("no end"));
    let mut left = seen(End::Code(137), &[], &[KILLED]);
    left.left.push("file x".into());
    assert!(violation(&left, &kill()).starts_with("left behind: file x"));
    left.orphans.push("node 2".into());
    assert!(violation(&left, &kill()).starts_with("orphans: node 2"));
}

#[test]
fn one_clear_line_in_time_is_an_error_and_a_late_one_is_not() {
    let mut killed = seen(End::Code(137), &[], &[KILLED]);
    let error = judge(&killed, Some(&kill()));
    assert!(matches!(error, Outcome::Error { within, .. } if within == Duration::from_millis(500)));
    killed.at = Duration::from_secs(5);
    assert!(violation(&killed, &kill()).contains("4.0 s after the fault"));
}

#[test]
fn a_line_must_blame_the_victim() {
    let killed = seen(End::Code(137), &[], &[KILLED]);
    let other = Fault::Kill(Target::Node(0));
    assert!(violation(&killed, &other).starts_with("a line that blames somebody else"));
}

#[test]
fn an_exit_code_needs_a_word_about_its_cause() {
    let verdict = "multigrain: node 1 (pid 7) exited with code 70; the job ends";
    let bare = seen(End::Code(70), &[], &[verdict]);
    assert!(violation(&bare, &limit()).starts_with("a line that names no cause"));
    for word in ["[1] out of memory", "multigrain: node 1: mprotect failed"] {
        let told = seen(End::Code(70), &[], &[word, verdict]);
        assert!(matches!(judge(&told, Some(&limit())), Outcome::Error { .. }), "{word}");
    }
    let stack = "multigrain: node 1 (pid 7) was killed by signal 11 (SIGSEGV) before mg_init had ended, or without mg_init: \
                 by the program itself, or its stack had no room (ulimit -s, ulimit -v); the job ends";
    let full = seen(End::Code(139), &[], &[stack]);
    assert!(matches!(judge(&full, Some(&limit())), Outcome::Error { .. }));
    let panic = seen(End::Code(101), &[], &["[1] thread 'main' panicked at x.rs:1", verdict]);
    assert!(violation(&panic, &limit()).starts_with("a panic instead of an error"));
}

#[test]
fn a_panic_of_the_language_runtime_before_main_is_none_of_ours() {
    let word = |thread: &str, file: &str| {
        format!(
            "[1] thread '{thread}' (7) panicked at /rustc/5980/library/std/src/sys/{file}:236:13:"
        )
    };
    let verdict = "multigrain: node 1 (pid 7) was killed by signal 6 (SIGABRT) before mg_init had ended, or without \
                   mg_init: by the program itself, or it was refused memory (ulimit -v, ulimit -d); the job ends";
    let judged = |word: &str| judge(&seen(End::Code(134), &[], &[word, verdict]), Some(&limit()));
    let before_main = judged(&word("main", "pal/unix/stack_overflow.rs"));
    assert!(matches!(before_main, Outcome::Error { .. }), "{before_main}");
    for ours in [word("mg-receive", "pal/unix/stack_overflow.rs"), word("main", "alloc.rs")] {
        assert!(matches!(judged(&ours), Outcome::Violation { .. }), "{ours}");
    }
}

#[test]
fn silence_and_two_verdicts_are_violations() {
    assert!(violation(&seen(End::Code(1), &[], &[]), &limit()).starts_with("not one clear line"));
    let twice = seen(End::Code(137), &[], &[KILLED, KILLED]);
    assert!(violation(&twice, &kill()).starts_with("not one clear line"));
}

#[test]
fn what_does_no_harm_may_not_end_a_job() {
    let verdict = "multigrain: node 1 (pid 7) was lost by node 0: it died; the job ends";
    let lost = seen(End::Code(75), &[], &[verdict]);
    assert!(violation(&lost, &Fault::Stop(Target::Node(1))).starts_with("an error after"));
}

#[test]
fn an_error_without_a_fault_is_a_violation() {
    let mut early = seen(End::Code(137), &[], &[KILLED]);
    early.struck = Struck::Never;
    assert!(violation(&early, &kill()).starts_with("an error without a fault"));
}

#[test]
fn a_cut_connection_may_be_blamed_on_either_end() {
    let cut = Fault::Cut { node: 1, link: 0, how: rustix::net::Shutdown::Both };
    for (peer, node) in [(0, 1), (1, 2)] {
        let line =
            format!("multigrain: node {peer} (pid 7) was lost by node {node}: gone; the job ends");
        let lost = seen(End::Code(75), &[], &[&line]);
        assert!(matches!(judge(&lost, Some(&cut)), Outcome::Error { .. }), "{line}");
    }
    let line = "multigrain: node 3 (pid 7) was lost by node 2: gone; the job ends";
    assert!(violation(&seen(End::Code(75), &[], &[line]), &cut).contains("blames somebody else"));
}
