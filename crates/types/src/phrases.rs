//! Phrases of a node's lines by which its launcher knows what has happened: one place for both sides.

/// How a node begins that cuts a peer off for what it sent.
pub const BROKE_PROTOCOL: &str = "broke the protocol";

/// The same of one that uses more of another node than it may: by calls of its program, which are correct by themselves, or by
/// more waiting threads than a node has.
pub const BEYOND_LIMIT: &str = "went beyond a limit";

/// How a node begins to which not all have connected in time: it knows less than one that could not connect.
pub const NOT_ALL_CAME: &str = "not all nodes came up";

/// Why a connection was refused that may be one of a node of the job: a node that died, or whose host is cut off.
pub const CUT_IN_HANDSHAKE: &str = "it hung up in the middle of the handshake";

/// The same, of one that is silent.
pub const SILENT_IN_HANDSHAKE: &str = "it did not finish the handshake in time";

/// How a node begins that sees that a check for races had nothing to look at.
pub const NO_RACES_CHECKED: &str = "--check-races has found nothing to check";

/// Why a node ends whose program has closed file descriptors of the library behind its back. Where the way to the launcher is one
/// of them, only the launcher can say so.
pub const CLOSED_DESCRIPTORS: &str = "the program has closed file descriptors of the library: it may close only those that it has \
                                      opened, and not all from 3 on (closefrom, os.closerange)";
