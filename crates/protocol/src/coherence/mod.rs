//! Sequential consistency by single writer / multiple readers (Millipage 3.3, Figure 3).
//!
//! Two roles per minipage: every node is a [`Holder`]; one node keeps the directory [`Entry`] as
//! its manager. The manager serves one request at a time and queues competing ones, so a holder is
//! never asked for a minipage it is still acquiring or has given away (section 3.3).
//!
//! Beyond the paper: an upgrade moves no data; invalidations go to all readers at once; prefetch,
//! push and reclaim are transactions like any other.
//!
//! | file | part |
//! |---|---|
//! | `holder` | [`Holder`]: routes an event to its concern |
//! | `holder/access` | faults, prefetches and pushes of this node's threads |
//! | `holder/supply` | supplies that the manager orders |
//! | `holder/invalidate` | invalidations: its own, and those that it passes on by a tree |
//! | `holder/grant` | replies, the pins on a grant, the ack |
//! | `holder/reclaim` | a freed minipage comes back |
//! | `holder/state`, `event` | the states and events |
//! | `manager` | [`Entry`]: the transactions of the manager |

mod event;
mod holder;
mod manager;

pub use event::{AccessEvent, GrantEvent, HolderEvent, InvalidationEvent, SupplyEvent};
pub use holder::{Holder, Want};
pub use manager::{Entry, ManagerEvent};
