//! The report of a race: what it is about, the allocation, and where the program made it.

use core::fmt::Write as _;

use super::Races;
use super::judge::Race;
use super::orders::Object;
use multigrain_types::PAGE_BYTES;

impl Races<'_> {
    /// Remembers an allocation, before it is used; it follows the free of what was there before.
    pub(crate) fn note_allocation(&self, address: usize, bytes: usize) {
        if self.checker.is_some() {
            self.follow(&Object::Freed(address));
        }
        // A report about sharing names what has pages of its own; one about a race names everything.
        if let Some(sites) = self.sites
            && (self.checker.is_some() || bytes >= PAGE_BYTES)
        {
            sites.note(address, bytes);
        }
    }

    /// The line about a race: where, in what, by whom.
    pub(super) fn describe(&self, race: &Race) -> String {
        let Some(area) = self.platform.tables().area(race.minipage.area()) else {
            return String::new();
        };
        let record = &area.record;
        let start = record.area.address(race.minipage.index());
        let address = start + race.bytes.start;
        let item = record.item_of(race.minipage.index(), race.bytes.start);
        let mut line =
            format!("{} bytes at {address:#x} (byte {}", race.bytes.len(), address - item.base);
        let made = item.element.map_or(item.base, |_| record.area.base);
        let (bytes, caller) =
            self.sites.and_then(|sites| sites.find(made)).unwrap_or((item.bytes, None));
        let _ = match item.element {
            Some((index, count)) => write!(
                line,
                " of element {index} of the array of {count} times {} bytes at {:#x}",
                item.bytes, record.area.base
            ),
            None => write!(line, " of the allocation of {bytes} bytes at {:#x}", item.base),
        };
        let _ = write!(line, " made by {}", record.owner);
        if let Some(caller) = caller {
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
