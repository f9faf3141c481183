//! POSIX shared memory objects: shm_open(3), shm_unlink(3), and the ftruncate(2) that gives one its size.
//!
//! An object lives while it has a name, or a site has it open, or a process has it mapped. Its size is set once.

use std::collections::{BTreeMap, BTreeSet};

use super::call::{Caller, Event, PosixShm, Reply};
use super::described::Described;
use super::errno::Errno;
use super::limits::Limits;
use super::permission::{Permission, READ, WRITE};
use super::posix_sem::check_name;
use super::registry::{Entry, Registry};

/// NAME_MAX.
const MOST_NAME: usize = 255;

/// One object.
#[derive(Clone, Debug)]
struct Object {
    /// 0 before it has a size.
    bytes: u64,
    /// None once it is unlinked.
    name: Option<Vec<u8>>,
    /// Sites where a process has a descriptor.
    openers: BTreeSet<u16>,
    /// Mappings of each site.
    mappings: BTreeMap<u16, u64>,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    registry: Registry<Object>,
    names: BTreeMap<Vec<u8>, i32>,
}

impl Objects {
    pub(super) fn new() -> Self {
        Self { registry: Registry::new(), names: BTreeMap::new() }
    }

    pub(super) fn carry_out(
        &mut self,
        limits: &Limits,
        caller: &Caller,
        request: PosixShm,
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        match request {
            PosixShm::Open { name, flags, mode } => self.open(limits, caller, name, flags, mode),
            PosixShm::Unlink(name) => self.unlink(caller, &name, out),
            PosixShm::Size { id, bytes } => self.size(id, bytes, out),
            PosixShm::Unsize(id) => {
                self.registry.get_mut(id)?.object.bytes = 0;
                Ok(Reply::Done(0))
            }
            PosixShm::Stat(id) => self.stat(id),
            PosixShm::Map(id) => {
                self.mapped(id, caller.process.site);
                self.stat(id)
            }
            PosixShm::Release(id) => {
                self.registry.get_mut(id)?.object.openers.remove(&caller.process.site);
                self.reap(id, out);
                Ok(Reply::Done(0))
            }
        }
    }

    fn open(
        &mut self,
        limits: &Limits,
        caller: &Caller,
        name: Vec<u8>,
        flags: i32,
        mode: u32,
    ) -> Result<Reply, Errno> {
        check_name(&name, MOST_NAME)?;
        let writes = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => 0,
            libc::O_RDWR => WRITE,
            _ => return Err(Errno::INVAL),
        };
        let create = flags & libc::O_CREAT != 0;
        let site = caller.process.site;
        let Some(&id) = self.names.get(&name) else {
            if !create {
                return Err(Errno::NOENT);
            }
            let permission = Permission::new(libc::IPC_PRIVATE, mode.cast_signed() & 0o777, caller);
            let (openers, mappings) = (BTreeSet::from([site]), BTreeMap::new());
            let object = Object { bytes: 0, name: Some(name.clone()), openers, mappings };
            let id = self.registry.insert(permission, object, limits.segments)?;
            self.names.insert(name, id);
            return self.stat(id);
        };
        if create && flags & libc::O_EXCL != 0 {
            return Err(Errno::EXIST);
        }
        let entry = self.registry.get_mut(id)?;
        entry.permission.allow(caller, READ | writes)?;
        // Its size stays.
        if flags & libc::O_TRUNC != 0 && entry.object.bytes > 0 {
            return Err(Errno::INVAL);
        }
        entry.object.openers.insert(site);
        self.stat(id)
    }

    fn unlink(
        &mut self,
        caller: &Caller,
        name: &[u8],
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        let id = *self.names.get(name).ok_or(Errno::NOENT)?;
        self.registry.control(id, caller).map_err(|_| Errno::ACCES)?.object.name = None;
        self.names.remove(name);
        self.reap(id, out);
        Ok(Reply::Done(0))
    }

    fn size(&mut self, id: i32, bytes: u64, out: &mut Vec<Event>) -> Result<Reply, Errno> {
        let object = &mut self.registry.get_mut(id)?.object;
        if bytes == object.bytes {
            return Ok(Reply::Done(0));
        }
        if object.bytes > 0 || i64::try_from(bytes).is_err() {
            return Err(Errno::INVAL);
        }
        object.bytes = bytes;
        out.push(Event::ObjectSized(id, bytes));
        Ok(Reply::Created(id.into()))
    }

    fn stat(&self, id: i32) -> Result<Reply, Errno> {
        let Entry { permission, object, .. } = self.registry.get(id)?;
        let stat = permission.stat();
        let (uid, gid, mode) = (stat.uid, stat.gid, stat.mode);
        Ok(Reply::Object { id, bytes: object.bytes, uid, gid, mode })
    }

    pub(super) fn described(&self, id: i32) -> Option<Described> {
        let entry = self.registry.get(id).ok()?;
        Some(Described { name: entry.object.name.clone(), size: entry.object.bytes, key: 0 })
    }

    /// One mapping more, by a call or by a fork.
    pub(super) fn mapped(&mut self, id: i32, site: u16) {
        if let Ok(entry) = self.registry.get_mut(id) {
            *entry.object.mappings.entry(site).or_default() += 1;
        }
    }

    /// And one less.
    pub(super) fn unmapped(&mut self, id: i32, site: u16, out: &mut Vec<Event>) {
        let Ok(entry) = self.registry.get_mut(id) else { return };
        if let Some(mappings) = entry.object.mappings.get_mut(&site) {
            *mappings -= 1;
            if *mappings == 0 {
                entry.object.mappings.remove(&site);
            }
        }
        self.reap(id, out);
    }

    fn reap(&mut self, id: i32, out: &mut Vec<Event>) {
        let done = |Entry { object, .. }: &Entry<Object>| {
            object.name.is_none() && object.openers.is_empty() && object.mappings.is_empty()
        };
        if self.registry.get(id).is_ok_and(done) {
            self.registry.remove(id);
            out.push(Event::SegmentGone(!id));
        }
    }
}
