//! A packet: what one node sends another at once.

use multigrain_protocol::Message;
use multigrain_protocol::release::WriteNotices;
use multigrain_protocol::sync::Operand;

use super::program::{Value, WORDS, Words};

/// What was written to a minipage, word by word.
pub type Diff = [Option<Value>; WORDS];

/// What travels between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    /// A message, with the contents at the time of sending.
    Message {
        /// The message.
        message: Message,
        /// The minipage, if it goes with the message.
        page: Option<Words>,
        /// What was written, if that goes with the message.
        diff: Option<Diff>,
    },
    /// What the next message of a collective operation brings or takes.
    Operand(u64, Operand),
    /// What the sender knows of writes.
    WriteNotices(WriteNotices),
    /// A program's own means of telling.
    Notified(u32),
    /// Start this thread.
    Start(u8),
    /// It runs.
    Started(u8),
    /// Say when this thread has ended.
    Join(u8),
    /// It has.
    Ended(u8),
}
