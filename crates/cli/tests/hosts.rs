//! Jobs on many hosts, as a user meets them. What stands for ssh is a script that runs the agent here, in a
//! session and with an environment of its own, as a host would; so the tests run everywhere.
//!
//! This test binary is also the program of a job: the launcher starts it with the name of the one test that is
//! a node.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use multigrain::{Job, Mutex, Policy, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use support::{
    Running, alive, asleep, assert_gone_within, multigrain, pid_of, processes, run, start,
    unique_time, wait_until,
};

/// Longer than a host may go unheard, with what it takes to end a job.
const SOON: Duration = Duration::from_secs(5);

/// HOST COMMAND, between two processes that pass everything on and can be stopped: a link that can be cut.
const HOST: &str = r#"#!/bin/bash
host=$1; shift
case $host in
old) echo "multigrain agent, build 1234"; exec cat;;
deaf) exec sleep 600;;
locked) echo "Permission denied (publickey)." >&2; exit 255;;
esac
echo "Welcome to $host, where the shell says something"
(exec -a "link-$host-$MARK" cat) |
    env -i PATH="$HOSTS/$host:$PATH" LD_LIBRARY_PATH="$HOSTS/$host" setsid -w bash -c "$*" |
    (exec -a "link-$host-$MARK" cat)
"#;

/// A directory with the script, and what is on one host only: a directory of its name in the PATH there.
fn hosts() -> &'static PathBuf {
    static HOSTS: OnceLock<PathBuf> = OnceLock::new();
    HOSTS.get_or_init(|| {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("hosts");
        for (path, text) in [
            ("ssh", HOST),
            ("a/differs", "#!/bin/sh\necho one\n"),
            ("b/differs", "#!/bin/sh\necho two\n"),
            ("a/only-a", "#!/bin/sh\necho one\n"),
        ] {
            let path = directory.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        directory
    })
}

/// `multigrain run` over hosts that the script makes; `mark` is in the names of the links' processes.
fn job(options: &str, mark: &str) -> Command {
    let mut command = multigrain();
    command.args(["run", "--launcher-command"]).arg(hosts().join("ssh"));
    command.args(options.split_whitespace()).env("MARK", mark).env("HOSTS", hosts());
    command
}

/// The same of a shell script as the program.
fn script(options: &str, mark: &str, script: &str) -> Command {
    let mut command = job(options, mark);
    command.args(["--", "bash", "-c", script]);
    command
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn every_node_runs_on_its_host_with_the_variables_that_are_meant_for_it() {
    let command = &mut script(
        "--hosts a:2,b -x GIVEN=a=b -x PASSED -t 3",
        "",
        "echo $GIVEN $PASSED $MULTIGRAIN_NODES $MULTIGRAIN_THREADS $MULTIGRAIN_GUARD \
         ${UNASKED-none} ${PATH##*/hosts} >&2; echo ${PATH%%:*}; cat /proc/$$/personality",
    );
    command.env("PASSED", "on").env("UNASKED", "x").env("MULTIGRAIN_GUARD", "mprotect");
    command.env("PATH", "/usr/bin:/bin");
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let path = |host: &str| hosts().join(host).display().to_string();
    let mut expected = vec![
        format!("[0] {}", path("a")),
        format!("[1] {}", path("a")),
        format!("[2] {}", path("b")),
    ];
    expected.extend((0..3).map(|rank| format!("[{rank}] 00040000")));
    expected.sort_unstable();
    assert_eq!(sorted(&ended.out), expected);
    for line in ended.err.lines() {
        assert!(line[4..].starts_with("a=b on 3 3 mprotect none "), "{line}");
    }
    assert_eq!(ended.err.lines().count(), 3);
}

#[test]
fn neighbours_talk_over_unix_sockets_and_others_over_tcp() {
    let peers = |options: &str| {
        let ended = run(&mut script(options, "", "echo ${MULTIGRAIN_PEERS} $MULTIGRAIN_LISTEN_FD"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let kinds = |line: &str| {
            let (peers, sockets) = line[4..].split_once(' ').unwrap();
            let kinds: Vec<&str> =
                peers.split(',').map(|peer| peer.split_once(':').unwrap().0).collect();
            (kinds.join(" "), sockets.split(',').count())
        };
        sorted(&ended.out).into_iter().map(kinds).collect::<Vec<_>>()
    };
    let (near, far) = ("unix unix tcp".to_owned(), "tcp tcp tcp".to_owned());
    assert_eq!(peers("--hosts a:2,b"), [(near.clone(), 2), (near, 2), (far.clone(), 1)]);
    let tcp = [(far.clone(), 1), (far.clone(), 1), (far, 1)];
    assert_eq!(peers("--hosts a:2,b --transport tcp --interface lo"), tcp);
    let unix = ("unix unix".to_owned(), 1);
    assert_eq!(peers("--hosts a:2"), [unix.clone(), unix]);
}

#[test]
fn nodes_of_hosts_have_certificates_of_one_authority_whether_or_not_they_encrypt() {
    let credentials = |options: &str| {
        let script = &mut script(options, "", "echo ${MULTIGRAIN_CREDENTIALS-none}");
        let ended = run(script.env("MULTIGRAIN_CREDENTIALS", "stale"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out.lines().map(|line| line[4..].to_owned()).collect::<Vec<_>>()
    };
    for (options, after) in [("", "sealed"), ("--encrypt on", "sealed"), ("--encrypt off", "clear")]
    {
        let options = &format!("--hosts a:2,b {options}");
        let own = credentials(options);
        let parts = own.iter().map(|own| own.split('.').collect::<Vec<_>>()).collect::<Vec<_>>();
        assert!(parts.iter().all(|own| own.len() == 4 && own[0] == parts[0][0] && own[3] == after));
        let different: std::collections::BTreeSet<&String> = own.iter().collect();
        assert_eq!(different.len(), 3);
    }
}

/// A job whose nodes do what DEED says: count, if nothing.
fn nodes(options: &str) -> Command {
    let mut command = job(&format!("{options} -x DEED"), "");
    command.arg("--").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "node", "--ignored", "--nocapture", "--test-threads", "1"]);
    command
}

#[test]
fn nodes_of_a_job_share_memory_over_hosts() {
    let file = hosts().join("stats.json");
    let ended = run(&mut nodes(&format!("--hosts a:2,b:2 --stats {}", file.display())));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("the total is 400").count(), 4, "{ended:?}");
    let stats: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(stats["nodes"][3]["host"], "b");
    assert!(stats["nodes"][3]["stats"]["messages_sent"].as_u64().unwrap() > 0, "{stats}");
}

/// The program of that job; does nothing without the launcher.
#[test]
#[ignore = "a node of the job"]
fn node() {
    if std::env::var("MULTIGRAIN_RANK").is_ok() {
        assert!(multigrain::run(count) == ExitCode::SUCCESS);
    }
}

fn count(job: &Job) -> Result<()> {
    let total = job.share("total", || Mutex::numbered(job, 7, 0u64, Policy::new()))?;
    let deed = std::env::var("DEED").unwrap_or_default();
    if deed == format!("kill {}", job.node()) {
        kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
    }
    for _ in 0..100 {
        *total.lock()? += 1;
    }
    job.barrier(1)?;
    println!("the total is {}", *total.lock()?);
    job.barrier(1)
}

#[test]
fn stdin_goes_to_node_0_alone_whatever_it_is() {
    let bytes: String = (0..40_000).map(|number| format!("{number}\n")).collect();
    let file = hosts().join("input");
    std::fs::write(&file, &bytes).unwrap();
    let expected: String = bytes.lines().map(|line| format!("[0] {line}\n")).collect();
    let mut command = job("--hosts a,b", "");
    command.args(["--", "cat"]).stdin(std::fs::File::open(&file).unwrap());
    let ended = run(&mut command);
    assert!(ended.code == Some(0) && ended.out == expected, "{}", ended.err);

    let mut cat = Command::new("cat").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    command.stdin(cat.stdout.take().unwrap());
    let ended = run(&mut command);
    cat.wait().unwrap();
    assert!(ended.code == Some(0) && ended.out == expected, "{}", ended.err);
}

#[test]
fn big_output_loses_nothing_though_its_reader_is_slow() {
    let mut job = start(&mut script("--hosts a,b", "", "seq 500000; exit 0"));
    // Until nothing on the way has room, and who writes has to wait.
    wait_until("both nodes wait", || job.unread() > 30_000 && asleep("seq 500000"));
    let first = job.lines(1).len();
    let ended = job.wait();
    assert_eq!(first + ended.out.lines().count(), 1_000_000);
    assert_eq!(ended.code, Some(0));
}

#[test]
fn output_of_nodes_that_have_ended_waits_for_its_reader() {
    let (time, go) = (unique_time(), hosts().join("go"));
    let _ = std::fs::remove_file(&go);
    let write = format!(
        ": {time}; [ $MULTIGRAIN_RANK = 0 ] && {{ seq 500001 & exit 0; }}
        while [ ! -e {} ]; do sleep 0.01; done; echo tail; exit 0",
        go.display()
    );
    let mut job = start(&mut script("--hosts a,b", "", &write));
    // Node 1 says its last when nothing on the way has room.
    let mut waits = 0;
    wait_until("the other waits, and not for a moment", || {
        waits = if job.unread() > 30_000 && asleep("seq 500001") { waits + 1 } else { 0 };
        waits > 50
    });
    std::fs::write(&go, "").unwrap();
    let node = |line: &String| line.starts_with("bash -c :") && line.contains(&time);
    wait_until("both nodes have ended", || !alive(&time).iter().any(node));
    // Not a wait for something: longer than a job takes to end that nobody reads.
    std::thread::sleep(Duration::from_secs(5));
    let first = job.lines(1);
    let ended = job.wait();
    let mut lines = first.iter().map(String::as_str).chain(ended.out.lines());
    assert!(ended.code == Some(0) && lines.any(|line| line == "[1] tail"), "{}", ended.err);
}

#[test]
fn a_node_that_is_killed_is_named_and_not_who_lost_it_on_another_host() {
    for victim in 0..4 {
        let deed = format!("kill {victim}");
        let ended = run(nodes("--hosts a:2,b:2 --timeout 60").env("DEED", deed));
        let (host, line) = (["a", "b"][victim / 2], ended.line());
        assert!(line.starts_with(&format!("multigrain: node {victim} (pid ")), "{ended:?}");
        assert!(
            line.ends_with(&format!(" on {host}) was killed by signal 9 (SIGKILL); the job ends")),
            "{line}"
        );
        assert_eq!(ended.code, Some(137));
    }
}

#[test]
fn eight_hosts_with_four_nodes_each_make_a_job() {
    let hosts: Vec<String> = (0..8).map(|host| format!("h{host}:4")).collect();
    let ended = run(&mut nodes(&format!("--hosts {} --timeout 100", hosts.join(","))));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("the total is 3200").count(), 32, "{ended:?}");
}

#[test]
fn the_first_failure_is_named_with_its_host_and_gives_the_exit_code() {
    let fail = |deed: &str| {
        let time = unique_time();
        let deed = format!("sleep {time} & [ $MULTIGRAIN_RANK = 2 ] && {deed}; sleep {time}");
        let ended = run(&mut script("--hosts a:2,b:2", &time, &deed));
        assert_eq!(alive(&time), [""; 0]);
        assert!(ended.took < SOON, "{ended:?}");
        ended
    };
    let ended = fail("exit 3");
    assert_eq!(ended.code, Some(3));
    assert!(ended.line().starts_with("multigrain: node 2 (pid "), "{ended:?}");
    assert!(ended.line().ends_with(" on b) exited with code 3; the job ends"), "{ended:?}");
    let ended = fail("kill -SEGV $$");
    assert_eq!(ended.code, Some(139));
    assert!(ended.line().contains(" on b) was killed by signal 11 (SIGSEGV)"), "{ended:?}");
}

#[test]
fn signals_reach_every_node_of_every_host_once() {
    let traps = "trap 'echo usr1' USR1; trap 'echo int; exit 0' INT
        echo started; while :; do sleep 0.01; done";
    let mut job = start(&mut script("--hosts a:2,b", "", traps));
    job.lines(3);
    job.signal(Signal::USR1);
    let mut lines = job.lines(3);
    lines.sort_unstable();
    assert_eq!(lines, ["[0] usr1", "[1] usr1", "[2] usr1"]);
    job.signal(Signal::INT);
    let ended = job.wait();
    assert_eq!(sorted(&ended.out), ["[0] int", "[1] int", "[2] int"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

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
fn a_host_that_vanishes_is_named_and_nothing_is_left_on_the_others() {
    let (job, time, lines) = sleeping();
    // All of host b at once: its agent, whose warden is its child, its nodes, and both ends of its link.
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
    // What only that host's warden would have ended is what this test has to.
    for process in processes(&time) {
        let pid = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
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
    let start = "multigrain: host old: its multigrain is another than this one (1234 and build ";
    assert!(ended.line().starts_with(start), "{ended:?}");
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
        ("--hosts a -n 2", 2, "2 nodes need 2 slots, and the hosts have 1"),
        ("--hosts a,b --transport unix", 2, "Unix sockets do not lead to other hosts"),
        (
            "--hosts a,b --interface nix0",
            2,
            "host a: --interface: it has no address on the interface nix0",
        ),
        (
            "--hosts a,locked",
            125,
            "host locked: no agent could be started (exit status: 255): Permission denied",
        ),
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
