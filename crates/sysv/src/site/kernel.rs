//! What the exports of a site ask of the kernel.
//!
//! Role: the seam between what is kept of processes and pages (`exports`) and who guards them: [`Linux`] here, and a model of it
//! in the tests, which explore what processes may do between any two of these calls.

use core::fmt::Debug;
use core::ops::Range;
use std::os::fd::OwnedFd;

use multigrain_types::PAGE_BYTES;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::Errno;

use super::page_copies;
use super::userfault::{Event, Userfault};

/// A kernel that guards mappings of memory objects in images of processes.
pub(super) trait Kernel: Debug {
    /// What guards an image: a userfaultfd.
    type Guard: Debug;
    /// A memory object.
    type Object: Debug;
    /// What wakes who serves an image.
    type Eventfd: Debug;

    /// Begins with the features that a site needs.
    fn enable(&mut self, guard: &Self::Guard) -> Result<(), Errno>;

    /// Guards whole mappings of a memory object: holes trap, and so do writes until they are let through.
    fn register(&mut self, guard: &Self::Guard, address: usize, bytes: usize) -> Result<(), Errno>;

    /// Takes write access, or gives it and lets those go on that wait. [`Errno::AGAIN`] while an event is not read of a fork or
    /// of a mapping that moves or goes; [`Errno::SRCH`] if the image is gone, [`Errno::NOENT`] if nothing guarded is there.
    fn protect(
        &mut self,
        guard: &Self::Guard,
        pages: (usize, usize),
        protect: bool,
    ) -> Result<(), Errno>;

    /// Makes a page of a hole, maps it at an address of an image, write-protected or not, and lets those go on that wait there, in
    /// one step. Errors as of [`Kernel::protect`], and [`Errno::EXIST`] if the object has a page there.
    fn fill(
        &mut self,
        guard: &Self::Guard,
        address: usize,
        contents: *const u8,
        protect: bool,
    ) -> Result<(), Errno>;

    /// Lets those try again that wait at these addresses.
    fn wake(&mut self, guard: &Self::Guard, address: usize, bytes: usize) -> Result<(), Errno>;

    /// The events that are there; an error if nothing is left of what a child's guard needs here.
    fn events(&mut self, guard: &Self::Guard) -> Result<Vec<Event<Self::Guard>>, Errno>;

    /// A memory object of so many bytes, all of it a hole.
    fn object(&mut self, bytes: usize) -> Result<Self::Object, Errno>;

    /// Reads a page of an object into a page of the privileged view.
    fn read(&mut self, object: &Self::Object, page: usize, place: *mut u8) -> Result<(), Errno>;

    /// Writes a page of the privileged view to an object.
    fn write(
        &mut self,
        object: &Self::Object,
        page: usize,
        contents: *const u8,
    ) -> Result<(), Errno>;

    /// Makes holes of pages of an object; nobody has them mapped afterwards.
    fn punch(&mut self, object: &Self::Object, pages: Range<usize>) -> Result<(), Errno>;

    /// An eventfd whose count is 0.
    fn eventfd(&mut self) -> Result<Self::Eventfd, Errno>;

    /// Makes it readable.
    fn notify(&mut self, eventfd: &Self::Eventfd);
}

/// The kernel that this runs on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Linux;

impl Kernel for Linux {
    type Guard = Userfault;
    type Object = OwnedFd;
    type Eventfd = OwnedFd;

    fn enable(&mut self, guard: &Userfault) -> Result<(), Errno> {
        guard.enable()
    }

    fn register(&mut self, guard: &Userfault, address: usize, bytes: usize) -> Result<(), Errno> {
        guard.register(address, bytes)
    }

    fn protect(
        &mut self,
        guard: &Userfault,
        (address, bytes): (usize, usize),
        protect: bool,
    ) -> Result<(), Errno> {
        guard.protect(address, bytes, protect)
    }

    fn fill(
        &mut self,
        guard: &Userfault,
        address: usize,
        contents: *const u8,
        protect: bool,
    ) -> Result<(), Errno> {
        guard.fill(address, contents, protect)
    }

    fn wake(&mut self, guard: &Userfault, address: usize, bytes: usize) -> Result<(), Errno> {
        guard.wake(address, bytes)
    }

    fn events(&mut self, guard: &Userfault) -> Result<Vec<Event<Userfault>>, Errno> {
        guard.events()
    }

    fn object(&mut self, bytes: usize) -> Result<OwnedFd, Errno> {
        let object = memfd_create("multigrain-sysv", MemfdFlags::CLOEXEC)?;
        ftruncate(&object, bytes as u64)?;
        Ok(object)
    }

    fn read(&mut self, object: &OwnedFd, page: usize, place: *mut u8) -> Result<(), Errno> {
        page_copies::read(object, page, place)
    }

    fn write(&mut self, object: &OwnedFd, page: usize, contents: *const u8) -> Result<(), Errno> {
        page_copies::write(object, page, contents)
    }

    fn punch(&mut self, object: &OwnedFd, pages: Range<usize>) -> Result<(), Errno> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (start, bytes) = (pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES);
        fallocate(object, hole, start as u64, bytes as u64)
    }

    fn eventfd(&mut self) -> Result<OwnedFd, Errno> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
    }

    fn notify(&mut self, eventfd: &OwnedFd) {
        // One that can take no more is readable already.
        let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
    }
}
