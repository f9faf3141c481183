//! The long form of the tests over hosts: `make test-hosts-long`. Applications over 2 and 8 hosts with TLS on, again
//! and again; and random faults over hosts: each ends with the right answer, or within 5 s with one line and nothing
//! left on any host. In the environment: MULTIGRAIN_APPS, where the applications are; ROUNDS, FAULTS, SEED.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use support::network::Network;
use support::{Ended, Running, run, start, wait_until};

/// Within this a fault ends the job, and nothing is left.
const SOON: Duration = Duration::from_secs(5);
/// The applications, with how they are run, and with small input.
const APPS: [App; 3] = [
    ("sor", "", "--rows 403 --cols 64 --iterations 10"),
    ("water", "--consistency auto", "--molecules 48 --steps 4"),
    ("tsp", "", "--cities 13 --level 8"),
];
/// The same with input for a few seconds, so that faults find them at work.
const LONGER: [App; 3] = [
    ("sor", "", "--rows 4003 --cols 64 --iterations 10000"),
    ("water", "--consistency auto", "--molecules 160 --steps 200"),
    ("tsp", "", "--cities 19 --level 8"),
];

type App = (&'static str, &'static str, &'static str);

/// A number of the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Of xorshift: as random as moments of faults have to be, and the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.below(of.len() as u64);
        &of[usize::try_from(at).unwrap()]
    }
}

/// An application over hosts, with a node on each.
fn job(network: &Network, hosts: u32, (app, options, input): App) -> Command {
    let list: Vec<String> = (1..=hosts).map(|host| format!("h{host}")).collect();
    let mut command = network.job(&format!("--hosts {} --timeout 120 {options}", list.join(",")));
    let apps = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../build/apps");
    let apps = std::env::var_os("MULTIGRAIN_APPS").map_or(apps, PathBuf::from);
    command.arg(apps.join(format!("{app}-mg"))).args(input.split(' '));
    command
}

fn is_right(ended: &Ended) -> bool {
    ended.code == Some(0) && ended.out.contains(" check=ok ")
}

#[test]
#[ignore = "minutes: make test-hosts-long"]
fn applications_are_right_over_2_and_8_hosts_every_time() {
    let rounds = number("ROUNDS", 20);
    let Some(network) = Network::new(8, false) else { return };
    for hosts in [2, 8] {
        for app in APPS {
            let began = Instant::now();
            for round in 0..rounds {
                let ended = run(&mut job(&network, hosts, app));
                assert!(is_right(&ended), "{} over {hosts}, round {round}: {ended:?}", app.0);
            }
            let took = began.elapsed().as_secs_f64() / rounds as f64;
            println!(
                "{:6} over {hosts} hosts: {rounds} of {rounds} right, {took:.1} s each",
                app.0
            );
        }
    }
    network.assert_empty(SOON);
}

/// What happens to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillNode,
    KillAgent,
    KillSsh,
    KillLauncher,
    Vanish,
    Unplug,
    UnplugForAWhile,
    LoseOneWay,
    LoseBothWays,
    StopNode,
    StopAgent,
    StopLauncher,
}

const FAULTS: [Fault; 12] = [
    Fault::KillNode,
    Fault::KillAgent,
    Fault::KillSsh,
    Fault::KillLauncher,
    Fault::Vanish,
    Fault::Unplug,
    Fault::UnplugForAWhile,
    Fault::LoseOneWay,
    Fault::LoseBothWays,
    Fault::StopNode,
    Fault::StopAgent,
    Fault::StopLauncher,
];

/// A process of a host that has this in its command line.
fn process(network: &Network, host: u32, text: &str) -> Option<Pid> {
    network.processes(host).into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        String::from_utf8_lossy(&line.unwrap_or_default()).replace('\0', " ").contains(text)
    })
}

fn signal(pid: Option<Pid>, signal: Signal) {
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

fn a_while(random: &mut Random, most_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.below(most_ms)));
}

/// Until what a fault strikes is there, or what it cuts: links to agents, or between nodes. Before, a host is waited
/// for as long as the start may take (`--boot-timeout`), which is no fault.
fn await_start(network: &Network, fault: Fault, hosts: u32) {
    let is_linked = |host| {
        let node = process(network, host, "-mg --");
        node.is_some_and(|pid| {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
            let name = |task: std::io::Result<std::fs::DirEntry>| {
                std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
            };
            tasks.is_ok_and(|tasks| tasks.filter_map(name).any(|name| name == "mg-service\n"))
        })
    };
    let has = |what: &str| (1..=hosts).all(|host| process(network, host, what).is_some());
    match fault {
        Fault::LoseOneWay | Fault::LoseBothWays | Fault::StopAgent => {
            wait_until("all nodes are linked", || (1..=hosts).all(is_linked));
        }
        Fault::KillNode | Fault::StopNode => wait_until("all nodes are there", || has("-mg --")),
        Fault::KillAgent
        | Fault::KillSsh
        | Fault::Vanish
        | Fault::Unplug
        | Fault::UnplugForAWhile => {
            wait_until("all agents are there", || has("multigrain agent"));
        }
        Fault::KillLauncher | Fault::StopLauncher => {}
    }
}

/// Strikes. Whether it is over when this returns, so that the right answer is the only one.
fn strike(
    (network, fault): (&Network, Fault),
    job: &Running,
    (host, other): (u32, u32),
    random: &mut Random,
) -> bool {
    let agent = || process(network, host, "multigrain agent");
    let node = || process(network, host, "-mg --");
    match fault {
        Fault::KillNode => signal(node(), Signal::KILL),
        Fault::KillAgent => signal(agent(), Signal::KILL),
        Fault::KillSsh => signal(process(network, 0, &format!(" h{host} ")), Signal::KILL),
        Fault::KillLauncher => job.signal(Signal::KILL),
        Fault::Vanish => network.vanish(host),
        Fault::Unplug => network.plug(host, false),
        Fault::UnplugForAWhile => {
            network.plug(host, false);
            a_while(random, 1_000);
            network.plug(host, true);
            return true;
        }
        Fault::LoseOneWay => network.lose(host, other, true),
        Fault::LoseBothWays => {
            network.lose(host, other, true);
            network.lose(other, host, true);
        }
        Fault::StopNode => {
            let node = node();
            signal(node, Signal::STOP);
            a_while(random, 3_000);
            signal(node, Signal::CONT);
            return true;
        }
        Fault::StopAgent => signal(agent(), Signal::STOP),
        Fault::StopLauncher => {
            job.signal(Signal::STOP);
            a_while(random, 6_000);
            job.signal(Signal::CONT);
            return true;
        }
    }
    false
}

/// The network is whole again.
fn mend((network, fault): (&Network, Fault), (host, other): (u32, u32)) {
    match fault {
        Fault::Vanish | Fault::Unplug => network.plug(host, true),
        Fault::LoseOneWay => network.lose(host, other, false),
        Fault::LoseBothWays => {
            network.lose(host, other, false);
            network.lose(other, host, false);
        }
        Fault::KillNode
        | Fault::KillAgent
        | Fault::KillSsh
        | Fault::KillLauncher
        | Fault::UnplugForAWhile
        | Fault::StopNode
        | Fault::StopAgent
        | Fault::StopLauncher => {}
    }
}

#[test]
#[ignore = "minutes: make test-hosts-long"]
fn random_faults_end_with_the_right_answer_or_soon_with_one_line() {
    let (faults, seed) = (number("FAULTS", 200), number("SEED", 1));
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let Some(network) = Network::new(4, false) else { return };
    let mut tally = BTreeMap::<Fault, [usize; 2]>::new();
    let (mut slowest, mut wrong) = (Duration::ZERO, Vec::new());
    let (mut struck_well, mut came_late) = (0, 0);
    for number in 0..faults {
        let (fault, app) = (*random.one(&FAULTS), *random.one(&LONGER));
        let hosts = u32::try_from(2 + random.below(3)).unwrap();
        let host = u32::try_from(1 + random.below(hosts.into())).unwrap();
        let other = host % hosts + 1;
        let job = start(&mut job(&network, hosts, app));
        await_start(&network, fault, hosts);
        a_while(&mut random, 2_500);
        let is_over = strike((&network, fault), &job, (host, other), &mut random);
        let struck = Instant::now();
        let ended = job.wait();
        let took = struck.elapsed();
        mend((&network, fault), (host, other));
        let left = network.left(SOON.saturating_sub(struck.elapsed()));
        network.clear();
        let right = is_right(&ended);
        let lines = ended.own_lines().len();
        let killed = fault == Fault::KillLauncher && ended.code.is_none() && lines == 0;
        let told = !is_over && ended.code.is_some_and(|code| code != 0) && lines == 1;
        if !left.is_empty() || !(right || ((killed || told) && took <= SOON)) {
            let what =
                format!("{number}: {fault:?} of {} on h{host} of {hosts} after {took:?}", app.0);
            println!("WRONG {what}: {ended:?}, left: {left:?}");
            wrong.push(what);
        }
        if !right {
            slowest = slowest.max(took);
        }
        if !is_over {
            let place = if right { &mut came_late } else { &mut struck_well };
            *place += 1;
        }
        tally.entry(fault).or_default()[usize::from(!right)] += 1;
    }
    for (fault, [right, told]) in &tally {
        println!("{fault:?}: {right} right, {told} with one line");
    }
    println!("{faults} faults, seed {seed}: the slowest line after {:.1} s", slowest.as_secs_f64());
    assert!(came_late < struck_well, "{came_late} faults found no job: give longer input");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
