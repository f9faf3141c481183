//! The reference: a program executed sequentially, one operation after the other, on plain memory.
//!
//! A program has no data races and what it writes follows from the program alone, so every read
//! outside of a group's critical section finds in each execution what it finds in this one.

use super::program::{GroupId, Op, Pattern, Program, Span};

/// What a job must find.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// By thread and operation: the bytes read, where the operation reads.
    pub(super) found: Vec<Vec<Box<[u8]>>>,
    /// By group: what its places hold before anything was added.
    pub(super) starts: Vec<Vec<u64>>,
    /// By object: what it holds in the end; `None` if it was freed.
    pub(super) last: Vec<Option<Vec<u8>>>,
}

/// The little-endian number these bytes are.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Executes a program.
pub(super) fn execute(program: &Program) -> Expected {
    let mut memory = Memory { objects: vec![None; program.objects.len()] };
    let mut starts = vec![Vec::new(); program.groups.len()];
    let mut found: Vec<Vec<_>> = program.threads.iter().map(|_| Vec::new()).collect();
    for (thread, _, op) in program.sequence() {
        if let Op::Bump(GroupId(group), _)
        | Op::Inspect(GroupId(group))
        | Op::Await(GroupId(group), _) = op
            && starts[group].is_empty()
        {
            let places = program.groups[group].places.iter();
            starts[group] = places.map(|&place| number(memory.bytes(place))).collect();
        }
        found[thread.0].push(memory.step(program, op));
    }
    Expected { found, starts, last: memory.objects }
}

/// Contents by object.
struct Memory {
    objects: Vec<Option<Vec<u8>>>,
}

impl Memory {
    fn bytes(&mut self, span: Span) -> &mut [u8] {
        let object = self.objects[span.object.0].as_mut();
        &mut object.expect("programs use what is allocated")[span.from..span.from + span.bytes]
    }

    fn write(&mut self, span: Span, pattern: Pattern) {
        for (place, byte) in self.bytes(span).iter_mut().enumerate() {
            *byte = pattern.byte(place);
        }
    }

    fn add(&mut self, span: Span, amount: u64) {
        let bytes = self.bytes(span);
        let sum = number(bytes).wrapping_add(amount).to_le_bytes();
        bytes.copy_from_slice(&sum[..bytes.len()]);
    }

    /// Executes an operation; the bytes it reads.
    fn step(&mut self, program: &Program, op: Op) -> Box<[u8]> {
        let mut found = Box::default();
        match op {
            Op::Alloc(object, pattern) => {
                let bytes = (0..program.objects[object.0].bytes).map(|place| pattern.byte(place));
                self.objects[object.0] = Some(bytes.collect());
            }
            Op::Free(object) => self.objects[object.0] = None,
            Op::Read(span) | Op::Rewrite(span) => found = Box::from(&*self.bytes(span)),
            Op::Write(span, pattern) => self.write(span, pattern),
            Op::Copy { from, to } => {
                found = Box::from(&*self.bytes(from));
                self.bytes(to).copy_from_slice(&found);
            }
            Op::Add(span, amount) => {
                found = Box::from(&*self.bytes(span));
                self.add(span, amount);
            }
            Op::Bump(group, amount) => {
                for &place in &program.groups[group.0].places {
                    self.add(place, amount);
                }
            }
            Op::Inspect(_)
            | Op::Await(..)
            | Op::Lock(_)
            | Op::Unlock(_)
            | Op::Signal { .. }
            | Op::Barrier { .. }
            | Op::Post { .. }
            | Op::Down(_)
            | Op::Start(_)
            | Op::Join(_)
            | Op::Prefetch(..)
            | Op::Push(_)
            | Op::Touch(..) => {}
        }
        found
    }
}
