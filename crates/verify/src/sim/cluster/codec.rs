//! Frames as they go over a wire: every message passes through the real codec, to bytes and back.

use multigrain_protocol::{Attach, Message, Words};
use multigrain_transport::Header;
use multigrain_types::{MinipageId, NodeId};

use super::content::Content;

/// Kinds from here on are no messages of the protocol (as in the runtime).
pub(super) const FIRST_CONTROL: u8 = 64;

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The ends of the link it travels on.
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// Bytes behind the header.
    pub(super) payload: u64,
    header: [u8; Header::BYTES],
    /// Stands for the bytes of the minipage, if a page is attached.
    pub(super) page: Content,
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Message(Message),
    Control(Words),
}

impl Frame {
    pub(super) fn new(
        from: NodeId,
        to: NodeId,
        words: &Words,
        page: Option<(u64, Content)>,
    ) -> Self {
        let (payload, page) = page.unwrap_or((0, 0));
        let header = Header {
            kind: words.kind,
            flags: words.flags,
            from: from.0,
            thread: words.thread,
            subject: words.subject,
            value: words.value,
            extra: words.extra,
            payload,
        };
        Self { from, to, payload, header: header.encode(), page }
    }

    /// What is said.
    ///
    /// # Errors
    /// In words: what the codec refuses.
    pub(super) fn open(&self) -> Result<Said, String> {
        let header = Header::decode(&self.header).map_err(|error| error.to_string())?;
        let words = Words {
            kind: header.kind,
            flags: header.flags,
            thread: header.thread,
            subject: header.subject,
            value: header.value,
            extra: header.extra,
        };
        let said = if words.kind >= FIRST_CONTROL {
            Said::Control(words)
        } else {
            Said::Message(Message::from_words(&words).map_err(|error| error.to_string())?)
        };
        if header.from == self.from.0 && header.payload == self.payload {
            Ok(said)
        } else {
            Err(format!("{header:?} on a frame of {} with {} bytes", self.from, self.payload))
        }
    }

    /// The frame as numbers, as the run's fingerprint takes it in.
    pub(super) fn numbers(&self) -> [u64; 6] {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        [word(0), word(8), word(16), word(24), self.to.0.into(), self.page]
    }
}

impl Said {
    /// The minipage whose bytes are attached.
    pub(super) fn page(&self) -> Option<MinipageId> {
        match self {
            Self::Message(message @ Message::Page { minipage, .. })
                if message.attach() == Attach::Page =>
            {
                Some(*minipage)
            }
            Self::Message(_) | Self::Control(_) => None,
        }
    }
}
