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

/// What lines call who had gone before it was looked at (`Link::describe`).
const UNKNOWN: &str = "refused a connection from an unknown address: ";
/// Lines about refused connections, in all.
const MOST: usize = 32;
/// What lines say that may be about a node of the job; and how long they wait: until it is known that the node has died, or that its host is cut off.
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

/// Who is no node: it costs one line, however often it comes, and whatever it says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outsider {
    User(String),
    At(IpAddr),
    /// It had gone.
    Unknown,
}

/// What a line is about.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Outsider(Outsider),
    /// Somebody on a host of the job, or whom the line does not name: the node that has refused it, and why.
    Reason(usize, String),
}

/// What the nodes of a job have said of refused connections.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// What lines were about.
    told: BTreeSet<About>,
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
        let from = caller(&text);
        let is_here = from.as_ref().is_some_and(|(caller, _)| is_node(*caller));
        let is_node = match from {
            Some((Caller::Process(_), _)) => is_here,
            Some((Caller::At(_), _)) => is_here && may_be_node.is_some(),
            None => false,
        };
        if is_node {
            return None;
        }
        let about = match from {
            Some((_, outsider)) if !is_here => About::Outsider(outsider),
            None if text.contains(UNKNOWN) => About::Outsider(Outsider::Unknown),
            _ => {
                let why = text.split_once(": ").map_or(&*text, |(_, why)| why);
                About::Reason(rank, why.to_owned())
            }
        };
        if self.told.len() >= MOST || !self.told.insert(about) {
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

/// Who was turned away, and which outsider that is if it is one, if the line names it.
fn caller(text: &str) -> Option<(Caller, Outsider)> {
    let (_, rest) = text.split_once("refused a connection from ")?;
    let (who, _) = rest.split_once(": ")?;
    if let Some(process) = who.strip_prefix("process ") {
        let (process, user) = process.split_once(" of user ")?;
        return Some((Caller::Process(process.parse().ok()?), Outsider::User(user.to_owned())));
    }
    let address: SocketAddr = who.parse().ok()?;
    let address = address.ip().to_canonical();
    Some((Caller::At(address), Outsider::At(address)))
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
            // An outsider's one line waits.
            assert_eq!(refused.end(false).len(), if own { 0 } else { 1 });
            let text = format!("refused a connection from {address}: it has another secret");
            assert_eq!(refused.receive(0, text, SOON, is_node).is_some(), own);
        }
    }

    #[test]
    fn an_outsider_costs_one_line() {
        let mut refused = Refused::default();
        let mut receive = |rank, who: &str, why: &str, own| {
            let text = format!("refused a connection from {who}: {why}");
            refused.receive(rank, text, SOON, |_| own)
        };
        let line = "node 1: refused a connection from 10.0.0.9:4000: it has another secret";
        assert_eq!(receive(1, "10.0.0.9:4000", "it has another secret", false).unwrap(), line);
        assert_eq!(receive(0, "10.0.0.9:4001", "it does not speak TLS", false), None);
        assert!(receive(0, "process 7 of user 5", "it is of another user", false).is_some());
        assert_eq!(receive(0, "process 8 of user 5", "it is of another user", false), None);
        // From a host of the job each node says what it has to.
        assert!(receive(0, "10.0.0.2:4000", "it has another secret", true).is_some());
        assert!(receive(1, "10.0.0.2:4000", "it has another secret", true).is_some());
        let others = (0..40).map(|number| format!("10.0.1.{number}:4000"));
        let told = others.filter(|who| receive(0, who, "it has another secret", false).is_some());
        assert_eq!(told.count(), MOST - 4);
    }

    #[test]
    fn who_hangs_up_is_not_reported_at_once() {
        let (mut refused, hung_up) = (Refused::default(), OF_NODES[0].0);
        let text = format!("refused a connection: {hung_up}");
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
