//! Atomic operations on a number, done where it lives.

use multigrain_runtime::{AtomicAction, AtomicOp, runtime};

use crate::Result;
use crate::collective::{Number, Op};
use crate::shared::Shared;

/// An atomic instruction on a number that other nodes use moves its minipage here, each time. These do as the
/// instruction does, but where the number lives: on this node if it may write the number now, else by one message
/// and its answer at the node that manages the minipage.
///
/// ```
/// use multigrain::{Job, Op};
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// let sum = job.share("sum", || job.alloc(0.0))?;
/// sum.fetch_op(Op::Sum, 0.5)?;
/// job.barrier(0)?;
/// assert_eq!(sum.get(), 0.5 * job.nodes() as f64);
/// # Ok(()) }
/// ```
///
/// All fail as [`Shared::fetch_op`].
impl<T: Number> Shared<'_, T> {
    /// It becomes what `op` makes of it and `operand`; returns what it was.
    ///
    /// # Errors
    /// Release-consistent memory: there is [`Party::allreduce`](crate::Party::allreduce), or a lock. Or this node
    /// is not attached to write the segment.
    pub fn fetch_op(self, op: Op, operand: T) -> Result<T> {
        self.act(AtomicAction::Combine(op.operation()), operand)
    }

    /// It becomes `value`; returns what it was.
    ///
    /// # Errors
    /// As [`Shared::fetch_op`].
    pub fn exchange(self, value: T) -> Result<T> {
        self.act(AtomicAction::Exchange, value)
    }

    /// It becomes `value` if it is `expected`, bit for bit; returns what it was.
    ///
    /// # Errors
    /// As [`Shared::fetch_op`].
    pub fn compare_exchange(self, expected: T, value: T) -> Result<T> {
        self.act(AtomicAction::CompareExchange(expected.to_word()), value)
    }

    fn act(self, action: AtomicAction, operand: T) -> Result<T> {
        let op = AtomicOp::new(action, T::ELEMENT, operand.to_word())?;
        let before = runtime()?.fetch_op(self.as_ptr().expose_provenance(), op)?;
        Ok(T::from_word(before))
    }
}
