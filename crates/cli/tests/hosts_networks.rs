//! Networks that fail, hosts that vanish, are slow or have clocks of their own: jobs over hosts with a real sshd in
//! each (`support/network.rs`).
//!
//! This test binary is also the program of a job, as in `hosts.rs`.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use multigrain::{Job, Mutex, Policy, Result};
use rustix::process::{Signal, kill_process};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::network::{Network, Quirk};
use support::{Ended, Running, run, start, wait_until};

/// Within this a loss ends the job, and nothing is left.
const SOON: Duration = Duration::from_secs(5);
/// How long a job that is to be struck lasts, seconds.
const LONG: &str = "12";

/// The program of the jobs; does nothing without the launcher.
#[test]
#[ignore = "a node of the job"]
fn node() {
    if std::env::var("MULTIGRAIN_RANK").is_ok() {
        assert!(multigrain::run(deed) == ExitCode::SUCCESS);
    }
}

/// Nodes count under one lock for so many SECONDS, or node 0 sleeps so long and the others wait for it (IDLE). Then
/// all that was counted is there.
fn deed(job: &Job) -> Result<()> {
    let total = job.share("total", || Mutex::numbered(job, 7, 0u64, Policy::new()))?;
    let all = job.share("all", || Mutex::numbered(job, 8, 0u64, Policy::new()))?;
    let seconds = std::env::var("SECONDS_LONG").unwrap_or_default().parse().unwrap_or(0.0);
    let idle = std::env::var("IDLE").is_ok();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    job.barrier(1)?;
    println!("counting");
    let mut counted = 0;
    while Instant::now() < end || counted < 100 {
        if idle && seconds > 0.0 {
            if job.node() == 0 {
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
            }
            job.barrier(1)?;
        }
        *total.lock()? += 1;
        counted += 1;
        if idle && counted == 100 {
            break;
        }
    }
    *all.lock()? += counted;
    job.barrier(1)?;
    assert!(*total.lock()? == *all.lock()?, "a count is lost");
    println!("all is counted");
    job.barrier(1)
}

/// A long job, when all its nodes count.
fn counting(network: &Network, options: &str, idle: bool) -> Running {
    let nodes = options.split(',').count();
    let idle = if idle { "-x IDLE=1" } else { "" };
    let mut command = network.nodes(&format!("{options} --timeout 60 -x SECONDS_LONG {idle}"));
    command.env("SECONDS_LONG", LONG).env_remove("IDLE");
    let mut job = start(&mut command);
    let mut started = 0;
    while started < nodes {
        started += usize::from(job.lines(1)[0].contains("counting"));
    }
    job
}

/// It ends soon, with one line; nothing is left.
fn assert_lost(network: &Network, job: Running, says: &[&str]) {
    let began = Instant::now();
    let ended = job.wait();
    let took = began.elapsed();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    let line = ended.line();
    assert!(says.iter().any(|said| line.contains(said)), "{line}");
    assert!(took < SOON, "{took:?}: {ended:?}");
    // Processes that were killed as it ended may need a moment on a busy machine.
    network.assert_empty(SOON.saturating_sub(took).max(Duration::from_secs(1)));
}

fn has_counted(ended: &Ended, nodes: usize) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("all is counted").count(), nodes, "{ended:?}");
}

#[test]
fn a_cut_between_two_hosts_is_noticed_whether_they_talk_or_not() {
    let Some(network) = Network::new(2, false) else { return };
    for idle in [false, true] {
        let job = counting(&network, "--hosts h1,h2", idle);
        network.lose(1, 2, true);
        network.lose(2, 1, true);
        assert_lost(&network, job, &["node 0", "node 1"]);
        network.lose(1, 2, false);
        network.lose(2, 1, false);
    }
}

#[test]
fn a_link_of_which_one_direction_is_cut_is_noticed() {
    let Some(network) = Network::new(2, false) else { return };
    for (from, to) in [(1, 2), (2, 1)] {
        let job = counting(&network, "--hosts h1,h2", false);
        network.lose(from, to, true);
        assert_lost(&network, job, &["node 0", "node 1"]);
        network.lose(from, to, false);
    }
    // Between the launcher and a host: what the agent says arrives, and nothing comes to it.
    let job = counting(&network, "--hosts h1,h2", false);
    network.lose(0, 2, true);
    assert_lost(&network, job, &[" on h2) was lost with its host"]);
    network.lose(0, 2, false);
}

#[test]
fn links_that_are_restored_within_the_time_out_cost_nothing_but_time() {
    let Some(network) = Network::new(2, false) else { return };
    let job = counting(&network, "--hosts h1,h2", false);
    for (cut, restore) in
        [(|network: &Network| network.plug(2, false)) as fn(&Network), |network: &Network| {
            network.lose(1, 2, true)
        }]
        .into_iter()
        .zip([(|network: &Network| network.plug(2, true)) as fn(&Network), |network: &Network| {
            network.lose(1, 2, false)
        }])
    {
        cut(&network);
        // Not a wait for something: how long the link is away.
        std::thread::sleep(Duration::from_millis(1_200));
        restore(&network);
        // Nor is this: how long it is there before the next cut, longer than the job needs to go on.
        std::thread::sleep(Duration::from_millis(1_500));
    }
    has_counted(&job.wait(), 2);
    network.assert_empty(SOON);
}

#[test]
fn a_host_that_vanishes_with_its_link_ends_the_job_everywhere_else() {
    let Some(network) = Network::new(3, false) else { return };
    for host in [1, 3] {
        let job = counting(&network, "--hosts h1,h2,h3", false);
        network.vanish(host);
        assert_lost(&network, job, &[&format!(" on h{host}) was lost with its host")]);
        network.plug(host, true);
    }
}

#[test]
fn a_way_that_is_cut_for_two_seconds_while_nodes_meet_costs_nothing_but_time() {
    let Some(network) = Network::new(2, false) else { return };
    for (from, to) in [(1, 2), (2, 1)] {
        network.lose(from, to, true);
        let job = start(&mut network.nodes("--hosts h1:2,h2:2 --timeout 60"));
        // Not a wait for something: how long the way is away.
        std::thread::sleep(Duration::from_millis(2_500));
        network.lose(from, to, false);
        let ended = job.wait();
        has_counted(&ended, 4);
        assert_eq!(ended.own_lines(), [""; 0], "{ended:?}");
    }
}

/// What a node has started is not its agent's child before the node is dead, and that takes a while with much memory. On hosts
/// with processes of their own no other watchdog sees it.
#[test]
fn what_a_node_that_dies_slowly_has_started_does_not_stay() {
    if !support::does("python3 --version") {
        return;
    }
    let of_its_own = |_| Quirk {
        before: "unshare --pid --fork --kill-child --mount-proc".into(),
        ..Quirk::default()
    };
    let Some(network) = Network::with(1, false, of_its_own) else { return };
    let much = "import mmap, time; much = mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); \
                much.madvise(mmap.MADV_NOHUGEPAGE); \
                all(much.__setitem__(at, 1) is None for at in range(0, 1 << 30, 4096)); \
                print('up', flush=True); time.sleep(100)";
    let program = format!("setsid sleep 100 & exec python3 -c \"{much}\"");
    for _ in 0..3 {
        // The launcher's host, too: all its processes are killed with the first of them.
        let inner = network.job("--hosts h1");
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(inner.get_program()).args(inner.get_args());
        let mut job = start(command.args(["bash", "-c", &program]));
        job.lines(1);
        job.signal(Signal::KILL);
        network.assert_empty(SOON);
        job.wait();
    }
}

#[test]
fn a_slow_host_makes_a_slow_job() {
    let Some(network) = Network::new(2, false) else { return };
    let job = counting(&network, "--hosts h1,h2", false);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // What the job has there runs a tenth of the time.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let all = network.processes(2);
                for (signal, length) in [(Signal::STOP, 90), (Signal::CONT, 0)] {
                    for &pid in &all {
                        let _ = kill_process(pid, signal);
                    }
                    std::thread::sleep(Duration::from_millis(length));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let ended = job.wait();
        over.store(true, Ordering::Relaxed);
        has_counted(&ended, 2);
    });
}

#[test]
fn clocks_that_differ_do_no_harm() {
    // The boot of host 1 was a day before that of host 2, whose date is three weeks behind.
    let place = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("clocks");
    std::fs::create_dir_all(&place).unwrap();
    let source = r"
        #define _GNU_SOURCE
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        int clock_gettime(clockid_t id, struct timespec *at) {
            int done = syscall(SYS_clock_gettime, id, at);
            if (id == CLOCK_REALTIME) at->tv_sec -= 21 * 86400;
            return done;
        }";
    std::fs::write(place.join("clock.c"), source).unwrap();
    let cc = ["-shared", "-fPIC", "-o", "clock.so", "clock.c"];
    assert!(Command::new("cc").current_dir(&place).args(cc).status().unwrap().success());
    let clock = place.join("clock.so");
    let quirk = |host| match host {
        1 => Quirk {
            before: "unshare --time --fork --kill-child --monotonic 86400 --boottime 86400".into(),
            ..Quirk::default()
        },
        _ => Quirk { environment: format!("LD_PRELOAD={}", clock.display()), ..Quirk::default() },
    };
    let Some(network) = Network::with(2, false, quirk) else { return };
    let uptime = |host: u32| {
        let mut job = network.job(&format!("--hosts h{host}"));
        let ended = run(job.args(["sh", "-c", "cut -d. -f1 /proc/uptime; date +%s"]));
        let numbers: Vec<u64> = ended.out.lines().map(|line| line.parse().unwrap()).collect();
        (numbers[0], numbers[1])
    };
    let ((one, now), (other, before)) = (uptime(1), uptime(2));
    assert!(one > other + 86_000 && now > before + 20 * 86_400, "the clocks do differ");

    has_counted(&run(&mut network.nodes("--hosts h1:2,h2:2 --timeout 60")), 4);
    // Who failed first is told by times of both hosts.
    for rank in 0..2 {
        let script = format!("[ $MULTIGRAIN_RANK = {rank} ] && exit 7; exec sleep 100");
        let ended = run(network.job("--hosts h1,h2").args(["bash", "-c", &script]));
        assert_eq!(ended.code, Some(7), "{ended:?}");
        assert!(ended.line().starts_with(&format!("multigrain: node {rank} ")), "{ended:?}");
    }
    let job = counting(&network, "--hosts h1,h2", false);
    let victim = network.processes(2).into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap();
        String::from_utf8_lossy(&line).contains("hosts_networks")
    });
    kill_process(victim.unwrap(), Signal::KILL).unwrap();
    let ended = job.wait();
    assert_eq!(ended.code, Some(137), "{ended:?}");
    assert!(ended.line().contains(" on h2) was killed by signal 9"), "{ended:?}");

    // The doctor tells of the date.
    let ended = run(&mut network.command("doctor", "--hosts h1,h2"));
    assert!(ended.out.contains("limits:   h2: clock: 1814"), "{ended:?}");
}

#[test]
fn eight_hosts_with_four_nodes_each_make_a_job_over_version_4_and_6() {
    for six_only in [false, true] {
        let Some(network) = Network::new(8, six_only) else { return };
        let hosts: Vec<String> = (1..=8).map(|host| format!("h{host}:4")).collect();
        let ended = run(&mut network.nodes(&format!("--hosts {} --timeout 100", hosts.join(","))));
        has_counted(&ended, 32);
        network.assert_empty(SOON);
    }
}

#[test]
fn a_launcher_that_is_stopped_for_long_goes_on_with_its_job() {
    let Some(network) = Network::new(2, false) else { return };
    let job = counting(&network, "--hosts h1,h2", false);
    job.signal(Signal::STOP);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", job.pid())).unwrap();
    wait_until("the launcher is stopped", || state().rsplit_once(") ").unwrap().1.starts_with('T'));
    // Not a wait for something: longer than a silent launcher is borne.
    std::thread::sleep(Duration::from_secs(5));
    job.signal(Signal::CONT);
    has_counted(&job.wait(), 2);
    // Stopped, it may be killed, and nothing stays.
    let job = counting(&network, "--hosts h1,h2", false);
    job.signal(Signal::STOP);
    job.signal(Signal::KILL);
    network.assert_empty(SOON);
    job.wait();
}

#[test]
fn an_agent_that_is_stopped_is_lost_with_its_host_and_leaves_nothing_there() {
    let Some(network) = Network::new(2, false) else { return };
    let job = counting(&network, "--hosts h1,h2", false);
    let agent = network.processes(2).into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap();
        String::from_utf8_lossy(&line).contains("multigrain\0agent")
    });
    kill_process(agent.unwrap(), Signal::STOP).unwrap();
    assert_lost(&network, job, &[" on h2) was lost with its host: no word from its agent for 3 s"]);
}

#[test]
fn nodes_listen_at_the_ports_that_a_firewall_lets_through() {
    let Some(network) = Network::new(2, false) else { return };
    let mut job = network.job("--hosts h1:2,h2:2 --ports 30000-30001");
    let ended = run(job.args(["sh", "-c", "echo $MULTIGRAIN_PEERS"]));
    for address in ["10.77.0.2:30000", "10.77.0.2:30001", "10.77.0.3:30000", "10.77.0.3:30001"] {
        assert_eq!(ended.out.matches(&format!("tcp:{address}")).count(), 2, "{ended:?}");
    }
    has_counted(&run(&mut network.nodes("--hosts h1:2,h2:2 --ports 30000-30001")), 4);
    let ended = run(&mut network.nodes("--hosts h1:2,h2:3 --ports 30000-30001"));
    assert_eq!(ended.code, Some(125), "{ended:?}");
    let line = "host h2: the listening socket of node 4 at 10.77.0.3: no port of 30000-30001 is free \
                at 10.77.0.3: give a wider range";
    assert_eq!(ended.line(), format!("multigrain: {line}"));
    let ended = run(&mut network.command("doctor", "--hosts h1:2,h2:3 --ports 30000-30001"));
    let line = "prevents: h2: ports: 2 of 30000-30001 are free; 3 nodes here need one each; ";
    assert!(ended.code == Some(78) && ended.out.contains(line), "{ended:?}");
}

#[test]
fn the_doctor_names_the_host_that_cannot_be_reached() {
    let Some(network) = Network::new(2, false) else { return };
    let ended = run(&mut network.command("doctor", "--hosts h1,h2 -v"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in ["fine:     h1: meeting at: 10.77.0.2", "fine:     h2: meeting at: 10.77.0.3"] {
        assert!(ended.out.contains(line), "{ended:?}");
    }
    network.plug(2, false);
    let ended = run(&mut network.command("doctor", "--hosts h1,h2"));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.out.contains("prevents: h2: reached: "), "{ended:?}");
    assert!(!ended.out.contains("prevents: h1"), "{ended:?}");
}

/// The findings of the doctor about links between hosts.
fn links(network: &Network, options: &str) -> (Option<i32>, Vec<String>) {
    let ended = run(&mut network.command("doctor", options));
    let lines = ended.out.lines().filter(|line| line.contains(": links: "));
    (ended.code, lines.map(str::to_owned).collect())
}

#[test]
fn a_firewall_between_hosts_is_found_by_the_doctor_and_named_by_a_job() {
    let Some(network) = Network::new(2, false) else { return };
    let options = "--hosts h1:2,h2:2 --ports 31000-31010";
    assert_eq!(links(&network, options), (Some(0), Vec::new()));
    network.drop_to_ports(2, 1, "31000-31010", true);
    let (code, lines) = links(&network, options);
    assert_eq!(code, Some(78), "{lines:?}");
    let line = "prevents: h2: links: cannot reach h1 at tcp:10.77.0.2:31000: no answer in 2 s; nodes there cannot \
                join; let --ports (31000-31010) through where a firewall drops them, or name another network by --interface";
    assert_eq!(lines, [line]);
    let ended = run(&mut network.nodes(options));
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.took < Duration::from_secs(7), "{ended:?}");
    let line = ended.line();
    assert!(line.contains(": cannot connect to node 0 at tcp:10.77.0.2:310"), "{line}");
    assert!(line.contains("; a firewall may drop that: let --ports through"), "{line}");
    network.drop_to_ports(2, 1, "31000-31010", false);
    // What is cut for good before nodes meet is no reason to wait for boot's time either.
    network.lose(2, 1, true);
    let ended = run(&mut network.nodes(options));
    assert!(ended.line().contains(": cannot connect to node 0 at tcp:10.77.0.2:310"), "{ended:?}");
    assert!(ended.code == Some(75) && ended.took < Duration::from_secs(7), "{ended:?}");
    network.lose(2, 1, false);
    // In a small job higher ranks connect to lower ones, and not the other way round.
    network.drop_to_ports(1, 2, "31000-31010", true);
    let (code, lines) = links(&network, options);
    assert!(code == Some(0) && lines.len() == 1, "{lines:?}");
    assert!(lines[0].starts_with("limits:   h1: links: cannot reach h2 at tcp:10.77.0.3:31000: "));
    has_counted(&run(&mut network.nodes(options)), 4);
    let (code, lines) = links(&network, "--hosts h1:5,h2:5 --ports 31000-31010");
    assert!(code == Some(78) && lines[0].starts_with("prevents: h1: links: "), "{lines:?}");
}

#[test]
fn networks_that_do_not_lead_from_host_to_host_are_found_or_refused() {
    let Some(network) = Network::new(2, false) else { return };
    network.isolate(1, "inner0", "172.30.1.1/24");
    network.isolate(2, "inner0", "172.30.2.1/24");
    network.isolate(1, "same0", "172.31.0.1/24");
    network.isolate(2, "same0", "172.31.0.1/24");
    let (code, lines) = links(&network, "--hosts h1,h2 --interface inner0");
    assert!(code == Some(78) && lines.len() == 2, "{lines:?}");
    let start = "prevents: h2: links: cannot reach h1 at tcp:172.30.1.1:";
    assert!(lines[1].starts_with(start) && lines[1].contains("by --interface"), "{lines:?}");
    let ended = run(&mut network.nodes("--hosts h1,h2 --interface inner0"));
    assert!(ended.code == Some(75) && ended.took < Duration::from_secs(7), "{ended:?}");
    assert!(ended.line().contains("; no way leads there: name another --interface"), "{ended:?}");
    for (interface, host, why) in [
        ("lo", "h1", "127.0.0.1 leads to no other host; name an interface or a network that does"),
        (
            "same0",
            "h2",
            "its address 172.31.0.1 is that of another host, too; name an interface or a network where each has one of its own",
        ),
    ] {
        let options = format!("--hosts h1,h2 --interface {interface}");
        let ended = run(&mut network.command("doctor", &options));
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let start = format!("prevents: {host}: meeting at: {}; ", why.split_once("; ").unwrap().0);
        assert!(ended.out.contains(&start), "{ended:?}");
        let ended = run(&mut network.nodes(&options));
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert_eq!(ended.line(), format!("multigrain: host {host}: --interface: {why}"));
    }
}
