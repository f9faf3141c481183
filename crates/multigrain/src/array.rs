//! Many values in shared memory, each a minipage of its own or as many as a policy says.

#![expect(unsafe_code, reason = "shared memory is reached by pointer")]

use core::fmt;
use core::ptr::NonNull;

use multigrain_runtime::runtime;

use crate::Result;
use crate::pointer::pointer;
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
/// let all = molecules.elements()?;
/// assert_eq!(all[7].get(), [1.0; 9]);
/// # Ok(()) }
/// ```
pub struct SharedArray<T> {
    base: NonNull<T>,
    len: usize,
}

impl<T: Shareable> SharedArray<T> {
    /// The array at an address that came from [`SharedArray::as_ptr`], perhaps on another node.
    ///
    /// # Safety
    /// `base` is a live allocation of [`Job::alloc_array`](crate::Job::alloc_array) with `len`
    /// elements of `T`.
    #[must_use]
    pub unsafe fn from_ptr(base: NonNull<T>, len: usize) -> Self {
        Self { base, len }
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
    /// If there is no such element, or after the job was left.
    #[must_use]
    pub fn at(self, index: usize) -> Shared<T> {
        assert!(index < self.len, "element {index} of a shared array of {}", self.len);
        let address = runtime().and_then(|runtime| runtime.element(self.base.addr().get(), index));
        element(address.expect("a live array of a joined job"))
    }

    /// All elements.
    ///
    /// # Errors
    /// [`Error::NotInitialized`](crate::Error::NotInitialized) after the job was left.
    pub fn elements(self) -> Result<Vec<Shared<T>>> {
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

fn element<T: Shareable>(address: usize) -> Shared<T> {
    // SAFETY: the runtime gave the address of an element of a live array of `T`.
    unsafe { Shared::from_ptr(pointer(address)) }
}

impl<T> Clone for SharedArray<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedArray<T> {}

impl<T> fmt::Debug for SharedArray<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SharedArray({:p}, {})", self.base, self.len)
    }
}

// SAFETY: the elements are only reached as `Shared`, from any thread.
unsafe impl<T: Shareable> Send for SharedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for SharedArray<T> {}
