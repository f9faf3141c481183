//! Mistakes of the user, and hosts that a job cannot run on: one line each, before anything is started.

use super::SOON;
use crate::support::{Ended, assert_gone_within, multigrain, not_tried, run, unique_time};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn mistakes_get_one_line_and_the_codes_of_a_shell() {
    let code = |words: &[&str]| run(multigrain().arg("run").args(words)).code;
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&["-n", "0", "true"]), Some(2));
    assert_eq!(code(&["-n", "1025", "true"]), Some(2));
    assert_eq!(code(&["--guard", "wall", "true"]), Some(2));
    assert_eq!(code(&["--path", "garden", "true"]), Some(2));
    assert_eq!(code(&["--path", "fork", "true"]), Some(2));
    assert_eq!(code(&["--shared", "12Q", "true"]), Some(2));
    assert_eq!(code(&["--stats", "/nonexistent/file", "true"]), Some(2));
    assert_eq!(code(&["--tracking", "dogs", "true"]), Some(2));
    let missing = run(multigrain().args(["run", "-n", "4", "no-such-program"]));
    assert_eq!(missing.code, Some(127));
    assert!(missing.line().starts_with("multigrain: no-such-program: no such program"));
    for (words, meant) in [
        ("run --check-races all ./app", "; --check-races=all may be meant, without a space"),
        ("run --check-races first true", "; --check-races=first may be meant, without a space"),
        ("run --check-races no-such-program", "PATH"),
        ("run all ./app", "PATH"),
    ] {
        let missing = run(multigrain().args(words.split(' ')));
        assert_eq!(missing.code, Some(127), "{missing:?}");
        assert!(missing.line().ends_with(meant), "{missing:?}");
    }
    let unusable = run(multigrain().args(["run", "-n", "4", "/etc/passwd"]));
    assert_eq!(unusable.code, Some(126));
    assert!(unusable.line().contains("is not executable"));
}

#[test]
fn what_every_node_would_refuse_the_launcher_refuses() {
    for (options, variable, line) in [
        ("--tracking scans --check-races", ("", ""), "--check-races finds races by faults"),
        ("--tracking scans --guard uffd", ("", ""), "--tracking scans needs the guard mprotect"),
        ("--path sysv --guard uffd", ("", ""), "--path sysv has pages that userfaultfd does not"),
        ("--guard uffd", ("MULTIGRAIN_PATH", "sysv"), "--path sysv has pages that userfaultfd"),
        (
            "--tag-output",
            ("MULTIGRAIN_PATH", "fork"),
            "invalid argument: MULTIGRAIN_PATH cannot be",
        ),
        ("--check-races", ("MULTIGRAIN_TRACKING", "scans"), "--check-races finds races by faults"),
        ("-x MULTIGRAIN_TRACKING=scans --check-races", ("", ""), "--check-races finds races"),
        (
            "--tag-output",
            ("MULTIGRAIN_WAIT", "doze"),
            "invalid argument: MULTIGRAIN_WAIT cannot be",
        ),
        ("--tag-output", ("MULTIGRAIN_THREADS", "4097"), "invalid argument: MULTIGRAIN_THREADS"),
        ("-x MULTIGRAIN_CHUNK=65537", ("", ""), "invalid argument: MULTIGRAIN_CHUNK cannot be"),
        (
            "--tag-output",
            ("MULTIGRAIN_SHARED", "64"),
            "invalid argument: MULTIGRAIN_SHARED cannot be 64: 64 bytes are not enough; 64M or 64G",
        ),
    ] {
        let mut command = multigrain();
        command.args(["run", "-n", "3"]).args(options.split(' ')).args(["--", "echo", "there"]);
        if !variable.0.is_empty() {
            command.env(variable.0, variable.1);
        }
        let ended = run(&mut command);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.line().starts_with(&format!("multigrain: {line}")), "{ended:?}");
    }
    for (option, value, limit) in [
        ("-t", "4097", "4096"),
        ("-t", "65536", "4096"),
        ("--chunk", "65537", "65536"),
        ("--shared", "16T", "17587891077120 bytes, almost 16T"),
        ("--shared", "999T", "almost 16T, at most"),
        ("--shared", "64", "64 bytes are not enough; 64M or 64G may be meant"),
    ] {
        let ended =
            run(multigrain().args(["run", "-n", "3", option, value, "--", "echo", "there"]));
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains(limit), "{ended:?}");
    }
    let ended = run(multigrain().args(["run", "--tracking", "scans", "--", "echo", "there"]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "there\n"), "{ended:?}");
}

#[test]
fn a_stack_that_is_too_small_gives_one_line_that_names_ulimit() {
    let mut command = std::process::Command::new("bash");
    let launch = "ulimit -s 64; exec \"$0\" run -n 2 true";
    let ended = run(command.args(["-c", launch, env!("CARGO_BIN_EXE_multigrain")]));
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.line().contains("a stack of 64 KiB is too small: say `ulimit -s"), "{ended:?}");
}

#[test]
fn a_pipe_that_nobody_reads_is_no_file_for_statistics() {
    let pipe = std::env::temp_dir().join(format!("stats-{}", std::process::id()));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let ended = run(multigrain().args(["run", "-n", "2", "--stats"]).arg(&pipe).arg("true"));
    std::fs::remove_file(&pipe).unwrap();
    let line = format!("multigrain: --stats {}: No such device", pipe.display());
    assert!(ended.code == Some(2) && ended.line().starts_with(&line), "{ended:?}");
}

/// The time-out of the job had not begun.
#[test]
fn a_pipe_of_hosts_that_nobody_writes_is_waited_for_no_longer_than_the_job() {
    let pipe = std::env::temp_dir().join(format!("hosts-{}", std::process::id()));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let command = &mut multigrain();
    let ended = run(command.args(["run", "--timeout", "1", "--hostfile"]).arg(&pipe).arg("true"));
    std::fs::remove_file(&pipe).unwrap();
    let line = "it has not come to its end in 1 s; name a file of hosts";
    assert!(ended.code == Some(2) && ended.line().ends_with(line), "{ended:?}");
}

/// The least limits do not even let the system load the command, whose size is that of its build.
#[test]
fn a_limit_of_memory_that_is_too_small_gives_one_line_that_names_ulimit() {
    let mut told = 0;
    for mib in 8..64 {
        let mut command = std::process::Command::new("bash");
        let launch = format!("ulimit -v {}; exec \"$0\" run -n 2 true", mib << 10);
        let ended = run(command.args(["-c", &launch, env!("CARGO_BIN_EXE_multigrain")]));
        match ended.code {
            Some(125) => {
                let line =
                    format!("multigrain: a limit of {} KiB is too small (ulimit -v)", mib << 10);
                assert!(ended.line().starts_with(&line), "{mib}: {ended:?}");
                told += 1;
            }
            Some(0) => assert_eq!(ended.err, "", "{mib}: {ended:?}"),
            _ => assert!(told == 0 && !ended.err.contains("memory allocation"), "{mib}: {ended:?}"),
        }
    }
    assert!(told > 0, "no limit is too small");
    let mut command = std::process::Command::new("bash");
    let launch = "ulimit -d 4096; exec \"$0\" run -n 2 true";
    let ended = run(command.args(["-c", launch, env!("CARGO_BIN_EXE_multigrain")]));
    let said =
        "a limit of 4096 KiB is too small (ulimit -d): say `ulimit -d unlimited`, or at least";
    assert!(ended.code == Some(125) && ended.line().contains(said), "{ended:?}");
}

#[test]
fn too_few_descriptors_give_one_line_that_names_ulimit() {
    let time = unique_time();
    let launch = format!("ulimit -n 60; exec \"$0\" run -n 20 sleep {time}");
    let mut command = std::process::Command::new("bash");
    let ended = run(command.args(["-c", &launch, env!("CARGO_BIN_EXE_multigrain")]));
    assert_eq!(ended.code, Some(125));
    assert!(ended.line().contains("ulimit -n"), "{ended:?}");
    assert_gone_within(SOON, &time);
}

/// The launcher in a world that `prepare` makes first, with namespaces of its own; None where those are
/// not allowed.
fn in_namespaces(prepare: &str, arguments: &str) -> Option<Ended> {
    let namespaces = ["--user", "--map-root-user", "--net", "--mount"];
    let allowed = Command::new("unshare").args(namespaces).arg("true").output();
    if !allowed.is_ok_and(|tried| tried.status.success()) {
        not_tried("no namespaces may be made");
        return None;
    }
    let script = format!("{prepare}; exec {} {arguments}", env!("CARGO_BIN_EXE_multigrain"));
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", &script]).stdin(Stdio::null());
    Some(run(&mut command))
}

#[test]
fn a_loopback_interface_that_is_down_is_named_as_the_cause() {
    let tcp = "run -n 2 --transport tcp echo there";
    let Some(down) = in_namespaces("true", tcp) else { return };
    assert_eq!((down.code, down.out.as_str()), (Some(125), ""), "{down:?}");
    assert!(down.line().contains("ip link set lo up"), "{down:?}");
    let unix = in_namespaces("true", "run -n 2 echo there").unwrap();
    assert_eq!((unix.code, unix.out.lines().count()), (Some(0), 2), "{unix:?}");
}

#[test]
fn a_missing_dev_is_named_as_the_cause_and_the_watchdog_does_without() {
    let no_dev = "mount -t tmpfs none /dev";
    let Some(two) = in_namespaces(no_dev, "run -n 2 echo there") else { return };
    assert_eq!((two.code, two.out.as_str()), (Some(125), ""), "{two:?}");
    assert!(two.line().contains("/dev/null, the stdin of node 1 (is /dev mounted?)"), "{two:?}");
    // Its watchdog waits for the launcher's end, instead of having taken it for dead.
    let watchdog = "run --timeout 10 sh -c 'until cat $(grep -l mg-watchdog $(sed \"s|[0-9][0-9]*|/proc/&/comm|g\" \
                  /proc/$PPID/task/$PPID/children) | sed s/comm/status/) | grep -q State:.S; \
                  do sleep 0.01; done'";
    let one = in_namespaces(no_dev, watchdog).unwrap();
    assert_eq!(one.code, Some(0), "{one:?}");
}

#[test]
fn a_program_on_a_mount_without_exec_is_not_told_to_become_executable() {
    let prepare = "mount -t tmpfs -o noexec tmpfs /mnt && cp /bin/true /mnt";
    let Some(ended) = in_namespaces(prepare, "run /mnt/true") else { return };
    assert_eq!(ended.code, Some(126), "{ended:?}");
    assert!(
        ended.err.contains("/mnt/true: lies in a file system that is mounted noexec"),
        "{ended:?}"
    );
}

#[test]
fn a_mistyped_option_is_refused_and_not_run_as_a_program() {
    for (words, line) in [
        (
            "run --gaurd uffd -n 2 true",
            "unexpected argument '--gaurd' found; a similar argument exists: '--guard'; see multigrain run --help",
        ),
        ("run --version", "unexpected argument '--version' found; see multigrain run --help"),
        ("run -z -- true", "unexpected argument '-z' found; see multigrain run --help"),
        ("run -n two true", "invalid value 'two' for '--nodes <N>': it is no number; see"),
        ("run -n 0 true", "invalid value '0' for '--nodes <N>': 0 is not in 1 to 1024; see"),
        ("run -n -1 true", "invalid value '-1' for '--nodes <N>': -1 is not in 1 to 1024; see"),
        ("run --timeout -3 true", "invalid value '-3' for '--timeout <SECONDS>': give a number of"),
        ("run --shared -5 true", "invalid value '-5' for '--shared <SIZE>': give a whole number"),
        (
            "run -n 99999999999999999999 true",
            "invalid value '99999999999999999999' for '--nodes <N>': it is too large; see",
        ),
        ("sim --hours abc", "invalid value 'abc' for '--hours <HOURS>': it is no number; see"),
        ("sim --seed -1", "invalid value '-1' for '--seed <SEED>': it is below 0; see"),
        ("litmus --rounds 0", "invalid value '0' for '--rounds <N>': 0 is not"),
        ("sim --runs 0", "invalid value '0' for '--runs <RUNS>': 0 is not 1 or more; see"),
        ("check --proof /nope/x", "invalid value '/nope/x' for '--proof <FILE>': No such file"),
        ("check --list --json", "the argument '--list' cannot be used with '--json'; see"),
        ("litmus --json --list", "the argument '--json' cannot be used with '--list'; see"),
        ("rn -n 2 true", "unrecognized subcommand 'rn'; a similar subcommand exists: 'run'; see"),
        ("bench foo", "unrecognized subcommand 'foo'; see multigrain bench --help"),
        ("bench sim", "unrecognized subcommand 'sim'; see multigrain bench --help"),
        ("bench nix", "unrecognized subcommand 'nix'; see multigrain bench --help"),
        (
            "bench csots",
            "unrecognized subcommand 'csots'; a similar subcommand exists: 'costs'; see multigrain bench --help",
        ),
        (
            "run --ports 70000-80000 true",
            "invalid value '70000-80000' for '--ports <FIRST-LAST>': '70000-80000' will not do: ports are \
             numbers from 1 to 65535; see",
        ),
        (
            "run --ports 30-20 true",
            "invalid value '30-20' for '--ports <FIRST-LAST>': '30-20' will not do: the first port of a range \
             is the lower one, as in 30000-30100; see",
        ),
    ] {
        assert_refused(words, line);
    }
}

/// A wrong command line: one line, and nothing is run.
fn assert_refused(words: &str, line: &str) {
    let ended = run(multigrain().args(words.split(' ')));
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{words}: {ended:?}");
    assert!(ended.line().starts_with(&format!("multigrain: {line}")), "{words}: {ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{words}: {ended:?}");
}

#[test]
fn variables_stand_where_no_option_does() {
    let with = |variable: (&str, &str), words: &str| {
        run(multigrain().env(variable.0, variable.1).args(words.split(' ')))
    };
    let peers = "run -n 2 --no-tag-output --transport tcp printenv MULTIGRAIN_PEERS";
    let ended = with(("MULTIGRAIN_PORTS", "30470-30499"), peers);
    let is_one = |peer: &str| peer.starts_with("tcp:127.0.0.1:304");
    assert!(ended.out.lines().all(|line| line.split(',').all(is_one)), "{ended:?}");
    let ended = with(("MULTIGRAIN_PORTS", "nonsense"), peers);
    assert_eq!((ended.code, ended.err.lines().count()), (Some(2), 1), "{ended:?}");
    let ended =
        with(("MULTIGRAIN_PORTS", "nonsense"), &peers.replace("-n 2", "-n 2 --ports 30470-30499"));
    assert_eq!(ended.code, Some(0), "an option wins: {ended:?}");
    let ended =
        with(("MULTIGRAIN_TRANSPORT", "tcp"), "run --no-tag-output printenv MULTIGRAIN_TRANSPORT");
    assert_eq!(ended.out, "tcp\n", "{ended:?}");
    for (name, line) in [
        ("MULTIGRAIN_TRANSPORT", "nonsense: it is auto or unix or tcp"),
        ("MULTIGRAIN_ENCRYPT", "nonsense: it is auto, on or off"),
    ] {
        let ended = with((name, "nonsense"), "run true");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert_eq!(ended.line(), format!("multigrain: {name}: {line}"));
    }
    let ended = with(("MULTIGRAIN_PORTS", "nonsense"), "doctor");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    // Of a job on this host alone they say nothing.
    let ended = with(("MULTIGRAIN_PORTS", "30470-30499"), "run true");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = with(("MULTIGRAIN_INTERFACE", "nonsense0"), "run true");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn options_of_segments_need_sysv() {
    for option in ["--segment-window 5ms", "--segment-window=5ms --", "--segment-compression lz4"] {
        let name = option.split(['=', ' ']).next().unwrap();
        let line = format!("{name} needs --sysv, whose segments it is about");
        assert_refused(&format!("run {option} true"), &line);
    }
    let ended = run(multigrain().args(["run", "--handshake=off", "true"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn options_of_other_launchers_are_named_as_they_are_here() {
    const NODES: &str = "the number of nodes is -n: multigrain run -n 2 ./app";
    const HOSTS: &str = "hosts are named by --hosts a:2,b:2";
    for (words, option, hint) in [
        ("run -np 4 true", "-np", NODES),
        ("run -np4 true", "-np", NODES),
        ("run --np=4 true", "--np", NODES),
        ("run -N 2 true", "-N", NODES),
        ("doctor -N2", "-N", NODES),
        ("run -H a,b true", "-H", HOSTS),
        ("run --host a true", "--host", HOSTS),
        ("run -machinefile f true", "-machinefile", "a file of hosts is named by --hostfile FILE"),
        ("run -hostfile f true", "-hostfile", "it has two dashes: --hostfile"),
        ("run --summary -timeout 5 true", "-timeout", "it has two dashes: --timeout"),
        ("run -stats=f true", "-stats", "it has two dashes: --stats"),
        ("run -genv A 1 true", "-genv", "a variable is set by -x VAR=VALUE"),
        ("run -v true", "-v", "--summary says what the nodes did"),
    ] {
        assert_refused(words, &format!("there is no option {option}; {hint}"));
    }
    // A program's own options are its own, and -h is help.
    assert_refused("run -n two true -np 4", "invalid value 'two'");
    let help = run(multigrain().args(["run", "-h"]));
    assert!(help.code == Some(0) && help.out.contains("Usage: multigrain run"), "{help:?}");
}

#[test]
fn what_stands_in_the_place_of_the_command_is_understood() {
    const RUN: &str = "a program is run by multigrain run -n 2 ./app";
    assert_refused("run", "run needs a program: multigrain run -n 2 ./app");
    assert_refused("run -n 2", "run needs a program: multigrain run -n 2 ./app");
    for (words, code) in [("run -x NOSUCHVAR -x HOME true", 0), ("doctor -x NOSUCHVAR", 0)] {
        let ended = run(multigrain().args(words.split(' ')));
        let line = "multigrain: -x NOSUCHVAR: it is not set here, so nodes do not get it; set it, or write -x NOSUCHVAR=VALUE";
        assert_eq!((ended.code, ended.line()), (Some(code), line), "{words}: {ended:?}");
    }
    let line = "-x ./first: no variable has such a name; write -x VAR or -x VAR=VALUE";
    assert_refused("run -x ./first true 10", line);
    assert_refused("run -x ./first", "run needs a program (-x took ./first for its own value): ");
    for word in ["./app", "/bin/true", "mpirun", "4"] {
        assert_refused(
            &format!("{word} -n 2 true"),
            &format!("{word} is no command of multigrain; {RUN}"),
        );
    }
    for option in ["-n", "-np", "--hosts", "-hosts", "--nodes=2"] {
        assert_refused(&format!("{option} 2 true"), "options follow the command: multigrain run");
    }
    assert_refused("-v", "there is no option -v; the version is said by multigrain -V");
    let (word, option) = (run(multigrain().arg("version")), run(multigrain().arg("--version")));
    assert_eq!((word.code, word.out.as_str()), (Some(0), option.out.as_str()), "{word:?}");
    // All hosts of a job must have the same, and a line that says they do not names it.
    let build = option.out.trim().strip_prefix(concat!(
        "multigrain ",
        env!("CARGO_PKG_VERSION"),
        " (build "
    ));
    let build = build.and_then(|build| build.strip_suffix(')')).unwrap();
    assert!(
        build.len() >= 16 && build.chars().all(|digit| digit.is_ascii_hexdigit()),
        "{option:?}"
    );
}

#[test]
fn what_is_no_program_says_what_to_do() {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-programs");
    fs::create_dir_all(here.join("directory")).unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        fs::write(here.join(name), text).unwrap();
        fs::set_permissions(here.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    file("first.c", "int main(void) { return 0; }", 0o644);
    file("open.c", "int main(void) { return 0; }", 0o755);
    file("script.rs", "#!/bin/sh\nexit 3\n", 0o755);
    file("not-in-path", "#!/bin/sh\n", 0o755);
    file("notes", "", 0o644);
    file("noise", "\u{1}\u{2}\0 (", 0o755);
    file("lines", "exit 4", 0o755);
    let mut object = std::process::Command::new("cc");
    object.current_dir(&here).args(["-c", "first.c", "-o", "first.o"]);
    assert!(object.status().unwrap().success());
    fs::set_permissions(here.join("first.o"), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = |name: &str, changes: &[(usize, u8)]| {
        let mut bytes = fs::read(env!("CARGO_BIN_EXE_multigrain")).unwrap();
        changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
        fs::write(here.join(name), bytes).unwrap();
        fs::set_permissions(here.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    binary("other", &[(18, 8)]); // MIPS
    // The kernel refuses each, and execvp would have given them to a shell.
    binary("class", &[(4, 1), (18, 3)]);
    binary("entries", &[(54, 32)]);
    binary("kind", &[(16, 9)]);
    file("empty", "", 0o755);
    let mut library = std::process::Command::new("cc");
    library.current_dir(&here).args(["-shared", "-fPIC", "first.c", "-o", "first.so"]);
    assert!(library.status().unwrap().success());
    const NO: &str = "not a program this machine can execute";
    for (program, code, line) in [
        ("first.c", 126, "./first.c: is source; compile it"),
        ("./first.c", 126, "./first.c: is source; compile it"),
        ("./open.c", 126, "./open.c: is source; compile it"),
        (".", 126, ".: is a directory; name a program"),
        ("directory", 126, "./directory: is a directory; name a program"),
        ("notes", 126, "./notes: is not executable; use chmod +x"),
        ("not-in-path", 127, "not-in-path: no such program in PATH; say ./not-in-path for"),
        ("4", 127, "4: no such program; the number of nodes is -n: multigrain run -n 2 ./app"),
        ("./first", 127, "./first: no such program; give a path"),
        ("", 127, "'': no such program; it is empty"),
        ("./noise", 126, &format!("./noise: {NO}: neither")),
        ("./first.o", 126, &format!("./first.o: {NO}: an object file; link it")),
        ("./class", 126, &format!("./class: {NO}: its ELF header contradicts itself; copy")),
        ("./entries", 126, &format!("./entries: {NO}: its ELF header contradicts itself; copy")),
        ("./kind", 126, &format!("./kind: {NO}: its ELF header contradicts itself; copy")),
        ("./empty", 126, &format!("./empty: {NO}: it is empty; compile or copy")),
        ("./first.so", 126, &format!("./first.so: {NO}: a library, which has no entry point;")),
        ("./other", 126, &format!("./other: {NO}: it is for another kind of processor")),
    ] {
        let ended = run(multigrain().current_dir(&here).args(["run", "-n", "2", program]));
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{program}: {ended:?}");
        assert!(ended.line().starts_with(&format!("multigrain: {line}")), "{program}: {ended:?}");
    }
    let script = run(multigrain().current_dir(&here).args(["run", "./script.rs"]));
    assert_eq!(script.code, Some(3), "{script:?}");
    let lines = run(multigrain().current_dir(&here).args(["run", "./lines"]));
    assert_eq!(lines.code, Some(4), "text is run as shells do: {lines:?}");
    let doctor = run(multigrain().current_dir(&here).args(["doctor", "./first.o"]));
    assert_eq!(doctor.code, Some(78), "{doctor:?}");
    assert!(doctor.out.contains("not a program this machine can execute"), "{doctor:?}");
    file("orphan", "#!/no/such/interpreter -x\n", 0o755);
    let doctor = run(multigrain().current_dir(&here).args(["doctor", "./orphan"]));
    assert_eq!(doctor.code, Some(78), "{doctor:?}");
    assert!(doctor.out.contains("the interpreter its first line"), "{doctor:?}");
    fs::remove_dir_all(here).unwrap();
}

#[test]
fn what_would_be_passed_by_in_silence_is_refused() {
    for (words, line) in [
        ("run -n 2 echo :", "after ':' comes -n and a number of nodes, and then a program"),
        ("run -n 2 echo : echo", "after ':' comes -n and a number of nodes, not 'echo'"),
        ("run --interface nix0 -n 2 echo", "--interface says where hosts meet, and this job has"),
        ("run --interface lo --transport tcp -n 2 echo", "--interface says where hosts meet"),
        (
            "doctor --interface nix0",
            "--interface says where hosts meet, and this job has this host",
        ),
        (
            "run --launcher-command ssh -n 2 echo",
            "--launcher-command leads to other hosts, and this job has this host alone: leave it out, or name --hosts",
        ),
        ("doctor --launcher-command ssh", "--launcher-command leads to other hosts, and this job"),
        (
            "run --ports 30470-30499 -n 2 echo",
            "--ports is for TCP, and nodes of this host alone talk over Unix sockets: leave it out, or name --hosts (or \
             --transport tcp)",
        ),
    ] {
        let ended = run(multigrain().args(words.split(' ')));
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{words}: {ended:?}");
        assert!(ended.line().starts_with(&format!("multigrain: {line}")), "{words}: {ended:?}");
    }
}

#[test]
fn a_mistyped_command_gets_a_hint() {
    for (given, meant) in [("rnu", "run"), ("ru", "run"), ("chekc", "check"), ("sacle", "scale")] {
        let ended = run(multigrain().arg(given));
        assert_eq!(ended.code, Some(2));
        let (_, hint) = ended.line().split_once("similar subcommand").unwrap();
        assert!(hint.contains(&format!("'{meant}'")), "{ended:?}");
    }
    let ended = run(multigrain().arg("something"));
    assert!(ended.code == Some(2) && !ended.err.contains("similar"), "{ended:?}");
}

#[test]
fn options_after_the_program_are_the_programs() {
    for words in ["run printf %s --version -n 3 --", "run -n 1 -- printf %s --version -n 3 --"] {
        let ended = run(multigrain().args(words.split(' ')));
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "--version-n3--"), "{ended:?}");
    }
}

/// Help and findings were lost without a word, and other commands panicked.
#[test]
fn what_a_full_disk_does_not_take_is_named() {
    for arguments in ["--version", "run --help", "doctor", "doctor --json", "sim --runs 1"] {
        let mut command = multigrain();
        command.args(arguments.split(' '));
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        let line = "multigrain: stdout: No space left on device (os error 28); make room there";
        let said = err.lines().filter(|said| said.starts_with("multigrain: ")).collect::<Vec<_>>();
        assert!(matches!(said[..], [one] if one.starts_with(line)), "{arguments}: {err}");
        assert!(
            output.status.code() == Some(125) && !err.contains("panicked"),
            "{arguments}: {err}"
        );
    }
}
