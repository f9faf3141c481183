//! Nothing but barriers: how long one takes.

use super::super::step::{Pattern, Place, Program, Step};

/// So many barriers of all nodes, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Barriers {
    /// How many.
    pub count: u32,
}

impl Pattern for Barriers {
    fn name(&self) -> &'static str {
        "barriers"
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
        Vec::new()
    }

    fn locks(&self) -> u32 {
        0
    }

    fn programs(&self, nodes: u16, rounds: u32) -> Vec<Program> {
        let program = move |_| -> Program {
            Box::new((0..rounds).flat_map(|_| [Step::Barrier, Step::Round]))
        };
        (0..nodes).map(program).collect()
    }
}
