//! The environment variables of a node: which there are, and which values they may have.

use core::ops::RangeInclusive;
use std::ffi::OsString;
use std::os::fd::RawFd;

use crate::error::Error;

/// Variables that a user may set, without the prefix `MULTIGRAIN_`.
pub(super) const SETTINGS: [&str; 20] = [
    "BOOT_SECONDS",
    "CHECK_RACES",
    "CHUNK",
    "CONSISTENCY",
    "EMULATE",
    "ENCRYPT",
    "GUARD",
    "HANDSHAKE",
    "INTERFACE",
    "LEARN",
    "MANAGER",
    "PATH",
    "PORTS",
    "SERVICE",
    "SHARED",
    "SHARING",
    "THREADS",
    "TRACKING",
    "TRANSPORT",
    "WAIT",
];

/// Variables that launcher, agents, nodes and tools set for each other.
pub(super) const OWN: [&str; 12] = [
    "ADDRESSES_FIXED",
    "CONTROL_FD",
    "INJECT",
    "JOB",
    "LISTEN_FD",
    "MUTANT",
    "NODES",
    "PART",
    "PEERS",
    "PROGRAMS",
    "RANK",
    "SECRET_FD",
];

/// Whether a variable of this name, without the prefix, is one of Multigrain's.
pub(super) fn is_known(name: &str) -> bool {
    SETTINGS.contains(&name) || OWN.contains(&name)
}

/// The variables of a node, by their names without the prefix `MULTIGRAIN_`.
pub(crate) struct Variables<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl<'a> Variables<'a> {
    /// Those of an environment.
    pub(crate) fn new(environment: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self(environment)
    }

    /// One that is set, and not empty.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it is no text.
    pub(crate) fn get(&self, name: &str) -> Result<Option<String>, Error> {
        debug_assert!(is_known(name), "{name} is in one of the lists above");
        match (self.0)(&format!("MULTIGRAIN_{name}")).map(OsString::into_string) {
            Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(Err(_)) => Err(wrong(name, "(not text)")),
            None => Ok(None),
        }
    }

    pub(super) fn required(&self, name: &str) -> Result<String, Error> {
        self.get(name)?.ok_or_else(|| {
            Error::Invalid(format!(
                "MULTIGRAIN_RANK is set but MULTIGRAIN_{name} is not; start the program with `multigrain run`"
            ))
        })
    }
}

pub(super) fn wrong(name: &str, text: &str) -> Error {
    Error::Invalid(format!("MULTIGRAIN_{name} cannot be {text}"))
}

pub(super) fn number<T>(name: &str, text: &str, range: RangeInclusive<T>) -> Result<T, Error>
where
    T: core::str::FromStr + PartialOrd + core::fmt::Display,
{
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        wrong(name, &format!("{text}: it is a number from {least} to {most}"))
    })
}

pub(super) fn descriptor(name: &str, text: &str) -> Result<RawFd, Error> {
    number(name, text, 0..=RawFd::MAX)
}

/// The one of these choices that a variable's text is.
///
/// # Errors
/// [`Error::Invalid`] with the choices.
pub(crate) fn choose<T: Copy>(name: &str, text: &str, choices: &[(&str, T)]) -> Result<T, Error> {
    let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    chosen.ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        wrong(name, &format!("{text}: it is {}", words.join(" or ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_named_and_so_is_what_would() {
        let error = choose("WAIT", "doze", &[("spin", 1), ("block", 2)]).unwrap_err().to_string();
        assert_eq!(error, "invalid argument: MULTIGRAIN_WAIT cannot be doze: it is spin or block");
        let error = descriptor("LISTEN_FD", "-1").unwrap_err().to_string();
        let words = "MULTIGRAIN_LISTEN_FD cannot be -1: it is a number from 0 to 2147483647";
        assert_eq!(error, format!("invalid argument: {words}"));
        for (text, range) in [("1G", 1..=9), ("0", 1..=9), ("99999999999", 1..=9)] {
            let error = number::<u32>("CHUNK", text, range).unwrap_err().to_string();
            let words = format!("MULTIGRAIN_CHUNK cannot be {text}: it is a number from 1 to 9");
            assert_eq!(error, format!("invalid argument: {words}"));
        }
    }
}
