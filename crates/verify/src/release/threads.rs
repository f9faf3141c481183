//! Threads that start, end and join anywhere and at any moment, as in the runtime
//! (`runtime/src/threads/`): a release, then the request; the node begins the thread before it runs and before
//! its starter is answered; at its end a release, then the answer to the thread that joins.

use multigrain_protocol::Input;
use multigrain_protocol::sync::SyncInput;
use multigrain_types::NodeId;

use super::program::{Job, Op};
use super::state::{Packet, Phase, State};
use super::step::id;

impl State {
    /// A thread has released: it asks for the start of another one.
    pub(super) fn start(&mut self, job: &Job, thread: usize, started: u8) {
        self.threads[thread].phase = Phase::Blocked;
        let to = job.threads[usize::from(started)].node;
        self.notify(job, (job.threads[thread].node, to), Packet::Start(started));
    }

    /// The node of a thread is asked to start it.
    pub(super) fn begin(&mut self, job: &Job, started: u8) {
        let index = usize::from(started);
        self.threads[index].phase = Phase::Beginning;
        let begin = SyncInput::Begin { thread: id(index) };
        self.input(job, job.threads[index].node, Input::Sync(begin));
    }

    /// It runs: its starter is notified, and it acquires what its starter has released.
    pub(super) fn begun(&mut self, job: &Job, thread: usize) {
        self.threads[thread].phase = Phase::Running;
        let started = number(thread);
        let node = job.threads[thread].node;
        if let Some(to) = self.waiting_for(job, Op::Start(started)) {
            self.notify(job, (node, job.threads[to].node), Packet::Started(started));
        }
        self.input(job, node, Input::Acquire);
    }

    /// A thread has come to its end and released.
    pub(super) fn ended(&mut self, job: &Job, thread: usize) {
        self.threads[thread].phase = Phase::Ended;
        self.input(
            job,
            job.threads[thread].node,
            Input::Sync(SyncInput::End { thread: id(thread) }),
        );
        if self.threads[thread].joined {
            self.tell_end(job, thread);
        }
    }

    /// The node of a thread is asked to say when it has ended.
    pub(super) fn join(&mut self, job: &Job, ended: u8) {
        let index = usize::from(ended);
        self.threads[index].joined = true;
        if self.threads[index].phase == Phase::Ended {
            self.tell_end(job, index);
        }
    }

    fn tell_end(&mut self, job: &Job, thread: usize) {
        let ended = number(thread);
        if let Some(to) = self.waiting_for(job, Op::Join(ended)) {
            let link = (job.threads[thread].node, job.threads[to].node);
            self.notify(job, link, Packet::Ended(ended));
        }
    }

    /// What a thread has asked for is so: it goes on.
    pub(super) fn answer(&mut self, job: &Job, asked: Op) {
        if let Some(thread) = self.waiting_for(job, asked) {
            self.go_on(job, thread);
        }
    }

    /// A thread has ended for which another one waits: the node of that one takes it up again.
    pub(super) fn resume(&mut self, job: &Job, asked: Op) {
        let Some(thread) = self.waiting_for(job, asked) else { return };
        self.threads[thread].phase = Phase::Resuming;
        let begin = SyncInput::Begin { thread: id(thread) };
        self.input(job, job.threads[thread].node, Input::Sync(begin));
    }

    /// A thread has what it asked for: it acquires and goes on.
    pub(super) fn go_on(&mut self, job: &Job, thread: usize) {
        let now = &mut self.threads[thread];
        now.phase = Phase::Running;
        now.done += 1;
        self.input(job, job.threads[thread].node, Input::Acquire);
    }

    /// Notifies a node by other means than synchronization: it gets the write notices first. A node notifies itself
    /// at once.
    pub(super) fn notify(&mut self, job: &Job, (from, to): (NodeId, NodeId), packet: Packet) {
        if from != to {
            self.input(job, from, Input::Notify { node: to });
            self.say(job, (from, to), packet);
            return;
        }
        match packet {
            Packet::Start(thread) => self.begin(job, thread),
            Packet::Started(thread) => self.answer(job, Op::Start(thread)),
            Packet::Join(thread) => self.join(job, thread),
            Packet::Ended(thread) => self.resume(job, Op::Join(thread)),
            Packet::Message { .. }
            | Packet::Operand(..)
            | Packet::WriteNotices(_)
            | Packet::Notified(_) => {
                unreachable!("what threads ask of each other's nodes")
            }
        }
    }

    /// The thread that waits in this operation.
    fn waiting_for(&self, job: &Job, op: Op) -> Option<usize> {
        let waits = |index: &usize| {
            let (now, plan) = (&self.threads[*index], &job.threads[*index]);
            now.phase == Phase::Blocked && plan.program.get(now.done as usize) == Some(&op)
        };
        (0..self.threads.len()).find(waits)
    }
}

fn number(thread: usize) -> u8 {
    u8::try_from(thread).expect("a job that starts threads has few of them")
}
