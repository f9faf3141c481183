//! Jobs over hosts with a real sshd in each: network namespaces on a bridge, made and removed by each test. They
//! need root, `ip` and sshd; where one is missing the tests say so and try nothing.
//!
//! This test binary is also the program of a job, as in `hosts.rs`.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use multigrain::{Job, Mutex, Policy, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{Ended, assert_gone_within, run, start, unique_time, wait_until};

/// Longer than a host may go unheard, with what it takes to end a job.
const SOON: Duration = Duration::from_secs(5);
const SSHD: &str = "/usr/sbin/sshd";
/// Hosts with an sshd; the launcher's is one more.
const HOSTS: u32 = 2;

/// A network: namespaces P0 (of the launcher), P1, P2, and a bridge in Psw.
struct Network {
    prefix: String,
    directory: PathBuf,
    daemons: Vec<Child>,
}

/// Whether a command does what it should.
fn does(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let quiet =
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn must(command: &str) {
    assert!(does(command), "{command}");
}

impl Network {
    /// None, and a line that says why, where there can be none.
    fn new(six_only: bool) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("mg{}x{number}", std::process::id());
        let skip = |why: &str| {
            eprintln!("not tried: {why}");
            None
        };
        if !Path::new(SSHD).exists() || !does("ssh -V") {
            return skip("there is no sshd or no ssh (install openssh-server)");
        }
        if !does(&format!("ip netns add {prefix}sw")) {
            return skip("no network namespaces may be made (root, and iproute2)");
        }
        let directory = std::env::temp_dir().join(format!("{prefix}-ssh"));
        let mut network = Self { prefix, directory, daemons: Vec::new() };
        network.lay(six_only);
        network.serve(six_only);
        Some(network)
    }

    fn lay(&self, six_only: bool) {
        let prefix = &self.prefix;
        must(&format!("ip -n {prefix}sw link add br0 type bridge"));
        must(&format!("ip -n {prefix}sw link set br0 up"));
        for host in 0..=HOSTS {
            let (ns, last) = (format!("{prefix}{host}"), host + 1);
            must(&format!("ip netns add {ns}"));
            must(&format!(
                "ip -n {ns} link add eth0 type veth peer name port{host} netns {prefix}sw"
            ));
            must(&format!("ip -n {prefix}sw link set port{host} master br0 up"));
            must(&format!("ip -n {ns} link set lo up"));
            must(&format!("ip -n {ns} link set eth0 up"));
            if !six_only {
                must(&format!("ip -n {ns} addr add 10.77.0.{last}/24 dev eth0"));
            }
            must(&format!("ip -n {ns} addr add fd77::{last}/64 dev eth0 nodad"));
        }
    }

    /// A key for the user, one for the hosts, and a daemon in each.
    fn serve(&mut self, six_only: bool) {
        let directory = self.directory.clone();
        let place = directory.display();
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
        for key in ["user", "host"] {
            let path = directory.join(key);
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "throw-away", "-f"]).arg(path);
            assert!(keygen.status().unwrap().success());
        }
        let daemon = format!(
            "Port 2222\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nUsePAM no\n\
             StrictModes no\nPidFile none\nUseDNS no\n"
        );
        fs::write(directory.join("sshd_config"), daemon).unwrap();
        let mut client = String::new();
        for host in 1..=HOSTS {
            let last = host + 1;
            let address =
                if six_only { format!("fd77::{last}") } else { format!("10.77.0.{last}") };
            client += &format!("Host h{host}\n HostName {address}\n");
        }
        client += &format!(
            "Host *\n User root\n Port 2222\n IdentityFile {place}/user\n IdentitiesOnly yes\n \
             IdentityAgent none\n UserKnownHostsFile {place}/known\n GlobalKnownHostsFile /dev/null\n \
             StrictHostKeyChecking accept-new\n BatchMode yes\n ConnectTimeout 5\n LogLevel ERROR\n"
        );
        fs::write(directory.join("config"), client).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        for host in 1..=HOSTS {
            let log = directory.join(format!("log{host}"));
            let mut daemon = Command::new("ip");
            daemon.args([
                "netns",
                "exec",
                &format!("{}{host}", self.prefix),
                SSHD,
                "-D",
                "-e",
                "-f",
            ]);
            daemon.arg(directory.join("sshd_config")).stdin(Stdio::null());
            daemon.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
            self.daemons.push(daemon.spawn().unwrap());
            wait_until("sshd listens", || {
                fs::read_to_string(&log).unwrap().contains("Server listening on ::")
            });
        }
    }

    /// `multigrain run` in the launcher's namespace.
    fn job(&self, options: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}0", self.prefix), "env", "--default-signal"]);
        command.args([env!("CARGO_BIN_EXE_multigrain"), "run", "--launcher-command"]);
        command.arg(format!("ssh -F {}/config", self.directory.display()));
        command.args(options.split_whitespace()).arg("--").stdin(Stdio::null());
        command
    }

    /// A job of nodes that share memory.
    fn counting(&self, options: &str) -> Command {
        let mut command = self.job(options);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "node", "--ignored", "--nocapture", "--test-threads", "1"]);
        command
    }

    /// Processes of a host but for its sshd.
    fn processes(&self, host: u32) -> Vec<Pid> {
        let name = format!("{}{host}", self.prefix);
        let listed = Command::new("ip").args(["netns", "pids", &name]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let pids = listed.lines().filter_map(|line| line.trim().parse().ok());
        let daemon = |pid: &i32| self.daemons.iter().any(|child| child.id() == pid.unsigned_abs());
        pids.filter(|pid| !daemon(pid)).filter_map(Pid::from_raw).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in 0..=HOSTS {
            for pid in self.processes(host) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for name in (0..=HOSTS).map(|host| host.to_string()).chain(["sw".to_owned()]) {
            does(&format!("ip netns del {}{name}", self.prefix));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn has_counted(ended: &Ended, nodes: usize) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = format!("the total is {}", nodes * 100);
    assert_eq!(ended.out.matches(&line).count(), nodes, "{ended:?}");
}

#[test]
fn nodes_share_memory_over_hosts_that_ssh_reaches() {
    let Some(network) = Network::new(false) else { return };
    has_counted(&run(&mut network.counting("--hosts h1:2,h2:2 --timeout 60")), 4);
    let peers = run(network.job("--hosts h1,h2").args(["sh", "-c", "echo $MULTIGRAIN_PEERS"]));
    assert_eq!(peers.out.matches("tcp:10.77.0.2:").count(), 2, "{peers:?}");
    assert_eq!(peers.out.matches("tcp:10.77.0.3:").count(), 2, "{peers:?}");
}

#[test]
fn hosts_that_know_only_version_6_are_hosts_too() {
    let Some(network) = Network::new(true) else { return };
    has_counted(&run(&mut network.counting("--hosts h1:2,h2 --timeout 60")), 3);
}

#[test]
fn a_cut_cable_ends_the_job_on_both_sides() {
    let Some(network) = Network::new(false) else { return };
    let time = unique_time();
    let sleep = format!("sleep {time} & (setsid sleep {time} &); echo pid $$; sleep {time}");
    let mut job = start(network.job("--hosts h1,h2").args(["bash", "-c", &sleep]));
    job.lines(2);
    must(&format!("ip -n {}sw link set port2 down", network.prefix));
    assert_gone_within(SOON, &format!("sleep {time}"));
    let ended = job.wait();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    let line = "on h2) was lost with its host: no word from its agent for 3 s; the job ends";
    assert!(ended.line().ends_with(line), "{ended:?}");
}

#[test]
fn a_host_that_vanishes_ends_the_job() {
    let Some(network) = Network::new(false) else { return };
    let time = unique_time();
    let sleep = format!("sleep {time} & (setsid sleep {time} &); echo pid $$; sleep {time}");
    let mut job = start(network.job("--hosts h1,h2").args(["bash", "-c", &sleep]));
    job.lines(2);
    for pid in network.processes(2) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let ended = job.wait();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.err.contains(" on h2) was lost with its host"), "{ended:?}");
    assert_gone_within(SOON, &time);
}

/// The program of the jobs; does nothing without the launcher.
#[test]
#[ignore = "a node of the job"]
fn node() {
    if std::env::var("MULTIGRAIN_RANK").is_ok() {
        assert!(multigrain::run(count) == ExitCode::SUCCESS);
    }
}

fn count(job: &Job) -> Result<()> {
    let total = job.share("total", || Mutex::numbered(job, 7, 0u64, Policy::new()))?;
    for _ in 0..100 {
        *total.lock()? += 1;
    }
    job.barrier(1)?;
    println!("the total is {}", *total.lock()?);
    job.barrier(1)
}
