//! The end of a run, and what must hold then.

use super::cluster::{Broken, Subject};
use super::operation::Op;
use super::simulation::{Result, Simulation};
use super::threads::State;

impl Simulation {
    /// When the time is over, the rest of the programs takes only so many steps.
    pub(super) fn check_progress(&mut self) -> Result<()> {
        if !self.is_over() {
            return Ok(());
        }
        let steps = self.cluster.steps();
        let since = steps - *self.course.steps_in_time.get_or_insert(steps);
        let nodes = u64::from(self.plan.nodes);
        if since < 10_000_000 + nodes * nodes * u64::from(self.plan.minipages) {
            return Ok(());
        }
        Err(self.stuck("makes no progress, though messages go on"))
    }

    /// Names a thread that should have come further.
    fn stuck(&self, how: &str) -> Broken {
        let mut at_work = (0u32..).zip(&self.threads).filter(|(_, t)| t.state != State::Ended);
        // One that waits for a minipage or a lock says more than those at the barrier.
        let all = at_work.clone().count();
        let found = at_work.clone().find(|(_, thread)| thread.op() != Some(Op::Barrier));
        let Some((number, thread)) = found.or_else(|| at_work.next()) else {
            return Broken { subject: Subject::Job, text: how.into() };
        };
        let op = thread.op().unwrap_or(Op::Barrier);
        let text = format!(
            "{all} threads do not end: thread {number} of {} {how}: {op}, {:?}",
            self.numbers.node(number),
            thread.state
        );
        Broken { subject: self.subject_of(number, op), text }
    }

    /// What holds at the end.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.oracle.history.check().map_err(|wrong| self.not_consistent(wrong))?;
        if self.course.ended < self.plan.all_threads() {
            return Err(self.stuck("waits for what nobody will do"));
        }
        if self.course.died.is_some() {
            return Ok(());
        }
        self.cluster.check_rest()?;
        if let Some(object) = self.program.heap.lost() {
            let subject = Subject::Minipage(self.cluster.id(object));
            return Err(Broken { subject, text: "it was freed and never came back".into() });
        }
        for index in self.program.layout.counters.start..self.program.layout.boxes.end {
            let minipage = self.cluster.id(index);
            let (holds, sum) =
                (self.cluster.last_written(minipage), self.oracle.sums[index as usize]);
            if holds != sum {
                let text = format!("it holds {holds}, but {sum} was added to it");
                return Err(Broken { subject: Subject::Minipage(minipage), text });
            }
        }
        Ok(())
    }
}
