//! Collective operations: barriers that bring something along.

#![expect(unsafe_code, reason = "values travel as bytes")]

use core::marker::PhantomData;
use core::slice;

use multigrain_protocol::sync::{Element, Operation};
use multigrain_runtime::{Collective, Combine, Error, runtime};

use crate::Result;
use crate::job::Job;
use crate::shareable::Shareable;

/// How numbers of all threads are combined: in the order of their places within a node, and nodes in the order of
/// their lowest places, so that a floating-point sum is the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// The sum; integers wrap around.
    Sum,
    /// The least; of a number and a NaN the number.
    Min,
    /// The greatest; of a number and a NaN the number.
    Max,
    /// 1 if none is 0, else 0.
    And,
    /// 1 if any is not 0, else 0.
    Or,
}

impl Op {
    pub(crate) fn operation(self) -> Operation {
        match self {
            Self::Sum => Operation::Sum,
            Self::Min => Operation::Min,
            Self::Max => Operation::Max,
            Self::And => Operation::And,
            Self::Or => Operation::Or,
        }
    }
}

pub(crate) mod sealed {
    pub trait Sealed {
        const ELEMENT: super::Element;

        /// Its bits, the low ones of a word.
        fn to_word(self) -> u64;
        fn from_word(word: u64) -> Self;
    }
}

/// Numbers that [`Party::reduce`] and its like know how to combine.
pub trait Number: Shareable + Copy + sealed::Sealed {}

macro_rules! numbers {
    ($($number:ty = $element:ident;)*) => {$(
        impl sealed::Sealed for $number {
            const ELEMENT: Element = Element::$element;

            fn to_word(self) -> u64 {
                let mut word = [0; size_of::<u64>()];
                word[..size_of::<$number>()].copy_from_slice(&self.to_le_bytes());
                u64::from_le_bytes(word)
            }

            fn from_word(word: u64) -> Self {
                let bytes = word.to_le_bytes();
                Self::from_le_bytes(core::array::from_fn(|at| bytes[at]))
            }
        }
        impl Number for $number {}
    )*};
}

numbers! {
    i32 = Int32;
    i64 = Int64;
    u64 = Uint64;
    f32 = Float;
    f64 = Double;
}

/// The threads that do collective operations together, as one of them sees it. All call the same with as many
/// values; each operation is a barrier as well. The result takes the place of the values.
///
/// ```
/// use multigrain::{Job, Op};
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// let all = job.party(0, job.node());
/// let mut sum = [1.5];
/// all.allreduce(Op::Sum, &mut sum)?;
/// assert_eq!(sum[0], 1.5 * job.nodes() as f64);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party<'job> {
    id: u32,
    threads: usize,
    place: usize,
    job: PhantomData<&'job Job>,
}

impl Job {
    /// All threads of the job, [`Job::threads`] on each node, at collective operations of this id (not those of
    /// barriers); `place` is this thread's own, from 0.
    #[must_use]
    pub fn party(&self, id: u32, place: usize) -> Party<'_> {
        self.party_of(id, 0, place)
    }

    /// So many threads of the job, wherever they run; 0: all.
    #[must_use]
    pub fn party_of(&self, id: u32, threads: usize, place: usize) -> Party<'_> {
        Party { id, threads, place, job: PhantomData }
    }
}

impl Party<'_> {
    /// What the thread at place `root` has, for all.
    ///
    /// # Errors
    /// As for [`Party::allreduce`].
    pub fn broadcast<T: Shareable + Copy>(self, root: usize, values: &mut [T]) -> Result<()> {
        self.collect(Collective::Broadcast(small(root)?), bytes_of::<T>()?, values, None)
    }

    /// The numbers of all threads combined, element by element, for the thread at place `root`.
    ///
    /// # Errors
    /// As for [`Party::allreduce`].
    pub fn reduce<T: Number>(self, op: Op, root: usize, values: &mut [T]) -> Result<()> {
        let what = Collective::Reduce(op.operation(), Some(small(root)?));
        self.collect(what, T::ELEMENT, values, None)
    }

    /// The numbers of all threads combined, element by element, for all.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no values, or a place or root beyond the threads; [`Error::NotPermitted`] where threads
    /// disagree, or two have one place. What other nodes find ends the job with one line.
    pub fn allreduce<T: Number>(self, op: Op, values: &mut [T]) -> Result<()> {
        self.collect(Collective::Reduce(op.operation(), None), T::ELEMENT, values, None)
    }

    /// The numbers of the threads of lower places and this one's combined, element by element.
    ///
    /// # Errors
    /// As for [`Party::allreduce`].
    pub fn scan<T: Number>(self, op: Op, values: &mut [T]) -> Result<()> {
        self.collect(Collective::Scan(op.operation()), T::ELEMENT, values, None)
    }

    /// As [`Party::reduce`], in the order of all places, by a function that each thread with a result calls.
    ///
    /// # Errors
    /// As for [`Party::allreduce`]; [`Error::Invalid`] for values of more than 32 KiB, or of all threads
    /// together of more than 960 KiB.
    pub fn reduce_with<T: Shareable + Copy>(
        self,
        root: usize,
        values: &mut [T],
        combine: impl FnMut(T, T) -> T,
    ) -> Result<()> {
        self.combined(Collective::Reduce(Operation::Gather, Some(small(root)?)), values, combine)
    }

    /// As [`Party::reduce_with`], for all.
    ///
    /// # Errors
    /// As for [`Party::reduce_with`].
    pub fn allreduce_with<T: Shareable + Copy>(
        self,
        values: &mut [T],
        combine: impl FnMut(T, T) -> T,
    ) -> Result<()> {
        self.combined(Collective::Reduce(Operation::Gather, None), values, combine)
    }

    /// As [`Party::scan`], by a function.
    ///
    /// # Errors
    /// As for [`Party::reduce_with`].
    pub fn scan_with<T: Shareable + Copy>(
        self,
        values: &mut [T],
        combine: impl FnMut(T, T) -> T,
    ) -> Result<()> {
        self.combined(Collective::Scan(Operation::Gather), values, combine)
    }

    fn combined<T: Shareable + Copy>(
        self,
        what: Collective,
        values: &mut [T],
        mut combine: impl FnMut(T, T) -> T,
    ) -> Result<()> {
        let mut combine = |into: &mut [u8], with: &[u8]| {
            let one: T = value(into);
            let both = combine(one, value(with));
            into.copy_from_slice(bytes(slice::from_ref(&both)));
        };
        self.collect(what, bytes_of::<T>()?, values, Some(&mut combine))
    }

    fn collect<T: Shareable + Copy>(
        self,
        what: Collective,
        element: Element,
        values: &mut [T],
        combine: Option<Combine<'_>>,
    ) -> Result<()> {
        let (threads, place) = (small(self.threads)?, small(self.place)?);
        let party = multigrain_runtime::Party::new(self.id, threads, place);
        let bytes = size_of_val(values);
        // SAFETY: values without padding, of which any bytes are values.
        let bytes = unsafe { slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), bytes) };
        runtime()?.collect(party, what, (element, bytes), combine).map(drop)
    }
}

fn bytes<T: Shareable>(values: &[T]) -> &[u8] {
    // SAFETY: values without padding.
    unsafe { slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }
}

fn value<T: Shareable + Copy>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>(), "elements come whole");
    // SAFETY: as many bytes as a value has, of which any are one.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

fn bytes_of<T>() -> Result<Element> {
    Ok(Element::Bytes(small(size_of::<T>())?))
}

fn small(number: usize) -> Result<u32> {
    let small = u32::try_from(number).ok().filter(|&small| small < 1 << 30);
    small.ok_or_else(|| Error::Invalid(format!("{number} in a collective operation")))
}
