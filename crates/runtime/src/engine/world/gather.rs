//! What the steps of a run have in common is done once: neighbours protected alike are one change of
//! protection, and messages that are alike but for their minipages are one frame.
//!
//! The steps gather here under the locks of all their minipages, and [`RealWorld::finish`] does what was
//! gathered before these are given back: protections first, for a page is sent only after its own; then threads
//! are woken, which retry their accesses; then messages leave, in the order in which they were said about each
//! minipage. A step that wants anything else has what was gathered done before it.

use multigrain_protocol::{Attach, Message};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};
use smallvec::SmallVec;

use super::RealWorld;
use crate::frames::header_of_run;
use crate::run::{MAX_RUN_BYTES, Run};

/// A change of protection of neighbours.
#[derive(Debug)]
struct Protection {
    run: Run,
    from: Access,
    to: Access,
}

/// A message about neighbours.
#[derive(Debug)]
struct Said {
    to: NodeId,
    /// About the first of them.
    message: Message,
    run: Run,
    deferred: bool,
    /// Bytes of the contents that go with it, and whether they are all zero.
    bytes: usize,
    zero: bool,
}

/// What the steps of a run want done.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    protections: SmallVec<[Protection; 2]>,
    woken: SmallVec<[ThreadId; 4]>,
    said: Vec<Said>,
    /// The minipage of the last message, and that message's place: what is said about it later comes behind.
    last: Option<(MinipageId, usize)>,
}

impl Gathered {
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

    pub(super) fn wake(&mut self, thread: ThreadId) {
        self.woken.push(thread);
    }

    /// A message about a minipage, with so many bytes of contents.
    pub(super) fn say(
        &mut self,
        (to, deferred): (NodeId, bool),
        (minipage, message): (MinipageId, Message),
        (bytes, zero): (usize, bool),
    ) {
        let from = self.last.filter(|last| last.0 == minipage).map_or(0, |last| last.1);
        let alike = |said: &Said| {
            (said.to, said.deferred, said.message.about(minipage)) == (to, deferred, message)
                && said.bytes + bytes <= MAX_RUN_BYTES
                // A page of zeros goes with others as it is; one that is not does not go with zeros.
                && (zero || !said.zero)
        };
        let mut place = self.said.len();
        for (index, said) in self.said.iter_mut().enumerate().skip(from) {
            if alike(said)
                && let Some(run) = said.run.with(minipage)
            {
                said.run = run;
                said.bytes += bytes;
                place = index;
                break;
            }
        }
        if place == self.said.len() {
            self.said.push(Said { to, message, run: Run::one(minipage), deferred, bytes, zero });
        }
        self.last = Some((minipage, place));
    }
}

impl RealWorld<'_> {
    /// Does what was gathered, before anything that is not: that keeps its place behind it.
    pub(super) fn do_gathered(&mut self) {
        let Some(gathered) = self.gathered.as_mut().map(core::mem::take) else { return };
        for Protection { run, from, to } in gathered.protections {
            let done = self.platform().memory().protect_run(run.first(), run.count(), from, to);
            if let Err(error) = done {
                self.platform().fatal(&error.to_string());
            }
            self.count_opened(to);
            if to != Access::ReadWrite {
                run.minipages().for_each(|minipage| self.engine.races().unwatch(minipage));
            }
        }
        for thread in gathered.woken {
            self.platform().wake_thread(thread);
        }
        for said in gathered.said {
            self.send_run(&said);
        }
    }

    fn send_run(&self, said: &Said) {
        let header = header_of_run(said.message, said.run);
        if said.deferred {
            let sent = self.platform().mesh().defer(said.to, header);
            return self.platform().check_sent(said.to, sent);
        }
        let contents = (said.message.attach() == Attach::Page && !said.zero).then_some(said.run);
        self.send_contents(said.to, header, contents);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_protocol::{Kind, PageMessage};
    use multigrain_types::AreaId;

    const ACK: PageMessage = PageMessage::Ack;
    const REQUEST: PageMessage = PageMessage::Request { kind: Kind::Read };
    const REPLY: PageMessage =
        PageMessage::Reply { kind: Kind::Read, attach: Attach::Page, ack_now: false, turns: 0 };

    fn say(gathered: &mut Gathered, to: u16, index: u32, body: PageMessage, page: (usize, bool)) {
        let minipage = MinipageId::new(AreaId(1), index);
        gathered.say((NodeId(to), false), (minipage, body.about(minipage)), page);
    }

    fn runs(gathered: &Gathered) -> Vec<(u16, u32, u32)> {
        let of = |said: &Said| (said.to.0, said.run.first().index(), said.run.count());
        gathered.said.iter().map(of).collect()
    }

    #[test]
    fn messages_that_are_alike_are_one_for_each_node() {
        let mut gathered = Gathered::default();
        for index in 4..8 {
            say(&mut gathered, 1, index, REQUEST, (0, true));
            say(&mut gathered, 2, index, REQUEST, (0, true));
        }
        say(&mut gathered, 1, 9, REQUEST, (0, true));
        assert_eq!(runs(&gathered), [(1, 4, 4), (2, 4, 4), (1, 9, 1)]);
    }

    #[test]
    fn what_is_said_about_a_minipage_keeps_its_order() {
        let mut gathered = Gathered::default();
        say(&mut gathered, 1, 4, ACK, (0, true));
        say(&mut gathered, 1, 4, REQUEST, (0, true));
        // Here the other way about: the request must not join the one behind the ack.
        say(&mut gathered, 1, 5, REQUEST, (0, true));
        say(&mut gathered, 1, 5, ACK, (0, true));
        assert_eq!(runs(&gathered), [(1, 4, 1), (1, 4, 2), (1, 5, 1)]);
    }

    #[test]
    fn contents_go_with_contents_and_zeros_with_either() {
        let mut gathered = Gathered::default();
        for (index, zero) in (0..).zip([true, true, false, true, false]) {
            say(&mut gathered, 1, index, REPLY, (4096, zero));
        }
        assert_eq!(runs(&gathered), [(1, 0, 2), (1, 2, 3)]);
        assert!(gathered.said[0].zero && !gathered.said[1].zero);
        let most = u32::try_from(MAX_RUN_BYTES / 4096).unwrap();
        let mut gathered = Gathered::default();
        (0..most + 1).for_each(|index| say(&mut gathered, 1, index, REPLY, (4096, false)));
        assert_eq!(runs(&gathered), [(1, 0, most), (1, most, 1)]);
    }

    #[test]
    fn neighbours_that_are_protected_alike_are_protected_together() {
        let mut gathered = Gathered::default();
        let (none, read, write) = (Access::NoAccess, Access::ReadOnly, Access::ReadWrite);
        for (index, to) in (0..).zip([read, read, write, read]) {
            gathered.protect(MinipageId::new(AreaId(1), index), none, to);
        }
        let runs: Vec<_> =
            gathered.protections.iter().map(|all| (all.run.count(), all.to)).collect();
        assert_eq!(runs, [(2, read), (1, write), (1, read)]);
    }
}
