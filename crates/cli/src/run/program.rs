//! Finds the program before anything is started, so that a mistake gives one line and not one for each node.

use super::error::LaunchError;
use super::executable;
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where PATH is not set, as execvp does it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file to execute for `name`, by the rules of execvp.
pub(super) fn find(name: &OsStr) -> Result<PathBuf, LaunchError> {
    let path = find_in(name, &env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()))?;
    if executable::lacks_interpreter(&path) {
        return Err(LaunchError::NoInterpreter { path });
    }
    Ok(path)
}

fn find_in(name: &OsStr, path: &OsStr) -> Result<PathBuf, LaunchError> {
    let missing = || missing(name);
    if name.is_empty() {
        return Err(missing());
    }
    if name.as_bytes().contains(&b'/') || name == "." || name == ".." {
        let file = PathBuf::from(name);
        return match fault_of(&file) {
            None => Ok(file),
            Some(Fault::Missing) => Err(missing()),
            Some(Fault::Unusable(why)) => Err(LaunchError::NotExecutable { path: file, why }),
        };
    }
    let mut unusable = None;
    for directory in env::split_paths(path) {
        let file = Path::new(".").join(directory).join(name);
        match fault_of(&file) {
            None => return Ok(file),
            Some(Fault::Missing) => {}
            Some(Fault::Unusable(why)) => {
                unusable.get_or_insert(LaunchError::NotExecutable { path: file, why });
            }
        }
    }
    Err(unusable.unwrap_or_else(missing))
}

/// Says what was probably meant: a file here, or a number of nodes.
fn missing(name: &OsStr) -> LaunchError {
    if name.is_empty() {
        let hint = "; it is empty: a variable of the shell that is not set?".to_owned();
        return LaunchError::NoProgram { program: "''".to_owned(), hint };
    }
    let program = name.to_string_lossy().into_owned();
    let here = Path::new(".").join(name);
    let is_path = name.as_bytes().contains(&b'/');
    let hint = match fault_of(&here) {
        None if !is_path => format!(" in PATH; say ./{program} for the one in this directory"),
        Some(Fault::Unusable(why)) if !is_path => {
            return LaunchError::NotExecutable { path: here, why };
        }
        Some(Fault::Missing) if program.parse::<u32>().is_ok() => {
            "; the number of nodes is -n: multigrain run -n 2 ./app (and bytes for --handshake follow its `=`)"
                .to_owned()
        }
        None | Some(_) => "; give a path or a name that is in PATH".to_owned(),
    };
    LaunchError::NoProgram { program, hint }
}

const SOURCE: &str = "is source; compile it and name the program that comes of it: \
    cc app.c -o app $(pkg-config --cflags --libs multigrain)";

/// Whether a file's name says that it is for a compiler.
fn is_source(file: &Path) -> bool {
    let kinds = ["c", "cc", "cpp", "cxx", "h", "hpp", "f90", "rs"];
    file.extension().is_some_and(|kind| kinds.iter().any(|known| kind == *known))
}

fn begins_with(file: &Path, bytes: &[u8]) -> bool {
    let mut begin = vec![0; bytes.len()];
    File::open(file).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == bytes
}

fn is_on_noexec(file: &Path) -> bool {
    statvfs(file).is_ok_and(|of| of.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

enum Fault {
    Missing,
    Unusable(&'static str),
}

fn fault_of(file: &Path) -> Option<Fault> {
    match file.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Some(Fault::Unusable("a directory on the way to it may not be searched"))
        }
        Err(_) => Some(Fault::Missing),
        Ok(metadata) if metadata.is_dir() => {
            Some(Fault::Unusable("is a directory; name a program"))
        }
        // Who opens a pipe by its name waits for somebody who writes.
        Ok(metadata) if !metadata.is_file() => {
            Some(Fault::Unusable("is a pipe, a socket or a device; name a program"))
        }
        // A script says what runs it, whatever its name.
        Ok(_) if is_source(file) && !begins_with(file, b"#!") => Some(Fault::Unusable(SOURCE)),
        Ok(_) if is_on_noexec(file) => Some(Fault::Unusable(
            "lies in a file system that is mounted noexec; copy it to another one",
        )),
        Ok(metadata)
            if access(file, Access::EXEC_OK).is_err()
                && metadata.permissions().mode() & 0o111 != 0 =>
        {
            Some(Fault::Unusable(
                "this user may not execute it; its owner can allow it (chmod a+rx)",
            ))
        }
        Ok(_) if access(file, Access::EXEC_OK).is_err() => {
            Some(Fault::Unusable("is not executable; use chmod +x if it is a program"))
        }
        Ok(_) => executable::refusal(file).map(Fault::Unusable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, Mode};

    #[test]
    fn a_name_is_looked_up_in_the_path_and_a_path_is_not() {
        let path = OsStr::new("/nonexistent:/bin:/usr/bin");
        assert!(find_in(OsStr::new("sh"), path).unwrap().ends_with("bin/sh"));
        assert_eq!(find_in(OsStr::new("/bin/sh"), OsStr::new("")).unwrap(), Path::new("/bin/sh"));
    }

    #[test]
    fn missing_programs_give_127_and_unusable_ones_126() {
        let code =
            |name: &str| find_in(OsStr::new(name), OsStr::new("/bin")).unwrap_err().exit_code();
        assert_eq!(code("no-such-program-here"), 127);
        assert_eq!(code("/no/such/program"), 127);
        assert_eq!(code(""), 127);
        assert_eq!(code("/etc/passwd"), 126);
        assert_eq!(code("/tmp"), 126);
        assert_eq!(code("."), 126);
        assert_eq!(code("/dev/null"), 126);
        let pipe = std::env::temp_dir().join(format!("multigrain-pipe-{}", std::process::id()));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let refused = code(pipe.to_str().unwrap());
        std::fs::remove_file(&pipe).unwrap();
        assert_eq!(refused, 126);
    }

    #[test]
    fn a_program_of_another_user_is_not_told_to_become_executable() {
        let own = std::env::temp_dir().join(format!("multigrain-own-{}", std::process::id()));
        std::fs::write(&own, "#!/bin/sh\n").unwrap();
        let said = |mode| {
            std::fs::set_permissions(&own, std::fs::Permissions::from_mode(mode)).unwrap();
            find_in(own.as_os_str(), OsStr::new("/bin")).unwrap_err().to_string()
        };
        let none = said(0o644);
        // Root may execute what anybody may.
        let others = (!rustix::process::geteuid().is_root()).then(|| said(0o611));
        std::fs::remove_file(&own).unwrap();
        assert!(none.ends_with("is not executable; use chmod +x if it is a program"), "{none}");
        let is_named = |line: &String| line.contains("this user may not execute it");
        assert!(others.as_ref().is_none_or(is_named), "{others:?}");
    }
}
