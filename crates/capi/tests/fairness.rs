//! Threads that compete for minipages all get their turns, and instructions that hold some (ADR 17). A program
//! of tests apart, one test at a time: beside other jobs the scheduler's shares would be measured.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use support::c::{compile, guards, launcher};
use support::{Setting, TestDir, not_tried, run, run_well};

static ALONE: Mutex<()> = Mutex::new(());

/// No other test here runs meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `share` says of each thread: its node, what it did, and the faults of its node. A second is long enough for
/// some tens of turns, and on a machine of which the job has little, where some wait for long, five are.
fn shares(setting: &Setting, mode: &str, [think, threads]: [&str; 2]) -> Vec<[u64; 3]> {
    let dir = TestDir::new();
    let program = compile(&dir, "share");
    let measure = |run_ms| {
        let out = run_well(&launcher(), setting, &program, &[mode, run_ms, think, threads]);
        println!("{setting:?} {mode} {run_ms} {think} {threads}:\n{out}");
        let (longest_us, shares) = shares_in(&out);
        (longest_us < LONG_WAIT_US, shares)
    };
    match measure("1000") {
        (true, shares) => shares,
        (false, _) => measure("5000").1,
    }
}

/// A wait of which a second has few.
const LONG_WAIT_US: u64 = 50_000;

/// The longest wait, and what each thread did.
fn shares_in(out: &str) -> (u64, Vec<[u64; 3]>) {
    let number = |line: &str, name: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|word| word.parse().ok())
    };
    let mut all: Vec<[u64; 3]> = out
        .lines()
        .filter_map(|line| {
            Some([number(line, "node")?, number(line, "done")?, number(line, "faults")?])
        })
        .collect();
    all.sort_unstable();
    (out.lines().filter_map(|line| number(line, "longest_us")).max().unwrap_or_default(), all)
}

/// What nodes do comes within a factor of 2 on a quiet machine. Where nodes are more than processors, and
/// others want those as well, a factor of 4 stands for who starves; or what the scheduler gives a node of several
/// threads, if that is more.
fn assert_nobody_starves(shares: &[[u64; 3]], threads: usize, factor: u64) {
    assert_eq!(shares.len(), threads);
    let mut nodes = BTreeMap::<u64, u64>::new();
    for [node, done, _] in shares {
        *nodes.entry(*node).or_default() += done;
    }
    let most = nodes.values().max().copied().unwrap_or_default();
    assert!(nodes.values().all(|done| *done >= most / factor), "{shares:?}");
}

#[test]
fn nodes_that_compete_for_a_word_get_their_shares() {
    let _alone = alone();
    for &guard in guards() {
        for (nodes, transport, options) in [
            (4, "unix", &[][..]),
            (4, "tcp", &[]),
            (2, "unix", &["--wait", "spin"]),
            (4, "unix", &["--wait", "block"]),
        ] {
            let setting = Setting { guard, transport, options, ..Setting::nodes(nodes) };
            for (mode, think) in [("add", "0"), ("add", "50"), ("mix", "50"), ("touch", "0")] {
                let shares = shares(&setting, mode, [think, "1"]);
                assert_nobody_starves(&shares, nodes as usize, 4);
            }
        }
    }
}

#[test]
fn threads_of_one_node_against_one_thread_all_get_their_shares() {
    let _alone = alone();
    for (mode, think) in [("add", "0"), ("add", "50"), ("mix", "0")] {
        let shares = shares(&Setting::nodes(2), mode, [think, "8"]);
        assert_nobody_starves(&shares, 9, 8);
    }
}

#[test]
fn a_program_that_steps_itself_holds_no_longer_than_others() {
    let _alone = alone();
    for &guard in guards() {
        let shares = shares(&Setting { guard, ..Setting::nodes(3) }, "debug", ["0", "1"]);
        assert_nobody_starves(&shares, 3, 4);
    }
}

/// Runs a program under every guard.
fn run_guarded(name: &str, nodes: u32) {
    let dir = TestDir::new();
    let program = compile(&dir, name);
    for &guard in guards() {
        run_well(&launcher(), &Setting { guard, ..Setting::nodes(nodes) }, &program, &[]);
    }
}

#[test]
fn a_handler_in_the_middle_of_a_held_instruction_may_hold_as_well() {
    let _alone = alone();
    run_guarded("nested", 2);
}

#[test]
fn a_thread_that_ends_in_the_middle_of_a_held_instruction_holds_it_no_longer() {
    let _alone = alone();
    run_guarded("leaves", 3);
}

#[test]
fn a_breakpoint_of_the_program_ends_it() {
    let _alone = alone();
    let dir = TestDir::new();
    let program = compile(&dir, "breakpoint");
    for arguments in [&[][..], &["raise"]] {
        let ended = run(&launcher(), &Setting::nodes(1), &program, arguments);
        assert!(!ended.out.contains("went on"), "{ended:?}");
        assert!(ended.err.contains("SIGTRAP"), "{ended:?}");
        let says_where = ended.err.contains("a breakpoint or a single step (si_code");
        assert_eq!(says_where, arguments.is_empty(), "{ended:?}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_step_that_the_kernel_takes_for_another_trap_ends_as_one() {
    let _alone = alone();
    let dir = TestDir::new();
    let program = compile(&dir, "step_code");
    for &guard in guards() {
        let out = run_well(&launcher(), &Setting { guard, ..Setting::nodes(2) }, &program, &[]);
        if out.contains("not traced") {
            return not_tried("a child may not trace its parent here");
        }
        let changed = |line: &str| line.split_once("changed ")?.1.parse::<u32>().ok();
        let all: Vec<_> = out.lines().filter_map(changed).collect();
        assert!(all.len() == 2 && all.iter().sum::<u32>() > 0, "{out}");
    }
}

#[test]
fn first_accesses_to_fresh_memory_across_two_minipages_take_few_faults() {
    let _alone = alone();
    for nodes in [2, 3] {
        run_guarded("border", nodes);
    }
}

#[test]
fn a_job_under_gdb_runs_to_its_end_with_breakpoints_and_without() {
    let _alone = alone();
    if Command::new("gdb").arg("--version").output().is_err() {
        return not_tried("there is no gdb");
    }
    let dir = TestDir::new();
    let program = compile(&dir, "share");
    let steps = "break share.c:work\nrun\nbt 1\nnext\nnext\ndelete\ncontinue\n";
    for (name, commands) in [("whole", "run\n"), ("steps", steps)] {
        let file = dir.path().join(name);
        let begin = "handle SIGSEGV SIGBUS nostop noprint pass\n";
        fs::write(&file, format!("{begin}{commands}")).unwrap();
        let mut job = Command::new(launcher());
        job.args(["run", "-n", "2", "--timeout", "100", "gdb", "-q", "-nx", "-batch", "-x"]);
        job.arg(&file).arg("--args").arg(&program).args(["cross", "300", "0"]);
        let output = job.stdin(Stdio::null()).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(out.matches("exited normally]").count(), 2, "{out}");
        assert!(!out.contains("SIGTRAP"), "{out}");
        assert_eq!(out.contains("work (argument="), name == "steps", "{out}");
    }
}

#[test]
fn instructions_across_two_minipages_take_few_faults() {
    let _alone = alone();
    for &guard in guards() {
        for nodes in [3, 4] {
            for mode in ["cross", "store"] {
                let setting = Setting { guard, ..Setting::nodes(nodes) };
                let shares = shares(&setting, mode, ["0", "1"]);
                assert_nobody_starves(&shares, nodes as usize, 4);
                let few = |&[_, done, faults]: &[u64; 3]| faults <= 5 * done;
                assert!(shares.iter().all(few), "{shares:?}");
            }
        }
    }
}
