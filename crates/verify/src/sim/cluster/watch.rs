//! The trace of one subject: the last lines about it. A run that fails is repeated with its
//! subject tracked, so that a run that does not fail pays nothing.

use std::collections::VecDeque;

use multigrain_protocol::Message;
use multigrain_types::MinipageId;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The job as a whole.
    Job,
    /// One minipage.
    Minipage(MinipageId),
    /// One synchronization id.
    Id(u32),
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
}

/// Keeps the last lines about a subject; about everything, if that is the job.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    subject: Option<Subject>,
    keep: usize,
    lines: VecDeque<String>,
    /// Virtual time of the event at hand.
    pub(crate) now_ns: u64,
}

impl Watch {
    pub(crate) fn on(subject: Subject, keep: usize) -> Self {
        Self { subject: Some(subject), keep, ..Self::default() }
    }

    /// Adds a line if somebody tracks its subject.
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
