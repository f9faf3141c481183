//! Names for handles: what one node publishes, every node can look up.
//!
//! A typed handle is published as a description in shared memory, so that a look-up of another
//! type or length fails instead of reading what is not there. Its name is kept apart from the raw
//! addresses' (as C programs publish them) by a leading zero byte.

#![expect(unsafe_code, reason = "makes handles of described memory")]

use core::any::TypeId;
use core::ptr::NonNull;
use std::hash::{DefaultHasher, Hash, Hasher};

use multigrain_runtime::Error;

use crate::Result;
use crate::array::SharedArray;
use crate::job::Job;
use crate::mutex::Mutex;
use crate::pointer::pointer;
use crate::shareable::Shareable;
use crate::shared::Shared;
use crate::slice::SharedSlice;
use crate::words;

/// Type, address, length, lock id.
type Description = [u64; 4];

impl Job {
    /// Makes a handle known to the job under a name of up to 61 bytes. A name can be given again:
    /// later look-ups see the last.
    ///
    /// # Errors
    /// A name that is empty, too long or begins with a zero byte; no room.
    pub fn publish<H: Handle>(&self, name: &str, handle: H) -> Result<()> {
        let (address, length, id) = handle.parts();
        let description: Description =
            [type_number::<H>(), address as u64, length as u64, u64::from(id)];
        let place = self.alloc(description)?;
        self.runtime().publish(&typed(name)?, place.as_ptr().addr())
    }

    /// The handle published under a name; waits until some node has published it.
    ///
    /// # Errors
    /// A name of something else, of an improper length, or beginning with a zero byte.
    pub fn lookup<H: Handle>(&self, name: &str) -> Result<H> {
        let place = pointer::<Description>(self.runtime().lookup(&typed(name)?)?);
        // SAFETY: such names are given by `publish` alone, for live descriptions.
        let [number, address, length, id] = unsafe { words::load(place.as_ptr()) };
        if number != type_number::<H>() {
            let wanted = core::any::type_name::<H>();
            return Err(Error::Invalid(format!("{name:?} is no {wanted}")));
        }
        let word = |number: u64| {
            usize::try_from(number).map_err(|_| Error::Invalid(format!("{number} is no address")))
        };
        let id = u32::try_from(id).map_err(|_| Error::Invalid(format!("{id} is no lock")))?;
        // SAFETY: the parts of a handle of this type, as `publish` took them.
        Ok(unsafe { H::from_parts(word(address)?, word(length)?, id) })
    }

    /// Node 0 makes something and publishes it, the others look it up: every node calls this and
    /// gets the same handle.
    ///
    /// # Errors
    /// Those of `make`, [`Job::publish`] and [`Job::lookup`].
    pub fn share<H: Handle>(&self, name: &str, make: impl FnOnce() -> Result<H>) -> Result<H> {
        if self.node() != 0 {
            return self.lookup(name);
        }
        let handle = make()?;
        self.publish(name, handle)?;
        Ok(handle)
    }

    /// Publishes a raw address, as `mg_publish` does.
    ///
    /// # Errors
    /// A name that is empty, longer than 63 bytes or begins with a zero byte.
    pub fn publish_ptr<T>(&self, name: &str, address: NonNull<T>) -> Result<()> {
        self.runtime().publish(raw(name)?, address.addr().get())
    }

    /// The raw address published under a name, as `mg_lookup` gives it; waits for it.
    ///
    /// # Errors
    /// A name that is empty, longer than 63 bytes or begins with a zero byte.
    pub fn lookup_ptr<T>(&self, name: &str) -> Result<NonNull<T>> {
        let address = self.runtime().lookup(raw(name)?)?;
        NonNull::new(core::ptr::with_exposed_provenance_mut(address))
            .ok_or_else(|| Error::Invalid(format!("{name:?} is NULL")))
    }
}

fn raw(name: &str) -> Result<&[u8]> {
    if name.starts_with('\0') {
        return Err(Error::Invalid("a name that begins with a zero byte".into()));
    }
    Ok(name.as_bytes())
}

fn typed(name: &str) -> Result<Vec<u8>> {
    if name.is_empty() {
        return Err(Error::Invalid("an empty name".into()));
    }
    Ok([b"\0:", raw(name)?].concat())
}

/// The same on every node, since all run the same program.
fn type_number<H: 'static>() -> u64 {
    let mut hasher = DefaultHasher::new();
    TypeId::of::<H>().hash(&mut hasher);
    hasher.finish()
}

/// Handles that can be published: [`Shared`], [`SharedSlice`], [`SharedArray`], [`Mutex`].
///
/// # Safety
/// `from_parts` of what `parts` said makes a handle that means the same, on any node.
pub unsafe trait Handle: Copy + 'static {
    /// Address, length, lock id.
    #[doc(hidden)]
    fn parts(&self) -> (usize, usize, u32);

    /// # Safety
    /// The parts come from `parts` of a handle of this type.
    #[doc(hidden)]
    unsafe fn from_parts(address: usize, length: usize, id: u32) -> Self;
}

// SAFETY: the address is all there is.
unsafe impl<T: Shareable> Handle for Shared<T> {
    fn parts(&self) -> (usize, usize, u32) {
        (self.as_ptr().addr(), 1, 0)
    }

    unsafe fn from_parts(address: usize, _: usize, _: u32) -> Self {
        // SAFETY: the address of a handle of this type.
        unsafe { Self::from_ptr(pointer(address)) }
    }
}

// SAFETY: address and length are all there is.
unsafe impl<T: Shareable> Handle for SharedSlice<T> {
    fn parts(&self) -> (usize, usize, u32) {
        (self.as_ptr().addr(), self.len(), 0)
    }

    unsafe fn from_parts(address: usize, length: usize, _: u32) -> Self {
        // SAFETY: the address and length of a handle of this type.
        unsafe { Self::from_ptr(pointer(address), length) }
    }
}

// SAFETY: address and length are all there is.
unsafe impl<T: Shareable> Handle for SharedArray<T> {
    fn parts(&self) -> (usize, usize, u32) {
        (self.as_ptr().addr(), self.len(), 0)
    }

    unsafe fn from_parts(address: usize, length: usize, _: u32) -> Self {
        // SAFETY: the address and length of a handle of this type.
        unsafe { Self::from_ptr(pointer(address), length) }
    }
}

// SAFETY: address and lock are all there is.
unsafe impl<T: Shareable> Handle for Mutex<T> {
    fn parts(&self) -> (usize, usize, u32) {
        (self.value().as_ptr().addr(), 1, self.id())
    }

    unsafe fn from_parts(address: usize, _: usize, id: u32) -> Self {
        // SAFETY: the address of a mutex's value, which is live.
        let value = unsafe { Shared::from_ptr(pointer(address)) };
        // SAFETY: handles to it are mutexes with this id.
        unsafe { Self::from_parts(id, value) }
    }
}
