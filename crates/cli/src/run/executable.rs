//! Whether the kernel can execute a file. Of one that it cannot, execvp makes a script of /bin/sh, as shells do: right for
//! text without a first line, and for all else an error of syntax in the middle of it.

use super::elf;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// So much of a file is looked at.
const BEGIN_BYTES: u64 = 512;

const OBJECT: &str = "not a program this machine can execute: an object file; link it: cc app.o -o app $(pkg-config --libs multigrain)";
const CORE: &str = "not a program this machine can execute: the core of one that crashed";
const OTHER_MACHINE: &str =
    "not a program this machine can execute: it is for another kind of processor; compile it here";
const CUT_OFF: &str =
    "not a program this machine can execute: its end is missing; copy or link it again";
const BROKEN: &str = "not a program this machine can execute: its ELF header contradicts itself; copy or link it again";
const LIBRARY: &str = "not a program this machine can execute: a library, which has no entry point; name a program that is linked with it";
const EMPTY: &str = "not a program this machine can execute: it is empty; compile or copy it again";
const NO_PROGRAM: &str = "not a program this machine can execute: neither ELF nor a script; compile it, or name the program";

/// What e_machine of the ELF header says, for programs of 64 bits and of 32, which the kernel may execute too.
#[cfg(target_arch = "x86_64")]
const MACHINES: [u16; 2] = [62, 3];
#[cfg(target_arch = "aarch64")]
const MACHINES: [u16; 2] = [183, 40];
/// What its classes are, for programs of 64 bits and of 32, and where and how long an entry of the table of segments is.
const CLASS_64: u8 = 2;
const CLASS_32: u8 = 1;
const SEGMENT_64: (usize, u16) = (54, 56);
const SEGMENT_32: (usize, u16) = (42, 32);

/// Whether the file that a script's first line or an ELF header names is missing.
pub(super) fn lacks_interpreter(file: &Path) -> bool {
    let interpreter = beginning(file).and_then(|begin| interpreter_of(&begin));
    let interpreter = interpreter.or_else(|| elf::loader_of(file));
    interpreter.is_some_and(|interpreter| !interpreter.exists())
}

/// That file, if the line is there as a whole.
fn interpreter_of(begin: &[u8]) -> Option<PathBuf> {
    let end = begin.iter().position(|&byte| byte == b'\n')?;
    let line = begin[..end].strip_prefix(b"#!")?.trim_ascii();
    let name = line.split(|byte| b" \t".contains(byte)).next()?;
    Some(OsStr::from_bytes(name).into())
}

fn beginning(file: &Path) -> Option<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(file).ok()?.take(BEGIN_BYTES).read_to_end(&mut begin).ok()?;
    Some(begin)
}

/// Why the kernel will not execute a file that may be executed; what cannot be read is for the kernel to say.
pub(super) fn refusal(file: &Path) -> Option<&'static str> {
    let bytes = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
    if bytes == 0 {
        return Some(EMPTY);
    }
    let why = refusal_of(&beginning(file)?, bytes);
    let why = why.or_else(|| elf::is_cut_off(file, bytes).then_some(CUT_OFF))?;
    (!others_are_registered()).then_some(why)
}

/// Whether a file is text that does not say what runs it.
pub(super) fn is_text_without_interpreter(file: &Path) -> bool {
    let is_text = |begin: &Vec<u8>| {
        !begin.starts_with(b"#!")
            && !begin.starts_with(b"\x7fELF")
            && refusal_of(begin, 0).is_none()
    };
    beginning(file).as_ref().is_some_and(is_text)
}

/// Why the kernel will not execute a file, by its first bytes and its size.
fn refusal_of(begin: &[u8], bytes: u64) -> Option<&'static str> {
    if !begin.starts_with(b"\x7fELF") {
        let is_text = |byte: &u8| !byte.is_ascii_control() || (7..14).contains(byte) || *byte == 27;
        // Behind its first line a script may carry anything.
        let mut line = begin.split(|&byte| byte == b'\n').next().unwrap_or_default().iter();
        return (!begin.starts_with(b"#!") && !line.all(is_text)).then_some(NO_PROGRAM);
    }
    let word = |at: usize| {
        let two = begin.get(at..at + 2)?;
        Some(u16::from_le_bytes(two.try_into().ok()?))
    };
    let (Some(kind), Some(machine)) = (word(16), word(18)) else { return Some(CUT_OFF) };
    // Little-endian is all that Multigrain runs on.
    if !MACHINES.contains(&machine) || begin[5] != 1 {
        return Some(OTHER_MACHINE);
    }
    match kind {
        1 => return Some(OBJECT),
        4 => return Some(CORE),
        _ => {}
    }
    // Those of 32 bits for the processor's 64 are of that class, too (x32).
    let (at, size) = match begin[4] {
        CLASS_64 if machine == MACHINES[0] => SEGMENT_64,
        CLASS_32 => SEGMENT_32,
        _ => return Some(BROKEN),
    };
    let (Some(entry), Some(entries)) = (word(at), word(at + 2)) else { return Some(CUT_OFF) };
    if ![2, 3].contains(&kind) || entry != size || entries == 0 {
        return Some(BROKEN);
    }
    let long = |at: usize| Some(u64::from_le_bytes(begin.get(at..at + 8)?.try_into().ok()?));
    let (Some(start), Some(table)) = (long(24), long(32)) else { return Some(CUT_OFF) };
    let end = table.saturating_add(u64::from(entry) * u64::from(entries));
    match at == SEGMENT_64.0 {
        true if end > bytes => Some(CUT_OFF),
        true if kind == 3 && start == 0 => Some(LIBRARY),
        _ => None,
    }
}

/// Whether the kernel has been told of other kinds of programs (binfmt_misc).
fn others_are_registered() -> bool {
    let Ok(entries) = fs::read_dir("/proc/sys/fs/binfmt_misc") else { return false };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name != "register" && name != "status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_text_pass_and_all_else_is_named() {
        let own = fs::read("/proc/self/exe").unwrap();
        let (begin, bytes) = (&own[..512], own.len() as u64);
        assert_eq!(refusal_of(begin, bytes), None);
        let with = |at: usize, value: u8| {
            let mut begin = begin.to_vec();
            begin[at] = value;
            refusal_of(&begin, bytes)
        };
        assert_eq!(with(16, 1), Some(OBJECT));
        assert_eq!(with(16, 4), Some(CORE));
        assert_eq!(with(18, 8), Some(OTHER_MACHINE));
        assert_eq!(with(5, 2), Some(OTHER_MACHINE));
        for (at, value) in [(4, 1), (4, 0), (16, 7), (54, 32), (56, 0)] {
            assert_eq!(with(at, value), Some(BROKEN), "{at}");
        }
        let library = [&begin[..16], &[3], &begin[17..24], &[0; 8], &begin[32..]].concat();
        assert_eq!(refusal_of(&library, bytes), Some(LIBRARY));
        assert_eq!(refusal_of(begin, 70), Some(CUT_OFF));
        assert_eq!(refusal_of(&begin[..10], 10), Some(CUT_OFF));
        assert_eq!(refusal_of(&begin[..50], 50), Some(CUT_OFF));
        for text in ["", "echo hi\n", "#!/bin/sh\0\n", "echo \u{e4}\t\x1b[0m\r\n", "exit 0\n\0"] {
            assert_eq!(refusal_of(text.as_bytes(), 9), None, "{text}");
        }
        assert_eq!(refusal_of(b"\xb9\xbd\xe0\x7a\xc9\x01", 6), Some(NO_PROGRAM));
        assert_eq!(refusal_of(b"echo\0", 5), Some(NO_PROGRAM));
    }

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        let of = |text: &[u8]| interpreter_of(text);
        assert_eq!(of(b"#! /bin/sh -e\nexit\n"), Some("/bin/sh".into()));
        assert_eq!(of(b"#!/usr/bin/env python\n"), Some("/usr/bin/env".into()));
        assert_eq!((of(b"#!/bin/s"), of(b"exit\n")), (None, None));
    }
}
