//! The values of a set's semaphores, and what one `semop` does to them.

use super::call::{Operation, Process};
use super::errno::Errno;
use super::sem_undo::UndoRecords;

/// SEMVMX, the highest value; an adjustment may be as low as one less than its negative.
pub(super) const HIGHEST_VALUE: i32 = 32_767;

/// One semaphore.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Semaphore {
    /// 0 to 32767.
    pub(super) value: i32,
    /// Who changed the value last, or waited for zero last; 0 before that.
    pub(super) pid: i32,
}

/// How far a `semop` came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All operations are done.
    Done,
    /// None is done: the one at this index has to wait.
    Blocked(usize),
    /// None is done, and none will be.
    Failed(Errno),
}

/// The semaphores of one set.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) semaphores: Vec<Semaphore>,
    undo: UndoRecords,
}

impl Values {
    pub(super) fn new(count: usize) -> Self {
        Self { semaphores: vec![Semaphore::default(); count], undo: UndoRecords::default() }
    }

    pub(super) fn semaphore(&self, number: i32) -> Result<(usize, Semaphore), Errno> {
        let index = usize::try_from(number).map_err(|_| Errno::INVAL)?;
        let semaphore = self.semaphores.get(index).ok_or(Errno::INVAL)?;
        Ok((index, *semaphore))
    }

    /// Tries the operations in their order: each sees what those before it did. All are done or none.
    pub(super) fn operate(&mut self, process: Process, operations: &[Operation]) -> Outcome {
        for (index, operation) in operations.iter().enumerate() {
            let outcome = self.step(process, *operation, index);
            if outcome == Outcome::Done {
                continue;
            }
            for done in operations[..index].iter().rev() {
                self.apply(process, *done, -i32::from(done.change));
            }
            return match outcome {
                Outcome::Blocked(_) if has(*operation, libc::IPC_NOWAIT) => {
                    Outcome::Failed(Errno::AGAIN)
                }
                Outcome::Done | Outcome::Blocked(_) | Outcome::Failed(_) => outcome,
            };
        }
        for operation in operations {
            self.semaphores[usize::from(operation.number)].pid = process.pid;
        }
        Outcome::Done
    }

    fn step(&mut self, process: Process, operation: Operation, index: usize) -> Outcome {
        let value = self.semaphores[usize::from(operation.number)].value;
        let change = i32::from(operation.change);
        if change == 0 && value != 0 || value + change < 0 {
            return Outcome::Blocked(index);
        }
        if value + change > HIGHEST_VALUE {
            return Outcome::Failed(Errno::RANGE);
        }
        if has(operation, libc::SEM_UNDO) {
            let undo = self.undo.adjustment(process, operation.number) - change;
            if !(-HIGHEST_VALUE - 1..=HIGHEST_VALUE).contains(&undo) {
                return Outcome::Failed(Errno::RANGE);
            }
        }
        self.apply(process, operation, change);
        Outcome::Done
    }

    fn apply(&mut self, process: Process, operation: Operation, change: i32) {
        self.semaphores[usize::from(operation.number)].value += change;
        if has(operation, libc::SEM_UNDO) && change != 0 {
            self.undo.adjust(process, operation.number, -change);
        }
    }

    /// Makes a record of the process, whose end is an operation of its own then; whether it had none yet.
    pub(super) fn record(&mut self, process: Process) -> bool {
        self.undo.record(process)
    }

    /// Undoes what the process, which has ended, did with `SEM_UNDO`; false if it has never asked for that.
    pub(super) fn undo(&mut self, process: Process) -> bool {
        let Some(adjustments) = self.undo.take(process) else {
            return false;
        };
        for (number, adjustment) in adjustments {
            let semaphore = &mut self.semaphores[usize::from(number)];
            semaphore.value = (semaphore.value + adjustment).clamp(0, HIGHEST_VALUE);
            semaphore.pid = process.pid;
        }
        true
    }

    /// `SETVAL`: what processes would have undone is forgotten.
    pub(super) fn set(&mut self, index: usize, value: i32, pid: i32) {
        // No operation names a semaphore above what 16 bits hold.
        if let Ok(number) = u16::try_from(index) {
            self.undo.forget(number);
        }
        self.semaphores[index] = Semaphore { value, pid };
    }

    /// `SETALL`.
    pub(super) fn set_all(&mut self, values: &[u16], pid: i32) {
        self.undo.forget_all();
        for (semaphore, &value) in self.semaphores.iter_mut().zip(values) {
            *semaphore = Semaphore { value: value.into(), pid };
        }
    }

    /// The processes that have a record.
    pub(super) fn recorded(&self) -> impl Iterator<Item = Process> {
        self.undo.processes()
    }
}

pub(super) fn has(operation: Operation, flag: i32) -> bool {
    i32::from(operation.flags) & flag != 0
}
