//! Table 5.

use super::{Word, word};
use multigrain_protocol::MgsMessage as W;

pub(super) const WORDS: &[Word] = &[
    word(
        "UPGRADE",
        "local client => remote client",
        "Upgrade Local Page from Read to Write Privilege",
        Err("a change of protection under the minipage's lock"),
    ),
    word(
        "UP_ACK",
        "remote client => local client",
        "Acknowledge Upgrade",
        Err("the return of that call"),
    ),
    word(
        "PINV",
        "remote client => local client",
        "Invalidate TLB Entry",
        Err("a change of protection; the kernel interrupts the cores"),
    ),
    word(
        "PINV_ACK",
        "local client => remote client",
        "Acknowledge TLB Invalidation",
        Err("the return of that call"),
    ),
    word(
        "P2INV",
        "remote client => local client",
        "Invalidate DUQ Entry",
        Err("one queue for all threads of the node"),
    ),
    word(
        "P2INV_ACK",
        "local client => remote client",
        "Acknowledge DUQ Invalidation",
        Err("one queue for all threads of the node"),
    ),
    word("RREQ", "local client => server", "Read Data Request", Ok(W::ReadRequest)),
    word("WREQ", "local client => server", "Write Data Request", Ok(W::WriteRequest)),
    word("REL", "local client => server", "Release Request", Ok(W::Release)),
    word("RDAT", "server => local client", "Read Data", Ok(W::ReadData)),
    word("WDAT", "server => local client", "Write Data", Ok(W::WriteData)),
    word("RACK", "server => local client", "Acknowledge Release", Ok(W::ReleaseAck)),
    word("ACK", "remote client => server", "Acknowledge Read Invalidate", Ok(W::Ack)),
    word(
        "DIFF",
        "remote client => server",
        "Acknowledge Write Invalidate and Return Diff",
        Ok(W::Diff),
    ),
    word(
        "1WDATA",
        "remote client => server",
        "Acknowledge Single Writer Invalidate and Return Data",
        Ok(W::SingleWriterData),
    ),
    word(
        "WNOTIFY",
        "remote client => server",
        "Notify Upgrade from Read to Write Privilege",
        Ok(W::WriteNotify),
    ),
    word(
        "ACK1W",
        "remote client => server",
        "Acknowledge Single Writer Status",
        Ok(W::SingleWriterAck),
    ),
    word("INV", "server => remote client", "Invalidate Page", Ok(W::Invalidate)),
    word(
        "1WINV",
        "server => remote client",
        "Invalidate Single-Writer Page",
        Ok(W::SingleWriterInvalidate),
    ),
    word("1WGR", "server => remote client", "Grant Single-Writer Status", Ok(W::SingleWriterGrant)),
];
