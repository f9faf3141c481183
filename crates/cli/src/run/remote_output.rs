//! Output of nodes on other hosts, in whole lines: their agents pass it on in pieces, as it was written.

use super::hosts::Stream;
use super::job::Job;
use super::output::Pipe;
use super::writer::Target;

impl Job<'_> {
    /// A piece of what a node has written.
    pub(super) fn write_remote(&mut self, rank: usize, stream: Stream, bytes: &[u8]) {
        let (target, slot) = self.stream(rank, stream);
        let lines = slot.as_mut().map(|pipe| pipe.take(bytes)).unwrap_or_default();
        self.writer.push(target, lines);
        self.writer.came(self.now());
    }

    /// A node writes nothing there any more, or its host is lost: what has no line end is written as it is.
    pub(super) fn end_remote(&mut self, rank: usize, stream: Stream) {
        let (target, slot) = self.stream(rank, stream);
        let rest = slot.take().map(|mut pipe| pipe.finish()).unwrap_or_default();
        self.writer.push(target, rest);
    }

    fn stream(&mut self, rank: usize, stream: Stream) -> (Target, &mut Option<Pipe>) {
        let live = &mut self.nodes[rank];
        match stream {
            Stream::Out => (Target::Out, &mut live.stdout),
            Stream::Err => (Target::Err, &mut live.stderr),
        }
    }
}
