//! Server: the directory of a minipage at its home (MGS Figure 22, arcs 28 to 36).

use multigrain_types::NodeId;

use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::message::MgsMessage;
use crate::mgs::row_coverage::mark;
use crate::mutant_macro::mutant;
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
        /// The node that has it.
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
    /// The node that was sent a 1WINV and keeps its copy.
    keeper: Option<NodeId>,
    /// Nobody but the one that is invalidated had a copy: it may bring all of it.
    sole: bool,
    /// A diff came: the keeper's copy lacks what it says.
    outdated: bool,
    /// A 1WGR has no answer yet.
    granting: bool,
    /// `rl`: the nodes that wait for RACK.
    releasers: NodeSet,
    /// Whose REL came after its answer: its writes need a round of their own.
    again: NodeSet,
    /// `rd`.
    readers: NodeSet,
    /// `wr`.
    writers: NodeSet,
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
    #[expect(clippy::too_many_lines, reason = "Figure 22, one row per arc")]
    pub fn handle(
        &mut self,
        context: &EngineContext,
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
                mark!(ServeRead);
                readers.insert(from);
                send(context, from, MgsMessage::ReadData, out);
            }
            // Arcs 29 and 30, WREQ: write_dir += src, WDAT.
            (E::WriteRequest, Self::Shared { readers, writers })
                if !readers.contains(from) && !writers.contains(from) =>
            {
                mark!(ServeWrite);
                writers.insert(from);
                send(context, from, MgsMessage::WriteData, out);
            }
            // Arc 29, WNOTIFY: from read_dir to write_dir.
            (E::WriteNotify, Self::Shared { readers, writers }) if readers.contains(from) => {
                mark!(WriteNotify);
                readers.remove(from);
                if mutant!("upgrade-unlisted": false, else true) {
                    writers.insert(from);
                }
            }
            // Arcs 31 and 32, REL.
            (E::Release, Self::Shared { readers, writers }) => {
                mutant!("single-beside-readers" => {
                    if writers.len() == 1 {
                        *readers = NodeSet::new();
                    }
                });
                let (readers, writers) = (core::mem::take(readers), core::mem::take(writers));
                let releasers = [from].into_iter().collect();
                *self = Self::release(context, readers, writers, releasers, out);
            }

            // Arc 36, RREQ or WREQ in SWRITE: INV to the single writer, the request waits.
            (E::ReadRequest | E::WriteRequest, Self::Single { writer }) if *writer != from => {
                mark!(ThirdRead, or ThirdWrite if event == E::WriteRequest);
                mutant!("single-writer-unasked" => {
                    if event == E::ReadRequest {
                        let [readers, writers] = [from, *writer].map(|node| [node].into_iter().collect());
                        send(context, from, MgsMessage::ReadData, out);
                        *self = Self::Shared { readers, writers };
                        return Ok(());
                    }
                });
                let mut round = Box::new(Round { sole: true, ..Round::default() });
                round.awaited.insert(*writer);
                round.queue(from, event);
                send(context, *writer, MgsMessage::Invalidate, out);
                *self = Self::Releasing(round);
            }

            // Arc 33, requests during a release are queued.
            (E::ReadRequest | E::WriteRequest, Self::Releasing(round))
                if !round.awaited.contains(from) && round.keeper != Some(from) =>
            {
                mark!(QueueRead, or QueueWrite if event == E::WriteRequest);
                round.queue(from, event);
            }
            (E::Release, Self::Releasing(round)) => {
                mark!(ReleaseAgain, or QueueRelease if round.awaited.contains(from));
                if round.awaited.contains(from) {
                    round.releasers.insert(from);
                } else {
                    round.again.insert(from);
                }
                mutant!("late-release-forgotten" => { round.again = NodeSet::new(); });
            }
            // Arc 33, WNOTIFY: the invalidation on its way finds it written, and brings a diff.
            (E::WriteNotify, Self::Releasing(round)) if round.awaited.contains(from) => {
                mark!(LateNotify);
            }
            // Arcs 33 and 34, ACK.
            (E::Ack, Self::Releasing(round)) if round.awaits_answer(from) => {
                round.awaited.remove(from);
                mark!(CountAck, or LastAck if round.awaited.is_empty());
                self.conclude(context, out);
            }
            // Arcs 33 and 34, DIFF: buffer diff data.
            (E::Diff, Self::Releasing(round)) if round.awaits_answer(from) => {
                round.awaited.remove(from);
                mark!(CountDiff, or LastDiff if round.awaited.is_empty());
                round.outdated |=
                    mutant!("outdated-keeper-stays": round.keeper.is_none(), else true);
                out.push(Effect::BufferDiff { minipage: context.minipage });
                self.conclude(context, out);
            }
            // Arcs 33 and 34, 1WDATA: the home becomes a copy of what came. So answers who got 1WINV, or who
            // alone had a copy; from anybody else it would overwrite what others have written.
            (E::SingleWriterData, Self::Releasing(round))
                if round.awaited.contains(from) && (round.sole || round.keeper == Some(from)) =>
            {
                round.awaited.remove(from);
                mark!(CountData, or LastData if round.awaited.is_empty());
                if from != context.me {
                    out.push(Effect::Store { minipage: context.minipage });
                }
                self.conclude(context, out);
            }
            // Arc 33, ACK1W, rd + wr != 0: INV to the single writer.
            // Arc 35, ACK1W, rd + wr == 0: RACK; SWRITE.
            (E::SingleWriterAck, Self::Releasing(round))
                if round.granting && round.awaited.contains(from) =>
            {
                round.granting = false;
                mark!(SingleAck, or SingleAckBusy if round.is_wanted());
                if round.is_wanted() {
                    send(context, from, MgsMessage::Invalidate, out);
                } else {
                    acknowledge(context, &round.releasers, out);
                    *self = Self::Single { writer: from };
                }
            }

            // What no correct client sends: a request or notice of a node that has the copy already, an
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
        mutant!("early-release-ack" => {
            if let (E::Release, Self::Releasing(round)) = (event, &mut *self) {
                acknowledge(context, &core::mem::take(&mut round.releasers), out);
            }
        });
        mutant!("served-in-release" => {
            if let (E::ReadRequest, Self::Releasing(round)) = (event, &mut *self) {
                round.readers.remove(from);
                send(context, from, MgsMessage::ReadData, out);
            }
        });
        Ok(())
    }

    /// Arcs 31 and 32: whom a REL concerns, and how.
    fn release(
        context: &EngineContext,
        readers: NodeSet,
        writers: NodeSet,
        releasers: NodeSet,
        out: &mut Effects,
    ) -> Self {
        let mut round = Round { releasers, ..Round::default() };
        let only = writers.first().filter(|_| writers.len() == 1);
        match only {
            // |write_dir| == 1, read_dir empty: 1WGR.
            Some(writer) if readers.is_empty() => {
                mark!(ReleaseSingle);
                round.granting = true;
                send(context, writer, MgsMessage::SingleWriterGrant, out);
            }
            // |write_dir| == 1, read_dir not empty: INV to the readers, 1WINV to the writer.
            Some(writer) => {
                mark!(ReleaseKeeper);
                round.keeper = Some(writer);
                for reader in readers.iter() {
                    send(context, reader, MgsMessage::Invalidate, out);
                }
                send(context, writer, MgsMessage::SingleWriterInvalidate, out);
            }
            // Else INV to all.
            None => {
                mark!(ReleaseAll, or ReleaseReaders if writers.is_empty());
                for holder in readers.iter().chain(writers.iter()) {
                    send(context, holder, MgsMessage::Invalidate, out);
                }
            }
        }
        round.awaited = readers.iter().chain(writers.iter()).collect();
        let mut server = Self::Releasing(Box::new(round));
        server.conclude(context, out);
        server
    }

    /// Arc 34, count == 0: merge diffs, RACK to `rl`, RDAT to `rd`, WDAT to `wr`.
    fn conclude(&mut self, context: &EngineContext, out: &mut Effects) {
        let Self::Releasing(round) = &mut *self else { return };
        if !round.awaited.is_empty() {
            return;
        }
        // A reader became a writer before its INV came. A node that keeps its copy must not read on without
        // what that one wrote. Its own release has ended: the home has all, and no reader is left.
        // What it wrote since comes with its answer, and so does the REL of that.
        let outdated = round.outdated;
        if let Some(keeper) = round.keeper.take_if(|_| outdated) {
            mark!(KeeperOutdated);
            if round.releasers.remove(keeper) {
                send(context, keeper, MgsMessage::ReleaseAck, out);
            }
            round.releasers = round.releasers.iter().chain(round.again.iter()).collect();
            round.again = NodeSet::new();
            round.awaited.insert(keeper);
            send(context, keeper, MgsMessage::Invalidate, out);
            return;
        }
        let Round { keeper, releasers, again, readers, mut writers, .. } =
            core::mem::take(&mut **round);
        out.push(Effect::MergeDiffs { minipage: context.minipage, open: true });
        acknowledge(context, &releasers, out);
        for reader in readers.iter() {
            send(context, reader, MgsMessage::ReadData, out);
        }
        for writer in writers.iter() {
            send(context, writer, MgsMessage::WriteData, out);
        }
        // Its copy stayed where it was, though the paper's table clears write_dir.
        if let Some(keeper) = keeper {
            writers.insert(keeper);
        }
        *self = if again.is_empty() {
            Self::Shared { readers, writers }
        } else {
            Self::release(context, readers, writers, again, out)
        };
    }
}

impl Round {
    /// Whether an INV to that node has no answer yet, and what comes from it may be that.
    fn awaits_answer(&self, from: NodeId) -> bool {
        self.awaited.contains(from) && self.keeper != Some(from) && !self.granting
    }

    /// Whether requests wait.
    fn is_wanted(&self) -> bool {
        !self.readers.is_empty() || !self.writers.is_empty()
    }

    fn queue(&mut self, from: NodeId, event: ServerEvent) {
        if event == ServerEvent::ReadRequest {
            self.readers.insert(from);
        } else {
            self.writers.insert(from);
        }
    }
}

fn acknowledge(context: &EngineContext, releasers: &NodeSet, out: &mut Effects) {
    for releaser in releasers.iter() {
        send(context, releaser, MgsMessage::ReleaseAck, out);
    }
}

fn send(context: &EngineContext, to: NodeId, body: MgsMessage, out: &mut Effects) {
    out.push(Effect::Send { to, message: body.about(context.minipage) });
}
