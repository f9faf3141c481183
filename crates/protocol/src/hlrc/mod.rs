//! Home-based lazy release consistency with migratory home (ParADE section 3; after Zhou, Iftode
//! and Li).
//!
//! Every minipage has a home, whose contents are current as soon as a release has ended. A node
//! fetches the minipage whole from the home. It finds its own writes by comparison with a twin, and
//! sends them to the home as a diff when a release leaves the node; the release waits for the home's
//! acknowledgement. So an acquire only has to invalidate the copies that write notices name: the home has the
//! current contents. The home itself writes in place.
//!
//! The home is where the minipage is written. The first node to ask for a minipage that its allocating
//! node left zero becomes the home (first touch), and at a barrier of all threads of the job the home migrates
//! to the only node that wrote the minipage since the last one (ParADE's migratory home). All nodes
//! receive the migration plan with the barrier's release ([`crate::migration`]).
//!
//! | file | part |
//! |---|---|
//! | `copy` | [`Copy`]: routes an event to its concern |
//! | `copy/access` | faults and prefetches of this node's threads |
//! | `copy/fetch` | fetches that are served, and contents that arrive |
//! | `copy/diffs` | releases, diffs and their acknowledgements |
//! | `copy/notice` | write notices: invalidation |
//! | `copy/migrate` | the home migrates at a barrier |
//! | `copy/dynamic_home` | dynamic homes: what is sent to the former home |
//! | `state`, `event` | the states and events; `send`: the messages |
//!
//! Each concern has a table for the home and one for a copy away from it, one row an arc.

mod copy;
mod event;
mod send;
mod state;

pub use event::{AccessEvent, CopyEvent, FetchEvent, FlushEvent};
pub use state::{Away, Copy, Home, HomeMoves, OpenRequest, Page};
