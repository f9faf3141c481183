//! Where in its source the program made its allocations, for reports.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeMap;

use crate::shim::{Mutex, lock};

/// Allocations whose place in the program is remembered: each costs some kilobytes.
const MOST_SITES: usize = 4096;
/// What stands above a program's own functions on the stack of an allocation: by name, and where
/// inlined functions have lost most of it, by file.
const NAMES: [&str; 7] = [
    "std::",
    "core::",
    "alloc::",
    "multigrain::",
    "multigrain_runtime::",
    "multigrain_capi::",
    "mg_",
];
const FILES: [&str; 4] =
    ["/rustc/", "crates/runtime/src/", "crates/capi/src/", "crates/multigrain/src/"];

/// This node's allocations, by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Sites(Mutex<BTreeMap<usize, Site>>);

#[derive(Debug)]
struct Site {
    bytes: usize,
    trace: Backtrace,
}

impl Sites {
    /// Remembers an allocation, before it is used, with the caller's stack.
    pub(crate) fn note(&self, address: usize, bytes: usize) {
        let has_room = |sites: &BTreeMap<usize, Site>| {
            sites.len() < MOST_SITES || sites.contains_key(&address)
        };
        if has_room(&lock(&self.0)) {
            let trace = Backtrace::force_capture();
            lock(&self.0).insert(address, Site { bytes, trace });
        }
    }

    /// Bytes that were asked for, and where the program did, if it says.
    pub(crate) fn find(&self, address: usize) -> Option<(usize, Option<String>)> {
        let sites = lock(&self.0);
        let site = sites.get(&address)?;
        Some((site.bytes, caller(&site.trace)))
    }
}

/// The program's function that allocated, with file and line if the program says.
fn caller(trace: &Backtrace) -> Option<String> {
    if trace.status() != BacktraceStatus::Captured {
        return None;
    }
    caller_in(&trace.to_string())
}

/// The same in a trace's text: lines `NUMBER: NAME`, each with a line `at FILE:LINE:COLUMN` behind
/// it if the file is known.
fn caller_in(trace: &str) -> Option<String> {
    let mut lines = trace.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some((number, name)) = line.split_once(": ") else { continue };
        let place = lines.peek().and_then(|next| next.strip_prefix("at "));
        let stem = name.trim_start_matches(['<', '&', '_']);
        let ours = NAMES.iter().any(|prefix| stem.starts_with(prefix))
            || place.is_some_and(|place| FILES.iter().any(|part| place.contains(part)));
        if ours || number.parse::<u32>().is_err() {
            continue;
        }
        if name == "<unknown>" {
            return None;
        }
        return Some(place.map_or(name.to_owned(), |place| format!("{name}, {}", shorten(place))));
    }
    None
}

/// `file:line` of `directory/file:line:column`.
fn shorten(place: &str) -> &str {
    let file = place.rsplit('/').next().unwrap_or(place);
    match file.match_indices(':').nth(1) {
        Some((column, _)) => &file[..column],
        None => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_name_of_a_file_and_a_line() {
        assert_eq!(shorten("./src/sor/main.c:88:5"), "main.c:88");
        assert_eq!(shorten("main.c:88"), "main.c:88");
        assert_eq!(shorten("main.c"), "main.c");
    }

    #[test]
    fn the_caller_is_the_first_function_that_is_neither_ours_nor_the_library_s() {
        let trace = "   0: <std::backtrace::Backtrace>::create
             at /rustc/0/library/std/src/backtrace.rs:331:13
   1: note_site
             at ./crates/runtime/src/races/report.rs:49:21
   2: multigrain_capi::memory::mg_malloc
   3: mg_malloc
   4: set_up
             at /home/one/app/grid.c:12
   5: main";
        assert_eq!(caller_in(trace).unwrap(), "set_up, grid.c:12");
        assert_eq!(caller_in(&trace[trace.find("   5").unwrap()..]).unwrap(), "main");
        assert_eq!(caller_in("   0: <unknown>\n   1: main"), None);
        assert_eq!(caller_in(""), None);
    }
}
