//! Ids of locks, read-write locks, barriers, semaphores, conditions and onces: numbers of the program, and addresses.

use core::fmt;

/// Ids up to here are numbers; those above are addresses, or [`ONCE`] and a number or an address.
pub const NUMBERS: u64 = u32::MAX as u64;

/// Added to the id of what runs once: the lock and the semaphore that see to it have ids that no others have.
pub const ONCE: u64 = 1 << 63;

/// Added to the id of a barrier that is a collective operation; above all addresses, below what other marks
/// of ids use.
pub const COLLECTIVE: u64 = 1 << 55;

/// Added to the id of a barrier of all threads of a job: it goes by the tree of the job, if that has one, and is
/// no barrier of some threads with the same id.
pub const WHOLE: u64 = 1 << 54;

/// An id as a program knows it.
#[derive(Clone, Copy, Debug)]
pub struct IdName(pub u64);

impl fmt::Display for IdName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.0 & (ONCE | COLLECTIVE) {
            ONCE => "of once ",
            COLLECTIVE => "of collective ",
            _ => "",
        };
        match self.0 & !(ONCE | COLLECTIVE | WHOLE) {
            number @ ..=NUMBERS => write!(f, "{of}{number}"),
            address => write!(f, "{of}at {address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_named_as_the_program_names_it() {
        let ids = [WHOLE | 7, 0x2000_0000_0040, ONCE | 7, ONCE | 0x2000_0000_0040, COLLECTIVE | 7];
        let names = ids.map(IdName);
        let names = names.map(|name| name.to_string());
        assert_eq!(names[..2], ["7", "at 0x200000000040"]);
        assert_eq!(names[2..], ["of once 7", "of once at 0x200000000040", "of collective 7"]);
    }
}
