//! The engines' states of all nodes, in flat tables: a step finds its state in one look-up.

use multigrain_protocol::coherence::{Entry, Holder};
use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_protocol::release::ReleaseTracker;
use multigrain_protocol::sync::SyncTables;
use multigrain_protocol::{Cell, SyncCell, Tables, hlrc, mgs};
use multigrain_types::{AreaId, Consistency, MinipageId, NodeId};

/// Where a minipage is managed, who allocated it, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The node with the directory entry.
    pub manager: NodeId,
    /// The allocating node: first holder.
    pub owner: NodeId,
    /// Bytes that travel with a page.
    pub bytes: u64,
}

/// All states. An entry exists once: the manager's role is asked for on the manager alone.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) nodes: u16,
    pub(super) invalidations: TreeShape,
    pub(super) places: Vec<Placed>,
    holders: Vec<Holder>,
    entries: Vec<Entry>,
    sync: Vec<SyncTables>,
    tracker: Vec<ReleaseTracker>,
}

impl Cells {
    pub(super) fn new(nodes: u16, places: Vec<Placed>) -> Self {
        let holder = |node, placed: &Placed| {
            if placed.owner == node { Holder::owner() } else { Holder::default() }
        };
        Self {
            nodes,
            invalidations: TreeShape::default(),
            holders: (0..nodes)
                .map(NodeId)
                .flat_map(|node| places.iter().map(move |placed| holder(node, placed)))
                .collect(),
            entries: places.iter().map(|placed| Entry::owned_by(placed.owner)).collect(),
            sync: (0..nodes).map(|_| SyncTables::default()).collect(),
            tracker: (0..nodes).map(NodeId).map(ReleaseTracker::new).collect(),
            places,
        }
    }

    pub(super) fn holder(&self, node: NodeId, minipage: MinipageId) -> &Holder {
        &self.holders[self.place(node, minipage)]
    }

    pub(super) fn entry(&self, minipage: MinipageId) -> &Entry {
        &self.entries[minipage.index() as usize]
    }

    pub(super) fn manager(&self, minipage: MinipageId) -> NodeId {
        self.places[minipage.index() as usize].manager
    }

    pub(super) fn sync(&self, node: NodeId) -> &SyncTables {
        &self.sync[node.index()]
    }

    /// The id of the minipage with this index. The owner's rank is its area.
    pub(super) fn id(&self, index: u32) -> MinipageId {
        let owner = self.places[index as usize].owner;
        MinipageId::new(AreaId(owner.0.into()), index)
    }

    /// Whether there is such a minipage; ids that come over the wire are checked with this.
    pub(super) fn knows(&self, minipage: MinipageId) -> bool {
        let index = minipage.index();
        (index as usize) < self.places.len() && self.id(index) == minipage
    }

    fn place(&self, node: NodeId, minipage: MinipageId) -> usize {
        node.index() * self.places.len() + minipage.index() as usize
    }
}

/// The tables as one node sees them.
pub(super) struct Lens<'a> {
    pub(super) me: NodeId,
    pub(super) cells: &'a mut Cells,
}

pub(super) struct CellGuard<'a> {
    manager: NodeId,
    invalidations: TreeShape,
    holder: &'a mut Holder,
    entry: &'a mut Entry,
    tracker: &'a mut ReleaseTracker,
}

/// Why the engines of release consistency are not asked for.
const SEQUENTIAL: &str = "all minipages here are sequentially consistent";

impl Cell for CellGuard<'_> {
    type TrackerGuard<'a>
        = &'a mut ReleaseTracker
    where
        Self: 'a;

    fn manager(&self) -> NodeId {
        self.manager
    }

    fn owner(&self) -> NodeId {
        unreachable!("{SEQUENTIAL}")
    }

    fn invalidations(&self) -> TreeShape {
        self.invalidations
    }

    fn consistency(&self) -> Consistency {
        Consistency::Sequential
    }

    fn holder(&mut self) -> &mut Holder {
        self.holder
    }

    fn entry(&mut self) -> &mut Entry {
        self.entry
    }

    fn client(&mut self) -> &mut mgs::Client {
        unreachable!("{SEQUENTIAL}")
    }

    fn server(&mut self) -> &mut mgs::Server {
        unreachable!("{SEQUENTIAL}")
    }

    fn copy(&mut self) -> &mut hlrc::Copy {
        unreachable!("{SEQUENTIAL}")
    }

    fn tracker(&mut self) -> &mut ReleaseTracker {
        self.tracker
    }
}

impl Lens<'_> {
    fn borrow(&mut self, minipage: MinipageId) -> CellGuard<'_> {
        let (place, index) = (self.cells.place(self.me, minipage), minipage.index() as usize);
        CellGuard {
            manager: self.cells.places[index].manager,
            invalidations: self.cells.invalidations,
            holder: &mut self.cells.holders[place],
            entry: &mut self.cells.entries[index],
            tracker: &mut self.cells.tracker[self.me.index()],
        }
    }
}

impl<'l> SyncCell for &mut Lens<'l> {
    type CellGuard<'a>
        = CellGuard<'a>
    where
        Self: 'a;
    type TrackerGuard<'a>
        = &'a mut ReleaseTracker
    where
        Self: 'a;

    fn tables(&mut self) -> &mut SyncTables {
        &mut self.cells.sync[self.me.index()]
    }

    fn minipage(&mut self, minipage: MinipageId) -> CellGuard<'_> {
        self.borrow(minipage)
    }

    fn tracker(&mut self) -> &mut ReleaseTracker {
        &mut self.cells.tracker[self.me.index()]
    }
}

impl<'l> Tables for Lens<'l> {
    type CellGuard<'a>
        = CellGuard<'a>
    where
        Self: 'a;
    type Sync<'a>
        = &'a mut Lens<'l>
    where
        Self: 'a;
    type TrackerGuard<'a>
        = &'a mut ReleaseTracker
    where
        Self: 'a;

    fn minipage(&mut self, minipage: MinipageId) -> CellGuard<'_> {
        self.borrow(minipage)
    }

    fn sync(&mut self) -> &mut Lens<'l> {
        self
    }

    fn tracker(&mut self) -> &mut ReleaseTracker {
        &mut self.cells.tracker[self.me.index()]
    }
}
