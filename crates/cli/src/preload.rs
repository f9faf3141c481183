//! The library that a site's program loads, which takes its System V calls (ADR 55).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Its file.
const LIBRARY: &str = "libmultigrain_sysv.so";

/// Where the library lies: beside the command, or where it is installed with it.
pub(crate) fn library() -> Result<PathBuf, String> {
    let command = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
    let beside = command.parent().unwrap_or(Path::new("/"));
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let installed = ["lib", "lib64", &multiarch].map(|lib| beside.join("..").join(lib));
    let installed = installed.map(|lib| lib.join("multigrain"));
    let mut places = std::iter::once(beside.to_owned()).chain(installed);
    let found = places.find_map(|place| Some(place.join(LIBRARY)).filter(|file| file.is_file()));
    let found = found.ok_or_else(|| {
        format!(
            "{LIBRARY} is not beside {} or in ../lib/multigrain: install it again",
            command.display()
        )
    })?;
    // ld.so parts the names in LD_PRELOAD there, and would go on without the library.
    if found.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ' | b'\t' | b'\n')) {
        let why = "has a blank or a colon in its name, which LD_PRELOAD takes for its end: install it elsewhere";
        return Err(format!("{} {why}", found.display()));
    }
    Ok(found)
}
