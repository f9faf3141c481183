//! A map of a few keys, which lies in its owner: an entry that comes and goes with each lock costs no allocation.

use smallvec::SmallVec;

/// In ascending order of keys, so that equal maps are equal and hash alike. Keys beyond [`IN_PLACE`] move to the heap, where
/// a change costs a move of those behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SmallMap<K, V>(SmallVec<[(K, V); IN_PLACE]>);

/// Entries without an allocation.
const IN_PLACE: usize = 2;

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<K: Copy + Ord, V: Copy + Default + Eq> SmallMap<K, V> {
    /// The default where there is none.
    pub(super) fn get(&self, key: K) -> V {
        self.place(key).map_or_else(|_| V::default(), |place| self.0[place].1)
    }

    /// An entry that becomes the default goes.
    pub(super) fn update(&mut self, key: K, change: impl FnOnce(&mut V)) {
        match self.place(key) {
            Ok(place) => {
                change(&mut self.0[place].1);
                if self.0[place].1 == V::default() {
                    self.0.remove(place);
                }
            }
            Err(place) => {
                let mut value = V::default();
                change(&mut value);
                if value != V::default() {
                    self.0.insert(place, (key, value));
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values, in ascending order of keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        self.0.iter().copied()
    }

    fn place(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |entry| entry.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map_whose_defaults_are_not_kept() {
        let mut map = SmallMap::<u16, u32>::default();
        let mut model = BTreeMap::<u16, u32>::new();
        for step in 0..(if cfg!(miri) { 200 } else { 10_000_u32 }) {
            let (key, value) =
                (u16::try_from(step.wrapping_mul(2_654_435_761) >> 28).unwrap(), step % 3);
            map.update(key, |of| *of = value);
            model.insert(key, value);
            model.retain(|_, value| *value != 0);
            assert_eq!(map.0.as_slice(), model.iter().map(|(&k, &v)| (k, v)).collect::<Vec<_>>());
            assert_eq!(map.get(key), value);
        }
    }
}
