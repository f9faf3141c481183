//! Runs: neighbouring minipages of an area that are requested, sent, protected and acknowledged together (ADR 35).
//!
//! The protocol does not know runs: its messages are about one minipage each. A step about a run is one
//! step for each of its minipages, under the locks of them all; what these steps send alike is one frame, and
//! what they protect alike is one change of protection.

use core::ops::Range;

use multigrain_types::MinipageId;

/// The longest run, in minipages.
pub(crate) const MAX_RUN: u32 = 1024;
/// Bytes that a run may have, unless one minipage has more: what a link takes at once.
pub(crate) const MAX_RUN_BYTES: usize = 256 << 10;

/// Neighbouring minipages of an area, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    first: MinipageId,
    count: u32,
}

impl Run {
    /// `count` minipages from `first` on; None for none, for more than [`MAX_RUN`], and past the last index.
    pub(crate) fn new(first: MinipageId, count: u32) -> Option<Self> {
        let fits = first.index().checked_add(count).is_some();
        (fits && (1..=MAX_RUN).contains(&count)).then_some(Self { first, count })
    }

    /// One minipage.
    pub(crate) fn one(first: MinipageId) -> Self {
        Self { first, count: 1 }
    }

    pub(crate) fn first(self) -> MinipageId {
        self.first
    }

    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// The index behind the last.
    pub(crate) fn end(self) -> u32 {
        self.first.index() + self.count
    }

    fn indices(self) -> Range<u32> {
        self.first.index()..self.end()
    }

    pub(crate) fn contains(self, minipage: MinipageId) -> bool {
        minipage.area() == self.first.area() && self.indices().contains(&minipage.index())
    }

    pub(crate) fn minipages(self) -> impl ExactSizeIterator<Item = MinipageId> {
        self.indices().map(move |index| MinipageId::new(self.first.area(), index))
    }

    /// The same in runs of `most` at most.
    pub(crate) fn parts(self, most: u32) -> impl Iterator<Item = Self> {
        let area = self.first.area();
        let starts = self.indices().step_by(most.max(1) as usize);
        starts.filter_map(move |start| {
            Self::new(MinipageId::new(area, start), most.max(1).min(self.end() - start))
        })
    }

    /// The same with `next` as its last, if it is the next one.
    pub(crate) fn with(self, next: MinipageId) -> Option<Self> {
        let follows = next.area() == self.first.area() && next.index() == self.end();
        follows.then(|| Self::new(self.first, self.count + 1)).flatten()
    }
}

/// Minipages that come in order, neighbours together.
pub(crate) fn runs_of(
    minipages: impl IntoIterator<Item = MinipageId>,
) -> impl Iterator<Item = Run> {
    let mut minipages = minipages.into_iter().peekable();
    core::iter::from_fn(move || {
        let mut run = Run::one(minipages.next()?);
        while let Some(longer) = minipages.peek().and_then(|&next| run.with(next)) {
            run = longer;
            minipages.next();
        }
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    fn minipage(index: u32) -> MinipageId {
        MinipageId::new(AreaId(3), index)
    }

    #[test]
    fn a_run_has_from_1_to_1024_minipages_that_have_indices() {
        assert_eq!(Run::new(minipage(0), 0), None);
        assert_eq!(Run::new(minipage(0), MAX_RUN + 1), None);
        assert_eq!(Run::new(minipage(u32::MAX), 1), None);
        let run = Run::new(minipage(5), 3).unwrap();
        assert!(run.minipages().eq([5, 6, 7].map(minipage)));
        assert!(!run.contains(minipage(4)) && run.contains(minipage(7)));
        assert!(!run.contains(minipage(8)) && !run.contains(MinipageId::new(AreaId(4), 6)));
    }

    #[test]
    fn a_run_grows_by_the_next_minipage_alone() {
        let run = Run::one(minipage(5));
        assert_eq!(run.with(minipage(6)), Run::new(minipage(5), 2));
        assert_eq!(run.with(minipage(7)), None);
        assert_eq!(run.with(minipage(5)), None);
        assert_eq!(run.with(MinipageId::new(AreaId(4), 6)), None);
        assert_eq!(Run::new(minipage(5), MAX_RUN).unwrap().with(minipage(5 + MAX_RUN)), None);
    }

    #[test]
    fn minipages_in_order_are_runs_of_neighbours() {
        let runs: Vec<_> = runs_of([1, 2, 3, 7, 9, 10].map(minipage)).collect();
        let run = |first, count| Run::new(minipage(first), count).unwrap();
        assert_eq!(runs, [run(1, 3), run(7, 1), run(9, 2)]);
        let counts: Vec<_> = runs_of((0..MAX_RUN + 5).map(minipage)).map(Run::count).collect();
        assert_eq!(counts, [MAX_RUN, 5]);
        assert_eq!(runs_of([]).next(), None);
    }
}
