//! What a job and a node have at most.
//!
//! Role: one place for the bounds that several layers rely on. The bounds and defaults of settings are beside the settings:
//! `runtime/src/config/limits.rs`.

/// Nodes of a job that the launcher starts: as many as are measured (docs/PERFORMANCE.md). The runtime takes as many as
/// ranks can number, for a process manager may start more.
pub const MAX_NODES: u32 = 1024;

/// Threads of a node: those that can wait at the same time, and so those of which a peer hears.
pub const MAX_THREADS: u32 = 4096;

/// Threads of a node beside those of the program, at most: five from the beginning, one that makes links in large jobs, one
/// for deadlines, and one where the main thread ends first (`runtime/src/job/helpers.rs`, `deadlines.rs`, `job/main_exit.rs`).
pub const MAX_HELPERS: u32 = 8;
