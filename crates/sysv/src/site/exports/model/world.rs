//! A site in the model: its state, who serves its faults, and a node that takes access away and gives it back.

use core::hash::{Hash, Hasher};
use core::ptr::{without_provenance, without_provenance_mut};
use std::sync::Arc;

use multigrain_types::{Access, AreaId, PAGE_BYTES};

use super::super::{Image, Notification, Segment, State};
use super::choices::Choices;
use super::kernel::Model;
use super::processes::{BETWEEN_PLACES, PLACE, Sim, Step, Thread, at_place};
use crate::site::images::{Fault, ImageKey};

impl Clone for State<Model> {
    fn clone(&self) -> Self {
        let segments = self.segments.iter().map(|(area, segment)| {
            let Segment { object, present, written, attaches, .. } = segment;
            let (object, attaches) = (Arc::clone(object), attaches.clone());
            let (present, written) = (present.clone(), written.clone());
            (*area, Segment { object, present, written, attaches, ..*segment })
        });
        let images = self.images.iter().map(|(key, image)| {
            let (userfault, eventfd) = (Arc::clone(&image.userfault), Arc::clone(&image.eventfd));
            let pending = image.pending.clone();
            (*key, Image { userfault, eventfd, pending, ..*image })
        });
        Self {
            kernel: self.kernel.clone(),
            segments: segments.collect(),
            images: images.collect(),
            newest: self.newest,
            notifications: self.notifications.clone(),
        }
    }
}

impl Hash for State<Model> {
    fn hash<H: Hasher>(&self, into: &mut H) {
        self.kernel.hash(into);
        for (area, segment) in &self.segments {
            (area, &segment.present, &segment.written, &segment.attaches).hash(into);
        }
        for (key, image) in &self.images {
            (key, &image.userfault, &image.pending, &image.scans).hash(into);
        }
        self.notifications.hash(into);
    }
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Step(usize, usize),
    /// The site guards what a thread of an image has mapped.
    Guard(usize, usize),
    /// It reads the faults of an image.
    Read(ImageKey),
    /// It finds out where a fault's pages are, and gets them.
    Touch(usize),
    /// It puts one of them into the export, if it has it still.
    Export(usize),
    /// It looks which images are gone.
    Sweep,
    /// The node's access to a page becomes less.
    Take((usize, usize), Access),
    /// Another node adds to a word.
    Remote(usize, usize),
    Kill(usize),
}

impl Action {
    /// What nobody here asks for.
    pub(super) fn is_of_adversary(self) -> bool {
        match self {
            Self::Take(..) | Self::Remote(..) | Self::Kill(_) => true,
            Self::Step(..)
            | Self::Guard(..)
            | Self::Read(_)
            | Self::Touch(_)
            | Self::Export(_)
            | Self::Sweep => false,
        }
    }
}

/// What may happen so often at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) takes: u32,
    pub(super) remotes: u32,
    pub(super) kills: u32,
}

/// A fault that is served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Serving {
    key: ImageKey,
    fault: Fault,
    /// Where its page is in this node's memory, and how many pages behind it are still to be exported before it.
    touched: Option<(usize, usize)>,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct World {
    pub(super) state: State<Model>,
    serving: Vec<Serving>,
    budget: Budget,
}

fn place(segment: usize, page: usize) -> usize {
    PLACE + segment * BETWEEN_PLACES + page * PAGE_BYTES
}

impl World {
    /// Images with a thread for each program of theirs; what the first thread attaches first, it has attached.
    pub(super) fn new(
        programs: Vec<Vec<Step>>,
        images: &[&[usize]],
        pages: &[usize],
        budget: Budget,
    ) -> Self {
        let kernel = Model { sim: Sim::new(programs, pages), choices: Choices::default() };
        let mut state = State {
            kernel,
            segments: std::collections::BTreeMap::new(),
            images: std::collections::BTreeMap::new(),
            newest: 0,
            notifications: std::collections::VecDeque::new(),
        };
        for (segment, pages) in pages.iter().enumerate() {
            let area = AreaId(u32::try_from(segment).unwrap());
            let id = i32::try_from(segment).unwrap();
            state.add_segment(area, id, place(segment, 0), pages * PAGE_BYTES).unwrap();
        }
        let mut world = Self { state, serving: Vec::new(), budget };
        for (image, programs) in images.iter().enumerate() {
            world.state.kernel.sim.start(programs, true);
            world.state.add_image(i32::try_from(image).unwrap(), 1, image).unwrap();
        }
        for image in 0..images.len() {
            let sim = world.sim();
            let thread = &sim.images[image].threads[0];
            let attaches = sim.programs[thread.program].iter();
            let attaches = attaches.take_while(|step| matches!(step, Step::Attach(..))).count();
            for _ in 0..attaches {
                world.state.kernel.sim.step(image, 0);
                world.guard(image, 0);
            }
        }
        world.pass_notifications();
        world.state.kernel.choices = Choices::default();
        world
    }

    pub(super) fn sim(&self) -> &Sim {
        &self.state.kernel.sim
    }

    fn key_of(&self, image: usize) -> Option<ImageKey> {
        let found = self.state.images.iter().find(|(_, known)| *known.userfault == image);
        found.map(|(key, _)| *key)
    }

    fn gone(&self) -> bool {
        let images = &self.sim().images;
        self.state.images.values().any(|image| !images[*image.userfault].lives)
    }

    /// Programs have come to their ends, and the site knows.
    pub(super) fn is_done(&self) -> bool {
        self.sim().images.iter().all(|image| !image.lives) && !self.gone()
    }

    pub(super) fn actions(&self) -> Vec<Action> {
        let sim = self.sim();
        let mut actions: Vec<_> =
            sim.ready().into_iter().map(|(image, thread)| Action::Step(image, thread)).collect();
        for (at, image) in sim.images.iter().enumerate() {
            for (thread, running) in image.threads.iter().enumerate() {
                if matches!(running.is, Thread::Guards(_)) {
                    actions.push(Action::Guard(at, thread));
                }
            }
            if image.lives && image.began && self.budget.kills > 0 {
                actions.push(Action::Kill(at));
            }
        }
        for (key, image) in &self.state.images {
            if sim.has_events(*image.userfault) || !image.pending.is_empty() {
                actions.push(Action::Read(*key));
            }
        }
        for (at, serving) in self.serving.iter().enumerate() {
            let is_touched = serving.touched.is_some();
            actions.push(if is_touched { Action::Export(at) } else { Action::Touch(at) });
        }
        if self.gone() {
            actions.push(Action::Sweep);
        }
        for (segment, pages) in sim.access.iter().enumerate() {
            for (page, access) in pages.iter().enumerate() {
                let less = [Access::NoAccess, Access::ReadOnly];
                if self.budget.takes > 0 {
                    let less = less.into_iter().filter(|to| to < access);
                    actions.extend(less.map(|to| Action::Take((segment, page), to)));
                }
                if *access == Access::NoAccess && self.budget.remotes > 0 {
                    actions.push(Action::Remote(segment, page));
                }
            }
        }
        actions
    }

    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Step(image, thread) => self.state.kernel.sim.step(image, thread),
            Action::Guard(image, thread) => self.guard(image, thread),
            Action::Read(key) => {
                let faults = self.state.faults(key).unwrap_or_default();
                let serving = |fault| Serving { key, fault, touched: None };
                self.serving.extend(faults.into_iter().map(serving));
            }
            Action::Touch(at) => self.touch(at),
            Action::Export(at) => self.export(at),
            Action::Sweep => self.state.sweep(),
            Action::Take(page, to) => {
                self.budget.takes -= 1;
                self.take(page, to);
            }
            Action::Remote(segment, page) => {
                self.budget.remotes -= 1;
                self.state.kernel.sim.newest[segment][page] += 1;
            }
            Action::Kill(image) => {
                self.budget.kills -= 1;
                self.state.kernel.sim.end(image);
            }
        }
        self.pass_notifications();
    }

    fn guard(&mut self, image: usize, thread: usize) {
        let Thread::Guards(start) = self.sim().images[image].threads[thread].is else { return };
        let mappings = self.sim().images[image].mappings.iter();
        let Some(mapping) = { mappings }.find(|mapping| mapping.start == start) else {
            return self.state.kernel.sim.end(image);
        };
        let (segment, bytes) = (mapping.segment, mapping.entries.len() * PAGE_BYTES);
        let key = self.key_of(image).unwrap();
        let guarded = self.state.guard(key, i32::try_from(segment).unwrap(), start, bytes);
        let sim = &mut self.state.kernel.sim;
        if guarded.is_err() {
            return sim.end(image);
        }
        sim.attaches[segment] += 1;
        let mapping = sim.images[image].mappings.iter_mut().find(|mapping| mapping.start == start);
        if let Some(mapping) = mapping {
            mapping.open = true;
            sim.advance(image, thread);
        }
    }

    /// The node has the pages that a fault is to get when this returns, as `Runtime::touch`.
    fn touch(&mut self, at: usize) {
        let Serving { key, fault, .. } = self.serving[at];
        let Some((place, pages)) = self.state.place(key, fault) else {
            self.state.wake(key, fault.address);
            self.serving.remove(at);
            return;
        };
        let (segment, first) = at_place(place);
        let sim = &mut self.state.kernel.sim;
        let to = if fault.writes { Access::ReadWrite } else { Access::ReadOnly };
        for page in first..first + pages {
            if sim.access[segment][page] == Access::NoAccess {
                sim.node[segment][page] = sim.newest[segment][page];
            }
            sim.access[segment][page] = sim.access[segment][page].max(to);
        }
        self.serving[at].touched = Some((place, pages - 1));
    }

    /// As the site's `resolve`.
    fn export(&mut self, at: usize) {
        let Serving { key, fault, touched: Some((place, ahead)) } = self.serving[at] else {
            return;
        };
        let wanted = if fault.writes { Access::ReadWrite } else { Access::ReadOnly };
        let (segment, page) = at_place(place + ahead * PAGE_BYTES);
        let is_here = self.sim().access[segment][page] >= wanted;
        if is_here {
            let address = fault.address + ahead * PAGE_BYTES;
            let place = place + ahead * PAGE_BYTES;
            let is_missing = fault.is_missing && ahead == 0;
            let fault = Fault { address, is_missing, ..fault };
            self.state.export(key, fault, (place, || without_provenance(place))).unwrap();
        }
        match (ahead, is_here) {
            (0, true) => drop(self.serving.remove(at)),
            (0, false) => self.serving[at].touched = None,
            _ => self.serving[at].touched = Some((place, ahead - 1)),
        }
    }

    fn take(&mut self, (segment, page): (usize, usize), to: Access) {
        let area = AreaId(u32::try_from(segment).unwrap());
        let bytes = (page * PAGE_BYTES) as u64..((page + 1) * PAGE_BYTES) as u64;
        let contents = without_provenance_mut(place(segment, page));
        assert!(self.state.change(area, bytes, contents, to).unwrap());
        let sim = &mut self.state.kernel.sim;
        if sim.node[segment][page] != sim.newest[segment][page] {
            sim.violated("the node's contents are not what was written");
        }
        sim.access[segment][page] = to;
        if to == Access::NoAccess {
            if sim.objects[segment][page].is_some() {
                sim.violated("a page that was taken away is there");
            }
            // Nobody is to see it.
            sim.node[segment][page] = u32::MAX / 2;
        }
    }

    fn pass_notifications(&mut self) {
        while let Some(notification) = self.state.next_notification() {
            let attaches = &mut self.state.kernel.sim.attaches;
            let at = |segment: i32| usize::try_from(segment).unwrap();
            match notification {
                Notification::Forked { segment, .. } => attaches[at(segment)] += 1,
                Notification::Detached { segment, .. } => attaches[at(segment)] -= 1,
                Notification::NewImage(_) => {}
            }
        }
    }

    /// What is wrong, if anything is.
    pub(super) fn check(&self) -> Option<&'static str> {
        let sim = self.sim();
        if sim.violation.is_some() {
            return sim.violation;
        }
        let settled = |image: &super::processes::Image| {
            image.changing == 0
                && !image.threads.iter().any(|thread| matches!(thread.is, Thread::Guards(_)))
        };
        if !self.gone() && sim.images.iter().all(settled) {
            let mut attaches = vec![0; sim.attaches.len()];
            for image in &sim.images {
                let of_image = image.mappings.iter().filter(|mapping| mapping.open);
                of_image.for_each(|mapping| attaches[mapping.segment] += 1);
            }
            if attaches != sim.attaches {
                return Some("the books have another number of attaches");
            }
        }
        self.is_done().then(|| self.clone().check_end()).flatten()
    }

    /// The node has everything that was written when it takes all of it.
    fn check_end(mut self) -> Option<&'static str> {
        for segment in 0..self.sim().access.len() {
            for page in 0..self.sim().access[segment].len() {
                if self.sim().access[segment][page] != Access::NoAccess {
                    self.take((segment, page), Access::NoAccess);
                }
            }
        }
        self.sim().violation
    }
}
