//! Nodes that process managers start, without `multigrain run`: a small PMI-1 server of the tests' own, MPICH's
//! mpiexec and Open MPI's mpirun where they are installed. Slurm's srun: `slurm.rs` of the command's tests.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod server;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use server::{Manners, Space, manage, serve};
use support::c::{built, compile, compiler, must_succeed, source};
use support::{TestDir, assert_gone, not_tried};

/// No job here takes longer, unless it hangs.
const SECONDS: &str = "60";

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The lines that nodes of a job say when all is well.
fn lines_of(nodes: u32) -> Vec<String> {
    (0..nodes).map(|node| format!("node {node} of {nodes}: {}", 10 * nodes)).collect()
}

fn managed() -> (TestDir, PathBuf) {
    let dir = TestDir::new();
    let program = compile(&dir, "managed");
    (dir, program)
}

#[test]
fn nodes_of_a_process_manager_find_each_other_through_it() {
    let (_dir, program) = managed();
    for (nodes, manners, transport) in [
        (4, Manners::Good, "auto"),
        (3, Manners::Terse, "unix"),
        (3, Manners::Terse, "tcp"),
        (1, Manners::Good, "auto"),
    ] {
        let ended =
            manage(&program, "well", nodes, manners, &[("MULTIGRAIN_TRANSPORT", transport)]);
        for (output, line) in ended.iter().zip(lines_of(nodes)) {
            assert!(output.status.success(), "{manners:?} {transport}: {output:?}");
            assert_eq!(text(&output.stdout), format!("{line}\n"));
            assert_eq!(text(&output.stderr), "", "{transport}");
        }
    }
}

const OVER_TLS: [(&str, &str); 2] = [("MULTIGRAIN_TRANSPORT", "tcp"), ("MULTIGRAIN_ENCRYPT", "on")];

#[test]
fn nodes_prove_themselves_by_keys_that_the_process_manager_does_not_see() {
    let (_dir, program) = managed();
    for manners in [Manners::Good, Manners::Terse] {
        for (output, line) in
            manage(&program, "well", 3, manners, &OVER_TLS).iter().zip(lines_of(3))
        {
            assert!(output.status.success(), "{manners:?}: {output:?}");
            assert_eq!(text(&output.stdout), format!("{line}\n"));
        }
    }
}

#[test]
fn a_node_whose_key_is_not_what_the_process_manager_says_is_refused() {
    let (_dir, program) = managed();
    let [transport, encrypt] = OVER_TLS;
    let short = ("MULTIGRAIN_BOOT_SECONDS", "2");
    let ended = manage(&program, "well", 2, Manners::Forges, &[transport, encrypt, short]);
    assert!(ended.iter().all(|output| !output.status.success()), "{ended:?}");
    let said = text(&ended[0].stderr);
    assert!(said.contains("refused a connection from 127.0.0.1:"), "{said}");
    assert!(said.contains("its certificate is not of this job"), "{said}");
    let said = text(&ended[1].stderr);
    assert!(
        said.contains("node 0 is not to be trusted: it does not trust this node's certificate"),
        "{said}"
    );
}

#[test]
fn a_process_manager_without_manners_costs_one_line_a_node_and_no_time() {
    let (_dir, program) = managed();
    let short = ("MULTIGRAIN_BOOT_SECONDS", "0.5");
    for (manners, named) in [
        (Manners::Nonsense, "does not speak PMI: it says \"220 mail.example.org ESMTP\""),
        (
            Manners::HangsUp,
            "the process manager that PMI_FD or PMI_PORT leads to is gone: it hung up",
        ),
        (
            Manners::Refuses,
            "the process manager refuses put: \"cmd=put_result rc=-1 msg=no_space\"",
        ),
        (Manners::Silent, "answer to barrier_in took longer than 0.5 s (MULTIGRAIN_BOOT_SECONDS)"),
        (Manners::Lies, "the process manager gives nonsense for multigrain-job of node 0"),
    ] {
        let start = Instant::now();
        for output in manage(&program, "well", 2, manners, &[short]) {
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(9), "{manners:?}: {output:?}");
            assert!(said.lines().count() == 1 && said.contains(named), "{manners:?}: {said}");
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{manners:?}");
    }
}

#[test]
fn an_environment_that_makes_no_sense_is_named() {
    let (_dir, program) = managed();
    let all = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_FD", "0")];
    for (variables, named) in [
        (&all[..2], "PMI_FD is not set, but other variables PMI_* are"),
        (&all[..1], "PMI_SIZE is not set"),
        (&all[2..], "PMI_RANK is not set"),
        (&all[..], "PMI_FD: descriptor 0 is not the socket of mpiexec or srun"),
        (&[all[0], all[1], ("PMI_FD", "77")], "PMI_FD: descriptor 77 is not the socket"),
        (&[all[0], all[1], ("PMI_FD", "-1")], "PMI_FD cannot be -1"),
        (
            &[("PMI_RANK", "2"), all[1], all[2]],
            "PMI_RANK 2 is no rank of PMI_SIZE 2 processes; unset the variables PMI_*",
        ),
        (&[("PMI_RANK", "x"), all[1], all[2]], "PMI_RANK cannot be x"),
        (
            &[("PMI_PORT", "127.0.0.1:1"), ("PMI_ID", "0")],
            "PMI_PORT: the process manager at 127.0.0.1:1 cannot be reached (Connection refused (os error 111)); unset the \
             variables PMI_*",
        ),
        (
            &[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")],
            "srun has started 2 tasks that cannot find each other: use srun --mpi=pmi2",
        ),
    ] {
        let mut command = Command::new(&program);
        let output = command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(9), "{variables:?}: {output:?}");
        assert!(said.lines().count() == 1 && said.contains(named), "{variables:?}: {said}");
    }
    for (name, value) in [("TRANSPORT", "pigeon"), ("INTERFACE", "eth0/8"), ("ENCRYPT", "rot13")] {
        let name = format!("MULTIGRAIN_{name}");
        let ended = manage(&program, "well", 2, Manners::Good, &[(name.as_str(), value)]);
        for output in ended {
            assert_eq!(output.status.code(), Some(9), "{output:?}");
            assert!(text(&output.stderr).contains(&name), "{output:?}");
        }
    }
}

/// Where addresses are not fixed, as this variable pretends, the nodes find that they differ.
#[test]
fn nodes_whose_addresses_are_random_do_not_join() {
    let (_dir, program) = managed();
    let ended = manage(&program, "well", 2, Manners::Good, &[("MULTIGRAIN_ADDRESSES_FIXED", "1")]);
    assert!(ended.iter().all(|output| output.status.code() == Some(9)), "{ended:?}");
    let named = "multigrain: functions of the program lie elsewhere on node 1 (";
    let said = text(&ended[1].stderr);
    assert!(said.starts_with(named) && said.lines().count() == 1, "{said}");
    assert_eq!(text(&ended[0].stderr), "", "node 1 says it");
}

/// Two nodes that run `managed`, and two that run another build of it, by a script that hands on its arguments.
fn two_programs(dir: &TestDir, program: &Path) -> PathBuf {
    let other = dir.path().join("other");
    let mut command = compiler("cc", &["-std=c11", "-D_GNU_SOURCE", "-O2"]);
    command.arg(source("managed.c")).arg("-o").arg(&other).arg("-L").arg(built());
    must_succeed(command.args(["-lmultigrain", &format!("-Wl,-rpath,{}", dir.path().display())]));
    let pick = dir.path().join("pick");
    let [first, second] = [program, &other].map(Path::display);
    let script =
        format!("#!/bin/sh\n[ $PMI_RANK -lt 2 ] && exec {first} \"$@\"\nexec {second} \"$@\"\n");
    fs::write(&pick, script).unwrap();
    fs::set_permissions(&pick, PermissionsExt::from_mode(0o755)).unwrap();
    pick
}

/// Four lines that named no host, two of them after boot's time.
#[test]
fn several_programs_are_told_in_one_line_who_runs_another_and_what_to_do() {
    let (dir, program) = managed();
    let pick = two_programs(&dir, &program);
    let start = Instant::now();
    let ended = manage(&pick, "well", 4, Manners::Good, &[]);
    assert!(ended.iter().all(|output| output.status.code() == Some(9)), "{ended:?}");
    let said: Vec<&str> = ended.iter().map(|output| text(&output.stderr)).collect();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    let line = format!(
        "multigrain: nodes 2 and 3 ({host}) run another build of the program than node 0 ({host}), or another program: start \
         the same file on all"
    );
    assert!(said[2].starts_with(&line) && said[2].lines().count() == 1, "{said:?}");
    assert!([0, 1, 3].iter().all(|&silent: &usize| said[silent].is_empty()), "{said:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
    let hydra = ("mpiexec.hydra", &[][..], "mpich");
    if let Some(output) = under(hydra, 4, &pick, "well") {
        let said = text(&output.stderr);
        assert_eq!(said.matches("multigrain: ").count(), 1, "{output:?}");
        assert!(said.contains(&line) && !output.status.success(), "{output:?}");
    }
}

#[test]
fn a_node_that_is_lost_ends_the_others() {
    let (_dir, program) = managed();
    for (end, code) in [("three", Some(3)), ("killed", None)] {
        let ended = manage(&program, end, 3, Manners::Good, &[]);
        let codes: Vec<_> = ended.iter().map(|output| output.status.code()).collect();
        assert_eq!(codes, [Some(75), code, Some(75)], "{end}: {ended:?}");
        let lines = [0, 2].map(|node: usize| text(&ended[node].stderr));
        assert!(lines.iter().any(|line| line.contains("node 1 is gone")), "{lines:?}");
    }
}

#[test]
fn what_a_node_starts_is_told_that_it_is_no_node() {
    let (_dir, program) = managed();
    for output in manage(&program, "parent", 2, Manners::Good, &[]) {
        assert!(output.status.success(), "{output:?}");
        let line = "a node started this program, and only `multigrain run` makes nodes";
        assert_eq!(text(&output.stderr).matches(line).count(), 1, "{output:?}");
    }
}

/// Two network namespaces with a cable between them.
struct Cable([String; 2]);

impl Cable {
    /// None, and a line that says why, where there can be none.
    fn new() -> Option<Self> {
        let cable = Self(["a", "b"].map(|side| format!("mg{}{side}", std::process::id())));
        let [a, b] = &cable.0;
        if !does(&format!("ip netns add {a}")) {
            not_tried("no network namespaces may be made (root, and iproute2)");
            return None;
        }
        for command in [
            format!("ip netns add {b}"),
            format!("ip -n {a} link add eth0 type veth peer name eth0 netns {b}"),
            format!("ip -n {a} addr add fd78::1/64 dev eth0 nodad"),
            format!("ip -n {b} addr add fd78::2/64 dev eth0 nodad"),
            format!("ip -n {a} link set eth0 up"),
            format!("ip -n {b} link set eth0 up"),
        ] {
            assert!(does(&command), "{command}");
        }
        Some(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for namespace in &self.0 {
            does(&format!("ip netns del {namespace}"));
        }
    }
}

/// Whether a command does what it should.
fn does(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let quiet = command.args(words).stdin(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[test]
fn nodes_of_two_networks_meet_in_the_one_between_them() {
    let Some(cable) = Cable::new() else { return };
    let (dir, program) = managed();
    let [a, b] = &cable.0;
    let script = dir.path().join("placed");
    let line = format!(
        "#!/bin/sh\nns={a}; [ $PMI_RANK -ge 2 ] && ns={b}\nexec ip netns exec $ns {} \"$@\"\n",
        program.display()
    );
    fs::write(&script, line).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    for (output, line) in manage(&script, "well", 4, Manners::Good, &[]).iter().zip(lines_of(4)) {
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stdout), format!("{line}\n"));
    }
    let wish = ("MULTIGRAIN_INTERFACE", "nix0");
    for output in manage(&script, "well", 4, Manners::Good, &[wish]) {
        let line =
            "MULTIGRAIN_INTERFACE: the host of node 0: it has no address on the interface nix0";
        assert!(text(&output.stderr).contains(line) && !output.status.success(), "{output:?}");
    }
    assert_gone(&program);
}

#[test]
fn nodes_end_with_who_started_them() {
    let (dir, program) = managed();
    let script = dir.path().join("parent");
    // In a session of its own, no signal for a group reaches the node.
    let line = format!("#!/bin/sh\nexec 3<&0\nsetsid {} \"$@\" <&3 &\nwait\n", program.display());
    fs::write(&script, line).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let (space, barrier) = (Arc::<Space>::default(), Arc::new(Barrier::new(2)));
    let mut parents = Vec::new();
    let mut servers: Vec<JoinHandle<()>> = Vec::new();
    for rank in 0..2 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(&script);
        command.arg("forever").env("PMI_RANK", rank.to_string()).env("PMI_SIZE", "2");
        command.env("PMI_FD", "0").stdin(OwnedFd::from(theirs)).stdout(Stdio::piped());
        parents.push(command.stderr(Stdio::piped()).spawn().unwrap());
        let (space, barrier) = (Arc::clone(&space), Arc::clone(&barrier));
        servers.push(std::thread::spawn(move || serve(ours, Manners::Good, &space, &barrier)));
    }
    for parent in &mut parents {
        let mut line = String::new();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.ends_with("of 2: 20\n"), "{line}");
    }
    let killed = parents.into_iter().map(|mut parent| {
        parent.kill().unwrap();
        // The end of its pipe is that of the node's.
        text(&parent.wait_with_output().unwrap().stderr).to_owned()
    });
    let said: String = killed.collect();
    assert!(said.contains("the process that started this node is gone; the job ends"), "{said}");
    assert_gone(&program);
    servers.into_iter().for_each(|server| server.join().unwrap());
}

/// Process managers that are installed: the command, and the Debian package that it is of.
const REAL: [(&str, &[&str], &str); 3] = [
    ("mpiexec.hydra", &[], "mpich"),
    ("mpiexec.hydra", &["-pmi-port"], "mpich"),
    ("mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe"], "openmpi-bin"),
];

/// Runs a program under a real one; none where it is absent.
fn under(
    (command, options, package): (&str, &[&str], &str),
    nodes: u32,
    program: &Path,
    argument: &str,
) -> Option<Output> {
    let path = std::env::var_os("PATH").unwrap();
    if !std::env::split_paths(&path).any(|directory| directory.join(command).exists()) {
        not_tried(&format!("there is no {command} (Debian's package {package})"));
        return None;
    }
    let mut whole = Command::new("timeout");
    whole.args([SECONDS, command]).args(options).args(["-n", &nodes.to_string()]);
    whole.arg(program).arg(argument).stdin(Stdio::null());
    let output = whole.output().unwrap();
    assert_gone(program);
    Some(output)
}

#[test]
fn mpiexec_of_mpich_and_of_open_mpi_start_a_job() {
    let (_dir, program) = managed();
    for real in REAL {
        for nodes in [4, 1] {
            let Some(output) = under(real, nodes, &program, "well") else { continue };
            assert!(output.status.success(), "{real:?}: {output:?}");
            let mut lines: Vec<&str> = text(&output.stdout).lines().collect();
            lines.sort_unstable();
            assert_eq!(lines, lines_of(nodes), "{real:?}");
            assert_eq!(text(&output.stderr), "", "{real:?}");
        }
    }
}

#[test]
fn mpiexec_ends_when_a_node_does() {
    let (_dir, program) = managed();
    for real in REAL {
        for end in ["three", "killed"] {
            let start = Instant::now();
            let Some(output) = under(real, 4, &program, end) else { continue };
            assert!(!output.status.success(), "{real:?} {end}: {output:?}");
            assert!(start.elapsed() < Duration::from_secs(10), "{real:?} {end}: {output:?}");
        }
    }
}
