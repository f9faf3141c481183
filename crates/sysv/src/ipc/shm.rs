//! Shared memory segments: names, rights and who counts as attached. The memory itself is elsewhere.

use std::collections::BTreeMap;

use super::call::{Caller, Event, Info, Process, Reply, ShmStat};
use super::described::Described;
use super::errno::Errno;
use super::limits::Limits;
use super::permission::{EXECUTE, Permission, READ, WRITE};
use super::registry::{Entry, Registry};

/// The name is removed; the segment goes with its last attach.
const DEST: u32 = 0o1000;
/// `SHM_LOCK` was asked for.
const LOCKED: u32 = 0o2000;
const PAGE_BYTES: u64 = 4096;

/// One segment.
#[derive(Clone, Debug)]
struct Segment {
    bytes: u64,
    creator: Process,
    last_pid: i32,
    /// Per site.
    attaches: BTreeMap<u16, u64>,
    attach_time: i64,
    detach_time: i64,
    change_time: i64,
}

/// All segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    registry: Registry<Segment>,
    pages: u64,
}

impl Segments {
    pub(super) fn new() -> Self {
        Self { registry: Registry::new(), pages: 0 }
    }

    pub(super) fn get_or_create(
        &mut self,
        limits: &Limits,
        caller: &Caller,
        key: i32,
        bytes: u64,
        flags: i32,
    ) -> Result<Reply, Errno> {
        let large_enough = |segment: &Segment| segment.bytes >= bytes;
        Ok(match self.registry.find(key, flags, caller, large_enough)? {
            Some(id) => Reply::Done(id.into()),
            None => Reply::Created(self.create(limits, caller, key, bytes, flags)?.into()),
        })
    }

    fn create(
        &mut self,
        limits: &Limits,
        caller: &Caller,
        key: i32,
        bytes: u64,
        flags: i32,
    ) -> Result<i32, Errno> {
        if bytes == 0 || bytes > limits.segment_bytes {
            return Err(Errno::INVAL);
        }
        let pages = bytes.div_ceil(PAGE_BYTES);
        if self.pages.checked_add(pages).is_none_or(|all| all > limits.pages) {
            return Err(Errno::NOSPC);
        }
        // No file is larger, and the kernel's segments are files.
        if i64::try_from(bytes).is_err() {
            return Err(Errno::INVAL);
        }
        let segment = Segment {
            bytes,
            creator: caller.process,
            last_pid: 0,
            attaches: BTreeMap::new(),
            attach_time: 0,
            detach_time: 0,
            change_time: caller.now,
        };
        let permission = Permission::new(key, flags, caller);
        let id = self.registry.insert(permission, segment, limits.segments)?;
        self.pages += pages;
        Ok(id)
    }

    pub(super) fn attach(&mut self, caller: &Caller, id: i32, flags: i32) -> Result<Reply, Errno> {
        let entry = self.registry.get_mut(id)?;
        let read_only = flags & libc::SHM_RDONLY != 0;
        let write = if read_only { 0 } else { WRITE };
        let execute = if flags & libc::SHM_EXEC != 0 { EXECUTE } else { 0 };
        entry.permission.allow(caller, READ | write | execute)?;
        let segment = &mut entry.object;
        segment.attached(caller.process.site, caller.process.pid, caller.now);
        Ok(Reply::Attached { bytes: segment.bytes, read_only, site: segment.creator.site })
    }

    /// One attach more, of a child that `parent` forked.
    pub(super) fn forked_attach(&mut self, id: i32, parent: Process, now: i64) {
        if let Ok(entry) = self.registry.get_mut(id) {
            entry.object.attached(parent.site, parent.pid, now);
        }
    }

    /// One attach less; `EINVAL` if the process's site has none.
    pub(super) fn detach(
        &mut self,
        id: i32,
        process: Process,
        now: i64,
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        let segment = &mut self.registry.get_mut(id)?.object;
        let attaches = segment.attaches.get_mut(&process.site).ok_or(Errno::INVAL)?;
        *attaches -= 1;
        if *attaches == 0 {
            segment.attaches.remove(&process.site);
        }
        segment.last_pid = process.pid;
        segment.detach_time = now;
        self.reap(id, out);
        Ok(Reply::Done(0))
    }

    pub(super) fn described(&self, id: i32) -> Option<Described> {
        let entry = self.registry.get(id).ok()?;
        Some(Described { key: entry.permission.key, size: entry.object.bytes, name: None })
    }

    pub(super) fn stat(&self, caller: &Caller, id: i32) -> Result<Reply, Errno> {
        Ok(Reply::Shm(stat_of(self.registry.readable(id, caller)?)))
    }

    pub(super) fn stat_index(
        &self,
        caller: &Caller,
        index: i32,
        any: bool,
    ) -> Result<Reply, Errno> {
        Ok(Reply::Shm(stat_of(self.registry.readable_at(index, caller, any)?)))
    }

    pub(super) fn set(
        &mut self,
        caller: &Caller,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
    ) -> Result<Reply, Errno> {
        self.registry.set(id, caller, (uid, gid, mode))?.object.change_time = caller.now;
        Ok(Reply::Done(0))
    }

    pub(super) fn remove(
        &mut self,
        caller: &Caller,
        id: i32,
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        self.registry.control(id, caller)?.permission.mode |= DEST;
        self.registry.forget_key(id);
        self.reap(id, out);
        Ok(Reply::Done(0))
    }

    pub(super) fn lock(&mut self, caller: &Caller, id: i32, locked: bool) -> Result<Reply, Errno> {
        let entry = self.registry.control(id, caller)?;
        if locked {
            entry.permission.mode |= LOCKED;
        } else {
            entry.permission.mode &= !LOCKED;
        }
        Ok(Reply::Done(0))
    }

    pub(super) fn info(&self, limits: &Limits) -> Info {
        Info {
            highest_index: self.registry.highest_index(),
            objects: self.registry.len(),
            contents: self.pages,
            bytes: 0,
            limits: *limits,
        }
    }

    /// Ends the segment if its name is removed and nobody is attached.
    fn reap(&mut self, id: i32, out: &mut Vec<Event>) {
        let done = |entry: &Entry<Segment>| {
            entry.permission.mode & DEST != 0 && entry.object.attaches.is_empty()
        };
        if self.registry.get(id).is_ok_and(done)
            && let Some(entry) = self.registry.remove(id)
        {
            self.pages -= entry.object.bytes.div_ceil(PAGE_BYTES);
            out.push(Event::SegmentGone(id));
        }
    }
}

impl Segment {
    fn attached(&mut self, site: u16, pid: i32, now: i64) {
        *self.attaches.entry(site).or_default() += 1;
        self.last_pid = pid;
        self.attach_time = now;
    }
}

fn stat_of(entry: &Entry<Segment>) -> ShmStat {
    let segment = &entry.object;
    ShmStat {
        id: entry.id,
        permission: entry.permission.stat(),
        bytes: segment.bytes,
        attach_time: segment.attach_time,
        detach_time: segment.detach_time,
        change_time: segment.change_time,
        creator_pid: segment.creator.pid,
        last_pid: segment.last_pid,
        attaches: segment.attaches.values().sum(),
    }
}
