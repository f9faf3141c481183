//! IS (apps/is): integer sort by ranking. The histogram is 8 regions; in phase p node w has region
//! (p + w) mod P to itself, P = max(8, nodes), and every phase ends with a barrier.

use crate::scale::step::{Pattern, Place, Program, Step, repeated};

const REGIONS: u32 = 8;

/// The sort and its input.
#[derive(Clone, Copy, Debug)]
pub struct Is {
    /// Log2 of the number of keys.
    pub keys_log2: u32,
    /// Log2 of the number of values.
    pub values_log2: u32,
    /// Rankings.
    pub iterations: u32,
}

impl Pattern for Is {
    fn name(&self) -> &'static str {
        "is"
    }

    fn flags(&self) -> String {
        let Self { keys_log2, values_log2, iterations } = self;
        format!("--keys {keys_log2} --values {values_log2} --iterations {iterations}")
    }

    fn most_nodes(&self) -> u16 {
        u16::MAX
    }

    fn rounds(&self) -> u32 {
        self.iterations
    }

    fn places(&self, _: u16) -> Vec<Place> {
        let bytes = u64::from((1 << self.values_log2) / REGIONS) * 4;
        vec![Place { owner: 0, bytes }; REGIONS as usize]
    }

    fn locks(&self) -> u32 {
        0
    }

    fn programs(&self, nodes: u16, rounds: u32) -> Vec<Program> {
        (0..nodes)
            .map(|node| {
                let keys =
                    |node: u16| (1_u64 << self.keys_log2) * u64::from(node) / u64::from(nodes);
                let own = keys(node + 1) - keys(node);
                let values = 1_u64 << self.values_log2;
                let keys = Step::Compute(own + values);
                repeated(rounds, move |round| iterate(node, nodes, round, keys, values))
            })
            .collect()
    }
}

/// One ranking. `keys`: walking over the own keys once.
fn iterate(
    node: u16,
    nodes: u16,
    round: u32,
    keys: Step,
    values: u64,
) -> impl Iterator<Item = Step> {
    let (node, nodes) = (u32::from(node), u32::from(nodes));
    let phases = nodes.max(REGIONS);
    let add_counts = move |phase: u32| {
        let turn = (phase + node) % phases;
        // The first node to reach a region overwrites it.
        let is_first = phase == 0 || (node == nodes - 1 && phase + node < phases);
        let read = (!is_first).then_some(Step::Read(turn));
        let add = [Some(Step::Write(turn)), Some(Step::Compute(values / u64::from(REGIONS)))];
        let steps = read.into_iter().chain(add.into_iter().flatten());
        steps.take(if turn < REGIONS { 3 } else { 0 }).chain([Step::Barrier])
    };
    (round > 0)
        .then_some(Step::Barrier)
        .into_iter()
        .chain([keys])
        .chain((0..phases).flat_map(add_counts))
        .chain((0..REGIONS).map(Step::Read))
        .chain([keys])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_one_node_at_a_time_and_every_node_comes_to_each() {
        for nodes in [1, 3, 8, 20] {
            let is = Is { keys_log2: 10, values_log2: 9, iterations: 1 };
            let mut touched = Vec::new();
            for program in is.programs(nodes, 1) {
                let steps: Vec<Step> = program.collect();
                let phases: Vec<&[Step]> = steps.split(|step| *step == Step::Barrier).collect();
                for (phase, steps) in phases.iter().enumerate() {
                    for step in *steps {
                        if let Step::Write(region) = step {
                            touched.push((phase, *region));
                        }
                    }
                }
            }
            let all = touched.len();
            assert_eq!(all, usize::from(nodes) * 8);
            touched.sort_unstable();
            touched.dedup();
            assert_eq!(touched.len(), all);
        }
    }
}
