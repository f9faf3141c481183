//! PMIx by its library, opened when a process finds itself under a process manager that speaks it: the wire
//! protocol is the library's own. Of its interface (PMIx standard, versions 3 and 4) only what is needed is
//! declared here. The library is initialized, used and finalized within `mg_init`, so that no thread of it
//! stays.

#![expect(unsafe_code, reason = "the functions of a library that is opened by name")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, size_of};
use core::ptr::null_mut;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::{ProcessManager, too_long};
use crate::program::Program;

const LIBRARY: &CStr = c"libpmix.so.2";

type Status = c_int;

const SUCCESS: Status = 0;
const TIMED_OUT: Status = -24;
const WILDCARD: u32 = u32::MAX - 1;
const GLOBAL: u8 = 3;
const BOOL: u16 = 1;
const STRING: u16 = 3;
const INT: u16 = 6;
const UINT32: u16 = 14;
const JOB_SIZE: &CStr = c"pmix.job.size";
const COLLECT: &CStr = c"pmix.collect";
const TIMEOUT: &CStr = c"pmix.timeout";

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    namespace: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`: its union is as long as the longest member, which is `pmix_envar_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    flag: bool,
    integer: c_int,
    uint32: u32,
    string: *mut c_char,
    longest: [u64; 3],
}

/// `pmix_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32);
const _: () = assert!(size_of::<Info>() == 552);

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status;
type Commit = unsafe extern "C" fn() -> Status;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> Status;
type Get =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> Status;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> Status;
type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;

/// The functions that are used.
#[derive(Clone, Copy)]
struct Functions {
    init: Init,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    finalize: Finalize,
    error: ErrorString,
}

/// What to do where no process manager has started this process.
const ALONE: &str = "unset the variables PMIX_* where mpirun or srun have not started it";

/// A process of a PMIx server.
pub(super) struct Pmix {
    functions: Functions,
    own: Proc,
    nodes: u32,
    timeout: Duration,
    /// The library opens nothing in the places of closed standard descriptors.
    _standard: Vec<OwnedFd>,
}

/// Those of stdin, stdout and stderr that are closed, by what can be written no more than they can.
fn standard_places() -> Vec<OwnedFd> {
    let opened = core::iter::from_fn(|| File::open("/dev/null").ok());
    opened.map(OwnedFd::from).take_while(|one| one.as_raw_fd() <= 2).collect()
}

fn open() -> Result<Functions, String> {
    // A C library of its own would come with it, and crash.
    if !Program::loads_libraries() {
        return Err("PMIX_RANK is set, as by mpirun or srun --mpi=pmix, but this program is linked with -static and cannot \
                    load PMIx: link it dynamically, or use multigrain run or srun --mpi=pmi2"
            .to_owned());
    }
    // SAFETY: a C string; what the library does as it is loaded is its own.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
    let name = LIBRARY.to_string_lossy();
    if library.is_null() {
        return Err(format!(
            "PMIX_RANK is set, as by mpirun or srun --mpi=pmix, but {name} cannot be loaded: {}; install it \
             (Debian: libpmix2) or use srun --mpi=pmi2; {ALONE}",
            last_error()
        ));
    }
    let find = |symbol: &CStr| {
        // SAFETY: an open library and a C string.
        let place = unsafe { libc::dlsym(library, symbol.as_ptr()) };
        let missing =
            || format!("{name} has no {}: another version is needed", symbol.to_string_lossy());
        if place.is_null() { Err(missing()) } else { Ok(place) }
    };
    macro_rules! function {
        ($name:literal, $signature:ty) => {
            // SAFETY: the function of this name has this signature, by the PMIx standard.
            unsafe { core::mem::transmute::<*mut c_void, $signature>(find($name)?) }
        };
    }
    Ok(Functions {
        init: function!(c"PMIx_Init", Init),
        put: function!(c"PMIx_Put", Put),
        commit: function!(c"PMIx_Commit", Commit),
        fence: function!(c"PMIx_Fence", Fence),
        get: function!(c"PMIx_Get", Get),
        finalize: function!(c"PMIx_Finalize", Finalize),
        error: function!(c"PMIx_Error_string", ErrorString),
    })
}

fn last_error() -> String {
    // SAFETY: it needs nothing.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason is given".to_owned();
    }
    // SAFETY: a C string that is valid until the next call of its family.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Info {
    fn new(name: &CStr, kind: u16, data: Data) -> Self {
        let mut key = [0; 512];
        for (place, byte) in key.iter_mut().zip(name.to_bytes()) {
            *place = byte.cast_signed();
        }
        Self { key, flags: 0, value: Value { kind, data } }
    }
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|error| error.to_string())
}

impl Pmix {
    /// The PMIx server that the environment leads to.
    ///
    /// # Errors
    /// There is no library, or it fails: in words.
    pub(super) fn new(timeout: Duration) -> Result<Self, String> {
        let standard = standard_places();
        let functions = open()?;
        let mut own = MaybeUninit::<Proc>::zeroed();
        // SAFETY: a valid place, and no directives.
        let status = unsafe { (functions.init)(own.as_mut_ptr(), null_mut(), 0) };
        if status != SUCCESS {
            let why = functions.refused("PMIx_Init", status);
            return Err(format!("{why}; {ALONE}"));
        }
        // SAFETY: zeros are valid, and so is what the library has put there.
        let own = unsafe { own.assume_init() };
        let mut pmix = Self { functions, own, nodes: 0, timeout, _standard: standard };
        let size = pmix.value(WILDCARD, JOB_SIZE)?;
        if size.kind != UINT32 {
            return Err("PMIx gives no number for the size of the job".to_owned());
        }
        // SAFETY: of this kind.
        pmix.nodes = unsafe { size.data.uint32 };
        if pmix.own.rank >= pmix.nodes {
            let (rank, nodes) = (pmix.own.rank, pmix.nodes);
            return Err(format!("PMIx gives rank {rank} of {nodes} processes"));
        }
        Ok(pmix)
    }

    fn of(&self, rank: u32) -> Proc {
        Proc { rank, ..self.own }
    }

    /// A value; a string in it is the caller's, to be freed.
    fn value(&self, rank: u32, key: &CStr) -> Result<Value, String> {
        let of = self.of(rank);
        let mut value: *mut Value = null_mut();
        let limit = self.limit();
        // SAFETY: valid places, for the time of the call.
        let status = unsafe {
            (self.functions.get)(&raw const of, key.as_ptr(), &raw const limit, 1, &raw mut value)
        };
        if status != SUCCESS || value.is_null() {
            let what = format!("PMIx_Get of {} of {rank}", key.to_string_lossy());
            return Err(self.functions.refused(&what, status));
        }
        // SAFETY: the library made it.
        let got = unsafe { value.read() };
        // SAFETY: it is malloc's, and the caller's.
        unsafe { libc::free(value.cast()) };
        Ok(got)
    }

    fn limit(&self) -> Info {
        let seconds = c_int::try_from(self.timeout.as_secs().max(1)).unwrap_or(c_int::MAX);
        Info::new(TIMEOUT, INT, Data { integer: seconds })
    }
}

impl Functions {
    fn refused(&self, what: &str, status: Status) -> String {
        // SAFETY: it returns a C string for every number.
        let why = unsafe { (self.error)(status) };
        let why = if why.is_null() {
            status.to_string()
        } else {
            // SAFETY: as above; it is constant.
            unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned()
        };
        format!("{what}: the process manager (PMIx) says {why}")
    }
}

impl ProcessManager for Pmix {
    fn rank(&self) -> u32 {
        self.own.rank
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (key, string) = (text(key)?, text(value)?);
        let mut value = Value { kind: STRING, data: Data { string: string.as_ptr().cast_mut() } };
        // SAFETY: valid for the time of the call, which copies and changes neither.
        let status = unsafe { (self.functions.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        if status == SUCCESS { Ok(()) } else { Err(self.functions.refused("PMIx_Put", status)) }
    }

    fn fence(&mut self) -> Result<(), String> {
        // SAFETY: it needs nothing.
        let status = unsafe { (self.functions.commit)() };
        if status != SUCCESS {
            return Err(self.functions.refused("PMIx_Commit", status));
        }
        let all = self.of(WILDCARD);
        let how = [Info::new(COLLECT, BOOL, Data { flag: true }), self.limit()];
        // SAFETY: valid for the time of the call, and so many of each.
        let status = unsafe { (self.functions.fence)(&raw const all, 1, how.as_ptr(), how.len()) };
        match status {
            SUCCESS => Ok(()),
            TIMED_OUT => Err(too_long("the process manager's fence", self.timeout)),
            _ => Err(self.functions.refused("PMIx_Fence", status)),
        }
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, String> {
        let value = self.value(rank, &text(key)?)?;
        if value.kind != STRING {
            return Err(format!("PMIx gives no text for {key} of {rank}"));
        }
        // SAFETY: of this kind.
        let string = unsafe { value.data.string };
        if string.is_null() {
            return Ok(String::new());
        }
        // SAFETY: a C string that is ours.
        let copy = unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned();
        // SAFETY: it is malloc's, and nobody else has it.
        unsafe { libc::free(string.cast()) };
        Ok(copy)
    }

    fn finalize(self: Box<Self>) -> Result<(), String> {
        // SAFETY: no directives.
        let status = unsafe { (self.functions.finalize)(core::ptr::null(), 0) };
        if status == SUCCESS {
            Ok(())
        } else {
            Err(self.functions.refused("PMIx_Finalize", status))
        }
    }
}
