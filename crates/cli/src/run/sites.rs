//! `--sysv`: the nodes are sites, which start the programs (ADR 55).

use super::error::LaunchError;
use super::options::RunArgs;
use super::{elf, program};
use crate::preload;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Puts the site before every program of a command line, if its programs are to run on sites.
///
/// # Errors
/// A program that is not on this host, if all nodes are.
pub(super) fn as_sites(args: &mut RunArgs) -> Result<(), LaunchError> {
    if !args.sysv {
        return Ok(());
    }
    let command = env::current_exe()
        .map_err(|error| LaunchError::Refused(format!("--sysv: /proc/self/exe: {error}")))?;
    let mut site = vec![command.into_os_string(), "site".into()];
    site.extend(args.segments.of_site());
    site.push("--".into());
    let (words, programs) = with_sites(&args.command, &site);
    if args.place.is_here() {
        guards()?;
        preload::library().map_err(LaunchError::Refused)?;
        programs.iter().try_for_each(|program| dynamic(program))?;
    }
    args.command = words;
    Ok(())
}

/// The same on this host of many, of a command line with a site; of another one nothing.
///
/// # Errors
/// The program cannot be a site's.
pub(super) fn check_site(command: &[Vec<u8>]) -> Result<(), LaunchError> {
    let own = env::current_exe().unwrap_or_default();
    let [program, site, words @ ..] = command else { return Ok(()) };
    if own.as_os_str().as_bytes() != program || site != b"site" {
        return Ok(());
    }
    guards()?;
    let program = words.iter().skip_while(|word| *word != b"--").nth(1);
    program.map_or(Ok(()), |program| dynamic(OsStr::from_bytes(program)))
}

/// Checks that a site may guard the memory of processes.
fn guards() -> Result<(), LaunchError> {
    multigrain_sysv::site::guards_processes().map_err(|(call, errno)| {
        LaunchError::Refused(format!(
            "--sysv needs userfaultfd for other processes, and {call} says: {errno}; run it as root, or with CAP_SYS_PTRACE"
        ))
    })
}

/// Checks that a program is there and can load a library before its own.
fn dynamic(program: &OsStr) -> Result<(), LaunchError> {
    let path = program::find(program)?;
    if elf::is_static(&path) {
        let why = "is linked statically, so that --sysv cannot take its System V calls: link it dynamically";
        return Err(LaunchError::NotExecutable { path, why });
    }
    if elf::is_linked_with_us(&path) {
        let why = "is linked with Multigrain, and --sysv is for programs of System V calls alone: start it without --sysv";
        return Err(LaunchError::NotExecutable { path, why });
    }
    let mode = path.metadata().map_or(0, |metadata| metadata.mode());
    if mode & SET_IDS != 0 {
        let why = "runs as another user or group (set-user-ID), so that --sysv cannot take its System V calls";
        return Err(LaunchError::NotExecutable { path, why });
    }
    Ok(())
}

/// Of a file's mode: its program runs as its owner, or its group.
const SET_IDS: u32 = 0o6000;

/// The words, and which of them are programs. What parts programs is checked later.
fn with_sites(words: &[OsString], site: &[OsString]) -> (Vec<OsString>, Vec<OsString>) {
    let (mut all, mut programs) = (Vec::new(), Vec::new());
    let mut words = words.iter().cloned().peekable();
    let mut is_wrong = false;
    loop {
        // What is wrong with a line is said of the line as it was written.
        let is_option = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with('-'));
        if let Some(program) =
            words.peek().filter(|word| *word != ":" && !is_option(word) && !is_wrong)
        {
            programs.push(program.clone());
            all.extend_from_slice(site);
        }
        loop {
            let Some(word) = words.next() else { return (all, programs) };
            let parts = word == ":";
            all.push(word);
            if parts {
                break;
            }
        }
        is_wrong = words.peek().is_none_or(|word| word != "-n");
        if !is_wrong {
            all.extend(words.by_ref().take(2));
            words.next_if(|word| *word == "--");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn every_program_of_a_line_gets_a_site() {
        let site = words("M site --");
        let placed = |line: &str| with_sites(&words(line), &site);
        assert_eq!(placed("./a -n 3"), (words("M site -- ./a -n 3"), words("./a")));
        let both = words("M site -- ./a 7 : -n 3 M site -- ./b c");
        assert_eq!(placed("./a 7 : -n 3 ./b c"), (both.clone(), words("./a ./b")));
        assert_eq!(placed("./a 7 : -n 3 -- ./b c"), (both, words("./a ./b")));
        assert_eq!(placed("./a :").0, words("M site -- ./a :"));
        assert_eq!(placed("./a : ./b").0, words("M site -- ./a : ./b"));
        assert_eq!(placed("./a : -n 1 -t ./b").0, words("M site -- ./a : -n 1 -t ./b"));
    }
}
