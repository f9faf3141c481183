//! The manual pages in the source tree are those that the command writes.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_pages_in_the_tree_say_what_the_command_does_now() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man");
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    let written = Command::new(env!("CARGO_BIN_EXE_multigrain")).arg("man").arg(&fresh).status();
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
        assert!(old == new, "{} is out of date: run `multigrain man man`", name.display());
    }
    fs::remove_dir_all(fresh).unwrap();
}
