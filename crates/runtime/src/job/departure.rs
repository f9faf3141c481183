//! The last thing that nodes agree on: nobody leaves while another one's release needs it.
//!
//! All have come to the leaving barrier by then. But a thread that nobody joins may write on, and what its node sends after that, the
//! end of the barrier for others among it, waits until homes have taken the writes: those must be there still. So a node
//! whose release is through, and all below it in the tree of the job, asks the node above for leave. What comes from the top
//! lets all go. Neither waits for writes.
//!
//! A node whose main thread has ended by `pthread_exit` stays for its other threads, and one may be started there when it has
//! come to the leaving barrier, or asked for leave, already. Such a thread asks the node at the top not to let go before it has
//! ended, and whoever starts it is answered after that; so the node that starts it, which cannot have asked for leave
//! itself while the starting thread runs, or stays for that thread in the same way, is still there.

use multigrain_types::NodeId;
use multigrain_types::tree::{Fan, Tree};

use crate::driver::Driver;
use crate::frames::{Asker, Leave};
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
    /// Threads for which all stay; at the top.
    held_by: u64,
    /// That thread has its leave.
    has_leave: bool,
}

impl Departure {
    /// Waits until all nodes are ready to leave; in the thread that leaves, whose release is through.
    pub(super) fn pass(&self, driver: &Driver) {
        let tree = Tree::new(driver.nodes(), Fan::default());
        driver.ask_to_leave(driver.me(), Leave::Ready);
        if let Some(parent) = tree.parent(driver.me()) {
            driver.ask_to_leave(parent, Leave::Ready);
        }
        let children = core::mem::take(&mut lock(&self.0).children);
        children.into_iter().for_each(|child| driver.answer(child, 0, 0));
    }

    /// What nodes ask for; false where it makes no sense.
    pub(super) fn serve(&self, driver: &Driver, asker: Asker, stage: u64) -> bool {
        let tree = Tree::new(driver.nodes(), Fan::default());
        let mut ready = lock(&self.0);
        let makes_sense = if stage == Leave::Ready as u64 {
            ready.add(driver.me(), &tree, asker)
        } else {
            driver.me() == Leave::TOP && ready.hold(stage)
        };
        if makes_sense && stage != Leave::Ready as u64 {
            driver.answer(asker, 0, 0);
        }
        if let Some(own) = ready.lets_go(tree.children(driver.me()).count()) {
            driver.answer(own, 0, 0);
        }
        makes_sense
    }
}

impl Ready {
    /// A node right below is ready, or this one; false for any other, and for one that has said so before.
    fn add(&mut self, me: NodeId, tree: &Tree, asker: Asker) -> bool {
        if asker.node == me {
            return self.own.replace(asker).is_none();
        }
        let is_new = self.children.iter().all(|child| child.node != asker.node);
        let is_child = is_new && tree.parent(asker.node) == Some(me);
        if is_child {
            self.children.push(asker);
        }
        is_child
    }

    /// The thread of this node that leaves, if it may now; once.
    fn lets_go(&mut self, children: usize) -> Option<Asker> {
        let may = self.children.len() == children && self.held_by == 0 && !self.has_leave;
        let own = self.own.filter(|_| may)?;
        self.has_leave = true;
        Some(own)
    }

    /// A thread begins or ends for which all stay; false for one that ends and has not begun.
    fn hold(&mut self, stage: u64) -> bool {
        let held_by = match stage {
            hold if hold == Leave::Hold as u64 => self.held_by.checked_add(1),
            over if over == Leave::Over as u64 => self.held_by.checked_sub(1),
            _ => None,
        };
        self.held_by = held_by.unwrap_or(self.held_by);
        held_by.is_some()
    }
}

#[cfg(test)]
mod tests {
    use multigrain_types::ThreadId;

    use super::*;

    #[test]
    fn threads_hold_until_the_last_has_ended_and_none_ends_that_has_not_begun() {
        let mut ready = Ready::default();
        let [hold, over] = [Leave::Hold, Leave::Over].map(|stage| stage as u64);
        assert!(ready.hold(hold) && ready.hold(hold) && ready.hold(over));
        assert_eq!(ready.held_by, 1);
        let own = Asker { node: Leave::TOP, thread: ThreadId(3) };
        ready.own = Some(own);
        assert_eq!(ready.lets_go(0), None);
        assert!(ready.hold(over) && !ready.hold(over) && !ready.hold(7));
        assert_eq!((ready.held_by, ready.lets_go(1)), (0, None), "one below is not ready");
        assert_eq!(ready.lets_go(0), Some(own));
        // Of a thread that ends with its node, which has its leave.
        assert!(ready.hold(hold) && ready.hold(over));
        assert_eq!(ready.lets_go(0), None);
    }
}
