//! Node 0's registry of named segments: which there are, and who is attached.
//!
//! A name is reserved before its area is made, so that two nodes never make two areas for one name; who would make one
//! meanwhile waits, and has the name if it could not be made. What is removed loses its name at once and is there until
//! the last attach ends; whoever is told that it *goes*, once, frees its area.

use std::collections::{BTreeMap, VecDeque};

use multigrain_types::{AreaId, NodeId};

use super::permissions::{RegisteredSegment, Rights};
use crate::error::Error;
use crate::frames::Asker;

/// Most segments of a job at a time, so that a program that makes up a new one each time is told.
pub(super) const MOST: usize = 1 << 16;

/// The registry of a job, on node 0.
#[derive(Debug, Default)]
pub(super) struct Registry {
    names: BTreeMap<Vec<u8>, Named>,
    /// Names without a segment so far.
    reserved: usize,
    segments: BTreeMap<AreaId, SegmentEntry>,
    /// Who waits for a name.
    waiting: BTreeMap<Vec<u8>, Vec<Asker>>,
}

#[derive(Debug)]
enum Named {
    /// A node makes its area; others would if it cannot.
    Reserved {
        by: NodeId,
        next: VecDeque<Asker>,
    },
    Made(AreaId),
}

/// Who is to be answered when a segment is made, or could not be.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    /// Who waits for the segment.
    pub(super) attachers: Vec<Asker>,
    /// Who wants to create one of its name: what [`Registry::reserve`] gives.
    pub(super) creators: Vec<(Asker, Result<(), i32>)>,
}

#[derive(Debug)]
struct SegmentEntry {
    name: Option<Vec<u8>>,
    rights: Rights,
    attached: BTreeMap<NodeId, u64>,
    attaches: u64,
}

impl SegmentEntry {
    fn facts(&self, area: AreaId) -> RegisteredSegment {
        RegisteredSegment {
            area: area.0,
            rights: self.rights,
            attached: self.attached.values().sum(),
            nodes: u16::try_from(self.attached.len()).unwrap_or(u16::MAX),
            attaches: self.attaches,
            removed: self.name.is_none(),
        }
    }
}

impl Registry {
    /// A node is about to create a segment: its name is taken from now on. None while another makes one of that name: the answer
    /// is that node's [`Outcome`].
    ///
    /// # Errors
    /// A code: there is one, or one too many.
    pub(super) fn reserve(&mut self, name: &[u8], asker: Asker) -> Option<Result<(), i32>> {
        match self.names.get_mut(name) {
            Some(Named::Reserved { next, .. }) => {
                next.push_back(asker);
                return None;
            }
            Some(Named::Made(_)) => return Some(Err(Error::Exists(String::new()).code())),
            None => {}
        }
        if self.reserved + self.segments.len() >= MOST {
            return Some(Err(Error::Limit(String::new()).code()));
        }
        let reserved = Named::Reserved { by: asker.node, next: VecDeque::new() };
        self.names.insert(name.to_vec(), reserved);
        self.reserved += 1;
        Some(Ok(()))
    }

    /// Its area is there, or could not be made. None if that node has not reserved the name.
    pub(super) fn made(
        &mut self,
        name: &[u8],
        (area, rights): (Option<AreaId>, Rights),
        node: NodeId,
    ) -> Option<Outcome> {
        let Some(Named::Reserved { by, next }) = self.names.get_mut(name) else { return None };
        if *by != node || area.is_some_and(|area| self.segments.contains_key(&area)) {
            return None;
        }
        let Some(area) = area else {
            let first = next.pop_front();
            match first {
                Some(asker) => *by = asker.node,
                None => {
                    self.reserved -= 1;
                    self.names.remove(name);
                }
            }
            let creators = first.into_iter().map(|asker| (asker, Ok(()))).collect();
            return Some(Outcome { creators, ..Outcome::default() });
        };
        let exists = Err(Error::Exists(String::new()).code());
        let creators = next.drain(..).map(|asker| (asker, exists)).collect();
        self.reserved -= 1;
        let (attached, attaches) = (BTreeMap::new(), 0);
        let segment = SegmentEntry { name: Some(name.to_vec()), rights, attached, attaches };
        self.segments.insert(area, segment);
        self.names.insert(name.to_vec(), Named::Made(area));
        Some(Outcome { attachers: self.waiting.remove(name).unwrap_or_default(), creators })
    }

    /// The segment of a name.
    pub(super) fn find(&self, name: &[u8]) -> Option<RegisteredSegment> {
        match self.names.get(name)? {
            Named::Reserved { .. } => None,
            Named::Made(area) => self.facts(*area),
        }
    }

    pub(super) fn facts(&self, area: AreaId) -> Option<RegisteredSegment> {
        self.segments.get(&area).map(|segment| segment.facts(area))
    }

    /// Answered when there is a segment of that name.
    pub(super) fn wait(&mut self, name: &[u8], asker: Asker) {
        self.waiting.entry(name.to_vec()).or_default().push(asker);
    }

    /// One more attach; false if there is none to attach to, or its name is gone.
    pub(super) fn attach(&mut self, area: AreaId, by: NodeId) -> bool {
        let Some(segment) = self.segments.get_mut(&area).filter(|it| it.name.is_some()) else {
            return false;
        };
        *segment.attached.entry(by).or_default() += 1;
        segment.attaches += 1;
        true
    }

    /// One less: whether the segment goes now. None if that node has no attach.
    pub(super) fn detach(&mut self, area: AreaId, by: NodeId) -> Option<bool> {
        let segment = self.segments.get_mut(&area)?;
        let count = segment.attached.get_mut(&by)?;
        *count -= 1;
        if *count == 0 {
            segment.attached.remove(&by);
        }
        Some(self.drop_if_unused(area))
    }

    /// Its name is gone: whether the segment goes now. None if it was already, or there is none.
    pub(super) fn remove(&mut self, area: AreaId) -> Option<bool> {
        let name = self.segments.get_mut(&area)?.name.take()?;
        self.names.remove(&name);
        Some(self.drop_if_unused(area))
    }

    fn drop_if_unused(&mut self, area: AreaId) -> bool {
        let unused = |segment: &SegmentEntry| segment.name.is_none() && segment.attached.is_empty();
        let goes = self.segments.get(&area).is_some_and(unused);
        if goes {
            self.segments.remove(&area);
        }
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHTS: Rights = Rights { user: 1, group: 1, mode: 0o600 };
    const AREA: AreaId = AreaId(5);

    fn asker(node: u16) -> Asker {
        Asker { node: NodeId(node), thread: multigrain_types::ThreadId(3) }
    }

    fn nobody() -> Option<Outcome> {
        Some(Outcome::default())
    }

    fn made() -> Registry {
        let mut registry = Registry::default();
        assert_eq!(registry.reserve(b"one", asker(1)), Some(Ok(())));
        assert_eq!(registry.made(b"one", (Some(AREA), RIGHTS), NodeId(1)), nobody());
        registry
    }

    /// They were told that there was one, which then was not made.
    #[test]
    fn who_would_make_a_segment_waits_for_another_that_is_about_to() {
        let mut registry = Registry::default();
        assert_eq!(registry.reserve(b"one", asker(1)), Some(Ok(())));
        assert_eq!(registry.reserve(b"one", asker(2)), None);
        assert_eq!(registry.reserve(b"one", asker(1)), None);
        assert_eq!(registry.reserve(b"one", asker(3)), None);
        assert_eq!(registry.find(b"one"), None);
        assert_eq!(registry.made(b"one", (Some(AREA), RIGHTS), NodeId(2)), None, "another's name");
        let then = |creators| Some(Outcome { creators, ..Outcome::default() });
        let could_not = (None, RIGHTS);
        assert_eq!(registry.made(b"one", could_not, NodeId(1)), then(vec![(asker(2), Ok(()))]));
        let told = vec![(asker(1), Err(-13)), (asker(3), Err(-13))];
        assert_eq!(registry.made(b"one", (Some(AREA), RIGHTS), NodeId(2)), then(told));
        assert_eq!(registry.reserve(b"one", asker(3)), Some(Err(-13)));
        assert_eq!(registry.remove(AREA), Some(true));
        assert_eq!(registry.reserve(b"one", asker(3)), Some(Ok(())));
        assert_eq!(registry.made(b"one", could_not, NodeId(3)), nobody());
        assert_eq!((registry.reserved, registry.names.len()), (0, 0));
    }

    #[test]
    fn a_job_has_as_many_segments_as_it_says() {
        let mut registry = Registry::default();
        let name = |number: usize| number.to_le_bytes();
        for number in 0..MOST {
            assert_eq!(registry.reserve(&name(number), asker(1)), Some(Ok(())), "{number}");
            if number % 2 == 0 {
                let area = AreaId(u32::try_from(number).unwrap());
                let made = registry.made(&name(number), (Some(area), RIGHTS), NodeId(1));
                assert_eq!(made, nobody());
            }
        }
        assert_eq!(
            registry.reserve(b"one more", asker(1)),
            Some(Err(Error::Limit(String::new()).code()))
        );
        assert_eq!(registry.made(&name(1), (None, RIGHTS), NodeId(1)), nobody());
        assert_eq!(registry.reserve(b"one more", asker(1)), Some(Ok(())));
    }

    #[test]
    fn what_is_removed_stays_until_its_last_attach_ends_and_goes_once() {
        let mut registry = made();
        assert!(registry.attach(AREA, NodeId(0)) && registry.attach(AREA, NodeId(0)));
        assert!(registry.attach(AREA, NodeId(2)));
        assert_eq!(registry.find(b"one").map(|facts| (facts.attached, facts.nodes)), Some((3, 2)));
        assert_eq!(registry.remove(AREA), Some(false));
        assert_eq!(registry.remove(AREA), None);
        assert!(!registry.attach(AREA, NodeId(0)), "its name is gone");
        assert_eq!(registry.find(b"one"), None);
        assert_eq!(registry.reserve(b"one", asker(2)), Some(Ok(())), "the name is free");
        assert_eq!(registry.detach(AREA, NodeId(1)), None, "it is not attached");
        assert_eq!(registry.detach(AREA, NodeId(0)), Some(false));
        assert_eq!(registry.detach(AREA, NodeId(2)), Some(false));
        assert!(registry.facts(AREA).is_some_and(|facts| facts.removed && facts.attaches == 3));
        assert_eq!(registry.detach(AREA, NodeId(0)), Some(true));
        assert_eq!(registry.detach(AREA, NodeId(0)), None);
    }

    #[test]
    fn who_waits_is_told_when_the_segment_is_there() {
        let mut registry = Registry::default();
        registry.wait(b"one", asker(2));
        assert_eq!(registry.reserve(b"one", asker(1)), Some(Ok(())));
        let told = Outcome { attachers: vec![asker(2)], ..Outcome::default() };
        assert_eq!(registry.made(b"one", (Some(AREA), RIGHTS), NodeId(1)), Some(told));
    }
}
