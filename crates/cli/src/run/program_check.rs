//! What `multigrain doctor` looks at of the program that is to run, beside what `multigrain run` does: that would cost every
//! job a process more.

use super::{elf, executable, program};
use crate::host::Finding;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// The name of the check.
pub(super) const CHECK: &str = "program";

/// The file, and what its user should know of it. `variables`: what `-x` gives it; `sysv`: it need know nothing of Multigrain.
///
/// # Errors
/// No node can start: why, in words.
pub(super) fn check(
    name: &OsStr,
    variables: &[(String, String)],
    sysv: bool,
) -> Result<(PathBuf, Vec<Finding>), String> {
    let path = program::find(name).map_err(|error| error.to_string())?;
    let at = path.display();
    let limits = |found: &str, limits, remedy| {
        Finding::limits(CHECK, format!("{at} {found}"), limits, remedy)
    };
    if executable::is_text_without_interpreter(&path) {
        let remedy = "write #!/bin/sh in its first line, or name the program that is meant";
        let finding = limits("is text without #!", "/bin/sh runs it as a script", remedy);
        return Ok((path, vec![finding]));
    }
    let listed = elf::listed_libraries(&path, variables).ok().flatten();
    if let Some(why) = listed.as_ref().and_then(|output| elf::refusal(&path, output)) {
        return Err(format!("{at}: {why}; {}", elf::LOAD_ADVICE));
    }
    if let Some(signal) = listed.as_ref().and_then(|output| output.status.signal()) {
        let name = super::signalfd::name(signal);
        return Err(format!("{at}: its loader ends by {name}; copy or link it again"));
    }
    let mut findings = Vec::new();
    if !sysv && elf::is_without_us(&path, listed.as_ref()) {
        findings.push(limits(
            "is not linked with Multigrain",
            "its nodes are as many copies that share nothing, unless it loads the library itself",
            "cc app.c -o app $(pkg-config --cflags --libs multigrain)",
        ));
    }
    Ok((path, findings))
}
