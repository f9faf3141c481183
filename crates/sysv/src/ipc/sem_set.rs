//! One set of semaphores: its values and who waits for them.
//!
//! Which waiter goes first is visible to programs, so the queues are the kernel's. While all waiters have one
//! operation each, they wait in a queue of their semaphore; while one has several ("complex"), all that would change
//! a value wait in one queue of the set. Those that only wait for zero have queues apart, and go first.

use std::collections::VecDeque;

use super::call::{CallId, Event, Operation, Process, Reply};
use super::errno::Errno;
use super::semop::{Outcome, Values};

/// A `semop` that has to wait.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) call: CallId,
    pub(super) process: Process,
    pub(super) operations: Vec<Operation>,
    /// The operation that had to wait when all were tried last.
    pub(super) blocking: usize,
}

/// Those who wait in one place.
#[derive(Clone, Debug, Default)]
struct Queues {
    /// For a value that they would change.
    change: VecDeque<Waiter>,
    /// For zero, and would change nothing.
    zero: VecDeque<Waiter>,
}

/// Whose queues.
#[derive(Clone, Copy, Debug)]
enum Place {
    Set,
    Semaphore(usize),
}

/// Which semaphores may have changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Changed<'a> {
    By(&'a [Operation]),
    Any,
}

/// One set.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) values: Values,
    whole: Queues,
    each: Vec<Queues>,
    /// Waiters of more than one operation.
    complex: usize,
    pub(super) operation_time: i64,
    pub(super) change_time: i64,
}

impl Set {
    pub(super) fn new(count: usize, now: i64) -> Self {
        Self {
            values: Values::new(count),
            whole: Queues::default(),
            each: (0..count).map(|_| Queues::default()).collect(),
            complex: 0,
            operation_time: 0,
            change_time: now,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    /// Tries the operations; without an answer, the waiter is in a queue.
    pub(super) fn operate(
        &mut self,
        mut waiter: Waiter,
        now: i64,
        out: &mut Vec<Event>,
    ) -> Result<Option<Reply>, Errno> {
        match self.values.operate(waiter.process, &waiter.operations) {
            Outcome::Done => {
                self.operation_time = now;
                if changes(&waiter.operations) {
                    self.wake(Changed::By(&waiter.operations), now, out);
                }
                Ok(Some(Reply::Done(0)))
            }
            Outcome::Failed(errno) => Err(errno),
            Outcome::Blocked(index) => {
                waiter.blocking = index;
                self.enqueue(waiter);
                Ok(None)
            }
        }
    }

    fn enqueue(&mut self, waiter: Waiter) {
        let change = changes(&waiter.operations);
        let place = match waiter.operations[..] {
            [operation] if !change || self.complex == 0 => {
                Place::Semaphore(operation.number.into())
            }
            [_] => Place::Set,
            _ => {
                self.merge();
                self.complex += 1;
                Place::Set
            }
        };
        let queues = self.queues(place);
        let queue = if change { &mut queues.change } else { &mut queues.zero };
        queue.push_back(waiter);
    }

    /// With the first complex waiter, all that would change a value come into one queue. The kernel puts each
    /// semaphore's before those of the semaphores below it.
    fn merge(&mut self) {
        if self.complex == 0 {
            for queues in &mut self.each {
                queues.change.append(&mut self.whole.change);
                core::mem::swap(&mut queues.change, &mut self.whole.change);
            }
        }
    }

    /// Undoes [`Self::merge`] when no complex waiter is left.
    fn unmerge(&mut self) {
        if self.complex == 0 {
            for waiter in self.whole.change.drain(..) {
                self.each[usize::from(waiter.operations[0].number)].change.push_back(waiter);
            }
        }
    }

    /// Lets everyone go who can, after values have changed.
    pub(super) fn wake(&mut self, changed: Changed<'_>, now: i64, out: &mut Vec<Event>) {
        let mut gone = self.wake_for_zero(changed, out);
        if !self.whole.change.is_empty() {
            gone |= self.wake_queue(Place::Set, out);
        } else {
            match changed {
                Changed::Any => {
                    for index in 0..self.count() {
                        gone |= self.wake_queue(Place::Semaphore(index), out);
                    }
                }
                // A lone operation that waits is a decrease: it has nothing from another.
                Changed::By(operations) => {
                    for operation in operations.iter().filter(|operation| operation.change > 0) {
                        gone |= self.wake_queue(Place::Semaphore(operation.number.into()), out);
                    }
                }
            }
        }
        if gone {
            self.operation_time = now;
        }
        self.unmerge();
    }

    /// Lets those go who wait for zero and would change nothing; whether one did.
    fn wake_for_zero(&mut self, changed: Changed<'_>, out: &mut Vec<Event>) -> bool {
        let numbers: Vec<usize> = match changed {
            Changed::By(operations) => {
                operations.iter().map(|operation| usize::from(operation.number)).collect()
            }
            Changed::Any => (0..self.count()).collect(),
        };
        let mut gone = false;
        let mut zero = false;
        for number in numbers {
            if self.values.semaphores[number].value == 0 {
                zero = true;
                gone |= self.wake_zero_queue(Place::Semaphore(number), out);
            }
        }
        zero && self.wake_zero_queue(Place::Set, out) || gone
    }

    fn wake_zero_queue(&mut self, place: Place, out: &mut Vec<Event>) -> bool {
        let mut waiting = core::mem::take(&mut self.queues(place).zero);
        let mut gone = false;
        waiting.retain_mut(|waiter| match self.attempt(waiter) {
            None => true,
            Some(result) => {
                gone |= result.is_ok();
                answer(waiter.call, result, out);
                false
            }
        });
        self.queues(place).zero = waiting;
        gone
    }

    /// Goes through a queue of those that would change a value, from the start again when one has gone whose
    /// change may help those before it; whether one did.
    fn wake_queue(&mut self, place: Place, out: &mut Vec<Event>) -> bool {
        let mut gone = false;
        let mut index = 0;
        while let Some(mut waiter) = self.take(place, index) {
            let Some(result) = self.attempt(&mut waiter) else {
                self.queues(place).change.insert(index, waiter);
                index += 1;
                continue;
            };
            if result.is_ok() {
                gone = true;
                self.wake_for_zero(Changed::By(&waiter.operations), out);
                if !self.whole.change.is_empty() || waiter.operations.len() > 1 {
                    index = 0;
                }
            }
            answer(waiter.call, result, out);
        }
        gone
    }

    /// Takes out the waiter at an index, unless it waits for a decrease of a semaphore that has nothing to give.
    fn take(&mut self, place: Place, index: usize) -> Option<Waiter> {
        if let Place::Semaphore(number) = place
            && self.values.semaphores[number].value == 0
        {
            return None;
        }
        self.queues(place).change.remove(index)
    }

    /// Tries a waiter again; none if it still waits.
    fn attempt(&mut self, waiter: &mut Waiter) -> Option<Result<(), Errno>> {
        let result = match self.values.operate(waiter.process, &waiter.operations) {
            Outcome::Done => Ok(()),
            Outcome::Failed(errno) => Err(errno),
            Outcome::Blocked(index) => {
                waiter.blocking = index;
                return None;
            }
        };
        if waiter.operations.len() > 1 {
            self.complex -= 1;
        }
        Some(result)
    }

    /// The operation for which a call waits.
    pub(super) fn blocking_operation(&self, call: CallId) -> Option<Operation> {
        let queues = core::iter::once(&self.whole).chain(&self.each);
        let mut waiters = queues.flat_map(|queues| queues.zero.iter().chain(&queues.change));
        let waiter = waiters.find(|waiter| waiter.call == call)?;
        waiter.operations.get(waiter.blocking).copied()
    }

    /// Forgets a call that waits.
    pub(super) fn cancel(&mut self, call: CallId) {
        let others = |waiter: &Waiter| waiter.call != call;
        for queues in core::iter::once(&mut self.whole).chain(&mut self.each) {
            queues.zero.retain(others);
            queues.change.retain(others);
        }
        let waiting = self.whole.zero.iter().chain(&self.whole.change);
        self.complex = waiting.filter(|waiter| waiter.operations.len() > 1).count();
        self.unmerge();
    }

    /// How many wait for the semaphore: to become zero, or to grow. A waiter of several operations counts for the
    /// one that had to wait.
    pub(super) fn waiters(&self, index: usize, zero: bool) -> usize {
        let own = &self.each[index];
        let own = if zero { own.zero.len() } else { own.change.len() };
        let shared = self.whole.change.iter().chain(self.whole.zero.iter().filter(|_| zero));
        let counts = |waiter: &&Waiter| {
            let operation = waiter.operations[waiter.blocking];
            usize::from(operation.number) == index
                && if zero { operation.change == 0 } else { operation.change < 0 }
        };
        own + shared.filter(counts).count()
    }

    /// Fails all who wait, of a set that is removed.
    pub(super) fn expel(&mut self, out: &mut Vec<Event>) {
        for queues in core::iter::once(&mut self.whole).chain(&mut self.each) {
            for waiter in queues.zero.drain(..).chain(queues.change.drain(..)) {
                answer(waiter.call, Err(Errno::IDRM), out);
            }
        }
        self.complex = 0;
    }

    fn queues(&mut self, place: Place) -> &mut Queues {
        match place {
            Place::Set => &mut self.whole,
            Place::Semaphore(index) => &mut self.each[index],
        }
    }
}

pub(super) fn changes(operations: &[Operation]) -> bool {
    operations.iter().any(|operation| operation.change != 0)
}

fn answer(call: CallId, result: Result<(), Errno>, out: &mut Vec<Event>) {
    let reply = match result {
        Ok(()) => Reply::Done(0),
        Err(Errno(errno)) => Reply::Failed(errno),
    };
    out.push(Event::Reply(call, reply));
}
