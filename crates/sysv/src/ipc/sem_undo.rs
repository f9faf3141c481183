//! `SEM_UNDO`: what is added to the semaphores of a set when a process ends.

use std::collections::BTreeMap;

use super::call::Process;

/// By the number of the semaphore; only what is not 0.
pub(super) type Adjustments = BTreeMap<u16, i32>;

/// Of each process that has called `semop` with `SEM_UNDO`, be it in vain.
#[derive(Clone, Debug, Default)]
pub(super) struct UndoRecords(BTreeMap<Process, Adjustments>);

impl UndoRecords {
    /// Makes a record of the process; whether it had none yet.
    pub(super) fn record(&mut self, process: Process) -> bool {
        let is_new = !self.0.contains_key(&process);
        self.0.entry(process).or_default();
        is_new
    }

    /// What is added to a semaphore at the end of the process.
    pub(super) fn adjustment(&self, process: Process, number: u16) -> i32 {
        let adjustments = self.0.get(&process);
        adjustments.and_then(|by_number| by_number.get(&number)).copied().unwrap_or(0)
    }

    /// Adds to that, if the process has a record.
    pub(super) fn adjust(&mut self, process: Process, number: u16, change: i32) {
        let Some(adjustments) = self.0.get_mut(&process) else { return };
        let adjustment = adjustments.entry(number).or_default();
        *adjustment += change;
        if *adjustment == 0 {
            adjustments.remove(&number);
        }
    }

    /// The record of a process that has ended.
    pub(super) fn take(&mut self, process: Process) -> Option<Adjustments> {
        self.0.remove(&process)
    }

    /// Nothing is added to this semaphore any more.
    pub(super) fn forget(&mut self, number: u16) {
        for adjustments in self.0.values_mut() {
            adjustments.remove(&number);
        }
    }

    /// Nothing is added to any.
    pub(super) fn forget_all(&mut self) {
        self.0.values_mut().for_each(Adjustments::clear);
    }

    /// Those that have a record.
    pub(super) fn processes(&self) -> impl Iterator<Item = Process> {
        self.0.keys().copied()
    }
}
