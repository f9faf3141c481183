//! Where functions begin, by the unwind table of their object (`.eh_frame_hdr`), which is there also without symbols.
//!
//! The linker gives each section of jumps to libraries (PLT) one entry: the first jump counts as a start, the others do not.

use core::ops::Range;

use gimli::{BaseAddresses, EhFrame, EhFrameHdr, NativeEndian, UnwindSection};

use super::LoadedObject;

const GNU_EH_FRAME: u32 = 0x6474_e550;
const ADDRESS_BYTES: u8 = 8;

impl LoadedObject<'_> {
    /// Whether an address of this object's code lies in a function, but not at its start. Of code that the table does
    /// not have, as compilers may be told, nothing is known.
    pub(super) fn is_inside_function(self, address: usize) -> bool {
        let first = self.first_of_function(address as u64);
        first.is_some_and(|first| first != address as u64) && !is_symbol(address)
    }

    /// Where the function begins that has this address.
    fn first_of_function(self, address: u64) -> Option<u64> {
        let (_, at) = self.segments(GNU_EH_FRAME).next()?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(at.start as u64);
        let index = EhFrameHdr::new(self.bytes(at)?, NativeEndian);
        let index = index.parse(&bases, ADDRESS_BYTES).ok()?;
        let start = usize::try_from(index.eh_frame_ptr().direct().ok()?).ok()?;
        let frames = EhFrame::new(self.bytes(start..self.end_of_segment(start)?)?, NativeEndian);
        let bases = bases.set_eh_frame(start as u64);
        let entry =
            index.table()?.fde_for_address(&frames, &bases, address, |frames, bases, at| {
                frames.cie_from_offset(bases, at)
            });
        entry.ok().map(|entry| entry.initial_address())
    }

    fn end_of_segment(self, place: usize) -> Option<usize> {
        let mut loaded = self.segments(libc::PT_LOAD).map(|(_, at)| at);
        loaded.find(|at: &Range<usize>| at.contains(&place)).map(|at| at.end)
    }
}

/// Whether the loader has a symbol there: the address of a library's function, in a program at fixed addresses,
/// is that of a jump to it.
fn is_symbol(address: usize) -> bool {
    let mut found = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let place = core::ptr::with_exposed_provenance(address);
    // SAFETY: the loader looks the address up and does not follow it.
    let known = unsafe { libc::dladdr(place, found.as_mut_ptr()) } != 0;
    // SAFETY: NULL and zeros are what its fields may hold.
    known && unsafe { found.assume_init() }.dli_saddr.addr() == address
}
