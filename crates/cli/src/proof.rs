//! docs/PROOF.md: every command that proves something writes its figures into its own section.
//!
//! A section lies between two comments that name it. The rest of the file is left alone, so the commands may be
//! run one by one, in any order.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const HEAD: &str = "# Proof\n\nEvery section below was written by the command it names, when it had run to its end.\n";

/// What the commands that prove something print about themselves.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// Short name, such as `check`: identifies the section.
    pub(crate) name: &'a str,
    /// Heading.
    pub(crate) title: &'a str,
    /// The command line that repeats it.
    pub(crate) command: &'a str,
    /// Markdown: the figures.
    pub(crate) body: &'a str,
}

impl Section<'_> {
    /// Puts the section in its place in `file`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let old = match fs::read_to_string(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => HEAD.to_owned(),
            read => read.with_context(|| format!("cannot read {}", file.display()))?,
        };
        fs::write(file, self.put(&old)).with_context(|| format!("cannot write {}", file.display()))
    }

    fn put(&self, old: &str) -> String {
        let (begin, end) = (format!("<!-- {} -->", self.name), format!("<!-- /{} -->", self.name));
        let mut text = begin.clone();
        let _ = write!(
            text,
            "\n## {}\n\n`{}`, version {}\n\n{}\n{end}",
            self.title,
            self.command,
            env!("CARGO_PKG_VERSION"),
            self.body.trim_end(),
        );
        match (old.find(&begin), old.find(&end)) {
            (Some(from), Some(to)) if from < to => {
                format!("{}{text}{}", &old[..from], &old[to + end.len()..])
            }
            _ => format!("{}\n\n{text}\n", old.trim_end()),
        }
    }
}

/// The file of `--proof`, which is tried before hours of work, and stays as it was.
///
/// # Errors
/// It cannot be written.
pub(crate) fn file(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    let is_new = !path.exists();
    let tried = fs::OpenOptions::new().append(true).create(true).open(&path);
    tried.map_err(|error| format!("{error}; name a file that can be written"))?;
    if is_new {
        let _ = fs::remove_file(&path);
    }
    Ok(path)
}

/// The command as it was given, without the file that it writes.
pub(crate) fn command_line() -> String {
    let mut text = "multigrain".to_owned();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--proof" => drop(words.next()),
            word if word.starts_with("--proof=") => {}
            word if word.contains(' ') => text.push_str(&format!(" '{word}'")),
            word => text.push_str(&format!(" {word}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section<'a>(name: &'a str, body: &'a str) -> Section<'a> {
        Section { name, title: "Title", command: "multigrain x", body }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_and_one_that_can_is_left_alone() {
        assert!(file("/nope/x").unwrap_err().ends_with("; name a file that can be written"));
        assert!(file("/").is_err());
        let new = std::env::temp_dir().join(format!("proof-{}", std::process::id()));
        assert_eq!(file(new.to_str().unwrap()), Ok(new.clone()));
        assert!(!new.exists());
    }

    #[test]
    fn a_section_replaces_itself_and_leaves_the_others() {
        let one = section("one", "1").put(HEAD);
        let both = section("two", "2").put(&one);
        let again = section("one", "3").put(&both);
        assert!(again.starts_with(HEAD.trim_end()), "{again}");
        assert_eq!(again, both.replace("\n\n1\n", "\n\n3\n"));
        assert!(again.contains("\n\n2\n<!-- /two -->"), "{again}");
    }
}
