//! Counting semaphores: the manager holds the value and a queue of waiting nodes.

use std::collections::VecDeque;

use multigrain_types::{NodeId, ThreadId};

use super::input::SyncError;
use super::site::{SyncSite, SyncState};
use crate::effect::{Effect, Effects};
use crate::message::SemaphoreMessage;

/// One semaphore as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Semaphore {
    waiting: VecDeque<ThreadId>,
    /// Manager: units nobody has taken, and nodes that wait for one (a node once per thread).
    value: u64,
    queue: VecDeque<NodeId>,
    /// Manager: who posted last, while there are units.
    giver: Option<NodeId>,
}

impl SyncState for Semaphore {
    /// The first state: no units.
    fn new(_: &SyncSite) -> Self {
        Self::default()
    }

    fn user(&self, _: &SyncSite) -> Option<NodeId> {
        self.giver
    }
}

impl Semaphore {
    pub(super) fn wait(
        &mut self,
        site: &SyncSite,
        thread: ThreadId,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        self.waiting.push_back(thread);
        site.send(site.manager, SemaphoreMessage::Request.about(site.id), out);
        Ok(())
    }

    pub(super) fn receive(
        &mut self,
        site: &SyncSite,
        from: NodeId,
        message: SemaphoreMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        match message {
            SemaphoreMessage::Request if site.is_manager() => {
                self.queue.push_back(from);
                self.serve(site, out);
                Ok(())
            }
            SemaphoreMessage::Post { count } if site.is_manager() => {
                self.value = self.value.saturating_add(count.into());
                self.giver = Some(from);
                self.serve(site, out);
                Ok(())
            }
            SemaphoreMessage::Grant if from == site.manager => match self.waiting.pop_front() {
                Some(thread) => {
                    out.push(Effect::Wake { thread });
                    Ok(())
                }
                None => Err(SyncError::Illegal(format!("{message:?} but no thread waits"))),
            },
            SemaphoreMessage::Request | SemaphoreMessage::Post { .. } | SemaphoreMessage::Grant => {
                Err(SyncError::Illegal(format!("{message:?} meets {self:?}")))
            }
        }
    }

    fn serve(&mut self, site: &SyncSite, out: &mut Effects) {
        while self.value > 0 {
            let Some(to) = self.queue.pop_front() else { return };
            self.value -= 1;
            site.send(to, SemaphoreMessage::Grant.about(site.id), out);
        }
        self.giver = None;
    }
}
