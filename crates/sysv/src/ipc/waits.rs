//! Who waits, and for what: in words for the user.

use core::fmt;

use super::call::{CallId, Process};

/// A call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The call.
    pub call: CallId,
    /// Who has made it.
    pub process: Process,
    /// Since when, in seconds since the epoch.
    pub since: i64,
    /// For what.
    pub object: WaitedFor,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitedFor {
    /// A semaphore of a set: the operation that cannot be carried out.
    Semaphore {
        /// The set.
        set: Named,
        /// Which of its semaphores.
        number: u16,
        /// As `sem_op`: 0, or less than 0.
        change: i16,
    },
    /// A message in a queue: `msgtyp` of msgrcv.
    Message {
        /// The queue.
        queue: Named,
        /// 0 for any.
        kind: i64,
    },
    /// Room in a queue.
    Room(Named),
    /// A POSIX semaphore of this name, if it has one still.
    Posix(Option<Vec<u8>>),
}

/// An object by its id and its key, 0 for IPC_PRIVATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The id.
    pub id: i32,
    /// The key.
    pub key: i32,
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            libc::IPC_PRIVATE => write!(out, "{} (private)", self.id),
            key => write!(out, "{} (key {key:#x})", self.id),
        }
    }
}

impl fmt::Display for WaitedFor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Semaphore { set, number, change: 0 } => {
                write!(out, "for semaphore {number} of set {set} to become 0")
            }
            Self::Semaphore { set, number, change } => {
                write!(
                    out,
                    "for semaphore {number} of set {set} to reach {}",
                    change.unsigned_abs()
                )
            }
            Self::Message { queue, kind: 0 } => write!(out, "for a message in queue {queue}"),
            Self::Message { queue, kind } => {
                write!(out, "for a message of type {kind} in queue {queue}")
            }
            Self::Room(queue) => write!(out, "for room in queue {queue}"),
            Self::Posix(Some(name)) => {
                write!(out, "for the POSIX semaphore /{}", name.escape_ascii())
            }
            Self::Posix(None) => out.write_str("for a POSIX semaphore without a name"),
        }
    }
}

/// Parts of a line that are named; the others are counted.
const MOST_PARTS: usize = 12;

/// Who waits, in words: nothing if nobody does.
#[must_use]
pub fn in_words(waits: &[Wait], now: i64) -> String {
    let part = |Wait { process, since, object, .. }: &Wait| {
        let seconds = now.saturating_sub(*since).max(0);
        format!("pid {} of node {} has waited {seconds} s {object}", process.pid, process.site)
    };
    let mut parts: Vec<String> = waits.iter().take(MOST_PARTS).map(part).collect();
    match waits.len().saturating_sub(MOST_PARTS) {
        0 => {}
        more => parts.push(format!("and {more} more")),
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_said_with_the_object_the_time_and_the_place() {
        let (set, queue) = (Named { id: 5, key: 0x1234 }, Named { id: 2, key: 0 });
        let wait = |number, object| Wait {
            call: CallId { site: 1, number },
            process: Process { site: 1, pid: 70 },
            since: 100,
            object,
        };
        let both = [
            wait(1, WaitedFor::Semaphore { set, number: 3, change: -2 }),
            wait(2, WaitedFor::Message { queue, kind: 7 }),
        ];
        let words = "pid 70 of node 1 has waited 4 s for semaphore 3 of set 5 (key 0x1234) to reach 2; \
                     pid 70 of node 1 has waited 4 s for a message of type 7 in queue 2 (private)";
        assert_eq!(in_words(&both, 104), words);
        let zero = WaitedFor::Semaphore { set, number: 0, change: 0 };
        assert_eq!(zero.to_string(), "for semaphore 0 of set 5 (key 0x1234) to become 0");
        let named = WaitedFor::Posix(Some(b"a\nb".to_vec()));
        assert_eq!(named.to_string(), "for the POSIX semaphore /a\\nb");
        let many: Vec<Wait> = (0..14).map(|number| wait(number, WaitedFor::Room(queue))).collect();
        assert!(in_words(&many, 99).ends_with("room in queue 2 (private); and 2 more"));
        assert_eq!(in_words(&[], 0), "");
    }
}
