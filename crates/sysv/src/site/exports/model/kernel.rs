//! The kernel as the exports see it: faults, events and memory objects, and threads that run between any two calls.
//!
//! Looked for at each access of a thread: the word is the newest that anybody has written, and the node has the access that it
//! takes.

use core::hash::{Hash, Hasher};
use core::ops::Range;

use multigrain_types::{Access, PAGE_BYTES};
use rustix::io::Errno;

use super::super::super::kernel::Kernel;
use super::super::super::userfault::Event;
use super::choices::{Choices, hash_of};
use super::processes::{Entry, Sim, Step, Thread, Told, at_place, slot};

/// The kernel, and who chooses what happens before each of its calls.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) sim: Sim,
    pub(super) choices: Choices,
}

impl Hash for Model {
    fn hash<H: Hasher>(&self, into: &mut H) {
        self.sim.hash(into);
    }
}

impl Sim {
    /// A thread reads the word of a page, or adds to it, or traps.
    pub(super) fn access(&mut self, at: usize, thread: usize, address: usize, writes: bool) {
        let found = self.images[at].mappings.iter_mut();
        let found = { found }.find(|mapping| mapping.open && mapping.range().contains(&address));
        // A crash.
        let Some(mapping) = found else { return self.end(at) };
        let (number, first, registered) = (mapping.segment, mapping.first, mapping.registered);
        let index = (address - mapping.start) / PAGE_BYTES;
        let page = first + index;
        let entry = &mut mapping.entries[index];
        let is_there = self.objects[number][page].is_some();
        if !is_there && matches!(entry, Entry::None | Entry::Marker) {
            if !registered {
                self.violated("a hole is touched that nobody guards");
            }
            return self.traps(at, thread, address, [writes, true]);
        }
        if writes && matches!(entry, Entry::Marker | Entry::Guarded) {
            *entry = Entry::Guarded;
            return self.traps(at, thread, address, [writes, false]);
        }
        *entry = match (writes, *entry) {
            (true, _) | (false, Entry::Writable) => Entry::Writable,
            (false, Entry::None | Entry::ReadOnly) => Entry::ReadOnly,
            (false, Entry::Marker | Entry::Guarded) => Entry::Guarded,
        };
        self.touched(number, page, writes);
        self.advance(at, thread);
    }

    fn touched(&mut self, number: usize, page: usize, writes: bool) {
        match (self.access[number][page], writes) {
            (Access::NoAccess, false) => self.violated("read while the node has no access"),
            (Access::NoAccess | Access::ReadOnly, true) => {
                self.violated("written while the node may not write");
            }
            (Access::ReadOnly | Access::ReadWrite, _) => {}
        }
        let newest = self.newest[number][page];
        if self.objects[number][page] != Some(newest) {
            self.violated(if writes { "an increment is lost" } else { "a read is stale" });
        }
        if writes {
            self.newest[number][page] = newest + 1;
            self.objects[number][page] = Some(newest + 1);
        }
    }

    fn traps(&mut self, at: usize, thread: usize, address: usize, [writes, is_missing]: [bool; 2]) {
        let is = Thread::Faults { address, writes, is_missing, is_read: false };
        self.images[at].threads[thread].is = is;
    }

    fn wake(&mut self, at: usize, range: &Range<usize>) {
        for thread in &mut self.images[at].threads {
            if let Thread::Faults { address, .. } = thread.is
                && range.contains(&address)
            {
                thread.is = Thread::Runs;
            }
        }
    }

    fn protect(&mut self, at: usize, range: &Range<usize>, protect: bool) -> Result<(), Errno> {
        if self.images[at].changing > 0 {
            return Err(Errno::AGAIN);
        }
        if !self.images[at].lives {
            return Err(Errno::SRCH);
        }
        let mut found = false;
        for mapping in self.images[at].mappings.iter_mut().filter(|mapping| mapping.registered) {
            let addresses = mapping.range().step_by(PAGE_BYTES);
            for (address, entry) in addresses.zip(&mut mapping.entries) {
                if !range.contains(&address) {
                    continue;
                }
                found = true;
                *entry = match (*entry, protect) {
                    (Entry::None | Entry::Marker, true) => Entry::Marker,
                    (Entry::Guarded | Entry::ReadOnly | Entry::Writable, true) => Entry::Guarded,
                    (Entry::None | Entry::Marker, false) => Entry::None,
                    (Entry::Guarded | Entry::ReadOnly, false) => Entry::ReadOnly,
                    (Entry::Writable, false) => Entry::Writable,
                };
            }
        }
        if !found {
            return Err(Errno::NOENT);
        }
        if !protect {
            self.wake(at, range);
        }
        Ok(())
    }

    /// A page of a hole, and its entry in an image. Nobody sees one without the other: the kernel keeps the page locked.
    fn fill(&mut self, at: usize, address: usize, from: usize, protect: bool) -> Result<(), Errno> {
        if self.images[at].changing > 0 {
            return Err(Errno::AGAIN);
        }
        if !self.images[at].lives {
            return Err(Errno::SRCH);
        }
        let mappings = self.images[at].mappings.iter_mut();
        let mapping = { mappings }
            .find(|mapping| mapping.registered && mapping.range().contains(&address))
            .ok_or(Errno::NOENT)?;
        let index = (address - mapping.start) / PAGE_BYTES;
        let (number, page) = (mapping.segment, mapping.first + index);
        let entry = &mut mapping.entries[index];
        if self.objects[number][page].is_some() || !matches!(entry, Entry::None | Entry::Marker) {
            return Err(Errno::EXIST);
        }
        *entry = if protect { Entry::Guarded } else { Entry::Writable };
        let (segment, of_node) = at_place(from);
        self.objects[number][page] = Some(self.node[segment][of_node]);
        self.wake(at, &(address..address + PAGE_BYTES));
        Ok(())
    }

    /// The threads of an image that have told something go on.
    fn events(&mut self, at: usize) -> Vec<Event<usize>> {
        let mut events = Vec::new();
        for thread in &mut self.images[at].threads {
            if let Thread::Faults { address, writes, is_missing, is_read } = &mut thread.is
                && !core::mem::replace(is_read, true)
            {
                let (address, writes, is_missing) = (*address, *writes, *is_missing);
                events.push(Event::Fault { address, writes, is_missing });
            }
        }
        while let Some(thread) = self.images[at].told.pop_front() {
            let image = &mut self.images[at];
            image.changing -= 1;
            let running = &mut image.threads[thread];
            let step = self.programs[running.program][running.at];
            let was = core::mem::replace(&mut running.is, Thread::Runs);
            let Thread::Tells(told) = was else { continue };
            if let Step::Replace(_, to) = step {
                running.is = Thread::Guards(slot(to));
            } else {
                self.advance(at, thread);
            }
            events.push(match told {
                Told::Fork(child) => {
                    self.images[child].began = true;
                    Event::Fork(child)
                }
                Told::Unmapped(start, end) => Event::Unmapped { start, end },
                Told::Moved(from, to, bytes) => Event::Moved { from, to, bytes },
            });
        }
        events
    }

    /// A page of an object becomes a hole. What was write-protected stays so, but where somebody reads it meanwhile: here it never does.
    fn punch(&mut self, object: usize, page: usize) {
        self.objects[object][page] = None;
        let mappings = self.images.iter_mut().flat_map(|image| &mut image.mappings);
        for mapping in mappings.filter(|mapping| mapping.segment == object) {
            let index = page.checked_sub(mapping.first);
            if let Some(entry) = index.and_then(|index| mapping.entries.get_mut(index)) {
                *entry = Entry::None;
            }
        }
    }

    /// The first half of a change that some thread of an image is in comes to its end.
    fn hurry(&mut self, at: usize) {
        let threads = self.images[at].threads.iter();
        if let Some(thread) = { threads }.position(|thread| thread.is == Thread::Changes) {
            self.step(at, thread);
        }
    }
}

impl Model {
    /// Threads go on before a call, or not.
    fn meanwhile(&mut self) {
        loop {
            let ready = self.sim.ready();
            if ready.is_empty() || self.sim.violation.is_some() {
                return;
            }
            let world = hash_of(&self.sim);
            match self.choices.choose(ready.len() + 1, world) {
                0 => return,
                chosen => {
                    let (image, thread) = ready[chosen - 1];
                    self.sim.step(image, thread);
                }
            }
        }
    }
}

impl Kernel for Model {
    type Guard = usize;
    type Object = usize;
    type Eventfd = ();

    fn enable(&mut self, _: &usize) -> Result<(), Errno> {
        Ok(())
    }

    fn register(&mut self, guard: &usize, address: usize, _: usize) -> Result<(), Errno> {
        self.meanwhile();
        let mappings = self.sim.images[*guard].mappings.iter_mut();
        let mapping = { mappings }.find(|mapping| mapping.start == address);
        self.choices.happened(&mapping.is_some());
        mapping.map(|mapping| mapping.registered = true).ok_or(Errno::INVAL)
    }

    fn protect(
        &mut self,
        guard: &usize,
        (address, bytes): (usize, usize),
        protect: bool,
    ) -> Result<(), Errno> {
        self.meanwhile();
        let result = self.sim.protect(*guard, &(address..address + bytes), protect);
        if result == Err(Errno::AGAIN) && self.sim.images[*guard].told.is_empty() {
            // It would be asked again for as long as this takes.
            self.sim.hurry(*guard);
        }
        self.choices.happened(&result.map_err(Errno::raw_os_error));
        result
    }

    fn fill(
        &mut self,
        guard: &usize,
        address: usize,
        contents: *const u8,
        protect: bool,
    ) -> Result<(), Errno> {
        self.meanwhile();
        // It may find no memory, or a mapping that it does not fill.
        let world = hash_of(&self.sim);
        let result = match self.choices.choose(2, world) {
            0 => self.sim.fill(*guard, address, contents.addr(), protect),
            _ => Err(Errno::NOMEM),
        };
        if result == Err(Errno::AGAIN) && self.sim.images[*guard].told.is_empty() {
            self.sim.hurry(*guard);
        }
        self.choices.happened(&result.map_err(Errno::raw_os_error));
        result
    }

    fn wake(&mut self, guard: &usize, address: usize, bytes: usize) -> Result<(), Errno> {
        self.meanwhile();
        self.sim.wake(*guard, &(address..address + bytes));
        self.choices.happened(&1);
        Ok(())
    }

    fn events(&mut self, guard: &usize) -> Result<Vec<Event<usize>>, Errno> {
        self.meanwhile();
        let events = self.sim.events(*guard);
        self.choices.happened(&format!("{events:?}"));
        Ok(events)
    }

    fn object(&mut self, bytes: usize) -> Result<usize, Errno> {
        let (number, pages) = (self.sim.objects.len(), bytes / PAGE_BYTES);
        self.sim.objects.push(vec![None; pages]);
        Ok(number)
    }

    fn read(&mut self, object: &usize, page: usize, place: *mut u8) -> Result<(), Errno> {
        self.meanwhile();
        let (segment, of_node) = at_place(place.addr());
        // A hole reads as zeros.
        self.sim.node[segment][of_node] = self.sim.objects[*object][page].unwrap_or(0);
        self.choices.happened(&2);
        Ok(())
    }

    fn write(&mut self, object: &usize, page: usize, contents: *const u8) -> Result<(), Errno> {
        self.meanwhile();
        let (segment, of_node) = at_place(contents.addr());
        self.sim.objects[*object][page] = Some(self.sim.node[segment][of_node]);
        self.choices.happened(&3);
        Ok(())
    }

    fn punch(&mut self, object: &usize, pages: Range<usize>) -> Result<(), Errno> {
        for page in pages {
            self.meanwhile();
            self.sim.punch(*object, page);
        }
        self.choices.happened(&4);
        Ok(())
    }

    fn eventfd(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    fn notify(&mut self, (): &()) {}
}
