//! Unauthenticated connections that the nodes refused: which are reported to the user, and when.
//!
//! A node that dies while it joins closes its connections as an unauthenticated peer may do, and a host that is
//! cut off falls silent as a slow one does. So refusals are reported a moment later, if the job has not failed
//! by then; otherwise the verdict is enough. From another host of the job they are its nodes', which try again when
//! the network does, and are not reported.

use multigrain_types::phrases::{CUT_IN_HANDSHAKE, SILENT_IN_HANDSHAKE};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Different refused connections of one node that are reported.
const MOST: usize = 32;
/// What lines say that may be about a node of the job, where how many were refused may follow; and how long they wait:
/// until it is known that the node has died, or that its host is cut off.
const OF_NODES: [(&str, Duration); 2] =
    [(CUT_IN_HANDSHAKE, Duration::from_secs(1)), (SILENT_IN_HANDSHAKE, Duration::from_secs(4))];

/// Who was turned away, as far as a line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A process of this host.
    Process(i32),
    /// Somebody at this address.
    At(IpAddr),
}

/// What the nodes of a job have said of refused connections.
#[derive(Debug, Default)]
pub(super) struct Refused {
    received: BTreeSet<(usize, String)>,
    /// Lines that wait, with the end of that, the next first.
    waiting: Vec<(Duration, String)>,
    failed: bool,
}

impl Refused {
    /// A node has turned somebody away; the line to be said at once, if there is one. Another node of the job
    /// says itself why it may not come in.
    pub(super) fn receive(
        &mut self,
        rank: usize,
        text: String,
        now: Duration,
        is_node: impl Fn(Caller) -> bool,
    ) -> Option<String> {
        let may_be_node = OF_NODES.iter().find(|(said, _)| text.contains(said));
        let is_node = match caller(&text) {
            Some(caller @ Caller::Process(_)) => is_node(caller),
            Some(caller @ Caller::At(_)) => may_be_node.is_some() && is_node(caller),
            None => false,
        };
        if is_node {
            return None;
        }
        let many = self.received.iter().filter(|(of, _)| *of == rank).count() >= MOST;
        if many || !self.received.insert((rank, text.clone())) {
            return None;
        }
        let line = format!("node {rank}: {text}");
        let Some((_, wait)) = may_be_node else { return Some(line) };
        if !self.failed {
            self.waiting.push((now + *wait, line));
            self.waiting.sort();
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

/// Who was turned away, if the line names it.
fn caller(text: &str) -> Option<Caller> {
    let (_, rest) = text.split_once("refused a connection from ")?;
    if let Some(rest) = rest.strip_prefix("process ") {
        return rest.split_once(' ')?.0.parse().ok().map(Caller::Process);
    }
    let address: SocketAddr = rest.split_once(": ")?.0.parse().ok()?;
    Some(Caller::At(address.ip().to_canonical()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(10);

    fn nobody(_: Caller) -> bool {
        false
    }

    #[test]
    fn a_node_of_the_job_that_is_refused_says_so_itself() {
        let mut refused = Refused::default();
        let line =
            "refused a connection from process 7 of user 0: it runs another build of the program";
        assert_eq!(
            refused.receive(0, line.to_owned(), SOON, |who| who == Caller::Process(7)),
            None
        );
        assert_eq!(refused.next(), None);
        assert!(refused.receive(0, line.to_owned(), SOON, nobody).is_some());
    }

    #[test]
    fn who_may_be_a_node_of_another_host_of_the_job_is_not_reported() {
        for (address, own) in
            [("10.0.0.2:4000", true), ("[fd00::2]:4000", true), ("10.0.0.3:4000", false)]
        {
            let mut refused = Refused::default();
            let is_node = |caller| {
                let at: [IpAddr; 2] = ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
                at.iter().any(|&at| caller == Caller::At(at))
            };
            for (said, _) in OF_NODES {
                let text = format!("refused a connection from {address}: {said}");
                assert_eq!(refused.receive(0, text, SOON, is_node), None);
            }
            assert_eq!(refused.end(false).len(), if own { 0 } else { 2 });
            let text = format!("refused a connection from {address}: it has another secret");
            assert!(refused.receive(0, text, SOON, is_node).is_some());
        }
    }

    #[test]
    fn a_refused_connection_is_reported_once_for_each_node_and_not_too_many_are() {
        let mut refused = Refused::default();
        let mut receive = |rank, text: &str| refused.receive(rank, text.to_owned(), SOON, nobody);
        assert_eq!(
            receive(0, "an unauthenticated connection"),
            Some("node 0: an unauthenticated connection".to_owned())
        );
        assert_eq!(receive(0, "an unauthenticated connection"), None);
        assert_eq!(
            receive(1, "an unauthenticated connection"),
            Some("node 1: an unauthenticated connection".to_owned())
        );
        let others = (0..40).filter(|number| receive(0, &number.to_string()).is_some()).count();
        assert_eq!(others, MOST - 1);
    }

    #[test]
    fn who_hangs_up_is_not_reported_at_once_with_the_number_of_the_refused_either() {
        let (mut refused, hung_up) = (Refused::default(), OF_NODES[0].0);
        let text = format!("refused a connection: {hung_up} (16 refused so far)");
        assert_eq!(refused.receive(0, text.clone(), SOON, nobody), None);
        assert!(refused.end(true).is_empty());
        assert_eq!((refused.receive(1, text, SOON, nobody), refused.next()), (None, None));
    }

    #[test]
    fn who_hangs_up_is_reported_unless_the_job_fails_soon_after() {
        let text = |said| format!("refused a connection: {said}");
        let [first, second] = OF_NODES;
        for (failed, (said, wait)) in [(false, first), (true, first), (true, second)] {
            let mut refused = Refused::default();
            assert_eq!(refused.receive(0, text(said), SOON, nobody), None);
            assert_eq!((refused.next(), refused.due(SOON)), (Some(SOON + wait), Vec::new()));
            assert_eq!(refused.end(failed).len(), usize::from(!failed));
            assert_eq!(refused.next(), None);
        }
        let (mut refused, text) = (Refused::default(), || text(OF_NODES[0].0));
        assert_eq!(refused.receive(0, text(), SOON, nobody), None);
        assert_eq!(refused.due(SOON + OF_NODES[0].1), [format!("node 0: {}", text())]);
        let _ = refused.end(true);
        assert_eq!(refused.receive(1, text(), SOON, nobody), None, "it is a node that ends");
        assert_eq!(refused.next(), None);
    }
}
