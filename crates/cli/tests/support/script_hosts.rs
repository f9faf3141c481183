//! Simulated hosts: in place of ssh, a script runs the agent here, in a session and with an environment of its own, as
//! on another host. So the tests run everywhere.

use super::multigrain;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// HOST COMMAND, between two processes that pass everything on and can be stopped: a link that can be cut.
const HOST: &str = r#"#!/bin/bash
host=$1; shift
case $host in
old) printf 'multigrain agent, build 12\a34\n'; exec cat;;
deaf) exec sleep 600;;
quiet) exit 0;;
null) exec env -i bash -c "$*" < /dev/null;;
unheard) : | env -i bash -c "$*"; exit;;
late) sleep 1;;
bare) PATH=/usr/bin:/bin;;
tight) ulimit -n 12;;
limit*) for at in /proc/self/fd/*; do [ ${at##*/} -lt 3 ] || eval "exec ${at##*/}>&-"; done; ulimit -n ${host#limit};;
liar)
    agent=${*#*\'}; agent=${agent%%\'*}
    build=$("$agent" --version); build=${build#*(}
    # A refusal with exit code 0, in red: four bytes of length, the CRC-32, then the event as postcard has it.
    echo "multigrain agent, ${build%)}"; printf '\x0b\0\0\0\x31\xdb\xa4\x2b\x07\0\x08\e[31mred'; exec cat > /dev/null;;
changes) first='head -c 300; head -c 1 | tr "\0-\377" "\1-\377\0"';;
far) before="strace -f -o /dev/null -e trace=chdir -e inject=chdir:delay_enter=6000000";;
many) before="strace -f -o /dev/null -e trace=getdents64 -e inject=getdents64:delay_enter=1500000";;
mute) last="read -r banner; echo \"\$banner\"; exec sleep 600";;
slow) before="strace -f -o /dev/null -e trace=execve -e inject=execve:delay_enter=900000";;
locked) echo "Permission denied (publickey)." >&2; exit 255;;
esac
echo "Welcome to $host, where the shell says something"
(eval "$first"; exec -a "link-$host-$MARK" cat) |
    env -i PATH="$HOSTS/$host:$PATH" LD_LIBRARY_PATH="$HOSTS/$host" setsid -w $before bash -c "$*" |
    (eval "$last"; exec -a "link-$host-$MARK" cat)
"#;

/// A directory with the script, and what is on one host only: a directory of its name in the PATH there.
pub(crate) fn hosts() -> &'static PathBuf {
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
pub(crate) fn job(options: &str, mark: &str) -> Command {
    let mut command = multigrain();
    command.args(["run", "--launcher-command"]).arg(hosts().join("ssh"));
    command.args(options.split_whitespace()).env("MARK", mark).env("HOSTS", hosts());
    command
}

/// The same of a shell script as the program.
pub(crate) fn script(options: &str, mark: &str, script: &str) -> Command {
    let mut command = job(options, mark);
    command.args(["--", "bash", "-c", script]);
    command
}

pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
