//! A job on many hosts: one agent a host, started by the user's own ssh, between the launcher and the nodes there.
//!
//! | file | part |
//! |---|---|
//! | `messages`, `frame`, `channel` | the messages between launcher and agent, and their bytes |
//! | `failure_detector` | how each end notices that the other is gone |
//! | `builds` | whether all hosts have the same program |
//! | `agent/` | the agent |
//! | `agent_handle`, `agents` | the launcher's end of one of them, and of all |
//! | `remote_shell` | starts an agent on every host, by ssh, srun or a command of the user's |
//! | `sweep` | ends what an agent has left that was killed together with its watchdog |
//! | `start` | from the list of hosts to running nodes |
//! | `examine`, `reachability` | all hosts are examined, and what leads from one to the other, and nothing is run (`doctor`) |

mod agent;
mod agent_handle;
mod agents;
mod builds;
mod channel;
mod examine;
mod failure_detector;
mod frame;

mod messages;
mod reachability;
mod remote_shell;
mod start;
mod sweep;

pub(crate) use agent::serve;
pub(super) use agents::Agents;
pub(crate) use builds::own as build;
pub(super) use examine::{Findings, examine};
pub(super) use messages::{AgentEvent, Request, Stream};
pub(super) use remote_shell::LaunchContext;
pub(super) use start::Start;
