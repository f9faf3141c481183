//! Node 0's registry of named segments: which there are, and who is attached.
//!
//! A name is reserved before its area is made, so that two nodes never make two areas for one name. What is
//! removed loses its name at once and is there until the last attach ends; whoever is told that it *goes*, once,
//! frees its area.

use std::collections::BTreeMap;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// That node makes its area.
    Reserved(NodeId),
    Made(AreaId),
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
    /// A node is about to create a segment: its name is taken from now on.
    ///
    /// # Errors
    /// A code: there is one, or one too many.
    pub(super) fn reserve(&mut self, name: &[u8], by: NodeId) -> Result<(), i32> {
        if self.names.contains_key(name) {
            return Err(Error::Exists(String::new()).code());
        }
        if self.reserved + self.segments.len() >= MOST {
            return Err(Error::Limit(String::new()).code());
        }
        self.names.insert(name.to_vec(), Named::Reserved(by));
        self.reserved += 1;
        Ok(())
    }

    /// Its area is there, or could not be made. Who waits for it; None if that node has not reserved the name.
    pub(super) fn made(
        &mut self,
        name: &[u8],
        (area, rights): (Option<AreaId>, Rights),
        by: NodeId,
    ) -> Option<Vec<Asker>> {
        let is_known = area.is_some_and(|area| self.segments.contains_key(&area));
        if self.names.get(name) != Some(&Named::Reserved(by)) || is_known {
            return None;
        }
        self.reserved -= 1;
        let Some(area) = area else {
            self.names.remove(name);
            return Some(Vec::new());
        };
        let (attached, attaches) = (BTreeMap::new(), 0);
        let segment = SegmentEntry { name: Some(name.to_vec()), rights, attached, attaches };
        self.segments.insert(area, segment);
        self.names.insert(name.to_vec(), Named::Made(area));
        Some(self.waiting.remove(name).unwrap_or_default())
    }

    /// The segment of a name.
    pub(super) fn find(&self, name: &[u8]) -> Option<RegisteredSegment> {
        match self.names.get(name)? {
            Named::Reserved(_) => None,
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

    fn made() -> Registry {
        let mut registry = Registry::default();
        assert_eq!(registry.reserve(b"one", NodeId(1)), Ok(()));
        assert_eq!(registry.made(b"one", (Some(AREA), RIGHTS), NodeId(1)), Some(Vec::new()));
        registry
    }

    #[test]
    fn a_name_is_taken_before_its_segment_is_there() {
        let mut registry = Registry::default();
        assert_eq!(registry.reserve(b"one", NodeId(1)), Ok(()));
        assert_eq!(registry.reserve(b"one", NodeId(2)), Err(-13));
        assert_eq!(registry.find(b"one"), None);
        assert_eq!(registry.made(b"one", (Some(AREA), RIGHTS), NodeId(2)), None, "another's name");
        assert_eq!(registry.made(b"one", (None, RIGHTS), NodeId(1)), Some(Vec::new()));
        assert_eq!(registry.reserve(b"one", NodeId(2)), Ok(()), "it could not be made");
    }

    #[test]
    fn a_job_has_as_many_segments_as_it_says() {
        let mut registry = Registry::default();
        let name = |number: usize| number.to_le_bytes();
        for number in 0..MOST {
            assert_eq!(registry.reserve(&name(number), NodeId(1)), Ok(()), "{number}");
            if number % 2 == 0 {
                let area = AreaId(u32::try_from(number).unwrap());
                let made = registry.made(&name(number), (Some(area), RIGHTS), NodeId(1));
                assert_eq!(made, Some(Vec::new()));
            }
        }
        assert_eq!(
            registry.reserve(b"one more", NodeId(1)),
            Err(Error::Limit(String::new()).code())
        );
        assert_eq!(registry.made(&name(1), (None, RIGHTS), NodeId(1)), Some(Vec::new()));
        assert_eq!(registry.reserve(b"one more", NodeId(1)), Ok(()));
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
        assert_eq!(registry.reserve(b"one", NodeId(2)), Ok(()), "the name is free");
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
        let asker = Asker { node: NodeId(2), thread: multigrain_types::ThreadId(3) };
        registry.wait(b"one", asker);
        registry.reserve(b"one", NodeId(1)).unwrap();
        assert_eq!(registry.made(b"one", (Some(AREA), RIGHTS), NodeId(1)), Some(vec![asker]));
    }
}
