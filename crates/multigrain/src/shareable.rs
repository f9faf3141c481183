//! Which types may live in shared memory.

#![expect(unsafe_code, reason = "states which types are plain data")]

use core::sync::atomic;

/// Types that may live in shared memory: numbers, arrays of them, atomics, and structures of these
/// made with [`shareable!`](crate::shareable).
///
/// # Safety
/// Of the implementing type:
/// - every bit pattern is a value, and no byte of it is padding;
/// - it holds no pointer, reference, descriptor or other thing that means something in one process
///   alone;
/// - dropping it does nothing.
pub unsafe trait Shareable: 'static {}

/// Atomics, which threads of all nodes may use through references.
///
/// # Safety
/// The type may be reached through `&Self` by several processes at once.
pub unsafe trait Atomic: Shareable + Sync {}

macro_rules! plain {
    ($($type:ty)*) => {$(
        // SAFETY: a number without padding, valid for every bit pattern.
        unsafe impl Shareable for $type {}
    )*};
}

macro_rules! atomic {
    ($($type:ident)*) => {$(
        // SAFETY: as the number of the same size, without padding.
        unsafe impl Shareable for atomic::$type {}
        // SAFETY: lock-free atomics work on memory that several processes map.
        unsafe impl Atomic for atomic::$type {}
    )*};
}

plain!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);
atomic!(AtomicU8 AtomicU16 AtomicU32 AtomicU64 AtomicUsize);
atomic!(AtomicI8 AtomicI16 AtomicI32 AtomicI64 AtomicIsize);

// SAFETY: an array has no padding between or after its elements.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {}

/// Declares a structure that may live in shared memory: plain data, without padding, which is
/// checked when it is compiled.
///
/// ```
/// multigrain::shareable! {
///     /// One body of the simulation.
///     #[derive(Debug, PartialEq)]
///     pub struct Body {
///         pub place: [f64; 3],
///         pub mass: f64,
///     }
/// }
///
/// # fn main() -> multigrain::Result<()> {
/// let job = multigrain::Job::join()?;
/// let body = job.alloc(Body { place: [0.0; 3], mass: 1.0 })?;
/// body.set(Body { mass: 2.0, ..body.get() });
/// assert_eq!(body.get().mass, 2.0);
/// # Ok(()) }
/// ```
///
/// ```compile_fail
/// multigrain::shareable! {
///     struct Padded { flag: u8, number: u64 }
/// }
/// ```
///
/// ```compile_fail
/// multigrain::shareable! {
///     struct Private { text: &'static str }
/// }
/// ```
#[macro_export]
macro_rules! shareable {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type),+
        }

        const _: () = {
            const fn each<T: $crate::Shareable>() {}
            $(each::<$type>();)+
            let fields = 0 $(+ ::core::mem::size_of::<$type>())+;
            assert!(::core::mem::size_of::<$name>() == fields, "the structure has padding");
            // SAFETY: all fields are Shareable, and there is nothing between them.
            #[allow(unsafe_code, reason = "checked above")]
            unsafe impl $crate::Shareable for $name {}
        };
    };
}
