//! `multigrain doctor`: each finding is provoked, by limits, namespaces and filters, and named with what mends it.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use support::{Ended, does, multigrain, not_tried, run};

/// A directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// What the doctor says behind these words, in a shell where `$D` is the doctor.
fn behind(script: &str) -> Ended {
    let mut command = Command::new("bash");
    command.args(["-c", script]).env("D", format!("{} doctor", env!("CARGO_BIN_EXE_multigrain")));
    run(&mut command)
}

/// The same as root of namespaces: those of this test alone.
fn unshared(kind: &str, script: &str) -> Option<Ended> {
    let user = if rustix::process::geteuid().is_root() { "" } else { "--user --map-root-user" };
    if !Command::new("bash")
        .args(["-c", &format!("unshare {user} {kind} true")])
        .status()
        .unwrap()
        .success()
    {
        not_tried(&format!("no namespaces may be made (unshare {kind})"));
        return None;
    }
    Some(behind(&format!("exec unshare {user} {kind} bash -c '{script}'")))
}

/// The one line of a finding.
fn line<'a>(ended: &'a Ended, start: &str) -> &'a str {
    let mut found = ended.out.lines().filter(|line| line.starts_with(start));
    let line = found.next().unwrap_or_else(|| panic!("no line {start}: {ended:?}"));
    assert!(found.next().is_none(), "one line only: {ended:?}");
    line
}

#[test]
fn a_host_where_jobs_run_is_found_well_and_runs_one() {
    let ended = behind("$D");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.out.contains("prevents:"), "{ended:?}");
    assert!(ended.out.starts_with("limits: ") || ended.out.ends_with("all is well\n"), "{ended:?}");
    let ended = run(multigrain().args(["run", "-n", "2", "true"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = behind("$D --verbose");
    for check in [
        "kernel: Linux ",
        "pidfd_open: works",
        "addresses: address randomization is o",
        "address space: ",
        "shared memory: 65536 MiB",
        "userfaultfd: ",
        "scans: ",
        "mappings: vm.max_map_count is ",
        "/dev/shm: ",
        "huge pages: ",
        "file descriptors: ",
        "processes: ",
        "locked memory: ",
        "processors: ",
        "loopback: up",
        "interfaces: ",
    ] {
        assert!(ended.out.contains(&format!(" this host: {check}")), "{check}: {ended:?}");
    }
}

#[test]
fn a_job_starts_with_as_few_descriptors_as_the_doctor_lets_pass() {
    // None but the standard ones, whatever this test was given; then two more.
    let closed =
        r#"for at in /proc/self/fd/*; do [ ${at##*/} -lt 3 ] || eval "exec ${at##*/}>&-"; done"#;
    for (given, first) in [(0, closed.to_owned()), (2, format!("{closed}; exec 3>&1 4>&1"))] {
        for (nodes, least) in [(1, 17), (2, 22), (4, 30), (16, 78)] {
            let least = least + given;
            for limit in [least, least - 1] {
                let script = format!(
                    "{first}; ulimit -n {limit}; {0} doctor -n {nodes} >&2; [ $? = 78 ]; echo $?; {0} run -n {nodes} true 2>&1; \
                     echo $?",
                    env!("CARGO_BIN_EXE_multigrain")
                );
                let ended = run(Command::new("bash").args(["-c", &script]));
                let starts = ended.out.starts_with("1\n") && ended.out.ends_with("\n0\n");
                let does_not = ended.out.starts_with("0\n") && !ended.out.ends_with("\n0\n");
                assert!(
                    if limit == least { starts } else { does_not },
                    "{nodes} {limit}: {ended:?}"
                );
                let says = ended.err.contains(&format!("of {nodes}, need {least} at least; "));
                assert_eq!(says, limit != least, "{nodes} {limit}: {ended:?}");
            }
        }
    }
}

#[test]
fn limits_of_the_user_are_named_with_what_they_limit_and_what_raises_them() {
    for (limit, options, code, start, holds) in [
        (
            "ulimit -n 28",
            "-n 4",
            78,
            "prevents: this host: file descriptors: a process may have 28 (ulimit -Hn); 4 nodes here, of 4, \
             need 3",
            " at least; as root: echo '* hard nofile 264' > /etc/security/limits.d/multigrain.conf, and log in anew",
        ),
        (
            "ulimit -n 40",
            "-n 4",
            0,
            "limits:   this host: file descriptors: a process may have 40",
            "links to 4 nodes leave few for the program",
        ),
        (
            "ulimit -n 200",
            "-n 4",
            0,
            "limits:   this host: file descriptors: a process may have 200",
            "links to 4 nodes leave few for the program",
        ),
        (
            "ulimit -v 4000000",
            "--shared 1G",
            0,
            "limits:   this host: address space: a process may use 3906 MiB of addresses (ulimit -v)",
            "ulimit -v unlimited",
        ),
        ("ulimit -v 4000000", "", 78, "prevents: this host: shared memory: ", "no node can start"),
        (
            "ulimit -f 0",
            "",
            78,
            "prevents: this host: shared memory: 68719476736 shared bytes are more than `ulimit -f` allows",
            "say `ulimit -f unlimited`",
        ),
        (
            "ulimit -f 1000",
            "",
            78,
            "prevents: this host: shared memory: 68719476736 shared bytes are more than `ulimit -f` allows",
            "say `ulimit -f unlimited`",
        ),
        (
            "ulimit -l 16",
            "-v",
            0,
            "fine:     this host: locked memory: 16 KiB (ulimit -l)",
            "a program feels that locks its own",
        ),
        (
            "true",
            "-n 64 -t 100",
            0,
            "limits:   this host: processors: ",
            "for 6400 threads of the job; threads that wait take time from those that compute; start fewer",
        ),
        (
            "true",
            "-v ./no-such-program",
            78,
            "prevents: this host: program: ./no-such-program",
            "no such program",
        ),
        (
            "setarch --uname-2.6",
            "",
            0,
            "limits:   this host: kernel: Linux 2.6.",
            "; boot a newer kernel",
        ),
    ] {
        let then = if limit.starts_with("setarch") { "" } else { ";" };
        let ended = behind(&format!("{limit}{then} $D {options}"));
        assert_eq!(ended.code, Some(code), "{limit} {options}: {ended:?}");
        let said = line(&ended, start);
        assert!(said.contains(holds), "{said}");
    }
}

#[test]
fn a_user_with_few_processes_is_told() {
    if !rustix::process::geteuid().is_root() {
        not_tried("another user may be become by root only");
        return;
    }
    // A copy that every user may execute.
    let place = PathBuf::from(format!("/tmp/multigrain-doctor-{}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_multigrain"), &place).unwrap();
    fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).unwrap();
    let user = "setpriv --reuid 65533 --regid 65533 --clear-groups";
    let ended =
        behind(&format!("cd /; prlimit --nproc=10 {user} {} doctor -n 8 -t 2", place.display()));
    fs::remove_file(&place).unwrap();
    let said = line(
        &ended,
        "prevents: this host: processes: a user may have 10 with their threads (ulimit -u)",
    );
    assert!(
        said.ends_with("8 nodes of 2 threads need 80; ulimit -u 1024, or a higher limit as root"),
        "{said}"
    );
    assert_eq!(ended.code, Some(78));
}

#[test]
fn what_the_system_says_is_read_where_it_says_it() {
    let settings = directory("doctor-settings");
    for (name, text) in [("few", "1000\n"), ("huge", "always within_size [force] never\n")] {
        fs::write(settings.join(name), text).unwrap();
    }
    let at = settings.display();
    let shmem = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    for (script, start, end) in [
        (
            format!("mount --bind {at}/few /proc/sys/vm/max_map_count"),
            "limits:   this host: mappings: vm.max_map_count is 1000; ",
            "; sysctl -w vm.max_map_count=1048576",
        ),
        (
            format!("mount --bind {at}/huge {shmem}"),
            "limits:   this host: huge pages: force for shared memory; ",
            "; as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
        (
            "mount -t tmpfs -o size=1m none /dev/shm".to_owned(),
            "limits:   this host: /dev/shm: 1 MiB; ",
            "(in a container: docker run --shm-size 1g)",
        ),
    ] {
        let Some(ended) = unshared("--mount", &format!("{script} && $D")) else { return };
        let said = line(&ended, start);
        assert!(said.ends_with(end), "{said}");
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    for down in ["", "ip link set lo up && ip link set lo down && "] {
        let Some(ended) = unshared("--net", &format!("{down}$D")) else { return };
        let said = line(&ended, "limits:   this host: loopback: 127.0.0.1 cannot be reached");
        assert!(said.ends_with("; bring the loopback interface up (ip link set lo up)"), "{said}");
    }
}

/// Has a system call fail with EPERM, by its number, and becomes a command.
const FILTER: &str = include_str!("../../capi/tests/c/filter.c");

#[test]
fn what_a_filter_of_a_container_refuses_is_named() {
    let place = directory("doctor-filter");
    fs::write(place.join("filter.c"), FILTER).unwrap();
    let cc = Command::new("cc").current_dir(&place).args(["-o", "filter", "filter.c"]).status();
    assert!(cc.unwrap().success());
    let filter = place.join("filter");
    for (call, options, code, start, end) in [
        (
            libc::SYS_userfaultfd,
            "",
            0,
            "limits:   this host: userfaultfd: the uffd guard does not work here (userfaultfd: Operation not permitted",
            "; allow userfaultfd in the container's seccomp profile (Linux 6.4 or newer), or use --guard mprotect",
        ),
        (
            libc::SYS_userfaultfd,
            "",
            0,
            "limits:   this host: scans: writes cannot be found by scans here",
            "; that takes Linux 6.7 or newer, and userfaultfd allowed in containers",
        ),
        (
            libc::SYS_personality,
            "",
            0,
            "limits:   this host: addresses: address randomization is on, and `multigrain run` cannot switch it off for nodes (Operation not permitted",
            "set kernel.randomize_va_space to 0 (sysctl -w kernel.randomize_va_space=0)",
        ),
        (
            libc::SYS_pidfd_open,
            "",
            78,
            "prevents: this host: pidfd_open: this system or a filter of it refuses process descriptors",
            "; boot Linux 5.3 or newer, or allow pidfd_open in the container's seccomp profile",
        ),
        (
            libc::SYS_memfd_create,
            "",
            78,
            "prevents: this host: shared memory: no memory to share (memfd_create: Operation not permitted",
            "; no node can start; allow it in the container's seccomp profile",
        ),
    ] {
        let ended = behind(&format!("{} {call} $D {options}", filter.display()));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let said = line(&ended, start);
        assert!(said.ends_with(end), "{said}");
    }
}

/// The launcher behind a filter, with the built-in program of `inject` on three nodes.
fn filtered(name: &str, call: i64) -> impl Fn(&[&str]) -> Ended {
    let place = directory(name);
    fs::write(place.join("filter.c"), FILTER).unwrap();
    let cc = Command::new("cc").current_dir(&place).args(["-o", "filter", "filter.c"]).status();
    assert!(cc.unwrap().success());
    move |program| {
        let mut command = Command::new(place.join("filter"));
        command.arg(call.to_string()).arg(env!("CARGO_BIN_EXE_multigrain"));
        command.args(["run", "-n", "3", "--"]).args(program);
        run(command.stdin(Stdio::null()))
    }
}

/// Its counts are read by threads of other nodes.
const CHURN: [&str; 5] = [env!("CARGO_BIN_EXE_multigrain"), "inject", "churn", "--rounds", "50"];

#[test]
fn a_job_without_memory_objects_ends_with_the_cause_and_not_by_its_watchdog() {
    let run = filtered("no-memfd", libc::SYS_memfd_create);
    for _ in 0..5 {
        let ended = run(&["sh", "-c", "exit 7"]);
        assert_eq!(ended.code, Some(7), "what shares nothing needs none: {ended:?}");
        let ended = run(&CHURN);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("memfd") && !ended.err.contains("signal"), "{ended:?}");
    }
}

#[test]
fn a_call_that_a_filter_refuses_is_named_with_what_to_do() {
    for (call, line) in [
        (
            libc::SYS_pidfd_open,
            "boot Linux 5.3 or newer, or allow it in the container's seccomp profile",
        ),
        (libc::SYS_socketpair, "(os error 1); allow it in the container's seccomp profile"),
    ] {
        let ended = filtered(&format!("no-call-{call}"), call)(&["true"]);
        assert!(ended.code == Some(125) && ended.line().ends_with(line), "{ended:?}");
    }
}

#[test]
fn ports_that_are_taken_are_counted() {
    let socket = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let ended = behind(&format!("$D -n 2 --ports {port}-{port}"));
    let start = format!(
        "prevents: this host: ports: 0 of {port}-{port} are free; 2 nodes here need one each"
    );
    assert!(line(&ended, &start).ends_with("; give a wider range (--ports)"), "{ended:?}");
    assert_eq!(ended.code, Some(78));
    let ended = behind("$D --ports 9-8");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("the first port of a range is the lower one"), "{ended:?}");
}

/// A program whose loader, library or end is missing is found before any node starts; by `run`, too, where that costs no more
/// than a look at the file.
#[test]
fn a_program_that_cannot_be_loaded_prevents_a_job() {
    let directory = directory("loaders");
    let script = format!(
        "set -e; cd {}; echo 'int part(void) {{ return 0; }}' > part.c; \
         printf 'int part(void);\\nint main(void) {{ return part(); }}\\n' > whole.c; \
         cc -shared -fPIC part.c -o libpart.so; cc whole.c -L. -lpart -o no-library; \
         cc -Dpart=own whole.c -x c <(echo 'int own(void) {{ return 0; }}') \
             -Wl,--dynamic-linker=/no/loader.so -o no-loader; \
         cc whole.c -L. -lpart -Wl,-rpath,$PWD -o cut; \
         truncate -s $(($(stat -c %s cut) / 2)) cut; \
         cc whole.c -L. -lpart -Wl,-rpath,$PWD -o good",
        directory.display()
    );
    let built = behind(&script);
    assert_eq!(built.code, Some(0), "{built:?}");
    let says = |command: &str| behind(&format!("cd {}; {command}", directory.display()));
    assert_eq!(says("$D ./good").code, Some(0));
    for (program, why, code) in [
        ("no-library", "libpart.so: cannot open shared object file", 127),
        ("no-loader", "the interpreter its first line or its ELF header names is missing", 127),
        ("cut", "not a program this machine can execute: its end is missing", 126),
    ] {
        let ended = says(&format!("$D ./{program}"));
        let start = format!("prevents: this host: program: ./{program}: ");
        assert!(line(&ended, &start).contains(why), "{ended:?}");
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let ended = says(&format!("${{D% doctor}} run -n 2 ./{program}"));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let lines = ended.err.lines().filter(|line| line.contains(why)).count();
        assert!(lines == 1 || (lines == 2 && program == "no-library"), "{ended:?}");
    }
}

/// Of each of these the doctor said that all is well.
#[test]
fn what_is_no_program_and_what_knows_nothing_of_multigrain_is_named() {
    let directory = directory("programs");
    let script = format!(
        "set -e; cd {}; echo 'int main(void) {{ return 0; }}' > plain.c; cc plain.c -o plain; \
         cc -shared -fPIC plain.c -o library.so; echo 'echo hello' > text; chmod +x text; \
         cp plain class; printf '\\7' | dd of=class bs=1 seek=4 conv=notrunc; \
         cp plain headers; printf '\\0\\0' | dd of=headers bs=1 seek=56 conv=notrunc",
        directory.display()
    );
    let built = behind(&script);
    assert_eq!(built.code, Some(0), "{built:?}");
    let says = |command: &str| behind(&format!("cd {}; $D {command}", directory.display()));
    const BROKEN: &str = "not a program this machine can execute: its ELF header contradicts itself; no node can start; copy or link it again";
    const LIBRARY: &str = "not a program this machine can execute: a library, which has no entry point; no node can start; name a program that is linked with it";
    for (program, line_of_it) in
        [("./library.so", LIBRARY), ("./class", BROKEN), ("./headers", BROKEN)]
    {
        let ended = says(program);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let start = format!("prevents: this host: program: {program}: ");
        assert_eq!(line(&ended, &start), format!("{start}{line_of_it}"));
    }
    for (program, found) in [
        ("./text", "is text without #!; /bin/sh runs it as a script; write #!/bin/sh in its "),
        ("./plain", "is not linked with Multigrain; its nodes are as many copies that share "),
    ] {
        let ended = says(program);
        assert_eq!(ended.code, Some(0), "it runs: {ended:?}");
        line(&ended, &format!("limits:   this host: program: {program} {found}"));
    }
    let command = env!("CARGO_BIN_EXE_multigrain");
    for fine in [&format!("-v {command}"), "-v --sysv ./plain", "-v /usr/bin/ldd"] {
        let ended = says(fine);
        line(&ended, "fine:     this host: program: can be executed");
    }
}

#[test]
fn json_has_every_finding() {
    let ended = behind("$D --json -n 2");
    let said: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&said["command"], &said["runs"]), (&"doctor".into(), &true.into()));
    let findings = said["hosts"][0]["findings"].as_array().unwrap();
    let find = |check: &str| findings.iter().find(|one| one["check"] == check).unwrap();
    assert!(findings.len() >= 16, "{said}");
    assert_eq!(find("loopback")["level"], "fine");
    assert_eq!(find("loopback")["found"], "up");
}

/// HOST COMMAND: a host of its own environment, as in `hosts.rs`; its clock differs by what a file says.
const HOST: &str = r#"#!/bin/bash
host=$1; shift
case $host in
locked) echo "Permission denied (publickey)." >&2; exit 255;;
old) echo "multigrain agent, build 1234"; exec cat;;
deaf) exec sleep 600;;
small) ulimit -n 16;;
early) export LD_PRELOAD=$HOSTS/clock.so;;
slow) sleep 3;;
other) echo; echo "Another program, version 7"; exit 0;;
talks) echo "Another program, version 7"; exec sleep 600;;
lacks) agent=${*#*\'}; exec bash -c "exec '/no/such/host${agent%%\'*}'";;
no-proc) exec unshare --mount bash -c "mount -t tmpfs none /proc && $*";;
fd77*) echo "ssh: connect to host $host: Network is unreachable" >&2; exit 255;;
terminal) exec script -qec "$*" /dev/null;;
esac
exec env -u LD_LIBRARY_PATH PATH="$HOSTS/$host:$PATH" setsid -w bash -c "$*"
"#;

/// The clock of one host: forty days behind.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    int done = syscall(SYS_clock_gettime, id, at);
    if (id == CLOCK_REALTIME) at->tv_sec -= 40 * 86400;
    return done;
}
"#;

/// Hosts that this script makes, and what is on them.
fn hosts() -> &'static PathBuf {
    static HOSTS: OnceLock<PathBuf> = OnceLock::new();
    HOSTS.get_or_init(|| {
        let place = directory("doctor-hosts");
        for (name, text) in [
            ("ssh", HOST),
            ("a/program", "#!/bin/sh\necho one\n"),
            ("b/program", "#!/bin/sh\necho two\n"),
            ("b/only-b", "#!/bin/sh\necho two\n"),
            ("part.c", "int part(void) { return 0; }\n"),
            ("whole.c", "int part(void);\nint main(void) { return part(); }\n"),
            ("clock.c", CLOCK),
        ] {
            let path = place.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let compile = "set -e; cc -shared -fPIC clock.c -o clock.so; mkdir -p lib; \
                       cc -shared -fPIC part.c -o lib/libpart.so; cc whole.c -Llib -lpart -o whole";
        let compiled = Command::new("bash").current_dir(&place).args(["-c", compile]).status();
        assert!(compiled.unwrap().success());
        place
    })
}

/// A command over these hosts, where they have a library that only a variable of this one leads to.
fn over_hosts(words: &str, program: &[&str]) -> Ended {
    let mut command = multigrain();
    command.args(words.split_whitespace()).arg("--launcher-command").arg(hosts().join("ssh"));
    command.env("HOSTS", hosts()).env("LD_LIBRARY_PATH", hosts().join("lib"));
    run(command.current_dir(hosts()).args(program))
}

#[test]
fn all_hosts_of_a_job_are_examined_and_compared() {
    let nosuch = ["doctor", "--hosts", "a,b", "--launcher-command", "nosuch x"];
    let ended = run(multigrain().args(nosuch));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let said = line(&ended, "prevents: b: reached: --launcher-command nosuch x: no such program");
    assert!(said.contains("; --launcher-command names a program of this host"), "{said}");

    let ended = over_hosts("doctor --hosts a:2,b -v", &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for start in [
        "fine:     a: reached: its multigrain is the same as this one",
        "fine:     b: clock: as here",
        "fine:     a: meeting at: 127.0.0.1",
    ] {
        line(&ended, start);
    }
    // It was 2 s behind.
    let ended = over_hosts("doctor --hosts a,slow -v", &[]);
    line(&ended, "fine:     a: clock: as here");
    line(&ended, "fine:     slow: clock: as here");

    let ended = over_hosts("doctor --hosts a,b --interface nix0", &[]);
    let said = line(&ended, "prevents: a: meeting at: it has no address on the interface nix0");
    assert!(said.contains("; nodes of other hosts do not find it; "), "{said}");
}

/// Each of them is asked, whatever becomes of the others.
#[test]
fn a_host_without_an_agent_or_with_little_is_named_with_what_to_do() {
    let hosts = "locked,old,deaf,small,early,other,talks,lacks,fd77::2:2,a";
    let ended = over_hosts(&format!("doctor --boot-timeout 3 --hosts {hosts}"), &[]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    for (start, holds) in [
        (
            "prevents: locked: reached: ",
            "Permission denied (publickey).; no node runs there; see what '",
        ),
        (
            "prevents: old: reached: ",
            "its multigrain is another than this one (build 1234 and build ",
        ),
        ("prevents: deaf: reached: ", "no answer in 3 s; no node runs there; try to log in there"),
        ("prevents: other: reached: ", ", but 'Another program, version 7' was said; "),
        ("prevents: talks: reached: ", "no answer in 3 s but 'Another program, version 7'; "),
        ("prevents: lacks: reached: ", "; install this build there, at the same path: /"),
        (
            "prevents: fd77::2:2: reached: ",
            ", or write [fd77::2]:2 if 2 slots at fd77::2 are meant",
        ),
        ("prevents: small: file descriptors: ", "a process may have 16 (ulimit -Hn)"),
        (
            "prevents: early: clock: ",
            "certificates of a job are not valid yet there, or no more; timedatectl",
        ),
    ] {
        assert!(line(&ended, start).contains(holds), "{start}: {ended:?}");
    }
    assert!(!ended.out.contains("prevents: a:"), "{ended:?}");
    let no_proc = unshared("--mount", "mount -t tmpfs none /proc");
    if rustix::process::geteuid().is_root() && no_proc.is_some_and(|it| it.code == Some(0)) {
        let ended = over_hosts("doctor --hosts a,no-proc", &[]);
        let said = line(&ended, "prevents: no-proc: reached: no agent could be started");
        assert!(said.contains("/proc/self/exe is missing: mount /proc"), "{said}");
    }
}

/// A request that held a ^S kept its agent from saying a word until it gave up, after 10 s.
#[test]
fn a_terminal_on_the_way_is_named_at_once() {
    if !does("script --version") {
        return not_tried("there is no script (util-linux)");
    }
    let ended = over_hosts("doctor --hosts a,terminal -n 2 -t 19", &[]);
    let said =
        line(&ended, "prevents: terminal: reached: something on the way changes what it says");
    let (what, remedy) = ("as a terminal does (ssh -t)", "; leave that out");
    assert!(said.contains(what) && said.ends_with(remedy), "{said}");
}

#[test]
fn a_program_that_a_host_lacks_or_cannot_load_is_named_with_what_to_do() {
    let ended = over_hosts("doctor --hosts a,b", &["program"]);
    let said = line(&ended, "prevents: b: program: the program ");
    assert!(
        said.contains(" on b is another than ") && said.ends_with("; put the same on all hosts"),
        "{said}"
    );
    assert_eq!(ended.code, Some(78));
    let ended = over_hosts("doctor --hosts a,b", &["only-there"]);
    assert!(line(&ended, "prevents: a: program: ").contains("no such program"), "{ended:?}");
    let ended = over_hosts("doctor --hosts a,b", &["only-b"]);
    let said = line(&ended, "prevents: a: program: only-b: no such program; ");
    assert!(said.ends_with("; it is on b: copy it to the same place"), "{said}");
    let ended = over_hosts("doctor --hosts a,b,c", &["true"]);
    assert_eq!(ended.out.matches("is not linked with Multigrain").count(), 1, "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");

    let ended = over_hosts("doctor --hosts a,b", &["./whole"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let advice = "; put the library where it is looked for, pass on what is set here (-x LD_LIBRARY_PATH), or link with -Wl,-rpath";
    assert!(line(&ended, "prevents: a: program: ./whole: ").ends_with(advice), "{ended:?}");
    let ended = over_hosts("run --hosts a,b", &["./whole"]);
    assert!(ended.line().ends_with(advice), "{ended:?}");
    let ended = over_hosts("doctor -x LD_LIBRARY_PATH --hosts a,b -v", &["./whole"]);
    line(&ended, "fine:     a: program: the same build as on other hosts");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = over_hosts("run -x LD_LIBRARY_PATH --hosts a,b", &["./whole"]);
    assert_eq!((ended.code, ended.own_lines().len()), (Some(0), 0), "{ended:?}");
}
