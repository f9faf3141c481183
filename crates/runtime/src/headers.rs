//! Messages of the protocol in frame headers of the transport, neither of which knows the other.

use multigrain_protocol::{Message, Words};
use multigrain_transport::Header;

/// The frame header that carries a message; the mesh adds sender and payload length.
pub(crate) fn header_of(message: Message) -> Header {
    let words = message.to_words();
    Header {
        kind: words.kind,
        flags: words.flags,
        from: 0,
        thread: words.thread,
        subject: words.subject,
        value: words.value,
        extra: words.extra,
        payload: 0,
    }
}

/// What of a header is the message's.
pub(crate) fn words_of(header: &Header) -> Words {
    Words {
        kind: header.kind,
        flags: header.flags,
        thread: header.thread,
        subject: header.subject,
        value: header.value,
        extra: header.extra,
    }
}
