//! Deadlocks: what the nodes report of their threads, and the question that turns the reports into a proof.
//!
//! A node reports, from looks it takes at a period of its own (`runtime/src/deadlock/mod.rs`), which of its threads wait
//! as they did at the look before. If all reports together could be a deadlock, each node is asked twice more: what held
//! before a question and holds in all answers held at one moment. Whether that is a deadlock is for
//! [`multigrain_types::deadlock`] to prove.

use multigrain_types::deadlock::{Report, deadlock, may_be_deadlock, waiting};

/// What the nodes have said.
#[derive(Debug)]
pub(super) struct Watch {
    /// By rank, what each said last.
    received: Vec<Option<Report>>,
    /// The number of the last question.
    question: u64,
    asked: Option<Question>,
}

/// A question that is not answered by all yet.
#[derive(Debug)]
struct Question {
    before: Vec<Option<Report>>,
    /// The answers to the first question, if this is the second.
    between: Option<Vec<Option<Report>>>,
    /// Nodes whose answer is to come.
    open: usize,
}

/// What follows from a report.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Wait,
    /// Every node that has ever spoken is to be asked this question.
    Ask(u64),
    /// A deadlock, in words.
    Deadlock(String),
}

impl Watch {
    pub(super) fn new(nodes: usize) -> Self {
        Self { received: vec![None; nodes], question: 0, asked: None }
    }

    /// Whether this node has spoken, and so listens.
    pub(super) fn has_spoken(&self, rank: usize) -> bool {
        self.received[rank].is_some()
    }

    /// Which nodes wait, and where, as far as they have said.
    pub(super) fn waiting(&self) -> Option<String> {
        waiting(&self.received)
    }

    /// A node has spoken.
    pub(super) fn receive(&mut self, rank: usize, report: Report) -> Next {
        let last = self.received[rank].as_ref().map(|last| last.question);
        let answers = report.question == self.question && last != Some(self.question);
        self.received[rank] = Some(report);
        let Some(asked) = &mut self.asked else { return self.ask_if_needed(None) };
        let asked_of = asked.between.as_ref().unwrap_or(&asked.before);
        asked.open -= usize::from(answers && asked_of[rank].is_some());
        if asked.open > 0 {
            return Next::Wait;
        }
        let before = core::mem::take(&mut asked.before);
        let between = asked.between.take();
        self.asked = None;
        match between {
            None => self.ask_if_needed(Some(before)),
            Some(between) => match deadlock(&before, &between, &self.received) {
                Some(text) => Next::Deadlock(text),
                None => self.ask_if_needed(None),
            },
        }
    }

    /// Asks if nothing speaks against a deadlock so far. `before`: what was said before the first question, if this is the
    /// second.
    fn ask_if_needed(&mut self, before: Option<Vec<Option<Report>>>) -> Next {
        if !may_be_deadlock(&self.received) {
            return Next::Wait;
        }
        self.question += 1;
        let open = self.received.iter().flatten().count();
        let last = self.received.clone();
        self.asked = Some(match before {
            None => Question { before: last, between: None, open },
            Some(before) => Question { before, between: Some(last), open },
        });
        Next::Ask(self.question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_types::deadlock::{BlockingCall, Waiter};

    fn report(question: u64, sent: u64, call: BlockingCall) -> Report {
        let (holds, name) = (Vec::new(), String::new());
        let waiter = Waiter {
            thread: 0,
            wait: 1,
            call,
            timed: false,
            holds,
            expected: 2,
            whole: false,
            name,
        };
        let waiters = vec![waiter];
        Report { question, all: true, sent, received: sent, waiters, ..Report::default() }
    }

    const BARRIER: BlockingCall = BlockingCall::Barrier(1);
    const END: BlockingCall = BlockingCall::Finalize;

    #[test]
    fn a_deadlock_is_one_when_all_have_answered_that_nothing_moved() {
        let mut watch = Watch::new(2);
        assert_eq!(watch.receive(0, report(0, 5, BARRIER)), Next::Wait);
        let words = "node 0 waits in barrier 1 (1 of 2 threads has come)";
        assert_eq!(watch.waiting().as_deref(), Some(words));
        assert!(watch.has_spoken(0) && !watch.has_spoken(1));
        assert_eq!(watch.receive(1, report(0, 5, END)), Next::Ask(1));
        assert_eq!(watch.receive(1, report(1, 5, END)), Next::Wait);
        assert_eq!(watch.receive(0, report(1, 5, BARRIER)), Next::Ask(2));
        assert_eq!(watch.receive(0, report(2, 5, BARRIER)), Next::Wait);
        let words = "node 1 waits in mg_finalize, node 0 in barrier 1 (1 of 2 threads has come)";
        assert_eq!(watch.receive(1, report(2, 5, END)), Next::Deadlock(words.into()));
    }

    #[test]
    fn what_a_node_says_by_itself_is_no_answer_and_what_has_moved_is_asked_again() {
        let mut watch = Watch::new(2);
        let _ = watch.receive(0, report(0, 5, BARRIER));
        assert_eq!(watch.receive(1, report(0, 5, END)), Next::Ask(1));
        assert_eq!(
            watch.receive(0, report(0, 6, BARRIER)),
            Next::Wait,
            "written before it was asked"
        );
        assert_eq!(watch.receive(0, report(1, 6, BARRIER)), Next::Wait);
        assert_eq!(watch.receive(1, report(1, 5, END)), Next::Ask(2));
        assert_eq!(watch.receive(0, report(2, 6, BARRIER)), Next::Wait);
        assert_eq!(watch.receive(1, report(2, 5, END)), Next::Ask(3), "something has moved");
        assert_eq!(watch.receive(0, report(3, 6, BARRIER)), Next::Wait);
        assert_eq!(watch.receive(1, report(3, 5, END)), Next::Ask(4));
        assert_eq!(watch.receive(0, report(4, 6, BARRIER)), Next::Wait);
        assert!(matches!(watch.receive(1, report(4, 5, END)), Next::Deadlock(_)));
    }

    #[test]
    fn who_speaks_first_between_two_questions_is_asked_the_second_alone() {
        let mut watch = Watch::new(3);
        let lock = |question, id: u64| {
            let mut report = report(question, 5, BlockingCall::Lock(id));
            report.waiters[0].holds = vec![BlockingCall::Lock(3 - id)];
            Report { all: false, ..report }
        };
        let _ = watch.receive(0, lock(0, 1));
        assert_eq!(watch.receive(1, lock(0, 2)), Next::Ask(1));
        assert_eq!(watch.receive(2, Report::default()), Next::Wait);
        assert_eq!(watch.receive(0, lock(1, 1)), Next::Wait);
        assert_eq!(watch.receive(1, lock(1, 2)), Next::Ask(2));
        assert_eq!(watch.receive(0, lock(2, 1)), Next::Wait);
        assert_eq!(watch.receive(1, lock(2, 2)), Next::Wait);
        let last = Report { question: 2, ..Report::default() };
        assert!(matches!(watch.receive(2, last), Next::Deadlock(_)));
    }

    #[test]
    fn a_node_that_answers_twice_answers_for_itself_alone() {
        let mut watch = Watch::new(2);
        let _ = watch.receive(0, report(0, 5, BARRIER));
        assert_eq!(watch.receive(1, report(0, 5, END)), Next::Ask(1));
        assert_eq!(watch.receive(0, report(1, 5, BARRIER)), Next::Wait);
        assert_eq!(watch.receive(0, report(1, 5, BARRIER)), Next::Wait);
        assert_eq!(watch.receive(1, report(1, 5, END)), Next::Ask(2));
    }

    #[test]
    fn a_node_that_runs_again_ends_the_suspicion() {
        let mut watch = Watch::new(2);
        let _ = watch.receive(0, report(0, 5, BARRIER));
        assert_eq!(watch.receive(1, report(0, 5, END)), Next::Ask(1));
        assert_eq!(watch.receive(0, Report { question: 1, ..Report::default() }), Next::Wait);
        assert_eq!(watch.receive(1, report(1, 5, END)), Next::Wait);
        assert_eq!(watch.receive(0, report(0, 5, BARRIER)), Next::Ask(2));
    }
}
