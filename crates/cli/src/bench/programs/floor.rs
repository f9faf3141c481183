//! The lower bound of a program: its bytes through a plain socket, in turn with it.
//! Two threads of this process are the nodes; they wait as the runtime does, adaptively.
#![expect(unsafe_code, reason = "the floor is mprotect on a mapping of our own")]

use crate::bench::node::raw_sockets::Raw;
use crate::bench::options::{Transport, WaitMode};
use anyhow::{Result, anyhow};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

const PAGE_BYTES: usize = 4096;
/// What goes before a page: about as much as a message of ours has.
const HEADER_BYTES: usize = 40;
const PIECE_BYTES: usize = 64 << 10;

/// Kinds of floors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floor {
    /// A page and a header one way, and two changes of protection; us.
    HandOver,
    /// A stream into memory that was never touched; MB/s.
    Fresh,
    /// Requests of 64 bytes, each answered by 64 KiB into memory in use; MB/s.
    Requests,
}

impl Floor {
    /// For people.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::HandOver => "floor: page, header and two protections, one way",
            Self::Fresh => "floor: raw socket into fresh memory",
            Self::Requests => "floor: raw requests of 64 KiB",
        }
    }

    /// Measures it once, in the unit of its kind.
    pub(super) fn measure(self, transport: Transport, quick: bool) -> Result<f64> {
        let mib = if quick { 4 } else { 256 };
        match self {
            Self::HandOver => hand_over_us(transport, if quick { 100 } else { 5000 }),
            Self::Fresh => fresh_mb_s(transport, mib << 20),
            Self::Requests => requests_mb_s(transport, mib << 20),
        }
    }
}

/// The two ends of a connection.
fn connected(transport: Transport) -> Result<(OwnedFd, OwnedFd)> {
    match transport {
        Transport::Unix => {
            let (one, other) = UnixStream::pair()?;
            Ok((one.into(), other.into()))
        }
        Transport::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let one = TcpStream::connect(listener.local_addr()?)?;
            let (other, _) = listener.accept()?;
            one.set_nodelay(true)?;
            other.set_nodelay(true)?;
            Ok((one.into(), other.into()))
        }
    }
}

/// Runs both ends; the time is the first one's.
fn both(
    one: impl FnOnce() -> Result<f64> + Send,
    other: impl FnOnce() -> Result<()> + Send,
) -> Result<f64> {
    thread::scope(|scope| {
        let other = scope.spawn(other);
        let seconds = one()?;
        other.join().map_err(|_| anyhow!("the other end of a floor panicked"))??;
        Ok(seconds)
    })
}

fn hand_over_us(transport: Transport, rounds: u32) -> Result<f64> {
    let (one, other) = connected(transport)?;
    let seconds = both(
        move || {
            let (raw, page) = (Raw::of(WaitMode::Adaptive, one), Page::new()?);
            let start = Instant::now();
            for _ in 0..rounds {
                page.close_and_open()?;
                raw.there_and_back(1, HEADER_BYTES + PAGE_BYTES)?;
            }
            Ok(start.elapsed().as_secs_f64())
        },
        move || {
            let (raw, page) = (Raw::of(WaitMode::Adaptive, other), Page::new()?);
            for _ in 0..rounds {
                page.close_and_open()?;
                raw.echo_same(1, HEADER_BYTES + PAGE_BYTES)?;
            }
            Ok(())
        },
    )?;
    Ok(seconds * 1e6 / f64::from(2 * rounds))
}

#[expect(clippy::cast_precision_loss, reason = "2^53 bytes are more than there are")]
fn mb_s(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / 1e6 / seconds
}

fn fresh_mb_s(transport: Transport, bytes: usize) -> Result<f64> {
    let (one, other) = connected(transport)?;
    let seconds = both(
        move || {
            // Zeroed memory of this size is a mapping that nobody has touched.
            let mut place = vec![0; bytes];
            let start = Instant::now();
            stream(transport, one).read_exact(&mut place)?;
            Ok(start.elapsed().as_secs_f64())
        },
        move || {
            let (piece, mut out) = ([1; PIECE_BYTES], stream(transport, other));
            for _ in 0..bytes / PIECE_BYTES {
                out.write_all(&piece)?;
            }
            Ok(())
        },
    )?;
    Ok(mb_s(bytes, seconds))
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

fn stream(transport: Transport, socket: OwnedFd) -> Box<dyn Stream> {
    match transport {
        Transport::Unix => Box::new(UnixStream::from(socket)),
        Transport::Tcp => Box::new(TcpStream::from(socket)),
    }
}

fn requests_mb_s(transport: Transport, bytes: usize) -> Result<f64> {
    let (one, other) = connected(transport)?;
    let count = bytes / PIECE_BYTES;
    let seconds = both(
        move || {
            let start = Instant::now();
            Raw::of(WaitMode::Adaptive, one).ask(1, count, PIECE_BYTES)?;
            Ok(start.elapsed().as_secs_f64())
        },
        move || Raw::of(WaitMode::Adaptive, other).serve(count, PIECE_BYTES),
    )?;
    Ok(mb_s(bytes, seconds))
}

/// A page of this process, mapped for nothing but to be protected.
#[derive(Debug)]
struct Page(*mut core::ffi::c_void);

impl Page {
    fn new() -> Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place; `Drop` gives it back.
        let place = unsafe {
            mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE)
        }?;
        Ok(Self(place))
    }

    fn close_and_open(&self) -> Result<()> {
        for access in [MprotectFlags::empty(), MprotectFlags::READ | MprotectFlags::WRITE] {
            // SAFETY: the page is this object's, and nobody refers to its contents.
            unsafe { mprotect(self.0, PAGE_BYTES, access) }?;
        }
        Ok(())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and not used after.
        let _ = unsafe { munmap(self.0, PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_floor_can_be_measured_over_both_transports() {
        for transport in [Transport::Unix, Transport::Tcp] {
            for floor in [Floor::HandOver, Floor::Fresh, Floor::Requests] {
                assert!(floor.measure(transport, true).unwrap() > 0.0, "{floor:?}, {transport}");
            }
        }
    }
}
