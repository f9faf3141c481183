//! Taps: who is told of every frame on a link, whatever carries it and whatever is laid over that.
//!
//! A backend whose links have one ([`crate::link::Link::tap`]) sees frames where it is given bytes, which may be
//! encrypted, and of which the first are those of the handshake. Links without a tap cost the test of a flag.

use crate::frame_header::Header;

/// Who is told.
pub(crate) trait FrameTap {
    /// A frame of this node: it goes now or later, in this order; alone, in a batch, or merged into the one before it. The
    /// last one of a link is the goodbye. Under the lock of the peer, perhaps in a signal handler.
    fn sent(&self, header: &Header);

    /// A frame of the peer that makes sense, before it is delivered; by the thread that receives, perhaps in a signal
    /// handler. What came as a batch is told frame by frame.
    fn received(&self, header: &Header);
}
