//! Where in the program's sources an instruction is: function, file and line as far as the program says, else the
//! executable or library and the offset in it.

#![expect(unsafe_code, reason = "asks the loader for the object of an address")]

use core::ffi::{CStr, c_void};

use crate::uncancellable::Uncancellable;

/// A function at an address, perhaps one that was inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: Option<String>,
    /// Path of its source file.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

impl Symbol {
    /// `file:line`, the file without its directories.
    pub(crate) fn place(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        let file = file.rsplit('/').next().unwrap_or(file);
        Some(self.line.map_or(file.to_owned(), |line| format!("{file}:{line}")))
    }
}

/// The functions at a return address, the innermost of inlined ones first; none if nothing is known.
pub(crate) fn symbols(behind: usize) -> Vec<Symbol> {
    let _uncancellable = Uncancellable::new();
    let mut found = Vec::new();
    backtrace::resolve(core::ptr::without_provenance_mut(behind), |symbol| {
        found.push(Symbol {
            name: symbol.name().map(|name| format!("{name:#}")),
            file: symbol.filename().map(|file| file.display().to_string()),
            line: symbol.lineno(),
        });
    });
    found
}

/// An executable or shared object that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedObject {
    name: String,
    base: usize,
}

impl LoadedObject {
    /// The one that an address of code belongs to.
    pub(crate) fn of(address: usize) -> Option<Self> {
        let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        let place = core::ptr::without_provenance::<c_void>(address);
        // SAFETY: dladdr takes any address, and fills in what it is lent.
        if unsafe { libc::dladdr(place, info.as_mut_ptr()) } == 0 {
            return None;
        }
        // SAFETY: it has succeeded; zeros are a value, too.
        let info = unsafe { info.assume_init() };
        if info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the loader's own name of the object, which ends with a zero.
        let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        Some(Self { name, base: info.dli_fbase.addr() })
    }

    /// The executable.
    pub(crate) fn main() -> Option<Self> {
        // SAFETY: getauxval takes any number; this one is where the executable's program headers lie.
        let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
        Self::of(usize::try_from(headers).ok()?)
    }

    /// The instruction before a return address, as tools that read executables take it: `object+0xoffset`.
    pub(crate) fn offset(&self, behind: usize) -> String {
        let Self { name, base } = self;
        format!("{name}+{:#x}", behind.wrapping_sub(1).wrapping_sub(*base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn known() -> u32 {
        std::hint::black_box(line!())
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no loader")]
    fn a_function_of_this_program_has_its_file_and_an_object_with_an_offset() {
        let behind = (known as fn() -> u32 as *const ()).addr() + 1;
        let symbols = symbols(behind);
        let symbol = symbols.last().unwrap();
        assert!(symbol.name.as_deref().unwrap().ends_with("known"), "{symbols:?}");
        let place = symbol.place().unwrap();
        let line: u32 = place.strip_prefix("source_location.rs:").unwrap().parse().unwrap();
        assert!(known() - line <= 1, "{place}");
        let object = LoadedObject::of(behind).unwrap();
        assert_eq!(object.offset(object.base + 0x11), format!("{}+0x10", object.name));
        assert_eq!(LoadedObject::of(16), None);
    }
}
