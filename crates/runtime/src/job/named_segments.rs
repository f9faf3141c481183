//! The calls of a program about named segments.

use core::time::Duration;

use multigrain_memory::Minipages;
use multigrain_protocol::Kind;
use multigrain_types::Access;

use super::Runtime;
use crate::error::Error;
use crate::heap::Heap;
use crate::named_segments::{NamedSegments, SegmentOptions, SegmentStat};

impl Runtime {
    /// Makes a segment of `bytes` under a name, zeroed, with the rights of a file of that mode; nobody is attached to
    /// it. This node is its library site.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Invalid`] for a name, size, grain or mode that is none; no room.
    pub fn segment_create(
        &self,
        name: &[u8],
        bytes: usize,
        mode: u32,
        options: SegmentOptions,
    ) -> Result<(), Error> {
        let driver = self.member()?;
        NamedSegments::create(driver, &self.services.heap, name, (bytes, mode), options)
    }

    /// Attaches this node to the segment of a name, to read it or to write it too; its address, which is the same on
    /// every node. `waits` until there is one.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Denied`]; [`Error::Invalid`] for a name that is none.
    pub fn segment_attach(&self, name: &[u8], writes: bool, waits: bool) -> Result<usize, Error> {
        let access = if writes { Access::ReadWrite } else { Access::ReadOnly };
        self.services.segments.attach(self.member()?, name, (access, waits))
    }

    /// Ends an attach of this node to the segment that begins at an address, those to read before those to write.
    ///
    /// # Errors
    /// [`Error::NotShared`] if this node is not attached to a segment there.
    pub fn segment_detach(&self, address: usize) -> Result<(), Error> {
        self.services.segments.detach(self.member()?, &self.services.heap, address)
    }

    /// Takes the name of a segment away; it goes itself when nobody is attached.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotPermitted`] for who has not created it.
    pub fn segment_remove(&self, name: &[u8]) -> Result<(), Error> {
        self.services.segments.remove(self.member()?, &self.services.heap, name)
    }

    /// Sets the time window of pages of a segment, those that `bytes` from an address lie in, or with 0 bytes at its
    /// start of all: so long a node keeps a page that it was granted (MIRAGE+ 2.1). Zero: as long as contention suggests.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Denied`] if this node is not attached to write; [`Error::Invalid`] for a range
    /// beyond it, more than 10 seconds, and release consistency.
    pub fn segment_set_window(
        &self,
        address: usize,
        bytes: usize,
        window: Duration,
    ) -> Result<(), Error> {
        self.services.segments.set_window(self.member()?, (address, bytes), window)
    }

    /// Brings the minipages that so many bytes from an address lie in here to be written, and keeps them until this
    /// thread unlocks them: no other node gets one (MIRAGE+ 5.4). A thread may lock a minipage again, and unlocks it as
    /// often; its end unlocks all.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for a range that ends beyond its allocation, and for release consistency;
    /// [`Error::Denied`] in a segment that this node is attached to read.
    pub fn write_lock(&self, address: usize, bytes: usize) -> Result<(), Error> {
        self.member()?.lock_pages(self.lockable(address, bytes)?)
    }

    /// Lets them go.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread has not locked all of them; else as [`Runtime::write_lock`].
    pub fn write_unlock(&self, address: usize, bytes: usize) -> Result<(), Error> {
        match self.member()?.unlock_pages(self.lockable(address, bytes)?)? {
            true => Ok(()),
            false => Err(Error::NotPermitted(format!(
                "unlock of {bytes} bytes from {address:#x}, not all of which this thread has locked"
            ))),
        }
    }

    fn lockable(&self, address: usize, bytes: usize) -> Result<Minipages, Error> {
        let driver = self.member()?;
        Heap::check_range(driver, address, bytes, Kind::Write)?;
        let minipages = driver.memory().translate_range(address, bytes.max(1));
        let Some(id) = minipages.clone().next().map(|minipage| minipage.area()) else {
            return Err(Error::NotShared(address));
        };
        if !driver.tables().is_sequential(id) {
            let line = "a write lock of release consistent memory, whose pages many nodes may write at a time";
            return Err(Error::Invalid(line.into()));
        }
        Ok(minipages)
    }

    /// The segment of a name, as it is now.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn segment_stat(&self, name: &[u8]) -> Result<SegmentStat, Error> {
        self.services.segments.stat(self.member()?, name)
    }

    /// The segment at an address, removed or not.
    ///
    /// # Errors
    /// [`Error::NotShared`] if none is there.
    pub fn segment_stat_at(&self, address: usize) -> Result<SegmentStat, Error> {
        self.services.segments.stat_at(self.member()?, address)
    }
}
