//! One node of the protocol: routes inputs to the engines and applies their effects.
//!
//! | file | part |
//! |---|---|
//! | `input` | [`Input`], [`Violation`] |
//! | `step` | [`Node::step`]: an input, and the messages of the node to itself that it leads to |
//! | `dispatch` | an event of a minipage to its engine: `sequential`, `eager`, `lazy` |
//! | `apply` | what an engine wants done |
//! | `sync_effects` | synchronization messages, behind what they release |
//! | `flush` | a flush, and an acquire |
//! | `migrate` | homes migrate at a quiescent barrier |
//! | `state_tables` | where states are kept; `owned_state_tables`: in plain maps |
//! | `refusal` | why an event is refused |

mod apply;
mod dispatch;
mod flush;
mod input;
mod migrate;
mod owned_state_tables;
mod refusal;
mod state_tables;
mod step;
mod sync_effects;

pub use input::{Input, Violation};
pub use owned_state_tables::{OwnedCell, OwnedTables};
pub use state_tables::{Cell, SyncCell, Tables};
pub use step::Node;
