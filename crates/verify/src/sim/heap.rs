//! Objects that threads allocate, use and free: minipages that are reused.
//!
//! The program is correct except for careless reads: nobody uses an object before it is
//! published or after its free. Which objects exist is known to all threads, as if they told each
//! other.

use core::ops::Range;

use multigrain_protocol::Kind;
use multigrain_types::NodeId;

use super::operation::{Op, Sequence};
use super::rng::Rng;

/// All objects of a job.
#[derive(Debug)]
pub(super) struct Heap {
    first: u32,
    objects: Vec<Object>,
}

#[derive(Debug)]
struct Object {
    owner: NodeId,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Allocated, not written yet.
    Fresh,
    /// So many threads use it just now.
    Live(u32),
    /// Until its owner has it back.
    Freeing,
}

impl Heap {
    pub(super) fn new(minipages: &Range<u32>, owner: impl Fn(u32) -> NodeId) -> Self {
        let object = |index| Object { owner: owner(index), state: State::Free };
        Self { first: minipages.start, objects: minipages.clone().map(object).collect() }
    }

    /// What a thread of a node does with this object now.
    pub(super) fn sequence(&mut self, index: u32, node: NodeId, rng: &mut Rng) -> Sequence {
        let object = self.object(index);
        match object.state {
            State::Free if object.owner == node => {
                object.state = State::Fresh;
                Sequence::of(&[Op::Write(index), Op::Publish(index)])
            }
            State::Live(0) if rng.once_in(3) => {
                object.state = State::Freeing;
                // With a copy on its way, perhaps.
                let hint = Op::Prefetch(index, rng.pick(&[Kind::Read, Kind::Write]));
                let ops = [hint, Op::Free(index)];
                Sequence::of(if rng.once_in(2) { &ops } else { &ops[1..] })
            }
            // Careless: it may be freed meanwhile.
            State::Live(_) if rng.once_in(3) => Sequence::of(&[Op::Peek(index)]),
            State::Live(users) => {
                object.state = State::Live(users + 1);
                let op = if rng.once_in(2) { Op::Read(index) } else { Op::Write(index) };
                Sequence::of(&[op, Op::Leave(index)])
            }
            State::Free | State::Fresh | State::Freeing => Sequence::of(&[Op::Peek(index)]),
        }
    }

    pub(super) fn publish(&mut self, index: u32) {
        self.object(index).state = State::Live(0);
    }

    pub(super) fn leave(&mut self, index: u32) {
        if let State::Live(users) = &mut self.object(index).state {
            *users -= 1;
        }
    }

    /// The owner has the minipage back; false if nobody has freed it.
    pub(super) fn reclaimed(&mut self, index: u32) -> bool {
        let known = index >= self.first;
        known && {
            let object = self.object(index);
            core::mem::replace(&mut object.state, State::Free) == State::Freeing
        }
    }

    pub(super) fn owner(&self, index: u32) -> NodeId {
        self.objects[(index - self.first) as usize].owner
    }

    /// An object that was freed and never came back.
    pub(super) fn lost(&self) -> Option<u32> {
        let at = self.objects.iter().position(|object| object.state == State::Freeing)?;
        Some(self.first + u32::try_from(at).unwrap_or(0))
    }

    fn object(&mut self, index: u32) -> &mut Object {
        &mut self.objects[(index - self.first) as usize]
    }
}
