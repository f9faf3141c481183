//! Write notices: the batch that one node sends another about lazily consistent writes, and its bytes.
//!
//! Role: travels with the message that carries a release, or right before it. `interval_log.rs` records which node
//! knows of which writes; times are in `vector_time.rs`.
//!
//! The bytes are a row of numbers, most of them small: seven bits a byte, the low ones first, the top bit of all bytes
//! but the last set. Count of clock entries, then each; count of notices, then writer, interval, area and index of
//! each; count of floor entries, then each; 0 or 1, and if 1 the plan: epoch, clock as above, count
//! of moves, then area, index and node of each. 2 instead of 0: the floor is that of a subtree.

use multigrain_types::{AreaId, MinipageId, NodeId};

use crate::migration::MigrationPlan;

/// One minipage was written by one node in one interval (a write notice).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "a sentence in three words")]
pub struct WriteNotice {
    pub writer: NodeId,
    pub interval: u64,
    pub minipage: MinipageId,
}

/// A batch of write notices, with the vector time that they make up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct WriteNotices {
    /// Of every node, the last interval the sender has received.
    pub clock: Vec<u64>,
    /// What was written in the intervals the receiver may not have received.
    pub notices: Vec<WriteNotice>,
    /// What every node has received, so that nobody needs to remember it; or nothing.
    pub floor: Vec<u64>,
    /// Only the sender and the nodes below it in the tree of the job have received that much, as far as it knows. There is
    /// no plan then.
    pub below: bool,
    /// With the release of a barrier that found the job quiescent.
    pub plan: Option<MigrationPlan>,
}

/// Bytes that are no write notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteNoticesError {
    /// They end too early, or announce more than follows.
    #[error("write notices of {bytes} bytes end too early")]
    Short {
        /// Its length.
        bytes: usize,
    },
    /// Something follows, or a flag is none.
    #[error("notices with {left} bytes that make no sense")]
    Left {
        /// How many.
        left: usize,
    },
    /// A number that is too large for its meaning, or has a shorter spelling.
    #[error("notices with the number {value} where none so large, or so long, can be")]
    Number {
        /// As far as it was read.
        value: u64,
    },
    /// A node that the job does not have.
    #[error("notices of node {node} in a job of {nodes} nodes")]
    Node {
        /// The node.
        node: usize,
        /// Nodes of the job.
        nodes: u16,
    },
}

impl WriteNotices {
    /// The bytes that travel.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_clock(&mut out, &self.clock);
        put_count(&mut out, self.notices.len());
        for notice in &self.notices {
            put(&mut out, notice.writer.0.into());
            put(&mut out, notice.interval);
            put_minipage(&mut out, notice.minipage);
        }
        put_clock(&mut out, &self.floor);
        put(&mut out, if self.below { 2 } else { self.plan.is_some().into() });
        if let Some(plan) = &self.plan {
            put(&mut out, plan.epoch);
            put_clock(&mut out, &plan.clock);
            put_count(&mut out, plan.moves.len());
            for (minipage, home) in &plan.moves {
                put_minipage(&mut out, *minipage);
                put(&mut out, home.0.into());
            }
        }
        out
    }

    /// These notices in parts of at most `count` notices and moves each, to be received in order.
    #[must_use]
    pub fn into_parts(mut self, count: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        while self.notices.len() > count {
            let notices = self.notices.drain(..count).collect();
            parts.push(Self { notices, ..Self::default() });
        }
        while let Some(plan) = self.plan.as_mut().filter(|plan| plan.moves.len() > count) {
            let moves = plan.moves.drain(..count).collect();
            let plan = Some(MigrationPlan { epoch: plan.epoch, clock: plan.clock.clone(), moves });
            parts.push(Self { plan, ..Self::default() });
        }
        parts.push(self);
        parts
    }

    /// The write notices these bytes spell, in a job of `nodes` nodes.
    ///
    /// # Errors
    /// [`WriteNoticesError`] for bytes no node of this job sends.
    pub fn from_bytes(bytes: &[u8], nodes: u16) -> Result<Self, WriteNoticesError> {
        let mut reader = Reader { left: bytes, bytes: bytes.len() };
        let clock = reader.clock()?;
        let count = reader.count(4)?;
        let mut notices = Vec::with_capacity(count);
        for _ in 0..count {
            let writer = NodeId(reader.number()?);
            let interval = reader.number()?;
            let minipage = reader.minipage()?;
            notices.push(WriteNotice { writer, interval, minipage });
        }
        let floor = reader.clock()?;
        let (plan, below) = match reader.number::<u64>()? {
            0 => (None, false),
            1 => (Some(reader.switch()?), false),
            2 => (None, true),
            value => return Err(WriteNoticesError::Number { value }),
        };
        if !reader.left.is_empty() {
            return Err(WriteNoticesError::Left { left: reader.left.len() });
        }
        let notices = Self { clock, notices, floor, below, plan };
        notices.check(nodes)?;
        Ok(notices)
    }

    fn check(&self, nodes: u16) -> Result<(), WriteNoticesError> {
        let clocks =
            [Some(&self.clock), Some(&self.floor), self.plan.as_ref().map(|plan| &plan.clock)];
        let longest = clocks.into_iter().flatten().map(Vec::len).max().unwrap_or(0);
        let writers = self.notices.iter().map(|notice| notice.writer.index());
        let homes = self.plan.iter().flat_map(|plan| &plan.moves).map(|(_, home)| home.index());
        let most = writers.chain(homes).map(|node| node + 1).chain([longest]).max().unwrap_or(0);
        if most > usize::from(nodes) {
            return Err(WriteNoticesError::Node { node: most - 1, nodes });
        }
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= MORE.into() {
        out.push(low_bits(number) | MORE);
        number >>= BITS;
    }
    out.push(low_bits(number));
}

/// The bits of a number that go into one byte.
fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & !MORE
}

/// Bits of a number in a byte.
const BITS: u32 = 7;
/// Set in a byte that others follow.
const MORE: u8 = 1 << BITS;

fn put_count(out: &mut Vec<u8>, count: usize) {
    put(out, count as u64);
}

fn put_minipage(out: &mut Vec<u8>, minipage: MinipageId) {
    put(out, minipage.area().0.into());
    put(out, minipage.index().into());
}

fn put_clock(out: &mut Vec<u8>, clock: &[u64]) {
    put_count(out, clock.len());
    clock.iter().for_each(|&entry| put(out, entry));
}

struct Reader<'a> {
    left: &'a [u8],
    bytes: usize,
}

impl Reader<'_> {
    /// A number as far as its type goes, in its only spelling.
    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, WriteNoticesError> {
        let mut value = 0u64;
        for shift in (0..u64::BITS).step_by(BITS as usize) {
            let short = WriteNoticesError::Short { bytes: self.bytes };
            let (&byte, left) = self.left.split_first().ok_or(short)?;
            self.left = left;
            let bits = u64::from(byte & !MORE);
            value |= bits << shift;
            if byte & MORE == 0 {
                let whole = bits << shift >> shift == bits;
                let shortest = bits > 0 || shift == 0;
                let number = T::try_from(value).ok().filter(|_| whole && shortest);
                return number.ok_or(WriteNoticesError::Number { value });
            }
        }
        Err(WriteNoticesError::Number { value })
    }

    fn minipage(&mut self) -> Result<MinipageId, WriteNoticesError> {
        Ok(MinipageId::new(AreaId(self.number()?), self.number()?))
    }

    /// A count of things of at least so many bytes, all of which must follow: what is allocated for
    /// them is never much more than what came.
    fn count(&mut self, each: usize) -> Result<usize, WriteNoticesError> {
        let count = self.number()?;
        if count > self.left.len() / each {
            return Err(WriteNoticesError::Short { bytes: self.bytes });
        }
        Ok(count)
    }

    fn clock(&mut self) -> Result<Vec<u64>, WriteNoticesError> {
        (0..self.count(1)?).map(|_| self.number()).collect()
    }

    fn switch(&mut self) -> Result<MigrationPlan, WriteNoticesError> {
        let epoch = self.number()?;
        let clock = self.clock()?;
        let count = self.count(3)?;
        let mut moves = Vec::with_capacity(count);
        for _ in 0..count {
            moves.push((self.minipage()?, NodeId(self.number()?)));
        }
        Ok(MigrationPlan { epoch, clock, moves })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> WriteNotices {
        let notice =
            WriteNotice { writer: NodeId(1), interval: 7, minipage: MinipageId(5 << 32 | 9) };
        let plan =
            MigrationPlan { epoch: 4, clock: vec![2, 7], moves: vec![(MinipageId(3), NodeId(1))] };
        WriteNotices {
            clock: vec![3, 7],
            notices: vec![notice],
            floor: vec![2, 6],
            below: false,
            plan: Some(plan),
        }
    }

    #[test]
    fn notices_survive_their_bytes() {
        let below = WriteNotices { plan: None, below: true, ..sample() };
        let plain = WriteNotices { plan: None, ..sample() };
        for notices in [WriteNotices::default(), sample(), below, plain] {
            assert_eq!(WriteNotices::from_bytes(&notices.to_bytes(), 2), Ok(notices));
        }
    }

    #[test]
    fn the_parts_of_notices_say_what_the_whole_says() {
        let mut whole = sample();
        whole.notices = (0..5).map(|n| WriteNotice { interval: n, ..whole.notices[0] }).collect();
        let plan = whole.plan.as_mut().unwrap();
        plan.moves = (0..5).map(|n| (MinipageId(n), NodeId(1))).collect();
        let mut parts = whole.clone().into_parts(2);
        assert_eq!(parts.len(), 5);
        let mut last = parts.pop().unwrap();
        for part in parts.into_iter().rev() {
            assert!(part.clock.is_empty() && part.floor.is_empty(), "only the last tells the time");
            last.notices.splice(0..0, part.notices);
            let moves = part.plan.map(|plan| plan.moves).unwrap_or_default();
            last.plan.as_mut().unwrap().moves.splice(0..0, moves);
        }
        assert_eq!(last, whole);
    }

    #[test]
    fn the_bytes_of_notices_are_fixed() {
        let minipage = MinipageId::new(AreaId(5), 128);
        let notice = WriteNotice { writer: NodeId(1), interval: 300, minipage };
        let notices =
            WriteNotices { clock: vec![4], notices: vec![notice], ..WriteNotices::default() };
        let golden: &[&[u8]] = &[&[1, 4], &[1, 1, 0xac, 2, 5, 0x80, 1], &[0, 0]];
        assert_eq!(notices.to_bytes(), golden.concat());
    }

    #[test]
    fn numbers_have_one_spelling_and_a_size() {
        for number in [0, 127, 128, 1 << 32, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut reader = Reader { left: &bytes, bytes: 0 };
            assert_eq!((reader.number(), reader.left), (Ok(number), &[][..]));
        }
        let mut reader = Reader { left: &[], bytes: 0 };
        let wrong: [&[u8]; 3] = [&[0x80, 0], &[0xff; 11], &[0x80, 0x80, 0x80, 0x80, 0x10]];
        for bytes in wrong {
            reader.left = bytes;
            assert!(
                matches!(reader.number::<u32>(), Err(WriteNoticesError::Number { .. })),
                "{bytes:?}"
            );
        }
        reader.left = &[0x80];
        assert_eq!(reader.number::<u64>(), Err(WriteNoticesError::Short { bytes: 0 }));
    }

    #[test]
    fn cut_long_and_foreign_notices_are_refused() {
        let bytes = sample().to_bytes();
        for end in 0..bytes.len() {
            assert!(WriteNotices::from_bytes(&bytes[..end], 2).is_err(), "cut to {end}");
        }
        let long = [&bytes[..], &[0]].concat();
        assert_eq!(WriteNotices::from_bytes(&long, 2), Err(WriteNoticesError::Left { left: 1 }));
        assert_eq!(
            WriteNotices::from_bytes(&bytes, 1),
            Err(WriteNoticesError::Node { node: 1, nodes: 1 })
        );
        let many = [255, 255, 127, 0];
        assert_eq!(WriteNotices::from_bytes(&many, 2), Err(WriteNoticesError::Short { bytes: 4 }));
    }
}
