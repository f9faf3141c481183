//! Home-based lazy release consistency. Node 0 has allocated the minipage.

mod ahead;
mod counted_barriers;
mod dynamic;
mod forwarding;
mod homes;
mod notices;
mod refusals;
mod tracked;

use multigrain_protocol::Kind;
use multigrain_protocol::sync::SyncInput;
use multigrain_types::{Consistency, ThreadId};

use crate::cluster::Cluster;

fn lazy(nodes: u16) -> Cluster {
    Cluster::of(Consistency::LazyRelease, nodes, 0, 0)
}

/// The same, and these nodes have fetched a copy of what is not zero.
fn read_by(nodes: u16, readers: &[u16]) -> Cluster {
    let mut cluster = lazy(nodes);
    readers.iter().for_each(|&reader| cluster.access(reader, Kind::Read));
    cluster
}

/// The same, and homes are dynamic at once.
fn dynamic(nodes: u16, readers: &[u16]) -> Cluster {
    let mut cluster = Cluster::dynamic(nodes, 0);
    readers.iter().for_each(|&reader| cluster.access(reader, Kind::Read));
    cluster
}

/// The one thread of every node comes to a barrier, and no other runs.
fn quiescent_barrier(cluster: &mut Cluster, nodes: u16) {
    for node in 0..nodes {
        come(cluster, node, nodes);
    }
    cluster.settle();
}

fn come(cluster: &mut Cluster, node: u16, nodes: u16) {
    come_to(cluster, 0, node, nodes);
}

/// A barrier has the number of its manager.
fn come_to(cluster: &mut Cluster, id: u64, node: u16, nodes: u16) {
    let thread = ThreadId(node.into());
    let total = nodes.into();
    cluster.call(node, SyncInput::Barrier { thread, id, local: 1, total, quiescent: true });
}

/// A lock that node 0 manages; threads have the number of their node.
fn lock(cluster: &mut Cluster, node: u16) {
    cluster.call(node, SyncInput::Lock { thread: ThreadId(node.into()), id: 0 });
}

fn unlock(cluster: &mut Cluster, node: u16) {
    cluster.call(node, SyncInput::Unlock { thread: ThreadId(node.into()), id: 0 });
}
