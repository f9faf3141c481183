//! The world of the simulator and of projections, for one step: effects become changes of page tables,
//! frames of the real codec on links with delays, and wake-ups in virtual time. Sequential consistency only.

use std::collections::VecDeque;
use std::sync::Arc;

use multigrain_protocol::send_timing::{SendContext, SendTiming, send_timing};
use multigrain_protocol::sync::Operand;
use multigrain_protocol::window_length::Estimator;
use multigrain_protocol::{Attach, Message, PageMessage, Turns, World};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

use super::codec::Frame;
use super::content::Content;
use super::links::Timing;
use super::memory::Memory;
use super::network::Net;
use super::reports::{Broken, Event, Hold};
use super::trace::{Subject, Trace};

/// Where and when a step is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) me: NodeId,
    /// The time, and the processor time that the node has used.
    pub(super) now_ns: u64,
    pub(super) processor_ns: u64,
    /// When what the step sends leaves the node.
    pub(super) leaves_ns: u64,
    /// Bytes of each minipage that is asked for.
    pub(super) bytes: u64,
}

pub(super) struct Stage<'a, T> {
    pub(super) at: At,
    pub(super) memory: &'a mut Memory,
    pub(super) net: &'a mut Net<T>,
    /// The page that came with the message at hand.
    pub(super) arrived: Option<Content>,
    /// A minipage that this step took away from the threads: its bytes may still be sent.
    pub(super) given_up: Option<MinipageId>,
    pub(super) happened: &'a mut VecDeque<Event>,
    /// Whether the thread that steps shall hold its minipage, after so many turns of others.
    pub(super) asked_to_hold: &'a mut Option<Hold>,
    pub(super) turns: &'a mut Estimator,
    pub(super) trace: &'a mut Trace,
    pub(super) broken: Option<Broken>,
}

impl<T> Stage<'_, T> {
    fn check(&mut self, minipage: MinipageId, result: Result<(), String>) {
        if let Err(text) = result {
            self.breaks(Subject::Minipage(minipage), text);
        }
    }

    /// Remembers the first thing that broke.
    fn breaks(&mut self, subject: Subject, text: String) {
        self.broken.get_or_insert(Broken { subject, text });
    }

    /// The bytes that go with a message, as the sender's privileged view has them.
    fn page(&mut self, message: &Message) -> Option<(u64, Content)> {
        let Message::Page { minipage, .. } = *message else { return None };
        if message.attach() == Attach::Nothing {
            return None;
        }
        let me = self.at.me;
        match self.memory.access(me, minipage) {
            Access::ReadOnly => {}
            Access::NoAccess if self.given_up == Some(minipage) => {}
            access @ (Access::NoAccess | Access::ReadWrite) => {
                self.breaks(
                    Subject::Minipage(minipage),
                    format!("{me} sends a page that it has {access:?}"),
                );
            }
        }
        Some((self.at.bytes, self.memory.content(me, minipage)))
    }

    fn note(&mut self, message: &Message, to: NodeId, how: &str) {
        let me = self.at.me;
        self.trace.note(Subject::of(message), || format!("  {me} {how} {to}: {message:?}"));
    }
}

impl<T: Timing> Stage<'_, T> {
    /// Hands a message to the network when the protocol's table says.
    fn post(&mut self, to: NodeId, message: Message, context: SendContext) {
        let page = self.page(&message);
        let frame = Frame::new(self.at.me, to, &message.to_words(), page);
        let bounded = !matches!(
            message,
            Message::Page { body: PageMessage::PushRequest | PageMessage::AckNow, .. }
        );
        let posted = match send_timing(message, context, None, |_| true) {
            SendTiming::Now => self.net.post(self.at.me, frame, self.at.leaves_ns, bounded),
            SendTiming::Defer | SendTiming::Batch | SendTiming::Merge(_) => {
                self.net.defer(self.at.me, frame, self.at.leaves_ns)
            }
        };
        if let Err(text) = posted {
            self.breaks(Subject::of(&message), text);
        }
    }
}

impl<T: Timing> World for Stage<'_, T> {
    fn send(&mut self, to: NodeId, message: Message) {
        self.note(&message, to, "sends");
        self.post(to, message, SendContext::default());
    }

    fn send_operand(&mut self, _: NodeId, id: u64, _: &Operand) {
        self.breaks(Subject::Id(id), "an operand, and nobody collects".into());
    }

    fn result(&mut self, thread: ThreadId, _: Arc<[u8]>) {
        self.breaks(Subject::Id(0), format!("a result for {thread}, and nobody collects"));
    }

    fn send_deferred(&mut self, to: NodeId, message: Message) {
        self.note(&message, to, "defers");
        if message.attach() == Attach::Page {
            self.breaks(Subject::of(&message), format!("{message:?} is deferred with its page"));
        }
        self.post(to, message, SendContext { later: true, ..SendContext::default() });
    }

    fn install(&mut self, minipage: MinipageId, access: Access) {
        let me = self.at.me;
        let Some(content) = self.arrived.take() else {
            let text = format!("{me} installs a page but none came");
            return self.breaks(Subject::Minipage(minipage), text);
        };
        let subject = Subject::Minipage(minipage);
        self.trace.note(subject, || format!("  {me} installs {content:#x} {access:?}"));
        let result = self.memory.install(me, minipage, access, content);
        self.check(minipage, result);
    }

    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        let me = self.at.me;
        self.trace
            .note(Subject::Minipage(minipage), || format!("  {me} goes from {from:?} to {to:?}"));
        if to < from {
            self.turns.revoked(minipage, self.at.processor_ns, self.at.now_ns);
        }
        if to == Access::NoAccess {
            self.given_up = Some(minipage);
        }
        let result = self.memory.protect(me, minipage, from, to);
        self.check(minipage, result);
    }

    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        let (me, real) = (self.at.me, self.memory.access(self.at.me, minipage));
        if access != real {
            let text = format!("{me} is said to have {access:?} but has {real:?}");
            self.breaks(Subject::Minipage(minipage), text);
        }
    }

    fn refuse(&mut self, thread: ThreadId) {
        let me = self.at.me;
        self.breaks(Subject::Id(0), format!("{thread} of {me} is refused, and none tries"));
    }

    fn wake(&mut self, thread: ThreadId) {
        self.happened.push_back(Event::Woken { node: self.at.me, thread });
    }

    fn hold(&mut self, _: ThreadId, _: MinipageId, turns: Turns, urgent: bool) {
        *self.asked_to_hold = Some(Hold { turns, urgent });
    }

    fn reclaimed(&mut self, minipage: MinipageId) {
        let me = self.at.me;
        self.trace.note(Subject::Minipage(minipage), || format!("  {me} has it back"));
        let result = self.memory.reclaimed(me, minipage);
        self.check(minipage, result);
        self.happened.push_back(Event::Reclaimed { minipage });
    }

    fn competing(&mut self, _: MinipageId) {}
}
