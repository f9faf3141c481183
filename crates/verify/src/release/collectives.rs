//! Barriers that are collective operations: every thread brings a bit of its own, and all must come back, once each.

use std::sync::Arc;

use multigrain_protocol::sync::{COLLECTIVE, Element, Operand, Operation, Shape, SyncInput, WHOLE};
use multigrain_types::{NodeId, ThreadId};

use super::program::{Job, Op};
use super::state::Packet;
use super::world::Stage;

/// Of barriers with these ids, all threads sum up what they bring.
fn collects(id: u32) -> bool {
    id & 2 != 0
}

/// What a thread asks for that comes to a barrier.
pub(super) fn meet(
    job: &Job,
    thread: ThreadId,
    id: u32,
    (local, total, quiescent): (u32, u32, bool),
) -> SyncInput {
    let whole = if job.goes_by_tree(local, total) { WHOLE } else { 0 };
    if !collects(id) {
        let id = u64::from(id) | whole;
        return SyncInput::Barrier { thread, id, local, total, quiescent };
    }
    let (operation, element) = (Operation::Sum, Element::Uint64);
    let shape = Shape { operation, element, count: 1, whole: 1, root: None };
    let operand = Operand::new(shape, thread.0, bit(thread).to_ne_bytes().to_vec());
    let id = u64::from(id) | COLLECTIVE | whole;
    SyncInput::Collective { thread, id, local, total, quiescent, operand: Box::new(operand) }
}

fn bit(ThreadId(thread): ThreadId) -> u64 {
    1 << thread
}

impl Stage<'_> {
    /// The barrier at which a thread is, if it is a collective operation, and its size.
    fn collective(&self, thread: ThreadId) -> Option<u32> {
        let index = thread.0 as usize;
        let done = self.state.threads[index].done as usize;
        match self.job.threads[index].program.get(done) {
            Some(Op::Barrier { id, total, .. }) if collects(*id) => Some(*total),
            _ => None,
        }
    }

    pub(super) fn put_operand(&mut self, to: NodeId, id: u64, operand: &Operand) {
        if Operand::from_bytes(&operand.to_bytes()).as_ref() != Ok(operand) {
            self.broken(format!("{operand:?} does not survive its bytes"));
        }
        let link = self.job.link(self.me, to);
        self.state.links[link].push_back(Packet::Operand(id, operand.clone()));
    }

    pub(super) fn take_result(&mut self, thread: ThreadId, values: &Arc<[u8]>) {
        let bits = (**values).try_into().map(u64::from_ne_bytes).unwrap_or_default();
        let all = self.collective(thread) == Some(bits.count_ones());
        if !all || bits & bit(thread) == 0 {
            self.broken(format!("{thread} takes what the threads {bits:#b} have brought"));
        }
        self.results.push(thread);
    }

    /// A thread is woken from a collective operation: it must have its result.
    pub(super) fn check_result(&mut self, thread: ThreadId) {
        if self.collective(thread).is_some() && !self.results.contains(&thread) {
            self.broken(format!("{thread} leaves a collective operation without a result"));
        }
    }
}
