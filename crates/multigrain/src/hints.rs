//! Hints: copies ahead of use, and access ahead of a system call.

use core::marker::PhantomData;

use multigrain_protocol::Kind;
use multigrain_runtime::runtime;

use crate::Result;
use crate::mutex::Mutex;
use crate::shareable::Shareable;
use crate::shared::Shared;
use crate::slice::SharedSlice;

/// A stretch of shared memory that can be asked for, handed out, or held ready for the kernel.
///
/// System calls do not fault on shared memory, they fail with `EFAULT`: hold it ready first.
pub trait Region {
    /// First address, and bytes.
    fn extent(&self) -> (usize, usize);

    /// Asks for read copies without waiting.
    ///
    /// # Errors
    /// Not shared memory.
    fn prefetch_read(&self) -> Result<()> {
        let (address, bytes) = self.extent();
        runtime()?.prefetch(address, bytes, Kind::Read)
    }

    /// Asks for writable copies without waiting.
    ///
    /// # Errors
    /// Not shared memory.
    fn prefetch_write(&self) -> Result<()> {
        let (address, bytes) = self.extent();
        runtime()?.prefetch(address, bytes, Kind::Write)
    }

    /// Hands read copies to every node, without waiting.
    ///
    /// # Errors
    /// Not shared memory.
    fn push(&self) -> Result<()> {
        let (address, bytes) = self.extent();
        runtime()?.push(address, bytes)
    }

    /// Brings its minipages here to be written, and keeps them until the result is dropped: no other node gets one of
    /// them (MIRAGE+ 5.4). Threads of this node do not exclude each other so. Lock in the same order everywhere.
    ///
    /// # Errors
    /// Not shared memory; release consistent; in a segment that this node is attached to read.
    fn lock_pages(&self) -> Result<PageLock> {
        let (address, bytes) = self.extent();
        runtime()?.write_lock(address, bytes)?;
        Ok(PageLock { address, bytes, thread: PhantomData })
    }

    /// Returns once this node holds all of it for reading.
    ///
    /// # Errors
    /// Not shared memory.
    fn touch_read(&self) -> Result<()> {
        let (address, bytes) = self.extent();
        runtime()?.touch(address, bytes, Kind::Read)
    }

    /// Returns once this node holds all of it for writing.
    ///
    /// # Errors
    /// Not shared memory.
    fn touch_write(&self) -> Result<()> {
        let (address, bytes) = self.extent();
        runtime()?.touch(address, bytes, Kind::Write)
    }
}

/// Minipages that this thread keeps, see [`Region::lock_pages`].
#[derive(Debug)]
pub struct PageLock {
    address: usize,
    bytes: usize,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for PageLock {
    fn drop(&mut self) {
        if let Ok(runtime) = runtime() {
            // What was freed meanwhile nobody keeps.
            let _ = runtime.write_unlock(self.address, self.bytes);
        }
    }
}

impl<T: Shareable> Region for Shared<'_, T> {
    fn extent(&self) -> (usize, usize) {
        (self.as_ptr().addr(), size_of::<T>())
    }
}

impl<T: Shareable> Region for SharedSlice<'_, T> {
    fn extent(&self) -> (usize, usize) {
        (self.as_ptr().addr(), self.len() * size_of::<T>())
    }
}

impl<T: Shareable> Region for Mutex<'_, T> {
    fn extent(&self) -> (usize, usize) {
        self.value().extent()
    }
}
