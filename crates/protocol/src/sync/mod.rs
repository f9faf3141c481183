//! Synchronization engines: locks, barriers and collective operations, counting semaphores, condition variables, read-write locks.
//!
//! Ids are numbers of 32 bits, managed by node `id mod nodes`, or addresses of shared memory, which are above. Each engine has two roles
//! in one struct: the manager's, used on the managing node alone, and the node's own. States equal
//! to the first state are dropped from the tables, so ids cost nothing once they rest. Tokens of locks
//! stay where they were used last, but a node keeps [`IDLE_TOKENS`] of them at most.

mod barrier;
mod barrier_arrivals;
mod collective;
mod condition;
mod context;
mod input;
mod lock;
mod operand;
mod read_write;
mod semaphore;
mod small_map;
mod tables;

pub use barrier::Barrier;
pub use condition::Condition;
pub use context::SyncContext;
pub use input::{SyncError, SyncInput, Withdrawable};
pub use lock::{LOCAL_HANDOVERS, LOCAL_RETURNS, Lock, RETURNS};
pub use multigrain_types::sync_id::{COLLECTIVE, IdName, ONCE, WHOLE};
pub use operand::{
    Element, MOST_OPERAND_BYTES, MOST_SHARE_BYTES, Operand, OperandError, Operation, Shape,
};
pub use read_write::ReadWrite;
pub use semaphore::Semaphore;
pub(crate) use tables::Collected;
pub use tables::{IDLE_TOKENS, MOST_IDS, SyncTables};
