//! The target of the fuzzers (fuzz/): one real node, with real memory and tables, whose peers are the fuzzer.
//! Where a node would end its process, this unwinds instead, so that the fuzzer can go on.
#![expect(unsafe_code, reason = "a thread of the victim writes to its page")]

use core::cell::Cell;
use core::fmt;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use multigrain_memory::{Area, GuardChoice, Memory, Shape, VIEW_ALIGN, VIEWS_BASE};
use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{Input, Kind};
use multigrain_transport::fuzzing::{Stream, mesh_without_peers};
use multigrain_transport::{Header, LostReason, Sink};
use multigrain_types::{
    AreaId, Compression, Consistency, MinipageId, NodeId, PAGE_BYTES, Placement, ThreadId,
};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

use crate::area::{AreaRecord, Items, Origin};
use crate::compression::Coder;
use crate::config::Config;
use crate::driver::sink::NodeSink;
use crate::job::Runtime;

/// Nodes of the victim's job.
pub const NODES: u16 = 3;
/// Sequential areas the victim knows, the first its own, the second of another node.
pub const AREAS: u32 = 2;
/// Release consistent areas behind them: eager, lazy and auto, one of each its own and one not.
pub const RELAXED: u32 = 6;
/// Minipages of each of them, at least.
pub const MINIPAGES: u32 = 2;

const SHARED_BYTES: u64 = 1 << 20;
/// The launcher drops a longer line.
const LINE_BYTES: usize = 1 << 18;

/// The exit status of a node that ended; travels instead of a panic.
struct Exit(i32);

std::thread_local! {
    /// Whether this thread drives a victim just now, and not a node of a job.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// Ends a node as `_exit` would, up to where the fuzzer stands.
pub(crate) fn exit(status: i32) {
    if DRIVES.get() {
        resume_unwind(Box::new(Exit(status)))
    }
}

/// A node that is given what a hostile peer may send.
pub struct Victim {
    runtime: Runtime,
    /// The node's end of the control channel, and the launcher's.
    mouth: BorrowedFd<'static>,
    ear: OwnedFd,
}

impl fmt::Debug for Victim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Victim({})", self.runtime.rank())
    }
}

/// How a node took what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on.
    Alive,
    /// It ended, with this status and this one line to the launcher.
    Ended(i32, String),
}

impl Victim {
    /// Node `rank` of [`NODES`], with two areas.
    ///
    /// # Panics
    /// When the machine does not give what a node needs.
    #[must_use]
    pub fn new(rank: NodeId, placement: Placement) -> Self {
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
        let pair = socketpair(family, SocketType::STREAM, flags, None);
        let (mouth, ear) = pair.expect("a pair of sockets");
        let mut memory = multigrain_memory::Config::new(SHARED_BYTES, GuardChoice::Mprotect);
        memory.policy.placement = Some(placement);
        let memory = Memory::new(&memory).expect("shared memory");
        let config = Config { rank, ..Config::single() };
        let mouth = leak(mouth);
        let mesh = mesh_without_peers(rank, NODES);
        let victim = Self {
            runtime: Runtime::assemble(&config, NODES, memory, mesh, Some(mouth)).expect("a timer"),
            mouth,
            ear,
        };
        let own = Shape::Sub { slot: 1024, per_page: 4 };
        let other = NodeId((rank.0 + 1) % NODES);
        let pages = Shape::Pages { pages: 1 };
        victim.map(0, rank, own, Consistency::Sequential);
        victim.map(1, other, pages, Consistency::Sequential);
        let relaxed = Consistency::ALL.into_iter().filter(|&each| each != Consistency::Sequential);
        for (id, consistency) in (AREAS..).step_by(2).zip(relaxed) {
            victim.map(id, rank, own, consistency);
            victim.map(id + 1, other, pages, consistency);
        }
        victim
    }

    fn map(&self, id: u32, owner: NodeId, shape: Shape, consistency: Consistency) {
        let bytes = 2 * PAGE_BYTES as u64;
        let place = usize::try_from(id).unwrap_or(0);
        let base = VIEWS_BASE + place * VIEW_ALIGN;
        let area = Area { id: AreaId(id), base, file_offset: u64::from(id) * bytes, bytes, shape };
        let items = Items { bytes: 8, count: u64::from(MINIPAGES), chunk: 1, array: false };
        let record = AreaRecord { area, owner, items, consistency, origin: Origin::Heap };
        assert_eq!(self.runtime.adopt(record), 0, "{record:?}");
    }

    /// A thread of the victim itself faults on a minipage, wants it ahead, frees or resumes it.
    pub fn act(&mut self, deed: u8, minipage: MinipageId) -> Outcome {
        let kind = if deed & 1 == 0 { Kind::Read } else { Kind::Write };
        let thread = ThreadId(u32::from(deed >> 4));
        let input = match deed / 2 % 7 {
            0 => Input::Fault { thread, minipage, kind },
            1 => Input::Prefetch { minipage, kind },
            2 => Input::Push { minipage },
            3 => Input::Resumed { thread, minipage },
            4 => Input::PinnedRetry { thread, minipage, kind },
            5 => Input::Retired { thread, minipage, turn_us: 0 },
            _ => Input::Reclaim { minipage },
        };
        self.live(|runtime| runtime.driver.engine().step_sure(input))
    }

    /// A thread of the victim writes the first byte of an area that it may write.
    pub fn write(&mut self, area: AreaId) {
        let place = usize::try_from(area.0).unwrap_or(0);
        let at = std::ptr::with_exposed_provenance_mut::<u8>(VIEWS_BASE + place * VIEW_ALIGN);
        // SAFETY: the view is mapped as long as the victim lives, and nobody else has its address.
        unsafe { at.write_volatile(1) };
    }

    /// A thread of the victim synchronizes, or this node tells or is told by other means. What a
    /// program must not do is refused, and changes nothing.
    pub fn synchronize(&mut self, deed: u8, id: u8) -> Outcome {
        let (thread, small) = (ThreadId(u32::from(deed >> 4)), u64::from(id & 3));
        let input = match deed % 8 {
            0 => Input::Release { thread },
            1 => Input::Acquire,
            2 => Input::Notify { node: NodeId(u16::from(id) % NODES) },
            3 => Input::Sync(SyncInput::Lock { thread, id: small }),
            4 if id & 4 != 0 => Input::Sync(SyncInput::LockWindowOver { id: small }),
            4 if id & 8 != 0 => Input::Sync(SyncInput::UnlockToReacquire {
                thread,
                id: small,
                at_once: id & 16 != 0,
            }),
            4 => Input::Sync(SyncInput::Unlock { thread, id: small }),
            5 => Input::Sync(SyncInput::SemaphorePost { id: small, count: 1 }),
            6 => Input::Sync(SyncInput::SemaphoreWait { thread, id: small }),
            _ => {
                let (total, quiescent) = (u32::from(id >> 4), id & 4 != 0);
                Input::Sync(SyncInput::Barrier { thread, id: small, local: 1, total, quiescent })
            }
        };
        self.live(|runtime| {
            let _ = runtime.driver.step(input);
        })
    }

    /// A frame of the runtime's own from a peer, its body complete.
    pub fn request(&mut self, from: NodeId, header: &Header, body: &[u8]) -> Outcome {
        let header = Header { from: from.0, payload: body.len() as u64, ..*header };
        self.live(|runtime| {
            let mut sink = NodeSink::new(&runtime.driver);
            if let Err(why) = sink.frame(from, &header, Some(body)) {
                sink.lost(from, LostReason::Violation(why));
            }
        })
    }

    /// Bytes on the link from a peer, in pieces of `cut` bytes.
    pub fn receive(
        &mut self,
        from: NodeId,
        link: &mut Stream,
        bytes: &[u8],
        cut: impl FnMut() -> usize,
    ) -> Outcome {
        self.live(|runtime| {
            let mut sink = NodeSink::new(&runtime.driver);
            if let Err(reason) = link.feed(bytes, cut, &mut sink) {
                sink.lost(from, reason);
            }
        })
    }

    fn live(&mut self, deed: impl FnOnce(&Runtime)) -> Outcome {
        DRIVES.set(true);
        let lived = catch_unwind(AssertUnwindSafe(|| deed(&self.runtime)));
        DRIVES.set(false);
        let said = self.said();
        match lived {
            Ok(()) => {
                assert_eq!(said, "", "a node that goes on has nothing to complain of");
                Outcome::Alive
            }
            Err(payload) => match payload.downcast::<Exit>() {
                Ok(exit) => {
                    assert_eq!(said.matches('\n').count(), 1, "one line for one end: {said:?}");
                    assert!(said.ends_with('\n') && said.len() < LINE_BYTES, "{said:?}");
                    Outcome::Ended(exit.0, said)
                }
                Err(panic) => resume_unwind(panic),
            },
        }
    }

    /// What the launcher has been told.
    fn said(&self) -> String {
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        while let Ok((bytes, _)) = rustix::net::recv(&self.ear, &mut piece, RecvFlags::DONTWAIT)
            && bytes > 0
        {
            all.extend_from_slice(&piece[..bytes]);
        }
        String::from_utf8(all).expect("lines for the launcher are text")
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        close(self.mouth);
    }
}

/// The codecs of contents, as a node has them.
#[derive(Debug)]
pub struct Codecs(Coder);

impl Codecs {
    /// All of them.
    ///
    /// # Panics
    /// Without memory.
    #[must_use]
    pub fn new() -> Self {
        let mut coder = Coder::new();
        assert!(coder.prepare(Compression::Zstd), "memory for a context");
        Self(coder)
    }

    /// Contents of up to 256 KiB, encoded.
    ///
    /// # Panics
    /// For longer ones.
    pub fn encode(&mut self, codec: Compression, contents: &[u8]) -> Option<&[u8]> {
        self.0.contents()[..contents.len()].copy_from_slice(contents);
        self.0.encode(codec, contents.len())
    }

    /// So many bytes of contents, from what a peer may have sent.
    pub fn decode(&mut self, codec: Compression, packed: &[u8], bytes: usize) -> Option<&[u8]> {
        self.0.decode(codec, packed, bytes)
    }
}

impl Default for Codecs {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(unsafe_code, reason = "a runtime keeps its control channel for the life of the process")]
fn leak(mouth: OwnedFd) -> BorrowedFd<'static> {
    // SAFETY: open until the victim that holds it is dropped.
    unsafe { BorrowedFd::borrow_raw(mouth.into_raw_fd()) }
}

#[expect(unsafe_code, reason = "takes back what leak() gave")]
fn close(control: BorrowedFd<'static>) {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: leak() gave up the ownership, and nobody uses the descriptor any more.
    drop(unsafe { OwnedFd::from_raw_fd(control.as_raw_fd()) });
}
