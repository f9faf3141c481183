//! A shortage of descriptors or memory: where the program has all that its process may have, and not for long, who connects
//! waits in the listener's queue.

use core::time::Duration;
use rustix::io::Errno;
use std::time::Instant;

/// How long it may last: where others have used up what the host has, and where the program has all that its own limit allows,
/// which is to be said within 5 s.
const MOST: Duration = Duration::from_secs(10);
const MOST_OF_PROGRAM: Duration = Duration::from_secs(4);
/// Between two tries: the listener stays ready meanwhile.
const RETRY: Duration = Duration::from_millis(50);

/// Since when there is one.
#[derive(Debug, Default)]
pub(super) struct Shortage(Option<Instant>);

impl Shortage {
    /// There is none (any more).
    pub(super) fn is_over(&mut self) {
        self.0 = None;
    }

    /// Waits a moment if this is one; whether it may end.
    pub(super) fn wait(&mut self, errno: Errno) -> bool {
        if !is_of_limit(errno) {
            return false;
        }
        let since = *self.0.get_or_insert_with(Instant::now);
        std::thread::sleep(RETRY);
        since.elapsed() < if is_of_program(errno) { MOST_OF_PROGRAM } else { MOST }
    }
}

/// Whether it is the program that has all its process may have.
pub(super) fn is_of_program(errno: Errno) -> bool {
    errno == Errno::MFILE
}

/// Whether a limit of this process or host was met: a matter of its own, and of now.
pub(super) fn is_of_limit(errno: Errno) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS].contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_that_is_over_does_not_count_for_the_next() {
        let mut shortage = Shortage::default();
        assert!(!shortage.wait(Errno::INVAL), "that is none");
        let long_ago = Instant::now().checked_sub(2 * MOST).unwrap();
        shortage.0 = Some(long_ago);
        assert!(!shortage.wait(Errno::MFILE) && !shortage.wait(Errno::NFILE));
        shortage.0 = Instant::now().checked_sub(MOST_OF_PROGRAM);
        assert!(!shortage.wait(Errno::MFILE) && shortage.wait(Errno::NFILE));
        shortage.is_over();
        assert!(shortage.wait(Errno::MFILE));
    }
}
