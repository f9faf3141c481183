//! The shared memory that tests run on: in every layout, and from every node as the allocator.
#![expect(unsafe_code, reason = "makes words of addresses in shared memory")]

use super::super::instruction::Word;
use super::super::plan::{BATCH, Layout, NODES, name_of};
use super::super::program::VARIABLES;
use anyhow::Result;
use clap::ValueEnum;
use multigrain_runtime::{Policy, Runtime};
use multigrain_types::PAGE_BYTES;

/// Bytes between variables in one minipage: each has a cache line of its own.
const LINE_BYTES: usize = 64;
/// Bytes of a minipage that shares its page; the variables of a round fit a page, and no round's
/// begin in one page and end in the next.
const SUB_BYTES: usize = VARIABLES * LINE_BYTES;
const _: () = assert!(PAGE_BYTES.is_multiple_of(SUB_BYTES * VARIABLES));

/// The variables of one round.
pub(super) type Set = [Word; VARIABLES];

/// All variables of the job; never given back.
pub(super) struct Variables {
    sets: Vec<(Layout, Vec<Vec<Set>>)>,
}

impl Variables {
    /// Every node allocates its share; all find all.
    pub(super) fn join(runtime: &Runtime) -> Result<Self> {
        let mut sets = Vec::new();
        for &layout in Layout::value_variants() {
            let name = |node: usize| format!("litmus {} {node}", name_of(&layout));
            let base = allocate(runtime, layout)?;
            runtime.publish(name(runtime.rank().index()).as_bytes(), base)?;
            let of_nodes = (0..NODES)
                .map(|node| find(runtime, layout, runtime.lookup(name(node).as_bytes())?))
                .collect::<Result<_>>()?;
            sets.push((layout, of_nodes));
        }
        Ok(Self { sets })
    }

    /// The variables of a batch that a node allocated.
    pub(super) fn of(&self, layout: Layout, allocator: usize) -> &[Set] {
        let found = self.sets.iter().find(|(of, _)| *of == layout);
        &found.expect("every layout is there").1[allocator]
    }
}

fn allocate(runtime: &Runtime, layout: Layout) -> Result<usize> {
    let all = BATCH * VARIABLES;
    // Of the job's consistency, and never more in a minipage than the layout says.
    let fine = Policy::new().grain(SUB_BYTES);
    Ok(match layout {
        Layout::Minipage => runtime.malloc_array_with(BATCH, SUB_BYTES, fine)?,
        Layout::Page => runtime.malloc_array_with(all, SUB_BYTES, fine)?,
        Layout::Pages => runtime.malloc_grain(all * PAGE_BYTES, PAGE_BYTES)?,
    })
}

fn find(runtime: &Runtime, layout: Layout, base: usize) -> Result<Vec<Set>> {
    let address = |round: usize, var: usize| {
        let number = round * VARIABLES + var;
        anyhow::Ok(match layout {
            Layout::Minipage => runtime.element(base, round)? + var * LINE_BYTES,
            Layout::Page => runtime.element(base, number)?,
            Layout::Pages => base + number * PAGE_BYTES,
        })
    };
    let mut sets = Vec::new();
    for round in 0..BATCH {
        let mut addresses = [0; VARIABLES];
        for (var, place) in addresses.iter_mut().enumerate() {
            *place = address(round, var)?;
        }
        // SAFETY: within the allocation, which lives as long as the job; its minipages and the
        // distances between variables are multiples of 8 bytes.
        sets.push(addresses.map(|address| unsafe { Word::at(address) }));
    }
    Ok(sets)
}
