//! The trace of one subject: the last lines about it. A run that fails is repeated with its
//! subject traced, so that a run that does not fail pays nothing.

use std::collections::VecDeque;

use multigrain_protocol::{Input, Message};
use multigrain_types::MinipageId;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The job as a whole.
    Job,
    /// One minipage.
    Minipage(MinipageId),
    /// One synchronization id.
    Id(u64),
}

impl Subject {
    /// What a message is about.
    pub(crate) fn of(message: &Message) -> Self {
        match message {
            Message::Page { minipage, .. }
            | Message::Mgs { minipage, .. }
            | Message::Hlrc { minipage, .. } => Self::Minipage(*minipage),
            Message::Sync { id, .. } => Self::Id(*id),
        }
    }

    /// What an input is about.
    pub(crate) fn of_input(input: &Input) -> Self {
        use multigrain_protocol::sync::{SyncInput as S, Withdrawable as A};
        match input {
            Input::Fault { minipage, .. }
            | Input::PinnedRetry { minipage, .. }
            | Input::Prefetch { minipage, .. }
            | Input::AwaitedPrefetch { minipage }
            | Input::OpenAhead { minipage }
            | Input::Push { minipage }
            | Input::Resumed { minipage, .. }
            | Input::Retired { minipage, .. }
            | Input::Reclaim { minipage } => Self::Minipage(*minipage),
            Input::Message { message, .. } => Self::of(message),
            Input::Release { .. }
            | Input::Notify { .. }
            | Input::Acquire
            | Input::WriteNotices { .. } => Self::Job,
            Input::Operand { id, .. } => Self::Id(*id),
            Input::Sync(S::Begin { .. } | S::End { .. } | S::Pause { .. }) => Self::Job,
            Input::Sync(
                S::Lock { id, .. }
                | S::TryLock { id, .. }
                | S::TimedLock { id, .. }
                | S::SemaphoreTry { id, .. }
                | S::ReadWriteLock { id, .. }
                | S::ReadWriteUnlock { id, .. }
                | S::Withdraw { from: A::Lock(id) | A::Semaphore(id) | A::Condition(id), .. }
                | S::Unlock { id, .. }
                | S::UnlockToReacquire { id, .. }
                | S::LockWindowOver { id }
                | S::Barrier { id, .. }
                | S::Collective { id, .. }
                | S::SemaphoreWait { id, .. }
                | S::SemaphorePost { id, .. }
                | S::ConditionWait { id, .. }
                | S::ConditionSignal { id, .. },
            ) => Self::Id(*id),
        }
    }
}

/// Keeps the last lines about a subject; about everything, if that is the job.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    subject: Option<Subject>,
    keep: usize,
    lines: VecDeque<String>,
    /// Virtual time of the event at hand.
    pub(crate) now_ns: u64,
}

impl Trace {
    pub(crate) fn on(subject: Subject, keep: usize) -> Self {
        Self { subject: Some(subject), keep, ..Self::default() }
    }

    /// Adds a line if its subject is traced.
    pub(crate) fn note(&mut self, subject: Subject, line: impl FnOnce() -> String) {
        let Some(wanted) = self.subject else { return };
        if wanted == Subject::Job || wanted == subject {
            if self.lines.len() == self.keep {
                self.lines.pop_front();
            }
            let (us, ns) = (self.now_ns / 1000, self.now_ns % 1000);
            self.lines.push_back(format!("{us:10}.{ns:03} us  {}", line()));
        }
    }

    pub(crate) fn lines(&mut self) -> Vec<String> {
        core::mem::take(&mut self.lines).into()
    }
}
