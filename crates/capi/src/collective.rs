//! Collective operations: checks pointers, copies values in and out.

use core::ffi::{c_int, c_uint, c_void};

use multigrain_protocol::sync::{Element, MOST_SHARE_BYTES, Operation};
use multigrain_runtime::{Collective, Combine, Error, Party};

use crate::status::with_runtime;

/// A process has fewer bytes.
const ADDRESSES: usize = 1 << 47;

/// A function of the program: combines what `with` points to into what `into` does.
type Function = unsafe extern "C-unwind" fn(into: *mut c_void, with: *const c_void);

/// Where a thread's values are, and where the result goes.
#[derive(Clone, Copy)]
struct Values {
    from: *const c_void,
    to: *mut c_void,
    count: usize,
}

pub(crate) fn element(of: c_int) -> Result<Element, Error> {
    let all = [Element::Int32, Element::Int64, Element::Uint64, Element::Float, Element::Double];
    let found = usize::try_from(of).ok().and_then(|of| all.get(of));
    found.copied().ok_or_else(|| Error::Invalid(format!("{of} is no enum mg_type")))
}

pub(crate) fn operation(of: c_int) -> Result<Operation, Error> {
    let all = [Operation::Sum, Operation::Min, Operation::Max, Operation::And, Operation::Or];
    let found = usize::try_from(of).ok().and_then(|of| all.get(of));
    found.copied().ok_or_else(|| Error::Invalid(format!("{of} is no enum mg_operation")))
}

fn bytes(bytes: usize) -> Result<Element, Error> {
    let fits = (1..=MOST_SHARE_BYTES).contains(&bytes);
    let fits = u32::try_from(bytes).ok().filter(|_| fits);
    let bytes = fits.ok_or_else(|| {
        Error::Invalid(format!("elements of {bytes} bytes: from 1 to {MOST_SHARE_BYTES}"))
    })?;
    Ok(Element::Bytes(bytes))
}

/// Does it with a copy of the values.
///
/// # Safety
/// The pointers are NULL or point to so many elements.
unsafe fn collect(
    party: Party,
    (what, element): (Collective, Result<Element, Error>),
    values: Values,
    combine: Option<Combine<'_>>,
) -> c_int {
    with_runtime(|runtime| {
        let element = element?;
        let all = values.count.checked_mul(element.bytes() as usize);
        let all = all.filter(|&all| all < ADDRESSES).ok_or_else(|| {
            Error::Invalid(format!("{} elements in a collective operation", values.count))
        })?;
        if values.from.is_null() {
            return Err(Error::Invalid("NULL for the values of a collective operation".into()));
        }
        let mut copy = vec![0; all];
        // SAFETY: as the caller says, not NULL, and the copy has as many bytes.
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(values.from.cast(), all) };
        let takes = runtime.collect(party, what, (element, &mut copy), combine)?;
        if !takes {
            return Ok(());
        }
        if values.to.is_null() {
            return Err(Error::Invalid("NULL for the result of a collective operation".into()));
        }
        // SAFETY: as before.
        unsafe { values.to.cast::<u8>().copy_from_nonoverlapping(copy.as_ptr(), all) };
        Ok(())
    })
}

/// The same with a function of the program.
///
/// # Safety
/// As [`collect`]; the function does with elements of that size.
unsafe fn collect_with(
    party: Party,
    (what, size): (Collective, usize),
    values: Values,
    function: Option<Function>,
) -> c_int {
    let Some(function) = function else {
        return with_runtime(|_| Err(Error::Invalid("NULL for a function that combines".into())));
    };
    // The program's types want to be aligned.
    let mut places = (Aligned::of(size), Aligned::of(size));
    let mut combine = |into: &mut [u8], with: &[u8]| {
        places.0.bytes(into.len()).copy_from_slice(into);
        places.1.bytes(with.len()).copy_from_slice(with);
        // SAFETY: both are aligned, and as large as the caller says.
        unsafe { function(places.0.0.as_mut_ptr().cast(), places.1.0.as_ptr().cast()) };
        into.copy_from_slice(places.0.bytes(into.len()));
    };
    // SAFETY: as the caller says.
    unsafe { collect(party, (what, bytes(size)), values, Some(&mut combine)) }
}

/// Room for one element, aligned as malloc does it.
struct Aligned(Vec<u128>);

impl Aligned {
    fn of(bytes: usize) -> Self {
        // What is larger is refused.
        Self(vec![0; bytes.min(MOST_SHARE_BYTES).div_ceil(size_of::<u128>())])
    }

    fn bytes(&mut self, count: usize) -> &mut [u8] {
        // SAFETY: `u128` has no padding, and every bit pattern of it is valid.
        let all = unsafe {
            core::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast::<u8>(), self.0.len() * 16)
        };
        &mut all[..count]
    }
}

/// The values of one thread, for all.
///
/// # Safety
/// `data` is NULL or points to so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_broadcast(
    id: c_uint,
    threads: c_uint,
    place: c_uint,
    root: c_uint,
    data: *mut c_void,
    bytes: usize,
) -> c_int {
    let values = Values { from: data, to: data, count: bytes };
    let what = (Collective::Broadcast(root), Ok(Element::Bytes(1)));
    // SAFETY: as the caller says.
    unsafe { collect(Party::new(id, threads, place), what, values, None) }
}

/// The values of all threads, combined, for one.
///
/// # Safety
/// `from` and `to` are NULL or point to so many elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_reduce(
    id: c_uint,
    threads: c_uint,
    place: c_uint,
    root: c_uint,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    of: c_int,
    what: c_int,
) -> c_int {
    let values = Values { from, to, count };
    // SAFETY: as the caller says.
    unsafe {
        known(
            Party::new(id, threads, place),
            |how| Collective::Reduce(how, Some(root)),
            values,
            (of, what),
        )
    }
}

/// The values of all threads, combined, for all.
///
/// # Safety
/// As [`mg_reduce`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_allreduce(
    id: c_uint,
    threads: c_uint,
    place: c_uint,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    of: c_int,
    what: c_int,
) -> c_int {
    let values = Values { from, to, count };
    // SAFETY: as the caller says.
    unsafe {
        known(
            Party::new(id, threads, place),
            |how| Collective::Reduce(how, None),
            values,
            (of, what),
        )
    }
}

/// The values of the threads up to this one, combined.
///
/// # Safety
/// As [`mg_reduce`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_scan(
    id: c_uint,
    threads: c_uint,
    place: c_uint,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    of: c_int,
    what: c_int,
) -> c_int {
    let values = Values { from, to, count };
    // SAFETY: as the caller says.
    unsafe { known(Party::new(id, threads, place), Collective::Scan, values, (of, what)) }
}

/// An operation that the library knows.
///
/// # Safety
/// As [`collect`].
unsafe fn known(
    party: Party,
    how: impl FnOnce(Operation) -> Collective,
    values: Values,
    (of, what): (c_int, c_int),
) -> c_int {
    let (element, what) = match operation(what) {
        Ok(what) => (element(of), what),
        Err(error) => (Err(error), Operation::Sum),
    };
    // SAFETY: as the caller says.
    unsafe { collect(party, (how(what), element), values, None) }
}

/// As [`mg_reduce`], combined by a function.
///
/// # Safety
/// As [`mg_reduce`], and the function does with elements of `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mg_reduce_with(
    id: c_uint,
    threads: c_uint,
    place: c_uint,
    root: c_uint,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    bytes: usize,
    function: Option<Function>,
) -> c_int {
    let what = Collective::Reduce(Operation::Gather, Some(root));
    let values = Values { from, to, count };
    // SAFETY: as the caller says.
    unsafe { collect_with(Party::new(id, threads, place), (what, bytes), values, function) }
}

/// As [`mg_allreduce`], combined by a function.
///
/// # Safety
/// As [`mg_reduce_with`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mg_allreduce_with(
    id: c_uint,
    threads: c_uint,
    place: c_uint,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    bytes: usize,
    function: Option<Function>,
) -> c_int {
    let what = Collective::Reduce(Operation::Gather, None);
    let values = Values { from, to, count };
    // SAFETY: as the caller says.
    unsafe { collect_with(Party::new(id, threads, place), (what, bytes), values, function) }
}

/// As [`mg_scan`], combined by a function.
///
/// # Safety
/// As [`mg_reduce_with`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mg_scan_with(
    id: c_uint,
    threads: c_uint,
    place: c_uint,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    bytes: usize,
    function: Option<Function>,
) -> c_int {
    let what = Collective::Scan(Operation::Gather);
    let values = Values { from, to, count };
    // SAFETY: as the caller says.
    unsafe { collect_with(Party::new(id, threads, place), (what, bytes), values, function) }
}
