//! Names for handles: what one node publishes, every node can look up.
//!
//! A typed handle is published as a description in shared memory, so that a look-up of another
//! type or length fails instead of reading what is not there. Its name is kept apart from the raw
//! addresses' (as C programs publish them) by a leading zero byte.

#![expect(unsafe_code, reason = "makes handles of described memory")]

use core::any::TypeId;
use core::ptr::NonNull;
use std::hash::{DefaultHasher, Hash, Hasher};

use multigrain_protocol::Kind;
use multigrain_runtime::Error;

use crate::Result;
use crate::array::SharedArray;
use crate::atomic_copy;
use crate::job::Job;
use crate::mutex::Mutex;
use crate::pointer::pointer;
use crate::portable::Portable;
use crate::rwlock::RwLock;
use crate::shareable::Shareable;
use crate::shared::Shared;
use crate::slice::SharedSlice;
use crate::sync::{Barrier, Condvar, Once, Semaphore};

/// Most words of a handle.
const HANDLE_WORDS: usize = 3;

/// The number of its type, and its words.
type Description = [u64; 1 + HANDLE_WORDS];

impl Job {
    /// Makes a handle known to the job under a name of up to 61 bytes. A name can be given again:
    /// later look-ups see the last.
    ///
    /// # Errors
    /// A name that is empty, too long or begins with a zero byte; no room.
    pub fn publish<'job, H: Handle<'job>>(&'job self, name: &str, handle: H) -> Result<()> {
        let mut description: Description = [0; 1 + HANDLE_WORDS];
        description[0] = type_number::<H::Kind>();
        handle.put(&mut description[1..]);
        let place = self.alloc(description)?;
        self.runtime().publish(&typed(name)?, place.as_ptr().addr())
    }

    /// The handle published under a name; waits until some node has published it.
    ///
    /// # Errors
    /// A name of something else, of an improper length, or beginning with a zero byte.
    pub fn lookup<'job, H: Handle<'job>>(&'job self, name: &str) -> Result<H> {
        let address = self.runtime().lookup(&typed(name)?)?;
        self.runtime().check_range(address, size_of::<Description>(), Kind::Read)?;
        let place = pointer::<Description>(address);
        // SAFETY: such names are given by `publish` alone, for live descriptions.
        let description = unsafe { atomic_copy::load(place.as_ptr()) };
        if description[0] != type_number::<H::Kind>() {
            let wanted = core::any::type_name::<H>();
            return Err(Error::Invalid(format!("{name:?} is no {wanted}")));
        }
        // SAFETY: the words of a handle of this type, as `publish` wrote them; it lives as the job,
        // unless it was freed, and who freed it said that nobody uses it.
        Ok(unsafe { H::take(&description[1..]) })
    }

    /// Node 0 makes something and publishes it, the others look it up: every node calls this and
    /// gets the same handle.
    ///
    /// # Errors
    /// Those of `make`, [`Job::publish`] and [`Job::lookup`].
    pub fn share<'job, H: Handle<'job>>(
        &'job self,
        name: &str,
        make: impl FnOnce() -> Result<H>,
    ) -> Result<H> {
        if self.node() != 0 {
            return self.lookup(name);
        }
        let handle = make()?;
        self.publish(name, handle)?;
        Ok(handle)
    }

    /// Publishes a raw address of shared memory, as `mg_publish` does.
    ///
    /// # Errors
    /// An address that is private to this node; a name that is empty, longer than 63 bytes or begins with a zero byte.
    pub fn publish_ptr<T>(&self, name: &str, address: NonNull<T>) -> Result<()> {
        self.runtime().check_range(address.addr().get(), 0, Kind::Read)?;
        self.runtime().publish(raw(name)?, address.addr().get())
    }

    /// The raw address published under a name, as `mg_lookup` gives it; waits for it.
    ///
    /// # Errors
    /// A name that is empty, longer than 63 bytes or begins with a zero byte.
    pub fn lookup_ptr<T>(&self, name: &str) -> Result<NonNull<T>> {
        let address = self.runtime().lookup(raw(name)?)?;
        self.runtime().check_range(address, 0, Kind::Read)?;
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

/// Handles that can be published: [`Shared`], [`SharedSlice`], [`SharedArray`], [`Mutex`], [`RwLock`],
/// [`Barrier`], [`Condvar`], [`Semaphore`], [`Once`].
pub trait Handle<'job>: Portable + Copy + 'job {
    /// The same type of handle, whatever the job's lifetime.
    #[doc(hidden)]
    type Kind: 'static;
}

impl<'job, T: Shareable> Handle<'job> for Shared<'job, T> {
    type Kind = Shared<'static, T>;
}

impl<'job, T: Shareable> Handle<'job> for SharedSlice<'job, T> {
    type Kind = SharedSlice<'static, T>;
}

impl<'job, T: Shareable> Handle<'job> for SharedArray<'job, T> {
    type Kind = SharedArray<'static, T>;
}

impl<'job, T: Shareable> Handle<'job> for Mutex<'job, T> {
    type Kind = Mutex<'static, T>;
}

impl<'job, T: Shareable> Handle<'job> for RwLock<'job, T> {
    type Kind = RwLock<'static, T>;
}

impl<'job> Handle<'job> for Once<'job> {
    type Kind = Once<'static>;
}

impl<'job> Handle<'job> for Barrier<'job> {
    type Kind = Barrier<'static>;
}

impl<'job> Handle<'job> for Condvar<'job> {
    type Kind = Condvar<'static>;
}

impl<'job> Handle<'job> for Semaphore<'job> {
    type Kind = Semaphore<'static>;
}
