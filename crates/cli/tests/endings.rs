//! However a job ends, nothing of it stays: time-outs, signals, and a launcher that is killed.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;
use std::time::{Duration, Instant};
use support::{
    alive, assert_gone_within, does, launcher, multigrain, not_tried, pid_of, processes, run,
    start, unique_time, wait_until, watchdog,
};

const SOON: Duration = Duration::from_secs(3);

#[test]
fn a_time_out_gives_124_and_one_line() {
    let ended = run(multigrain().args(["run", "-n", "2", "--timeout", "0.3", "sleep", "60"]));
    assert_eq!(ended.code, Some(124));
    assert_eq!(ended.line(), "multigrain: time-out after 0.3 s; the job ends");
    assert!(ended.took < SOON, "{ended:?}");
}

#[test]
fn stopped_nodes_do_not_outlast_the_time_out() {
    let time = unique_time();
    let script = format!("sleep {time} & kill -STOP $$");
    let ended = run(&mut launcher("-n 2 --timeout 0.3", &script));
    assert_eq!(ended.code, Some(124));
    assert!(ended.took < SOON, "{ended:?}");
    assert_eq!(alive(&time), [""; 0]);
}

#[test]
fn a_blocked_stdout_does_not_outlast_the_time_out() {
    let time = unique_time();
    let mut command = launcher("-n 2 --timeout 0.5", &format!("yes & sleep {time}"));
    let job = start(&mut command);
    // Nobody reads; the launcher has to end all the same.
    assert_gone_within(SOON, &time);
    assert_eq!(job.wait().code, Some(124));
}

#[test]
fn processes_the_nodes_forked_end_with_a_failed_job() {
    let time = unique_time();
    let script = format!(
        "sleep {time} & (setsid sleep {time} &) ; (trap '' TERM HUP; sleep {time}) & \
         [ $MULTIGRAIN_RANK = 0 ] && exit 9; sleep {time}"
    );
    let ended = run(&mut launcher("-n 3", &script));
    assert_eq!(ended.code, Some(9));
    assert_eq!(alive(&time), [""; 0]);
    assert!(ended.took < SOON, "{ended:?}");
}

#[test]
fn processes_the_nodes_forked_end_with_a_good_job() {
    let time = unique_time();
    let script = format!("sleep {time} & (setsid sleep {time} &) ; echo done");
    let ended = run(&mut launcher("-n 2", &script));
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 2));
    assert_eq!(alive(&time), [""; 0]);
    assert!(ended.took < SOON, "{ended:?}");
}

#[test]
fn a_helper_that_outlives_its_node_may_finish_its_output() {
    // The helper goes on when the node is gone: a process without a command line.
    let script =
        "exec > >(while grep -qs . /proc/$$/cmdline; do sleep 0.01; done; sed s/x/y/); echo x";
    let ended = run(&mut launcher("-n 2", script));
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] y", "[1] y"]);
}

#[test]
fn without_proc_a_job_runs_and_the_user_is_told_what_may_be_left() {
    if !does("unshare --mount true") {
        return not_tried("`unshare --mount` is not allowed");
    }
    let program = env!("CARGO_BIN_EXE_multigrain");
    let script = format!("umount -l /proc && exec {program} run -n 2 -- echo x");
    let ended = run(Command::new("unshare").args(["--mount", "bash", "-c", &script]));
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((ended.code, lines), (Some(0), vec!["[0] x", "[1] x"]), "{ended:?}");
    assert!(ended.line().contains("may outlive it; mount it"), "{ended:?}");
    let script = format!("umount -l /proc && exec {program} doctor");
    let ended = run(Command::new("unshare").args(["--mount", "bash", "-c", &script]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_proc_of_another_namespace_gets_no_bystander_killed() {
    if !does("unshare --pid --fork true") {
        return not_tried("`unshare --pid` is not allowed");
    }
    // Inside, a bystander and the launcher get the numbers that a child of this process and this process have outside.
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let script = format!(
        "number() {{ echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid; }}
         number {} || exit 77; sleep 60 & bystander=$!
         number {}; {} run -n 2 -- true; echo \"code $?\"
         kill $bystander && echo \"bystander $bystander lives\"",
        child.id(),
        std::process::id(),
        env!("CARGO_BIN_EXE_multigrain"),
    );
    let ended = run(Command::new("unshare").args(["--pid", "--fork", "bash", "-c", &script]));
    let number = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    if ended.code == Some(77) {
        return not_tried("process numbers cannot be chosen (ns_last_pid)");
    }
    assert_eq!(ended.out, format!("code 0\nbystander {number} lives\n"), "{ended:?}");
}

#[test]
fn a_killed_launcher_takes_nodes_and_all_they_forked_along() {
    let time = unique_time();
    let script = format!("sleep {time} & (setsid sleep {time} &); echo pid $$; sleep {time}");
    let mut job = start(&mut launcher("-n 3", &script));
    job.lines(3);
    assert!(alive(&time).len() >= 9);
    job.signal(Signal::KILL);
    assert_gone_within(SOON, &time);
    assert_eq!(job.wait().code, None);
}

#[test]
fn signals_reach_every_node_once() {
    let script = "trap 'echo usr1' USR1; trap 'echo int; exit 0' INT
        echo started; while :; do sleep 0.01; done";
    let mut job = start(&mut launcher("-n 3", script));
    job.lines(3);
    job.signal(Signal::USR1);
    let mut lines = job.lines(3);
    lines.sort_unstable();
    assert_eq!(lines, ["[0] usr1", "[1] usr1", "[2] usr1"]);
    job.signal(Signal::INT);
    let ended = job.wait();
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] int", "[1] int", "[2] int"]);
    assert_eq!(ended.code, Some(0), "the nodes chose to end well: {ended:?}");
}

#[test]
fn a_signal_the_nodes_do_not_handle_ends_the_job_with_its_code() {
    for (signal, code, name) in [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM")] {
        let mut job = start(&mut launcher("-n 2", "echo started; sleep 60"));
        job.lines(2);
        job.signal(signal);
        let ended = job.wait();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(ended.line(), format!("multigrain: the job was ended by {name}"));
        assert!(ended.took < SOON);
    }
}

#[test]
fn a_second_interrupt_kills_those_who_ignore_the_first() {
    let time = unique_time();
    let script = format!("trap '' INT TERM; echo started; sleep {time}; sleep {time}");
    let mut job = start(&mut launcher("-n 2", &script));
    job.lines(2);
    job.signal_and_wait(Signal::INT);
    wait_until("both sleep on", || {
        alive(&time).iter().filter(|line| line.starts_with("sleep")).count() == 2
    });
    job.signal(Signal::INT);
    let ended = job.wait();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(ended.line(), "multigrain: the job was ended by SIGINT");
    assert!(ended.took < SOON, "{ended:?}");
    assert_eq!(alive(&time), [""; 0]);
}

#[test]
fn a_node_that_does_not_end_when_it_is_told_to_is_killed() {
    let time = unique_time();
    let script = format!("trap '' TERM; echo started; sleep {time}");
    let mut job = start(&mut launcher("-n 2", &script));
    job.lines(2);
    job.signal(Signal::TERM);
    let ended = job.wait();
    assert_eq!(ended.code, Some(143), "{ended:?}");
    assert_eq!(ended.line(), "multigrain: the job was ended by SIGTERM");
    assert!(ended.took < Duration::from_secs(15), "{ended:?}");
    assert_eq!(alive(&time), [""; 0]);
}

#[test]
fn nodes_have_the_time_to_end_that_kill_after_says() {
    // Node 1 saves something when it is told to end, which takes longer than half a second.
    let saves = "trap 'sleep 1; echo saved; exit 0' TERM; : > /tmp/mg-ready-$MULTIGRAIN_JOB
                 while :; do sleep 0.02; done";
    let fails = "while [ ! -e /tmp/mg-ready-$MULTIGRAIN_JOB ]; do sleep 0.02; done; rm /tmp/mg-ready-$MULTIGRAIN_JOB; exit 3";
    let script = format!("if [ $MULTIGRAIN_RANK = 1 ]; then {saves}; else {fails}; fi");
    for (options, saved) in [("-n 2 --kill-after 30", "[1] saved\n"), ("-n 2", "")] {
        let ended = run(&mut launcher(options, &script));
        assert_eq!((ended.code, ended.out.as_str()), (Some(3), saved), "{options}: {ended:?}");
    }
    let time = unique_time();
    let stays = format!("trap '' TERM; echo started; sleep {time}");
    let mut job = start(&mut launcher("-n 2 --kill-after 0.2", &stays));
    job.lines(2);
    let told = std::time::Instant::now();
    job.signal(Signal::TERM);
    let ended = job.wait();
    assert_eq!(ended.line(), "multigrain: the job was ended by SIGTERM");
    assert!(told.elapsed() < Duration::from_secs(4), "{ended:?}");
    assert_eq!(alive(&time), [""; 0]);
}

#[test]
fn a_stopped_node_takes_a_signal_all_the_same() {
    let time = unique_time();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let script = format!("echo pid $$; kill -STOP $$; sleep {time}");
        let mut job = start(&mut launcher("-n 2", &script));
        let lines = job.lines(2);
        for rank in 0..2 {
            let stat = format!("/proc/{}/stat", pid_of(rank, &lines).as_raw_nonzero());
            wait_until("the node is stopped", || {
                std::fs::read_to_string(&stat).unwrap().contains(") T ")
            });
        }
        job.signal(signal);
        let ended = job.wait();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.took < SOON, "{ended:?}");
        assert_eq!(alive(&time), [""; 0]);
    }
}

/// The launcher may be kept from its turn between the end of a process that a node has left and that process's last word.
#[test]
fn how_a_successor_ended_is_known_though_it_was_reaped_before_it_was_known_as_one() {
    let time = unique_time();
    let gate = format!("{}/gate-{time}", env!("CARGO_TARGET_TMPDIR"));
    let made = Command::new("mkfifo").arg(&gate).status().unwrap();
    assert!(made.success());
    let script = format!(
        "[ $MULTIGRAIN_RANK = 1 ] && exec sleep {time}; setsid bash -c \
         'echo pid $$; read <{gate}; echo joining $$ >&'$MULTIGRAIN_CONTROL_FD'; kill -9 $$' & exit 0"
    );
    let mut job = start(&mut launcher("-n 2", &script));
    let successor = pid_of(0, &job.lines(1)).as_raw_nonzero();
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next()
    };
    let launcher = job.pid();
    wait_until("the launcher waits, alone with an orphan", || {
        let status = std::fs::read_to_string(format!("/proc/{successor}/status")).unwrap();
        status.contains(&format!("PPid:\t{launcher}\n")) && state(launcher) == Some('S')
    });
    let orphaned = Instant::now();
    job.signal(Signal::STOP);
    std::fs::write(&gate, "go\n").unwrap();
    wait_until("the successor is dead", || state(successor.get().unsigned_abs()) == Some('Z'));
    // Longer than what has ended may wait to be reaped: 1 s after the first end.
    wait_until("orphans are to be reaped", || orphaned.elapsed() > Duration::from_millis(1_100));
    job.signal(Signal::CONT);
    let ended = job.wait();
    std::fs::remove_file(&gate).unwrap();
    assert_eq!(ended.code, Some(137), "{ended:?}");
    assert!(ended.line().contains("was killed by signal 9 (SIGKILL)"), "{ended:?}");
    assert_eq!(alive(&time), [""; 0]);
}

#[test]
fn a_command_whose_output_nobody_reads_ends_silently() {
    for words in ["check --list", "check", "sim", "litmus --list", "races --list"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = multigrain().args(words.split(' ')).stdout(writer).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.as_str()), (Some(141), ""), "{words}");
    }
}

#[test]
fn an_output_file_that_is_full_ends_the_job_with_a_line() {
    let dir = std::env::temp_dir();
    let path = dir.join(format!("multigrain-full-{}", std::process::id()));
    let binary = env!("CARGO_BIN_EXE_multigrain");
    let script = format!("ulimit -f 16; exec {binary} run -n 2 yes > {}", path.display());
    let ended = run(std::process::Command::new("bash").args(["-c", &script]));
    let _ = std::fs::remove_file(&path);
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.line().starts_with("multigrain: output was lost, stdout gave: File too large"));
}

#[test]
fn a_daemon_without_an_environment_does_not_outlive_a_killed_launcher() {
    let time = unique_time();
    let script = format!(
        "(env -i setsid sleep {time} &); grep -c '^0::.*/multigrain-' /proc/self/cgroup; sleep {time}"
    );
    let mut job = start(&mut launcher("-n 2", &script));
    let grouped = job.lines(2).iter().all(|line| line.ends_with(" 1"));
    wait_until("the daemons run", || alive(&format!("sleep {time}")).len() >= 4);
    job.signal(Signal::KILL);
    if grouped {
        assert_gone_within(SOON, &time);
    } else {
        eprintln!(
            "no control group can be made here: a daemon without an environment is not found"
        );
        for process in processes(&time) {
            let pid = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
    assert_eq!(job.wait().code, None);
}

#[test]
fn what_nodes_forked_does_not_outlive_a_launcher_whose_watchdog_was_killed_before() {
    let time = unique_time();
    let script = format!("(setsid sleep {time} &); sleep {time} & echo there; sleep {time}");
    let mut job = start(&mut launcher("-n 2", &script));
    job.lines(2);
    wait_until("all run", || alive(&format!("sleep {time}")).len() >= 6);
    for _ in 0..2 {
        let first = watchdog(job.pid());
        kill_process(first, Signal::KILL).unwrap();
        wait_until("there is another watchdog", || watchdog(job.pid()) != first);
    }
    job.signal(Signal::KILL);
    assert_gone_within(SOON, &time);
    assert_eq!(job.wait().code, None);
}

#[test]
fn a_job_whose_watchdogs_are_all_killed_says_so_and_goes_on() {
    let mut launcher = launcher("-n 1", "read line; echo $line");
    let job = start(launcher.stdin(std::process::Stdio::piped()));
    for _ in 0..17 {
        let found = watchdog(job.pid());
        kill_process(found, Signal::KILL).unwrap();
        let gone = || !std::path::Path::new(&format!("/proc/{found}")).exists();
        wait_until("the launcher has noticed", gone);
    }
    job.say("on");
    let ended = job.wait();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "on\n"), "{ended:?}");
    let line =
        "multigrain: the watchdog was killed, and there is no other (16 in its place were killed";
    assert!(ended.line().starts_with(line), "{ended:?}");
}

/// What a process says of its signals that `env` has started with these options, and that it starts in turn.
fn signals_of(options: &[&str], starter: &[&str]) -> support::Ended {
    let mut command = std::process::Command::new("env");
    command.arg("--default-signal").args(options).args(starter);
    run(command.args(["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]))
}

#[test]
fn a_launcher_ends_whatever_signals_it_was_started_with_and_its_nodes_get_them() {
    let launcher = env!("CARGO_BIN_EXE_multigrain");
    let starter = [launcher, "run", "--timeout", "20"];
    for options in [
        &["--ignore-signal=CHLD"][..],
        &["--block-signal=CHLD,USR1,ALRM,XFSZ"],
        &["--ignore-signal=CHLD,INT,HUP", "--block-signal=CHLD,TERM,QUIT"],
        &["--ignore-signal=PIPE"],
        &[],
    ] {
        let (there, here) = (signals_of(options, &starter), signals_of(options, &[]));
        assert_eq!((there.code, there.err.as_str()), (Some(0), ""), "{options:?}: {there:?}");
        assert_eq!(there.out, here.out, "{options:?}");
    }
}

#[test]
fn a_node_that_fails_is_noticed_where_sigchld_is_ignored() {
    let mut command = std::process::Command::new("env");
    command.args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_multigrain"), "run", "-n", "3"]);
    let script = "[ $MULTIGRAIN_RANK = 1 ] && exit 5; exec sleep 60";
    let ended = run(command.args(["--timeout", "20", "bash", "-c", script]));
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.line().contains("exited with code 5"), "{ended:?}");
    assert!(ended.took < SOON, "{ended:?}");
}

#[test]
fn a_child_that_was_stopped_before_it_ran_the_program_does_not_outlive_a_killed_launcher() {
    let time = unique_time();
    for _ in 0..200 {
        let job = start(&mut launcher("-n 32", &format!("exec sleep {time}")));
        let caught = stop_before_exec(job.pid());
        job.signal(Signal::KILL);
        // The children have its pipes; they end when all are gone.
        let ended = job.wait();
        assert_eq!(ended.code, None);
        assert_gone_within(SOON, &time);
        if caught {
            return;
        }
    }
    panic!("no child was stopped in time");
}

/// Stops a child of the launcher; whether that was before it executed the program.
fn stop_before_exec(launcher: u32) -> bool {
    let children = format!("/proc/{launcher}/task/{launcher}/children");
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    // The watchdog is the first of them.
    let mut node = String::new();
    wait_until("a node is started", || {
        let found = read(&children);
        found.split_whitespace().nth(1).unwrap_or_default().clone_into(&mut node);
        !node.is_empty()
    });
    let found = read(&children);
    let node = found.split_whitespace().last().unwrap_or(&node);
    let pid = node.parse().ok().and_then(Pid::from_raw).expect("a process id");
    if kill_process(pid, Signal::STOP).is_err() {
        return false;
    }
    let state = format!("/proc/{node}/stat");
    wait_until("it is stopped", || {
        read(&state).rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'Z']))
    });
    read(&format!("/proc/{node}/cmdline")).contains("multigrain")
}
