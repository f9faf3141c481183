//! Programs of System V calls alone, as sites of a job.

use super::{TestDir, build, not_tried};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn launcher() -> PathBuf {
    build(&["multigrain-cli", "multigrain-sysv-preload", "multigrain-capi"]).join("multigrain")
}

/// Whether this user may run sites.
pub(crate) fn may() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        not_tried("sites need root");
    }
    is_root
}

/// `tests/c/NAME.c`, without any library of ours.
pub(crate) fn plain(dir: &TestDir, name: &str) -> PathBuf {
    let program = dir.path().join(name);
    let mut compiler = super::c::compiler("cc", &["-std=c11", "-D_GNU_SOURCE", "-O1"]);
    compiler.arg(super::c::source(&format!("{name}.c"))).arg("-o").arg(&program);
    super::c::must_succeed(&mut compiler);
    program
}

/// Kilobytes of pages and times that a page was taken away, as the summary has them.
pub(crate) fn moved(program: &Path, options: &[&str]) -> (f64, f64) {
    let mut job = Command::new(launcher());
    job.args(["run", "--sysv", "-n", "2", "--summary", "--timeout", "60"]).args(options);
    let output = job.arg(program).args(["-p", "2"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let number = |word: &str| word.replace(',', "").parse::<f64>().unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    let of_pages = words.windows(2).position(|two| two == ["of", "pages"]).unwrap();
    let scale = if words[of_pages - 1] == "MiB" { 1024.0 } else { 1.0 };
    let taken = words.iter().position(|word| *word == "invalidations").unwrap();
    (number(words[of_pages - 2]) * scale, number(words[taken - 1]))
}
