//! Contiguous values in shared memory.

#![expect(unsafe_code, reason = "shared memory is reached by pointer")]

mod iter;

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Bound, Index, RangeBounds};
use core::ptr::NonNull;

use multigrain_runtime::runtime;

use crate::Result;
use crate::atomic_copy;
use crate::job::Job;
use crate::pointer::pointer_of;
use crate::portable::Portable;
use crate::shareable::{Atomic, Shareable};
use crate::shared::Shared;

pub use iter::{Chunks, Iter};

/// A contiguous block of values, cut into minipages as [`Grain`](crate::Grain) says, or a part of
/// one.
///
/// ```
/// use multigrain::{Grain, Job, Region};
///
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// let row = job.alloc_slice::<f64>(1000, Grain::Whole)?;
/// row.set(0, 1.0);
/// row.write(1, &[2.0, 3.0]);
/// row.slice(..3).prefetch_read()?;
/// assert_eq!(row.slice(..3).to_vec(), [1.0, 2.0, 3.0]);
/// for place in row.slice(3..) {
///     place.set(0.5);
/// }
/// assert_eq!(row.values().sum::<f64>(), 504.5);
/// # Ok(()) }
/// ```
pub struct SharedSlice<'job, T> {
    start: NonNull<T>,
    len: usize,
    job: PhantomData<&'job Job>,
}

impl<'job, T: Shareable> SharedSlice<'job, T> {
    /// The block at an address that came from [`SharedSlice::as_ptr`], perhaps on another node.
    ///
    /// # Safety
    /// `start` is live shared memory of `len` values, aligned, and under no
    /// [`Mutex`](crate::Mutex).
    #[must_use]
    pub unsafe fn from_ptr(_: &'job Job, start: NonNull<T>, len: usize) -> Self {
        // SAFETY: the caller's promise; the job is borrowed.
        unsafe { Self::new(start, len) }
    }

    /// # Safety
    /// As [`SharedSlice::from_ptr`], for as long as the job that the lifetime borrows.
    pub(crate) unsafe fn new(start: NonNull<T>, len: usize) -> Self {
        Self { start, len, job: PhantomData }
    }

    /// Address of the first value, the same on every node.
    #[must_use]
    pub fn as_ptr(self) -> *mut T {
        self.start.as_ptr()
    }

    /// How many values.
    #[must_use]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// One value.
    ///
    /// # Panics
    /// If there is no such value.
    #[inline]
    #[must_use]
    pub fn at(self, index: usize) -> Shared<'job, T> {
        assert!(index < self.len, "value {index} of a shared slice of {}", self.len);
        // SAFETY: within the block.
        let place = unsafe { self.start.add(index) };
        // SAFETY: a value of the block, which is live shared memory.
        unsafe { Shared::new(place) }
    }

    /// A part of the block.
    ///
    /// # Panics
    /// If the range leaves the block.
    #[must_use]
    pub fn slice(self, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        assert!(
            start <= end && end <= self.len,
            "values {start}..{end} of a shared slice of {}",
            self.len
        );
        // SAFETY: within the block, or just behind it.
        let first = unsafe { self.start.add(start) };
        Self { start: first, len: end - start, job: PhantomData }
    }

    /// The first `middle` values, and the others.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn split_at(self, middle: usize) -> (Self, Self) {
        (self.slice(..middle), self.slice(middle..))
    }

    /// The values as handles, in order. [`SharedSlice::values`] gives copies.
    #[must_use]
    pub fn iter(self) -> Iter<'job, T> {
        Iter::new(self)
    }

    /// Parts of `len` values, in order; the last may be shorter.
    ///
    /// # Panics
    /// If `len` is 0.
    #[must_use]
    pub fn chunks(self, len: usize) -> Chunks<'job, T> {
        Chunks::new(self, len)
    }

    /// Gives the block back.
    ///
    /// # Safety
    /// No thread of any node uses its values any more, through any handle.
    ///
    /// # Errors
    /// Not the start of an allocation, or free already.
    pub unsafe fn free(self) -> Result<()> {
        runtime()?.free(self.start.addr().get())
    }
}

impl<'job, T: Shareable + Copy> SharedSlice<'job, T> {
    /// A copy of one value.
    ///
    /// # Panics
    /// If there is no such value.
    #[inline]
    #[must_use]
    pub fn get(self, index: usize) -> T {
        self.at(index).get()
    }

    /// Replaces one value.
    ///
    /// # Panics
    /// If there is no such value.
    #[inline]
    pub fn set(self, index: usize, value: T) {
        self.at(index).set(value);
    }

    /// Copies as many values as `out` takes, from `start` on.
    ///
    /// # Panics
    /// If the block ends before.
    pub fn read(self, start: usize, out: &mut [T]) {
        let part = self.slice(start..start + out.len());
        for (index, place) in out.iter_mut().enumerate() {
            // SAFETY: within the part, which is as long as `out`.
            let from = unsafe { part.start.add(index) };
            // SAFETY: live shared memory of a `T`.
            *place = unsafe { atomic_copy::load(from.as_ptr()) };
        }
    }

    /// Replaces the values from `start` on.
    ///
    /// # Panics
    /// If the block ends before `values` do.
    pub fn write(self, start: usize, values: &[T]) {
        let part = self.slice(start..start + values.len());
        for (index, &value) in values.iter().enumerate() {
            // SAFETY: within the part, which is as long as `values`.
            let to = unsafe { part.start.add(index) };
            // SAFETY: live shared memory of a `T`.
            unsafe { atomic_copy::store(to.as_ptr(), value) };
        }
    }

    /// Replaces every value.
    pub fn fill(self, value: T) {
        self.iter().for_each(|place| place.set(value));
    }

    /// Copies of the values, in order, each as it is when it is asked for.
    pub fn values(self) -> impl ExactSizeIterator<Item = T> + DoubleEndedIterator + use<'job, T> {
        self.iter().map(Shared::get)
    }

    /// A private copy.
    #[must_use]
    pub fn to_vec(self) -> Vec<T> {
        self.values().collect()
    }
}

impl<A: Atomic> Index<usize> for SharedSlice<'_, A> {
    type Output = A;

    fn index(&self, index: usize) -> &A {
        assert!(index < self.len, "value {index} of a shared slice of {}", self.len);
        // SAFETY: within the block.
        let place = unsafe { self.start.add(index) };
        // SAFETY: live shared memory of an `A`, which processes may share by reference.
        unsafe { place.as_ref() }
    }
}

impl<T> Clone for SharedSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedSlice<'_, T> {}

impl<T> fmt::Debug for SharedSlice<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SharedSlice({:p}, {})", self.start, self.len)
    }
}

// SAFETY: the values are only copied word by word or reached as atomics, from any thread.
unsafe impl<T: Shareable> Send for SharedSlice<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for SharedSlice<'_, T> {}

impl<'job, T: Shareable> IntoIterator for SharedSlice<'job, T> {
    type Item = Shared<'job, T>;
    type IntoIter = Iter<'job, T>;

    fn into_iter(self) -> Iter<'job, T> {
        self.iter()
    }
}

// SAFETY: address and length are all there is.
unsafe impl<T: Shareable> Portable for SharedSlice<'_, T> {
    const WORDS: usize = 2;

    fn put(self, words: &mut [u64]) {
        (self.start.addr().get(), self.len).put(words);
    }

    unsafe fn take(words: &[u64]) -> Self {
        // SAFETY: two numbers.
        let (start, len): (u64, usize) = unsafe { Portable::take(words) };
        // SAFETY: the address and length of a handle of this type, live as the caller says.
        unsafe { Self::new(pointer_of(start), len) }
    }
}
