//! What is wrong with a command line, or with a limit that the command is under, as one line that says what to do. What
//! clap knows is in its own words; options and commands as other launchers have them are named with what they are called
//! here.

use crate::{Cli, output_errors};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};
use multigrain_types::PAGE_BYTES;
use multigrain_types::exit_codes::{LAUNCHER_FAILED, WRONG_USE};
use rustix::fs::{Mode, OFlags};
use rustix::process::Resource;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

const RUN: &str = "multigrain run -n 2 ./app";

/// Options of other launchers, and what they are here.
const OTHER_LAUNCHERS: &[(&[&str], &str)] = &[
    (
        &["-np", "--np", "-N", "-c", "--ntasks"],
        "the number of nodes is -n: multigrain run -n 2 ./app",
    ),
    (&["-H", "-host", "--host"], "hosts are named by --hosts a:2,b:2"),
    (&["-f", "-machinefile", "--machinefile"], "a file of hosts is named by --hostfile FILE"),
    (
        &["-ppn", "-perhost", "-npernode", "--npernode"],
        "nodes a host are its slots: --hosts a:2,b:2",
    ),
    (&["-genv", "-e"], "a variable is set by -x VAR=VALUE"),
    (&["-v", "--verbose"], "--summary says what the nodes did"),
];

/// The stack that the launcher needs.
const LEAST_STACK: u64 = 256 << 10;

/// Ends the process with a line where its stack would overflow.
pub(crate) fn end_without_stack() {
    let stack = rustix::process::getrlimit(Resource::Stack).current;
    if let Some(bytes) = stack.filter(|bytes| *bytes < LEAST_STACK) {
        let (kib, least) = (bytes >> 10, LEAST_STACK >> 10);
        eprintln!(
            "multigrain: a stack of {kib} KiB is too small: say `ulimit -s 8192`, or at least {least}"
        );
        std::process::exit(LAUNCHER_FAILED.into())
    }
}

/// Addresses, and bytes of data, that a command is to have left: a launcher of 256 nodes takes 2 MiB, and the stack and
/// heap of its second thread.
const LEAST_ROOM: u64 = 8 << 20;

/// Ends the process with a line where its first allocations would fail, of which nothing can be said then. Allocates
/// nothing itself.
pub(crate) fn end_without_room() {
    for (resource, column, flag) in [(Resource::As, 0, "-v"), (Resource::Data, 5, "-d")] {
        let Some(limit) = rustix::process::getrlimit(resource).current else { continue };
        let least = pages_used(column).unwrap_or(0) * PAGE_BYTES as u64 + LEAST_ROOM;
        if limit < least {
            let (kib, least) = (limit >> 10, least >> 10);
            eprintln!(
                "multigrain: a limit of {kib} KiB is too small (ulimit {flag}): say `ulimit {flag} unlimited`, or at \
                 least {least}, and more for the nodes, which inherit it"
            );
            std::process::exit(LAUNCHER_FAILED.into())
        }
    }
}

/// A column of /proc/self/statm: pages of this process. None where it cannot be read.
fn pages_used(column: usize) -> Option<u64> {
    let file =
        rustix::fs::open(c"/proc/self/statm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut text = [0; 256];
    let bytes = rustix::io::read(file.ok()?, &mut text).ok()?;
    let text = core::str::from_utf8(text.get(..bytes)?).ok()?;
    text.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// Ends the process with the mistake in one line, or as clap does where there is none: after `--help`, say.
pub(crate) fn end(error: Error, words: &[OsString]) -> ExitCode {
    let words: Vec<&str> = words.iter().map_while(|word| word.to_str()).collect();
    let error = with_hint(error, &words);
    match line(&error, &words) {
        Some(line) => {
            eprintln!("multigrain: {line}");
            WRONG_USE.into()
        }
        None => output_errors::or_lost(
            error.print(),
            if error.use_stderr() { WRONG_USE } else { 0 }.into(),
        ),
    }
}

/// The mistake, if it is one.
fn line(error: &Error, words: &[&str]) -> Option<String> {
    let (first, others) = words.split_first()?;
    let known = Cli::command();
    let command = known.find_subcommand(first);
    let hint = match command {
        Some(command) => of_other_launchers(error, command, others),
        None => no_command(error, &known, first),
    };
    let is_mistake =
        error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    hint.or_else(|| is_mistake.then(|| in_one_line(error, command)))
}

/// What the word that the error is about is called here, if it is an option as other launchers have it.
fn of_other_launchers(error: &Error, command: &Command, words: &[&str]) -> Option<String> {
    if !["run", "doctor"].contains(&command.get_name()) {
        return None;
    }
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let lacking = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(lacking)) => lacking.as_slice(),
            Some(_) | None => &[],
        };
        if let Some(option) = lacking.iter().find(|lacking| lacking.starts_with("--")) {
            let segments = words.iter().find(|word| word.starts_with("--segment-"));
            let name = segments.and_then(|word| word.split('=').next()).unwrap_or("an option");
            return Some(format!("{name} needs {option}, whose segments it is about"));
        }
        let taken = words.split_last_chunk().and_then(|(_, [option, value])| {
            let takes = option.starts_with('-') && !value.starts_with('-');
            let is_one = *option == "-x" || value.contains('/');
            (takes && is_one).then(|| format!(" ({option} took {value} for its own value)"))
        });
        let taken = taken.unwrap_or_default();
        return Some(format!("{} needs a program{taken}: {RUN}", command.get_name()));
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(_) | None => None,
    };
    // Where short options are written together, clap has one letter, or takes the others for its value.
    let kind = error.kind();
    let is_it = |word: &&&str| {
        if kind == ErrorKind::UnknownArgument {
            let option = text(ContextKind::InvalidArg).unwrap_or_default();
            let is_long = option.starts_with("--");
            if is_long { word.split('=').next() == Some(option) } else { word.starts_with(option) }
        } else if kind == ErrorKind::InvalidValue || kind == ErrorKind::ValueValidation {
            let value = text(ContextKind::InvalidValue);
            !word.starts_with("--") && word.get(2..).is_some_and(|rest| Some(rest) == value)
        } else {
            kind == ErrorKind::DisplayHelp && word.starts_with("-h")
        }
    };
    let word = words.iter().find(is_it)?;
    let name = word.split('=').next()?.trim_end_matches(|c: char| c.is_ascii_digit());
    let there_is_none = format!("there is no option {name}");
    if let Some((_, hint)) = OTHER_LAUNCHERS.iter().find(|(names, _)| names.contains(&name)) {
        return Some(format!("{there_is_none}; {hint}"));
    }
    let long = name.strip_prefix('-').filter(|name| name.len() > 1)?;
    has_long(command, long).then(|| format!("{there_is_none}; it has two dashes: --{long}"))
}

/// What was given in the place of a command, if that is a program, a number of nodes or an option of `run`.
fn no_command(error: &Error, known: &Command, word: &str) -> Option<String> {
    let name = word.trim_start_matches('-').split('=').next()?;
    let letter = word.chars().nth(1).filter(|_| word.starts_with('-'));
    let run = known.find_subcommand("run")?;
    if has_long(run, name) && letter.is_some() {
        return Some(format!("options follow the command: {RUN} (multigrain run --help)"));
    }
    if !error.use_stderr() {
        return None;
    }
    match letter {
        Some('v') => Some("there is no option -v; the version is said by multigrain -V".to_owned()),
        Some('n' | 't' | 'x' | 'N') => Some(format!("options follow the command: {RUN}")),
        Some(_) => None,
        None => {
            let starters = ["mpirun", "mpiexec", "srun", "start", "launch", "exec"];
            let runs = starters.contains(&word) || word.parse::<u32>().is_ok();
            let is_program = word.contains('/') || Path::new(word).is_file();
            let line = format!("{word} is no command of multigrain; a program is run by {RUN}");
            (runs || is_program).then_some(line)
        }
    }
}

fn has_long(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(name))
}

/// Names the command that was meant where letters have changed places, which clap takes for no likeness.
fn with_hint(mut error: Error, words: &[&str]) -> Error {
    // Clap says how a word would be an argument of the program, which nobody meant before it.
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let commands = Cli::command();
    let inner = |command, word: &&str| Command::find_subcommand(command, word).unwrap_or(command);
    let known = words
        .iter()
        .fold(&commands, inner)
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let distance = |name: &str| strsim::damerau_levenshtein(name, given);
    let nearest = known.map(Command::get_name).min_by_key(|name| distance(name));
    if let Some(name) = nearest.filter(|name| distance(name) <= 2) {
        let hint = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, hint);
    }
    error
}

/// What Rust says of a number, in words of the user.
fn of_number(said: &str, error: &Error) -> String {
    let value = error.get(ContextKind::InvalidValue);
    let is_below_0 = matches!(value, Some(ContextValue::String(text)) if text.starts_with('-'));
    let digits = if is_below_0 { "it is below 0" } else { "it is no number" };
    let said = said
        .replace("invalid digit found in string", digits)
        .replace("invalid float literal", "it is no number")
        .replace("number too large to fit in target type", "it is too large");
    // A range without an end of its own.
    let Some((before, after)) = said.split_once(&format!("..{}", u64::MAX)) else { return said };
    let (what, least) = before.rsplit_once(' ').unwrap_or(("", before));
    let what = what.strip_suffix(" is not in").unwrap_or(what);
    format!("{what} is not {least} or more{after}")
}

/// What clap says, without the usage.
fn in_one_line(error: &Error, command: Option<&Command>) -> String {
    let text = error.to_string();
    let mut said = String::new();
    let what = text.lines().take_while(|line| !line.is_empty());
    let tips = text.lines().filter(|line| line.trim_start().starts_with("tip: "));
    for (number, line) in what.chain(tips).map(str::trim).enumerate() {
        let separator = if line.starts_with("tip: ") { "; " } else { " " };
        said.push_str(if number == 0 { "" } else { separator });
        said.push_str(line.trim_start_matches("error: ").trim_start_matches("tip: "));
    }
    let said = of_number(&said, error).replace("..=", " to ");
    let name = command.map_or_else(String::new, |command| format!("{} ", command.get_name()));
    format!("{said}; see multigrain {name}--help")
}
