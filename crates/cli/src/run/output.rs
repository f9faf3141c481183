//! One output pipe of one node: cuts what arrives into whole lines, and tags each with the node's rank.

use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A line longer than this is broken, so that a node without line ends cannot use up the memory.
const MAX_LINE_BYTES: usize = 1 << 20;

/// What happens to the bytes of a node.
#[derive(Debug, Clone)]
pub(super) enum Format {
    /// Passed on at once, as they are: the only node of an untagged job.
    Raw,
    /// Passed on line by line, each with this tag before it (may be empty).
    Lines(String),
}

impl Format {
    /// For node `rank` of so many.
    pub(super) fn of(tagged: bool, nodes: usize, rank: usize) -> Self {
        match (tagged, nodes) {
            (true, _) => Self::Lines(format!("[{rank}] ")),
            (false, 1) => Self::Raw,
            (false, _) => Self::Lines(String::new()),
        }
    }
}

/// Cuts a byte stream into lines.
pub(super) struct Lines {
    format: Format,
    partial: Vec<u8>,
}

impl Lines {
    pub(super) fn new(format: Format) -> Self {
        Self { format, partial: Vec::new() }
    }

    /// Appends to `out` the lines that `bytes` completes.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Format::Lines(tag) = &self.format else {
            out.extend_from_slice(bytes);
            return;
        };
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let whole = piece.ends_with(b"\n");
            let broken = !whole && self.partial.len() + piece.len() > MAX_LINE_BYTES;
            if !whole && !broken {
                self.partial.extend_from_slice(piece);
                continue;
            }
            out.extend_from_slice(tag.as_bytes());
            out.append(&mut self.partial);
            out.extend_from_slice(piece);
            if broken {
                out.push(b'\n');
            }
        }
    }

    /// Appends the last line, if it had no end, and ends it.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.feed(b"\n", out);
        }
    }
}

/// What one read of a pipe brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pumped {
    /// Lines for the writer; may be empty.
    Some(Vec<u8>),
    /// Nothing is there now.
    Blocked,
    /// All writers are gone; the rest for the writer.
    End(Vec<u8>),
}

/// A node's stdout or stderr.
pub(super) struct Pipe {
    /// The launcher's end; none where an agent has that, and says what comes.
    fd: Option<OwnedFd>,
    lines: Lines,
}

impl Pipe {
    /// Takes over the reading end, which becomes non-blocking.
    pub(super) fn new(fd: OwnedFd, format: Format) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd: Some(fd), lines: Lines::new(format) })
    }

    /// Of a node on another host.
    pub(super) fn of_agent(format: Format) -> Self {
        Self { fd: None, lines: Lines::new(format) }
    }

    /// The reading end, if it is here.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// The lines in what an agent has read.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.lines.feed(bytes, &mut out);
        out
    }

    /// Reads once, at most `buffer` full.
    pub(super) fn pump(&mut self, buffer: &mut [u8]) -> Pumped {
        let mut out = Vec::new();
        loop {
            let Some(fd) = &self.fd else { return Pumped::Blocked };
            return match rustix::io::read(fd, &mut *buffer) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Pumped::Blocked,
                Ok(0) | Err(_) => Pumped::End(self.finish()),
                Ok(count) => {
                    self.lines.feed(&buffer[..count], &mut out);
                    Pumped::Some(out)
                }
            };
        }
    }

    /// What is left of a last line.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.lines.finish(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(format: Format, pieces: &[&str]) -> String {
        let mut lines = Lines::new(format);
        let mut out = Vec::new();
        for piece in pieces {
            lines.feed(piece.as_bytes(), &mut out);
        }
        lines.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pieces_are_joined_to_lines_and_each_line_is_tagged_once() {
        let out = lines(Format::Lines("[3] ".into()), &["a", "b\nc\n\n", "d"]);
        assert_eq!(out, "[3] ab\n[3] c\n[3] \n[3] d\n");
    }

    #[test]
    fn a_raw_stream_passes_unchanged() {
        assert_eq!(lines(Format::Raw, &["name? ", "x\ny"]), "name? x\ny");
    }

    #[test]
    fn an_endless_line_is_broken_and_nothing_is_lost() {
        let piece = "x".repeat(400_000);
        let out = lines(Format::Lines(String::new()), &[piece.as_str(); 4]);
        assert_eq!(out.lines().count(), 2);
        assert_eq!(out.matches('x').count(), 1_600_000);
    }
}
