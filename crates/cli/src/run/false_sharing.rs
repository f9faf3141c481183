//! The lines of the summary about where faults were: the allocation whose pages were transferred in vain, for nodes use
//! different parts of them (false sharing), the one whose minipages are finer than their use, the one with most of
//! the faults if it is neither, and under release consistency the one whose pages were fetched again in vain.

use super::quantity::quantity;
use multigrain_types::false_sharing::{Allocation, Refetches, Shared};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Traps that could have been spared, from which on it is worth a line; and their part of all, also of
/// what another consistency spares.
const WORTH_SAYING: u64 = 500;
const PERCENT_WORTH_SAYING: u64 = 25;

/// An allocation with so many percent of the job's faults has most of them.
const PERCENT_MOST: u64 = 50;

/// A place is named where one in so many of those traps was.
const PLACE_PARTS: u64 = 8;

/// What all nodes together know of an allocation.
#[derive(Default)]
struct All {
    /// Sums; of the nodes one says where it was made.
    sum: Shared,
    /// Nodes that trapped at a part that nobody else had written, and those that wrote it.
    apart: usize,
    writers: usize,
}

/// A line about the allocation with the most traps for a part that nobody else wrote, one about that with the most for
/// neighbours of what was here, one about that with the most of all, and one about that with the most pages that were fetched
/// again though other parts had been written; none of those that have nothing to say.
pub(super) fn lines<'a>(stats: impl Iterator<Item = &'a Map<String, Value>>) -> String {
    let mut all: BTreeMap<u64, All> = BTreeMap::new();
    let mut job_faults = 0u64;
    for (stats, shared) in stats.filter_map(|stats| Some((stats, stats.get("sharing")?))) {
        let faults = ["read_faults", "write_faults"].map(|key| stats.get(key)?.as_u64());
        job_faults = faults.into_iter().flatten().fold(job_faults, u64::saturating_add);
        // What a node of another version says is left out.
        let of_node: Vec<Shared> = serde_json::from_value(shared.clone()).unwrap_or_default();
        of_node
            .into_iter()
            .for_each(|shared| all.entry(shared.allocation.base).or_default().add(shared));
    }
    let coarse = all.values().max_by_key(|of| of.spared()).filter(|of| of.is_too_coarse());
    let fine = all.values().max_by_key(|of| of.sum.too_fine).filter(|of| of.is_too_fine());
    let written_apart = all.values().max_by_key(|of| of.sum.refetches.apart);
    let written_apart = written_apart.filter(|of| of.is_written_apart());
    let said = [coarse, fine].map(|of| of.map(|of| of.sum.allocation.base));
    let has_most =
        |of: &&All| of.has_most(job_faults) && !said.contains(&Some(of.sum.allocation.base));
    let most = all.values().max_by_key(|of| of.sum.faults).filter(has_most);
    let lines = [
        coarse.map(|of| of.line_of_too_coarse(job_faults)),
        fine.map(|of| of.line_of_too_fine(job_faults)),
        most.map(|of| of.line_of_most(job_faults)),
        written_apart.map(All::line_of_written_apart),
    ];
    lines.into_iter().flatten().collect()
}

/// How many percent of `whole` a part is.
fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(100)
}

/// Where the program made it, as far as it is known, to be put behind its size.
fn place_of(allocation: &Allocation) -> String {
    allocation.made.as_ref().map_or(String::new(), |made| format!(" ({made})"))
}

impl All {
    fn add(&mut self, node: Shared) {
        let sum = &mut self.sum;
        let of = &mut sum.allocation;
        (of.base, of.small) = (node.allocation.base, node.allocation.small);
        of.bytes = of.bytes.max(node.allocation.bytes);
        of.made = of.made.take().or(node.allocation.made);
        sum.faults = sum.faults.saturating_add(node.faults);
        sum.apart = sum.apart.saturating_add(node.apart);
        sum.beside = sum.beside.saturating_add(node.beside);
        sum.place = [sum.place, node.place].into_iter().flatten().max_by_key(|(_, more)| *more);
        sum.again = sum.again.saturating_add(node.again);
        sum.too_fine = sum.too_fine.saturating_add(node.too_fine);
        sum.refetches.all = sum.refetches.all.saturating_add(node.refetches.all);
        sum.refetches.apart = sum.refetches.apart.saturating_add(node.refetches.apart);
        self.apart += usize::from(node.apart > 0 || node.beside > 0);
        self.writers += usize::from(node.writes);
    }

    /// Traps for a part of which nobody else wrote the place of the trap.
    fn spared(&self) -> u64 {
        self.sum.apart.saturating_add(self.sum.beside)
    }

    fn percent(&self, part: u64) -> u64 {
        percent(part, self.sum.faults)
    }

    fn is_worth_saying(&self, spared: u64) -> bool {
        spared >= WORTH_SAYING && self.percent(spared) >= PERCENT_WORTH_SAYING
    }

    fn is_too_coarse(&self) -> bool {
        self.apart > 1 && self.writers > 0 && self.is_worth_saying(self.spared())
    }

    fn is_too_fine(&self) -> bool {
        self.is_worth_saying(self.sum.too_fine)
    }

    fn is_written_apart(&self) -> bool {
        let Refetches { all, apart } = self.sum.refetches;
        apart >= WORTH_SAYING && percent(apart, all) >= PERCENT_WORTH_SAYING
    }

    fn has_most(&self, job_faults: u64) -> bool {
        self.sum.faults >= WORTH_SAYING && percent(self.sum.faults, job_faults) >= PERCENT_MOST
    }

    /// How a line begins: how many traps, what part of the job's, and of what.
    fn subject(&self, title: &str, job_faults: u64) -> String {
        let (sum, of) = (&self.sum, &self.sum.allocation);
        format!(
            "  {title:<8}{:>12} faults, {} % of all, on the allocation of {}{}",
            quantity("faults", sum.faults),
            percent(sum.faults, job_faults),
            quantity("bytes", of.bytes),
            place_of(of),
        )
    }

    fn line_of_most(&self, job_faults: u64) -> String {
        format!(
            "{}: nodes need what others wrote there, or use it for the first time; longer turns, or a part for each node, \
             would avoid some\n",
            self.subject("most", job_faults),
        )
    }

    fn line_of_written_apart(&self) -> String {
        let Shared { allocation, refetches, .. } = &self.sum;
        let (what, parts, advice) = match allocation.small {
            true => ("allocations of up to", "allocations", "a grain (mg_malloc_with)"),
            false => (
                "the allocation of",
                "parts",
                "parts that begin a minipage (a page, or its grain) each",
            ),
        };
        format!(
            "  sharing {:>12} pages fetched again of {what} {}{}: nodes write different {parts} of a page between \
             barriers or locks; if a node uses its own alone, {advice} would avoid up to {} %\n",
            quantity("faults", refetches.all),
            quantity("bytes", allocation.bytes),
            place_of(allocation),
            percent(refetches.apart, refetches.all),
        )
    }

    fn line_of_too_fine(&self, job_faults: u64) -> String {
        format!(
            "{}: a node uses neighbouring minipages together; minipages of a page (mg_malloc, or mg_malloc_grain of 4096) would \
             avoid about {} %, if other nodes do not write between them\n",
            self.subject("grain", job_faults),
            self.percent(self.sum.too_fine),
        )
    }

    fn line_of_too_coarse(&self, job_faults: u64) -> String {
        let sum = &self.sum;
        let again = self.percent(sum.again);
        let avoided = match (self.percent(sum.apart), self.percent(self.spared())) {
            (least, most) if least == most => format!("at least {least} %"),
            (0, most) => format!("up to {most} %"),
            // Neighbours in a cache line may be of one thing, or of several.
            (least, most) => format!("{least} to {most} %"),
        };
        let place = match sum.place {
            // More traps there than at all other places of its minipage together.
            Some((place, more)) if more * PLACE_PARTS >= self.spared() => {
                format!(", most often at its byte {}", quantity("faults", place))
            }
            _ => String::new(),
        };
        let lazy = if again >= PERCENT_WORTH_SAYING {
            format!(
                "; lazy release (--consistency, or mg_malloc_with), if no thread polls there, at least {again} %"
            )
        } else {
            String::new()
        };
        format!(
            "{}{place}: {} nodes use different parts of its \
             minipages; a minipage for each part (mg_malloc_array) would avoid {avoided}, but for what a node reads of \
             the others' parts{lazy}\n",
            self.subject("sharing", job_faults),
            self.apart,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(sharing: &str) -> Map<String, Value> {
        let faults = r#""read_faults": 20000, "write_faults": 10000"#;
        serde_json::from_str(&format!(r#"{{{faults}, "sharing": {sharing}}}"#)).unwrap()
    }

    fn node(faults: u64, apart: u64, made: Option<&str>) -> Shared {
        let made = made.map(str::to_owned);
        Shared {
            allocation: Allocation { base: 4096, bytes: 1 << 20, made, small: false },
            faults,
            apart,
            again: faults / 2,
            writes: true,
            ..Shared::default()
        }
    }

    fn lines_of(nodes: &[Shared]) -> String {
        let all: Vec<_> =
            nodes.iter().map(|node| stats(&serde_json::to_string(&[node]).unwrap())).collect();
        lines(all.iter())
    }

    #[test]
    fn the_allocation_is_named_with_what_all_nodes_counted() {
        let nodes = [node(6000, 5600, Some("main, lu.c:88")), node(6400, 5932, None)];
        assert_eq!(
            lines_of(&nodes),
            "  sharing       12,400 faults, 20 % of all, on the allocation of 1.0 MiB (main, lu.c:88): 2 nodes use \
             different parts of its minipages; a minipage for each part (mg_malloc_array) would avoid at \
             least 93 %, but for what a node reads of the others' parts; lazy release (--consistency, or mg_malloc_with), if no thread polls there, at least 50 %\n"
        );
    }

    #[test]
    fn counters_side_by_side_are_named_with_their_place() {
        let counter =
            |place| Shared { beside: 3000, place: Some((place, 2900)), ..node(3100, 0, None) };
        assert_eq!(
            lines_of(&[counter(16), counter(24)]),
            "  sharing        6,200 faults, 10 % of all, on the allocation of 1.0 MiB, most often at its byte 24: 2 nodes use \
             different parts of its minipages; a minipage for each part (mg_malloc_array) would avoid up to 96 %, \
             but for what a node reads of the others' parts; lazy release (--consistency, or mg_malloc_with), if no thread polls there, at least 50 %\n"
        );
    }

    #[test]
    fn there_is_no_line_for_few_faults_or_one_node_or_true_sharing() {
        assert_eq!(lines_of(&[node(600, 200, None), node(600, 200, None)]), "");
        assert_eq!(lines_of(&[node(6000, 5000, None), node(6000, 0, None)]), "");
        assert_eq!(lines_of(&[node(14900, 500, None), node(14900, 500, None)]), "");
        assert_eq!(lines(core::iter::once(&stats("7"))), "");
    }

    #[test]
    fn pages_that_nodes_write_different_parts_of_are_named_under_release_consistency() {
        let fetched = |apart| Shared {
            refetches: Refetches { all: 32_000, apart },
            ..node(0, 0, Some("main, lu.c:88"))
        };
        assert_eq!(
            lines_of(&[fetched(31_000), fetched(30_000)]),
            "  sharing       64,000 pages fetched again of the allocation of 1.0 MiB (main, lu.c:88): nodes write \
             different parts of a page between barriers or locks; if a node uses its own alone, parts that begin a minipage (a \
             page, or its grain) each would avoid up to 95 %\n"
        );
        assert_eq!(lines_of(&[fetched(400), fetched(0)]), "", "few");
        assert_eq!(lines_of(&[fetched(8_000), fetched(7_000)]), "", "a small part");
        let mut small = fetched(31_000);
        (small.allocation.small, small.allocation.bytes) = (true, 256);
        let small = lines_of(&[small]);
        let said = "again of allocations of up to 256 B (main, lu.c:88): nodes write different allocations of a page";
        assert!(
            small.contains(said)
                && small.contains("a grain (mg_malloc_with) would avoid up to 96 %"),
            "{small}"
        );
    }

    #[test]
    fn the_allocation_with_most_of_the_faults_is_named_once() {
        let made = Some("main, queue.c:7");
        assert_eq!(
            lines_of(&[node(15000, 500, made), node(15000, 500, None)]),
            "  most          30,000 faults, 50 % of all, on the allocation of 1.0 MiB (main, queue.c:7): nodes need what \
             others wrote there, or use it for the first time; longer turns, or a part for each node, would avoid some\n"
        );
        let said = lines_of(&[node(15000, 14000, made), node(15000, 14000, None)]);
        assert!(said.starts_with("  sharing ") && said.lines().count() == 1, "{said}");
    }

    #[test]
    fn an_allocation_whose_minipages_are_used_together_is_named() {
        let used = |too_fine| Shared { too_fine, ..node(6000, 0, Some("main, mesh.c:12")) };
        assert_eq!(
            lines_of(&[used(5500), used(5000)]),
            "  grain         12,000 faults, 20 % of all, on the allocation of 1.0 MiB (main, mesh.c:12): a node uses neighbouring \
             minipages together; minipages of a page (mg_malloc, or mg_malloc_grain of 4096) would avoid about 87 %, \
             if other nodes do not write between them\n"
        );
        assert_eq!(lines_of(&[used(499)]), "", "few");
        assert_eq!(lines_of(&[used(1000)]), "", "a small part");
        let both = [Shared { too_fine: 1500, ..node(3000, 2000, None) }, node(3000, 2000, None)];
        assert_eq!(lines_of(&both).lines().count(), 2);
    }
}
