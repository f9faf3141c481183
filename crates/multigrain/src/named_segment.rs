//! Named segments: memory that nodes attach to by its name, and detach from.

#![expect(unsafe_code, reason = "makes slices of attached memory")]

use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;
use core::time::Duration;

use multigrain_runtime::{SegmentOptions, SegmentStat};

use crate::Result;
use crate::job::Job;
use crate::pointer::pointer;
use crate::shareable::Shareable;
use crate::slice::SharedSlice;

/// An attach of this node to a named segment; dropping it detaches.
///
/// The segment lies at the same address on every node. It is there until it is removed
/// ([`Job::remove_segment`]) and nobody is attached, or the job ends.
///
/// ```
/// use multigrain::{Job, SegmentOptions};
///
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// if job.node() == 0 {
///     job.create_segment("board", 8192, 0o600, SegmentOptions::new())?;
/// }
/// let board = job.wait_for_segment("board")?;
/// board.slice::<u64>().set(job.node(), 7);
/// board.detach()?;
/// # job.barrier(0)?;
/// if job.node() == 0 {
///     job.remove_segment("board")?;
/// }
/// # Ok(()) }
/// ```
pub struct Segment<'job> {
    job: &'job Job,
    place: NonNull<u8>,
    bytes: usize,
    attached: bool,
}

impl Job {
    /// Makes a segment of `bytes` under a name of up to 63 bytes, zeroed, with the rights of a file of that mode; this
    /// node is its library site. Nobody is attached to it yet.
    ///
    /// # Errors
    /// There is one of that name; a name, size, grain or mode that is none; no room.
    pub fn create_segment(
        &self,
        name: &str,
        bytes: usize,
        mode: u32,
        options: SegmentOptions,
    ) -> Result<()> {
        self.runtime().segment_create(name.as_bytes(), bytes, mode, options)
    }

    /// Attaches this node to the segment of a name, to read and to write.
    ///
    /// # Errors
    /// There is none; its mode allows this process less.
    pub fn attach_segment(&self, name: &str) -> Result<Segment<'_>> {
        self.attach(name, true, false)
    }

    /// Attaches this node to the segment of a name to read it alone: what writes ends the program.
    ///
    /// # Errors
    /// As [`Job::attach_segment`].
    pub fn attach_segment_to_read(&self, name: &str) -> Result<Segment<'_>> {
        self.attach(name, false, false)
    }

    /// As [`Job::attach_segment`], as soon as there is such a segment.
    ///
    /// # Errors
    /// Its mode allows this process less.
    pub fn wait_for_segment(&self, name: &str) -> Result<Segment<'_>> {
        self.attach(name, true, true)
    }

    fn attach(&self, name: &str, writes: bool, waits: bool) -> Result<Segment<'_>> {
        let address = self.runtime().segment_attach(name.as_bytes(), writes, waits)?;
        let attached = true;
        let mut segment = Segment { job: self, place: pointer(address), bytes: 0, attached };
        segment.bytes = segment.stat()?.bytes;
        Ok(segment)
    }

    /// Takes the name of a segment away, which is free for another then; the segment itself goes when nobody is
    /// attached.
    ///
    /// # Errors
    /// There is none; another user created it.
    pub fn remove_segment(&self, name: &str) -> Result<()> {
        self.runtime().segment_remove(name.as_bytes())
    }

    /// The segment of a name, as it is now.
    ///
    /// # Errors
    /// There is none.
    pub fn segment_stat(&self, name: &str) -> Result<SegmentStat> {
        self.runtime().segment_stat(name.as_bytes())
    }
}

impl Segment<'_> {
    /// As many values as it has room for. Memory that nobody has written is zero.
    #[must_use]
    pub fn slice<T: Shareable>(&self) -> SharedSlice<'_, T> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096) };
        // SAFETY: shared memory of so many values at the start of a page; any bytes are values. It is borrowed as long
        // as this is attached, and what is touched later ends the program.
        unsafe { SharedSlice::from_ptr(self.job, self.place.cast(), self.bytes / size_of::<T>()) }
    }

    /// Sets the time window of all its pages: so long a node keeps a page that it was granted, though others ask for it
    /// (MIRAGE+'s Delta), up to 10 seconds. Zero: as long as contention suggests.
    ///
    /// # Errors
    /// It is attached to read alone, or release consistent; a window that is too long.
    pub fn set_window(&self, window: Duration) -> Result<()> {
        self.job.runtime().segment_set_window(self.place.addr().get(), 0, window)
    }

    /// The same of the pages that these bytes of it lie in.
    ///
    /// # Errors
    /// As [`Segment::set_window`]; bytes beyond it.
    pub fn set_window_of(&self, bytes: Range<usize>, window: Duration) -> Result<()> {
        let address = self.place.addr().get().saturating_add(bytes.start);
        self.job.runtime().segment_set_window(address, bytes.len(), window)
    }

    /// This segment, as it is now.
    ///
    /// # Errors
    /// None that is known.
    pub fn stat(&self) -> Result<SegmentStat> {
        self.job.runtime().segment_stat_at(self.place.addr().get())
    }

    /// Ends this attach, as dropping it does, and says whether it worked.
    ///
    /// # Errors
    /// None that is known.
    pub fn detach(mut self) -> Result<()> {
        self.attached = false;
        self.job.runtime().segment_detach(self.place.addr().get())
    }
}

impl Drop for Segment<'_> {
    fn drop(&mut self) {
        if self.attached && !std::thread::panicking() {
            let _ = self.job.runtime().segment_detach(self.place.addr().get());
        }
    }
}

impl fmt::Debug for Segment<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Segment({} bytes at {:p})", self.bytes, self.place)
    }
}
