//! What the proof commands have in common: a series of checks that shows its progress, keeps to a time limit, and
//! gives its results as JSON.

use clap::Args;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Unless more is asked for, a series ends within a minute.
const LIMIT_SECONDS: u64 = 55;
/// Progress is said so often at most.
const PERIOD: Duration = Duration::from_secs(1);

/// Options of every series.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SeriesArgs {
    /// Begins nothing that is likely to end after so many seconds; 0 for no such limit [default: 55, and
    /// none if an option says how much is to be done]
    #[arg(long, value_name = "SECONDS")]
    within: Option<u64>,
    /// Prints the results on stdout as one JSON object, and nothing else there
    #[arg(long)]
    json: bool,
}

/// A series that runs.
#[derive(Debug)]
pub(crate) struct Series {
    json: bool,
    limit: Option<Duration>,
    begin: Instant,
    said: Instant,
    done: u64,
    all: u64,
    results: Vec<Value>,
}

impl SeriesArgs {
    /// Begins a series of so many; `sized` if the user has said how many.
    pub(crate) fn begin(&self, all: u64, sized: bool) -> Series {
        let seconds = self.within.unwrap_or(if sized { 0 } else { LIMIT_SECONDS });
        let now = Instant::now();
        Series {
            json: self.json,
            limit: (seconds > 0).then_some(Duration::from_secs(seconds)),
            begin: now,
            said: now,
            done: 0,
            all,
            results: Vec::new(),
        }
    }
}

impl Series {
    /// Whether another one may begin, which is expected to take so long; if so, stderr says now and then
    /// which.
    pub(crate) fn goes_on(&mut self, what: impl core::fmt::Display, expected: Duration) -> bool {
        let end = self.begin.elapsed() + expected;
        if self.done == self.all || self.limit.is_some_and(|limit| end >= limit) {
            return false;
        }
        self.done += 1;
        if self.said.elapsed() >= PERIOD {
            self.said = Instant::now();
            eprintln!("{} of {}: {what}", self.done, self.all);
        }
        true
    }

    /// How long one has taken on average.
    pub(crate) fn mean(&self) -> Duration {
        let done = u32::try_from(self.done).unwrap_or(u32::MAX);
        self.begin.elapsed().checked_div(done).unwrap_or_default()
    }

    /// Lines for people.
    pub(crate) fn say(&self, lines: impl core::fmt::Display) {
        if !self.json {
            println!("{lines}");
        }
    }

    /// A result, for programs.
    pub(crate) fn add(&mut self, result: Value) {
        if self.json {
            self.results.push(result);
        }
    }

    /// How many have begun.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// The end: of a series that the limit has cut short, stderr says so; all results, if they are wanted
    /// as JSON.
    pub(crate) fn end(self, command: &str, holds: bool) {
        if holds && self.done < self.all {
            eprintln!("{}", cut_short(self.done, self.all, self.begin.elapsed()));
        }
        if self.json {
            let object = json!({
                "command": command,
                "version": env!("CARGO_PKG_VERSION"),
                "holds": holds,
                "done": self.done,
                "of": self.all,
                "seconds": self.begin.elapsed().as_secs_f64(),
                "results": self.results,
            });
            println!("{object:#}");
        }
    }
}

/// What is said of a series that the limit has ended: a little before it where the next one would not have fitted.
fn cut_short(done: u64, all: u64, elapsed: Duration) -> String {
    format!("{done} of {all} within {:.0} s; --within 0 does all", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_series_cut_short_is_rounded() {
        let said = cut_short(1, 9, Duration::from_millis(2_981));
        assert_eq!(said, "1 of 9 within 3 s; --within 0 does all");
    }

    #[test]
    fn a_series_ends_at_its_number_or_its_limit() {
        let args = |within| SeriesArgs { within, json: false };
        let mut all = args(None).begin(2, true);
        let soon = Duration::ZERO;
        assert!(all.limit.is_none() && all.goes_on(1, soon) && all.goes_on(2, soon));
        assert!(!all.goes_on(3, soon));
        let mut cut = args(None).begin(2, false);
        assert_eq!(cut.limit, Some(Duration::from_secs(LIMIT_SECONDS)));
        assert!(!cut.goes_on(1, Duration::from_secs(LIMIT_SECONDS)) && cut.done() == 0);
        assert!(cut.goes_on(1, soon) && cut.mean() <= cut.elapsed());
        assert!(args(Some(0)).begin(2, false).limit.is_none());
        assert_eq!(args(Some(7)).begin(2, true).limit, Some(Duration::from_secs(7)));
    }
}
