//! Migratory data: what a node reads and then writes each time it has it is fetched for writing at once, which saves
//! the upgrade (Cox and Fowler; Stenstrom, Brorsson and Sandberg: both ISCA 1993; ADR 47).
//!
//! Each node learns alone, from its own faults in critical sections; the protocol sees write faults. An upgrade
//! of what was fetched for reading is a *sign*, and after [`SIGNS`] in a row the next fetch is for writing. From
//! then on no fault tells whether the guess was right, but the contents do: those of a copy that was taken away
//! stay in place until another one arrives, so a checksum says whether it was written here. A copy that was taken
//! away unwritten, or that lost its write access before it was written, was a wrong guess: twice as many signs
//! are needed then.

use multigrain_protocol::Kind;
use multigrain_types::{Access, MinipageId};

/// Signs in a row before a guess.
const SIGNS: u8 = 2;
/// The most that are ever needed.
const MOST_SIGNS: u8 = 64;
/// Minipages that are followed: two that fall to one place take turns.
const PLACES: usize = 4096;

/// What is known of the last time that a minipage was fetched here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// Nothing that says how it is used.
    Unknown,
    /// It was fetched to read, and not written since.
    Read,
    /// It was fetched to write when it was to be read; its checksum as it came.
    Guessed(u64),
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    minipage: MinipageId,
    last: Last,
    /// In a row.
    signs: u8,
    needed: u8,
}

/// Which minipages are migratory, as far as a node has seen.
#[derive(Debug, Default)]
pub(super) struct Migratory {
    /// Empty before the first fault.
    places: Vec<Option<Followed>>,
}

impl Migratory {
    /// A thread that has `access` to a minipage needs it for `kind`: whether it is fetched to write though it is
    /// to be read. `checksum`: of the contents here, which may be out of date.
    pub(super) fn need(
        &mut self,
        minipage: MinipageId,
        (kind, access): (Kind, Access),
        checksum: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let followed = self.place(minipage);
        let unwritten = match followed.last {
            Last::Guessed(came) => checksum() == Some(came),
            Last::Unknown | Last::Read => false,
        };
        if unwritten {
            followed.signs = 0;
            followed.needed = followed.needed.saturating_mul(2).min(MOST_SIGNS);
        }
        match (kind, access) {
            (Kind::Write, Access::ReadOnly) => {
                if followed.last == Last::Read {
                    followed.signs = followed.signs.saturating_add(1);
                }
                followed.last = Last::Unknown;
            }
            (Kind::Read, Access::NoAccess) => {
                match followed.last {
                    // It was read alone.
                    Last::Read => followed.signs = 0,
                    Last::Guessed(_) if !unwritten => {
                        followed.needed = (followed.needed / 2).max(SIGNS);
                    }
                    Last::Guessed(_) | Last::Unknown => {}
                }
                followed.last = Last::Read;
                return followed.signs >= followed.needed;
            }
            (Kind::Write, _) | (Kind::Read, _) => followed.last = Last::Unknown,
        }
        false
    }

    /// It has come to write, as was guessed.
    pub(super) fn came(&mut self, minipage: MinipageId, checksum: u64) {
        self.place(minipage).last = Last::Guessed(checksum);
    }

    fn place(&mut self, minipage: MinipageId) -> &mut Followed {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        // Neighbours lie beside each other, areas apart.
        let place =
            (minipage.index() as usize).wrapping_add(minipage.area().0 as usize * 97) % PLACES;
        let new = Followed { minipage, last: Last::Unknown, signs: 0, needed: SIGNS };
        let followed = self.places[place].get_or_insert(new);
        if followed.minipage != minipage {
            *followed = new;
        }
        followed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    /// A node that fetches one minipage.
    #[derive(Default)]
    struct Fetches {
        migratory: Migratory,
        contents: u64,
    }

    const MINIPAGE: MinipageId = MinipageId::new(AreaId(3), 5);

    impl Fetches {
        /// It has no copy and reads: whether it gets it to write.
        fn read(&mut self) -> bool {
            let contents = self.contents;
            let need = (Kind::Read, Access::NoAccess);
            let guessed = self.migratory.need(MINIPAGE, need, || Some(contents));
            if guessed {
                self.contents += 1000;
                self.migratory.came(MINIPAGE, self.contents);
            }
            guessed
        }

        /// It writes what it has to read.
        fn upgrade(&mut self) {
            let contents = self.contents;
            let need = (Kind::Write, Access::ReadOnly);
            assert!(!self.migratory.need(MINIPAGE, need, || Some(contents)));
            self.contents += 1;
        }

        /// Reads, and writes: whether that was one fetch.
        fn read_and_write(&mut self) -> bool {
            let guessed = self.read();
            if guessed {
                self.contents += 1;
            } else {
                self.upgrade();
            }
            guessed
        }
    }

    #[test]
    fn what_was_read_and_written_twice_is_fetched_to_write() {
        let mut node = Fetches::default();
        assert_eq!([(); 5].map(|()| node.read_and_write()), [false, false, true, true, true]);
    }

    #[test]
    fn what_is_read_alone_is_not() {
        let mut node = Fetches::default();
        for _ in 0..10 {
            assert!(!node.read_and_write());
            assert!(!node.read(), "and taken away unwritten");
        }
    }

    #[test]
    fn a_guess_that_was_taken_away_unwritten_needs_twice_as_many_signs() {
        let mut node = Fetches::default();
        (0..2).for_each(|_| _ = node.read_and_write());
        assert!(node.read());
        assert_eq!(
            [(); 6].map(|()| node.read_and_write()),
            [false, false, false, false, true, true]
        );
    }

    #[test]
    fn a_guess_that_lost_its_write_access_before_the_write_was_wrong() {
        let mut node = Fetches::default();
        (0..2).for_each(|_| _ = node.read_and_write());
        assert!(node.read());
        // Another node has read it.
        node.upgrade();
        assert_eq!([(); 2].map(|()| node.read_and_write()), [false, false]);
    }

    #[test]
    fn what_is_written_no_more_is_guessed_ever_less_often() {
        let mut node = Fetches::default();
        let mut wrong = 0;
        for _ in 0..1000 {
            // It looks migratory until it is guessed to be.
            if node.read() {
                wrong += 1;
            } else {
                node.upgrade();
            }
        }
        assert!(wrong <= 5 + 1000 / usize::from(MOST_SIGNS), "{wrong} times");
    }

    #[test]
    fn a_minipage_that_falls_to_the_place_of_another_begins_anew() {
        let mut node = Fetches::default();
        (0..2).for_each(|_| _ = node.read_and_write());
        let other = MinipageId::new(AreaId(3), 5 + u32::try_from(PLACES).unwrap());
        assert!(!node.migratory.need(other, (Kind::Read, Access::NoAccess), || Some(0)));
        assert!(!node.read());
    }
}
