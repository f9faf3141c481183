//! Atomic operations, done where the word lives: by whichever node may write it, and that is the manager of its
//! minipage where many nodes use it so.
//!
//! A thread that may write the word does it itself. Else it asks the manager, which does it on its own memory, under the
//! lock of the minipage's state: what the protocol sees is an access of the manager's, like one of its threads. A
//! manager that cannot write the word has it come, once, and does then what was asked meanwhile. Where somebody else took
//! it before that, or a thread keeps the page locked, the answer is "busy", and the asking thread goes the way of an
//! instruction, which always ends.

#![expect(unsafe_code, reason = "words are reached by their addresses in the privileged view")]

use core::sync::atomic::Ordering;

use multigrain_protocol::{Cell, Input, Kind};
use multigrain_types::{Access, MinipageId};

use super::Driver;
use crate::atomic_op::AtomicOp;
use crate::error_code as code;
use crate::frames::{Asker, DriverFrame};
use crate::shim::{AtomicBool, Mutex, lock};

/// What other nodes have asked for, of words that are on their way here.
#[derive(Debug, Default)]
pub(super) struct WaitingAtomics {
    waiting: Mutex<Vec<(Asker, Word, AtomicOp)>>,
    /// Whether there are any, without the lock.
    any: AtomicBool,
}

/// A word of shared memory: its minipage, and its place in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) minipage: MinipageId,
    offset: usize,
}

/// What came of an operation.
enum Attempt {
    Done(u64),
    /// Its minipage is on its way here.
    Coming,
    /// This node may not write it.
    Elsewhere,
}

impl Driver {
    /// The word of sequentially consistent memory at an address; none where there is no such, or not in one minipage.
    pub(crate) fn word(&self, address: usize, bytes: usize) -> Option<Word> {
        let minipage = self.memory().translate(address)?;
        let area = &self.tables().area(minipage.area())?.record;
        let offset = address.checked_sub(area.area.address(minipage.index()))?;
        let inside = offset + bytes <= area.area.minipage_bytes(minipage.index());
        let fits = inside && address.is_multiple_of(bytes) && area.consistency.is_sequential();
        fits.then_some(Word { minipage, offset })
    }

    /// Does it on this node, if this node may write the word now; the value before.
    pub(crate) fn apply_here(&self, word: Word, op: AtomicOp) -> Option<u64> {
        match self.attempt(word, op) {
            Attempt::Done(before) => Some(before),
            Attempt::Coming | Attempt::Elsewhere => None,
        }
    }

    /// Asks the manager of a word, another node, to do it; none if it could not.
    pub(crate) fn apply_at_manager(&self, address: usize, word: Word, op: AtomicOp) -> Option<u64> {
        let manager = self.tables().manager(word.minipage)?;
        let row = DriverFrame::Atomic.row();
        self.ask_node(manager, row, (address as u64, 0), &op.to_bytes()).ok()
    }

    fn attempt(&self, Word { minipage, offset }: Word, op: AtomicOp) -> Attempt {
        let mut cell = self.tables().lock(minipage);
        match cell.access() {
            Access::ReadWrite => {
                let (place, _) = self.memory().privileged(minipage);
                // SAFETY: `Driver::word` has checked that it lies in the minipage, and is aligned; the privileged view
                // is writable. Threads of this node that access it do so in their own views, and atomically if they are
                // correct; no other node has access before the lock of the state is free.
                Attempt::Done(unsafe { op.apply(place.wrapping_add(offset)) })
            }
            Access::NoAccess | Access::ReadOnly if cell.holder().is_fetching() => Attempt::Coming,
            Access::NoAccess | Access::ReadOnly => Attempt::Elsewhere,
        }
    }

    /// Another node asks the manager of a word; false if it makes no sense.
    pub(super) fn serve_atomic(&self, asker: Asker, address: u64, body: &[u8]) -> bool {
        let (Some(op), Ok(address)) = (AtomicOp::from_bytes(body), usize::try_from(address)) else {
            return false;
        };
        let may_be_one = address.is_multiple_of(op.bytes()) && self.memory().reserves(address);
        if asker.node == self.me() || !may_be_one {
            return false;
        }
        // It may have been freed meanwhile, and another area lie there.
        let word =
            self.word(address, op.bytes()).filter(|word| self.tables().manages(word.minipage));
        let Some(word) = word else {
            self.answer(asker, code::BUSY, 0);
            return true;
        };
        let minipage = word.minipage;
        if self.engine.windows().is_page_locked(minipage) {
            self.answer(asker, code::BUSY, 0);
            return true;
        }
        let mut attempt = self.attempt(word, op);
        if matches!(attempt, Attempt::Elsewhere) {
            self.step_sure(Input::Prefetch { minipage, kind: Kind::Write });
            attempt = self.attempt(word, op);
        }
        match attempt {
            Attempt::Done(before) => self.answer(asker, 0, before),
            Attempt::Elsewhere => self.answer(asker, code::BUSY, 0),
            Attempt::Coming => {
                let mut waiting = lock(&self.atomics.waiting);
                waiting.push((asker, word, op));
                self.atomics.any.store(true, Ordering::Relaxed);
                drop(waiting);
                // It may have come in between, by another thread.
                self.finish_atomics();
            }
        }
        true
    }

    /// A minipage may have come: does what was asked for it.
    #[inline]
    pub(super) fn finish_atomics(&self) {
        if self.atomics.any.load(Ordering::Relaxed) {
            self.try_waiting_atomics();
        }
    }

    fn try_waiting_atomics(&self) {
        let mut waiting = lock(&self.atomics.waiting);
        let mut answers = Vec::new();
        waiting.retain(|&(asker, word, op)| {
            let answer = if self.memory().area(word.minipage.area()).is_none() {
                (code::BUSY, 0)
            } else {
                match self.attempt(word, op) {
                    Attempt::Done(before) => (0, before),
                    Attempt::Coming => return true,
                    Attempt::Elsewhere => (code::BUSY, 0),
                }
            };
            answers.push((asker, answer));
            false
        });
        self.atomics.any.store(!waiting.is_empty(), Ordering::Relaxed);
        drop(waiting);
        for (asker, (code, before)) in answers {
            self.answer(asker, code, before);
        }
    }
}
