//! Access programs: a node's operations, as far as others can notice them.

use core::fmt;
use core::ops::Range;

/// One step of a node's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Work on so many elements, in the application's own unit.
    Compute(u64),
    /// A load from a minipage.
    Read(u32),
    /// A store to a minipage.
    Write(u32),
    /// A read copy is asked for; nobody waits.
    Prefetch(u32),
    /// Read copies for all nodes.
    Push(u32),
    /// Takes a lock.
    Lock(u32),
    /// Gives it back.
    Unlock(u32),
    /// All nodes meet.
    Barrier,
    /// A round of the pattern is over; takes no time.
    Round,
}

/// A node's steps, made as they are asked for: a step after `Lock` is made with the lock held.
pub type Program = Box<dyn Iterator<Item = Step>>;

/// A minipage that several nodes touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node that has the only copy when the measured section begins.
    pub owner: u16,
    /// Its size.
    pub bytes: u64,
}

/// An application with its input.
pub trait Pattern: fmt::Debug {
    /// As in `apps/`.
    fn name(&self) -> &'static str;
    /// The flags that give the real program this input.
    fn flags(&self) -> String;
    /// More nodes than this have nothing to share out.
    fn most_nodes(&self) -> u16;
    /// How often the pattern repeats itself: iterations; 1 if every one differs.
    fn rounds(&self) -> u32;
    /// The minipages; those that only one node ever touches may be left out.
    fn places(&self, nodes: u16) -> Vec<Place>;
    /// Locks in use: their ids are below.
    fn locks(&self) -> u32;
    /// One program a node, with this many rounds, from the start of the measured section to its end.
    fn programs(&self, nodes: u16, rounds: u32) -> Vec<Program>;
}

/// Elements that the whole run works on, on one node.
pub fn work(pattern: &dyn Pattern) -> u64 {
    let elements = |step| if let Step::Compute(elements) = step { elements } else { 0 };
    pattern.programs(1, pattern.rounds()).into_iter().flatten().map(elements).sum()
}

/// A program of equal rounds, and the barrier that ends every measured section.
pub(super) fn repeated<I: IntoIterator<Item = Step> + 'static>(
    rounds: u32,
    round: impl Fn(u32) -> I + 'static,
) -> Program
where
    I::IntoIter: 'static,
{
    let all = (0..rounds).flat_map(move |number| round(number).into_iter().chain([Step::Round]));
    Box::new(all.chain([Step::Barrier]))
}

/// The consecutive part of `count` things that belongs to a node (`span_of` in apps/common/app.h).
pub(super) fn span(count: u32, node: u16, nodes: u16) -> Range<u32> {
    let at = |node: u64| {
        let begin = u64::from(count) * node / u64::from(nodes);
        u32::try_from(begin).expect("at most `count`")
    };
    at(node.into())..at(u64::from(node) + 1)
}
