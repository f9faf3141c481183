//! The runtime's own requests between nodes: areas, frees, names, threads.
//!
//! A request names the waiting thread's slot; the reply brings it a code and a value. These are
//! not coherence: they are rare, and may allocate.

use multigrain_protocol::Input;
use multigrain_protocol::release::WriteNotices;
use multigrain_transport::{Header, Payload};
use multigrain_types::{NodeId, ThreadId};

use crate::boot::Runtime;
use crate::error::Error;
use crate::slots::{self, Slot};
use crate::stepping;
use crate::tables::lock;
use crate::threads::ThreadHandle;

/// Numbers of the runtime's own frames, above those of the protocol.
pub(crate) mod kind {
    /// To node 0: make an area of the shape in the body.
    pub(crate) const AREA_REQUEST: u8 = 64;
    /// From node 0 to all: the area in the body exists now.
    pub(crate) const AREA_ANNOUNCE: u8 = 65;
    /// To node 0: `subject` is mapped here; `value` is an error code or 0.
    pub(crate) const AREA_MAPPED: u8 = 66;
    /// To an area's owner: free the allocation at `subject`.
    pub(crate) const FREE: u8 = 67;
    /// To node 0: the name in the body is the address `subject`.
    pub(crate) const PUBLISH: u8 = 68;
    /// To node 0: wait for the name in the body.
    pub(crate) const LOOKUP: u8 = 69;
    /// Start a thread: `subject` is the function, `value` its argument.
    pub(crate) const THREAD_START: u8 = 70;
    /// Wait for the end of thread `subject`.
    pub(crate) const THREAD_JOIN: u8 = 71;
    /// Nobody will wait for the end of thread `subject`.
    pub(crate) const THREAD_DETACH: u8 = 77;
    /// What the sender knows of lazily consistent writes; no answer.
    pub(crate) const NEWS: u8 = 73;
    /// The answer to any of the above: code in `subject` (as i32 bits), value in `value`.
    pub(crate) const ANSWER: u8 = 72;
    /// With `--check-races`: the clock of the frame of kind `value` and of this thread that comes
    /// next; no answer.
    pub(crate) const RACE_CLOCK: u8 = 74;
    /// With `--check-races`, to who allocated minipage `subject`: what was written there in the
    /// sender's epoch `value`; no answer.
    pub(crate) const RACE_WRITES: u8 = 75;
    /// With `--check-races`: whether all that the sender has told of its writes was judged.
    pub(crate) const RACE_JUDGED: u8 = 76;
}

/// Whether who sends such a frame waits for its answer.
fn is_answered(kind: u8) -> bool {
    matches!(
        kind,
        kind::AREA_REQUEST
            | kind::FREE
            | kind::PUBLISH
            | kind::LOOKUP
            | kind::THREAD_START
            | kind::THREAD_JOIN
            | kind::THREAD_DETACH
    )
}

/// Who asked, so that the answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) node: NodeId,
    pub(crate) thread: ThreadId,
}

impl Runtime {
    /// Sends a request to a node and waits for its answer. `to` may be this node itself.
    pub(crate) fn ask(
        &self,
        to: NodeId,
        kind: u8,
        subject: u64,
        value: u64,
        body: &[u8],
    ) -> Result<u64, (i32, u64)> {
        let answer = self.question(to, kind, (subject, value), body);
        self.acquire();
        answer
    }

    /// The same, after which this node may still look at what it has.
    pub(crate) fn question(
        &self,
        to: NodeId,
        kind: u8,
        (subject, value): (u64, u64),
        body: &[u8],
    ) -> Result<u64, (i32, u64)> {
        stepping::forget();
        let Some((thread, slot)) = self.own_slot() else {
            return Err((Error::Limit(String::new()).code(), 0));
        };
        slot.arm();
        let header =
            Header { kind, from: self.me.0, thread: thread.0, subject, value, ..Header::default() };
        if to != self.me && kind != kind::RACE_JUDGED {
            self.tell(to);
        }
        self.order_request(to, &header);
        if to == self.me {
            // What this node asks of itself was checked by who asks.
            self.serve_request(self.me, &header, body).map_err(|_| (-1, 0))?;
        } else {
            lock(&self.asked).ask(thread, to, kind);
            self.send_frame(to, header, Payload::Bytes(body));
        }
        self.wait_for(slot);
        self.order_answered(to, thread);
        match slot.answer() {
            (0, value) => Ok(value),
            (code, value) => Err((code, value)),
        }
    }

    /// Answers a request.
    pub(crate) fn answer(&self, asker: Asker, code: i32, value: u64) {
        lock(&self.asked).close(asker);
        if asker.node == self.me {
            if let Some(slot) = slots::slot(asker.thread) {
                slot.set_answer(code, value);
                self.wake_thread(asker.thread);
            }
            return;
        }
        self.tell(asker.node);
        self.send_answer(asker, code, value);
    }

    /// Answers another node, and tells it nothing else.
    pub(crate) fn send_answer(&self, asker: Asker, code: i32, value: u64) {
        let header = Header {
            kind: kind::ANSWER,
            from: self.me.0,
            thread: asker.thread.0,
            subject: u64::from(code.cast_unsigned()),
            value,
            ..Header::default()
        };
        self.send_frame(asker.node, header, Payload::None);
    }

    /// Returns when what this node wrote can be seen by whoever is told next by other means than
    /// synchronization calls (a thread's start, a free, a name).
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub fn release(&self) -> Result<(), Error> {
        if !self.tables.is_relaxed() {
            return Ok(());
        }
        self.release_as(self.my_slot()?);
        Ok(())
    }

    /// The same for a thread that has a slot.
    pub(crate) fn release_as(&self, (thread, slot): (ThreadId, &Slot)) {
        if self.tables.is_relaxed() {
            self.end_epoch();
            slot.arm();
            self.step_sure(Input::Release { thread });
            self.wait_for(slot);
        }
    }

    /// Before a node is told by other means: what it has to forget then.
    pub(crate) fn tell(&self, node: NodeId) {
        if self.tables.is_lazy() && node != self.me {
            self.step_sure(Input::Notify { node });
        }
    }

    /// After this node was told by other means.
    pub(crate) fn acquire(&self) {
        if self.tables.is_lazy() {
            self.step_sure(Input::Acquire);
        }
    }

    pub(crate) fn serve_news(&self, from: NodeId, body: &[u8]) -> bool {
        let Ok(news) = WriteNotices::from_bytes(body, self.nodes) else { return false };
        let moved = news.plan.iter().flat_map(|plan| &plan.moves).map(|(minipage, _)| *minipage);
        let named = news.notices.iter().map(|notice| notice.minipage).chain(moved);
        let lazy = |minipage| {
            self.tables.knows(minipage) && self.tables.consistency_of(minipage).is_lazy()
        };
        if !named.into_iter().all(lazy) {
            return false;
        }
        self.step_sure(Input::WriteNotices { from, notices: news });
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
        if is_answered(header.kind) && !lock(&self.asked).open(asker) {
            return Err(format!("{} asks before it has its answer", asker.thread));
        }
        if header.kind == kind::ANSWER {
            return self.take_answer(asker, header);
        }
        if header.kind == kind::THREAD_START {
            return self.serve_thread_start(asker, header.subject, header.value);
        }
        if self.may_ask(from, header.kind) && self.serve_other(asker, header, body) {
            Ok(())
        } else {
            Err(format!("frame kind {} makes no sense", header.kind))
        }
    }

    /// Serves any request but a thread's start, and no answer; false if it makes no sense.
    fn serve_other(&self, asker: Asker, header: &Header, body: &[u8]) -> bool {
        let from = asker.node;
        match header.kind {
            kind::AREA_REQUEST => self.serve_area_request(asker, body),
            kind::AREA_ANNOUNCE => self.serve_area_announce(from, body),
            kind::AREA_MAPPED => self.serve_area_mapped(from, header.subject, header.value),
            kind::FREE => {
                self.acquire();
                self.serve_free(asker, header.subject);
                true
            }
            kind::PUBLISH => self.serve_publish(asker, body, header.subject),
            kind::LOOKUP => self.serve_lookup(asker, body),
            kind::THREAD_JOIN => {
                self.serve_thread_join(asker, ThreadHandle(header.subject));
                true
            }
            kind::THREAD_DETACH => {
                self.serve_thread_detach(asker, ThreadHandle(header.subject));
                true
            }
            kind::NEWS => self.serve_news(from, body),
            kind::RACE_CLOCK => self.serve_race_clock(from, header, body),
            kind::RACE_JUDGED => self.serve_race_judged(asker),
            kind::RACE_WRITES => self.serve_race_writes(from, header.subject, header.value, body),
            _ => false,
        }
    }

    /// A thread of this node has its answer from the node it asked.
    fn take_answer(&self, Asker { node, thread }: Asker, header: &Header) -> Result<(), String> {
        let Ok(code) = u32::try_from(header.subject) else {
            return Err(format!("an answer with code {}", header.subject));
        };
        if !lock(&self.asked).answered(thread, node) {
            return Err(format!("it answers {thread}, which has not asked it"));
        }
        self.answer(Asker { node: self.me, thread }, code.cast_signed(), header.value);
        Ok(())
    }

    /// Node 0 keeps the directories of areas and names; all others hear of areas from it.
    fn may_ask(&self, from: NodeId, kind: u8) -> bool {
        match kind {
            kind::AREA_REQUEST | kind::AREA_MAPPED | kind::PUBLISH | kind::LOOKUP => {
                self.me == NodeId(0)
            }
            kind::AREA_ANNOUNCE => self.me != NodeId(0) && from == NodeId(0),
            _ => true,
        }
    }
}
