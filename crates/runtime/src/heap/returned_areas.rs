//! Areas that this node has made and returns to the directory: the only ones that may be taken from it.

use std::collections::BTreeSet;

use multigrain_types::AreaId;

use crate::shim::{Mutex, lock};

/// Those that are not taken yet.
#[derive(Debug, Default)]
pub(super) struct ReturnedAreas(Mutex<BTreeSet<AreaId>>);

impl ReturnedAreas {
    /// Nothing is allocated of it, and nothing ever will be.
    pub(super) fn add(&self, id: AreaId) {
        lock(&self.0).insert(id);
    }

    /// Whether it may be taken: once.
    pub(super) fn take(&self, id: AreaId) -> bool {
        lock(&self.0).remove(&id)
    }
}
