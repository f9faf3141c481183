//! `multigrain man`: the manual pages, made from the declarations of `--help` and from `multigrain.h`, and the
//! completion scripts of shells.

mod library;
mod overview;

use anyhow::{Context, Result};
use clap::{Arg, Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use multigrain_types::exit_codes::MEANINGS;
use std::fs;
use std::path::Path;

/// The variables of a node; those of the launcher's contract come first.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("MULTIGRAIN_RANK", "This node's rank, 0 to N - 1."),
    ("MULTIGRAIN_NODES", "N."),
    ("MULTIGRAIN_THREADS", "Threads each node is meant to run (--threads)."),
    ("MULTIGRAIN_JOB", "The job's id: 32 hexadecimal digits."),
    (
        "MULTIGRAIN_SECRET_FD",
        "Descriptor of a pipe that holds what the node proves itself with: a line with 64 hexadecimal digits that only nodes of \
         the job know, and one with its certificate, its key and the job's authority, which is empty where it needs none \
         (--encrypt). mg_init closes it, and takes the variable out of the environment.",
    ),
    (
        "MULTIGRAIN_PEERS",
        "Addresses of all nodes by rank, separated by commas: unix:@NAME or tcp:HOST:PORT.",
    ),
    ("MULTIGRAIN_LISTEN_FD", "Descriptor of this node's own socket, bound and listening."),
    (
        "MULTIGRAIN_CONTROL_FD",
        "Descriptor of the stream to the launcher; its end means that the launcher is gone.",
    ),
    (
        "MULTIGRAIN_PROGRAMS",
        "Where the ranks of a job of several programs begin: addresses of functions differ between them.",
    ),
    ("MULTIGRAIN_TRANSPORT", "What makes links to the addresses of peers (--transport)."),
    ("MULTIGRAIN_EMULATE", "The network that links are to be like (--emulate), such as 50us,10G."),
    (
        "MULTIGRAIN_HANDSHAKE",
        "off, or the bytes of a part: longer contents are acknowledged part by part (--handshake).",
    ),
    ("MULTIGRAIN_GUARD", "auto, uffd or mprotect (--guard)."),
    ("MULTIGRAIN_PATH", "memfd, file, sysv or mdup (--path)."),
    ("MULTIGRAIN_TRACKING", "faults or scans (--tracking)."),
    ("MULTIGRAIN_WAIT", "spin, yield, block or adaptive (--wait)."),
    ("MULTIGRAIN_SERVICE", "blocked, polling or helping (--service)."),
    ("MULTIGRAIN_MANAGER", "auto, first, spread, block or allocator (--manager)."),
    ("MULTIGRAIN_LEARN", "on or off (--learn)."),
    (
        "MULTIGRAIN_CONSISTENCY",
        "sequential, eager-release, lazy-release or auto (--consistency), where an allocation does not \
         say it.",
    ),
    ("MULTIGRAIN_CHECK_RACES", "on or first, all or off (--check-races)."),
    (
        "MULTIGRAIN_SHARING",
        "on or off: what the line `sharing` of --summary is made of is counted.",
    ),
    ("MULTIGRAIN_SHARED", "Size of the shared address space, with the suffixes of --shared."),
    ("MULTIGRAIN_CHUNK", "Chunking level (--chunk)."),
    ("MULTIGRAIN_BOOT_SECONDS", "--boot-timeout, in seconds."),
    ("MULTIGRAIN_INTERFACE", "--interface."),
    ("MULTIGRAIN_PORTS", "--ports."),
    (
        "MULTIGRAIN_ENCRYPT",
        "--encrypt; programs that a process manager starts read all of these but the contract at the head too (docs/CLUSTER.md).",
    ),
];

const SIGNALS: &str = "INT, QUIT, TERM, HUP, USR1 and USR2 are handed on to the process groups of \
    all nodes; any other does to the launcher what it does to any program, and where it ends the launcher \
    (ALRM, XCPU) the nodes end with it. A second Ctrl-C within two seconds kills the nodes. Ctrl-Z stops the nodes with the \
    launcher. When a node fails, the others get SIGTERM and after half a second (--kill-after) SIGKILL. No \
    process of a job outlives it, not even if the launcher is killed.";

/// One page per visible command, nested ones too, and those of the C interface.
pub(crate) fn write_pages(directory: &Path) -> Result<()> {
    make(directory)?;
    let mut main = crate::Cli::command().disable_help_subcommand(true);
    main.build();
    write_command(directory, "multigrain", main)?;
    write(directory, "multigrain.7", &overview::page())?;
    for (name, page) in library::pages() {
        write(directory, &name, &page)?;
    }
    Ok(())
}

/// The page of a command, and those of the commands below it, to which it refers.
fn write_command(directory: &Path, name: &str, command: Command) -> Result<()> {
    let command = command.disable_help_subcommand(true);
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    let below: Vec<Command> = visible.cloned().collect();
    write_page(directory, name, command)?;
    for command in below {
        let name = format!("{name}-{}", command.get_name());
        write_command(directory, &name, command)?;
    }
    Ok(())
}

/// One file per shell, of the name under which it looks for it.
pub(crate) fn write_completions(directory: &Path) -> Result<()> {
    make(directory)?;
    // Hidden commands and options are for nobody to type.
    let whole = crate::Cli::command();
    let visible = whole.get_subcommands().filter(|command| !command.is_hide_set());
    let visible = visible.map(without_hidden).collect::<Vec<_>>();
    let top = Command::new("multigrain").version(env!("CARGO_PKG_VERSION"));
    let mut main = top.disable_help_subcommand(true).subcommands(visible);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut main, "multigrain", directory)
            .with_context(|| format!("cannot write the completions of {shell}"))?;
    }
    // Where bash-completion looks for those of a command.
    let (from, to) = (directory.join("multigrain.bash"), directory.join("multigrain"));
    fs::rename(&from, &to).with_context(|| format!("cannot write {}", to.display()))
}

/// The same command for shells, which know nothing of what goes with what.
fn without_hidden(command: &Command) -> Command {
    if !command.get_arguments().any(Arg::is_hide_set) {
        return command.clone();
    }
    let name: &'static str = command.get_name().to_owned().leak();
    let visible = command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned();
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(name).about(about).args(visible.collect::<Vec<_>>())
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}

fn write(directory: &Path, name: &str, page: &[u8]) -> Result<()> {
    let path = directory.join(name);
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}

fn write_page(directory: &Path, name: &str, command: Command) -> Result<()> {
    let is_run = name == "multigrain-run";
    let man = Man::new(command).title(name).date("").manual("Multigrain");
    let mut page = Vec::new();
    man.render(&mut page)?;
    if is_run {
        let mut more = Roff::new();
        table(&mut more, "EXIT STATUS", MEANINGS);
        more.control("SH", ["ENVIRONMENT"]);
        more.text([roman(
            "The launcher sets these for every node, those of options where they are given, but for the last three, which are its own. All but the contract, which \
             is RANK, NODES, JOB, SECRET_FD, PEERS, LISTEN_FD, CONTROL_FD and PROGRAMS, may also be set by the user; options \
             win over them. A name that is nearly one of those that the user may set is named on stderr.",
        )]);
        entries(&mut more, ENVIRONMENT);
        more.control("SH", ["SIGNALS"]);
        more.text([roman(SIGNALS)]);
        more.to_writer(&mut page)?;
    }
    write(directory, &format!("{name}.1"), &page)
}

fn table(roff: &mut Roff, title: &str, rows: &[(&str, &str)]) {
    roff.control("SH", [title]);
    entries(roff, rows);
}

fn entries(roff: &mut Roff, rows: &[(&str, &str)]) {
    for (term, text) in rows {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*text)]);
    }
}
