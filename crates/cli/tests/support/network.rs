//! Hosts for tests: network namespaces on a bridge with a real sshd in each, made and removed by the test. They need
//! root, `ip` and sshd; where one is missing the tests say so and try nothing.

use super::{Running, does, must, not_tried, start, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SSHD: &str = "/usr/sbin/sshd";
/// A neighbour that nobody is: what is sent there is lost, and nobody learns of it.
const NOBODY: &str = "02:00:00:00:00:99";

/// A network: namespaces P0 (of the launcher), P1, P2 and so on, and a bridge in Psw.
pub(crate) struct Network {
    prefix: String,
    directory: PathBuf,
    hosts: u32,
    six_only: bool,
    daemons: Vec<Child>,
}

/// What a host has of its own.
#[derive(Debug, Default, Clone)]
pub(crate) struct Quirk {
    /// What its sshd is started by, in words.
    pub(crate) before: String,
    /// What its sessions have in their environment: assignments.
    pub(crate) environment: String,
    /// How long its sshd takes to know a user's key.
    pub(crate) login_seconds: u32,
}

impl Network {
    /// None, and a line that says why, where there can be none.
    pub(crate) fn new(hosts: u32, six_only: bool) -> Option<Self> {
        Self::with(hosts, six_only, |_| Quirk::default())
    }

    /// The same of hosts, by number, that have something of their own.
    pub(crate) fn with(hosts: u32, six_only: bool, quirk: impl Fn(u32) -> Quirk) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("mg{}x{number}", std::process::id());
        let skip = |why: &str| {
            not_tried(why);
            None
        };
        if !Path::new(SSHD).exists() || !does("ssh -V") {
            return skip("there is no sshd or no ssh (install openssh-server)");
        }
        if !does(&format!("ip netns add {prefix}sw")) {
            return skip("no network namespaces may be made (root, and iproute2)");
        }
        let directory = std::env::temp_dir().join(format!("{prefix}-ssh"));
        let mut network = Self { prefix, directory, hosts, six_only, daemons: Vec::new() };
        network.lay();
        network.serve(quirk);
        Some(network)
    }

    fn lay(&self) {
        let prefix = &self.prefix;
        must(&format!("ip -n {prefix}sw link add br0 type bridge"));
        must(&format!("ip -n {prefix}sw link set br0 up"));
        for host in 0..=self.hosts {
            let (ns, last) = (format!("{prefix}{host}"), host + 1);
            must(&format!("ip netns add {ns}"));
            must(&format!(
                "ip -n {ns} link add eth0 type veth peer name port{host} netns {prefix}sw"
            ));
            must(&format!("ip -n {prefix}sw link set port{host} master br0 up"));
            must(&format!("ip -n {ns} link set lo up"));
            must(&format!("ip -n {ns} link set eth0 up"));
            if !self.six_only {
                must(&format!("ip -n {ns} addr add 10.77.0.{last}/24 dev eth0"));
            }
            must(&format!("ip -n {ns} addr add fd77::{last}/64 dev eth0 nodad"));
        }
    }

    /// The address of a host.
    pub(crate) fn address(&self, host: u32) -> String {
        let last = host + 1;
        if self.six_only { format!("fd77::{last}") } else { format!("10.77.0.{last}") }
    }

    /// A key for the user, one for the hosts, and a daemon in each.
    fn serve(&mut self, quirk: impl Fn(u32) -> Quirk) {
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
        let mut client = String::new();
        for host in 1..=self.hosts {
            client += &format!("Host h{host}\n HostName {}\n", self.address(host));
        }
        client += &format!(
            "Host *\n User root\n Port 2222\n IdentityFile {place}/user\n IdentitiesOnly yes\n \
             IdentityAgent none\n UserKnownHostsFile {place}/known\n GlobalKnownHostsFile /dev/null\n \
             StrictHostKeyChecking accept-new\n BatchMode yes\n ConnectTimeout 5\n LogLevel ERROR\n"
        );
        fs::write(directory.join("config"), client).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        for host in 1..=self.hosts {
            let Quirk { before, environment, login_seconds } = quirk(host);
            let keys = match login_seconds {
                0 => format!("AuthorizedKeysFile {place}/user.pub"),
                seconds => format!(
                    "AuthorizedKeysFile none\nAuthorizedKeysCommand /usr/bin/sh -c \"sleep {seconds}; cat {place}/user.pub\"\n\
                     AuthorizedKeysCommandUser root"
                ),
            };
            // Sessions have a home of their own: what the user's shell does as it starts is killed in the middle of it, and may
            // leave a lock behind that the next one waits for.
            let daemon = format!(
                "Port 2222\nHostKey {place}/host\n{keys}\n\
                 PermitRootLogin prohibit-password\nPasswordAuthentication no\nUsePAM no\n\
                 StrictModes no\nPidFile none\nUseDNS no\nSetEnv HOME={place} {environment}\n"
            );
            let (log, file) =
                (directory.join(format!("log{host}")), directory.join(format!("sshd{host}")));
            fs::write(&file, daemon).unwrap();
            let mut daemon = Command::new("ip");
            daemon.args(["netns", "exec", &format!("{}{host}", self.prefix)]);
            daemon.args(before.split_whitespace()).args([SSHD, "-D", "-e", "-f"]).arg(file);
            daemon.stdin(Stdio::null()).stdout(Stdio::null());
            self.daemons.push(daemon.stderr(fs::File::create(&log).unwrap()).spawn().unwrap());
            wait_until("sshd listens", || {
                fs::read_to_string(&log).unwrap().contains("Server listening on ::")
            });
        }
    }

    /// A job whose hosts are reached by the plain `ssh` of its `PATH`: this script, which finds the network's
    /// configuration in `$CONFIG`.
    pub(crate) fn job_by_ssh(&self, script: &str, options: &str) -> Command {
        let bin = self.directory.join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("ssh"), script).unwrap();
        fs::set_permissions(bin.join("ssh"), PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("PATH={}:{}", bin.display(), std::env::var("PATH").unwrap());
        let config = format!("CONFIG={}/config", self.directory.display());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}0", self.prefix), "env", "--default-signal"]);
        command.args([&path, &config, env!("CARGO_BIN_EXE_multigrain"), "run"]);
        command.args(options.split_whitespace()).arg("--").stdin(Stdio::null());
        command
    }

    /// A command in the launcher's namespace.
    pub(crate) fn command(&self, subcommand: &str, options: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}0", self.prefix), "env", "--default-signal"]);
        command.args([env!("CARGO_BIN_EXE_multigrain"), subcommand, "--launcher-command"]);
        command.arg(format!("ssh -F {}/config", self.directory.display()));
        command.args(options.split_whitespace()).stdin(Stdio::null());
        command
    }

    /// `multigrain run` in the launcher's namespace.
    pub(crate) fn job(&self, options: &str) -> Command {
        let mut command = self.command("run", options);
        command.arg("--");
        command
    }

    /// A job of nodes that are the test `node` of this test binary.
    pub(crate) fn nodes(&self, options: &str) -> Command {
        let mut command = self.job(options);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "node", "--ignored", "--nocapture", "--test-threads", "1"]);
        command
    }

    /// Processes of jobs on a host.
    pub(crate) fn processes(&self, host: u32) -> Vec<Pid> {
        let is_ssh = |pid: &Pid| {
            let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            line.unwrap_or_default().starts_with(b"sshd: ")
        };
        let all = self.all_processes(host).into_iter();
        all.filter(|pid| !is_ssh(pid)).collect()
    }

    /// With those of its sshd that serve a connection; it itself stays for the next.
    fn all_processes(&self, host: u32) -> Vec<Pid> {
        let name = format!("{}{host}", self.prefix);
        let listed = Command::new("ip").args(["netns", "pids", &name]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let pids = listed.lines().filter_map(|line| line.trim().parse::<i32>().ok());
        let is_daemon = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let listens = String::from_utf8_lossy(&line).contains("[listener]");
            listens || self.daemons.iter().any(|child| child.id() == pid.unsigned_abs())
        };
        pids.filter(|pid| !is_daemon(pid)).filter_map(Pid::from_raw).collect()
    }

    /// Sends a signal to all processes of a host.
    pub(crate) fn signal(&self, host: u32, signal: Signal) {
        for pid in self.all_processes(host) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Pulls a host's cable, or puts it in.
    pub(crate) fn plug(&self, host: u32, plugged: bool) {
        let way = if plugged { "up" } else { "down" };
        must(&format!("ip -n {}sw link set port{host} {way}", self.prefix));
    }

    /// Loses all that one host sends to another, or no more; what goes the other way arrives.
    pub(crate) fn lose(&self, from: u32, to: u32, loses: bool) {
        let (ns, address) = (format!("{}{from}", self.prefix), self.address(to));
        if loses {
            must(&format!(
                "ip -n {ns} neigh replace {address} lladdr {NOBODY} dev eth0 nud permanent"
            ));
        } else {
            must(&format!("ip -n {ns} neigh del {address} dev eth0"));
        }
    }

    /// Drops all that one host sends to these ports (`FIRST-LAST`) of another, as a firewall does, or no more.
    pub(crate) fn drop_to_ports(&self, from: u32, to: u32, ports: &str, drops: bool) {
        let (ns, address) = (format!("{}{from}", self.prefix), self.address(to));
        let rule = format!("ipproto tcp to {address} dport {ports} lookup 99");
        if drops {
            let nowhere = "10.77.0.99";
            must(&format!(
                "ip -n {ns} neigh replace {nowhere} lladdr {NOBODY} dev eth0 nud permanent"
            ));
            must(&format!(
                "ip -n {ns} route replace {address}/32 via {nowhere} dev eth0 table 99 onlink"
            ));
            must(&format!("ip -n {ns} rule add {rule}"));
        } else {
            must(&format!("ip -n {ns} rule del {rule}"));
        }
    }

    /// Gives a host a network of its own, which leads nowhere: an interface of this name with this address.
    pub(crate) fn isolate(&self, host: u32, name: &str, address: &str) {
        let ns = format!("{}{host}", self.prefix);
        must(&format!("ip -n {ns} link add {name} type bridge"));
        must(&format!("ip -n {ns} link set {name} up"));
        must(&format!("ip -n {ns} addr add {address} dev {name}"));
    }

    /// Ends all processes on all hosts.
    pub(crate) fn clear(&self) {
        (0..=self.hosts).for_each(|host| self.signal(host, Signal::KILL));
    }

    /// A host is gone at once, as if its power were cut.
    pub(crate) fn vanish(&self, host: u32) {
        self.plug(host, false);
        self.signal(host, Signal::KILL);
    }

    /// Waits until no process is left on any host, at most so long; which are then.
    pub(crate) fn left(&self, limit: Duration) -> Vec<String> {
        let deadline = Instant::now() + limit;
        loop {
            let left: Vec<Pid> = (0..=self.hosts).flat_map(|host| self.processes(host)).collect();
            if left.is_empty() || Instant::now() >= deadline {
                let name = |pid: &Pid| {
                    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
                    String::from_utf8_lossy(&line.unwrap_or_default()).replace('\0', " ")
                };
                return left.iter().map(name).collect();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until no process is left on any host.
    ///
    /// # Panics
    /// One is, after so long.
    pub(crate) fn assert_empty(&self, limit: Duration) {
        let left = self.left(limit);
        assert!(left.is_empty(), "still there: {left:?}");
    }

    /// Starts it, and waits until its nodes have said so many lines.
    pub(crate) fn started(&self, command: &mut Command, lines: usize) -> Running {
        let mut job = start(command);
        job.lines(lines);
        job
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.clear();
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for name in (0..=self.hosts).map(|host| host.to_string()).chain(["sw".to_owned()]) {
            does(&format!("ip netns del {}{name}", self.prefix));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
