//! Values that can be handed to a thread on another node.

#![expect(unsafe_code, reason = "moves values as words; shared memory is reached by pointer")]

use core::mem::MaybeUninit;
use core::ops::Range;

use multigrain_runtime::{Policy, runtime};
use multigrain_types::Consistency;

use crate::Result;
use crate::atomic_copy;
use crate::pointer::pointer;
use crate::shareable::Shareable;

/// Values that mean the same on every node: numbers and other [`Shareable`] data, handles of shared
/// memory and of synchronization, and tuples, options and ranges of these.
///
/// # Safety
/// `take` of the words that `put` wrote makes a value that means the same, on any node.
pub unsafe trait Portable: Sized + Send {
    /// How many words hold it.
    #[doc(hidden)]
    const WORDS: usize;

    /// Writes it down in so many words.
    #[doc(hidden)]
    fn put(self, words: &mut [u64]);

    /// # Safety
    /// The words are those of a value of this type, perhaps of another node, and what it points to is
    /// live.
    #[doc(hidden)]
    unsafe fn take(words: &[u64]) -> Self;
}

// SAFETY: the bytes are the value, on every node, and none of them is padding.
unsafe impl<T: Shareable + Copy + Send> Portable for T {
    const WORDS: usize = size_of::<T>().div_ceil(size_of::<u64>());

    fn put(self, words: &mut [u64]) {
        let to = words[..Self::WORDS].as_mut_ptr().cast::<u8>();
        // SAFETY: so many bytes are in `WORDS` words, and all of them are initialized.
        unsafe { to.copy_from_nonoverlapping((&raw const self).cast(), size_of::<T>()) };
    }

    unsafe fn take(words: &[u64]) -> Self {
        let from = words[..Self::WORDS].as_ptr().cast::<u8>();
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: so many bytes are in `WORDS` words, and in the value.
        unsafe { value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from, size_of::<T>()) };
        // SAFETY: all bytes are written; any are a value.
        unsafe { value.assume_init() }
    }
}

// SAFETY: one word, 0 or 1.
unsafe impl Portable for bool {
    const WORDS: usize = 1;

    fn put(self, words: &mut [u64]) {
        words[0] = self.into();
    }

    unsafe fn take(words: &[u64]) -> Self {
        words[0] != 0
    }
}

// SAFETY: a word says whether there is a value, and the others are the value's.
unsafe impl<T: Portable> Portable for Option<T> {
    const WORDS: usize = 1 + T::WORDS;

    fn put(self, words: &mut [u64]) {
        words[0] = self.is_some().into();
        if let Some(value) = self {
            value.put(&mut words[1..]);
        }
    }

    unsafe fn take(words: &[u64]) -> Self {
        // SAFETY: there is a value, of which these are the words.
        (words[0] != 0).then(|| unsafe { T::take(&words[1..]) })
    }
}

// SAFETY: the words of both ends.
unsafe impl<T: Portable> Portable for Range<T> {
    const WORDS: usize = 2 * T::WORDS;

    fn put(self, words: &mut [u64]) {
        (self.start, self.end).put(words);
    }

    unsafe fn take(words: &[u64]) -> Self {
        // SAFETY: as `put` wrote them.
        let (start, end) = unsafe { Portable::take(words) };
        start..end
    }
}

macro_rules! tuple {
    ($($type:ident $value:ident),*) => {
        // SAFETY: the words of all parts, one after the other.
        unsafe impl<$($type: Portable),*> Portable for ($($type,)*) {
            const WORDS: usize = 0 $(+ $type::WORDS)*;

            #[allow(unused, reason = "of no parts there are no words")]
            fn put(self, words: &mut [u64]) {
                let ($($value,)*) = self;
                $(
                    let (own, words) = words.split_at_mut($type::WORDS);
                    $value.put(own);
                )*
            }

            #[allow(unused, clippy::unused_unit, reason = "of no parts there are no words")]
            unsafe fn take(words: &[u64]) -> Self {
                $(
                    let (own, words) = words.split_at($type::WORDS);
                    // SAFETY: as `put` wrote them.
                    let $value = unsafe { $type::take(own) };
                )*
                ($($value,)*)
            }
        }
    };
}

tuple!();
tuple!(A a);
tuple!(A a, B b);
tuple!(A a, B b, C c);
tuple!(A a, B b, C c, D d);
tuple!(A a, B b, C c, D d, E e);
tuple!(A a, B b, C c, D d, E e, F f);

/// A value as the one number a thread begins or ends with: its only word, or the address of all in
/// shared memory.
pub(crate) fn pack<T: Portable>(value: T) -> Result<u64> {
    let mut words = vec![0; T::WORDS];
    value.put(&mut words);
    if let [] | [_] = words[..] {
        return Ok(words.first().copied().unwrap_or(0));
    }
    let bytes = words.len() * size_of::<u64>();
    let address =
        runtime()?.malloc_with(bytes, Policy::new().consistency(Consistency::Sequential))?;
    for (index, word) in words.into_iter().enumerate() {
        // SAFETY: within the fresh memory.
        let place = unsafe { pointer::<u64>(address).add(index) };
        // SAFETY: fresh memory of so many words.
        unsafe { atomic_copy::store(place.as_ptr(), word) };
    }
    Ok(address as u64)
}

/// The value of a number that [`pack`] made, on any node; once.
///
/// # Safety
/// [`pack`] made it of a value of this type, and what that points to is live.
pub(crate) unsafe fn unpack<T: Portable>(number: u64) -> Result<T> {
    let mut words = vec![number; T::WORDS];
    if T::WORDS > 1 {
        for (index, word) in words.iter_mut().enumerate() {
            // SAFETY: within what `pack` allocated.
            let place = unsafe { pointer::<u64>(address_of(number)).add(index) };
            // SAFETY: live shared memory of so many words.
            *word = unsafe { atomic_copy::load(place.as_ptr()) };
        }
        discard::<T>(number)?;
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { T::take(&words) })
}

/// Gives back what [`pack`] took for a value that nobody will unpack.
pub(crate) fn discard<T: Portable>(number: u64) -> Result<()> {
    match T::WORDS {
        0 | 1 => Ok(()),
        _ => runtime()?.free(address_of(number)),
    }
}

fn address_of(number: u64) -> usize {
    usize::try_from(number).expect("an address of this machine")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Portable + Clone + PartialEq + core::fmt::Debug>(value: T, words: usize) {
        assert_eq!(T::WORDS, words);
        let mut written = vec![u64::MAX; words];
        value.clone().put(&mut written);
        // SAFETY: the words of the value.
        assert_eq!(unsafe { T::take(&written) }, value);
    }

    #[test]
    fn values_come_back_from_their_words() {
        there_and_back((), 0);
        there_and_back(7u8, 1);
        there_and_back(-1.5f64, 1);
        there_and_back([1u16, 2, 3, 4, 5], 2);
        there_and_back((true, -3i32), 2);
        there_and_back((Some(5u64), None::<[u64; 2]>), 5);
        there_and_back((1usize..4, 'x' as u32, (2u8,)), 4);
    }
}
