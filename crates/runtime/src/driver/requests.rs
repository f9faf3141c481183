//! The runtime's own requests between nodes: areas, frees, names, threads, segments, operands of collective operations.
//!
//! A request names the slot of the waiting thread; the reply brings it a code and a value. These are
//! not coherence: they are rare, and may allocate. Which there are, who may make them and where their answers come from is
//! in the table of [`crate::frames`]: here the requests of services are not known by their kinds.

use multigrain_protocol::Input;
use multigrain_protocol::release::WriteNotices;
use multigrain_transport::{Header, Payload};
use multigrain_types::{NodeId, ThreadId};

use super::{Driver, WaitReason};
use crate::error::Error;
use crate::frames::{Asker, Awaits, DriverFrame, FrameRow, Leave, OwnKind, Request};
use crate::receiver::critical_section;
use crate::receiver::slots::{self, Slot};
use crate::shim::lock;

impl Driver {
    /// Sends a request to a node and waits for its answer. `to` may be this node itself.
    pub(crate) fn request(
        &self,
        to: NodeId,
        request: Request,
        subject: u64,
        value: u64,
        body: &[u8],
    ) -> Result<u64, (i32, u64)> {
        let answer = self.ask_node(to, request.row(), (subject, value), body);
        self.acquire();
        answer
    }

    /// As [`Driver::request`], of a thread that may wait for others to come to barriers: it pauses.
    pub(crate) fn request_pausing(
        &self,
        to: NodeId,
        request: Request,
        subject: u64,
    ) -> Result<u64, (i32, u64)> {
        let (thread, slot) = self.my_slot().map_err(|error| (error.code(), 0))?;
        self.pause(thread);
        let answer = self.ask_node(to, request.row(), (subject, 0), &[]);
        // Before it acquires: what it is notified of may have been written behind a barrier that this node has not left.
        self.go_on(thread, slot);
        self.acquire();
        answer
    }

    /// Asks a node for leave, or that it waits with it, and waits. A node without a slot for this thread has told its caller.
    pub(crate) fn ask_to_leave(&self, to: NodeId, stage: Leave) {
        let _ = self.ask_node(to, Request::Departure.row(), (stage as u64, 0), &[]);
    }

    /// The same of the node that lets all go.
    pub(crate) fn ask_to_stay(&self, stage: Leave) {
        self.ask_to_leave(Leave::TOP, stage);
    }

    /// The same of any frame that is answered, without the acquire: this node may still look at what it has.
    pub(super) fn ask_node(
        &self,
        to: NodeId,
        FrameRow { number: kind, awaits, .. }: FrameRow,
        (subject, value): (u64, u64),
        body: &[u8],
    ) -> Result<u64, (i32, u64)> {
        self.forget_access();
        let Some((thread, slot)) = self.own_slot() else {
            return Err((Error::Limit(String::new()).code(), 0));
        };
        slot.arm();
        if matches!(awaits, Awaits::Name | Awaits::Segment) {
            slot.awaited().set_name(body);
        }
        let header = Header {
            kind,
            from: self.me().0,
            thread: thread.0,
            subject,
            value,
            ..Header::default()
        };
        if to != self.me() && awaits != Awaits::Receipt {
            self.notify(to);
        }
        self.races().request(to, &header);
        if to == self.me() {
            // What this node asks of itself was checked by the caller.
            self.serve_request(self.me(), &header, body).map_err(|_| (-1, 0))?;
        } else {
            lock(&self.outstanding).ask(thread, to, kind);
            self.platform().send_frame(to, header, Payload::Bytes(body));
        }
        self.wait_for(slot, awaits.place(subject).map_or(WaitReason::Other, WaitReason::At));
        self.races().answered(to, thread);
        match slot.answer() {
            (0, value) => Ok(value),
            (code, value) => Err((code, value)),
        }
    }

    /// Answers a request.
    pub(crate) fn answer(&self, asker: Asker, code: i32, value: u64) {
        lock(&self.outstanding).close(asker);
        if asker.node == self.me() {
            if let Some(slot) = slots::slot(asker.thread) {
                slot.set_answer(code, value);
                self.platform().wake_thread(asker.thread);
            }
            return;
        }
        self.notify(asker.node);
        self.send_answer(asker, code, value);
    }

    /// Answers another node, and tells it nothing else.
    pub(crate) fn send_answer(&self, asker: Asker, code: i32, value: u64) {
        let header = Header {
            kind: DriverFrame::Answer.number(),
            from: self.me().0,
            thread: asker.thread.0,
            subject: u64::from(code.cast_unsigned()),
            value,
            ..Header::default()
        };
        self.platform().send_frame(asker.node, header, Payload::None);
    }

    /// Returns when what this node wrote can be seen by whoever is told next by other means than
    /// synchronization calls (a thread's start, a free, a name).
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub(crate) fn release(&self) -> Result<(), Error> {
        if self.tables().is_relaxed() {
            self.release_as(self.my_slot()?);
        } else {
            self.engine.end_interval();
        }
        Ok(())
    }

    /// The same for a thread that has a slot.
    pub(crate) fn release_as(&self, (thread, slot): (ThreadId, &Slot)) {
        if !self.tables().is_relaxed() {
            return self.engine.end_interval();
        }
        self.end_epoch();
        slot.arm();
        self.step_sure(Input::Release { thread });
        self.wait_for(slot, WaitReason::Other);
    }

    /// Before a node is told by other means: what it has to forget then.
    pub(crate) fn notify(&self, node: NodeId) {
        if self.tables().is_lazy() && node != self.me() {
            self.step_sure(Input::Notify { node });
        }
    }

    /// A thread has acquired by a synchronization call.
    pub(crate) fn end_interval(&self) {
        critical_section::acquire();
        self.engine.end_interval();
    }

    /// After this node was told by other means.
    pub(crate) fn acquire(&self) {
        self.end_interval();
        if self.tables().is_lazy() {
            self.step_sure(Input::Acquire);
        }
    }

    pub(crate) fn receive_notices(&self, from: NodeId, body: &[u8]) -> bool {
        let Ok(notices) = WriteNotices::from_bytes(body, self.nodes()) else { return false };
        let moved = notices.plan.iter().flat_map(|plan| &plan.moves).map(|(minipage, _)| *minipage);
        let named = notices.notices.iter().map(|notice| notice.minipage).chain(moved);
        let lazy = |minipage| {
            self.tables().knows(minipage) && self.tables().consistency_of(minipage).is_lazy()
        };
        if !named.into_iter().all(lazy) {
            return false;
        }
        self.step_sure(Input::WriteNotices { from, notices: Box::new(notices) });
        true
    }

    /// Serves one request.
    ///
    /// # Errors
    /// What is wrong with it: a kind that does not exist or is not for this node, a body that makes
    /// no sense, a function that is none of the program.
    pub(crate) fn serve_request(
        &self,
        from: NodeId,
        header: &Header,
        body: &[u8],
    ) -> Result<(), String> {
        let asker = Asker { node: from, thread: ThreadId(header.thread) };
        let senseless = || Err(format!("frame kind {} makes no sense", header.kind));
        let Some(kind) = OwnKind::of(header.kind) else { return senseless() };
        let FrameRow { direction, awaits, .. } = kind.row();
        if awaits.is_served() && !lock(&self.outstanding).open(asker) {
            return Err(format!("{} asks before it has its answer", asker.thread));
        }
        if !direction.allows(from, self.me()) {
            return senseless();
        }
        let makes_sense = match kind {
            OwnKind::Request(request) => {
                return self.services.serve(self, asker, request, header, body);
            }
            OwnKind::Driver(DriverFrame::Answer) => return self.take_answer(asker, header, body),
            OwnKind::Driver(DriverFrame::WriteNotices) => self.receive_notices(from, body),
            OwnKind::Driver(DriverFrame::Operand) => {
                self.engine.receive_operand(from, header.subject, body)
            }
            OwnKind::Driver(DriverFrame::Atomic) => self.serve_atomic(asker, header.subject, body),
            OwnKind::Driver(DriverFrame::RaceClock) => {
                let awaits = |thread| lock(&self.outstanding).awaits(thread, from);
                self.races().receive_clock(from, header, body, awaits)
            }
            OwnKind::Driver(DriverFrame::RaceJudged) => self.serve_race_judged(asker),
            OwnKind::Driver(DriverFrame::RaceWrites) => {
                self.races().receive_writes(from, header.subject, header.value, body)
            }
        };
        if makes_sense { Ok(()) } else { senseless() }
    }

    /// A peer asks whether its writes have been judged, as they have.
    fn serve_race_judged(&self, asker: Asker) -> bool {
        if !self.races().are_checked() || asker.node == self.me() {
            return false;
        }
        self.send_answer(asker, 0, 0);
        true
    }

    /// Before a thread of this node releases. Where races are checked, returns when all judges have what was
    /// written before.
    pub(crate) fn end_epoch(&self) {
        self.engine.end_interval();
        if !self.races().are_checked() {
            return;
        }
        for judge in self.races().end_epoch() {
            // Links keep their order: the node that answers this has received all that was sent before. A node without
            // a slot for this thread has told its caller, or will.
            let _ = self.ask_node(judge, DriverFrame::RaceJudged.row(), (0, 0), &[]);
        }
    }

    /// As if a thread of this node had asked.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) fn pretend_to_ask(&self, thread: ThreadId, node: NodeId, request: Request) {
        lock(&self.outstanding).ask(thread, node, request.number());
    }

    /// Whether any thread of this node waits for an answer to a request of that kind.
    pub(crate) fn awaits_any(&self, request: Request) -> bool {
        lock(&self.outstanding).awaits_any(request.number())
    }

    /// A thread of this node has its answer from the node it asked.
    fn take_answer(
        &self,
        Asker { node, thread }: Asker,
        header: &Header,
        body: &[u8],
    ) -> Result<(), String> {
        let Ok(code) = u32::try_from(header.subject) else {
            return Err(format!("an answer with code {}", header.subject));
        };
        if !lock(&self.outstanding).answered(thread, node) {
            return Err(format!("it answers {thread}, which has not asked it"));
        }
        if !self.answers.keep(thread, body) {
            return Err(format!("an answer of {} bytes", body.len()));
        }
        self.answer(Asker { node: self.me(), thread }, code.cast_signed(), header.value);
        Ok(())
    }
}
