//! C programs of `tests/c`, compiled against `include/` and linked with the built library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::{Setting, TestDir, build, run, workspace};

/// A directory with the library, under its SONAME too, and the command.
pub(crate) fn built() -> PathBuf {
    build(&["multigrain-capi", "multigrain-cli"])
}

pub(crate) fn launcher() -> PathBuf {
    built().join("multigrain")
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

pub(crate) fn include() -> PathBuf {
    workspace().join("include")
}

pub(crate) fn compiler(program: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["-g", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(flags);
    command.arg("-I").arg(include()).stdin(Stdio::null());
    command
}

pub(crate) fn must_succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{err}");
    String::from_utf8(output.stdout).unwrap()
}

/// `tests/c/NAME.c` as a program in `dir`, linked with the shared library.
pub(crate) fn compile(dir: &TestDir, name: &str) -> PathBuf {
    let program = dir.path().join(name);
    let library = built();
    let link = dir.path().join("libmultigrain.so.0");
    if !link.exists() {
        std::os::unix::fs::symlink(library.join("libmultigrain.so"), &link).unwrap();
    }
    let mut command = compiler("cc", &["-std=c11", "-D_GNU_SOURCE", "-O1"]);
    command.arg(source(&format!("{name}.c"))).arg("-o").arg(&program);
    command.arg("-L").arg(&library).arg("-lmultigrain");
    command.arg(format!("-Wl,-rpath,{}", dir.path().display()));
    must_succeed(&mut command);
    program
}

/// The guards this system allows.
pub(crate) fn guards() -> &'static [&'static str] {
    static GUARDS: OnceLock<Vec<&'static str>> = OnceLock::new();
    GUARDS.get_or_init(|| {
        let dir = TestDir::new();
        let program = compile(&dir, "probe");
        let uffd = Setting { guard: "uffd", ..Setting::nodes(1) };
        let ended = run(&launcher(), &uffd, &program, &[]);
        if ended.code == Some(0) {
            return vec!["uffd", "mprotect"];
        }
        assert!(ended.err.contains("userfaultfd"), "{ended:?}");
        eprintln!("without the uffd guard: {}", ended.err);
        vec!["mprotect"]
    })
}
