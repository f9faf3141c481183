//! Guards: how accesses that the protocol has not granted become traps.
//!
//! Role: one trait, one file per backend, one conformance suite (tests/conformance.rs) over all.
//! A guard knows vpages and access rights; it knows neither minipages nor who holds them, nor where the object
//! behind them came from. The caller holds the minipage's lock around state and protection together.

use core::fmt;
use std::os::fd::RawFd;

use multigrain_types::{Access, PAGE_BYTES};
use rustix::mm::ProtFlags;

use crate::access_path::AccessPath;
use crate::error::MemoryError;
use crate::guard_kind::{GuardChoice, GuardKind};
use crate::object::Object;

mod mprotect;
mod uffd;
mod uffd_ioctl;

pub(crate) use uffd_ioctl::{Features, Register, Userfault};

/// Neighbouring vpages of one view and the same pages in the privileged view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vpages {
    /// First address, at the start of a page.
    pub(crate) address: usize,
    /// Whole pages.
    pub(crate) bytes: usize,
    /// The same bytes in the privileged view; an exposed address.
    pub(crate) privileged: usize,
    /// Whether the area started here as the initial holder: pages may never have been touched.
    pub(crate) fresh: bool,
}

impl Vpages {
    /// The first of the same bytes in the privileged view.
    fn privileged(self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.privileged)
    }

    /// Whether `next` begins where these end, in both views.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        let end = (self.address + self.bytes, self.privileged + self.bytes);
        end == (next.address, next.privileged)
    }
}

/// A way to make accesses trap. All methods but `attach` may run in signal context: they take
/// no lock, allocate nothing and leave errno alone.
pub(crate) trait Guard: Send + Sync + fmt::Debug {
    fn kind(&self) -> GuardKind;
    /// The signal a trap raises.
    fn signal(&self) -> i32;
    /// The descriptor it keeps open, if it needs one.
    fn descriptor(&self) -> Option<RawFd>;
    /// The protection to map the views of an area with.
    fn first_protection(&self, fresh: bool) -> ProtFlags;
    /// Takes charge of new views. Afterwards accesses trap everywhere (not fresh) or nowhere.
    fn attach(&self, address: usize, bytes: usize, fresh: bool) -> Result<(), MemoryError>;
    /// Changes the access of vpages; a restriction holds in every thread when this returns.
    fn protect(&self, vpages: Vpages, from: Access, to: Access) -> Result<(), MemoryError>;
    /// Makes the page tables agree with `access`, whatever they hold.
    fn reprotect(&self, vpages: Vpages, access: Access) -> Result<(), MemoryError>;
    /// Allocates pages of a fresh area and maps them in all its views, so that no touch traps. The
    /// first is given as it is in the first view; the others are `stride` bytes apart.
    fn populate(&self, first: Vpages, views: u16, stride: usize) -> Result<(), MemoryError>;
}

/// The guard for `choice` and one line on which it is and why.
pub(crate) fn choose(choice: GuardChoice) -> Result<(Box<dyn Guard>, String), MemoryError> {
    if choice == GuardChoice::Mprotect {
        let note = "mprotect, as asked for: up to about 65,000 minipages".to_owned();
        return Ok((Box::new(mprotect::Mprotect), note));
    }
    match uffd::Uffd::open() {
        Ok(guard) => Ok((Box::new(guard), "userfaultfd: traps in the faulting thread".to_owned())),
        Err(MemoryError::GuardUnavailable { call, errno, .. }) if choice == GuardChoice::Auto => {
            let note = format!(
                "mprotect, because userfaultfd does not work here ({call}: {errno}): up to about \
                 65,000 minipages"
            );
            Ok((Box::new(mprotect::Mprotect), note))
        }
        Err(error) => Err(error),
    }
}

/// The same for an object that came by that path, and not every guard works on.
pub(crate) fn choose_for(
    choice: GuardChoice,
    path: AccessPath,
    object: &Object,
) -> Result<(Box<dyn Guard>, String), MemoryError> {
    let (guard, note) = choose(choice)?;
    // On a memfd it was tried.
    let tried = match path {
        AccessPath::Memfd => Ok(()),
        AccessPath::File | AccessPath::SystemV | AccessPath::Mdup => {
            object.try_on_a_page(|address| guard.attach(address, PAGE_BYTES, false))
        }
    };
    match tried {
        Ok(()) => Ok((guard, note)),
        Err(MemoryError::NotGuarded { .. }) if choice == GuardChoice::Auto => {
            let note = format!(
                "mprotect, because userfaultfd does not work with --path {path} here: up to about 65,000 minipages"
            );
            Ok((Box::new(mprotect::Mprotect), note))
        }
        Err(MemoryError::NotGuarded { .. }) => {
            Err(MemoryError::PathNotGuarded { guard: guard.kind(), path })
        }
        Err(error) => Err(error),
    }
}
