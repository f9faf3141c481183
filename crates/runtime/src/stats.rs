//! Counters of one node. Counts do not lie: tests assert them.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_memory::Twins;
use multigrain_transport::Mesh;
use serde::Serialize;

use crate::tables::SharedTables;

/// A node's counters since it joined; the fields of `struct mg_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
#[expect(missing_docs, reason = "documented in multigrain.h, field by field")]
pub struct Stats {
    pub read_faults: u64,
    pub write_faults: u64,
    pub local_faults: u64,
    pub messages_sent: u64,
    pub bytes_sent: u64,
    pub messages_received: u64,
    pub bytes_received: u64,
    pub page_bytes_sent: u64,
    pub upgrades: u64,
    pub invalidations: u64,
    pub competing: u64,
    pub barriers: u64,
    pub locks: u64,
    pub lock_messages: u64,
    pub minipages: u64,
    pub shared_bytes: u64,
    pub views: u64,
    pub twins: u64,
    pub twin_bytes: u64,
    pub diffs_sent: u64,
    pub diff_bytes_sent: u64,
    pub notices_sent: u64,
    pub notices_kept: u64,
}

/// The counters the runtime itself keeps; the mesh keeps those of frames.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) read_faults: AtomicU64,
    pub(crate) write_faults: AtomicU64,
    pub(crate) local_faults: AtomicU64,
    pub(crate) page_bytes_sent: AtomicU64,
    pub(crate) upgrades: AtomicU64,
    pub(crate) invalidations: AtomicU64,
    pub(crate) competing: AtomicU64,
    pub(crate) barriers: AtomicU64,
    pub(crate) locks: AtomicU64,
    pub(crate) lock_messages: AtomicU64,
    pub(crate) minipages: AtomicU64,
    pub(crate) shared_bytes: AtomicU64,
    pub(crate) views: AtomicU64,
    pub(crate) twins: AtomicU64,
    pub(crate) diffs_sent: AtomicU64,
    pub(crate) diff_bytes_sent: AtomicU64,
    pub(crate) notices: AtomicU64,
}

impl Stats {
    /// A node's counters now.
    pub(crate) fn read(own: &Counters, mesh: &Mesh, tables: &SharedTables, twins: &Twins) -> Self {
        let frames = mesh.counters();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            read_faults: read(&own.read_faults),
            write_faults: read(&own.write_faults),
            local_faults: read(&own.local_faults),
            messages_sent: frames.frames_sent,
            bytes_sent: frames.bytes_sent,
            messages_received: frames.frames_received,
            bytes_received: frames.bytes_received,
            page_bytes_sent: read(&own.page_bytes_sent),
            upgrades: read(&own.upgrades),
            invalidations: read(&own.invalidations),
            competing: read(&own.competing),
            barriers: read(&own.barriers),
            locks: read(&own.locks),
            lock_messages: read(&own.lock_messages),
            minipages: read(&own.minipages),
            shared_bytes: read(&own.shared_bytes),
            views: read(&own.views),
            twins: read(&own.twins),
            twin_bytes: twins.bytes() as u64,
            diffs_sent: read(&own.diffs_sent),
            diff_bytes_sent: read(&own.diff_bytes_sent),
            notices_sent: read(&own.notices),
            notices_kept: tables.notices_kept() as u64,
        }
    }
}
