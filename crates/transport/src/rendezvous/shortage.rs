//! A shortage of descriptors or memory: where the program has all that its process may have, and not for long, who connects
//! waits in the listener's queue.

use core::time::Duration;
use rustix::io::Errno;
use std::time::Instant;

/// How long it may last.
const MOST: Duration = Duration::from_secs(10);
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
        since.elapsed() < MOST
    }
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
        assert!(!shortage.wait(Errno::MFILE));
        shortage.is_over();
        assert!(shortage.wait(Errno::MFILE));
    }
}
