//! The objects of one kind by id and by key, and how ids are made.
//!
//! An id is an index below 32768 and above it a sequence number, so that the id of an object that was removed names
//! no other for long. Indices are handed out in a circle that holds half as many again as are in use (64 at least);
//! the sequence number grows each time the circle closes.

use std::collections::BTreeMap;

use super::call::Caller;
use super::errno::Errno;
use super::permission::{Permission, READ};
use super::waits::Named;

const INDEX_BITS: u32 = 15;
const INDICES: u32 = 1 << INDEX_BITS;
const SEQUENCES: u32 = i32::MAX.cast_unsigned() >> INDEX_BITS;
const SMALLEST_CIRCLE: u32 = 64;

/// An object with its id and its rights.
#[derive(Clone, Debug)]
pub(super) struct Entry<T> {
    pub(super) id: i32,
    pub(super) permission: Permission,
    pub(super) object: T,
}

impl<T> Entry<T> {
    pub(super) fn named(&self) -> Named {
        Named { id: self.id, key: self.permission.key }
    }
}

/// The objects of one kind.
#[derive(Clone, Debug)]
pub(super) struct Registry<T> {
    entries: BTreeMap<u32, Entry<T>>,
    keys: BTreeMap<i32, u32>,
    next_index: u32,
    last_index: Option<u32>,
    sequence: u32,
}

impl<T> Registry<T> {
    pub(super) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            keys: BTreeMap::new(),
            next_index: 0,
            last_index: None,
            sequence: 0,
        }
    }

    pub(super) fn get(&self, id: i32) -> Result<&Entry<T>, Errno> {
        self.by_index(id).ok().filter(|entry| entry.id == id).ok_or(Errno::INVAL)
    }

    pub(super) fn get_mut(&mut self, id: i32) -> Result<&mut Entry<T>, Errno> {
        let entry = self.entries.get_mut(&index_of(id)).filter(|entry| entry.id == id);
        entry.ok_or(Errno::INVAL)
    }

    /// As [`Self::get_mut`], of an object that the caller may change or remove.
    pub(super) fn control(&mut self, id: i32, caller: &Caller) -> Result<&mut Entry<T>, Errno> {
        let entry = self.get_mut(id)?;
        entry.permission.allow_control(caller)?;
        Ok(entry)
    }

    /// The object at an index; like the kernel, does not mind a sequence number in it.
    pub(super) fn by_index(&self, index: i32) -> Result<&Entry<T>, Errno> {
        if index < 0 {
            return Err(Errno::INVAL);
        }
        self.entries.get(&index_of(index)).ok_or(Errno::INVAL)
    }

    /// An object that the caller may read.
    pub(super) fn readable(&self, id: i32, caller: &Caller) -> Result<&Entry<T>, Errno> {
        let entry = self.get(id)?;
        entry.permission.allow(caller, READ)?;
        Ok(entry)
    }

    /// The object at an index, which the caller may read; `any` asks for no right.
    pub(super) fn readable_at(
        &self,
        index: i32,
        caller: &Caller,
        any: bool,
    ) -> Result<&Entry<T>, Errno> {
        let entry = self.by_index(index)?;
        if !any {
            entry.permission.allow(caller, READ)?;
        }
        Ok(entry)
    }

    /// `IPC_SET`: gives an object to a user and a group, with a mode.
    pub(super) fn set(
        &mut self,
        id: i32,
        caller: &Caller,
        (uid, gid, mode): (u32, u32, u32),
    ) -> Result<&mut Entry<T>, Errno> {
        let entry = self.control(id, caller)?;
        entry.permission.set(uid, gid, mode)?;
        Ok(entry)
    }

    /// What a `*get` finds under a key: an id, or none if an object is to be made. `fits` says whether an object is
    /// as large as is asked for.
    pub(super) fn find(
        &self,
        key: i32,
        flags: i32,
        caller: &Caller,
        fits: impl FnOnce(&T) -> bool,
    ) -> Result<Option<i32>, Errno> {
        let create = flags & libc::IPC_CREAT != 0;
        if key == libc::IPC_PRIVATE {
            return Ok(None);
        }
        let Some(entry) = self.keys.get(&key).and_then(|index| self.entries.get(index)) else {
            return if create { Ok(None) } else { Err(Errno::NOENT) };
        };
        if create && flags & libc::IPC_EXCL != 0 {
            return Err(Errno::EXIST);
        }
        if !fits(&entry.object) {
            return Err(Errno::INVAL);
        }
        entry.permission.allow(caller, flags)?;
        Ok(Some(entry.id))
    }

    /// Adds an object; `ENOSPC` if there are `most` already.
    pub(super) fn insert(
        &mut self,
        permission: Permission,
        object: T,
        most: u32,
    ) -> Result<i32, Errno> {
        if self.len() >= most.min(INDICES) {
            return Err(Errno::NOSPC);
        }
        let index = self.free_index().ok_or(Errno::NOSPC)?;
        self.next_index = index + 1;
        if self.last_index.is_some_and(|last| index <= last) {
            self.sequence = (self.sequence + 1) % SEQUENCES;
        }
        self.last_index = Some(index);
        let id = (self.sequence << INDEX_BITS | index).cast_signed();
        if permission.key != libc::IPC_PRIVATE {
            self.keys.insert(permission.key, index);
        }
        self.entries.insert(index, Entry { id, permission, object });
        Ok(id)
    }

    pub(super) fn remove(&mut self, id: i32) -> Option<Entry<T>> {
        self.get(id).ok()?;
        let entry = self.entries.remove(&index_of(id))?;
        self.keys.remove(&entry.permission.key);
        Some(entry)
    }

    /// Takes the key away: the object is found by id alone.
    pub(super) fn forget_key(&mut self, id: i32) {
        if let Ok(entry) = self.get_mut(id) {
            let key = core::mem::replace(&mut entry.permission.key, libc::IPC_PRIVATE);
            self.keys.remove(&key);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.entries.values()
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("there are no more than 32768")
    }

    /// The highest index in use, 0 if there is none.
    pub(super) fn highest_index(&self) -> i32 {
        self.entries.keys().next_back().map_or(0, |&index| index.cast_signed())
    }

    fn free_index(&self) -> Option<u32> {
        let circle = (self.len() * 3 / 2).clamp(SMALLEST_CIRCLE, INDICES);
        self.free_index_in(self.next_index, circle).or_else(|| self.free_index_in(0, circle))
    }

    fn free_index_in(&self, from: u32, until: u32) -> Option<u32> {
        if from >= until {
            return None;
        }
        let mut free = from;
        for (&used, _) in self.entries.range(from..until) {
            if used != free {
                break;
            }
            free += 1;
        }
        (free < until).then_some(free)
    }
}

fn index_of(id: i32) -> u32 {
    id.cast_unsigned() & (INDICES - 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::user;
    use super::*;

    fn add(registry: &mut Registry<()>, key: i32) -> Result<i32, Errno> {
        registry.insert(Permission::new(key, 0o600, &user(1)), (), 100)
    }

    #[test]
    fn an_index_is_used_again_only_after_the_circle_of_64_closes() {
        let mut registry = Registry::new();
        for index in 0..64 {
            assert_eq!(add(&mut registry, 0), Ok(index));
            registry.remove(index);
        }
        assert_eq!(add(&mut registry, 0), Ok(32768));
        assert_eq!(registry.get(0).err(), Some(Errno::INVAL));
        assert!(registry.get(32768).is_ok());
        assert!(registry.by_index(0).is_ok());
    }

    #[test]
    fn the_circle_skips_indices_in_use_and_grows_with_them() {
        let mut registry = Registry::new();
        for index in 0..64 {
            assert_eq!(add(&mut registry, 0), Ok(index));
        }
        assert_eq!(add(&mut registry, 0), Ok(64));
        registry.remove(3);
        for index in 65..96 {
            assert_eq!(add(&mut registry, 0), Ok(index));
        }
        assert_eq!(registry.highest_index(), 95);
    }

    #[test]
    fn a_key_is_free_again_when_its_object_is_removed_or_forgets_it() {
        let mut registry = Registry::new();
        let id = add(&mut registry, 5).expect("there is room");
        assert_eq!(registry.find(5, 0, &user(1), |()| true), Ok(Some(id)));
        registry.forget_key(id);
        assert_eq!(registry.find(5, 0, &user(1), |()| true), Err(Errno::NOENT));
        assert!(registry.get(id).is_ok());
        let id = add(&mut registry, 5).expect("there is room");
        registry.remove(id);
        assert_eq!(registry.find(5, libc::IPC_CREAT, &user(1), |()| true), Ok(None));
    }

    #[test]
    fn that_a_key_exists_is_said_before_that_the_object_is_too_small() {
        let mut registry = Registry::new();
        add(&mut registry, 5).expect("there is room");
        let both = libc::IPC_CREAT | libc::IPC_EXCL;
        assert_eq!(registry.find(5, both, &user(1), |()| false), Err(Errno::EXIST));
        assert_eq!(registry.find(5, 0o600, &user(2), |()| false), Err(Errno::INVAL));
        assert_eq!(registry.find(5, 0o600, &user(2), |()| true), Err(Errno::ACCES));
        assert_eq!(registry.find(5, 0, &user(2), |()| true), Ok(Some(0)));
    }

    #[test]
    fn no_more_objects_than_the_limit() {
        let mut registry = Registry::new();
        for _ in 0..100 {
            add(&mut registry, 0).expect("there is room");
        }
        assert_eq!(add(&mut registry, 0), Err(Errno::NOSPC));
    }
}
