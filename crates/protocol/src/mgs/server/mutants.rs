//! Seeded faults of the server: see [`crate::mutants`].

use multigrain_types::NodeId;

use super::{Server, ServerEvent, acknowledge, send};
use crate::coherence::Site;
use crate::effect::{Effect, Effects};
use crate::message::MgsMessage;
use crate::mutants::{Mutant, chosen};
use crate::nodeset::NodeSet;

impl Server {
    /// Before the honest step; what it is told.
    pub(crate) fn bend(
        &mut self,
        site: &Site,
        from: NodeId,
        event: ServerEvent,
        out: &mut Effects,
    ) -> ServerEvent {
        use ServerEvent as E;
        match (chosen(), event, &mut *self) {
            // The diff is kept and merged, but nobody remembers that it came.
            (Some(Mutant::OutdatedKeeperStays), E::Diff, Self::Releasing(round))
                if round.keeper.is_some() && round.awaits_release(from) =>
            {
                out.push(Effect::BufferDiff { minipage: site.minipage });
                return E::Ack;
            }
            (Some(Mutant::SingleBesideReaders), E::Release, Self::Shared { readers, writers })
                if writers.len() == 1 =>
            {
                *readers = NodeSet::new();
            }
            (Some(Mutant::SingleWriterUnasked), E::ReadRequest, Self::Single { writer })
                if *writer != from =>
            {
                let writers = [*writer].into_iter().collect();
                *self = Self::Shared { readers: NodeSet::new(), writers };
            }
            _ => {}
        }
        event
    }

    /// After it.
    pub(crate) fn bend_after(
        &mut self,
        site: &Site,
        from: NodeId,
        event: ServerEvent,
        out: &mut Effects,
    ) {
        use ServerEvent as E;
        match (chosen(), event, self) {
            (Some(Mutant::UpgradeUnlisted), E::WriteNotify, Self::Shared { writers, .. }) => {
                writers.remove(from);
            }
            (Some(Mutant::EarlyReleaseAck), E::Release, Self::Releasing(round)) => {
                acknowledge(site, &core::mem::take(&mut round.releasers), out);
            }
            (Some(Mutant::ServedInRelease), E::ReadRequest, Self::Releasing(round)) => {
                round.readers.remove(from);
                send(site, from, MgsMessage::ReadData, out);
            }
            (Some(Mutant::LateReleaseForgotten), E::Release, Self::Releasing(round)) => {
                round.again = NodeSet::new();
            }
            _ => {}
        }
    }
}
