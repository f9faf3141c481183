//! Which addresses are kept for views.
#![expect(unsafe_code, reason = "asks the kernel where it maps by a mapping")]

use core::ops::Range;
use core::ptr::null_mut;

use multigrain_types::PAGE_BYTES;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::MemoryError;
use crate::layout::{VIEWS_BASE, VIEWS_END};

/// Addresses that no mapping of the program's may take. The kernel maps far from there, unless the stack is unlimited
/// (`ulimit -s unlimited`): then downwards from a sixth of the address space, which lies amid them, and the upper half
/// up to there is the program's.
///
/// # Errors
/// A failing system call.
pub(super) fn addresses() -> Result<Range<usize>, MemoryError> {
    let failed =
        |call| move |errno| MemoryError::System { call, address: 0, bytes: PAGE_BYTES, errno };
    // SAFETY: a new mapping.
    let chosen =
        unsafe { mmap_anonymous(null_mut(), PAGE_BYTES, ProtFlags::empty(), MapFlags::PRIVATE) }
            .map_err(failed("mmap"))?;
    // SAFETY: it was made just above, and nobody knows of it.
    unsafe { munmap(chosen, PAGE_BYTES) }.map_err(failed("munmap"))?;
    Ok(kept_below(chosen.addr()))
}

/// What is kept where the kernel maps there.
fn kept_below(chosen: usize) -> Range<usize> {
    let all = VIEWS_BASE..VIEWS_END;
    if all.contains(&chosen) { all.start..usize::midpoint(all.start, chosen) } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_mappings_lie_among_views_has_the_upper_half() {
        assert_eq!(kept_below(0x7fff_f7ff_f000), VIEWS_BASE..VIEWS_END);
        assert_eq!(kept_below(0x5555_5555_4000), VIEWS_BASE..VIEWS_END);
        let chosen = VIEWS_BASE + (1 << 40);
        assert_eq!(kept_below(chosen), VIEWS_BASE..VIEWS_BASE + (1 << 39));
    }
}
