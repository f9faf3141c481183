//! Strangers that the nodes turned away: who is reported, and when.
//!
//! A node that dies while it joins hangs up on the others as a stranger may do. So what hangs up is
//! reported a moment later, if the job has not failed by then; otherwise the verdict says enough.

use std::collections::BTreeSet;
use std::time::Duration;

/// Different strangers of one node that are reported.
const MOST: usize = 32;
/// How long a line waits that may be about a node of the job.
const WAIT: Duration = Duration::from_secs(1);
/// How a line ends that may be about a node of the job.
const HUNG_UP: &str = "it hung up in the middle of the handshake";

/// What the nodes of a job have said of strangers.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    heard: BTreeSet<(usize, String)>,
    /// Lines that wait, with the end of that, oldest first.
    waiting: Vec<(Duration, String)>,
    failed: bool,
}

impl Strangers {
    /// A node has turned somebody away; the line to be said at once, if there is one.
    pub(super) fn hear(&mut self, rank: usize, text: String, now: Duration) -> Option<String> {
        let many = self.heard.iter().filter(|(of, _)| *of == rank).count() >= MOST;
        if many || !self.heard.insert((rank, text.clone())) {
            return None;
        }
        let line = format!("node {rank}: {text}");
        if !text.ends_with(HUNG_UP) {
            return Some(line);
        }
        if !self.failed {
            self.waiting.push((now + WAIT, line));
        }
        None
    }

    /// When the next line is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// The lines that are due.
    pub(super) fn due(&mut self, now: Duration) -> Vec<String> {
        let waiting = self.waiting.partition_point(|(at, _)| *at <= now);
        self.waiting.drain(..waiting).map(|(_, line)| line).collect()
    }

    /// The job is over: the lines that still waited, unless it has failed.
    pub(super) fn end(&mut self, failed: bool) -> Vec<String> {
        self.failed = failed;
        let lines = core::mem::take(&mut self.waiting);
        if failed { Vec::new() } else { lines.into_iter().map(|(_, line)| line).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(10);

    #[test]
    fn a_stranger_is_reported_once_for_each_node_and_not_too_many_are() {
        let mut strangers = Strangers::default();
        let mut hear = |rank, text: &str| strangers.hear(rank, text.to_owned(), SOON);
        assert_eq!(hear(0, "a stranger"), Some("node 0: a stranger".to_owned()));
        assert_eq!(hear(0, "a stranger"), None);
        assert_eq!(hear(1, "a stranger"), Some("node 1: a stranger".to_owned()));
        let others = (0..40).filter(|number| hear(0, &number.to_string()).is_some()).count();
        assert_eq!(others, MOST - 1);
    }

    #[test]
    fn who_hangs_up_is_reported_unless_the_job_fails_soon_after() {
        let text = || format!("refused a connection: {HUNG_UP}");
        let line = || format!("node 0: {}", text());
        for failed in [false, true] {
            let mut strangers = Strangers::default();
            assert_eq!(strangers.hear(0, text(), SOON), None);
            assert_eq!((strangers.next(), strangers.due(SOON)), (Some(SOON + WAIT), Vec::new()));
            assert_eq!(strangers.end(failed).len(), usize::from(!failed));
            assert_eq!(strangers.next(), None);
        }
        let mut strangers = Strangers::default();
        assert_eq!(strangers.hear(0, text(), SOON), None);
        assert_eq!(strangers.due(SOON + WAIT), [line()]);
        let _ = strangers.end(true);
        assert_eq!(strangers.hear(1, text(), SOON), None, "it is a node that ends");
        assert_eq!(strangers.next(), None);
    }
}
