//! The real world: effects of the protocol become protections, frames and wake-ups.

#![expect(unsafe_code, reason = "page bytes are sent straight from the privileged view")]

use core::sync::atomic::Ordering;

use multigrain_protocol::{Attach, Input, Message, Node, Violation, World};
use multigrain_transport::{Header, LinkError, Payload};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

use crate::boot::Runtime;
use crate::slots::{self, Waking};

/// The runtime as the protocol sees it, for the length of one step.
pub(crate) struct RealWorld<'a> {
    runtime: &'a Runtime,
}

impl Runtime {
    /// One protocol step. A program's misuse is returned; a peer's violation ends the node.
    pub(crate) fn step(&self, input: Input) -> Result<(), String> {
        let mut node = Node { me: self.me, nodes: self.nodes, tables: &self.tables };
        let mut world = RealWorld { runtime: self };
        #[cfg(feature = "mutants")]
        let mut world = crate::mutants::Bent::new(&mut world);
        match node.step(input, &mut world) {
            Ok(()) => Ok(()),
            Err(Violation::Misuse(text)) => Err(text),
            Err(violation) => self.fatal(&violation.to_string()),
        }
    }

    /// A step that no program can misuse.
    pub(crate) fn step_sure(&self, input: Input) {
        if let Err(text) = self.step(input) {
            self.fatal(&text);
        }
    }

    /// Wakes a thread of this node, wherever it waits.
    pub(crate) fn wake_thread(&self, thread: ThreadId) {
        let Some(slot) = slots::slot(thread) else { return };
        // A thread that wakes itself is not asleep.
        let own = slots::mine().is_some_and(|(me, _)| me == thread);
        if slot.wake(own) == Waking::KickMesh && !own {
            self.mesh.wake();
        }
    }

    /// Sends a frame; a peer that is gone is noticed by the receiver, not here.
    pub(crate) fn send_frame(&self, to: NodeId, header: Header, payload: Payload<'_>) {
        // SAFETY: memory payloads come from `RealWorld::send`, which says why they stay unchanged.
        match unsafe { self.mesh.send(to, header, payload) } {
            Ok(()) | Err(LinkError::Gone { .. }) => {}
            Err(error) => self.fatal(&format!("cannot send to {to}: {error}")),
        }
    }
}

/// The frame header that carries a message; the mesh adds sender and payload length.
fn header_of(message: Message) -> Header {
    let words = message.to_words();
    Header {
        kind: words.kind,
        flags: words.flags,
        from: 0,
        thread: words.thread,
        subject: words.subject,
        value: words.value,
        payload: 0,
    }
}

impl World for RealWorld<'_> {
    fn send_later(&mut self, to: NodeId, message: Message) {
        match self.runtime.mesh.keep(to, header_of(message)) {
            Ok(()) | Err(LinkError::Gone { .. }) => {}
            Err(error) => self.runtime.fatal(&format!("cannot send to {to}: {error}")),
        }
    }

    fn send(&mut self, to: NodeId, message: Message) {
        let header = header_of(message);
        let payload = match (message, message.attach()) {
            (Message::Page { minipage, .. }, Attach::Page) => {
                let (ptr, len) = self.runtime.memory.privileged(minipage);
                self.runtime.counters.page_bytes_sent.fetch_add(len as u64, Ordering::Relaxed);
                // The bytes stay unchanged until the requester's ack closes the transaction: this
                // node is ReadOnly or NoAccess now and nobody else is served before that.
                Payload::Memory { ptr, len }
            }
            (Message::Page { .. } | Message::Sync { .. }, _) => Payload::None,
        };
        self.runtime.send_frame(to, header, payload);
    }

    fn install(&mut self, minipage: MinipageId, access: Access) {
        // The bytes lie in the privileged view already: the receiver put them there.
        self.protect(minipage, Access::NoAccess, access);
    }

    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        let counters = &self.runtime.counters;
        match (from, to) {
            (Access::ReadOnly, Access::ReadWrite) => {
                counters.upgrades.fetch_add(1, Ordering::Relaxed);
            }
            (Access::ReadOnly | Access::ReadWrite, Access::NoAccess) => {
                counters.invalidations.fetch_add(1, Ordering::Relaxed);
            }
            (Access::NoAccess, _) | (Access::ReadWrite, _) | (_, Access::ReadOnly) => {}
        }
        if let Err(error) = self.runtime.memory.protect(minipage, from, to) {
            self.runtime.fatal(&error.to_string());
        }
    }

    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        if let Err(error) = self.runtime.memory.reprotect(minipage, access) {
            self.runtime.fatal(&error.to_string());
        }
    }

    fn wake(&mut self, thread: ThreadId) {
        self.runtime.wake_thread(thread);
    }

    fn reclaimed(&mut self, minipage: MinipageId) {
        self.runtime.reclaimed(minipage);
    }

    fn competing(&mut self, _: MinipageId) {
        self.runtime.counters.competing.fetch_add(1, Ordering::Relaxed);
    }
}
