//! Executes the operations of a program on real memory.

use super::super::program::{GroupId, ObjectId, Op, Pattern, Shape, Span, ThreadId};
use super::super::reference::number;
use super::{Node, Wrong, memory, started};
use core::ops::Range;
use multigrain_runtime::{Error, Policy};
use multigrain_types::Consistency;

impl Node {
    /// Executes an operation that reads what was expected; `seen` is how much each group had grown
    /// when this thread looked last.
    pub(super) fn step(&self, op: &Op, expected: &[u8], seen: &mut [u64]) -> Result<(), Wrong> {
        let runtime = self.runtime;
        match *op {
            Op::Alloc(object, pattern) => self.allocate(object, pattern)?,
            Op::Free(object) => runtime.free(self.base(object)?)?,
            Op::Read(span) => {
                self.compare(span, expected)?;
            }
            Op::Write(span, pattern) => self.write(span, pattern)?,
            Op::Rewrite(span) => {
                let place = self.compare(span, expected)?;
                memory::write(place, expected);
            }
            Op::Copy { from, to } => {
                let (source, to) = (self.compare(from, expected)?, self.place(to)?);
                memory::copy(source, to);
            }
            Op::Add(span, amount) => {
                let place = self.compare(span, expected)?;
                memory::add(place, amount);
            }
            Op::Lock(id) => runtime.lock(id)?,
            Op::Unlock(id) => runtime.unlock(id)?,
            Op::Bump(group, amount) => {
                seen[group.0] = self.growth(group, seen[group.0])? + amount;
                for &place in &self.program.groups[group.0].places {
                    memory::add(self.place(place)?, amount);
                }
            }
            Op::Inspect(group) => seen[group.0] = self.growth(group, seen[group.0])?,
            Op::Await(group, value) => loop {
                seen[group.0] = self.growth(group, seen[group.0])?;
                if seen[group.0] >= value {
                    break;
                }
                let group = &self.program.groups[group.0];
                runtime.condition_wait(group.condition, group.lock)?;
            },
            Op::Signal { condition, all } => runtime.condition_signal(condition, all)?,
            Op::Barrier { id, total } => runtime.barrier(id, total)?,
            Op::Post { id, units } => runtime.semaphore_post(id, units)?,
            Op::Down(id) => runtime.semaphore_wait(id)?,
            Op::Start(thread) => self.start(thread)?,
            Op::Join(thread) => self.join(thread)?,
            Op::Prefetch(span, kind) => {
                let place = self.place(span)?;
                runtime.prefetch(place.start, place.len(), kind)?;
            }
            Op::Push(span) => {
                let place = self.place(span)?;
                runtime.push(place.start, place.len())?;
            }
            Op::Touch(span, kind) => {
                let place = self.place(span)?;
                runtime.touch(place.start, place.len(), kind)?;
            }
        }
        Ok(())
    }

    fn allocate(&self, id: ObjectId, pattern: Pattern) -> Result<(), Wrong> {
        let object = self.program.objects[id.0];
        let with = |grain| policy(grain, object.consistency);
        let base = match object.shape {
            Shape::Block { grain: None } if object.consistency.is_none() => {
                self.runtime.malloc(object.bytes)
            }
            Shape::Block { grain } => self.runtime.malloc_with(object.bytes, with(grain)),
            Shape::Zeroed => self.runtime.calloc(object.bytes),
            Shape::Grain(grain) => self.runtime.malloc_grain(object.bytes, grain),
            Shape::Array { element, grain } => {
                self.runtime.malloc_array_with(object.bytes / element, element, with(grain))
            }
        }?;
        self.runtime.publish(&name(id), base)?;
        // A look-up that was quick may have come first.
        let _ = self.bases[id.0].set(base);
        let bytes: Vec<u8> = (0..object.bytes).map(|place| pattern.byte(place)).collect();
        for (part, bytes) in bytes.chunks(object.stride()).enumerate() {
            let span = Span { object: id, from: part * object.stride(), bytes: bytes.len() };
            if object.shape == Shape::Zeroed {
                self.compare(span, bytes)?;
            } else {
                memory::write(self.place(span)?, bytes);
            }
        }
        Ok(())
    }

    /// An object's address; waits until it is published.
    fn base(&self, id: ObjectId) -> Result<usize, Error> {
        match self.bases[id.0].get() {
            Some(&base) => Ok(base),
            None => {
                let base = self.runtime.lookup(&name(id))?;
                Ok(*self.bases[id.0].get_or_init(|| base))
            }
        }
    }

    /// Where a span lies.
    fn place(&self, span: Span) -> Result<Range<usize>, Error> {
        let base = self.base(span.object)?;
        let start = match self.program.objects[span.object.0].shape {
            Shape::Array { element, .. } => {
                self.runtime.element(base, span.from / element)? + span.from % element
            }
            Shape::Block { .. } | Shape::Zeroed | Shape::Grain(_) => base + span.from,
        };
        Ok(start..start + span.bytes)
    }

    /// Reads bytes, which must be as expected; where they lie.
    pub(super) fn compare(&self, span: Span, expected: &[u8]) -> Result<Range<usize>, Wrong> {
        let place = self.place(span)?;
        let found = memory::read(place.clone());
        if found == expected {
            return Ok(place);
        }
        Err(Wrong::Bytes { span, expected: expected.to_vec(), found })
    }

    fn write(&self, span: Span, pattern: Pattern) -> Result<(), Error> {
        let bytes: Vec<u8> = (0..span.bytes).map(|place| pattern.byte(place)).collect();
        memory::write(self.place(span)?, &bytes);
        Ok(())
    }

    /// How much a group has grown, the same in all places, and never less than before.
    fn growth(&self, id: GroupId, before: u64) -> Result<u64, Wrong> {
        let group = &self.program.groups[id.0];
        let starts = &self.expected.starts[id.0];
        let mut all = Vec::new();
        for (&place, start) in group.places.iter().zip(starts) {
            let now = number(&memory::read(self.place(place)?));
            all.push(now.wrapping_sub(*start) & group.mask());
        }
        let first = all[0];
        if all.iter().any(|growth| *growth != first) {
            return Err(Wrong::Other(format!("the places of g{} have grown by {all:?}", id.0)));
        }
        if first < before || first > group.total {
            let total = group.total;
            return Err(Wrong::Other(format!(
                "g{} has grown by {first}: expected {before} to {total}",
                id.0
            )));
        }
        Ok(first)
    }

    fn start(&self, thread: ThreadId) -> Result<(), Error> {
        let node = i64::try_from(self.program.threads[thread.0].node).unwrap_or(-1);
        let handle = self.runtime.thread_create(node, started, thread.0 as u64)?;
        self.handles[thread.0].set(handle).expect("a thread is started once");
        Ok(())
    }

    fn join(&self, thread: ThreadId) -> Result<(), Wrong> {
        let handle = self.handles[thread.0].get().expect("who joins knows of the start");
        let result = self.runtime.thread_join(*handle)?;
        if usize::try_from(result) == Ok(thread.0) {
            return Ok(());
        }
        Err(Wrong::Other(format!("its result: expected {}, found {result}", thread.0)))
    }
}

fn policy(grain: Option<usize>, consistency: Option<Consistency>) -> Policy {
    let any = Policy::new();
    let grained = grain.map_or(any, |bytes| any.grain(bytes));
    consistency.map_or(grained, |consistency| grained.consistency(consistency))
}

fn name(object: ObjectId) -> Vec<u8> {
    format!("o{}", object.0).into_bytes()
}
