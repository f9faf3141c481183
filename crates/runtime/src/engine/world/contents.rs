//! Sending the contents of minipages.

#![expect(unsafe_code, reason = "page bytes are sent straight from the privileged view")]

use multigrain_protocol::send_timing::MAX_BATCHED_BACKLOG;
use multigrain_protocol::{Attach, Message};
use multigrain_transport::{Header, Payload};
use multigrain_types::{MinipageId, NodeId};

use super::RealWorld;
use crate::compression::SegmentContents;
use crate::frames::COMPRESSED;
use crate::minipage_run::Run;
use crate::platform::Contents;
use crate::stats::Count;

impl RealWorld<'_> {
    /// Whether all bytes of a minipage are zero, which are not sent then.
    pub(super) fn is_zero(&self, minipage: MinipageId) -> bool {
        let (page, len) = self.platform().memory().privileged(minipage);
        // SAFETY: the privileged view is readable for the length of the minipage.
        unsafe { is_zero(page, len) }
    }

    /// A frame with the contents of minipages.
    pub(super) fn send_contents(&self, to: NodeId, header: Header, run: Option<Run>) {
        let platform = self.platform();
        let Some(run) = run else { return platform.send_frame(to, header, Payload::None) };
        let contents = platform.contents(run);
        let segment = platform.tables().contents(run.first().area());
        if let Some(segment) = segment {
            if self.send_compressed(to, header, (run, contents.bytes()), segment) {
                return;
            }
            segment.note_sent(contents.bytes(), contents.bytes());
        }
        platform.counters().add(Count::PageBytesSent, contents.bytes() as u64);
        // Sequential: the bytes stay unchanged until the requester's ack closes the transaction: this
        // node is ReadOnly or NoAccess now and nobody else is served before that. Release consistent:
        // what changes meanwhile was not released to the requester, which does not look at it.
        match contents {
            Contents::Together(ptr, len) => {
                platform.send_frame(to, header, Payload::Memory { ptr, len });
            }
            Contents::Apart(len) => {
                let mut all = Vec::with_capacity(len);
                for minipage in run.minipages() {
                    let (ptr, len) = platform.memory().privileged(minipage);
                    // SAFETY: the privileged view is readable for the length of the minipage.
                    unsafe { append(ptr, len, &mut all) };
                }
                platform.send_frame(to, header, Payload::Owned(all));
            }
        }
    }

    /// A frame of a batch about minipages, with their contents if the message has any.
    pub(super) fn batch_contents(&self, to: NodeId, header: Header, message: Message, run: Run) {
        let platform = self.platform();
        platform.defer_with(to, header, |out| {
            if message.attach() != Attach::Page {
                return;
            }
            for minipage in run.minipages() {
                let (ptr, len) = platform.memory().privileged(minipage);
                platform.counters().add(Count::PageBytesSent, len as u64);
                // SAFETY: the privileged view is readable for the length of the minipage.
                unsafe { append(ptr, len, out) };
            }
        });
    }

    /// The same, compressed, if that is worth an attempt and works; whether they have gone.
    fn send_compressed(
        &self,
        to: NodeId,
        header: Header,
        (run, bytes): (Run, usize),
        segment: &SegmentContents,
    ) -> bool {
        let platform = self.platform();
        // What goes compressed is copied if it has to wait: not without end.
        if platform.mesh().waiting_bytes(to) > MAX_BATCHED_BACKLOG || !segment.tries(run, bytes) {
            return false;
        }
        let mut coder = platform.coders().lend();
        let mut room = &mut *coder.contents();
        for minipage in run.minipages() {
            let (ptr, len) = platform.memory().privileged(minipage);
            let Some(place) = room.split_off_mut(..len) else { return false };
            // SAFETY: the privileged view is readable for the length of the minipage.
            unsafe { core::ptr::copy_nonoverlapping(ptr, place.as_mut_ptr(), len) };
        }
        let packed = coder.encode(segment.codec(), bytes);
        segment.note_attempt(run, packed.is_some());
        let Some(packed) = packed else { return false };
        segment.note_sent(bytes, packed.len());
        platform.counters().add(Count::PageBytesSent, packed.len() as u64);
        let header = Header { flags: header.flags | COMPRESSED, ..header };
        platform.send_frame(to, header, Payload::Bytes(packed));
        true
    }
}

/// Appends a minipage as it is now; threads may write it meanwhile.
///
/// # Safety
/// `page` is readable for `len` bytes.
pub(super) unsafe fn append(page: *const u8, len: usize, out: &mut Vec<u8>) {
    out.reserve(len);
    let room = out.spare_capacity_mut();
    // SAFETY: `page` is readable as the caller says, and there is room for `len` bytes.
    unsafe { core::ptr::copy_nonoverlapping(page, room.as_mut_ptr().cast::<u8>(), len) };
    let whole = out.len() + len;
    // SAFETY: these bytes have just been written.
    unsafe { out.set_len(whole) };
}

/// Whether all bytes of a minipage are zero; threads may write it meanwhile.
///
/// # Safety
/// `page` is readable for `len` bytes.
pub(super) unsafe fn is_zero(page: *const u8, len: usize) -> bool {
    // Minipages begin at multiples of 4.
    let words = page.cast::<u32>();
    let all = (0..len / 4).all(|index| {
        // SAFETY: every word lies in the length for which the caller promises that.
        unsafe { words.wrapping_add(index).read_volatile() == 0 }
    });
    // SAFETY: as above.
    all && (len & !3..len).all(|index| unsafe { page.wrapping_add(index).read_volatile() } == 0)
}
