//! Projections: estimated run times of the applications on clusters that do not exist here.
//!
//! Role: the sharing patterns of `apps/` as small access programs ([`apps`]), run by the real
//! engines on the simulator's cluster. Messages, bytes and faults are counted, not estimated; only
//! time is modelled, by the few [`Costs`] that `multigrain bench costs` measures.
//!
//! | file | part |
//! |---|---|
//! | `apps/` | a pattern an application: which minipages each node touches, in which order |
//! | `step` | the operations of an access program |
//! | `machine` | the cost model: frames, traps, wake-ups |
//! | `cores` | computing, and nodes that share the cores of a host |
//! | `run` | the programs on the cluster; rounds beyond the simulated ones are added in proportion |
//!
//! Left out: what a node fetches ahead from its access history (`--learn off`), caches (an element costs the same
//! whatever fits), switches without enough bandwidth, several threads a node.

pub mod apps;
mod cores;
mod machine;
mod run;
mod step;

pub use cores::Hosts;
pub use machine::Costs;
pub use run::{Plan, Projection, project};
pub use step::{Pattern, Place, Program, Step, work};
