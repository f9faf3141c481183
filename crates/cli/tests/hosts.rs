//! Jobs on many hosts, as a user meets them, over hosts that are scripts (`support/script_hosts.rs`). How such jobs
//! fail and end: `hosts_endings.rs`.
//!
//! This test binary is also the program of a job: the launcher starts it with the name of the one test that is
//! a node.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use multigrain::{Job, Mutex, Policy, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use support::script_hosts::{hosts, job, script, sorted};
use support::{
    alive, asleep, does, launcher, multigrain, not_tried, run, start, unique_time, wait_until,
};

/// Longer than a host may go unheard, with what it takes to end a job.
const SOON: Duration = Duration::from_secs(5);

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
        let script = &mut script(options, "", "sed -n 2p /proc/self/fd/$MULTIGRAIN_SECRET_FD");
        let ended = run(script.env("MULTIGRAIN_SECRET_FD", "0"));
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
    command.env("DEED", "");
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
    if deed == "wait" {
        println!("pid {}", std::process::id());
        std::thread::sleep(Duration::from_secs(60));
    }
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

/// Each piece that had no room waited for the next look of the launcher's, 250 ms: 40 s for these.
#[test]
fn much_input_goes_as_quickly_as_node_0_takes_it() {
    let mut command = job("--hosts a:1", "");
    command.args(["--", "wc", "-c"]);
    let mut head = Command::new("head");
    head.args(["-c", "12000000", "/dev/zero"]).stdout(Stdio::piped());
    let mut input = head.spawn().unwrap();
    command.stdin(input.stdout.take().unwrap());
    let began = Instant::now();
    let ended = run(&mut command);
    input.wait().unwrap();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "12000000\n"), "{}", ended.err);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn big_output_loses_nothing_though_its_reader_is_slow() {
    let mut job = start(&mut script("--hosts a,b", "", "seq 500000; exit 0"));
    // Until nothing on the way has room, and the writer has to wait.
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

/// Its exit code was the launcher's, and its text reached the terminal as it was.
#[test]
fn an_agent_that_refuses_with_success_is_a_failure_in_plain_text() {
    let ended = run(job("--hosts a,liar", "").arg("true"));
    assert_eq!(
        (ended.code, ended.line()),
        (Some(125), "multigrain: host liar: ?[31mred"),
        "{ended:?}"
    );
}

#[test]
fn a_program_that_another_host_lacks_may_be_here() {
    let path = format!("{}:/usr/bin:/bin", hosts().join("a").display());
    let ended = run(job("--hosts a,bare", "").arg("only-a").env("PATH", path));
    let line = "multigrain: host bare: only-a: no such program; it is on this host: copy it to the same place";
    assert_eq!((ended.code, ended.line()), (Some(127), line), "{ended:?}");
}

/// Its library was said to be missing there.
#[test]
fn a_host_without_descriptors_says_so() {
    let ended = run(job("--hosts a,tight", "").arg("true"));
    let line = "true: its loader cannot be started: Too many open files (os error 24)";
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(
        ended.line().starts_with("multigrain: host tight: ") && ended.line().ends_with(line),
        "{ended:?}"
    );
}

/// It has some of its own, and each of its nodes another socket.
#[test]
fn an_agent_needs_more_descriptors_and_the_doctor_says_so() {
    for (nodes, least) in [(1, 21), (2, 26), (4, 34)] {
        for limit in [least, least - 1] {
            let options = format!("--hosts a,limit{limit}:{nodes}");
            let mut doctor = multigrain();
            doctor.args(["doctor", "--launcher-command"]).arg(hosts().join("ssh"));
            let examined = run(doctor.args(options.split_whitespace()).env("HOSTS", hosts()));
            let ran = run(job(&options, "").arg("true"));
            let codes = if limit == least { [0, 0] } else { [78, 125] };
            assert_eq!([examined.code, ran.code], codes.map(Some), "{limit}: {examined:?} {ran:?}");
        }
    }
}

/// An agent that starts one node after the other answers nothing meanwhile.
#[test]
fn a_host_may_take_longer_to_start_its_nodes_than_an_agent_may_be_silent() {
    if !does("strace -V") {
        return not_tried("there is no strace");
    }
    let ended = run(job("--hosts a,slow:5", "").arg("true"));
    assert_eq!((ended.code, ended.own_lines().len()), (Some(0), 0), "{ended:?}");
    assert!(ended.took > Duration::from_millis(4_500), "{ended:?}");
}

/// Processes of a session share what processors give it (sched(7), autogroups): many of a node's kept its agent from its turn.
#[test]
fn a_host_may_take_longer_to_look_at_its_files_than_an_agent_may_be_silent() {
    let ended = run(job("--hosts a,far", "").arg("true"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.took > Duration::from_secs(6), "its directory is far away: {ended:?}");
}

/// As of a host with so many processes: its agent looks for those that nodes have left, once one has ended.
#[test]
fn a_host_may_take_longer_to_read_its_processes_than_an_agent_may_be_silent() {
    let one_after_the_other = "[ $MULTIGRAIN_RANK = 1 ] || sleep 5; echo over";
    let ended = run(&mut script("--hosts a,many:2", "", one_after_the_other));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("over").count(), 3, "{ended:?}");
}

#[test]
fn nodes_have_sessions_of_their_own() {
    let of_bash = "read -r -a stat < /proc/$$/stat; echo $$ ${stat[5]}";
    let ended = run(&mut script("--hosts a:2,b --no-tag-output", "", of_bash));
    let lines: Vec<_> = ended.out.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(lines.len(), 3, "{ended:?}");
    assert!(lines.iter().all(|(process, session)| process == session), "{ended:?}");
}

/// The end of a node's first process was taken for the node's.
#[test]
fn what_a_node_has_left_on_another_host_may_be_the_node() {
    let late =
        r#"setsid bash -c '[ $MULTIGRAIN_RANK = 0 ] || sleep 2; exec "$0" "$@"' "$@" & exit 0"#;
    let mut command = job("--hosts a,b --timeout 60", "");
    command.args(["--", "bash", "-c", late, "bash"]).arg(std::env::current_exe().unwrap());
    let ended = run(command.args(["--exact", "node", "--ignored", "--nocapture"]));
    assert_eq!((ended.code, ended.own_lines().len()), (Some(0), 0), "{ended:?}");
    assert_eq!(ended.out.matches("the total is 200").count(), 2, "{ended:?}");
}

/// They ended with "left without mg_finalize" and code 1, and where the host was lost, after 35 s.
#[test]
fn a_node_that_is_a_daemon_ends_as_any_other() {
    let node = std::env::current_exe().unwrap().display().to_string();
    let daemon = format!("setsid {node} --exact node --ignored --nocapture & exit 0");
    for (place, code, says) in [
        ("-n 2", 143, "the job was ended by SIGTERM"),
        ("-n 2", 137, " was killed by signal 9 (SIGKILL); the job ends"),
        ("--hosts a,b", 143, "the job was ended by SIGTERM"),
        ("--hosts a,b", 137, " on b) was killed by signal 9 (SIGKILL); the job ends"),
        ("--hosts a,b", 75, " on b) was lost with its host: its agent has ended"),
    ] {
        let options = format!("{place} -x DEED=wait");
        let mut job = start(&mut match place.starts_with("--hosts") {
            true => script(&options, "", &daemon),
            false => launcher(&options, &daemon),
        });
        let mut pids = [None, None];
        while pids.contains(&None) {
            let line = job.lines(1).remove(0);
            assert!(!line.is_empty(), "{:?}", job.wait());
            if let Some((rank, pid)) = line.split_once("] pid ") {
                pids[usize::from(rank == "[1")] = Pid::from_raw(pid.parse().unwrap());
            }
        }
        let node = pids[1].unwrap();
        let since = Instant::now();
        match code {
            143 => job.signal(Signal::TERM),
            137 => kill_process(node, Signal::KILL).unwrap(),
            _ => kill_process(parent_of(node), Signal::KILL).unwrap(),
        }
        let ended = job.wait();
        assert_eq!((ended.code, ended.own_lines().len()), (Some(code), 1), "{ended:?}");
        assert!(ended.err.contains(says), "{ended:?}");
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    }
}

fn parent_of(pid: Pid) -> Pid {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let parent = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap();
    Pid::from_raw(parent.parse().unwrap()).unwrap()
}

#[test]
fn what_a_node_has_left_gets_its_signals() {
    // Nobody is to die of a signal that comes before the shell has ended.
    let left = r#"trap : USR1; [ $MULTIGRAIN_RANK = 0 ] && trap '' USR1 && echo up && exec sleep 60
        setsid bash -c 'trap "echo got" USR1; echo up; while :; do sleep 0.01; done' & exit 0"#;
    for mut command in [script("--hosts a,b", "", left), launcher("-n 2", left)] {
        let mut job = start(&mut command);
        job.lines(2);
        // The first may come before the shell's end is known. Each looks through all processes: not more than a busy host does.
        let mut next = Instant::now();
        wait_until("it gets one", || {
            if Instant::now() >= next {
                job.signal(Signal::USR1);
                next = Instant::now() + Duration::from_millis(500);
            }
            job.unread() > 0
        });
        assert_eq!(job.lines(1), ["[1] got"]);
        job.signal(Signal::TERM);
        assert_eq!(job.wait().code, Some(143));
    }
}

/// One in the process group of its node had each twice, and what a daemon had started none.
#[test]
fn whom_a_node_has_left_and_whom_that_has_started_get_each_signal_once() {
    if !does("python3 --version") {
        return not_tried("there is no python3");
    }
    let left = r#"trap : USR1
        export listens='import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("up", flush=True)
while signal.sigwait([signal.SIGUSR1]): print(sys.argv[1], flush=True)'
        if [ $MULTIGRAIN_RANK = 2 ]; then trap '' USR1; exec sleep 60
        elif [ $MULTIGRAIN_RANK = 0 ]; then python3 -c "$listens" group &
        else setsid bash -c 'python3 -c "$listens" started & exec python3 -c "$listens" daemon' & fi; exit 0"#;
    for mut command in [script("--hosts a:2,b", "", left), launcher("-n 3", left)] {
        let mut job = start(&mut command);
        job.lines(3);
        let mut signals = 0;
        let mut got: Vec<String> = Vec::new();
        let counts = |got: &[String]| {
            let count = |who| got.iter().filter(|line| line.as_str() == who).count();
            ["[0] group", "[1] daemon", "[1] started"].map(count)
        };
        // The first may come before the shell's end is known.
        while counts(&got)[2] == 0 {
            assert!(signals < 20, "{got:?}");
            job.signal(Signal::USR1);
            signals += 1;
            let next = Instant::now() + Duration::from_millis(500);
            wait_until("it gets that one", || {
                got.extend((0..usize::from(job.unread() > 0)).flat_map(|_| job.lines(1)));
                counts(&got)[0] >= signals && Instant::now() >= next
            });
        }
        wait_until("the daemon gets it", || {
            got.extend((0..usize::from(job.unread() > 0)).flat_map(|_| job.lines(1)));
            counts(&got)[1] >= counts(&got)[2]
        });
        job.signal(Signal::TERM);
        let ended = job.wait();
        assert_eq!(ended.code, Some(143), "{ended:?}");
        got.extend(ended.out.lines().map(str::to_owned));
        let [group, daemon, started] = counts(&got);
        assert_eq!((group, daemon), (signals, started), "{got:?}");
    }
}

/// What has no answer was taken for a heartbeat: hosts whose nodes say nothing were lost.
#[test]
fn a_launcher_that_has_much_to_say_does_not_lose_its_hosts() {
    // Longer than a silent host is waited for.
    let mut job = start(&mut script("--hosts a,b", "", "trap '' USR1; echo started; exec sleep 5"));
    job.lines(2);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(5) {
        job.signal(Signal::USR1);
        std::thread::sleep(Duration::from_millis(200));
    }
    let ended = job.wait();
    assert_eq!((ended.code, ended.own_lines().len()), (Some(0), 0), "{ended:?}");
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
