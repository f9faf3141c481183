//! What a race is about: the allocation, and where the program made it.

use core::fmt::Write as _;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeMap;

use super::Races;
use super::judge::Race;
use crate::alloc::element_address;
use crate::areas::AreaRecord;
use crate::boot::Runtime;
use crate::tables::lock;

/// Allocations whose place in the program is remembered: each costs some kilobytes.
const MOST_SITES: usize = 4096;
/// What stands above a program's own functions on the stack of an allocation.
const NOT_THE_PROGRAM: [&str; 7] = [
    "std::",
    "core::",
    "alloc::",
    "multigrain::",
    "multigrain_runtime::",
    "multigrain_capi::",
    "mg_",
];

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

impl Runtime {
    /// Remembers an allocation.
    pub(crate) fn note_site(&self, address: usize, bytes: usize) {
        let Some(races) = &self.races else { return };
        let trace = Backtrace::force_capture();
        let mut sites = lock(&races.sites);
        if sites.0.len() < MOST_SITES || sites.0.contains_key(&address) {
            sites.0.insert(address, Site { bytes, trace });
        }
    }

    /// The line about a race: where, in what, by whom.
    pub(super) fn describe(&self, races: &Races, race: &Race) -> String {
        let Some(area) = self.tables.area(race.minipage.area()) else { return String::new() };
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
    Item { base: element_address(record, index), bytes, element }
}

/// The program's function that allocated, with file and line if the program says.
fn caller(trace: &Backtrace) -> Option<String> {
    if trace.status() != BacktraceStatus::Captured {
        return None;
    }
    let text = trace.to_string();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some((number, name)) = line.split_once(": ") else { continue };
        let own = name.trim_start_matches(['<', '&', '_']);
        let ours = NOT_THE_PROGRAM.iter().any(|prefix| own.starts_with(prefix));
        if number.parse::<u32>().is_err() || ours {
            continue;
        }
        if name == "<unknown>" {
            return None;
        }
        let place = lines.peek().and_then(|next| next.strip_prefix("at ")).map(shorten);
        return Some(place.map_or(name.to_owned(), |place| format!("{name}, {place}")));
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
}
