//! What an ELF file says of itself: its loader, whether all of it is there, and what its loader says of its libraries.

use object::LittleEndian;
use object::elf::{FileHeader64, PT_INTERP, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the kernel maps of a program of 64 bits, and its loader.
struct Segments {
    /// The last byte that is mapped from the file, and one.
    end: u64,
    loader: Option<PathBuf>,
}

impl Segments {
    /// None of a file that is no such program, or whose headers are not all there.
    fn of(program: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(program).ok()?);
        let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
        let mut found = Self { end: 0, loader: None };
        for segment in header.program_headers(LittleEndian, &cache).ok()? {
            let kind = segment.p_type(LittleEndian);
            if kind == PT_LOAD || kind == PT_INTERP {
                let (begin, bytes) = segment.file_range(LittleEndian);
                found.end = found.end.max(begin.saturating_add(bytes));
            }
            if let Ok(Some(name)) = segment.interpreter(LittleEndian, &cache) {
                found.loader = Some(PathBuf::from(OsStr::from_bytes(name)));
            }
        }
        Some(found)
    }
}

/// Whether a program of so many bytes ends before what the kernel maps of it.
pub(super) fn is_cut_off(program: &Path, bytes: u64) -> bool {
    Segments::of(program).is_some_and(|segments| segments.end > bytes)
}

/// Whether a program has the runtime in itself, as one in Rust has.
fn contains_us(program: &Path) -> bool {
    let constants = || {
        let cache = ReadCache::new(File::open(program).ok()?);
        let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
        let sections = header.sections(LittleEndian, &cache).ok()?;
        let (_, constants) = sections.section_by_name(LittleEndian, b".rodata")?;
        Some(constants.data(LittleEndian, &cache).ok()?.to_vec())
    };
    let name = b"MULTIGRAIN_PEERS";
    constants().is_some_and(|of| of.windows(name.len()).any(|word| word == name))
}

/// Whether an ELF program neither has the runtime nor is given it by its loader, of whose list this is the output.
pub(super) fn is_without_us(program: &Path, listed: Option<&Output>) -> bool {
    let has_library = |of: &Output| of.stdout.windows(LIBRARY.len()).any(|name| name == LIBRARY);
    Segments::of(program).is_some() && !listed.is_some_and(has_library) && !contains_us(program)
}

/// The dynamic loader that a program names.
pub(super) fn loader_of(program: &Path) -> Option<PathBuf> {
    Segments::of(program)?.loader
}

/// Whether a program has all of its libraries in itself, so that none can be loaded before them.
pub(super) fn is_static(program: &Path) -> bool {
    Segments::of(program).is_some_and(|segments| segments.loader.is_none())
}

/// Whether the program's loader is to load the library of Multigrain for it.
pub(super) fn is_linked_with_us(program: &Path) -> bool {
    let names = || {
        let cache = ReadCache::new(File::open(program).ok()?);
        let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
        let sections = header.sections(LittleEndian, &cache).ok()?;
        let (_, names) = sections.section_by_name(LittleEndian, b".dynstr")?;
        Some(names.data(LittleEndian, &cache).ok()?.to_vec())
    };
    names().is_some_and(|names| names.split(|byte| *byte == 0).any(|of| of.starts_with(LIBRARY)))
}

/// The name of the library of Multigrain, without its version.
const LIBRARY: &[u8] = b"libmultigrain.so";

/// What to do about that.
pub(super) const LOAD_ADVICE: &str =
    "put the library where it is looked for, set LD_LIBRARY_PATH, or link with -Wl,-rpath";

/// What the program's own loader lists, without running any of the program; none for one without a loader.
///
/// # Errors
/// The loader cannot be started.
pub(super) fn listed_libraries(
    program: &Path,
    variables: &[(String, String)],
) -> io::Result<Option<Output>> {
    let Some(loader) = loader_of(program) else { return Ok(None) };
    let mut command = Command::new(loader);
    command.arg("--list").arg(program).envs(variables.iter().map(|(name, value)| (name, value)));
    let nothing = File::open("/dev/null").map_err(|error| {
        io::Error::new(error.kind(), format!("/dev/null: {error} (is /dev mounted?)"))
    })?;
    command.stdin(nothing).output().map(Some)
}

/// Why the program cannot be loaded here, in the words of its loader, if it has any.
pub(super) fn refusal(program: &Path, Output { status, stderr, .. }: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(stderr);
    let line = said.lines().find(|line| !line.trim().is_empty()).filter(|_| !status.success())?;
    let named = format!("{}: ", program.display());
    Some(line.strip_prefix(&*named).unwrap_or(line).to_owned())
}
