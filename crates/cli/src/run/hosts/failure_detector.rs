//! Whether the other end of a channel is still there, by when its words arrive: an adaptive failure detector.
//!
//! Where words are late because a machine is busy, the next one may be as late: so the timeout is never less than
//! [`TIMES`] the longest recent time between two. Source: Chen, Toueg and Aguilera, On the Quality of Service of
//! Failure Detectors, 2002, section 6 (a timeout by the arrivals of heartbeats), with a maximum that fades in
//! place of a mean, for bursts of load are what delays them.

use std::time::{Duration, Instant};

/// Between two words, at the latest, where nothing is busy.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// The timeout where nothing is busy.
pub(in super::super) const PATIENCE: Duration = Duration::from_secs(3);
/// The timeout where everything is.
const MOST_PATIENCE: Duration = Duration::from_secs(10);
/// The timeout in times between two words.
const TIMES: u32 = 6;
/// After each word the longest time fades to so many eighths.
const FADED_EIGHTHS: u32 = 7;

/// What is known of the other end.
#[derive(Debug)]
pub(super) struct FailureDetector {
    heard: Instant,
    /// When it was last asked for.
    asked: Instant,
    /// The longest recent time between two words.
    longest: Duration,
}

impl FailureDetector {
    pub(super) fn new(now: Instant) -> Self {
        Self { heard: now, asked: now, longest: Duration::ZERO }
    }

    /// A word has arrived.
    pub(super) fn hears(&mut self, now: Instant) {
        let since = now.duration_since(self.heard);
        self.longest = since.max(self.longest * FADED_EIGHTHS / 8);
        self.heard = now;
    }

    /// Its time begins anew.
    pub(super) fn restart(&mut self, now: Instant) {
        self.heard = now;
    }

    /// How long it may be silent.
    pub(super) fn patience(&self) -> Duration {
        (self.longest * TIMES).clamp(PATIENCE, MOST_PATIENCE)
    }

    /// Whether it was silent for longer. A process that was stopped itself looks again before it believes that.
    pub(super) fn suspects(&mut self, now: Instant) -> bool {
        let unseen = now.duration_since(self.asked);
        self.asked = now;
        if unseen > PATIENCE / 2 {
            self.heard = now;
        }
        now.duration_since(self.heard) >= self.patience()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A detector that has received words at these times, in milliseconds, and is asked every 250 ms; when it
    /// suspects the other end.
    fn suspects_at(words: &[u64]) -> u64 {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut one = FailureDetector::new(start);
        for ms in (0..).step_by(50) {
            if words.contains(&ms) {
                one.hears(at(ms));
            }
            if ms % 250 == 0 && one.suspects(at(ms)) {
                return ms;
            }
        }
        unreachable!("some silence is too long")
    }

    #[test]
    fn silence_counts_from_the_last_word() {
        assert_eq!(suspects_at(&[]), 3_000);
        assert_eq!(suspects_at(&[500, 1_000, 1_500]), 4_500);
    }

    #[test]
    fn where_words_are_late_the_next_may_be_as_late_again() {
        // A second and a half between words, then three and a half without one, then none.
        let busy = [500, 1_000, 2_000, 3_500, 7_000];
        assert!(suspects_at(&busy) > 7_000, "3.5 s after gaps of 1.5 s are no end");
        assert_eq!(suspects_at(&busy), 17_000, "yet 10 s are, whatever was before");
    }

    #[test]
    fn what_was_late_once_is_forgotten() {
        let words: Vec<u64> = (2..40).map(|at| at * 500).collect();
        assert_eq!(suspects_at(&words), words[words.len() - 1] + 3_000);
        let late: Vec<u64> = [500, 2_500].into_iter().chain((6..26).map(|at| at * 500)).collect();
        assert_eq!(suspects_at(&late), late[late.len() - 1] + 3_000);
    }

    #[test]
    fn a_process_that_was_stopped_does_not_blame_the_other_end() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut one = FailureDetector::new(start);
        assert!(!one.suspects(at(60)));
        one.hears(at(60));
        assert_eq!(one.patience(), PATIENCE);
    }
}
