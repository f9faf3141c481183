//! Synchronization engines: locks, barriers, counting semaphores, condition variables.
//!
//! Ids are any 32-bit numbers; an id is managed by node `id mod nodes`. Each engine has two roles
//! in one struct: the manager's, used on the managing node alone, and the node's own. States equal
//! to the first state are dropped from the tables, so ids cost nothing once they rest. Tokens of locks
//! stay where they were used last, but a node keeps [`IDLE_TOKENS`] of them at most.

mod barrier;
mod condition;
mod input;
mod lock;
mod semaphore;
mod site;
mod tables;
mod uses;

pub use barrier::Barrier;
pub use condition::Condition;
pub use input::{SyncError, SyncInput};
pub use lock::{LOCAL_HANDOVERS, Lock};
pub use semaphore::Semaphore;
pub use site::SyncSite;
pub use tables::{IDLE_TOKENS, SyncTables};
pub use uses::MOST_IDS;
