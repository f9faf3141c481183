//! The report of a race: what it is about, the allocation, and where the program made it.

use core::fmt::Write as _;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeMap;

use super::judge::Race;
use super::orders::Object;
use super::{Checker, Races};
use crate::area::AreaRecord;
use crate::shim::lock;

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

/// This node's allocations.
#[derive(Debug, Default)]
pub(super) struct Sites(BTreeMap<usize, Site>);

#[derive(Debug)]
struct Site {
    bytes: usize,
    trace: Backtrace,
}

/// The item that holds an address.
struct Item {
    base: usize,
    bytes: usize,
    /// Its number in the array it is part of, and how many there are.
    element: Option<(usize, u64)>,
}

impl Races<'_> {
    /// Remembers an allocation, before it is used; it follows the free of what was there before.
    pub(crate) fn note_allocation(&self, address: usize, bytes: usize) {
        let Some(races) = self.checker else { return };
        self.follow(&Object::Freed(address));
        let trace = Backtrace::force_capture();
        let mut sites = lock(&races.sites);
        if sites.0.len() < MOST_SITES || sites.0.contains_key(&address) {
            sites.0.insert(address, Site { bytes, trace });
        }
    }

    /// The line about a race: where, in what, by whom.
    pub(super) fn describe(&self, races: &Checker, race: &Race) -> String {
        let Some(area) = self.platform.tables().area(race.minipage.area()) else {
            return String::new();
        };
        let record = &area.record;
        let start = record.area.address(race.minipage.index());
        let address = start + race.bytes.start;
        let item = item_at(record, race.minipage.index(), race.bytes.start);
        let mut line =
            format!("{} bytes at {address:#x} (byte {}", race.bytes.len(), address - item.base);
        let sites = lock(&races.sites);
        let site = sites.0.get(&item.element.map_or(item.base, |_| record.area.base));
        let _ = match item.element {
            Some((index, count)) => write!(
                line,
                " of element {index} of the array of {count} times {} bytes at {:#x}",
                item.bytes, record.area.base
            ),
            None => write!(
                line,
                " of the allocation of {} bytes at {:#x}",
                site.map_or(item.bytes, |site| site.bytes),
                item.base
            ),
        };
        let _ = write!(line, " made by {}", record.owner);
        if let Some(caller) = site.and_then(|site| caller(&site.trace)) {
            let _ = write!(line, " in {caller}");
        }
        let (one, other) = race.nodes;
        let _ = write!(line, ") are written by {one} and {other} without synchronization");
        if race.last {
            line.push_str("; more races of what this node allocated are not reported");
        }
        line
    }
}

fn item_at(record: &AreaRecord, minipage: u32, offset: usize) -> Item {
    let items = &record.items;
    let bytes = usize::try_from(items.bytes).unwrap_or(usize::MAX);
    let chunk = items.chunk as usize;
    let span = usize::try_from(items.span(record.area.shape)).unwrap_or(usize::MAX).max(1);
    let first = minipage as usize / span * chunk;
    let within = if chunk > 1 { (offset / bytes).min(chunk - 1) } else { 0 };
    let index = first + within;
    let element = items.array.then_some((index, items.count));
    Item { base: record.item_address(index), bytes, element }
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
