//! Jobs on many hosts that end before their time, or do not begin: what is lost, killed, cut, stopped or mistaken.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::script_hosts::{hosts, job, script};
use support::{
    Running, alive, assert_gone_within, pid_of, processes, run, start, unique_time, wait_until,
    watchdog,
};

/// Longer than a host may go unheard, with what it takes to end a job.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_time_out_and_a_second_interrupt_end_all_hosts() {
    let time = unique_time();
    let ignore =
        format!("trap '' INT TERM; echo pid $$; sleep {time} & sleep {time}; sleep {time}");
    let ended = run(&mut script("--hosts a:2,b:2 --timeout 1", &time, &ignore));
    assert_eq!(ended.code, Some(124));
    assert_eq!(ended.line(), "multigrain: time-out after 1 s; the job ends");
    assert_eq!(alive(&time), [""; 0]);

    let time = unique_time();
    let ignore =
        format!("trap '' INT TERM; echo pid $$; sleep {time} & sleep {time}; sleep {time}");
    let mut job = start(&mut script("--hosts a:2,b:2", &time, &ignore));
    job.lines(4);
    job.signal_and_wait(Signal::INT);
    job.signal(Signal::INT);
    let ended = job.wait();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(ended.line(), "multigrain: the job was ended by SIGINT");
    assert_eq!(alive(&time), [""; 0]);
}

/// A job over two hosts that sleeps, with children in sessions of their own, and its name.
fn sleeping() -> (Running, String, Vec<String>) {
    let time = unique_time();
    let sleep = format!("sleep {time} & (setsid sleep {time} &); echo pid $$; sleep {time}");
    let mut job = start(&mut script("--hosts a:2,b:2", &time, &sleep));
    let lines = job.lines(4);
    assert!(alive(&time).len() >= 12);
    (job, time, lines)
}

/// The agent that has started this node.
fn agent_of(rank: usize, lines: &[String]) -> Pid {
    let node = pid_of(rank, lines).as_raw_nonzero();
    let stat = std::fs::read_to_string(format!("/proc/{node}/stat")).unwrap();
    let parent = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap();
    Pid::from_raw(parent.parse().unwrap()).unwrap()
}

#[test]
fn a_killed_launcher_leaves_nothing_on_any_host() {
    let (job, time, _) = sleeping();
    job.signal(Signal::KILL);
    assert_gone_within(SOON, &time);
    assert_eq!(job.wait().code, None);
}

#[test]
fn a_killed_agent_ends_the_job_and_its_host_is_named() {
    let (job, time, lines) = sleeping();
    kill_process(agent_of(2, &lines), Signal::KILL).unwrap();
    assert_gone_within(SOON, &time);
    let ended = job.wait();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    let line = ended.line();
    assert!(line.contains(" on b) was lost with its host: its agent has ended"), "{line}");
}

#[test]
fn what_nodes_forked_does_not_outlive_an_agent_whose_watchdog_was_killed_before() {
    let (job, time, lines) = sleeping();
    let agent = agent_of(2, &lines);
    let of = u32::try_from(agent.as_raw_nonzero().get()).unwrap();
    for _ in 0..2 {
        let first = watchdog(of);
        kill_process(first, Signal::KILL).unwrap();
        wait_until("there is another watchdog", || watchdog(of) != first);
    }
    kill_process(agent, Signal::KILL).unwrap();
    assert_gone_within(SOON, &time);
    assert_eq!(job.wait().code, Some(75));
    // A successor, too, ends an agent that is stopped, and for which nobody speaks.
    let (job, time, lines) = sleeping();
    let agent = agent_of(2, &lines);
    let of = u32::try_from(agent.as_raw_nonzero().get()).unwrap();
    let first = watchdog(of);
    kill_process(first, Signal::KILL).unwrap();
    wait_until("there is another watchdog", || watchdog(of) != first);
    kill_process(agent, Signal::STOP).unwrap();
    assert_eq!(job.wait().code, Some(75));
    assert_gone_within(SOON, &time);
}

#[test]
fn a_watchdog_that_is_killed_while_agents_start_has_a_successor() {
    let time = unique_time();
    let mut job = start(&mut script("--hosts a,late", &time, &format!("echo up; sleep {time}")));
    let first = watchdog(job.pid());
    kill_process(first, Signal::KILL).unwrap();
    job.lines(2);
    wait_until("there is another watchdog", || watchdog(job.pid()) != first);
    job.signal(Signal::KILL);
    assert_gone_within(SOON, &time);
    job.wait();
}

#[test]
fn a_host_that_vanishes_is_named_and_nothing_is_left_on_the_others() {
    let (job, time, lines) = sleeping();
    // All of host b at once: its agent, whose watchdog is its child, its nodes, and both ends of its link.
    let agent = agent_of(2, &lines);
    let children = format!("/proc/{0}/task/{0}/children", agent.as_raw_nonzero());
    let children = std::fs::read_to_string(children).unwrap();
    let own = children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap());
    // A stopped agent cannot tell of the others' ends before its own.
    kill_process(agent, Signal::STOP).unwrap();
    for pid in own.chain([agent]).collect::<Vec<_>>() {
        kill_process(pid, Signal::KILL).unwrap();
    }
    let ended = job.wait();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.line().contains(" on b) was lost with its host"), "{ended:?}");
    assert!(ended.took < SOON);
    // Nobody was left there to end what nodes had forked: the launcher has that ended before it ends itself.
    assert_gone_within(Duration::from_secs(1), &time);
}

/// It does not see the end of its link then, and has no watchdog yet.
#[test]
fn an_agent_that_is_stopped_before_it_has_a_job_does_not_outlive_who_started_it() {
    let agent = format!("{} agent <&0 & echo pid $!; wait", env!("CARGO_BIN_EXE_multigrain"));
    let mut shell = Command::new("bash");
    let shell = shell.args(["-c", &agent]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let lines = BufReader::new(shell.stdout.take().unwrap()).lines().take(2);
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(lines.iter().any(|line| line.starts_with("multigrain agent, build ")), "{lines:?}");
    let agent = lines.iter().find_map(|line| line.strip_prefix("pid ")).unwrap();
    kill_process(Pid::from_raw(agent.parse().unwrap()).unwrap(), Signal::STOP).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    let status = format!("/proc/{agent}/stat");
    let is_gone = || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
    wait_until("it is gone", is_gone);
}

/// Its agent has greeted, and not said yet what it has found on its host: it beats while it looks.
#[test]
fn a_link_that_falls_silent_after_the_greeting_is_noticed_soon() {
    let mark = unique_time();
    let ended = run(job("--hosts a,mute", &mark).arg("true"));
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert_eq!(ended.line(), "multigrain: host mute: no word from its agent for 4 s");
    assert!(ended.took < SOON + Duration::from_secs(1), "with what the start takes: {ended:?}");
    assert_gone_within(SOON, &mark);
}

/// While another host is waited for.
#[test]
fn a_host_that_is_lost_while_others_start_is_named_at_once() {
    let mark = unique_time();
    let job = start(&mut script("--hosts a,deaf", &mark, "true"));
    wait_until("a has its link", || processes(&format!("link-a-{mark}")).count() >= 2);
    // Not a wait for something: longer than its agent needs to answer what it is asked first.
    std::thread::sleep(Duration::from_millis(700));
    for link in processes(&format!("link-a-{mark}")) {
        let pid = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    let ended = job.wait();
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.line().starts_with("multigrain: host a: "), "{ended:?}");
    assert!(ended.took < SOON, "{ended:?}");
}

/// Clocks of hosts are known to milliseconds, which a chain of losses does not take: who was lost by the end of it was named.
#[test]
fn a_node_that_is_another_program_is_named_whatever_the_clocks_of_hosts_say() {
    let nodes = r#"echo -e "joining $$\nready" >&$MULTIGRAIN_CONTROL_FD
        lost() { echo "lost $1 @$2.000000000 its connection ended" >&$MULTIGRAIN_CONTROL_FD; exit 75; }
        case $MULTIGRAIN_RANK in 0) lost 1 2;; 2) lost 0 1;; esac
        eval "exec $MULTIGRAIN_CONTROL_FD>&-"; exec sleep 60"#;
    let ended = run(&mut script("--hosts a,b,c", "", nodes));
    let line = ended.line();
    assert!(line.contains("node 1 (pid ") && line.contains("left without mg_finalize"), "{line}");
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

/// Bytes of memory that a process has.
fn resident(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn what_nodes_tell_a_launcher_that_is_stopped_does_not_fill_their_agent() {
    let flood = r#"echo pid $$; [ $MULTIGRAIN_RANK = 0 ] && exec sleep 60; exec yes >&$MULTIGRAIN_CONTROL_FD"#;
    let mut job = start(&mut script("--hosts a,b", &unique_time(), flood));
    let lines = job.lines(2);
    let agent = agent_of(1, &lines);
    job.signal(Signal::STOP);
    let before = resident(agent);
    // Not a wait for something: how long the agent has to read. Without a bound that is 30 MB.
    std::thread::sleep(Duration::from_millis(2_500));
    let more = resident(agent).saturating_sub(before);
    assert!(more < 12 << 20, "{more} bytes");
    job.signal(Signal::CONT);
    job.signal(Signal::INT);
    assert_eq!(job.wait().code, Some(130));
}

/// It waited for as long as the messages did not end.
#[test]
fn what_nodes_tell_without_end_does_not_hold_up_what_they_print() {
    let flood = r#"[ $MULTIGRAIN_RANK = 1 ] && { yes >&$MULTIGRAIN_CONTROL_FD & }; sleep 0.5; echo pid $$; exec sleep 60"#;
    let mut job = start(&mut script("--hosts a,b", &unique_time(), flood));
    assert_eq!(job.lines(2).len(), 2);
    job.signal(Signal::INT);
    assert_eq!(job.wait().code, Some(130));
}

#[test]
fn a_cut_link_is_noticed_at_both_ends() {
    let (job, time, _) = sleeping();
    let links: Vec<Pid> = processes(&format!("link-b-{time}"))
        .map(|process| process.file_name().unwrap().to_str().unwrap().parse().unwrap())
        .map(|pid| Pid::from_raw(pid).unwrap())
        .collect();
    assert!(links.len() >= 2, "{links:?}");
    for &link in &links {
        kill_process(link, Signal::STOP).unwrap();
    }
    assert_gone_within(SOON, &format!("sleep {time}"));
    let ended = job.wait();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    let line = ended.line();
    assert!(line.contains(" on b) was lost with its host: no word from its agent"), "{line}");
    assert_gone_within(SOON, &time);
}

#[test]
fn a_stopped_job_goes_on_however_long_it_was_stopped() {
    let wait = "echo pid $$; read line; echo $line";
    let mut command =
        script("--hosts a,b", "", &format!("[ $MULTIGRAIN_RANK = 1 ] || {{ {wait}; }}"));
    let mut job = start(command.stdin(Stdio::piped()));
    job.lines(1);
    job.signal(Signal::TSTP);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", job.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    wait_until("the launcher is stopped", state);
    // Not a wait for something: longer than a silent launcher is borne.
    std::thread::sleep(Duration::from_secs(4));
    job.signal(Signal::CONT);
    job.say("awake");
    let ended = job.wait();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "[0] awake\n"), "{ended:?}");
}

#[test]
fn what_differs_between_hosts_is_named_before_anything_runs() {
    let ended = run(job("--hosts a,b", "").args(["--", "differs"]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(125), ""), "{ended:?}");
    let (a, b) = (hosts().join("a/differs"), hosts().join("b/differs"));
    let start = format!(
        "multigrain: the program {} on b is another than {} on a",
        b.display(),
        a.display()
    );
    assert!(ended.line().replace("/./", "/").replace("./", "").starts_with(&start), "{ended:?}");

    let ended = run(job("--hosts a,b", "").args(["--", "only-a"]));
    assert_eq!(ended.code, Some(127));
    assert!(ended.line().starts_with("multigrain: host b: only-a: no such program"), "{ended:?}");

    let ended = run(&mut script("--hosts a,old", "", "echo no"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(125), ""), "{ended:?}");
    let start =
        "multigrain: host old: its multigrain is another than this one (build 12?34 and build ";
    assert!(ended.line().starts_with(start), "{ended:?}");
}

#[test]
fn bytes_that_change_on_their_way_to_an_agent_are_the_cause_that_is_named() {
    let ended = run(&mut script("--hosts a,changes", "", "echo no"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(125), ""), "{ended:?}");
    let line = "multigrain: host changes: its agent cannot read what this launcher says: bytes were changed on the way";
    assert_eq!(ended.line(), line);
}

#[test]
fn another_library_is_named_too() {
    let cc = |arguments: &str| {
        let mut cc = Command::new("cc");
        cc.current_dir(hosts()).args(arguments.split(' '));
        assert!(cc.status().unwrap().success(), "{arguments}");
    };
    for host in ["a", "b"] {
        std::fs::write(hosts().join("lib.c"), format!("int mg = '{host}';\n")).unwrap();
        let soname = "-Wl,--build-id,-soname,libmultigrain.so.0";
        cc(&format!("-shared {soname} -o {host}/libmultigrain.so.0 lib.c"));
    }
    std::fs::write(hosts().join("main.c"), "extern int mg; int main(void) { return mg; }\n")
        .unwrap();
    cc("-o linked main.c a/libmultigrain.so.0");
    let ended = run(job("--hosts a,b", "").arg("--").arg(hosts().join("linked")));
    assert_eq!(ended.code, Some(125), "{ended:?}");
    let library = hosts().join("b/libmultigrain.so.0");
    let start = format!("multigrain: the library {} on b is another", library.display());
    assert!(ended.line().starts_with(&start), "{ended:?}");
}

/// That there was no libmultigrain.so was said, since the loader lists nothing where it lacks anything.
#[test]
fn a_library_that_a_host_lacks_is_the_one_that_is_named() {
    let cc = |arguments: &str| {
        let mut cc = Command::new("cc");
        cc.current_dir(hosts()).args(arguments.split(' '));
        assert!(cc.status().unwrap().success(), "{arguments}");
    };
    std::fs::write(hosts().join("part.c"), "int part;\n").unwrap();
    std::fs::write(hosts().join("parted.c"), "extern int part; int main(void) { return part; }\n")
        .unwrap();
    std::fs::create_dir_all(hosts().join("parts")).unwrap();
    cc("-shared -Wl,--build-id,-soname,libmultigrain.so.0 -o parts/libmultigrain.so.0 part.c");
    cc("-shared -Wl,-soname,libpart.so -o a/libpart.so part.c");
    cc(
        "-Wl,--no-as-needed,-rpath,$ORIGIN/parts -o parted parted.c a/libpart.so parts/libmultigrain.so.0",
    );
    for order in ["a,b", "b,a", "b"] {
        let ended = run(job(&format!("--hosts {order}"), "").arg("--").arg(hosts().join("parted")));
        assert_eq!(ended.code, Some(125), "{ended:?}");
        let line = ended.line();
        assert!(
            line.starts_with("multigrain: host b: ") && line.contains("libpart.so: "),
            "{line}"
        );
        assert!(line.contains("LD_LIBRARY_PATH") && !line.contains("libmultigrain"), "{line}");
    }
    let ended = run(job("--hosts a", "").arg("--").arg(hosts().join("parted")));
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn mistakes_get_one_line_that_names_host_and_remedy() {
    let file = hosts().join("hostfile");
    let with_file = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = job("--hostfile", "");
        run(command.arg(&file).args(["--", "true"]))
    };
    assert_eq!(with_file("# all of them\na slots=2 # the first\n\nb:1\n").code, Some(0));
    for (text, said) in [
        ("a slots=x\n", ", line 1: 'slots=x': slots are a number from 1"),
        ("a\nb rack=7\n", ", line 2: 'rack=7' is not understood; write slots=N"),
        ("# none\n", " names no host"),
    ] {
        let ended = with_file(text);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let start = format!("multigrain: --hostfile {}{said}", file.display());
        assert!(ended.line().starts_with(&start), "{ended:?}");
    }
    for (options, code, said) in [
        ("--hostfile /no/such", 2, "--hostfile /no/such: No such file"),
        ("--hostfile /dev/zero", 2, "--hostfile /dev/zero, line 1: it is too long"),
        ("--hosts a -n 2", 2, "2 nodes need 2 slots, and the hosts have 1"),
        ("--hosts a,b --transport unix", 2, "Unix sockets do not lead to other hosts"),
        (
            "--hosts a,b --interface nix0",
            2,
            "host a: --interface: it has no address on the interface nix0",
        ),
        (
            "--hosts a --interface nix0",
            2,
            "host a: --interface: it has no address on the interface nix0",
        ),
        (
            "--hosts a,locked",
            125,
            "host locked: no agent could be started (exit status: 255): Permission denied",
        ),
        (
            "--hosts a,quiet",
            125,
            "host quiet: no agent could be started (exit status: 0); see what '",
        ),
        (
            "--hosts a,unheard",
            125,
            "host unheard: the standard input of its agent has ended at once: what leads there has to pass it on (leave",
        ),
        ("--hosts a,null", 125, "host null: the standard input of its agent has ended at once: "),
        ("--hosts a,deaf --boot-timeout 1", 125, "host deaf: no answer in 1 s"),
        ("--hosts a,deaf --timeout 0.5", 124, "time-out after 0.5 s"),
    ] {
        let ended = run(&mut script(options, "", "echo no"));
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{options}: {ended:?}");
        assert!(ended.line().starts_with(&format!("multigrain: {said}")), "{ended:?}");
        assert!(ended.took < SOON, "{ended:?}");
    }
    let mut command = script("--hosts a,b", "", "true");
    let directory = hosts().join("gone");
    std::fs::create_dir_all(&directory).unwrap();
    command.current_dir(&directory);
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn an_interrupt_ends_the_start_too() {
    let time = unique_time();
    let job = start(&mut script("--hosts a,deaf", &time, "true"));
    wait_until("the agent runs", || processes(&format!("link-a-{time}")).count() >= 2);
    job.signal(Signal::INT);
    let ended = job.wait();
    assert_eq!((ended.code, ended.line()), (Some(130), "multigrain: the job was ended by SIGINT"));
    assert_gone_within(SOON, &time);
}
