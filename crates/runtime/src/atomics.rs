//! Atomic operations as calls: on this node where it may write the word, at its manager else, and as an instruction would
//! where neither can.

#![expect(unsafe_code, reason = "a word is reached by its address")]

use multigrain_protocol::Kind;

use crate::atomic_op::AtomicOp;
use crate::driver::Driver;
use crate::error::Error;
use crate::heap::Heap;
use crate::prefetch::Prefetcher;

/// See [`crate::Runtime::fetch_op`].
pub(crate) fn fetch_op(
    driver: &Driver,
    prefetcher: &Prefetcher,
    address: usize,
    op: AtomicOp,
) -> Result<u64, Error> {
    let bytes = op.bytes();
    if !address.is_multiple_of(bytes) {
        let line = format!("an atomic operation on {address:#x}, no multiple of {bytes}");
        return Err(Error::Invalid(line));
    }
    Heap::check_range(driver, address, bytes, Kind::Write)?;
    let minipage = driver.memory().translate(address).ok_or(Error::NotShared(address))?;
    if !driver.tables().is_sequential(minipage.area()) {
        let what = "is release-consistent: there a lock, or mg_reduce, combines values";
        return Err(Error::Invalid(format!("{address:#x}, which {what}")));
    }
    // A race is looked for where an access traps.
    if let Some(word) = driver.word(address, bytes).filter(|_| !driver.races().are_checked()) {
        if let Some(before) = driver.apply_here(word, op) {
            return Ok(before);
        }
        if !driver.tables().manages(word.minipage)
            && let Some(before) = driver.apply_at_manager(address, word, op)
        {
            return Ok(before);
        }
    }
    prefetcher.touch(driver, address, bytes, Kind::Write)?;
    // SAFETY: shared memory of an allocation, aligned; an access that this node does not have traps, and waits for it.
    Ok(unsafe { op.apply(core::ptr::with_exposed_provenance_mut(address)) })
}
