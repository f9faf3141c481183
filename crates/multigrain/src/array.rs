//! Many values in shared memory, each a minipage of its own or as many as a policy says.

#![expect(unsafe_code, reason = "shared memory is reached by pointer")]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use multigrain_runtime::runtime;

use crate::Result;
use crate::job::Job;
use crate::pointer::{pointer, pointer_of};
use crate::portable::Portable;
use crate::shareable::Shareable;
use crate::shared::Shared;

/// Elements that nodes fetch and write one by one, without false sharing. They are not contiguous:
/// neighbours lie in different views, or in different chunks.
///
/// ```
/// # fn main() -> multigrain::Result<()> {
/// let job = multigrain::Job::join()?;
/// let molecules = job.alloc_array::<[f64; 9]>(512)?;
/// molecules.at(7).set([1.0; 9]);
/// for molecule in molecules.elements()? {
///     molecule.set(molecule.get().map(|x| 2.0 * x));
/// }
/// assert_eq!(molecules.at(7).get(), [2.0; 9]);
/// # Ok(()) }
/// ```
pub struct SharedArray<'job, T> {
    base: NonNull<T>,
    len: usize,
    job: PhantomData<&'job Job>,
}

impl<'job, T: Shareable> SharedArray<'job, T> {
    /// The array at an address that came from [`SharedArray::as_ptr`], perhaps on another node.
    ///
    /// # Safety
    /// `base` is a live allocation of [`Job::alloc_array`](crate::Job::alloc_array) with `len`
    /// elements of `T`.
    #[must_use]
    pub unsafe fn from_ptr(_: &'job Job, base: NonNull<T>, len: usize) -> Self {
        // SAFETY: the caller's promise; the job is borrowed.
        unsafe { Self::new(base, len) }
    }

    /// # Safety
    /// As [`SharedArray::from_ptr`], for as long as the job that the lifetime borrows.
    pub(crate) unsafe fn new(base: NonNull<T>, len: usize) -> Self {
        Self { base, len, job: PhantomData }
    }

    /// Address of the first element, the same on every node; the second is not behind it.
    #[must_use]
    pub fn as_ptr(self) -> *mut T {
        self.base.as_ptr()
    }

    /// How many elements.
    #[must_use]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none; never so.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// One element. [`SharedArray::elements`] is faster for many.
    ///
    /// # Panics
    /// If there is no such element, or the array was freed.
    #[must_use]
    pub fn at(self, index: usize) -> Shared<'job, T> {
        assert!(index < self.len, "element {index} of a shared array of {}", self.len);
        let address = runtime().and_then(|runtime| runtime.element(self.base.addr().get(), index));
        element(address.expect("a live array of a joined job"))
    }

    /// All elements.
    ///
    /// # Errors
    /// The array was freed.
    pub fn elements(self) -> Result<Vec<Shared<'job, T>>> {
        let mut addresses = vec![0; self.len];
        runtime()?.elements(self.base.addr().get(), &mut addresses)?;
        Ok(addresses.into_iter().map(element).collect())
    }

    /// Gives the array back.
    ///
    /// # Safety
    /// No thread of any node uses its elements any more, through any handle.
    ///
    /// # Errors
    /// Free already.
    pub unsafe fn free(self) -> Result<()> {
        runtime()?.free(self.base.addr().get())
    }
}

fn element<'job, T: Shareable>(address: usize) -> Shared<'job, T> {
    // SAFETY: the runtime gave the address of an element of a live array of `T`.
    unsafe { Shared::new(pointer(address)) }
}

impl<T> Clone for SharedArray<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedArray<'_, T> {}

impl<T> fmt::Debug for SharedArray<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SharedArray({:p}, {})", self.base, self.len)
    }
}

// SAFETY: the elements are only reached as `Shared`, from any thread.
unsafe impl<T: Shareable> Send for SharedArray<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for SharedArray<'_, T> {}

// SAFETY: address and length are all there is.
unsafe impl<T: Shareable> Portable for SharedArray<'_, T> {
    const WORDS: usize = 2;

    fn put(self, words: &mut [u64]) {
        (self.base.addr().get(), self.len).put(words);
    }

    unsafe fn take(words: &[u64]) -> Self {
        // SAFETY: two numbers.
        let (base, len): (u64, usize) = unsafe { Portable::take(words) };
        // SAFETY: the address and length of a handle of this type, live as the caller says.
        unsafe { Self::new(pointer_of(base), len) }
    }
}
