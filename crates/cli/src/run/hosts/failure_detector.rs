//! Whether the other end of a channel is still there, by when its messages arrive: an adaptive failure detector.
//!
//! Where heartbeats are late because a machine is busy, the next one may be as late: so the timeout is never less
//! than [`TIMES`] the longest time between two of the last [`WINDOW`]. Source: Chen, Toueg and Aguilera, On the
//! Quality of Service of Failure Detectors, 2002, section 6 (a timeout by the arrivals of recent heartbeats), with
//! their maximum in place of their mean, for bursts of load are what delays them.

use super::super::verdict::LATE_CAUSE_WAIT;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Between two heartbeats.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// The timeout where nothing is late.
const LEAST_TIMEOUT: Duration = Duration::from_secs(3);
/// The same before the nodes run, when less is known of how busy a host is; the end of a job is to come within 5 s of a loss.
const LEAST_AT_START: Duration = Duration::from_millis(4_500);
/// The timeout where everything is late; as long as a verdict waits for what a host may have to say.
const MOST_TIMEOUT: Duration = LATE_CAUSE_WAIT;
/// The timeout in times between two arrivals; those of heartbeats are up to one and a half [`PERIOD`]s apart.
const TIMES: u32 = 3;
/// For how long an arrival counts.
const WINDOW: Duration = Duration::from_secs(10);

/// What is known of the other end.
#[derive(Debug)]
pub(super) struct FailureDetector {
    arrived: Instant,
    /// When it was last asked for.
    asked: Instant,
    /// The nodes run.
    started: bool,
    /// Times between two arrivals, and when they ended: of the last [`WINDOW`], each longer than all that follow.
    late: VecDeque<(Instant, Duration)>,
}

impl FailureDetector {
    pub(super) fn new(now: Instant) -> Self {
        Self { arrived: now, asked: now, started: false, late: VecDeque::new() }
    }

    /// Something has arrived.
    pub(super) fn arrival(&mut self, now: Instant) {
        let since = now.duration_since(self.arrived);
        while self.late.back().is_some_and(|&(_, shorter)| shorter <= since) {
            self.late.pop_back();
        }
        self.late.push_back((now, since));
        self.forget(now);
        self.arrived = now;
    }

    fn forget(&mut self, now: Instant) {
        while self.late.front().is_some_and(|&(at, _)| now.duration_since(at) > WINDOW) {
            self.late.pop_front();
        }
    }

    /// Begins anew: nothing was late, and silence counts from now on.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// The nodes run; silence counts from now on.
    pub(super) fn start(&mut self, now: Instant) {
        self.started = true;
        self.arrived = now;
    }

    /// How long it may be silent.
    pub(super) fn timeout(&self) -> Duration {
        let longest = self.late.front().map_or(Duration::ZERO, |&(_, longest)| longest);
        let least = if self.started { LEAST_TIMEOUT } else { LEAST_AT_START };
        longest.saturating_mul(TIMES).clamp(least, MOST_TIMEOUT)
    }

    /// Whether it was silent for longer. A process that was stopped itself looks again before it believes that.
    pub(super) fn suspects(&mut self, now: Instant) -> bool {
        let unseen = now.duration_since(self.asked);
        self.asked = now;
        if unseen > LEAST_TIMEOUT / 2 {
            self.arrived = now;
        }
        // While it is silent, what was late before it was counts on.
        now.duration_since(self.arrived) >= self.timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(now: Instant) -> FailureDetector {
        let mut one = FailureDetector::new(now);
        one.start(now);
        one
    }

    /// A detector to which messages came at these times, in milliseconds, and that is asked every 250 ms; when it
    /// suspects the other end.
    fn suspects_at(arrivals: &[u64]) -> u64 {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut one = started(start);
        for ms in (0..).step_by(50) {
            for _ in arrivals.iter().filter(|&&arrival| arrival == ms) {
                one.arrival(at(ms));
            }
            if ms % 250 == 0 && one.suspects(at(ms)) {
                return ms;
            }
        }
        unreachable!("some silence is too long")
    }

    #[test]
    fn silence_counts_from_the_last_arrival() {
        assert_eq!(suspects_at(&[]), 3_000);
        assert_eq!(suspects_at(&[500, 1_000, 1_500]), 4_500);
        assert_eq!(suspects_at(&[750, 1_500]), 4_500, "heartbeats that no machine delays");
    }

    #[test]
    fn what_was_late_may_be_as_late_again() {
        // A second and a half without anything, then three and a half, then nothing more.
        let busy = [500, 1_000, 2_000, 3_500, 7_000];
        assert_eq!(suspects_at(&busy[..4]), 3_500 + 4_500);
        assert_eq!(suspects_at(&busy), 17_000, "10 s are enough, whatever was before");
    }

    #[test]
    fn a_backlog_that_comes_at_once_does_not_make_it_forget() {
        let late: Vec<u64> = [500, 3_000].into_iter().chain([3_000; 100]).collect();
        assert_eq!(suspects_at(&late), 3_000 + 7_500);
    }

    #[test]
    fn what_was_late_long_ago_is_forgotten() {
        let late: Vec<u64> = [500, 2_500].into_iter().chain((6..27).map(|at| at * 500)).collect();
        assert_eq!(suspects_at(&late), 13_000 + 3_000);
        let start = Instant::now();
        let mut one = FailureDetector::new(start);
        let at = |seconds| start + Duration::from_secs(seconds);
        one.arrival(at(2));
        one.restart(at(2));
        one.start(at(3));
        assert_eq!(one.timeout(), LEAST_TIMEOUT, "a login may take its time");
    }

    #[test]
    fn less_is_known_of_how_busy_a_host_is_before_its_nodes_run() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut one = FailureDetector::new(start);
        assert_eq!(one.timeout(), LEAST_AT_START);
        one.arrival(at(2_000));
        assert_eq!(one.timeout(), Duration::from_secs(6));
        one.start(at(2_500));
        assert_eq!(one.timeout(), Duration::from_secs(6), "it is as busy as it was");
    }

    #[test]
    fn a_process_that_was_stopped_does_not_blame_the_other_end() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut one = started(start);
        assert!(!one.suspects(at(60)));
        one.arrival(at(60));
        assert_eq!(one.timeout(), LEAST_TIMEOUT);
    }
}
