//! A minipage that all nodes read and one then writes: how long the write takes.

use super::super::step::{Pattern, Place, Program, Step};

/// So often, all nodes read a page, and then node 0, which manages it, writes it.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    /// How often.
    pub count: u32,
    /// Whether it is written: without, the same but for the write.
    pub written: bool,
    /// Whether the others compute when it is written, and do not wait.
    pub busy: bool,
}

impl Pattern for Copies {
    fn name(&self) -> &'static str {
        "copies"
    }

    fn flags(&self) -> String {
        format!("-n {}", self.count)
    }

    fn most_nodes(&self) -> u16 {
        1024
    }

    fn rounds(&self) -> u32 {
        self.count
    }

    fn places(&self, _: u16) -> Vec<Place> {
        vec![Place { owner: 0, bytes: 4096 }]
    }

    fn locks(&self) -> u32 {
        0
    }

    fn programs(&self, nodes: u16, rounds: u32) -> Vec<Program> {
        let Self { written, busy, .. } = *self;
        let program = move |node: u16| -> Program {
            let write = (written && node == 0).then_some(Step::Write(0));
            // Longer than any write takes.
            let compute = (busy && node != 0).then_some(Step::Compute(50_000_000));
            let meet = [Step::Read(0), Step::Barrier];
            let round = move |number| {
                // Behind the last write nobody is waited for.
                let end = (number + 1 < rounds).then_some(Step::Barrier);
                meet.into_iter().chain(write).chain(compute).chain([Step::Round]).chain(end)
            };
            Box::new((0..rounds).flat_map(round))
        };
        (0..nodes).map(program).collect()
    }
}
