//! What an agent finds out about its host where no job is to run (`multigrain doctor`).

use super::super::super::program_check;
use super::super::builds;
use super::super::messages::{Examination, Examined};
use crate::host;
use multigrain_transport::interfaces::HostAddresses;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

/// How this host is.
///
/// # Errors
/// There is no /proc, in words.
pub(super) fn examine(examination: &Examination) -> Result<Examined, String> {
    let addresses = HostAddresses::of_this_host();
    let addresses = addresses.map_err(|error| format!("the network interfaces: {error}"))?;
    let findings = host::examine(&examination.needs);
    let program = examination.program.as_ref().map(|program| OsStr::from_bytes(program));
    let files = program.map_or(Ok((Vec::new(), Vec::new())), |program| {
        let directory = Path::new(OsStr::from_bytes(&examination.directory));
        std::env::set_current_dir(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let variables = &examination.variables;
        let (path, remarks) = program_check::check(program, variables, examination.needs.sysv)?;
        let files = builds::of_program(&path, variables);
        Ok((files.map_err(|error| format!("{}: {error}", path.display()))?, remarks))
    });
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(Examined { findings, addresses, files, time })
}
