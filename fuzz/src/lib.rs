//! What the targets share: taking an input apart, and the node that is attacked.
#![cfg(feature = "targets")]

pub mod relaxed;
#[cfg(not(fuzzing))]
pub mod replay;

/// A target takes bytes. libFuzzer calls it in a build with `--cfg fuzzing` (`run.sh`), a `main` otherwise.
#[cfg(fuzzing)]
pub use libfuzzer_sys::fuzz_target;

use multigrain_memory::{VIEW_ALIGN, VIEWS_BASE};
use multigrain_runtime::fuzzing::{NODES, Outcome, Victim};
use multigrain_types::{NodeId, Placement};

/// The bytes of an input, from front to back. What is not there any more reads as zero.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` bytes, or what is left.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(count.min(self.0.len()));
        self.0 = later;
        now
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Two bytes, the low one first.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number, most of the time one that means something to a node: a size or count at a limit,
    /// or an address near the start of the views.
    pub fn number(&mut self) -> u64 {
        const VIEWS: u64 = VIEWS_BASE as u64;
        const CHUNK: u64 = VIEW_ALIGN as u64;
        match self.byte() {
            255 => self.long(),
            254 => VIEWS + u64::from(self.word()),
            253 => u64::MAX - u64::from(self.byte()),
            252 => u32::MAX.into(),
            251 => 1 << (self.byte() % 64),
            250 => VIEWS + CHUNK * u64::from(self.byte()),
            small => small.into(),
        }
    }

    /// A number of bytes, and so many bytes.
    pub fn counted(&mut self) -> &'a [u8] {
        let count = self.byte();
        self.bytes(count.into())
    }
}

/// The node an input is for: rank 0 or 1, and any placement of managers.
#[must_use]
pub fn victim(choice: u8) -> (NodeId, Victim) {
    let rank = NodeId(u16::from(choice & 1));
    let placement = match choice >> 1 & 3 {
        0 => Placement::First,
        1 => Placement::Spread,
        _ => Placement::Allocator,
    };
    (rank, Victim::new(rank, placement))
}

/// One of the two nodes that are not `rank`.
#[must_use]
pub fn peer(rank: NodeId, choice: u8) -> NodeId {
    NodeId((rank.0 + 1 + u16::from(choice & 1)) % NODES)
}

/// Checks the last words of a node: it names a peer, or an error of its own.
///
/// # Panics
/// When they are no such line.
pub fn ends_well(outcome: &Outcome) {
    let Outcome::Ended(status, line) = outcome else { return };
    let start = match status {
        70 => "fatal ",
        75 => "lost ",
        _ => panic!("exit status {status}: {line}"),
    };
    assert!(line.starts_with(start), "{status}: {line}");
}
