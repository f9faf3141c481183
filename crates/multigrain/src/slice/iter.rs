//! Iterators over contiguous shared values.

use core::fmt;
use core::ops::Range;

use super::SharedSlice;
use crate::shareable::Shareable;
use crate::shared::Shared;

/// The values of a [`SharedSlice`] as handles.
pub struct Iter<'job, T> {
    slice: SharedSlice<'job, T>,
    rest: Range<usize>,
}

impl<'job, T: Shareable> Iter<'job, T> {
    pub(crate) fn new(slice: SharedSlice<'job, T>) -> Self {
        Self { slice, rest: 0..slice.len() }
    }
}

impl<'job, T: Shareable> Iterator for Iter<'job, T> {
    type Item = Shared<'job, T>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.next().map(|index| self.slice.at(index))
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.rest.nth(n).map(|index| self.slice.at(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rest.size_hint()
    }
}

impl<T: Shareable> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.rest.next_back().map(|index| self.slice.at(index))
    }
}

impl<T: Shareable> ExactSizeIterator for Iter<'_, T> {}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Iter({:?}, {:?})", self.slice, self.rest)
    }
}

/// Parts of a [`SharedSlice`], one after the other.
pub struct Chunks<'job, T> {
    rest: SharedSlice<'job, T>,
    len: usize,
}

impl<'job, T: Shareable> Chunks<'job, T> {
    pub(crate) fn new(slice: SharedSlice<'job, T>, len: usize) -> Self {
        assert!(len > 0, "parts of 0 values");
        Self { rest: slice, len }
    }
}

impl<'job, T: Shareable> Iterator for Chunks<'job, T> {
    type Item = SharedSlice<'job, T>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (part, rest) = self.rest.split_at(self.len.min(self.rest.len()));
        self.rest = rest;
        Some(part)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let parts = self.rest.len().div_ceil(self.len);
        (parts, Some(parts))
    }
}

impl<T: Shareable> ExactSizeIterator for Chunks<'_, T> {}

impl<T> fmt::Debug for Chunks<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Chunks({:?} by {})", self.rest, self.len)
    }
}
