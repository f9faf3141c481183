//! Faults of a thread in blocks of pages, and whether they have cost what all that is missing of a block would
//! ([`super::dense_blocks`]).

use multigrain_types::MinipageId;

/// So many pages that come together cost at most what a fault on one costs: 15 to 40 us.
const PAGES_A_FAULT: u32 = 4;
/// Faults in a block before anything more is asked for.
pub(super) const FEWEST: u32 = 8;
/// Blocks that a thread follows.
const FOLLOWED: usize = 32;

/// Faults of a thread in the blocks that it used last.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFaults {
    /// Latest first.
    of: [Option<Block>; FOLLOWED],
    /// What the thread had acquired when faults were counted ([`crate::receiver::critical_section::acquisitions`]).
    acquisitions: u32,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Its first page.
    first: MinipageId,
    faults: u32,
    /// Its missing pages are not looked at before so many faults.
    looked_at_from: u32,
}

impl BlockFaults {
    pub(super) const NONE: Self = Self { of: [None; FOLLOWED], acquisitions: 0 };

    /// The thread has to fetch a page of the block that begins with `first`: whether it is time to look
    /// how many are missing.
    pub(super) fn fault(&mut self, first: MinipageId, acquisitions: u32) -> bool {
        if acquisitions != self.acquisitions {
            *self = Self { acquisitions, ..Self::NONE };
        }
        let at = self.of.iter().position(|block| block.is_some_and(|block| block.first == first));
        let new = Block { first, faults: 0, looked_at_from: FEWEST };
        let mut block = at.and_then(|at| self.of[at]).unwrap_or(new);
        block.faults += 1;
        self.of[..=at.unwrap_or(FOLLOWED - 1)].rotate_right(1);
        self.of[0] = Some(block);
        block.faults >= block.looked_at_from
    }

    /// Of the block that was used last so many pages are missing: whether its faults have cost what these do. If so, they
    /// are counted anew. If not, a fault is one page less that is missing.
    pub(super) fn are_paid(&mut self, missing: usize) -> bool {
        let Some(mut block) = self.of[0] else { return false };
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let paid = missing <= block.faults.saturating_mul(PAGES_A_FAULT);
        let enough = missing.saturating_add(block.faults).div_ceil(PAGES_A_FAULT + 1);
        block.looked_at_from = enough.max(block.faults + 1);
        self.of[0] = Some(block);
        if paid {
            self.forget(block.first);
        }
        paid
    }

    /// Faults in the block that begins with `first` no longer count.
    pub(super) fn forget(&mut self, first: MinipageId) {
        let is_it = |block: &Option<Block>| block.is_some_and(|block| block.first == first);
        if let Some(at) = self.of.iter().position(is_it) {
            self.of[at] = None;
            self.of[at..].rotate_left(1);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    fn block(number: u32) -> MinipageId {
        MinipageId::new(AreaId(3), number * 256)
    }

    /// Faults on a block whose pages are all missing, until it is asked for.
    fn faults_of(blocks: &mut BlockFaults, pages: u32, acquisitions: u32) -> (u32, u32) {
        let mut looks = 0;
        for faults in 1..pages {
            if blocks.fault(block(0), acquisitions) {
                looks += 1;
                if blocks.are_paid((pages - faults) as usize) {
                    return (faults, looks);
                }
            }
        }
        (pages, looks)
    }

    #[test]
    fn a_block_is_asked_for_once_faults_have_cost_as_much() {
        let mut blocks = BlockFaults::NONE;
        assert_eq!(faults_of(&mut blocks, 256, 0), (52, 2));
        assert_eq!(faults_of(&mut blocks, 128, 0), (26, 2), "counted anew");
        assert_eq!(faults_of(&mut blocks, 16, 0), (8, 1));
    }

    #[test]
    fn faults_before_an_acquire_do_not_count() {
        let mut blocks = BlockFaults::NONE;
        let counted: Vec<_> = (0..9).map(|_| blocks.fault(block(0), 1)).collect();
        assert_eq!(counted[6..], [false, true, true]);
        assert!(!blocks.fault(block(0), 2));
    }

    #[test]
    fn a_thread_follows_32_blocks() {
        let mut blocks = BlockFaults::NONE;
        let mut turn =
            |count| (0..count).map(|number| blocks.fault(block(number), 0)).collect::<Vec<_>>();
        for _ in 0..FEWEST - 1 {
            assert_eq!(turn(32), [false; 32]);
        }
        assert_eq!(turn(32), [true; 32]);
        turn(33);
        assert_eq!(turn(33), [false; 33], "each is forgotten for the next");
        (0..FEWEST).for_each(|_| _ = blocks.fault(block(32), 0));
        blocks.forget(block(32));
        blocks.fault(block(33), 0);
        assert!(
            blocks.of.iter().all(Option::is_some),
            "only the place of the forgotten one is taken"
        );
    }
}
