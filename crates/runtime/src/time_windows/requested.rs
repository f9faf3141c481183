//! What the program keeps of its own will: a time window for each grant of a page (Delta, MIRAGE+ 2.1), and pages
//! from a write lock to its end (5.4); and what a node that thrashes keeps in its turn ([`super::thrashing`]).
//!
//! A window that was asked for is a pin that goes when its time is over, whatever its thread does meanwhile. One
//! of a turn goes when its thread calls the library, too. A locked page is one that goes when the lock does. Both are known by their thread and minipage.

use std::collections::{BTreeMap, BTreeSet};

use multigrain_types::{MinipageId, ThreadId};

/// A thread and what it keeps.
pub(super) type ThreadsMinipage = (MinipageId, ThreadId);

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct RequestedWindows {
    ends: BTreeMap<ThreadsMinipage, u64>,
    /// The same by when they end.
    by_end: BTreeSet<(u64, ThreadsMinipage)>,
    /// Those that end when their threads wait.
    until_wait: BTreeSet<(ThreadId, MinipageId)>,
    /// Pages that are locked, and how often.
    locked: BTreeMap<ThreadsMinipage, u32>,
}

impl RequestedWindows {
    /// A thread keeps a minipage until then. What it kept of it before, which is over.
    pub(super) fn keep(&mut self, kept: ThreadsMinipage, ends_ns: u64) -> Option<ThreadsMinipage> {
        let before = self.end(kept);
        self.ends.insert(kept, ends_ns);
        self.by_end.insert((ends_ns, kept));
        before
    }

    /// The same, and no longer than until the thread waits.
    pub(super) fn keep_until_wait(
        &mut self,
        kept: ThreadsMinipage,
        ends_ns: u64,
    ) -> Option<ThreadsMinipage> {
        let before = self.keep(kept, ends_ns);
        self.until_wait.insert((kept.1, kept.0));
        before
    }

    fn end(&mut self, kept: ThreadsMinipage) -> Option<ThreadsMinipage> {
        let ends_ns = self.ends.remove(&kept)?;
        self.until_wait.remove(&(kept.1, kept.0));
        self.by_end.remove(&(ends_ns, kept));
        Some(kept)
    }

    /// Ends the windows on a minipage.
    pub(super) fn end_on(&mut self, minipage: MinipageId) -> Vec<ThreadsMinipage> {
        let all = (minipage, ThreadId(0))..=(minipage, ThreadId(u32::MAX));
        let on: Vec<ThreadsMinipage> = self.ends.range(all).map(|(kept, _)| *kept).collect();
        on.into_iter().filter_map(|kept| self.end(kept)).collect()
    }

    /// A thread waits: ends those of its windows that end with it.
    pub(super) fn end_of(&mut self, thread: ThreadId) -> Vec<ThreadsMinipage> {
        let all = (thread, MinipageId(0))..=(thread, MinipageId(u64::MAX));
        let of: Vec<ThreadsMinipage> = self.until_wait.range(all).map(|of| (of.1, of.0)).collect();
        of.into_iter().filter_map(|kept| self.end(kept)).collect()
    }

    /// Ends those whose time is over.
    pub(super) fn end_due(&mut self, now_ns: u64) -> Vec<ThreadsMinipage> {
        let due = self.by_end.iter().take_while(|(ends_ns, _)| *ends_ns <= now_ns);
        let due: Vec<ThreadsMinipage> = due.map(|(_, kept)| *kept).collect();
        due.into_iter().filter_map(|kept| self.end(kept)).collect()
    }

    /// When the next one ends.
    pub(super) fn next_end_ns(&self) -> Option<u64> {
        self.by_end.first().map(|(ends_ns, _)| *ends_ns)
    }

    /// A thread locks a minipage, once more perhaps.
    pub(super) fn lock(&mut self, kept: ThreadsMinipage) {
        *self.locked.entry(kept).or_default() += 1;
    }

    /// How often a thread has locked a minipage.
    pub(super) fn locks(&self, kept: ThreadsMinipage) -> u32 {
        self.locked.get(&kept).copied().unwrap_or_default()
    }

    /// Whether any thread has locked a minipage.
    pub(super) fn is_locked(&self, minipage: MinipageId) -> bool {
        let all = (minipage, ThreadId(0))..=(minipage, ThreadId(u32::MAX));
        self.locked.range(all).next().is_some()
    }

    /// Unlocks it, once; false if it is not locked.
    pub(super) fn unlock(&mut self, kept: ThreadsMinipage) -> bool {
        let Some(count) = self.locked.get_mut(&kept) else { return false };
        *count -= 1;
        if *count == 0 {
            self.locked.remove(&kept);
        }
        true
    }

    /// All that a thread has locked, each as often as it has, unlocked.
    pub(super) fn unlock_all_of(&mut self, thread: ThreadId) -> Vec<ThreadsMinipage> {
        let of_thread = self.locked.extract_if(.., |(_, by), _| *by == thread);
        of_thread.flat_map(|(kept, count)| core::iter::repeat_n(kept, count as usize)).collect()
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    const fn kept(minipage: u64, thread: u32) -> ThreadsMinipage {
        (MinipageId(minipage), ThreadId(thread))
    }

    #[test]
    fn a_window_ends_once_by_its_time_or_with_its_minipage() {
        let mut asked = RequestedWindows::default();
        assert_eq!(asked.keep(kept(1, 0), 10), None);
        assert_eq!(asked.keep(kept(1, 3), 20), None);
        assert_eq!(asked.keep(kept(2, 0), 15), None);
        assert_eq!(asked.next_end_ns(), Some(10));
        assert_eq!(asked.end_due(12), [kept(1, 0)]);
        assert_eq!(asked.end_on(MinipageId(1)), [kept(1, 3)]);
        assert_eq!((asked.end_on(MinipageId(1)), asked.next_end_ns()), (vec![], Some(15)));
        assert_eq!(asked.keep(kept(2, 0), 30), Some(kept(2, 0)), "the one before is over");
        assert_eq!((asked.end_due(29), asked.end_due(30)), (vec![], vec![kept(2, 0)]));
        assert_eq!(asked.next_end_ns(), None);
    }

    #[test]
    fn a_window_of_a_turn_ends_when_its_thread_waits() {
        let mut asked = RequestedWindows::default();
        assert_eq!(asked.keep(kept(1, 3), 10), None);
        assert_eq!(asked.keep_until_wait(kept(2, 3), 10), None);
        assert_eq!(asked.keep_until_wait(kept(3, 3), 10), None);
        assert_eq!(asked.keep_until_wait(kept(2, 4), 10), None);
        assert_eq!(asked.end_on(MinipageId(3)), [kept(3, 3)]);
        assert_eq!(
            (asked.end_of(ThreadId(3)), asked.end_of(ThreadId(3))),
            (vec![kept(2, 3)], vec![])
        );
        assert_eq!(asked.end_due(10), [kept(1, 3), kept(2, 4)]);
        assert!(asked.until_wait.is_empty());
    }

    #[test]
    fn what_is_locked_twice_is_unlocked_twice() {
        let mut asked = RequestedWindows::default();
        for _ in 0..2 {
            asked.lock(kept(1, 7));
        }
        asked.lock(kept(1, 8));
        assert!(asked.unlock(kept(1, 7)) && asked.locks(kept(1, 7)) == 1);
        assert!(!asked.unlock(kept(2, 7)));
        asked.lock(kept(3, 7));
        assert_eq!(asked.unlock_all_of(ThreadId(7)), [kept(1, 7), kept(3, 7)]);
        assert!(!asked.unlock(kept(1, 7)) && asked.unlock(kept(1, 8)));
    }
}
