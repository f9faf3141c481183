//! The last thing that nodes agree on: nobody leaves while another one's release needs it.
//!
//! All have come to the leaving barrier by then. But a thread that nobody joins may write on, and what its node sends after that, the
//! end of the barrier for others among it, waits until homes have taken the writes: those must be there still. So a node
//! whose release is through, and all below it in the tree of the job, asks the node above for leave. What comes from the top
//! lets all go. Neither waits for writes.

use multigrain_types::tree::{Fan, Tree};

use crate::driver::Driver;
use crate::frames::Asker;
use crate::shim::{Mutex, lock};

/// Who waits to leave.
#[derive(Debug, Default)]
pub(super) struct Departure(Mutex<Ready>);

#[derive(Debug, Default)]
struct Ready {
    /// Right below this node.
    children: Vec<Asker>,
    /// The thread of this node that leaves.
    own: Option<Asker>,
}

impl Departure {
    /// Waits until all nodes are ready to leave; in the thread that leaves, whose release is through.
    pub(super) fn pass(&self, driver: &Driver) {
        let tree = Tree::new(driver.nodes(), Fan::default());
        driver.ask_to_leave(driver.me());
        if let Some(parent) = tree.parent(driver.me()) {
            driver.ask_to_leave(parent);
        }
        let children = core::mem::take(&mut lock(&self.0).children);
        children.into_iter().for_each(|child| driver.answer(child, 0, 0));
    }

    /// A node right below is ready, or this one; false for any other, and for one that has said so before.
    pub(super) fn serve(&self, driver: &Driver, asker: Asker) -> bool {
        let tree = Tree::new(driver.nodes(), Fan::default());
        let mut ready = lock(&self.0);
        let Ready { children, own } = &mut *ready;
        if asker.node == driver.me() {
            if own.is_some() {
                return false;
            }
            *own = Some(asker);
        } else {
            let is_new = children.iter().all(|child| child.node != asker.node);
            if !is_new || tree.parent(asker.node) != Some(driver.me()) {
                return false;
            }
            children.push(asker);
        }
        if children.len() == tree.children(driver.me()).count()
            && let Some(own) = *own
        {
            driver.answer(own, 0, 0);
        }
        true
    }
}
