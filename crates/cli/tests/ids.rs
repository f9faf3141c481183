//! Programs that use new synchronization ids for ever: what they need does not grow.
//!
//! This test binary is also the program of the job: the launcher starts it with the name of the
//! one test that is a node.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use multigrain::{Error, Job, Result};
use std::process::ExitCode;
use support::{multigrain, run};

/// Locks that node 1 takes, one after the other. Node 0 manages them.
const LOCKS: u32 = 250_000;
/// What each node may need for them, in KiB: 65,536 idle tokens, and what else moves.
const ROOM: u64 = 16 << 10;
/// Semaphores of its own that a node may have units in.
const MOST: u32 = 1 << 20;

fn job(deed: &str) -> std::process::Command {
    let mut command = multigrain();
    command.args(["run", "-n", "2", "--timeout", "150", "--"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "node", "--ignored", "--nocapture"]);
    command.env("DEED", deed);
    command
}

#[test]
fn ever_new_locks_take_no_more_room_than_the_idle_tokens_that_a_node_keeps() {
    let ended = run(&mut job("locks"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("enough room").count(), 2, "{ended:?}");
}

#[test]
fn semaphores_with_units_have_a_limit_that_the_program_is_told() {
    let ended = run(&mut job("posts"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("told after 1048576"), "{ended:?}");
    let said = ended.err.lines().filter(|line| line.contains("synchronization ids")).count();
    assert_eq!(said, 1, "{ended:?}");
}

#[test]
fn who_uses_too_many_ids_of_another_node_is_named_with_the_limit() {
    let ended = run(&mut job("posts elsewhere"));
    assert_eq!(ended.code, Some(75), "{ended:?}");
    let line = ended.line();
    assert!(line.starts_with("multigrain: node 1 (pid "), "{ended:?}");
    let said = ") went beyond a limit at node 0: it uses more than 1048576 synchronization ids, ";
    assert!(line.contains(said) && !line.contains("protocol"), "{ended:?}");
}

/// The program of the job; does nothing without the launcher.
#[test]
#[ignore = "a node of the job"]
fn node() {
    let Ok(deed) = std::env::var("DEED") else { return };
    assert!(multigrain::run(|job| play(job, &deed)) == ExitCode::SUCCESS);
}

fn play(job: &Job, deed: &str) -> Result<()> {
    job.barrier(0)?;
    let before = most_memory();
    if job.node() == 1 {
        match deed {
            "locks" => (0..LOCKS).try_for_each(|id| job.lock(2 * id).map(drop))?,
            "posts" => {
                let told = (0..=MOST).find(|id| {
                    let posted = job.semaphore(2 * id + 1).post(1);
                    assert!(matches!(posted, Ok(()) | Err(Error::Limit(_))), "{posted:?}");
                    posted.is_err()
                });
                println!("\ntold after {}", told.unwrap());
            }
            _ => (0..=MOST).try_for_each(|id| job.semaphore(2 * id).post(1))?,
        }
    }
    job.barrier(0)?;
    let needed = most_memory() - before;
    if deed == "locks" {
        assert!(needed < ROOM, "{needed} KiB");
        println!("\nenough room: {needed} KiB");
    }
    Ok(())
}

/// The most memory this process has had so far, in KiB.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}
