//! Children of a node: what fork() makes is outside of the job.
//!
//! A child has its parent's memory except for the views, and its parent's descriptors. It must neither use them nor
//! keep them open, since peers and launcher take the end of the streams for the parent's end. So they are closed before
//! fork() returns in the child, its calls are refused, and an access to shared memory ends it ([`crate::trap`]). A
//! child made by other means than fork(), or by another thread while mg_init is running, keeps the descriptors. It is
//! told from its node all the same, by a page that the kernel clears in every child. exec works as ever, and so do
//! vfork() and posix_spawn(), whose children have no memory of their own.

#![expect(unsafe_code, reason = "the C library's hook of fork, and a page that forks clear")]

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io::Write as _;
use std::sync::OnceLock;

use multigrain_types::exit_codes::FATAL;
use multigrain_types::{NodeId, PAGE_BYTES};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use crate::error::Error;
use crate::interposed_close;
use crate::launcher::exit_now;

/// What a child needs to know of its node.
#[derive(Debug)]
struct Parent {
    rank: NodeId,
    /// 1 in the node, 0 in its children.
    inside: &'static AtomicU32,
}

static PARENT: OnceLock<Parent> = OnceLock::new();

/// Children of this process are outside from now on.
///
/// # Errors
/// [`Error::System`].
pub(crate) fn keep_outside(rank: NodeId) -> Result<(), Error> {
    let parent = Parent { rank, inside: word_of_this_process()? };
    PARENT.set(parent).map_err(|_| Error::AlreadyInitialized)?;
    let (before, after) = (interposed_close::before_fork, interposed_close::after_fork);
    // SAFETY: the hooks have the signature that is asked for.
    match unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) } {
        0 => Ok(()),
        failed => {
            let error = std::io::Error::from_raw_os_error(failed);
            Err(Error::System(format!("pthread_atfork: {error}")))
        }
    }
}

/// Whether this process is a node's child.
pub(crate) fn is_one() -> bool {
    parent().is_some()
}

/// The node whose child this process is.
fn parent() -> Option<NodeId> {
    let parent = PARENT.get().filter(|parent| parent.inside.load(Ordering::Relaxed) == 0);
    parent.map(|parent| parent.rank)
}

/// Refuses a child's call.
///
/// # Errors
/// [`Error::Child`].
pub(crate) fn refuse() -> Result<(), Error> {
    parent().map_or(Ok(()), |rank| Err(Error::Child(rank)))
}

/// A word that is 1 here, and 0 in every process that fork makes of this one.
fn word_of_this_process() -> Result<&'static AtomicU32, Error> {
    let failed = |call| move |errno| Error::System(format!("{call}: {errno}"));
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel picks the address, so no memory in use is replaced.
    let page = unsafe { mmap_anonymous(null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE) };
    let page = page.map_err(failed("mmap"))?;
    // SAFETY: the page is ours.
    let wiped = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) };
    wiped.map_err(failed("madvise"))?;
    // SAFETY: mapped for good, zeroed, and aligned to a page.
    let word = unsafe { &*page.cast::<AtomicU32>() };
    word.store(1, Ordering::Relaxed);
    Ok(word)
}

/// What fork() does in the child before it returns. Other threads may have held any lock.
extern "C" fn in_child() {
    interposed_close::close_all();
}

/// A child touched shared memory: ends it with one line. Allocates nothing and takes no lock.
pub(crate) fn end(address: usize) -> ! {
    let mut line = [0; 240];
    let mut room = &mut line[..];
    let rank = PARENT.get().map_or(NodeId(0), |parent| parent.rank);
    let _ = writeln!(
        room,
        "multigrain: a child process of {rank} touched shared memory at {address:#x}, which no child has: \
         let it use memory of its own, or exec another program"
    );
    let left = room.len();
    let _ = rustix::io::write(std::io::stderr(), &line[..line.len() - left]);
    exit_now(FATAL)
}
