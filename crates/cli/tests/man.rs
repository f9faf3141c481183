//! The manual pages and completions in the source tree are those that the command writes.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// What the command writes with these options is what the tree has in this directory.
fn assert_current(options: &[&str], directory: &str) {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
    let mut man = Command::new(env!("CARGO_BIN_EXE_multigrain"));
    let written = man.arg("man").args(options).arg(&fresh).status();
    assert!(written.unwrap().success());
    let names = |directory: &Path| {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&tree), names(&fresh));
    for name in names(&tree) {
        let (old, new) =
            (fs::read(tree.join(&name)).unwrap(), fs::read(fresh.join(&name)).unwrap());
        let again = format!("run `multigrain man {} {directory}`", options.join(" "));
        assert!(old == new, "{} is out of date: {again}", name.display());
    }
    fs::remove_dir_all(fresh).unwrap();
}

#[test]
fn the_pages_in_the_tree_say_what_the_command_does_now() {
    assert_current(&[], "man");
}

#[test]
fn shells_complete_what_the_command_knows_now() {
    assert_current(&["--completions"], "packaging/completions");
    let script = "source packaging/completions/multigrain
        complete_it() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _multigrain multigrain \"${COMP_WORDS[COMP_CWORD]}\" x; echo \"${COMPREPLY[*]}\"; }
        complete_it multigrain doc; complete_it multigrain run --hostf; complete_it multigrain ag
        complete_it multigrain litmus --no; complete_it multigrain random --sp";
    let mut bash = Command::new("bash");
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let said = bash.current_dir(top).args(["-c", script]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said, "doctor\n--hostfile\n\n\n\n", "what is hidden is not offered");
}
