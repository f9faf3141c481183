//! Release consistency of a whole node: what it must send before a release leaves it, and what it has
//! to invalidate before an acquire ends.
//!
//! | file | part |
//! |---|---|
//! | `tracker` | [`ReleaseTracker`]: the delayed update queue, flushes, and what waits for them |
//! | `interval_log` | [`IntervalLog`]: vector time and write notices of lazy release consistency |
//! | `writer_log` | the writes of one node, by interval |
//! | `write_notice_encoding` | [`WriteNotices`]: a batch of write notices, and its bytes |
//!
//! The delayed update queue (MGS 3.2.2) is one for all threads of the node: they share a page table, so
//! no trap shows which of them wrote. The vector time is over nodes, not threads, so that threads of
//! one node never invalidate each other.

mod interval_log;
mod tracker;
mod write_notice_encoding;
mod writer_log;

pub use interval_log::IntervalLog;
pub use tracker::{Ready, ReleaseTracker};
pub use write_notice_encoding::{WriteNotice, WriteNotices, WriteNoticesError};

pub use crate::migration::MigrationPlan;
