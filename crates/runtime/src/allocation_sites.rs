//! Where in its source the program made its allocations, for reports.

use std::collections::BTreeMap;

use multigrain_types::PAGE_BYTES;

use crate::shim::{Mutex, lock};
use crate::source_location::{LoadedObject, Symbol, symbols};

/// Allocations whose place in the program is remembered.
const MOST_SITES: usize = 4096;
/// Of those below a page, calls whose stack is read for a report about sharing: that costs some microseconds, and a
/// program may make any number of them.
const MOST_SMALL: usize = 4096;
/// Return addresses that are kept: the library's own come first.
const DEPTH: usize = 48;
/// What stands above a program's own functions on the stack of an allocation: by name, and where
/// inlined functions have lost most of it, by file.
const NAMES: [&str; 13] = [
    "std::",
    "core::",
    "alloc::",
    "multigrain::",
    "multigrain_runtime::",
    "multigrain_capi::",
    "backtrace::",
    "mg_",
    // Of C++.
    "mg::",
    "gnu_cxx::",
    "operator new",
    "void* operator new",
    // Of Fortran: the module, as gfortran names what is in it.
    "multigrain_MOD_",
];
const FILES: [&str; 8] = [
    "/rustc/",
    "/backtrace-",
    "crates/runtime/src/",
    "crates/capi/src/",
    "crates/multigrain/src/",
    "/multigrain.hpp",
    "/multigrain.f90",
    "/include/c++/",
];

/// This node's allocations, by their addresses.
#[derive(Debug, Default)]
pub(crate) struct AllocationSites {
    /// Whether small allocations are as welcome as others.
    all: bool,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    large: BTreeMap<usize, Site>,
    small: BTreeMap<usize, Site>,
    /// Small ones that were remembered, if only for a time.
    small_noted: usize,
    /// What was found of stacks lately.
    callers: BTreeMap<Vec<usize>, Option<String>>,
}

#[derive(Debug, Default)]
struct Site {
    bytes: usize,
    caller: Caller,
}

/// The program's function that allocated.
#[derive(Clone, Debug)]
enum Caller {
    /// To be found on this stack: return addresses, innermost first.
    On(Vec<usize>),
    /// As far as the program says.
    Found(Option<String>),
}

impl Default for Caller {
    fn default() -> Self {
        Self::Found(None)
    }
}

impl AllocationSites {
    /// Those of a report that names `all` allocations, or above all those that have pages of their own.
    pub(crate) fn new(all: bool) -> Self {
        Self { all, known: Mutex::default() }
    }

    /// Remembers an allocation, before it is used, with the caller's stack.
    pub(crate) fn note(&self, address: usize, bytes: usize) {
        if self.admit(address, bytes) {
            let stack = stack();
            // Races are described by the receiver, which may not ask the loader: a thread that waits for a page may have its lock.
            let caller =
                if self.all { Caller::Found(self.resolve(stack)) } else { Caller::On(stack) };
            let site = Site { bytes, caller };
            let mut known = lock(&self.known);
            let sites = if self.is_small(bytes) { &mut known.small } else { &mut known.large };
            sites.insert(address, site);
        }
    }

    /// The function on a stack, which most often has been found before.
    fn resolve(&self, stack: Vec<usize>) -> Option<String> {
        if let Some(found) = lock(&self.known).callers.get(&stack) {
            return found.clone();
        }
        let found = caller(&stack);
        let callers = &mut lock(&self.known).callers;
        if callers.len() >= MOST_SITES {
            callers.clear();
        }
        callers.insert(stack, found.clone());
        found
    }

    fn is_small(&self, bytes: usize) -> bool {
        !self.all && bytes < PAGE_BYTES
    }

    /// Forgets what was at this address before; whether there is room for what is there now.
    fn admit(&self, address: usize, bytes: usize) -> bool {
        let mut known = lock(&self.known);
        let Known { large, small, small_noted, .. } = &mut *known;
        large.remove(&address);
        small.remove(&address);
        let is_small = self.is_small(bytes);
        let has_room = if is_small { *small_noted < MOST_SMALL } else { large.len() < MOST_SITES };
        *small_noted += usize::from(is_small && has_room);
        has_room
    }

    /// Bytes that were asked for, and where the program did, if it says.
    pub(crate) fn find(&self, address: usize) -> Option<(usize, Option<String>)> {
        let (bytes, found) = {
            let known = lock(&self.known);
            let site = known.large.get(&address).or_else(|| known.small.get(&address))?;
            (site.bytes, site.caller.clone())
        };
        Some(match found {
            Caller::On(stack) => (bytes, caller(&stack)),
            Caller::Found(caller) => (bytes, caller),
        })
    }
}

#[inline(never)]
fn stack() -> Vec<usize> {
    let mut stack = Vec::with_capacity(DEPTH);
    backtrace::trace(|frame| {
        stack.push(frame.ip().addr());
        stack.len() < DEPTH
    });
    stack
}

/// A return address on the stack of an allocation, as far as it is known.
struct Frame {
    /// Whether it is in the library, where that is an object of its own; none if the library is part of the program.
    in_library: Option<bool>,
    /// Functions there, the innermost first.
    symbols: Vec<Symbol>,
    /// The object and the offset in it.
    offset: Option<String>,
}

/// The program's function that allocated, with file and line if the program says.
fn caller(stack: &[usize]) -> Option<String> {
    let own = LoadedObject::of((caller as fn(&[usize]) -> Option<String> as *const ()).addr());
    let library = own.filter(|own| Some(own) != LoadedObject::main().as_ref());
    caller_among(stack.iter().map(|&behind| {
        let object = LoadedObject::of(behind.wrapping_sub(1));
        let in_library = library.as_ref().map(|library| object.as_ref() == Some(library));
        let symbols = if in_library == Some(true) { Vec::new() } else { symbols(behind) };
        Frame { in_library, symbols, offset: object.map(|object| object.offset(behind)) }
    }))
}

fn caller_among(frames: impl Iterator<Item = Frame>) -> Option<String> {
    for Frame { in_library, symbols, offset } in frames {
        if in_library == Some(true) {
            continue;
        }
        if symbols.iter().all(|symbol| symbol.name.is_none()) {
            // Where the library is part of a program without names, this may be a function of its own.
            return if in_library.is_some() { offset } else { None };
        }
        if let Some(symbol) = symbols.iter().find(|symbol| is_program(symbol)) {
            let name = symbol.name.clone().unwrap_or_default();
            let place = symbol.place();
            return Some(place.map_or(name.clone(), |place| format!("{name}, {place}")));
        }
    }
    None
}

/// Whether a function with a name is neither ours nor the library's of the language.
fn is_program(symbol: &Symbol) -> bool {
    let Some(name) = &symbol.name else { return false };
    let stem = name.trim_start_matches(['<', '&', '_']);
    let in_our_file = |file: &String| FILES.iter().any(|part| file.contains(part));
    !NAMES.iter().any(|prefix| stem.starts_with(prefix))
        && !symbol.file.as_ref().is_some_and(in_our_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, file: &str, line: u32) -> Symbol {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Symbol { name: known(name), file: known(file), line: (line > 0).then_some(line) }
    }

    fn frame(in_library: Option<bool>, symbols: &[Symbol], offset: &str) -> Frame {
        Frame { in_library, symbols: symbols.to_vec(), offset: Some(offset.to_owned()) }
    }

    #[test]
    fn a_place_is_the_name_of_a_file_and_a_line() {
        assert_eq!(symbol("main", "./src/sor/main.c", 88).place().unwrap(), "main.c:88");
        assert_eq!(symbol("main", "main.c", 0).place().unwrap(), "main.c");
        assert_eq!(symbol("main", "", 0).place(), None);
    }

    #[test]
    fn the_caller_is_the_first_function_that_is_neither_ours_nor_the_library_s() {
        let ours = [
            symbol("backtrace::trace", "", 0),
            symbol("trace", "/registry/backtrace-0.3.76/src/backtrace/libunwind.rs", 117),
            symbol("note_site", "./crates/runtime/src/races/report.rs", 49),
            symbol("<std::thing as other>::create", "/rustc/1/std/src/backtrace.rs", 331),
        ];
        let make = [symbol("inlined", "grid.h", 3), symbol("set_up", "/home/one/app/grid.c", 12)];
        let frames = |in_library| {
            [
                frame(in_library, &ours, ""),
                frame(in_library, &[symbol("mg_malloc", "", 0)], ""),
                frame(in_library.map(|_| false), &make, ""),
            ]
        };
        for in_library in [None, Some(true)] {
            let caller = caller_among(frames(in_library).into_iter());
            assert_eq!(caller.unwrap(), "inlined, grid.h:3");
        }
        let bare = frame(Some(false), &[symbol("main", "", 0)], "app+0x10");
        assert_eq!(caller_among([bare].into_iter()).unwrap(), "main");
    }

    #[test]
    fn the_caller_in_a_program_of_cpp_is_no_container_or_allocator() {
        let libraries = [
            symbol(
                "mg::allocator<int>::allocate(unsigned long)",
                "/usr/include/multigrain.hpp",
                186,
            ),
            symbol("int* something<int>()", "/usr/include/c++/12/bits/alloc_traits.h", 464),
            symbol("std::vector<int, mg::allocator<int> >::resize(unsigned long)", "", 0),
            symbol("__gnu_cxx::thing()", "", 0),
            symbol("void* operator new(unsigned long)", "", 0),
            symbol("Table::fill()", "table.cpp", 12),
        ];
        let frames = [frame(Some(false), &libraries, "")];
        assert_eq!(caller_among(frames.into_iter()).unwrap(), "Table::fill(), table.cpp:12");
    }

    #[test]
    fn the_caller_in_a_program_of_fortran_is_no_procedure_of_the_module() {
        let module = [
            symbol("__multigrain_MOD_mg_share", "", 0),
            symbol("share", "/usr/include/multigrain.f90", 12),
            symbol("MAIN__", "/home/one/heat.f90", 9),
        ];
        let frames = [frame(Some(false), &module, "")];
        assert_eq!(caller_among(frames.into_iter()).unwrap(), "MAIN__, heat.f90:9");
    }

    #[test]
    fn a_program_without_names_has_an_offset_unless_the_library_is_in_it() {
        let library = || frame(Some(true), &[], "libmultigrain.so.0+0x99");
        let stripped = frame(Some(false), &[], "app+0x1234");
        assert_eq!(caller_among([library(), stripped].into_iter()).unwrap(), "app+0x1234");
        assert_eq!(caller_among([frame(None, &[], "app+0x99")].into_iter()), None);
        assert_eq!(caller_among(core::iter::empty()), None);
    }

    #[test]
    fn small_allocations_take_no_room_of_large_ones_and_never_name_what_was_there_before() {
        let sites = AllocationSites::new(false);
        let small = |at: usize| sites.admit(at, PAGE_BYTES - 1);
        assert!((0..MOST_SMALL).all(small) && !small(MOST_SMALL));
        lock(&sites.known).large.insert(7, Site::default());
        assert!(!small(7) && sites.find(7).is_none(), "what was there is gone");
        assert!(sites.admit(7, PAGE_BYTES));
        let all = AllocationSites::new(true);
        assert!((0..=MOST_SMALL).all(|at| all.admit(at, 8)));
    }
}
