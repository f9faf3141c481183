//! Processes as small programs: their mappings, page tables and threads, and what each step does to them.

use core::ops::Range;
use std::collections::VecDeque;

use multigrain_types::{Access, PAGE_BYTES};

/// Where this node has a segment.
pub(super) const PLACE: usize = 0x4000_0000;
pub(super) const BETWEEN_PLACES: usize = 0x100_0000;
/// Where processes map segments.
const SLOTS: usize = 0x1000_0000;

/// Slot 9 is the second page of slot 0.
pub(super) fn slot(number: usize) -> usize {
    if number == 9 {
        return SLOTS + PAGE_BYTES;
    }
    SLOTS + number * BETWEEN_PLACES
}

/// The segment and page that lie at an address of this node's memory.
pub(super) fn at_place(address: usize) -> (usize, usize) {
    let offset = address - PLACE;
    (offset / BETWEEN_PLACES, offset % BETWEEN_PLACES / PAGE_BYTES)
}

/// What a thread does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Reads the word of a page of what is attached in a slot.
    Read(usize, usize),
    /// Adds one to it.
    Add(usize, usize),
    /// Forks; the child runs another program.
    Fork(usize),
    /// Maps a segment, closed, into a slot; it has the site guard it, and opens it.
    Attach(usize, usize),
    /// Replaces what is there, as SHM_REMAP.
    Replace(usize, usize),
    Detach(usize),
    /// Unmaps one page of it.
    Unmap(usize, usize),
    /// Moves what is attached in a slot into another, in place of what is there.
    Move(usize, usize),
    /// Ends the image, with all its threads: an exit, or an exec.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    None,
    /// Nothing is mapped; what will be is write-protected.
    Marker,
    /// Write-protected.
    Guarded,
    ReadOnly,
    Writable,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) segment: usize,
    pub(super) registered: bool,
    pub(super) open: bool,
    /// Of the pages from `first` on of the segment.
    pub(super) first: usize,
    pub(super) entries: Vec<Entry>,
}

impl Mapping {
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.entries.len() * PAGE_BYTES
    }
}

/// What a userfaultfd will tell; the thread waits until it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Fork(usize),
    Unmapped(usize, usize),
    Moved(usize, usize, usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Thread {
    Runs,
    /// The first half of a fork, an unmapping or a move: write protection is refused from here on.
    Changes,
    /// Until the event is read.
    Tells(Told),
    Faults {
        address: usize,
        writes: bool,
        is_missing: bool,
        is_read: bool,
    },
    /// Until the site has guarded a mapping.
    Guards(usize),
    Ended,
}

/// A thread, its program, and where it is.
#[derive(Clone, Debug, Hash)]
pub(super) struct Running {
    pub(super) is: Thread,
    pub(super) program: usize,
    pub(super) at: usize,
}

/// The memory of a process.
#[derive(Clone, Debug, Hash)]
pub(super) struct Image {
    pub(super) mappings: Vec<Mapping>,
    pub(super) threads: Vec<Running>,
    /// Who has told something, in order.
    pub(super) told: VecDeque<usize>,
    pub(super) changing: usize,
    pub(super) lives: bool,
    /// A child runs when the fork has been told.
    pub(super) began: bool,
}

/// All of it, and what the node has: what decides what can happen next.
#[derive(Clone, Debug, Hash)]
pub(super) struct Sim {
    pub(super) programs: Vec<Vec<Step>>,
    pub(super) images: Vec<Image>,
    pub(super) objects: Vec<Vec<Option<u32>>>,
    /// This node's access to each page of each segment, what its memory holds, and the newest word.
    pub(super) access: Vec<Vec<Access>>,
    pub(super) node: Vec<Vec<u32>>,
    pub(super) newest: Vec<Vec<u32>>,
    /// Attaches that the job's books have.
    pub(super) attaches: Vec<i32>,
    pub(super) violation: Option<&'static str>,
}

impl Sim {
    /// Of so many pages each segment, which this node has to write; no images yet.
    pub(super) fn new(programs: Vec<Vec<Step>>, pages: &[usize]) -> Self {
        let all = |with: u32| pages.iter().map(|pages| vec![with; *pages]).collect::<Vec<_>>();
        Self {
            programs,
            images: Vec::new(),
            objects: Vec::new(),
            access: pages.iter().map(|pages| vec![Access::ReadWrite; *pages]).collect(),
            node: all(1),
            newest: all(1),
            attaches: vec![0; pages.len()],
            violation: None,
        }
    }

    /// A new image, whose threads run these programs.
    pub(super) fn start(&mut self, threads: &[usize], began: bool) {
        let running = |program: &usize| Running { is: Thread::Runs, program: *program, at: 0 };
        self.images.push(Image {
            mappings: Vec::new(),
            threads: threads.iter().map(running).collect(),
            told: VecDeque::new(),
            changing: 0,
            lives: true,
            began,
        });
    }

    pub(super) fn violated(&mut self, what: &'static str) {
        self.violation = self.violation.or(Some(what));
    }

    /// Threads that can go on by themselves.
    pub(super) fn ready(&self) -> Vec<(usize, usize)> {
        let images = self.images.iter().enumerate().filter(|(_, image)| image.lives && image.began);
        let threads = images.flat_map(|(at, image)| {
            let threads = image.threads.iter().enumerate();
            threads
                .filter(|(_, thread)| matches!(thread.is, Thread::Runs | Thread::Changes))
                .map(move |(thread, _)| (at, thread))
        });
        threads.collect()
    }

    pub(super) fn has_events(&self, image: usize) -> bool {
        let image = &self.images[image];
        let unread = |thread: &Running| matches!(thread.is, Thread::Faults { is_read: false, .. });
        !image.told.is_empty() || image.threads.iter().any(unread)
    }

    /// All that was mapped is gone, and all that waited.
    pub(super) fn end(&mut self, at: usize) {
        let image = &mut self.images[at];
        image.lives = false;
        image.mappings.clear();
        image.told.clear();
        image.changing = 0;
        let threads = image.threads.iter_mut();
        let were: Vec<_> =
            threads.map(|thread| core::mem::replace(&mut thread.is, Thread::Ended)).collect();
        for was in were {
            // A fork that was not told of is none.
            if let Thread::Tells(Told::Fork(child)) = was {
                self.end(child);
            }
        }
    }

    /// One step of a thread.
    pub(super) fn step(&mut self, at: usize, thread: usize) {
        let running = &self.images[at].threads[thread];
        let step = self.programs[running.program][running.at];
        let begins = running.is == Thread::Runs;
        match step {
            Step::Read(of, page) => {
                self.access(at, thread, slot(of) + page * PAGE_BYTES, false);
            }
            Step::Add(of, page) => {
                self.access(at, thread, slot(of) + page * PAGE_BYTES, true);
            }
            Step::End => self.end(at),
            Step::Attach(segment, to) => {
                if self.map(at, segment, slot(to)) {
                    self.images[at].threads[thread].is = Thread::Guards(slot(to));
                }
            }
            Step::Fork(_)
            | Step::Replace(..)
            | Step::Detach(_)
            | Step::Unmap(..)
            | Step::Move(..)
                if begins =>
            {
                self.images[at].changing += 1;
                self.images[at].threads[thread].is = Thread::Changes;
            }
            Step::Fork(program) => {
                let child = self.images.len();
                self.start(&[program], false);
                self.images[child].mappings = self.images[at].mappings.clone();
                self.tells(at, thread, Told::Fork(child));
            }
            Step::Replace(segment, to) => {
                let pages = self.objects[segment].len();
                self.unmap(at, slot(to)..slot(to) + pages * PAGE_BYTES);
                self.map(at, segment, slot(to));
                self.tells(at, thread, Told::Unmapped(slot(to), slot(to) + pages * PAGE_BYTES));
            }
            Step::Detach(from) => {
                let Some(mapping) =
                    self.images[at].mappings.iter().find(|mapping| mapping.start == slot(from))
                else {
                    return self.end(at);
                };
                let range =
                    mapping.start..mapping.start + self.objects[mapping.segment].len() * PAGE_BYTES;
                self.unmap(at, range.clone());
                self.tells(at, thread, Told::Unmapped(range.start, range.end));
            }
            Step::Unmap(from, page) => {
                let start = slot(from) + page * PAGE_BYTES;
                self.unmap(at, start..start + PAGE_BYTES);
                self.tells(at, thread, Told::Unmapped(start, start + PAGE_BYTES));
            }
            Step::Move(from, to) => {
                let moved = self.images[at].mappings.iter_mut();
                let mut pages = 0;
                if let Some(mapping) = { moved }.find(|mapping| mapping.start == slot(from)) {
                    mapping.start = slot(to);
                    pages = mapping.entries.len();
                }
                self.tells(at, thread, Told::Moved(slot(from), slot(to), pages * PAGE_BYTES));
            }
        }
    }

    /// A thread goes on behind its step; with the last one of its image, that ends.
    pub(super) fn advance(&mut self, at: usize, thread: usize) {
        let image = &mut self.images[at];
        let running = &mut image.threads[thread];
        running.at += 1;
        let ends = running.at == self.programs[running.program].len();
        running.is = if ends { Thread::Ended } else { Thread::Runs };
        if image.threads.iter().all(|thread| thread.is == Thread::Ended) {
            self.end(at);
        }
    }

    fn tells(&mut self, at: usize, thread: usize, told: Told) {
        self.images[at].threads[thread].is = Thread::Tells(told);
        self.images[at].told.push_back(thread);
    }

    /// Maps a segment, closed; false if something is there, and the image has ended.
    fn map(&mut self, at: usize, segment: usize, start: usize) -> bool {
        let entries = vec![Entry::None; self.objects[segment].len()];
        let new = Mapping { start, segment, registered: false, open: false, first: 0, entries };
        let range = new.range();
        let apart = |mapping: &Mapping| {
            mapping.range().end <= range.start || range.end <= mapping.range().start
        };
        if !self.images[at].mappings.iter().all(apart) {
            self.end(at);
            return false;
        }
        self.images[at].mappings.push(new);
        true
    }

    fn unmap(&mut self, at: usize, range: Range<usize>) {
        for mapping in core::mem::take(&mut self.images[at].mappings) {
            let page = |address: usize| {
                (address.clamp(mapping.start, mapping.range().end) - mapping.start) / PAGE_BYTES
            };
            let (from, to, count) = (page(range.start), page(range.end), mapping.entries.len());
            let kept = if from < to { [0..from, to..count] } else { [0..count, 0..0] };
            for part in kept.into_iter().filter(|part| !part.is_empty()) {
                self.images[at].mappings.push(Mapping {
                    start: mapping.start + part.start * PAGE_BYTES,
                    first: mapping.first + part.start,
                    entries: mapping.entries[part].to_vec(),
                    ..mapping
                });
            }
        }
    }
}
