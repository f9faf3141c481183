//! Jobs in allocations of a real Slurm: three virtual hosts on this machine, with daemons, keys and ports of their
//! own, made and removed by each test. They need root and Slurm's daemons; where one is missing the tests say so
//! and try nothing.
//!
//! This test binary is also the program of a job, as in `hosts.rs`.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::{
    Ended, alive, assert_gone_within, count, not_tried, run, start, unique_time, wait_until,
};

/// Longer than a host may go unheard, with what it takes to end a job.
const SOON: Duration = Duration::from_secs(8);
/// The daemons, and what users call; with the Debian packages they are of.
const NEEDED: [(&str, &str); 5] = [
    ("munged", "munge"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("srun", "slurm-client"),
    ("salloc", "slurm-client"),
];
const HOSTS: [&str; 3] = ["n1", "n2", "n3"];

/// The daemons of a cluster, in a directory of their own.
struct Cluster {
    directory: PathBuf,
}

fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn is_there(program: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(program).exists())
}

/// A port for a daemon that binds it later: below those that the kernel gives to connections (32,768 and more), of
/// which another test may have been given any by then.
fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (std::process::id().wrapping_mul(40).wrapping_add(tried)) % 12_000;
        let port = u16::try_from(port).unwrap();
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

impl Cluster {
    /// None, and a line that says why, where there can be none.
    fn new(name: &str) -> Option<Self> {
        let skip = |why: &str| {
            not_tried(why);
            None
        };
        if let Some((program, package)) = NEEDED.into_iter().find(|(program, _)| !is_there(program))
        {
            return skip(&format!("there is no {program} (install {package})"));
        }
        if !rustix::process::getuid().is_root() {
            return skip("Slurm's daemons want root");
        }
        let directory = std::env::temp_dir().join(format!("mg{}-{name}", std::process::id()));
        let cluster = Self { directory };
        cluster.configure();
        cluster.start();
        let deadline = Instant::now() + Duration::from_secs(60);
        while cluster.idle() != HOSTS.len().to_string() {
            if Instant::now() > deadline {
                let said = cluster.complaints();
                return skip(&format!("Slurm's daemons do not come up here: {said}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(cluster)
    }

    fn configure(&self) {
        let place = self.directory.display();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        let mut text = format!(
            "ClusterName=mg\nSlurmctldHost={host}(127.0.0.1)\nAuthType=auth/munge\n\
             CryptoType=crypto/munge\nAuthInfo=socket={place}/munge.socket\nSlurmUser=root\n\
             SlurmdUser=root\nSlurmctldPort={}\nMpiDefault=none\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\nReturnToService=2\n\
             SlurmctldPidFile={place}/ctld.pid\nSlurmdPidFile={place}/%n.pid\n\
             StateSaveLocation={place}/state\nSlurmdSpoolDir={place}/spool-%n\n\
             SlurmctldLogFile={place}/ctld.log\nSlurmdLogFile={place}/%n.log\n\
             SlurmdParameters=config_overrides\nInactiveLimit=0\nKillWait=2\nWaitTime=0\n\
             SwitchType=switch/none\nTmpFS={place}/tmp-%n\n",
            free_port()
        );
        for name in HOSTS {
            let at = format!("NodeHostname={host} NodeAddr=127.0.0.1 Port={}", free_port());
            writeln!(text, "NodeName={name} {at} CPUs=4 State=UNKNOWN").unwrap();
            fs::create_dir_all(self.directory.join(format!("spool-{name}"))).unwrap();
            fs::create_dir_all(self.directory.join(format!("tmp-{name}"))).unwrap();
        }
        writeln!(text, "PartitionName=all Nodes={} Default=YES State=UP", HOSTS.join(",")).unwrap();
        fs::create_dir_all(self.directory.join("state")).unwrap();
        fs::set_permissions(&self.directory, PermissionsExt::from_mode(0o755)).unwrap();
        fs::write(self.directory.join("slurm.conf"), text).unwrap();
        fs::write(self.directory.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let key = self.directory.join("munge.key");
        // Of throw-away daemons: that it differs between clusters is enough.
        fs::write(&key, format!("{:0>64}", unique_time())).unwrap();
        fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    }

    fn start(&self) {
        let place = self.directory.display();
        let mut munged = self.command("munged");
        munged.arg("--force").args(
            ["key-file=munge.key", "socket=munge.socket", "pid-file=munge.pid"]
                .into_iter()
                .chain(["log-file=munge.log", "seed-file=munge.seed"])
                .map(|option| option.replacen('=', &format!("={place}/"), 1))
                .map(|option| format!("--{option}")),
        );
        let _ = munged.status();
        let _ = self.command("slurmctld").status();
        for name in HOSTS {
            let _ = self.command("slurmd").args(["-N", name]).status();
        }
    }

    /// A command that knows this cluster.
    fn command(&self, program: &str) -> Command {
        let mut command = quiet(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin"));
        command.env("SLURM_CONF", self.directory.join("slurm.conf"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SLURM_")) {
            if name != "SLURM_CONF" {
                command.env_remove(name);
            }
        }
        command
    }

    /// What its daemons have logged as errors.
    fn complaints(&self) -> String {
        let logs =
            HOSTS.map(|name| format!("{name}.log")).into_iter().chain(["ctld.log".to_owned()]);
        let complaints = logs.flat_map(|log| {
            let text = fs::read_to_string(self.directory.join(&log)).unwrap_or_default();
            let lines = text.lines().filter(|line| line.contains("error"));
            lines.map(|line| format!("{log}: {line}")).collect::<Vec<_>>()
        });
        complaints.collect::<Vec<_>>().join("; ")
    }

    /// How many hosts wait for jobs.
    fn idle(&self) -> String {
        let mut command = self.command("sinfo");
        let output = command.args(["-h", "-t", "idle", "-o", "%D"]).stdout(Stdio::piped()).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
    }

    /// `srun` of this test binary as the program.
    fn srun(&self, options: &str) -> Command {
        let mut command = self.command("timeout");
        command.args(["60", "srun"]).args(options.split_whitespace());
        command.args(program()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `multigrain run` in an allocation.
    fn job(&self, allocation: &str, options: &str) -> Command {
        let mut command = self.command("env");
        command.args(["--default-signal", "salloc", "--quiet"]);
        command.args(allocation.split_whitespace());
        command.args([env!("CARGO_BIN_EXE_multigrain"), "run"]).args(options.split_whitespace());
        command.arg("--").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.command("scancel").args(["-u", "root"]).status();
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.idle() != HOSTS.len().to_string() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        let files = HOSTS.map(|name| format!("{name}.pid")).into_iter();
        for file in files.chain(["ctld.pid", "munge.pid"].map(str::to_owned)) {
            let text = fs::read_to_string(self.directory.join(file)).unwrap_or_default();
            let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else { continue };
            let _ = kill_process(pid, Signal::TERM);
            // Each writes into the directory as it ends.
            let deadline = Instant::now() + Duration::from_secs(10);
            let gone = || rustix::process::test_kill_process(pid).is_err();
            while !gone() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// This test binary, as the program of a job.
fn program() -> Vec<String> {
    let exe = std::env::current_exe().unwrap().display().to_string();
    [exe.as_str(), "--ignored", "--exact", "node", "--nocapture"].map(str::to_owned).to_vec()
}

fn has_counted(ended: &Ended, nodes: usize) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = format!("the total is {}", nodes * 100);
    assert_eq!(ended.out.matches(&line).count(), nodes, "{ended:?}");
}

#[test]
fn srun_starts_a_job_without_the_launcher() {
    let Some(cluster) = Cluster::new("srun") else { return };
    has_counted(&run(&mut cluster.srun("--mpi=pmi2 -N 3 -n 6")), 6);
    let plugin = Path::new("/usr/lib/x86_64-linux-gnu/libpmix.so").exists();
    if plugin {
        has_counted(&run(&mut cluster.srun("--mpi=pmix -N 2 -n 4")), 4);
    } else {
        not_tried("srun --mpi=pmix (install libpmix-dev)");
    }
    let alone = run(&mut cluster.srun("--mpi=none -n 2"));
    assert_ne!(alone.code, Some(0), "{alone:?}");
    let line = "srun has started 2 tasks that cannot find each other: use srun --mpi=pmi2";
    assert!(format!("{alone:?}").contains(line), "{alone:?}");
}

#[test]
fn in_an_allocation_the_launcher_needs_no_list_of_hosts() {
    let Some(cluster) = Cluster::new("salloc") else { return };
    has_counted(&run(cluster.job("-N 3 -n 6", "--timeout 60").args(program())), 6);
    has_counted(&run(cluster.job("-N 2 -n 4", "-n 3 --transport tcp").args(program())), 3);

    let where_each = ["sh", "-c", "echo $SLURMD_NODENAME; exit $MULTIGRAIN_RANK"];
    let ended = run(cluster.job("-N 3 -n 3", "").args(where_each));
    for (rank, host) in HOSTS.iter().enumerate() {
        assert!(ended.out.contains(&format!("[{rank}] {host}")), "{ended:?}");
    }
    assert!(ended.line().contains(" on n") && matches!(ended.code, Some(1 | 2)), "{ended:?}");

    let many = run(cluster.job("-N 2 -n 4", "-n 5").arg("true"));
    let line = "whose tasks are slots: 5 nodes need 5 slots, and the hosts have 4; allocate more";
    assert!(many.line().contains(line) && many.code == Some(2), "{many:?}");
}

#[test]
fn nothing_is_left_of_a_job_whose_launcher_is_killed_or_whose_allocation_ends() {
    let Some(cluster) = Cluster::new("kill") else { return };
    for is_cancelled in [false, true] {
        let time = unique_time();
        let sleep = format!("sleep {time} & echo pid $$; sleep {time}");
        let mut job = start(cluster.job("-N 2 -n 2", "").args(["bash", "-c", &sleep]));
        job.lines(2);
        wait_until("both nodes sleep", || alive(&format!("sleep {time}")).len() >= 4);
        if is_cancelled {
            assert!(cluster.command("scancel").args(["-u", "root"]).status().unwrap().success());
        } else {
            let launcher = children(job.pid());
            let launcher = launcher.first().copied().expect("salloc has started the launcher");
            kill_process(launcher, Signal::KILL).unwrap();
        }
        assert_gone_within(SOON, &format!("sleep {time}"));
        let ended = job.wait();
        if is_cancelled {
            // What Slurm itself says of each step comes before, or behind.
            let lost = |line: &&str| line.contains(" was lost with its host: ");
            let why: Vec<_> = ended.own_lines().into_iter().filter(lost).collect();
            let one = matches!(why[..], [line] if line.contains("CANCELLED"));
            assert!(one && ended.code == Some(75), "{ended:?}");
        }
    }
}

/// The agents of a cluster's hosts: processes with its configuration in their environment.
fn agents(cluster: &Cluster) -> Vec<String> {
    let mark = format!("SLURM_CONF={}", cluster.directory.join("slurm.conf").display());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_agent = |process: &PathBuf| {
        let text = |name| fs::read(process.join(name)).unwrap_or_default();
        text("cmdline").ends_with(b"multigrain\0agent\0")
            && text("environ").split(|&byte| byte == 0).any(|of| of == mark.as_bytes())
    };
    processes.filter(is_agent).map(|process| process.display().to_string()).collect()
}

/// The launcher ends while `srun` still starts an agent: killed then, it left one for 10 s that nobody spoke to.
#[test]
fn no_agent_outlives_a_launcher_that_ends_during_the_start() {
    let Some(cluster) = Cluster::new("start") else { return };
    let launcher = env!("CARGO_BIN_EXE_multigrain");
    let fails = format!("{launcher} run ./missing; echo $?; sleep 20");
    let is_killed =
        format!("{launcher} run true & sleep 0.1; kill -9 $!; wait $!; echo $?; sleep 20");
    for script in [fails, is_killed] {
        let mut job = cluster.command("env");
        job.args(["--default-signal", "salloc", "--quiet", "-N", "2", "-n", "4", "bash", "-c"]);
        let mut job = start(job.arg(script));
        let code = job.lines(1);
        let ended = Instant::now();
        let mut seen = ended;
        while seen.elapsed() < Duration::from_secs(2) {
            if !agents(&cluster).is_empty() {
                seen = Instant::now();
            }
            let took = seen - ended;
            assert!(took < Duration::from_secs(5), "{:?} after {code:?}", agents(&cluster));
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster.command("scancel").args(["-u", "root"]).status().unwrap();
        let ended = job.wait();
        assert!(matches!(&*code[0], "127" | "137" | "0"), "{code:?} {ended:?}");
    }
}

/// Child processes.
fn children(of: u32) -> Vec<Pid> {
    let path = format!("/proc/{of}/task/{of}/children");
    let text = fs::read_to_string(path).unwrap();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// The program of the jobs; does nothing without a launcher or process manager.
#[test]
#[ignore = "a node of the job"]
fn node() {
    let names = ["MULTIGRAIN_RANK", "PMI_FD", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"];
    if names.into_iter().any(|name| std::env::var(name).is_ok()) {
        assert!(multigrain::run(count) == ExitCode::SUCCESS);
    }
}
