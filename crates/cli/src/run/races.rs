//! Races that nodes report: the first of each object is printed at once, the others are counted.

use std::collections::BTreeMap;

/// The races of a job.
#[derive(Debug)]
pub(super) struct Races {
    all: bool,
    /// By object, how many there were behind the first.
    more: BTreeMap<String, usize>,
}

impl Races {
    /// None so far. `all`: each is said.
    pub(super) fn new(all: bool) -> Self {
        Self { all, more: BTreeMap::new() }
    }

    /// A node has reported one; the line about it, if there is to be one.
    pub(super) fn receive(&mut self, object: String, text: String) -> Option<String> {
        let known = self.more.get_mut(&object);
        if let Some(more) = known.filter(|_| !self.all) {
            *more += 1;
            return None;
        }
        self.more.insert(object, 0);
        Some(format!("race: {text}"))
    }

    /// The job is over: what was not said.
    pub(super) fn end(&mut self) -> Vec<String> {
        let more = core::mem::take(&mut self.more).into_iter().filter(|(_, more)| *more > 0);
        more.map(|(object, more)| format!("race: and {more} more like it of {object}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_object_the_first_race_is_said_and_the_others_are_counted() {
        let mut races = Races::new(false);
        let mut receive = |object: &str, text: &str| races.receive(object.into(), text.into());
        assert_eq!(receive("a", "1").as_deref(), Some("race: 1"));
        assert_eq!(receive("b", "2").as_deref(), Some("race: 2"));
        assert_eq!((receive("a", "3"), receive("a", "4")), (None, None));
        assert_eq!(races.end(), ["race: and 2 more like it of a"]);
        assert_eq!(races.end(), [""; 0]);
    }

    #[test]
    fn all_are_said_if_that_is_wanted() {
        let mut races = Races::new(true);
        for text in ["1", "2"] {
            assert_eq!(races.receive("a".into(), text.into()), Some(format!("race: {text}")));
        }
        assert_eq!(races.end(), [""; 0]);
    }
}
