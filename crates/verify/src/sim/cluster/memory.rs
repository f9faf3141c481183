//! The memories of all nodes: what their page tables allow and what a thread reads there.
//!
//! Nothing here asks an engine. The invariants are those of shared memory itself: one writer or
//! many readers, and every copy that can be read holds what was written last.

use multigrain_types::{Access, MinipageId, NodeId};

use super::content::{Content, FREED};

/// A node's memory for one minipage.
#[derive(Clone, Copy, Debug)]
struct Page {
    content: Content,
    access: Access,
}

/// One minipage over all nodes.
#[derive(Clone, Copy, Debug)]
struct Whole {
    /// What was written last.
    latest: Content,
    readers: u32,
    writers: u32,
}

/// All memories. Errors say in words which invariant is broken.
#[derive(Debug)]
pub(super) struct Memory {
    pages: Vec<Page>,
    wholes: Vec<Whole>,
}

impl Memory {
    /// Every minipage holds 0 at its owner, which may write it.
    pub(super) fn new(nodes: u16, owners: &[NodeId]) -> Self {
        let page = |node, owner| {
            let access = if node == owner { Access::ReadWrite } else { Access::NoAccess };
            Page { content: 0, access }
        };
        Self {
            pages: (0..nodes)
                .map(NodeId)
                .flat_map(|node| owners.iter().map(move |&owner| page(node, owner)))
                .collect(),
            wholes: vec![Whole { latest: 0, readers: 0, writers: 1 }; owners.len()],
        }
    }

    pub(super) fn access(&self, node: NodeId, minipage: MinipageId) -> Access {
        self.pages[self.place(node, minipage)].access
    }

    /// What the node's privileged view shows.
    pub(super) fn content(&self, node: NodeId, minipage: MinipageId) -> Content {
        self.pages[self.place(node, minipage)].content
    }

    /// Nodes that can access it.
    pub(super) fn copies(&self, minipage: MinipageId) -> u32 {
        let whole = &self.wholes[minipage.index() as usize];
        whole.readers + whole.writers
    }

    /// A load that the page tables allow.
    pub(super) fn read(&self, node: NodeId, minipage: MinipageId) -> Result<Content, String> {
        let (seen, latest) = (self.content(node, minipage), self.latest(minipage));
        if seen == latest {
            Ok(seen)
        } else {
            Err(format!("{node} reads {seen:#x}, but {latest:#x} was written last"))
        }
    }

    /// A store that the page tables allow.
    pub(super) fn write(&mut self, node: NodeId, minipage: MinipageId, value: Content) {
        let place = self.place(node, minipage);
        self.pages[place].content = value;
        self.wholes[minipage.index() as usize].latest = value;
    }

    pub(super) fn latest(&self, minipage: MinipageId) -> Content {
        self.wholes[minipage.index() as usize].latest
    }

    pub(super) fn install(
        &mut self,
        node: NodeId,
        minipage: MinipageId,
        access: Access,
        content: Content,
    ) -> Result<(), String> {
        let place = self.place(node, minipage);
        if self.pages[place].access != Access::NoAccess {
            return Err(format!("{node} installs a page that its threads may access"));
        }
        let latest = self.latest(minipage);
        if content != latest {
            return Err(format!("{node} gets {content:#x}, but {latest:#x} was written last"));
        }
        self.pages[place].content = content;
        self.protect(node, minipage, Access::NoAccess, access)
    }

    pub(super) fn protect(
        &mut self,
        node: NodeId,
        minipage: MinipageId,
        from: Access,
        to: Access,
    ) -> Result<(), String> {
        let place = self.place(node, minipage);
        let whole = &mut self.wholes[minipage.index() as usize];
        let page = &mut self.pages[place];
        if page.access != from || from == to {
            return Err(format!("{node} goes from {from:?} to {to:?} but has {:?}", page.access));
        }
        page.access = to;
        match from {
            Access::NoAccess => {}
            Access::ReadOnly => whole.readers -= 1,
            Access::ReadWrite => whole.writers -= 1,
        }
        match to {
            Access::NoAccess => return Ok(()),
            Access::ReadOnly => whole.readers += 1,
            Access::ReadWrite => whole.writers += 1,
        }
        if whole.writers > 1 || (whole.writers == 1 && whole.readers > 0) {
            let Whole { readers, writers, .. } = whole;
            return Err(format!("{node} gets {to:?}: now {writers} writers, {readers} readers"));
        }
        // What is reclaimed comes without its contents, and is not read before it is written.
        let reclaimed = from == Access::NoAccess && to == Access::ReadWrite;
        if page.content != whole.latest && !reclaimed {
            let (has, latest) = (page.content, whole.latest);
            return Err(format!("{node} may read {has:#x}, but {latest:#x} was written last"));
        }
        Ok(())
    }

    /// The owner has the one copy of what was freed; its contents are nobody's.
    pub(super) fn reclaimed(&mut self, node: NodeId, minipage: MinipageId) -> Result<(), String> {
        let place = self.place(node, minipage);
        let page = &mut self.pages[place];
        if page.access != Access::ReadWrite {
            return Err(format!("{node} has reclaimed it and has {:?}", page.access));
        }
        page.content = FREED;
        self.wholes[minipage.index() as usize].latest = FREED;
        Ok(())
    }

    fn place(&self, node: NodeId, minipage: MinipageId) -> usize {
        node.index() * self.wholes.len() + minipage.index() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{NoAccess, ReadOnly, ReadWrite};

    const PAGE: MinipageId = MinipageId(0);
    const HOME: NodeId = NodeId(0);
    const AWAY: NodeId = NodeId(1);

    /// Written at home, which has a read copy now.
    fn shared() -> Memory {
        let mut memory = Memory::new(2, &[HOME]);
        memory.write(HOME, PAGE, 7);
        memory.protect(HOME, PAGE, ReadWrite, ReadOnly).unwrap();
        memory
    }

    #[test]
    fn two_read_copies_of_the_last_write_are_allowed() {
        let mut memory = shared();
        assert_eq!(memory.install(AWAY, PAGE, ReadOnly, 7), Ok(()));
        assert_eq!((memory.read(AWAY, PAGE), memory.copies(PAGE)), (Ok(7), 2));
    }

    #[test]
    fn a_writer_beside_a_reader_is_found() {
        assert!(shared().install(AWAY, PAGE, ReadWrite, 7).is_err());
    }

    #[test]
    fn an_old_copy_is_found_as_it_comes_and_as_it_is_opened_again() {
        assert!(shared().install(AWAY, PAGE, ReadOnly, 6).is_err());
        let mut memory = shared();
        assert!(memory.protect(AWAY, PAGE, NoAccess, ReadOnly).is_err());
    }

    #[test]
    fn a_page_table_change_from_what_it_does_not_hold_is_found() {
        assert!(shared().protect(HOME, PAGE, ReadWrite, NoAccess).is_err());
    }
}
