//! The report of a race: the bytes, the allocation, and where the program made it.

use core::fmt::Write as _;

use super::Races;
use super::happens_before::Ordered;
use super::judge::Race;

impl Races<'_> {
    /// Remembers an allocation, before it is used; it follows the free of what was there before.
    pub(crate) fn note_allocation(&self, address: usize, bytes: usize) {
        if self.checker.is_some() {
            self.follow(&Ordered::Freed(address));
        }
        if let Some(sites) = self.sites {
            sites.note(address, bytes);
        }
    }

    /// What a race is of, and the line about it: where, in what, by whom.
    pub(super) fn describe(&self, race: &Race) -> (String, String) {
        let Some(area) = self.platform.tables().area(race.minipage.area()) else {
            return (String::new(), String::new());
        };
        let record = &area.record;
        let start = record.area.address(race.minipage.index());
        let address = start + race.bytes.start;
        let item = record.item_of(race.minipage.index(), race.bytes.start);
        let made = item.element.map_or(item.base, |_| record.area.base);
        let (bytes, caller) =
            self.sites.and_then(|sites| sites.find(made)).unwrap_or((item.bytes, None));
        let mut object = match item.element {
            Some((_, count)) => {
                format!("the array of {count} times {} bytes at {made:#x}", item.bytes)
            }
            None => format!("the allocation of {bytes} bytes at {made:#x}"),
        };
        let _ = write!(object, " made by {}", record.owner);
        if let Some(caller) = caller {
            let _ = write!(object, " in {caller}");
        }
        let element = item.element.map(|(index, _)| format!("element {index} of "));
        let line = format!(
            "{} bytes at {address:#x} (byte {} of {}{object}) are written by {} and {} without \
             synchronization",
            race.bytes.len(),
            address - item.base,
            element.unwrap_or_default(),
            race.nodes.0,
            race.nodes.1
        );
        (object, line)
    }
}
