//! What a node's end says to its launcher, which judges by it: exit codes, and the words with which its lines begin.
//!
//! Role: one place for both sides. [`crate::deadlock::DEADLOCKED`] is the launcher's own code.

/// Exit code of a node that failed by itself (EX_SOFTWARE).
pub const EXIT_FATAL: i32 = 70;

/// Exit code of a node that ends because it lost a peer (EX_TEMPFAIL): a consequence, the launcher looks for the cause.
pub const EXIT_PEER_LOST: i32 = 75;

/// How a node begins that cuts a peer off for what it sent.
pub const BROKE_PROTOCOL: &str = "broke the protocol";

/// Why a connection was refused that may be one of a node of the job: a node that died, or whose host is cut off.
pub const CUT_IN_HANDSHAKE: &str = "it hung up in the middle of the handshake";

/// The same, of one that is silent.
pub const SILENT_IN_HANDSHAKE: &str = "it did not finish the handshake in time";
