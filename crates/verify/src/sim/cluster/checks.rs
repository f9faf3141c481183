//! Invariants between engines, page tables and frames: at every step, and at the end.

use multigrain_protocol::Message;
use multigrain_types::{Access, NodeId};

use super::codec::{Frame, Said};
use super::links::Timing;
use super::{Broken, Cluster, Subject};

impl<T: Timing> Cluster<T> {
    /// What the runtime's receiver checks, and that the sender's memory did not change on the way:
    /// it is sent by reference.
    pub(super) fn check_page(&self, frame: &Frame, said: &Said) -> Result<(), String> {
        if let Said::Message(Message::Page { minipage, .. }) = said
            && !self.cells.knows(*minipage)
        {
            return Err(format!("{minipage} does not exist"));
        }
        let Some(minipage) = said.page() else {
            return if frame.payload == 0 {
                Ok(())
            } else {
                Err(format!("{said:?} has a payload"))
            };
        };
        if frame.payload != self.cells.places[minipage.index() as usize].bytes {
            return Err(format!("{} bytes came for {minipage}", frame.payload));
        }
        if self.is_alive(frame.from) && self.memory.content(frame.from, minipage) != frame.page {
            return Err(format!("{minipage} changed at {} while it was under way", frame.from));
        }
        Ok(())
    }

    /// Engines and page tables say the same of a minipage, as far as they are at rest.
    pub(super) fn agree(&self, me: NodeId, subject: Subject) -> Result<(), Broken> {
        let Subject::Minipage(minipage) = subject else { return Ok(()) };
        let broken = |text| Err(Broken { subject, text });
        let (engine, real) =
            (self.cells.holder(me, minipage).access(), self.memory.access(me, minipage));
        if engine != real {
            return broken(format!("the engine of {me} says {engine:?}, its page table {real:?}"));
        }
        if me != self.cells.places[minipage.index() as usize].manager {
            return Ok(());
        }
        let entry = self.cells.entry(minipage);
        let (listed, copies) = (entry.copyset().len(), self.memory.copies(minipage) as usize);
        if entry.is_idle() && listed != copies {
            return broken(format!("{copies} nodes have copies, the directory lists {listed}"));
        }
        if entry.queued() > 2 * usize::from(self.cells.nodes) {
            return broken(format!("{} requests are queued", entry.queued()));
        }
        Ok(())
    }

    /// When nothing can happen any more: no engine of a live node has anything open.
    ///
    /// # Errors
    /// [`Broken`] says what is.
    pub fn check_rest(&self) -> Result<(), Broken> {
        for node in (0..self.cells.nodes).map(NodeId).filter(|node| self.is_alive(*node)) {
            for index in 0..self.cells.places.len() {
                let minipage = self.cells.id(u32::try_from(index).unwrap_or(u32::MAX));
                let broken = |text| Err(Broken { subject: Subject::Minipage(minipage), text });
                let (holder, entry) =
                    (self.cells.holder(node, minipage), self.cells.entry(minipage));
                if !holder.is_idle() {
                    return broken(format!("{node} is left with {holder:?}"));
                }
                if !entry.is_idle() {
                    return broken(format!("the directory is left with {entry:?}"));
                }
                let holds = self.memory.access(node, minipage) != Access::NoAccess;
                if entry.copyset().contains(node) != holds {
                    return broken(format!("{node} and the directory disagree about its copy"));
                }
            }
            let sync = self.cells.sync(node);
            if !sync.is_quiescent() {
                let text = format!("{node} is left with {sync:?}");
                return Err(Broken { subject: Subject::Job, text });
            }
        }
        Ok(())
    }
}
