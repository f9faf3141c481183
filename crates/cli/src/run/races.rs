//! Races that nodes report: the first of each object is printed at once, of objects that the program made at one place those of
//! the first two; the others are counted. Where there are none, a line says what was looked at.

use super::facts::{Init, NodeFacts};
use multigrain_types::phrases::NO_RACES_CHECKED;
use std::collections::BTreeMap;

/// Objects made at one place whose races are lines: one lock that is missing is a race of each element of a list.
const OBJECTS_OF_A_PLACE: usize = 2;

/// Whether a job is checked for races, and which of them are lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// It is not.
    Off,
    /// The first of each object is a line.
    First,
    /// Each is a line.
    All,
}

/// How a job has ended, for what it means that it had no race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All nodes have left in order.
    Complete,
    /// It ended well, and no node ever joined.
    NobodyJoined,
    /// Some writes may not have been compared.
    Cut,
}

impl Outcome {
    /// Of a job of these nodes that ended well, or failed; none if it failed as it started.
    pub(super) fn of(nodes: &[NodeFacts], good: bool) -> Option<Self> {
        let all = |is: fn(&NodeFacts) -> bool| nodes.iter().all(is);
        match good {
            true if all(|node| node.left) => Some(Self::Complete),
            true if all(|node| node.init == Init::NotBegun) => Some(Self::NobodyJoined),
            false if all(|node| node.is_ready()) => Some(Self::Cut),
            true | false => None,
        }
    }
}

/// The races of a job.
#[derive(Debug)]
pub(super) struct Races {
    check: Check,
    nodes: usize,
    /// By object, how many there were behind the first.
    more: BTreeMap<String, usize>,
    /// By what was made, and where: how many objects have lines, and how many races other ones had.
    made: BTreeMap<String, (usize, usize)>,
    /// A node has said that there was nothing to look at.
    unchecked: bool,
}

impl Races {
    /// None so far, of so many nodes.
    pub(super) fn new(nodes: usize, check: Check) -> Self {
        Self { check, nodes, more: BTreeMap::new(), made: BTreeMap::new(), unchecked: false }
    }

    /// A node has reported one; the line about it, if there is to be one.
    pub(super) fn receive(&mut self, object: String, text: String) -> Option<String> {
        let known = self.more.get_mut(&object);
        if let Some(more) = known.filter(|_| self.check != Check::All) {
            *more += 1;
            return None;
        }
        if let Some(made) = made(&object).filter(|_| self.check != Check::All) {
            let (objects, more) = self.made.entry(made).or_default();
            if *objects == OBJECTS_OF_A_PLACE {
                *more += 1;
                return None;
            }
            *objects += 1;
        }
        self.more.insert(object, 0);
        Some(format!("race: {text}"))
    }

    /// A node has said something, which may be that it had nothing to look at.
    pub(super) fn hear(&mut self, note: &str) {
        self.unchecked |= note.starts_with(NO_RACES_CHECKED);
    }

    /// The job is over: what was not said. None of a job that failed as it started.
    pub(super) fn end(&mut self, outcome: Option<Outcome>) -> Vec<String> {
        if let Some(outcome) = outcome
            && self.check != Check::Off
            && self.more.is_empty()
            && !self.unchecked
        {
            return vec![none_found(self.nodes, outcome)];
        }
        let of_objects = core::mem::take(&mut self.more).into_iter();
        let of_objects = of_objects
            .filter(|(_, more)| *more > 0)
            .map(|(object, more)| format!("race: and {more} more like it of {object}"));
        let of_others = core::mem::take(&mut self.made).into_iter();
        let of_others = of_others
            .filter(|(_, (_, more))| *more > 0)
            .map(|(made, (_, more))| format!("race: and {more} more of others like {made}"));
        of_objects.chain(of_others).collect()
    }
}

/// An object without its address, if it is said where the program made it.
fn made(object: &str) -> Option<String> {
    let (what, address) = object.split_once(" at 0x")?;
    let (_, place) = address.split_once(' ')?;
    place.contains(" in ").then(|| format!("{what} {place}"))
}

/// What it means that there was none (docs/TOOLS.md).
fn none_found(nodes: usize, outcome: Outcome) -> String {
    if nodes == 1 {
        return format!(
            "{NO_RACES_CHECKED}: writes of several nodes are compared, and this job has one (-n)"
        );
    }
    let when = match outcome {
        Outcome::NobodyJoined => return format!("{NO_RACES_CHECKED}: no node called mg_init"),
        Outcome::Complete => "",
        Outcome::Cut => " before the job failed",
    };
    format!(
        "no race was found{when} between writes of the {nodes} nodes to release-consistent memory; reads, threads of one \
         node and sequentially consistent memory were not checked"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_objects_made_at_one_place_two_have_lines() {
        let object = |address: usize, place: &str| {
            format!("the allocation of 64 bytes at {address:#x} made by node 0{place}")
        };
        let lines = |check, place: &str| {
            let mut races = Races::new(2, check);
            let said: Vec<_> =
                (0..5).filter_map(|at| races.receive(object(at, place), at.to_string())).collect();
            assert_eq!(races.receive(object(0, place), "0".into()).is_some(), check == Check::All);
            (said.len(), races.end(Some(Outcome::Complete)))
        };
        let (count, end) = lines(Check::First, " in main (list.c:7)");
        let again = format!("race: and 1 more like it of {}", object(0, " in main (list.c:7)"));
        let made = "the allocation of 64 bytes made by node 0 in main (list.c:7)";
        assert_eq!(
            (count, end),
            (2, vec![again, format!("race: and 3 more of others like {made}")])
        );
        assert_eq!(lines(Check::First, "").0, 5, "nobody knows where");
        assert_eq!(lines(Check::All, " in main (list.c:7)"), (5, Vec::new()));
    }

    #[test]
    fn of_each_object_the_first_race_is_said_and_the_others_are_counted() {
        let mut races = Races::new(2, Check::First);
        let mut receive = |object: &str, text: &str| races.receive(object.into(), text.into());
        assert_eq!(receive("a", "1").as_deref(), Some("race: 1"));
        assert_eq!(receive("b", "2").as_deref(), Some("race: 2"));
        assert_eq!((receive("a", "3"), receive("a", "4")), (None, None));
        assert_eq!(races.end(Some(Outcome::Complete)), ["race: and 2 more like it of a"]);
    }

    #[test]
    fn all_are_said_if_that_is_wanted() {
        let mut races = Races::new(2, Check::All);
        for text in ["1", "2"] {
            assert_eq!(races.receive("a".into(), text.into()), Some(format!("race: {text}")));
        }
        assert_eq!(races.end(Some(Outcome::Complete)), [""; 0]);
    }

    #[test]
    fn that_there_was_none_is_said_where_it_means_something() {
        let of = |nodes, check, outcome| Races::new(nodes, check).end(Some(outcome));
        for check in [Check::First, Check::All] {
            let line = "no race was found between writes of the 3 nodes to release-consistent memory; reads, threads of one \
                        node and sequentially consistent memory were not checked";
            assert_eq!(of(3, check, Outcome::Complete), [line]);
            let failed = line.replacen("found", "found before the job failed", 1);
            assert_eq!(of(3, check, Outcome::Cut), [failed]);
            let nobody = of(3, check, Outcome::NobodyJoined);
            assert_eq!(nobody, [format!("{NO_RACES_CHECKED}: no node called mg_init")]);
        }
        assert_eq!(of(3, Check::Off, Outcome::Complete), [""; 0]);
        let alone = of(1, Check::First, Outcome::Complete);
        assert!(alone[0].starts_with(NO_RACES_CHECKED) && alone[0].contains("one"), "{alone:?}");
        let mut unchecked = Races::new(3, Check::First);
        unchecked.hear(&format!("{NO_RACES_CHECKED}: no memory"));
        assert_eq!(unchecked.end(Some(Outcome::Complete)), [""; 0], "a node has said it");
    }
}
