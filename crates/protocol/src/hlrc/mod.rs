//! Home-based lazy release consistency with migratory home (ParADE section 3; after Zhou, Iftode
//! and Li).
//!
//! Every minipage has a home, whose contents are current as soon as a release has ended. A node
//! fetches the minipage whole from the home; what it writes it tells from a twin, and sends to the
//! home as a diff when a release leaves the node; the release waits for the home's
//! acknowledgement. So whoever acquires finds everything at home: it only has to forget the copies
//! that write notices name. The home itself writes in place.
//!
//! The home is where the minipage is written: it is the first to ask for one that its allocating
//! node left zero (first touch), and at a barrier that all threads of the job have come to it moves
//! to the only node that wrote the minipage since the last (ParADE's migratory home). All nodes
//! hear of a move with the barrier's release.

mod copy;
mod home;

pub use copy::{Copy, CopyEvent, Moves, Page, Wait};
pub use home::Home;

/// A home that barriers have moved so often has writers that change: it goes from hand to hand.
pub const DYNAMIC_AFTER: u8 = 2;
