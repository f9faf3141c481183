//! What the steps of a run have in common is done once: one change of protection for neighbours that are
//! protected alike, one frame for messages that differ in their minipages only.
//!
//! The steps gather here under the locks of all their minipages, and [`RealWorld::carry_out_run`] carries it out
//! before the locks are released. Protections come first, since a page is sent only after its own is set; then
//! the messages, those about one minipage in the order in which its step sent them. Before a step does anything
//! else, what was gathered is carried out.

use multigrain_protocol::send_timing::{SendContext, SendTiming};
use multigrain_protocol::{Attach, Message, World as _};
use multigrain_types::{Access, MinipageId, NodeId};
use smallvec::SmallVec;

use super::RealWorld;
use super::first_touch::ClosedZeros;
use crate::frames::header_of_run;
use crate::minipage_run::{MAX_RUN_BYTES, Run};
use crate::platform::Platform;

/// A change of protection of neighbours.
#[derive(Debug)]
struct Protection {
    run: Run,
    from: Access,
    to: Access,
}

/// One message about neighbours.
#[derive(Debug)]
struct JoinedMessage {
    to: NodeId,
    /// What it says about the first of them.
    message: Message,
    run: Run,
    deferred: bool,
    /// Bytes of the contents that go with it.
    bytes: usize,
}

/// What the steps of a run want done.
#[derive(Debug, Default)]
pub(super) struct JoinedEffects {
    protections: SmallVec<[Protection; 2]>,
    messages: Vec<JoinedMessage>,
    /// The minipage of the last message, and that message's place: a later one about it comes behind.
    last: Option<(MinipageId, usize)>,
    /// Which of its minipages are closed before their steps.
    pub(super) zeros: ClosedZeros,
}

impl JoinedEffects {
    pub(super) fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        let same = |last: &&mut Protection| (last.from, last.to) == (from, to);
        let joined = self.protections.last_mut().filter(same).is_some_and(|last| {
            let longer = last.run.with(minipage);
            last.run = longer.unwrap_or(last.run);
            longer.is_some()
        });
        if !joined {
            self.protections.push(Protection { run: Run::one(minipage), from, to });
        }
    }

    /// A message about a minipage, with so many bytes of contents.
    pub(super) fn send(
        &mut self,
        (to, deferred): (NodeId, bool),
        (minipage, message): (MinipageId, Message),
        bytes: usize,
    ) {
        let from = self.last.filter(|last| last.0 == minipage).map_or(0, |last| last.1);
        let alike = |joined: &JoinedMessage| {
            (joined.to, joined.deferred, joined.message.about(minipage)) == (to, deferred, message)
                && joined.bytes + bytes <= MAX_RUN_BYTES
        };
        let mut place = self.messages.len();
        for (index, joined) in self.messages.iter_mut().enumerate().skip(from) {
            if alike(joined)
                && let Some(run) = joined.run.with(minipage)
            {
                joined.run = run;
                joined.bytes += bytes;
                place = index;
                break;
            }
        }
        if place == self.messages.len() {
            self.messages.push(JoinedMessage {
                to,
                message,
                run: Run::one(minipage),
                deferred,
                bytes,
            });
        }
        self.last = Some((minipage, place));
    }
}

impl<'a> RealWorld<'a> {
    /// The platform for an effect that does not go with those of its run: what was gathered before it is carried out first.
    pub(super) fn at_once(&mut self) -> &'a Platform {
        self.carry_out_run();
        &self.engine.platform
    }

    /// A protection that the step looks behind.
    pub(super) fn protect_at_once(&mut self, minipage: MinipageId, from: Access, to: Access) {
        self.protect(minipage, from, to);
        self.carry_out_run();
    }

    /// Does what was gathered.
    #[inline]
    pub(in crate::engine) fn carry_out_run(&mut self) {
        if self.gathered.is_some() {
            self.carry_out_gathered();
        }
    }

    fn carry_out_gathered(&mut self) {
        let Some(gathered) = &mut self.gathered else { return };
        let zeros = core::mem::take(&mut gathered.zeros);
        let JoinedEffects { protections, messages, .. } =
            core::mem::replace(gathered, JoinedEffects { zeros, ..JoinedEffects::default() });
        for Protection { run, from, to } in protections {
            self.change_protection(run, from, to);
        }
        for joined in &messages {
            self.send_run(joined);
        }
    }

    /// Whether its contents need not be sent: those of all minipages are zero, under sequential consistency.
    fn is_of_zeros(&self, joined: &JoinedMessage) -> bool {
        matches!(joined.message, Message::Page { .. })
            && joined.run.minipages().all(|minipage| self.is_zero(minipage))
    }

    fn send_run(&self, joined: &JoinedMessage) {
        let header = header_of_run(joined.message, joined.run);
        if joined.deferred {
            let sent = self.platform().mesh().defer(joined.to, header);
            return self.platform().check_sent(joined.to, sent);
        }
        let context = SendContext {
            page_bytes: joined.bytes,
            backlog_bytes: self.platform().mesh().waiting_bytes(joined.to),
            ..self.timing
        };
        if let Message::Hlrc { .. } = joined.message
            && self.send_timing(joined.message, context, None) != SendTiming::Now
        {
            return self.batch_contents(joined.to, header, joined.message, joined.run);
        }
        // Looked at now that they are protected: a thread may have written while the steps were made.
        let contents = joined.message.attach() == Attach::Page && !self.is_of_zeros(joined);
        self.send_contents(joined.to, header, contents.then_some(joined.run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_protocol::{Kind, PageMessage, Turns};
    use multigrain_types::AreaId;

    const ACK: PageMessage = PageMessage::Ack { turn_us: 0 };
    const REQUEST: PageMessage = PageMessage::Request { kind: Kind::Read };
    const REPLY: PageMessage = PageMessage::Reply {
        kind: Kind::Read,
        attach: Attach::Page,
        ack_now: false,
        turns: Turns::NONE,
    };

    fn send(gathered: &mut JoinedEffects, to: u16, index: u32, body: PageMessage, bytes: usize) {
        let minipage = MinipageId::new(AreaId(1), index);
        gathered.send((NodeId(to), false), (minipage, body.about(minipage)), bytes);
    }

    fn runs(gathered: &JoinedEffects) -> Vec<(u16, u32, u32)> {
        let of =
            |joined: &JoinedMessage| (joined.to.0, joined.run.first().index(), joined.run.count());
        gathered.messages.iter().map(of).collect()
    }

    #[test]
    fn messages_that_are_alike_are_one_for_each_node() {
        let mut gathered = JoinedEffects::default();
        for index in 4..8 {
            send(&mut gathered, 1, index, REQUEST, 0);
            send(&mut gathered, 2, index, REQUEST, 0);
        }
        send(&mut gathered, 1, 9, REQUEST, 0);
        assert_eq!(runs(&gathered), [(1, 4, 4), (2, 4, 4), (1, 9, 1)]);
    }

    #[test]
    fn messages_about_a_minipage_keep_their_order() {
        let mut gathered = JoinedEffects::default();
        send(&mut gathered, 1, 4, ACK, 0);
        send(&mut gathered, 1, 4, REQUEST, 0);
        // Here the other way about: the request must not join the one behind the ack.
        send(&mut gathered, 1, 5, REQUEST, 0);
        send(&mut gathered, 1, 5, ACK, 0);
        assert_eq!(runs(&gathered), [(1, 4, 1), (1, 4, 2), (1, 5, 1)]);
    }

    #[test]
    fn contents_go_together_up_to_what_a_link_takes() {
        let most = u32::try_from(MAX_RUN_BYTES / 4096).unwrap();
        let mut gathered = JoinedEffects::default();
        (0..most + 1).for_each(|index| send(&mut gathered, 1, index, REPLY, 4096));
        assert_eq!(runs(&gathered), [(1, 0, most), (1, most, 1)]);
    }

    #[test]
    fn neighbours_that_are_protected_alike_are_protected_together() {
        let mut gathered = JoinedEffects::default();
        let (none, read, write) = (Access::NoAccess, Access::ReadOnly, Access::ReadWrite);
        for (index, to) in (0..).zip([read, read, write, read]) {
            gathered.protect(MinipageId::new(AreaId(1), index), none, to);
        }
        let runs: Vec<_> =
            gathered.protections.iter().map(|all| (all.run.count(), all.to)).collect();
        assert_eq!(runs, [(2, read), (1, write), (1, read)]);
    }
}
