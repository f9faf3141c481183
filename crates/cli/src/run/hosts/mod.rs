//! A job on many hosts: one agent a host, started by the user's own ssh, between the launcher and the nodes there.
//!
//! | file | part |
//! |---|---|
//! | `frame`, `channel` | what launcher and agent say to each other, and how they notice that the other is gone |
//! | `builds` | whether all hosts have the same program |
//! | `agent/` | the agent |
//! | `contact`, `agents` | the launcher's end of one of them, and of all |
//! | `start` | from the list to nodes that run |

mod agent;
mod agents;
mod builds;
mod channel;
mod contact;
mod frame;
mod start;

pub(crate) use agent::serve;
pub(super) use agents::Agents;
pub(super) use channel::PATIENCE;
pub(super) use frame::{Order, Stream, Word};
pub(super) use start::Start;
