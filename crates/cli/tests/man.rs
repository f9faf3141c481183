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

/// The pages that one refers to: `NAME(SECTION)`, bold or not.
fn references(page: &str) -> Vec<String> {
    let plain = ["\\fB", "\\fR", "\\fI", "\\fP"]
        .iter()
        .fold(page.to_owned(), |text, font| text.replace(font, ""));
    let plain = plain.replace("\\-", "-");
    let mut found = Vec::new();
    for (end, _) in plain.match_indices('(') {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name = plain[..end].rsplit(|c| !is_name(c)).next().unwrap();
        let section = &plain[end + 1..];
        let ours = name.starts_with("multigrain") || name.starts_with("mg_");
        // A call in an example may look like one of section 1.
        let sections: &[char] = if name.starts_with("mg_") { &['3'] } else { &['1', '3', '7'] };
        if ours && section.starts_with(sections) && section[1..].starts_with(')') {
            found.push(format!("{name}.{}", &section[..1]));
        }
    }
    found
}

#[test]
fn what_a_page_refers_to_is_there() {
    assert_eq!(
        references("\\fBmultigrain\\-run\\fR(1), mg_lock(3); f(1), mg_lock(2)"),
        ["multigrain-run.1", "mg_lock.3"]
    );
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man");
    let mut checked = 0;
    for page in fs::read_dir(&tree).unwrap().map(|entry| entry.unwrap().path()) {
        for reference in references(&fs::read_to_string(&page).unwrap()) {
            assert!(tree.join(&reference).exists(), "{}: {reference}", page.display());
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} references");
}

#[test]
fn installed_documents_link_to_what_is_installed() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents");
    let to = format!("DESTDIR={}", root.display());
    let mut make = Command::new("make");
    make.current_dir(&top).args(["-s", "install-documents", "PREFIX=/usr", &to]);
    assert!(make.status().unwrap().success());
    let documents = root.join("usr/share/doc/multigrain");
    let mut check = Command::new(top.join("packaging/check-links.sh"));
    let said = check.arg(&documents).output().unwrap();
    assert!(said.status.success(), "dead links:\n{}", String::from_utf8_lossy(&said.stdout));
    let read = |name: &str| fs::read_to_string(documents.join(name)).unwrap();
    let readme = read("README.md");
    assert!(readme.contains("](docs/PORTING.md)") && readme.contains("histogram.py)"), "{readme}");
    assert!(readme.contains("the crate multigrain of a source tree"), "{readme}");
    assert!(read("docs/PORTING.md").contains("](../include/multigrain.h)"));
    fs::remove_dir_all(root).unwrap();
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
