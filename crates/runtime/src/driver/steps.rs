//! Steps of this node's own, by whether their thread waits behind them: that says when what they deferred leaves.
//!
//! The rule is in the head of `multigrain_protocol::send_timing`; this is its part for threads of this node. The other
//! occasions on which deferred frames go are in the second table there.

use multigrain_protocol::Input;
use multigrain_protocol::sync::SyncInput;
use multigrain_types::MinipageId;

use super::Driver;
use crate::error::Error;
use crate::minipage_run::Run;
use crate::receiver::slots::Slot;

/// Steps whose requests for lazily consistent minipages travel together ([`Driver::batch`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a>(&'a Driver);

impl Batch<'_> {
    pub(crate) fn step(self, input: Input) {
        self.0.engine.step_batched(input);
        self.0.finish_atomics();
    }

    /// One for each minipage of a run.
    pub(crate) fn step_run(self, run: Run, input: impl Fn(MinipageId) -> Input) {
        if run.count() == 1 {
            return self.step(input(run.first()));
        }
        self.0.engine.step_run_batched(run, input);
        self.0.finish_atomics();
    }
}

impl Driver {
    /// One protocol step. A program's misuse is returned; a peer's violation ends the node. What it deferred waits for a
    /// frame to the same node, and for whoever waits or receives next.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] and [`Error::Limit`].
    pub(crate) fn step(&self, input: Input) -> Result<(), Error> {
        let done = self.engine.step(input);
        self.finish_atomics();
        done
    }

    /// The same of one that no program can misuse.
    pub(crate) fn step_sure(&self, input: Input) {
        self.engine.step_sure(input);
        self.finish_atomics();
    }

    /// One protocol step for each minipage of a run.
    pub(crate) fn step_run(&self, run: Run, input: impl Fn(MinipageId) -> Input) {
        if run.count() == 1 {
            return self.step_sure(input(run.first()));
        }
        self.engine.step_run(run, input);
        self.finish_atomics();
    }

    /// A step of synchronization for which the thread is about to wait.
    ///
    /// # Errors
    /// As [`Driver::step`].
    pub(crate) fn ask(&self, slot: &Slot, asked: SyncInput) -> Result<(), Error> {
        slot.arm();
        self.step(Input::Sync(asked))?;
        if slot.word.is_woken_at_once() {
            // No message took the last acks along, and the program may now compute for long.
            self.mesh().flush_deferred();
        }
        Ok(())
    }

    /// A step of synchronization behind which nobody waits: the program may compute for long.
    ///
    /// # Errors
    /// As [`Driver::step`]; what had been deferred has gone then, too.
    pub(crate) fn tell(&self, told: SyncInput) -> Result<(), Error> {
        let done = self.step(Input::Sync(told));
        self.mesh().flush_deferred();
        done
    }

    /// The same of a step that no program can misuse.
    pub(crate) fn tell_sure(&self, told: SyncInput) {
        self.step_sure(Input::Sync(told));
        self.mesh().flush_deferred();
    }

    /// Steps that belong together, and then what they deferred.
    pub(crate) fn batch<R>(&self, steps: impl FnOnce(Batch<'_>) -> R) -> R {
        let result = steps(Batch(self));
        self.mesh().flush_deferred();
        result
    }
}
