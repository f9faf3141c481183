//! Server: the directory of a minipage at its home (MGS Figure 22, arcs 28 to 36).

use multigrain_types::NodeId;

use crate::coherence::{Illegal, Site};
use crate::effect::{Effect, Effects};
use crate::message::MgsMessage;
use crate::nodeset::NodeSet;

/// The home's state for one minipage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// READ and WRITE: `read_dir` and `write_dir`; READ while nobody writes.
    Shared {
        /// `read_dir`.
        readers: NodeSet,
        /// `write_dir`.
        writers: NodeSet,
    },
    /// SWRITE: one copy in single-writer mode, perhaps newer than the home's.
    Single {
        /// Who has it.
        writer: NodeId,
    },
    /// `REL_IN_PROG`.
    Releasing(Box<Round>),
}

/// A release in progress, and what was asked for meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Round {
    /// Nodes that have not answered: the paper's `count`, by name.
    awaited: NodeSet,
    /// Who was sent a 1WINV and keeps its copy.
    keeper: Option<Keeper>,
    /// A 1WGR has no answer yet.
    granting: bool,
    /// `rl`: who waits for RACK; twice, who kept its copy, wrote it again and was then told to give
    /// it up.
    releasers: Vec<NodeId>,
    /// Whose REL came after its answer: its writes need a round of their own.
    again: NodeSet,
    /// `rd`.
    readers: NodeSet,
    /// `wr`.
    writers: NodeSet,
}

/// The single writer beside readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Keeper {
    node: NodeId,
    /// A reader had written too, unheard of, and its diff is not in the keeper's copy.
    behind: bool,
}

/// What can happen to a server; each is a message from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerEvent {
    /// RREQ.
    ReadRequest,
    /// WREQ.
    WriteRequest,
    /// REL.
    Release,
    /// WNOTIFY.
    WriteNotify,
    /// ACK.
    Ack,
    /// DIFF.
    Diff,
    /// 1WDATA.
    SingleWriterData,
    /// ACK1W.
    SingleWriterAck,
}

impl Server {
    /// The first state: the allocating node has the only copy and may write it.
    #[must_use]
    pub fn owned_by(owner: NodeId) -> Self {
        Self::Single { writer: owner }
    }

    /// Whether no release is in progress.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !matches!(self, Self::Releasing(_))
    }

    /// Whether the contents of the home may be overwritten by a node's copy: one is awaited.
    #[must_use]
    pub fn may_receive(&self, from: NodeId) -> bool {
        matches!(self, Self::Releasing(round) if round.awaited.contains(from))
    }

    /// Who holds copies: readers, then writers.
    #[must_use]
    pub fn holders(&self) -> (NodeSet, NodeSet) {
        match self {
            Self::Shared { readers, writers } => (readers.clone(), writers.clone()),
            Self::Single { writer } => (NodeSet::new(), [*writer].into_iter().collect()),
            Self::Releasing(round) => (NodeSet::new(), round.awaited.clone()),
        }
    }

    /// One step; effects are appended to `out`.
    ///
    /// # Errors
    /// [`Illegal`] when no correct peer can have sent this event in this state.
    pub fn handle(
        &mut self,
        site: &Site,
        from: NodeId,
        event: ServerEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        use ServerEvent as E;
        match (event, &mut *self) {
            // Arcs 28 and 30, RREQ: read_dir += src, RDAT.
            (E::ReadRequest, Self::Shared { readers, writers })
                if !writers.contains(from) && !readers.contains(from) =>
            {
                readers.insert(from);
                send(site, from, MgsMessage::ReadData, out);
            }
            // Arcs 29 and 30, WREQ: write_dir += src, WDAT.
            (E::WriteRequest, Self::Shared { readers, writers })
                if !readers.contains(from) && !writers.contains(from) =>
            {
                writers.insert(from);
                send(site, from, MgsMessage::WriteData, out);
            }
            // Arc 29, WNOTIFY: from read_dir to write_dir.
            (E::WriteNotify, Self::Shared { readers, writers }) if readers.contains(from) => {
                readers.remove(from);
                writers.insert(from);
            }
            // Arcs 31 and 32, REL.
            (E::Release, Self::Shared { readers, writers }) => {
                let (readers, writers) = (core::mem::take(readers), core::mem::take(writers));
                *self = Self::release(site, readers, writers, vec![from], out);
            }

            // Arc 36, RREQ or WREQ in SWRITE: INV to the single writer, the request waits.
            (E::ReadRequest | E::WriteRequest, Self::Single { writer }) if *writer != from => {
                let mut round = Box::<Round>::default();
                round.awaited.insert(*writer);
                round.queue(from, event);
                send(site, *writer, MgsMessage::Invalidate, out);
                *self = Self::Releasing(round);
            }

            // Arc 33, requests during a release are queued.
            (E::ReadRequest | E::WriteRequest, Self::Releasing(round))
                if !round.awaited.contains(from) && !round.is_kept_by(from) =>
            {
                round.queue(from, event);
            }
            (E::Release, Self::Releasing(round)) => {
                if round.awaited.contains(from) {
                    round.releasers.push(from);
                } else {
                    round.again.insert(from);
                }
            }
            // Arc 33, WNOTIFY: the invalidation on its way finds it written, and brings a diff.
            (E::WriteNotify, Self::Releasing(round)) if round.awaited.contains(from) => {}
            // Arcs 33 and 34, ACK.
            (E::Ack, Self::Releasing(round)) if round.awaits_release(from) => {
                round.awaited.remove(from);
                self.conclude(site, out);
            }
            // Arcs 33 and 34, DIFF: buffer diff data.
            (E::Diff, Self::Releasing(round)) if round.awaits_release(from) => {
                round.awaited.remove(from);
                if let Some(keeper) = &mut round.keeper {
                    keeper.behind = true;
                }
                out.push(Effect::KeepDiff { minipage: site.minipage });
                self.conclude(site, out);
            }
            // Arcs 33 and 34, 1WDATA: the home becomes a copy of what came.
            (E::SingleWriterData, Self::Releasing(round))
                if round.awaited.contains(from) && !round.granting =>
            {
                round.awaited.remove(from);
                if from != site.me {
                    out.push(Effect::Store { minipage: site.minipage });
                }
                self.conclude(site, out);
            }
            // Arc 33, ACK1W, rd + wr != 0: INV to the single writer.
            // Arc 35, ACK1W, rd + wr == 0: RACK; SWRITE.
            (E::SingleWriterAck, Self::Releasing(round))
                if round.granting && round.awaited.contains(from) =>
            {
                round.granting = false;
                if round.readers.is_empty() && round.writers.is_empty() {
                    acknowledge(site, &round.releasers, out);
                    *self = Self::Single { writer: from };
                } else {
                    send(site, from, MgsMessage::Invalidate, out);
                }
            }

            // What no correct client sends: a request or notice of who has the copy already, an
            // answer nobody awaits.
            (
                E::ReadRequest
                | E::WriteRequest
                | E::WriteNotify
                | E::Ack
                | E::Diff
                | E::SingleWriterData
                | E::SingleWriterAck,
                Self::Shared { .. } | Self::Single { .. } | Self::Releasing(_),
            )
            | (E::Release, Self::Single { .. }) => {
                return Err(Illegal { role: "server", state: format!("{self:?}") });
            }
        }
        Ok(())
    }

    /// Arcs 31 and 32: whom a REL concerns, and how.
    fn release(
        site: &Site,
        readers: NodeSet,
        writers: NodeSet,
        releasers: Vec<NodeId>,
        out: &mut Effects,
    ) -> Self {
        let mut round = Round { releasers, ..Round::default() };
        let only = writers.first().filter(|_| writers.len() == 1);
        match only {
            // |write_dir| == 1, read_dir empty: 1WGR.
            Some(writer) if readers.is_empty() => {
                round.granting = true;
                send(site, writer, MgsMessage::SingleWriterGrant, out);
            }
            // |write_dir| == 1, read_dir not empty: INV to the readers, 1WINV to the writer.
            Some(writer) => {
                round.keeper = Some(Keeper { node: writer, behind: false });
                for reader in readers.iter() {
                    send(site, reader, MgsMessage::Invalidate, out);
                }
                send(site, writer, MgsMessage::SingleWriterInvalidate, out);
            }
            // Else INV to all.
            None => {
                for holder in readers.iter().chain(writers.iter()) {
                    send(site, holder, MgsMessage::Invalidate, out);
                }
            }
        }
        round.awaited = readers.iter().chain(writers.iter()).collect();
        let mut server = Self::Releasing(Box::new(round));
        server.conclude(site, out);
        server
    }

    /// Arc 34, count == 0: merge diffs, RACK to `rl`, RDAT to `rd`, WDAT to `wr`.
    fn conclude(&mut self, site: &Site, out: &mut Effects) {
        let Self::Releasing(round) = &mut *self else { return };
        if !round.awaited.is_empty() {
            return;
        }
        // Only now is it known that the reader's upgrade had met the INV, so there were two writers:
        // INV to the other as well. The paper's table has no such row.
        if let Some(Keeper { node, .. }) = round.keeper.take_if(|keeper| keeper.behind) {
            round.awaited.insert(node);
            send(site, node, MgsMessage::Invalidate, out);
            return;
        }
        let Round { keeper, releasers, again, readers, mut writers, .. } =
            core::mem::take(&mut **round);
        out.push(Effect::MergeDiffs { minipage: site.minipage });
        acknowledge(site, &releasers, out);
        for reader in readers.iter() {
            send(site, reader, MgsMessage::ReadData, out);
        }
        for writer in writers.iter() {
            send(site, writer, MgsMessage::WriteData, out);
        }
        // Its copy stayed where it was, though the paper's table clears write_dir.
        if let Some(Keeper { node, .. }) = keeper {
            writers.insert(node);
        }
        *self = if again.is_empty() {
            Self::Shared { readers, writers }
        } else {
            Self::release(site, readers, writers, again.iter().collect(), out)
        };
    }
}

impl Round {
    /// Whether an INV to that node has no answer yet.
    fn awaits_release(&self, from: NodeId) -> bool {
        self.awaited.contains(from) && !self.is_kept_by(from) && !self.granting
    }

    fn is_kept_by(&self, from: NodeId) -> bool {
        self.keeper.is_some_and(|keeper| keeper.node == from)
    }

    fn queue(&mut self, from: NodeId, event: ServerEvent) {
        if event == ServerEvent::ReadRequest {
            self.readers.insert(from);
        } else {
            self.writers.insert(from);
        }
    }
}

fn acknowledge(site: &Site, releasers: &[NodeId], out: &mut Effects) {
    for &releaser in releasers {
        send(site, releaser, MgsMessage::ReleaseAck, out);
    }
}

fn send(site: &Site, to: NodeId, body: MgsMessage, out: &mut Effects) {
    out.push(Effect::Send { to, message: body.about(site.minipage) });
}
