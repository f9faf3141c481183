//! Seeded faults of the manager: see [`crate::mutants`].

use multigrain_types::NodeId;

use super::{Ask, Entry, ManagerEvent, Phase, Request, Site};
use crate::effect::{Effect, Effects};
use crate::message::{Attach, Kind, Message, PageMessage};
use crate::mutants::{Mutant, chosen};

impl Entry {
    /// Before the honest step.
    pub(crate) fn bend(&mut self, from: NodeId, event: ManagerEvent) {
        use ManagerEvent as E;
        let (Some(mutant), Some(open)) = (chosen(), self.open.as_mut()) else { return };
        match (mutant, event, &mut open.phase) {
            (Mutant::QueueLost, E::Ack, Phase::Supplied { .. }) => open.queue.clear(),
            (Mutant::PushClosedByFirstAck, E::Ack, Phase::Supplied { awaited })
                if open.request.ask == Ask::Push =>
            {
                *awaited = core::iter::once(from).collect();
            }
            (Mutant::ReadersClosedByFirstAck, E::Ack, Phase::Supplied { awaited })
            | (
                Mutant::FirstInvalidationSuffices,
                E::InvalidateReply,
                Phase::Invalidating { awaited },
            ) => *awaited = core::iter::once(from).collect(),
            (Mutant::ServedBeforeAck, E::Fetch(_), Phase::Supplied { .. })
                if open.queue.is_empty() =>
            {
                self.open = None;
            }
            _ => {}
        }
    }

    /// After it.
    pub(crate) fn bend_after(
        &mut self,
        site: &Site,
        from: NodeId,
        event: ManagerEvent,
        out: &mut Effects,
    ) {
        match (chosen(), event) {
            (Some(Mutant::AckNotListed), ManagerEvent::Ack) => {
                self.copyset.remove(from);
            }
            (Some(Mutant::PushesPileUp), ManagerEvent::Push) => self.pile_up(from),
            (Some(Mutant::ReaderForgotten), _) => self.forget_reader(out),
            (Some(Mutant::SupplierStaysListed), _) => {
                for effect in out.iter() {
                    if let Some((to, PageMessage::Forward { kind: Kind::Write, .. })) = sent(effect)
                    {
                        self.copyset.insert(to);
                    }
                }
            }
            (Some(Mutant::AckNowNotSent), _) => {
                out.retain(|effect| !matches!(sent(effect), Some((_, PageMessage::AckNow))));
            }
            (Some(Mutant::OvertakenReadForwarded), _) => self.forward_overtaken(site, out),
            (Some(Mutant::TurnsNotCounted), _) => forget_turns(out),
            _ => {}
        }
    }

    fn pile_up(&mut self, from: NodeId) {
        let again = Request { from, ask: Ask::Push, turns: 0 };
        let waits = |other: &Request| (other.from, other.ask) == (from, Ask::Push);
        if let Some(open) = self.open.as_mut()
            && open.queue.iter().any(waits)
        {
            open.queue.push_back(again);
        }
    }

    /// The last of several readers is neither told nor awaited.
    fn forget_reader(&mut self, out: &mut Effects) {
        let told: Vec<usize> = (0..out.len())
            .filter(|&at| matches!(sent(&out[at]), Some((_, PageMessage::InvalidateRequest))))
            .collect();
        let [_, .., last] = told[..] else { return };
        if let Some((reader, _)) = sent(&out.remove(last))
            && let Some(open) = self.open.as_mut()
            && let Phase::Invalidating { awaited } = &mut open.phase
        {
            awaited.remove(reader);
        }
    }

    fn forward_overtaken(&self, site: &Site, out: &mut Effects) {
        for effect in out {
            let Effect::Send { to, message: Message::Page { body, .. } } = effect else { continue };
            if let PageMessage::Reply {
                kind: kind @ Kind::Read,
                attach: Attach::Nothing,
                ack_now,
                turns,
            } = *body
            {
                *body = PageMessage::Forward { kind, requester: *to, ack_now, turns };
                *to = self.replica(site);
            }
        }
    }
}

fn forget_turns(out: &mut Effects) {
    for effect in out {
        let Effect::Send { message: Message::Page { body, .. }, .. } = effect else { continue };
        if let PageMessage::Forward { turns, .. } | PageMessage::Reply { turns, .. } = body {
            *turns = 0;
        }
    }
}

fn sent(effect: &Effect) -> Option<(NodeId, PageMessage)> {
    let Effect::Send { to, message: Message::Page { body, .. } } = effect else { return None };
    Some((*to, *body))
}
