//! Fetches: the protocol is stepped for who needs a minipage, who waits for it, and resumes.
//!
//! Role: an instruction that trapped, a call that is about to access memory, and a prefetch all come here; they
//! differ in what they keep when they resume ([`For`]): an instruction that lost the minipage before holds it until it
//! is complete ([`super::held_instructions`]), an instruction or a call has a time window where nodes compete
//! ([`crate::time_windows`]), a prefetch has neither.

use multigrain_protocol::{Input, Kind};
use multigrain_types::{Access, MinipageId, ThreadId};

use super::steps::Batch;
use super::{Driver, WaitReason, held_instructions};
use crate::minipage_run::Run;
use crate::receiver::slots::Slot;
use crate::time_windows::now_ns;

/// What is fetched: what a thread waits for, and what comes with it.
pub(crate) enum Wanted<'a> {
    /// One minipage of a run; the others are asked for in the same frame. And a run that is asked for behind it.
    Run(Run, MinipageId, Option<Run>),
    /// One minipage. If a message asks for it, others that this asks for travel with that.
    With(MinipageId, &'a mut dyn FnMut(Batch<'_>)),
}

impl Wanted<'_> {
    /// What the thread waits for.
    fn needed(&self) -> MinipageId {
        match self {
            Self::Run(_, needed, _) | Self::With(needed, _) => *needed,
        }
    }
}

/// What wants a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// An instruction that trapped, and may have lost the minipage before.
    Instruction {
        /// Whether it did.
        pinned: bool,
        /// When it trapped.
        since_ns: u64,
        /// Whether it reads or writes.
        kind: Kind,
    },
    /// A call of the program, which is about to access it.
    Call {
        /// When it was made.
        since_ns: u64,
        /// Whether it is to read or to write.
        kind: Kind,
    },
    /// An access that this node foresees.
    Later,
}

impl For {
    /// Whether it is an instruction that was not granted the minipage before.
    pub(crate) fn is_first_try(self) -> bool {
        matches!(self, Self::Instruction { pinned: false, .. })
    }

    /// The same, of one that writes.
    fn is_first_write(self) -> bool {
        matches!(self, Self::Instruction { pinned: false, kind: Kind::Write, .. })
    }

    /// When its wait began: a call may wait for one minipage after the other.
    fn waits_since_ns(self) -> u64 {
        match self {
            Self::Instruction { since_ns, .. } => since_ns,
            Self::Call { .. } | Self::Later => now_ns(),
        }
    }
}

impl Driver {
    /// Steps the protocol for a thread that needs access to a minipage, asks for what else is wanted with it, and waits for
    /// the one; true if no message was needed.
    pub(crate) fn fetch(
        &self,
        (thread, slot): (ThreadId, &Slot),
        wanted: Wanted<'_>,
        kind: Kind,
        for_: For,
    ) -> bool {
        let needs = |minipage| match for_ {
            For::Instruction { pinned: true, .. } => Input::PinnedRetry { thread, minipage, kind },
            For::Instruction { pinned: false, .. } | For::Call { .. } | For::Later => {
                Input::Fault { thread, minipage, kind }
            }
        };
        let needed = wanted.needed();
        let before = for_.is_first_write().then(|| self.tables().lock(needed).access());
        slot.arm();
        let at_once = match wanted {
            Wanted::Run(run, _, ahead) => {
                self.step_run(run, |minipage| {
                    if minipage == needed {
                        needs(minipage)
                    } else {
                        Input::Prefetch { minipage, kind }
                    }
                });
                let at_once = slot.word.is_woken_at_once();
                if let Some(ahead) = ahead {
                    let prefetch = |minipage| Input::Prefetch { minipage, kind };
                    self.batch(|batch| batch.step_run(ahead, prefetch));
                }
                at_once
            }
            Wanted::With(_, others) => self.batch(|batch| {
                batch.step(needs(needed));
                let at_once = slot.word.is_woken_at_once();
                if !at_once {
                    others(batch);
                }
                at_once
            }),
        };
        if !slot.is_woken() {
            self.wait_since(slot, WaitReason::Fault, for_.waits_since_ns());
        }
        self.resume((thread, slot), needed, for_, before.filter(|_| !at_once));
        at_once
    }

    /// Opens what is here of these and likely to be written (ADR 46).
    pub(crate) fn open_ahead(&self, runs: &[Run]) {
        runs.iter().for_each(|&run| self.step_run(run, |minipage| Input::OpenAhead { minipage }));
    }

    /// A thread that is about to retry its access says so. Told to hold the minipage, it does so if
    /// it comes back here when it is through. `before`: what access its node had,
    /// if it is a first write and a message was needed.
    fn resume(
        &self,
        (thread, slot): (ThreadId, &Slot),
        minipage: MinipageId,
        for_: For,
        before: Option<Access>,
    ) {
        let is_for_window = for_.is_first_try() || matches!(for_, For::Call { .. });
        if is_for_window && self.keep_as_asked(thread, minipage) {
            return;
        }
        if let Some(before) = before
            && self.keep_in_turn((thread, minipage), before, for_.waits_since_ns())
        {
            return;
        }
        self.step_sure(Input::Resumed { thread, minipage });
        let Some((turns, urgent)) = slot.take_told_to_hold() else { return };
        let step = || urgent && held_instructions::hold(minipage);
        let window = |since_ns, kind, stepped| {
            let since = (since_ns, self.tables().manages(minipage), kind);
            self.engine.windows().begin((thread, minipage), since, (turns, urgent), stepped)
        };
        let kept = match for_ {
            For::Instruction { pinned, since_ns, kind } => {
                let stepped = pinned && step();
                window(since_ns, kind, stepped) || stepped || step()
            }
            For::Call { since_ns, kind } => window(since_ns, kind, false),
            For::Later => false,
        };
        if !kept {
            self.retire(thread, minipage, urgent);
        }
    }
}
