//! Allocation, names, hints.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use multigrain_protocol::Kind;
use multigrain_runtime::{Error, Policy};
use multigrain_types::Consistency;

use crate::status::{calling, pointer, size, with_runtime};

/// `bytes` of shared memory.
#[unsafe(no_mangle)]
pub extern "C" fn mg_malloc(bytes: usize) -> *mut c_void {
    pointer(calling(|runtime| runtime.malloc(bytes)))
}

/// `count * bytes` of zeroed shared memory.
#[unsafe(no_mangle)]
pub extern "C" fn mg_calloc(count: usize, bytes: usize) -> *mut c_void {
    pointer(calling(|runtime| {
        let all = count.checked_mul(bytes);
        runtime.calloc(all.ok_or_else(|| Error::NoMemory(format!("{count} times {bytes} bytes")))?)
    }))
}

/// `bytes` of shared memory at a multiple of `align`.
#[unsafe(no_mangle)]
pub extern "C" fn mg_memalign(align: usize, bytes: usize) -> *mut c_void {
    pointer(calling(|runtime| runtime.memalign(align, bytes)))
}

/// An allocation with another size.
#[unsafe(no_mangle)]
pub extern "C" fn mg_realloc(p: *mut c_void, bytes: usize) -> *mut c_void {
    pointer(calling(|runtime| {
        if p.is_null() { runtime.malloc(bytes) } else { runtime.realloc(p.addr(), bytes) }
    }))
}

/// Bytes of an allocation that may be used.
#[unsafe(no_mangle)]
pub extern "C" fn mg_usable_size(p: *const c_void) -> usize {
    size(calling(|runtime| runtime.usable_bytes(p.addr())))
}

/// A C string's copy in shared memory.
///
/// # Safety
/// `text` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_strdup(text: *const c_char) -> *mut c_char {
    let copy = pointer(calling(|runtime| {
        // SAFETY: the caller gives NULL or a C string.
        let text = unsafe { bytes_of(text) }?;
        let copy = runtime.malloc(text.len() + 1)?;
        let place = core::ptr::with_exposed_provenance_mut::<u8>(copy);
        // SAFETY: a new allocation of one byte more than the text has.
        unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), place, text.len() + 1) };
        Ok(copy)
    }));
    copy.cast()
}

/// An array of separately shared elements.
#[unsafe(no_mangle)]
pub extern "C" fn mg_malloc_array(count: usize, bytes: usize) -> *mut c_void {
    pointer(calling(|runtime| runtime.malloc_array(count, bytes)))
}

/// Address of one element.
#[unsafe(no_mangle)]
pub extern "C" fn mg_element(array: *mut c_void, index: usize) -> *mut c_void {
    pointer(calling(|runtime| runtime.element(array.addr(), index)))
}

/// Addresses of the first `count` elements.
///
/// # Safety
/// `out` is NULL or has room for `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_elements(
    array: *mut c_void,
    count: usize,
    out: *mut *mut c_void,
) -> c_int {
    with_runtime(|runtime| {
        if out.is_null() {
            return Err(Error::Invalid("NULL for the element addresses".into()));
        }
        let Some(last) = count.checked_sub(1) else { return Ok(()) };
        // Before room for so many is made: the count may be nonsense.
        runtime.element(array.addr(), last)?;
        let mut addresses = vec![0; count];
        runtime.elements(array.addr(), &mut addresses)?;
        for (index, address) in addresses.into_iter().enumerate() {
            // SAFETY: the caller gives room for `count` pointers.
            let place = unsafe { out.add(index) };
            // SAFETY: as above.
            unsafe { place.write(core::ptr::with_exposed_provenance_mut(address)) };
        }
        Ok(())
    })
}

/// A block of minipages of `grain` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn mg_malloc_grain(bytes: usize, grain: usize) -> *mut c_void {
    pointer(calling(|runtime| runtime.malloc_grain(bytes, grain)))
}

/// `bytes` of a consistency, in minipages of `grain` bytes or the natural ones.
#[unsafe(no_mangle)]
pub extern "C" fn mg_malloc_with(bytes: usize, grain: usize, consistency: c_uint) -> *mut c_void {
    pointer(calling(|runtime| {
        let grain = (grain != 0).then_some(grain);
        let policy = policy(consistency)?;
        runtime.malloc_with(bytes, grain.map_or(policy, |bytes| policy.grain(bytes)))
    }))
}

/// An array of a consistency.
#[unsafe(no_mangle)]
pub extern "C" fn mg_malloc_array_with(
    count: usize,
    bytes: usize,
    consistency: c_uint,
) -> *mut c_void {
    pointer(calling(|runtime| runtime.malloc_array_with(count, bytes, policy(consistency)?)))
}

/// What a value of `enum mg_consistency` asks for; C may pass any number.
pub(crate) fn policy(consistency: c_uint) -> Result<Policy, Error> {
    let asked = |known: &Consistency| number(*known) == consistency;
    match Consistency::ALL.into_iter().find(asked) {
        Some(known) => Ok(Policy::new().consistency(known)),
        None if consistency == 0 => Ok(Policy::new()),
        None => Err(Error::Invalid(format!("{consistency} is no consistency: see mg_consistency"))),
    }
}

/// In `enum mg_consistency`, where 0 is the job's default.
const fn number(consistency: Consistency) -> c_uint {
    match consistency {
        Consistency::Sequential => 1,
        Consistency::EagerRelease => 2,
        Consistency::LazyRelease => 3,
        Consistency::Auto => 4,
    }
}

/// Gives an allocation back.
#[unsafe(no_mangle)]
pub extern "C" fn mg_free(p: *mut c_void) -> c_int {
    if p.is_null() {
        return 0;
    }
    with_runtime(|runtime| runtime.free(p.addr()))
}

/// Chunking level of later allocations.
#[unsafe(no_mangle)]
pub extern "C" fn mg_set_chunking(level: c_uint) -> c_int {
    with_runtime(|runtime| runtime.set_chunking(level))
}

/// Names an address.
///
/// # Safety
/// `name` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_publish(name: *const c_char, p: *const c_void) -> c_int {
    with_runtime(|runtime| {
        // SAFETY: the caller gives NULL or a C string.
        let name = unsafe { bytes_of(name) }?;
        if p.is_null() {
            return Err(Error::Invalid(
                "NULL cannot be published: look-ups return it for failure".into(),
            ));
        }
        runtime.check_range(p.addr(), 0, Kind::Read)?;
        runtime.publish(name, p.addr())
    })
}

/// The address behind a name, once there.
///
/// # Safety
/// `name` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_lookup(name: *const c_char) -> *mut c_void {
    pointer(calling(|runtime| {
        // SAFETY: the caller gives NULL or a C string.
        let name = unsafe { bytes_of(name) }?;
        let address = runtime.lookup(name)?;
        runtime.check_range(address, 0, Kind::Read)?;
        Ok(address)
    }))
}

/// # Safety
/// `name` is NULL or a C string that outlives the result.
pub(crate) unsafe fn bytes_of<'a>(name: *const c_char) -> Result<&'a [u8], Error> {
    if name.is_null() {
        return Err(Error::Invalid("NULL for a string".into()));
    }
    // SAFETY: not NULL, so a C string.
    Ok(unsafe { CStr::from_ptr(name) }.to_bytes())
}

/// Read copies ahead of use.
#[unsafe(no_mangle)]
pub extern "C" fn mg_prefetch_read(p: *const c_void, bytes: usize) -> c_int {
    with_runtime(|runtime| runtime.prefetch(p.addr(), bytes, Kind::Read))
}

/// Writable copies ahead of use.
#[unsafe(no_mangle)]
pub extern "C" fn mg_prefetch_write(p: *mut c_void, bytes: usize) -> c_int {
    with_runtime(|runtime| runtime.prefetch(p.addr(), bytes, Kind::Write))
}

/// Read copies for everybody.
#[unsafe(no_mangle)]
pub extern "C" fn mg_push(p: *const c_void, bytes: usize) -> c_int {
    with_runtime(|runtime| runtime.push(p.addr(), bytes))
}

/// Read access ahead of a system call.
#[unsafe(no_mangle)]
pub extern "C" fn mg_touch_read(p: *const c_void, bytes: usize) -> c_int {
    with_runtime(|runtime| runtime.touch(p.addr(), bytes, Kind::Read))
}

/// Write access ahead of a system call.
#[unsafe(no_mangle)]
pub extern "C" fn mg_touch_write(p: *mut c_void, bytes: usize) -> c_int {
    with_runtime(|runtime| runtime.touch(p.addr(), bytes, Kind::Write))
}
