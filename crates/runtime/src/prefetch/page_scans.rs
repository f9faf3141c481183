//! Which pages a thread scans: it reads minipages of them one after the other ([`super::spatial`] says what that is good for).

use multigrain_types::MinipageId;

/// Pages that are asked for together, at most.
const MOST_PAGES: u64 = 4;

/// Scans that a thread may have under way: blocks of mixed sizes lie in as many pages as they have sizes.
const MOST_SCANS: usize = 16;

/// What a thread reads one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scan {
    /// The page it is expected at next.
    next: u64,
    /// How many pages before that one were asked for together; 0 if a single minipage of it was read.
    pages: u64,
    /// What it read last.
    last: MinipageId,
}

impl Scan {
    /// Whether a page is one of those asked for last, or the next.
    fn has(&self, page: u64) -> bool {
        (self.next - self.pages..=self.next).contains(&page)
    }
}

/// The scans of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scans([Option<Scan>; MOST_SCANS]);

impl Scans {
    pub(super) const NONE: Self = Self([None; MOST_SCANS]);

    /// The thread fetches a minipage of this page to read it: how many pages from this one on it is likely to
    /// read; 0 if it does not scan.
    pub(super) fn reads(&mut self, page: u64, minipage: MinipageId) -> u64 {
        let scan = self.take(page);
        let (next, pages, asked) = match scan {
            // The first of the page, or the same again: a lock was taken in between, and another node has written it.
            None => (page, 0, 0),
            Some(Scan { pages: 0, last, .. }) if minipage == last => (page, 0, 0),
            // The second minipage of the page.
            Some(Scan { pages: 0, .. }) => (page + 1, 1, 1),
            Some(Scan { next, pages, .. }) if page == next => {
                let asked = (2 * pages).min(MOST_PAGES);
                (page + asked, asked, asked)
            }
            // One that was left out.
            Some(Scan { next, pages, last }) if minipage > last => (next, pages, 1),
            // One that was read before: the scan, if it is one, begins again.
            Some(_) => (page, 0, 0),
        };
        self.0.rotate_right(1);
        self.0[0] = Some(Scan { next, pages, last: minipage });
        asked
    }

    /// Ends the scan that a page belongs to, if there is one.
    pub(super) fn end(&mut self, page: u64) {
        if self.0.iter().flatten().any(|scan| scan.has(page)) {
            self.take(page);
        }
    }

    /// Takes the scan out that a page belongs to, or an unused one, or the one not used for longest.
    fn take(&mut self, page: u64) -> Option<Scan> {
        let found = self.0.iter().position(|scan| scan.is_some_and(|scan| scan.has(page)));
        let scan = found.and_then(|at| self.0[at].take());
        let free = self.0.iter().position(Option::is_none).unwrap_or(MOST_SCANS - 1);
        self.0[free..].rotate_left(1);
        self.0[MOST_SCANS - 1] = None;
        scan
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// A minipage of a page of this number; pages of the tests have 100 each.
    fn minipage(page: u64, place: u64) -> MinipageId {
        MinipageId(page * 100 + place)
    }

    fn reads<const N: usize>(scans: &mut Scans, order: [(u64, u64); N]) -> [u64; N] {
        order.map(|(page, place)| scans.reads(page, minipage(page, place)))
    }

    #[test]
    fn a_thread_scans_from_the_second_minipage_of_a_page_on() {
        let scans = &mut { Scans::NONE };
        assert_eq!(reads(scans, [(7, 0), (7, 1)]), [0, 1], "the second");
        assert_eq!(reads(scans, [(8, 0), (10, 0), (14, 0), (18, 0)]), [2, 4, 4, 4]);
        assert_eq!(reads(scans, [(21, 3)]), [1], "one that was left out");
        assert_eq!(reads(scans, [(22, 0)]), [4], "which ends nothing");
        assert_eq!(reads(scans, [(90, 0)]), [0], "not of a page farther on");
        assert_eq!(reads(scans, [(90, 1), (89, 0)]), [1, 0], "and not backwards");
    }

    #[test]
    fn what_is_read_again_and_again_is_no_scan() {
        let scans = &mut { Scans::NONE };
        assert_eq!(reads(scans, [(7, 3), (7, 3), (7, 3)]), [0, 0, 0]);
        assert_eq!(reads(scans, [(7, 4)]), [1]);
        assert_eq!(reads(scans, [(7, 3), (7, 3), (7, 4)]), [0, 0, 1], "a scan begins again");
    }

    #[test]
    fn scans_of_many_pages_go_on_side_by_side_and_the_one_unused_for_longest_ends() {
        let scans = &mut { Scans::NONE };
        let many = MOST_SCANS as u64;
        for page in 1..=many {
            assert_eq!(reads(scans, [(page * 10, 0)]), [0]);
        }
        for page in 1..=many {
            assert_eq!(reads(scans, [(page * 10, 1), (page * 10 + 1, 0)]), [1, 2]);
        }
        assert_eq!(reads(scans, [(1000, 0), (13, 0)]), [0, 0], "the first one had to go");
        assert_eq!(reads(scans, [(33, 0), (1000, 1)]), [4, 1], "the third one did not");
        scans.end(5000);
        assert_eq!(reads(scans, [(43, 0)]), [4], "and the end of none ends none");
    }
}
