//! Eager release consistency: MGS section 3.2, Appendix A, Figure 22. Node 0 is the home unless a
//! test says otherwise.

mod faults;
// The table, whose rows are marked in builds with debug assertions alone.
#[cfg(debug_assertions)]
mod figure_22;
mod races;
mod refusals;
mod releases;
#[cfg(debug_assertions)]
mod table;

use multigrain_protocol::Kind;
#[cfg(debug_assertions)]
use multigrain_protocol::mgs::row_coverage;
use multigrain_types::Consistency;

use crate::cluster::Cluster;

/// A cluster with home 0, whose copy of the allocating node is the home's own.
fn eager(nodes: u16) -> Cluster {
    Cluster::of(Consistency::EagerRelease, nodes, 0, 0)
}

/// The same, and these nodes have read and then those have written. The rows that this takes do not
/// count as reached.
fn shared(nodes: u16, readers: &[u16], writers: &[u16]) -> Cluster {
    let mut cluster = eager(nodes);
    readers.iter().for_each(|&reader| cluster.access(reader, Kind::Read));
    writers.iter().for_each(|&writer| cluster.access(writer, Kind::Write));
    #[cfg(debug_assertions)]
    drop(row_coverage::take_reached());
    cluster
}
