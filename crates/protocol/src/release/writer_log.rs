//! The writes of one node, by interval.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use multigrain_types::MinipageId;

use crate::mutant_macro::mutant;

/// What one node wrote: of every minipage the last interval.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct WriterLog {
    last: BTreeMap<MinipageId, u64>,
    /// By interval, what was not written again in a later one.
    order: BTreeMap<u64, BTreeSet<MinipageId>>,
}

impl WriterLog {
    /// Minipages it has an interval of.
    pub(super) fn len(&self) -> usize {
        self.last.len()
    }

    /// What was written in an interval. Most often it is later than those before; but of a batch that came in parts the
    /// first parts are entered before notices of older intervals come from other nodes. An interval that writes
    /// what one before it wrote, as loops do, takes no longer than walking over both.
    pub(super) fn add(&mut self, interval: u64, mut written: Vec<MinipageId>) {
        written.sort_unstable();
        written.dedup();
        let (mut old, mut newer) = self.replace(interval, &written);
        if !newer.is_empty() {
            newer.sort_unstable();
            written.retain(|minipage| newer.binary_search(minipage).is_err());
        }
        if written.is_empty() {
            return;
        }
        old.sort_unstable();
        for again in old.chunk_by(|one, other| one.0 == other.0) {
            let Entry::Occupied(mut before) = self.order.entry(again[0].0) else { continue };
            if before.get().len() == again.len() {
                before.remove();
            } else {
                again.iter().for_each(|(_, minipage)| {
                    before.get_mut().remove(minipage);
                });
            }
        }
        self.order.entry(interval).or_default().append(&mut written.into_iter().collect());
    }

    /// Makes this interval the last of minipages in ascending order, unless a later one is known; which had an older one,
    /// and which have a newer one.
    fn replace(
        &mut self,
        interval: u64,
        written: &[MinipageId],
    ) -> (Vec<(u64, MinipageId)>, Vec<MinipageId>) {
        let (mut old, mut newer) = (Vec::new(), Vec::new());
        let (Some(&first), Some(&last)) = (written.first(), written.last()) else {
            return (old, newer);
        };
        let mut swap = |before: &mut u64, minipage| {
            let is_newer = mutant!("newer-notice-forgotten": false, else *before > interval);
            if is_newer {
                newer.push(minipage);
            } else {
                old.push((core::mem::replace(before, interval), minipage));
            }
        };
        let mut new = Vec::new();
        // Close together: they are found in one walk.
        let mut known = (last.0 - first.0 < 8 * written.len() as u64)
            .then(|| self.last.range_mut(first..=last).peekable());
        for &minipage in written {
            match &mut known {
                Some(known) => {
                    while known.next_if(|(other, _)| **other < minipage).is_some() {}
                    match known.next_if(|(other, _)| **other == minipage) {
                        Some((_, before)) => swap(before, minipage),
                        None => new.push(minipage),
                    }
                }
                None => new.push(minipage),
            }
        }
        for minipage in new {
            match self.last.entry(minipage) {
                Entry::Occupied(mut before) => swap(before.get_mut(), minipage),
                Entry::Vacant(place) => {
                    place.insert(interval);
                }
            }
        }
        (old, newer)
    }

    /// What was written after an interval, by interval and then minipage.
    pub(super) fn after(&self, interval: u64) -> impl Iterator<Item = (u64, MinipageId)> {
        let later = self.order.range(interval.saturating_add(1)..);
        later.flat_map(|(&interval, minipages)| {
            minipages.iter().map(move |&minipage| (interval, minipage))
        })
    }

    /// The last interval forgotten; 0 if there was none.
    pub(super) fn forget(&mut self, up_to: u64) -> u64 {
        let kept = self.order.split_off(&up_to.saturating_add(1));
        let forgotten = core::mem::replace(&mut self.order, kept);
        let last = forgotten.last_key_value().map_or(0, |(&interval, _)| interval);
        if self.order.is_empty() {
            self.last.clear();
        } else {
            for minipage in forgotten.into_values().flatten() {
                self.last.remove(&minipage);
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_interval_that_is_known_stays() {
        let mut log = WriterLog::default();
        let [one, two, far] = [1, 2, 1 << 40].map(MinipageId);
        log.add(5, vec![one, far]);
        log.add(4, vec![one]);
        assert!(log.after(0).eq([(5, one), (5, far)]));
        log.add(3, vec![far, two, one]);
        assert!(log.after(0).eq([(3, two), (5, one), (5, far)]));
        assert!(log.order.values().all(|minipages| !minipages.is_empty()));
        log.add(6, vec![one, two]);
        assert!(log.after(4).eq([(5, far), (6, one), (6, two)]));
    }

    /// Whatever is written again: as if each minipage had been entered by itself.
    #[test]
    fn a_log_has_the_last_interval_of_every_minipage() {
        let (mut log, mut plain) = (WriterLog::default(), BTreeMap::new());
        for interval in 1..200_u64 {
            // Runs, now and then with gaps, at places that often meet what was written before.
            let (start, stride) = (interval * interval % 13, interval % 3);
            let count = interval % 7 * 3 + 1;
            let far = if interval % 5 == 0 { 1 << 40 } else { 0 };
            let index = |number| MinipageId(start + number * (1 + stride) + number % 2 * far);
            let written: Vec<_> = (0..count).rev().map(index).collect();
            plain.extend(written.iter().map(|&minipage| (minipage, interval)));
            log.add(interval, written);
            let forgotten = if interval % 50 == 0 { interval - 10 } else { 0 };
            assert!(log.forget(forgotten) <= forgotten);
            plain.retain(|_, last| *last > forgotten);
            assert_eq!(log.last, plain);
            let mut order: Vec<_> = plain.iter().map(|(&of, &last)| (last, of)).collect();
            order.sort_unstable();
            assert!(log.after(0).eq(order.iter().copied()));
            order.retain(|(last, _)| *last > interval - 1);
            assert!(log.after(interval - 1).eq(order));
            assert!(log.order.values().all(|minipages| !minipages.is_empty()));
        }
    }
}
