//! Unauthenticated connections that the nodes refused: who is reported, and when.
//!
//! A node that dies while it joins hangs up on the others as an unauthenticated connection may do. So what hangs up is
//! reported a moment later, if the job has not failed by then; otherwise the verdict says enough.

use std::collections::BTreeSet;
use std::time::Duration;

/// Different refused connections of one node that are reported.
const MOST: usize = 32;
/// How long a line waits that may be about a node of the job.
const WAIT: Duration = Duration::from_secs(1);
/// How a line ends that may be about a node of the job.
const HUNG_UP: &str = "it hung up in the middle of the handshake";

/// What the nodes of a job have said of refused connections.
#[derive(Debug, Default)]
pub(super) struct Refused {
    heard: BTreeSet<(usize, String)>,
    /// Lines that wait, with the end of that, oldest first.
    waiting: Vec<(Duration, String)>,
    failed: bool,
}

impl Refused {
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
    fn a_refused_connection_is_reported_once_for_each_node_and_not_too_many_are() {
        let mut refused = Refused::default();
        let mut hear = |rank, text: &str| refused.hear(rank, text.to_owned(), SOON);
        assert_eq!(
            hear(0, "an unauthenticated connection"),
            Some("node 0: an unauthenticated connection".to_owned())
        );
        assert_eq!(hear(0, "an unauthenticated connection"), None);
        assert_eq!(
            hear(1, "an unauthenticated connection"),
            Some("node 1: an unauthenticated connection".to_owned())
        );
        let others = (0..40).filter(|number| hear(0, &number.to_string()).is_some()).count();
        assert_eq!(others, MOST - 1);
    }

    #[test]
    fn who_hangs_up_is_reported_unless_the_job_fails_soon_after() {
        let text = || format!("refused a connection: {HUNG_UP}");
        let line = || format!("node 0: {}", text());
        for failed in [false, true] {
            let mut refused = Refused::default();
            assert_eq!(refused.hear(0, text(), SOON), None);
            assert_eq!((refused.next(), refused.due(SOON)), (Some(SOON + WAIT), Vec::new()));
            assert_eq!(refused.end(failed).len(), usize::from(!failed));
            assert_eq!(refused.next(), None);
        }
        let mut refused = Refused::default();
        assert_eq!(refused.hear(0, text(), SOON), None);
        assert_eq!(refused.due(SOON + WAIT), [line()]);
        let _ = refused.end(true);
        assert_eq!(refused.hear(1, text(), SOON), None, "it is a node that ends");
        assert_eq!(refused.next(), None);
    }
}
