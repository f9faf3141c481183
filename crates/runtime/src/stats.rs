//! Counters of one node. They are exact: tests assert them.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_memory::Twins;
use multigrain_transport::Mesh;
use serde::Serialize;

use crate::state_tables::SharedTables;

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
    pub compute_ns: u64,
    pub fault_wait_ns: u64,
    pub lock_wait_ns: u64,
    pub barrier_wait_ns: u64,
    pub other_wait_ns: u64,
    pub rwlock_reads: u64,
    pub rwlock_writes: u64,
    pub sem_waits: u64,
    pub sem_posts: u64,
    pub cond_waits: u64,
    pub cond_signals: u64,
    pub racing_faults: u64,
}

/// What the runtime itself counts; the mesh counts frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    ReadFaults,
    WriteFaults,
    LocalFaults,
    PageBytesSent,
    Upgrades,
    Invalidations,
    Competing,
    Barriers,
    Locks,
    LockMessages,
    Minipages,
    SharedBytes,
    Views,
    Twins,
    DiffsSent,
    DiffBytesSent,
    Notices,
    /// Nanoseconds that threads were there which have ended.
    EndedThreads,
    /// Nanoseconds of waiting: for minipages, locks, barriers, and for anything else.
    FaultWait,
    LockWait,
    BarrierWait,
    OtherWait,
    ReadLocks,
    WriteLocks,
    SemaphoreWaits,
    SemaphorePosts,
    ConditionWaits,
    ConditionSignals,
    RacingFaults,
}

/// How many there are.
const COUNTS: usize = Count::RacingFaults as usize + 1;

/// The counters of a node.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    each: [AtomicU64; COUNTS],
    /// What is added to the shared bytes, and may be less than nothing, by threads that do not meet here.
    shared: [CacheLine; LINES],
}

/// Places where threads count by themselves.
const LINES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(128))]
struct CacheLine(AtomicU64);

impl Counters {
    pub(crate) fn add(&self, count: Count, more: u64) {
        self.each[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: Count, less: u64) {
        self.each[count as usize].fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn at_least(&self, count: Count, least: u64) {
        self.each[count as usize].fetch_max(least, Ordering::Relaxed);
    }

    /// More shared bytes, or less if it wraps around; `at` is any number that few threads have in common.
    pub(crate) fn add_shared(&self, at: usize, more: u64) {
        self.shared[at % LINES].0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, count: Count) -> u64 {
        let here = self.each[count as usize].load(Ordering::Relaxed);
        let lines: &[CacheLine] = if count == Count::SharedBytes { &self.shared } else { &[] };
        let there = lines.iter().map(|line| line.0.load(Ordering::Relaxed));
        there.fold(here, u64::wrapping_add)
    }
}

impl Stats {
    /// A node's counters now; its threads that have not ended are there since so many nanoseconds in sum.
    pub(crate) fn read(
        own: &Counters,
        mesh: &Mesh,
        tables: &SharedTables,
        twins: &Twins,
        living_ns: u64,
    ) -> Self {
        let frames = mesh.counters();
        let read = |count| own.read(count);
        let waits = [Count::FaultWait, Count::LockWait, Count::BarrierWait, Count::OtherWait];
        let waits = waits.map(read);
        let all_ns = read(Count::EndedThreads) + living_ns;
        let [fault_wait_ns, lock_wait_ns, barrier_wait_ns, other_wait_ns] = waits;
        Self {
            read_faults: read(Count::ReadFaults),
            write_faults: read(Count::WriteFaults),
            local_faults: read(Count::LocalFaults),
            messages_sent: frames.frames_sent,
            bytes_sent: frames.bytes_sent,
            messages_received: frames.frames_received,
            bytes_received: frames.bytes_received,
            page_bytes_sent: read(Count::PageBytesSent),
            upgrades: read(Count::Upgrades),
            invalidations: read(Count::Invalidations),
            competing: read(Count::Competing),
            barriers: read(Count::Barriers),
            locks: read(Count::Locks),
            lock_messages: read(Count::LockMessages),
            minipages: read(Count::Minipages),
            shared_bytes: read(Count::SharedBytes),
            views: read(Count::Views),
            twins: read(Count::Twins),
            twin_bytes: twins.bytes() as u64,
            diffs_sent: read(Count::DiffsSent),
            diff_bytes_sent: read(Count::DiffBytesSent),
            notices_sent: read(Count::Notices),
            notices_kept: tables.notices_kept() as u64,
            compute_ns: all_ns.saturating_sub(waits.iter().sum()),
            fault_wait_ns,
            lock_wait_ns,
            barrier_wait_ns,
            other_wait_ns,
            rwlock_reads: read(Count::ReadLocks),
            rwlock_writes: read(Count::WriteLocks),
            sem_waits: read(Count::SemaphoreWaits),
            sem_posts: read(Count::SemaphorePosts),
            cond_waits: read(Count::ConditionWaits),
            cond_signals: read(Count::ConditionSignals),
            racing_faults: read(Count::RacingFaults),
        }
    }
}
