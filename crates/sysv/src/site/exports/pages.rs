//! A set of pages of a segment.

/// A bit for each page.
#[derive(Clone, Debug, Hash)]
pub(super) struct Pages(Vec<u64>);

impl Pages {
    pub(super) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    pub(super) fn has(&self, page: usize) -> bool {
        self.0.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 != 0)
    }

    pub(super) fn set(&mut self, page: usize, to: bool) {
        if let Some(word) = self.0.get_mut(page / 64) {
            *word = *word & !(1 << (page % 64)) | u64::from(to) << (page % 64);
        }
    }
}
