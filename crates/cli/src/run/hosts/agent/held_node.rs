//! One node of the host, held by its agent: passes its messages and output to the launcher unchanged.

use super::super::super::control::{Message, ask};
use super::super::super::event_source::Source;
use super::super::super::leftovers::{Orphans, end_by_pidfd};
use super::super::super::output::{Format, Pipe, Pumped};
use super::super::super::spawn::Node;
use super::super::channel::AgentChannel;
use super::super::messages::{AgentEvent, Stream};
use rustix::event::epoll::{self, EventFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Buffers read of a dead node's output, and of its messages, before its end is told, so that its last words come before.
const LAST_WORDS: usize = 16;

/// A node; pipes are None once closed.
pub(super) struct HeldNode {
    rank: u32,
    pid: Pid,
    pidfd: OwnedFd,
    ended: bool,
    /// The process that may be the node once the other has ended, until its own end is told.
    successor: Option<i32>,
    control: Option<Pipe>,
    out: Option<Pipe>,
    err: Option<Pipe>,
}

impl HeldNode {
    /// A node that was just started.
    pub(super) fn new(node: Node) -> io::Result<Self> {
        let pipe = |fd| Pipe::new(fd, Format::Raw).map(Some);
        Ok(Self {
            rank: node.rank,
            pid: node.pid,
            pidfd: node.pidfd,
            ended: false,
            successor: None,
            control: pipe(node.control)?,
            out: pipe(node.stdout)?,
            err: pipe(node.stderr)?,
        })
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Reports all of it under this index.
    pub(super) fn watch(&self, set: &OwnedFd, index: usize) -> io::Result<()> {
        epoll::add(set, &self.pidfd, Source::Exit(index).data(), EventFlags::IN)?;
        self.watch_control(set, index, true);
        self.watch_output(set, index, true);
        Ok(())
    }

    /// Reports its messages, or not.
    pub(super) fn watch_control(&self, set: &OwnedFd, index: usize, reads: bool) {
        watch(set, self.control.as_ref(), Source::Control(index), reads);
    }

    /// Reports its output, or not.
    pub(super) fn watch_output(&self, set: &OwnedFd, index: usize, reads: bool) {
        for (pipe, source) in [(&self.out, Source::Out(index)), (&self.err, Source::Err(index))] {
            watch(set, pipe.as_ref(), source, reads);
        }
    }

    /// Sends a signal to its process group, which stays its own: it is not reaped before the end.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Whether a process that it has started may be the node in its place: it has the channel.
    pub(super) fn has_successor(&self) -> bool {
        self.ended && self.control.is_some()
    }

    /// How this process ends is to be told.
    pub(super) fn await_successor(&mut self, pid: i32) {
        self.successor = Some(pid);
    }

    /// Tells how its successor has ended, if it has.
    pub(super) fn tell_successor(
        &mut self,
        channel: &mut AgentChannel,
        orphans: &Orphans,
        memory_kills: impl Fn() -> Option<String>,
    ) {
        if let Some(status) = self.successor.and_then(|pid| orphans.end_of(pid)) {
            self.successor = None;
            let memory_kills = if status.is_sigkill() { memory_kills() } else { None };
            channel.say(&AgentEvent::SuccessorEnded { rank: self.rank, status, memory_kills });
        }
    }

    /// Asks what its threads wait for.
    pub(super) fn ask(&self, question: u64) {
        let control: Option<BorrowedFd<'_>> = self.control.as_ref().and_then(Pipe::descriptor);
        control.iter().for_each(|control| ask(control, question));
    }

    /// Passes on what it tells its launcher; false when there is no more for now.
    pub(super) fn tell_control(&mut self, channel: &mut AgentChannel, buffer: &mut [u8]) -> bool {
        let Some(control) = &mut self.control else { return false };
        match control.pump(buffer) {
            Pumped::Some(bytes) => {
                channel.say(&AgentEvent::Control { rank: self.rank, bytes });
                true
            }
            Pumped::Blocked => false,
            Pumped::End(_) => {
                self.control = None;
                // Behind half a line, perhaps.
                let bytes = b"\nclosed\n".to_vec();
                channel.say(&AgentEvent::Control { rank: self.rank, bytes });
                false
            }
        }
    }

    /// Passes on a buffer full of its output; false when there is no more for now.
    pub(super) fn tell_output(
        &mut self,
        stream: Stream,
        channel: &mut AgentChannel,
        buffer: &mut [u8],
    ) -> bool {
        let rank = self.rank;
        let slot = self.slot(stream);
        let Some(pipe) = slot else { return false };
        match pipe.pump(buffer) {
            Pumped::Some(bytes) => {
                channel.say(&AgentEvent::Output { rank, stream, bytes });
                true
            }
            Pumped::Blocked => false,
            Pumped::End(_) => {
                *slot = None;
                channel.say(&AgentEvent::EndOfOutput { rank, stream });
                false
            }
        }
    }

    /// The node is dead: tells what it said last, and how it ended.
    pub(super) fn tell_end(
        &mut self,
        set: &OwnedFd,
        channel: &mut AgentChannel,
        buffer: &mut [u8],
        reads: bool,
        memory_kills: impl Fn() -> Option<String>,
    ) {
        let mut left = LAST_WORDS;
        while left > 0 && self.tell_control(channel, buffer) {
            left -= 1;
        }
        for stream in [Stream::Out, Stream::Err] {
            let mut left = if reads { LAST_WORDS } else { 0 };
            while left > 0 && self.tell_output(stream, channel, buffer) {
                left -= 1;
            }
        }
        let Some((status, unknown)) = end_by_pidfd(&self.pidfd) else { return };
        let _ = epoll::delete(set, &self.pidfd);
        self.ended = true;
        let rank = self.rank;
        if let Some(why) = unknown {
            let bytes = format!("\n{}\n", Message::Fatal(why)).into_bytes();
            channel.say(&AgentEvent::Control { rank, bytes });
        }
        let memory_kills = if status.is_sigkill() { memory_kills() } else { None };
        channel.say(&AgentEvent::Ended { rank, status, memory_kills });
    }

    /// Whether all its output is closed.
    pub(super) fn is_silent(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    /// Nothing more is read of it.
    pub(super) fn close(&mut self, channel: &mut AgentChannel) {
        for stream in [Stream::Out, Stream::Err] {
            if self.slot(stream).take().is_some() {
                channel.say(&AgentEvent::EndOfOutput { rank: self.rank, stream });
            }
        }
    }

    fn slot(&mut self, stream: Stream) -> &mut Option<Pipe> {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }
}

fn watch(set: &OwnedFd, pipe: Option<&Pipe>, source: Source, reads: bool) {
    let Some(fd) = pipe.and_then(Pipe::descriptor) else { return };
    // Neither fails but for want of memory; without it, what comes is read at the node's end.
    let _ = match reads {
        true => epoll::add(set, fd, source.data(), EventFlags::IN),
        false => epoll::delete(set, fd),
    };
}
