//! Diffs that wait for the others of their round (MGS arc 33), oldest first.

use std::collections::BTreeMap;

use multigrain_types::MinipageId;

use crate::shim::{Mutex, lock};

/// Diffs of minipages whose home is this node.
#[derive(Debug, Default)]
pub(super) struct PendingDiffs(Mutex<BTreeMap<MinipageId, Vec<Vec<u8>>>>);

impl PendingDiffs {
    pub(super) fn add(&self, minipage: MinipageId, diff: &[u8]) {
        lock(&self.0).entry(minipage).or_default().push(diff.to_vec());
    }

    pub(super) fn take_all(&self, minipage: MinipageId) -> Vec<Vec<u8>> {
        lock(&self.0).remove(&minipage).unwrap_or_default()
    }

    /// The oldest; an empty diff if there is none.
    pub(super) fn take_oldest(&self, minipage: MinipageId) -> Vec<u8> {
        let mut all = lock(&self.0);
        let Some(diffs) = all.get_mut(&minipage) else { return Vec::new() };
        let oldest = diffs.remove(0);
        if diffs.is_empty() {
            all.remove(&minipage);
        }
        oldest
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn diffs_come_back_oldest_first_and_leave_nothing_behind() {
        let (pending, page) = (PendingDiffs::default(), MinipageId(3));
        for diff in [b"one", b"two", b"six"] {
            pending.add(page, diff);
        }
        assert_eq!(pending.take_oldest(page), b"one");
        assert_eq!(pending.take_all(page), [b"two", b"six"]);
        assert!(pending.take_oldest(page).is_empty() && pending.take_all(page).is_empty());
        pending.add(page, b"ten");
        assert_eq!(pending.take_oldest(page), b"ten");
        assert!(lock(&pending.0).is_empty());
    }
}
