//! The program: where its functions lie, and which build it is.
//!
//! A peer may ask this node to start a thread at an address. Only functions of the program itself are accepted: in
//! executable segments of the main executable, and of shared objects that are linked with libmultigrain (the
//! program's own libraries), found once, when the node joins; and there where a function begins. The C library and
//! libmultigrain itself are not part of it, where they are shared objects of their own.

#![expect(unsafe_code, reason = "the loader's tables, and a function by its address")]

mod function_starts;

use core::ffi::{c_int, c_void};
use core::ops::Range;
use std::io::Read;

use crate::error::Error;

/// What a thread starts with: its argument, a number, comes in and its result goes out.
pub type ThreadFunction = extern "C" fn(u64) -> u64;

/// What an object is linked with if it is a part of the program.
const LIBRARY: &[u8] = b"libmultigrain.so";

/// Where the program's functions lie in this process.
#[derive(Debug)]
pub(crate) struct Program {
    code: Vec<Range<usize>>,
    /// Behind the executable's data.
    end: usize,
    /// Addresses are not random.
    fixed: bool,
}

impl Program {
    pub(crate) fn of_this_process() -> Self {
        let Survey { code, end, .. } = survey();
        Self { code, end, fixed: has_fixed_addresses() }
    }

    /// Where the executable's data ends.
    pub(crate) fn end(&self) -> u64 {
        self.end as u64
    }

    /// Whether it was linked to be loaded together with its libraries, and not `-static`.
    pub(crate) fn loads_libraries() -> bool {
        survey().has_loader
    }

    /// Whether addresses are not random: what is loaded alike lies at the same ones on all nodes.
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// A number for where the functions lie, by which nodes compare it.
    pub(crate) fn place(&self) -> u64 {
        let mut hash = Fnv::default();
        for code in &self.code {
            hash.add(&code.start.to_le_bytes());
            hash.add(&code.end.to_le_bytes());
        }
        hash.0
    }

    /// Whether this code is of the program itself, or of a library that it is linked with.
    #[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
    pub(crate) fn is_linked_at_start(code: *const ()) -> bool {
        let survey = survey();
        survey.is_linked || survey.code.first().is_some_and(|main| main.contains(&code.addr()))
    }

    /// Where the code begins that has this address; none if that is no code of the program.
    pub(crate) fn code_of(&self, address: usize) -> Option<u64> {
        let code = self.code.iter().find(|code| code.contains(&address))?;
        Some(code.start as u64)
    }

    /// Whether code of the program begins here in this process.
    pub(crate) fn has_code_from(&self, start: u64) -> bool {
        self.code.iter().any(|code| code.start as u64 == start)
    }

    /// Whether an address is in code of the program. Asks nobody, so the receiver may ask.
    pub(crate) fn has(&self, address: u64) -> bool {
        usize::try_from(address)
            .is_ok_and(|address| self.code.iter().any(|code| code.contains(&address)))
    }

    /// The function at an address; none if that is no code of the program, or no function begins there. Asks the loader, whose lock
    /// a thread may hold that waits for a page: never in the receiver.
    pub(crate) fn function(&self, address: u64) -> Option<ThreadFunction> {
        if !self.has(address) {
            return None;
        }
        let address = usize::try_from(address).ok().filter(|&at| !is_inside_function(at))?;
        let place = core::ptr::with_exposed_provenance::<()>(address);
        // SAFETY: not NULL, and in code of the program. That a function of this signature begins
        // there is upheld by the program: every node runs the same one at the same addresses.
        Some(unsafe { core::mem::transmute::<*const (), ThreadFunction>(place) })
    }
}

/// A number that differs between builds of the program or versions of this library: made of the
/// linker's build id, or of the whole file if it has none.
pub(crate) fn build_number() -> Result<u64, Error> {
    let mut hash = Fnv(library_number());
    if let Some(id) = survey().build_id {
        hash.add(&id);
        return Ok(hash.0);
    }
    let failed = |error| Error::System(format!("the program cannot be read: {error}"));
    let mut file = std::fs::File::open("/proc/self/exe").map_err(failed)?;
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece).map_err(failed)? {
            0 => return Ok(hash.0),
            bytes => hash.add(&piece[..bytes]),
        }
    }
}

/// A number that differs between versions of this library: what programs of one job have alike.
pub(crate) fn library_number() -> u64 {
    fingerprint(env!("CARGO_PKG_VERSION").as_bytes())
}

/// A number that differs where the bytes do, but for chance.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.add(bytes);
    hash.0
}

/// FNV-1a of 64 bits: the same in every build of the library.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Whether the system has loaded this process without address randomization.
fn has_fixed_addresses() -> bool {
    const QUERY: libc::c_ulong = 0xffff_ffff;
    // SAFETY: the query changes nothing.
    let now = unsafe { libc::personality(QUERY) };
    let level = std::fs::read_to_string("/proc/sys/kernel/randomize_va_space");
    (now >= 0 && now & libc::ADDR_NO_RANDOMIZE != 0) || level.is_ok_and(|level| level.trim() == "0")
}

/// The file of the executable or library that has this address, as the loader names it. Asks the loader, whose lock a thread may
/// hold that waits for a page: never in the receiver.
pub(crate) fn object_of(address: usize) -> Option<String> {
    let mut found = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let place = core::ptr::with_exposed_provenance::<c_void>(address);
    // SAFETY: asks about a number, and the answer has room.
    (unsafe { libc::dladdr(place, found.as_mut_ptr()) } != 0).then_some(())?;
    // SAFETY: zero bytes are one, and the loader has written it.
    let found = unsafe { found.assume_init() };
    // SAFETY: a C string of the loader's, which stays while the object is loaded.
    let name =
        (!found.dli_fname.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(found.dli_fname) });
    name.map(|name| name.to_string_lossy().into_owned())
}

/// What the loader tells of this process.
#[derive(Debug, Default)]
struct Survey {
    objects: usize,
    /// The executable is linked with the library.
    #[cfg_attr(
        any(not(target_env = "gnu"), miri, feature = "tsan"),
        expect(dead_code, reason = "nothing runs before main there")
    )]
    is_linked: bool,
    /// The executable names a loader.
    has_loader: bool,
    code: Vec<Range<usize>>,
    /// Behind the executable's last segment.
    end: usize,
    build_id: Option<Vec<u8>>,
}

fn survey() -> Survey {
    let mut survey = Survey::default();
    // SAFETY: `visit` has the callback's signature and gets the survey, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut survey).cast()) };
    survey
}

unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    survey: *mut c_void,
) -> c_int {
    // SAFETY: `survey` gave this pointer and waits; nobody else uses it.
    let survey = unsafe { &mut *survey.cast::<Survey>() };
    // SAFETY: the loader lends a valid description for the time of this call.
    let Some(object) = (unsafe { LoadedObject::of(info) }) else { return 0 };
    // The executable itself comes first.
    let is_main = survey.objects == 0;
    survey.objects += 1;
    if is_main {
        survey.build_id = object.build_id();
        survey.is_linked = object.is_linked_with_library();
        survey.end = object.segments(libc::PT_LOAD).map(|(_, at)| at.end).max().unwrap_or(0);
        survey.has_loader = object.segments(libc::PT_INTERP).next().is_some();
    }
    if is_main || object.is_linked_with_library() {
        survey.code.extend(object.code());
    }
    0
}

/// Whether this address of loaded code lies behind the start of a function.
fn is_inside_function(address: usize) -> bool {
    let mut question = (address, false);
    // SAFETY: `look` has the callback's signature and gets the question, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut question).cast()) };
    question.1
}

unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    question: *mut c_void,
) -> c_int {
    // SAFETY: `is_inside_function` gave this pointer and waits; nobody else uses it.
    let (address, answer) = unsafe { &mut *question.cast::<(usize, bool)>() };
    // SAFETY: the loader lends a valid description for the time of this call.
    let Some(object) = (unsafe { LoadedObject::of(info) }) else { return 0 };
    let has_it = object.code().any(|code| code.contains(address));
    *answer = has_it && object.is_inside_function(*address);
    has_it.into()
}

/// An executable or shared object, as it lies in memory.
#[derive(Clone, Copy)]
struct LoadedObject<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
}

impl<'a> LoadedObject<'a> {
    /// None if the loader has no program headers of it.
    ///
    /// # Safety
    /// A description that the loader lends, for as long as that.
    unsafe fn of(info: *const libc::dl_phdr_info) -> Option<Self> {
        // SAFETY: by contract.
        let info = unsafe { &*info };
        if info.dlpi_phdr.is_null() {
            return None;
        }
        let count = info.dlpi_phnum.into();
        // SAFETY: the loader's pointer and count of program headers, which stay mapped.
        let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, count) };
        Some(Self { base: usize::try_from(info.dlpi_addr).unwrap_or(0), headers })
    }

    fn segments(self, kind: u32) -> impl Iterator<Item = (&'a libc::Elf64_Phdr, Range<usize>)> {
        self.headers.iter().filter(move |header| header.p_type == kind).map(move |header| {
            let start = self.base.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or(0));
            let bytes = usize::try_from(header.p_memsz).unwrap_or(0);
            (header, start..start.saturating_add(bytes))
        })
    }

    /// Its executable segments.
    fn code(self) -> impl Iterator<Item = Range<usize>> {
        let executable = |header: &libc::Elf64_Phdr| header.p_flags & libc::PF_X != 0;
        self.segments(libc::PT_LOAD).filter(move |(header, _)| executable(header)).map(|(_, at)| at)
    }

    /// Bytes of the object, if one of its readable segments has them all.
    fn bytes(self, range: Range<usize>) -> Option<&'a [u8]> {
        let mut loaded =
            self.segments(libc::PT_LOAD).filter(|(header, _)| header.p_flags & libc::PF_R != 0);
        loaded.find(|(_, at)| at.start <= range.start && range.end <= at.end)?;
        let place = core::ptr::with_exposed_provenance::<u8>(range.start);
        // SAFETY: within a readable segment of a loaded object; what is asked for, notes and tables
        // of the linker, is constant once the object is loaded.
        Some(unsafe { core::slice::from_raw_parts(place, range.len()) })
    }

    /// What the linker's note says of the build.
    fn build_id(self) -> Option<Vec<u8>> {
        self.segments(libc::PT_NOTE).find_map(|(header, at)| {
            let align = if header.p_align == 8 { 8 } else { 4 };
            build_id_among(self.bytes(at)?, align).map(<[u8]>::to_vec)
        })
    }

    /// Whether the object names libmultigrain among those it needs (`DT_NEEDED`).
    fn is_linked_with_library(self) -> bool {
        const NEEDED: u64 = 1;
        const STRING_TABLE: u64 = 5;
        let Some((_, at)) = self.segments(libc::PT_DYNAMIC).next() else { return false };
        let Some(table) = self.bytes(at) else { return false };
        let entries = || {
            let (entries, _) = table.as_chunks::<16>();
            entries.iter().map(|entry| (word(entry, 0), word(entry, 8))).take_while(|e| e.0 != 0)
        };
        let Some((_, strings)) = entries().find(|(tag, _)| *tag == STRING_TABLE) else {
            return false;
        };
        let strings = usize::try_from(strings).unwrap_or(0);
        // Loaders put the address there in place of the offset, but for some architectures.
        let strings = if strings < self.base { self.base + strings } else { strings };
        entries().filter(|(tag, _)| *tag == NEEDED).any(|(_, name)| {
            let start = strings.saturating_add(usize::try_from(name).unwrap_or(0));
            let name = self.bytes(start..start.saturating_add(LIBRARY.len() + 1));
            name.is_some_and(is_library)
        })
    }
}

/// Whether a file name that begins so is the library's: libmultigrain.so, perhaps with a version.
fn is_library(name: &[u8]) -> bool {
    name.strip_prefix(LIBRARY).and_then(<[u8]>::first).is_some_and(|next| matches!(next, 0 | b'.'))
}

fn word(bytes: &[u8; 16], at: usize) -> u64 {
    u64::from_ne_bytes(core::array::from_fn(|index| bytes[at + index]))
}

/// The GNU build id among ELF notes: sizes of name and contents, kind, name, contents, each padded.
fn build_id_among(mut notes: &[u8], align: usize) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    while let Some((sizes, rest)) = notes.split_at_checked(12) {
        let number = |at: usize| u32::from_ne_bytes(core::array::from_fn(|i| sizes[at + i]));
        let (name_bytes, bytes) = (number(0) as usize, number(4) as usize);
        let start = (12 + name_bytes).next_multiple_of(align).checked_sub(12)?;
        let contents = rest.get(start..start.checked_add(bytes)?)?;
        if number(8) == BUILD_ID && rest.get(..name_bytes) == Some(b"GNU\0") && bytes > 0 {
            return Some(contents);
        }
        notes = rest.get((start + bytes).next_multiple_of(align)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    static DATA: [u64; 64] = [0; 64];

    extern "C" fn double(number: u64) -> u64 {
        number * 2
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no loader")]
    fn a_function_of_the_program_is_one_and_nothing_else_is() {
        let program = Program::of_this_process();
        let own = (double as ThreadFunction as *const ()).addr() as u64;
        assert_eq!(program.function(own).map(|function| function(21)), Some(42));
        let (on_heap, on_stack) = (Box::new(1_u64), 1_u64);
        for (what, address) in [
            ("a function of the C library", (libc::getpid as *const ()).addr()),
            ("the heap", (&raw const *on_heap).addr()),
            ("the stack", (&raw const on_stack).addr()),
            ("the middle of data", (&raw const DATA[32]).addr()),
            ("the middle of a function", (double as ThreadFunction as *const ()).addr() + 1),
            ("NULL", 0),
            ("the end of the address space", usize::MAX),
        ] {
            assert!(program.function(address as u64).is_none(), "{what}: {address:#x}");
        }
    }

    #[test]
    fn a_build_id_is_found_among_notes_that_are_whole() {
        let note = |kind: u32, name: &[u8], contents: &[u8]| {
            let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_ne_bytes();
            let mut note = [size(name), size(contents), kind.to_ne_bytes()].concat();
            for part in [name, contents] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let id = [7, 8, 9, 10, 11];
        let both = [note(1, b"GNU\0", &[1; 16]), note(3, b"Go\0", &id), note(3, b"GNU\0", &id)];
        let notes = both.concat();
        assert_eq!(build_id_among(&notes, 4), Some(id.as_slice()));
        assert_eq!(build_id_among(&notes[..notes.len() - 8], 4), None);
        assert_eq!(build_id_among(&both[..2].concat(), 4), None);
        assert_eq!(build_id_among(&[0xff; 64], 4), None);
        assert_eq!(build_id_among(&[], 8), None);
    }

    #[test]
    fn the_library_goes_by_its_name_with_or_without_a_version() {
        assert!(is_library(b"libmultigrain.so\0") && is_library(b"libmultigrain.so.0\0"));
        assert!(!is_library(b"libmultigrain.so") && !is_library(b"libmultigrain.sonar\0"));
        assert!(!is_library(b"libc.so.6\0"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no loader")]
    fn a_build_has_one_number() {
        assert_eq!(build_number().unwrap(), build_number().unwrap());
        let (mut one, mut two) = (Fnv::default(), Fnv::default());
        one.add(b"one byte");
        two.add(b"two byte");
        assert_ne!(one.0, two.0);
        one = Fnv::default();
        one.add(b"a");
        assert_eq!(one.0, 0xaf63_dc4c_8601_ec8c, "FNV-1a of the letter a");
    }
}
