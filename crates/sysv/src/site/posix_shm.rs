//! Calls of POSIX shared memory objects. Their memory is as that of segments, which are named `!id` there.

use std::os::fd::AsFd;

use multigrain_runtime::{Runtime, error_code};
use multigrain_types::PAGE_BYTES;
use multigrain_types::sysv::{Answer, Ask};

use rustix::fs::fstat;

use super::connection::{Arrived, Connection};
use super::proxies::Rights;
use super::{Site, say};
use crate::ipc::{Caller, PosixShm, Process, Reply, Request};

/// What stands behind an answer that has no bytes.
const DONE: Answer = Answer { result: 0, extra: [0; 2] };

/// A call of a process.
pub(super) struct Calls<'a> {
    pub(super) site: &'static Site,
    pub(super) runtime: &'static Runtime,
    pub(super) connection: &'a Connection,
}

impl Calls<'_> {
    pub(super) fn serve(&self, arrived: &Arrived<'_>) {
        let served = if arrived.ask == Ask::PosixShmOpen {
            self.open(arrived)
        } else if arrived.ask == Ask::PosixShmUnlink {
            self.unlink(arrived)
        } else if arrived.ask == Ask::PosixShmSize {
            self.size(arrived)
        } else {
            self.map(arrived)
        };
        match served {
            Ok(()) => {}
            Err(errno) => self.connection.answer_with(Answer::failed(errno), &[], None),
        }
    }

    fn call(&self, arrived: &Arrived<'_>, request: PosixShm) -> Result<Reply, i32> {
        let caller = self.connection.caller(self.runtime, &arrived.call);
        let reply = self.site.authority.call(self.runtime, caller, Request::PosixShm(request));
        if let Reply::Failed(errno) = reply { Err(errno) } else { Ok(reply) }
    }

    fn open(&self, arrived: &Arrived<'_>) -> Result<(), i32> {
        let [flags, mode, ..] = arrived.call.arguments;
        let flags = i32::try_from(flags).map_err(|_| libc::EINVAL)?;
        let mode =
            u32::try_from(mode).unwrap_or(0) & !super::posix_sem::umask_of(self.connection.pid);
        let proxies = self.site.authority.proxies();
        let name = arrived.behind.to_vec();
        if proxies.are_many() {
            // The second look sees what came out of a socket during the first one.
            (0..2).for_each(|_| sweep(self.site, self.runtime));
        }
        let one = proxies.change();
        let opened = self.call(arrived, PosixShm::Open { name, flags, mode }).inspect_err(|errno| {
            if *errno == libc::EINVAL && flags & libc::O_TRUNC != 0 {
                say(format_args!(
                    "shm_open with O_TRUNC: a shared memory object keeps the size that it got first; shm_unlink it before"
                ));
            }
        })?;
        let Reply::Object { id, uid, gid, mode, .. } = opened else { return Err(libc::EPROTO) };
        let writes = flags & libc::O_ACCMODE == libc::O_RDWR;
        let descriptor = proxies.open(id, writes, Rights { uid, gid, mode }).map_err(|errno| {
            if !proxies.has(id) {
                release(self.site, self.runtime, id);
            }
            errno.raw_os_error()
        })?;
        // Now that a size that it gets shows in it.
        if let Reply::Object { bytes, .. } = self.call(arrived, PosixShm::Stat(id))? {
            proxies.set_size(id, bytes);
        }
        drop(one);
        self.connection.answer_with(DONE, &[], Some(descriptor.as_fd()));
        Ok(())
    }

    fn unlink(&self, arrived: &Arrived<'_>) -> Result<(), i32> {
        self.call(arrived, PosixShm::Unlink(arrived.behind.to_vec()))?;
        self.connection.answer_with(DONE, &[], None);
        Ok(())
    }

    /// The object of the descriptor that a call names, and whether it may be written.
    fn object(&self, arrived: &Arrived<'_>) -> Result<(i32, bool), i32> {
        // A descriptor itself, and not what names it: who has none may not use the object.
        let descriptor = arrived.descriptor.as_ref().ok_or(libc::EBADF)?;
        let stat = fstat(descriptor).map_err(rustix::io::Errno::raw_os_error)?;
        let found = self.site.authority.proxies().find(stat.st_dev, stat.st_ino);
        found.ok_or(libc::EBADF)
    }

    fn size(&self, arrived: &Arrived<'_>) -> Result<(), i32> {
        let (id, writes) = self.object(arrived)?;
        let bytes = u64::try_from(arrived.call.arguments[0]).map_err(|_| libc::EINVAL)?;
        if !writes {
            return Err(libc::EINVAL);
        }
        let sized = self.call(arrived, PosixShm::Size { id, bytes }).inspect_err(|_| {
            say(format_args!(
                "ftruncate to {bytes} bytes: a shared memory object keeps the size that it got first"
            ));
        })?;
        if let Reply::Created(_) = sized
            && let Err(error) = self.site.areas.create(self.runtime, !id, bytes)
        {
            // It fails where the object is gone meanwhile, and its size with it.
            let _ = self.call(arrived, PosixShm::Unsize(id));
            say(format_args!("ftruncate to {bytes} bytes: {error}"));
            let is_limit = error.code() == error_code::LIMIT;
            return Err(if is_limit { libc::ENOSPC } else { libc::ENOMEM });
        }
        self.connection.answer_with(DONE, &[], None);
        Ok(())
    }

    fn map(&self, arrived: &Arrived<'_>) -> Result<(), i32> {
        let (id, may_write) = self.object(arrived)?;
        let [writes, offset, bytes, _] = arrived.call.arguments;
        if writes != 0 && !may_write {
            return Err(libc::EACCES);
        }
        let (calling, image) = (self.connection.calling(), self.connection.image);
        let mut reply = Err(libc::ESRCH);
        calling.while_it_lives(|| {
            reply = self.call(arrived, PosixShm::Map(id));
            if reply.is_ok() {
                calling.attaches(image, !id);
            }
        });
        let Reply::Object { bytes: whole, .. } = reply? else { return Err(libc::EPROTO) };
        let prepared = self.prepare((id, whole), offset, bytes, may_write);
        prepared.inspect_err(|_| {
            calling.while_it_lives(|| {
                if calling.takes_attach(image, !id) {
                    self.site.authority.detached(self.runtime, !id, self.connection.pid);
                }
            });
        })
    }

    fn prepare(
        &self,
        (id, whole): (i32, u64),
        offset: i64,
        bytes: i64,
        may_write: bool,
    ) -> Result<(), i32> {
        let (offset, bytes) = (usize::try_from(offset), usize::try_from(bytes));
        let (Ok(offset), Ok(bytes)) = (offset, bytes) else { return Err(libc::EINVAL) };
        let room = usize::try_from(whole).unwrap_or(0).next_multiple_of(PAGE_BYTES);
        if offset.checked_add(bytes).is_none_or(|end| end > room) {
            say(format_args!(
                "mmap of {bytes} bytes from {offset} on: the shared memory object has {whole}"
            ));
            return Err(libc::EINVAL);
        }
        let Site { areas, exports, authority, .. } = self.site;
        let is_there = || {
            let stat = Request::PosixShm(PosixShm::Stat(id));
            let reply = authority.call(self.runtime, self.connection.as_site(self.runtime), stat);
            matches!(reply, Reply::Object { bytes: 1.., .. })
        };
        areas.attach(self.runtime, exports, (!id, whole), is_there).map_err(|error| {
            say(format_args!("mmap of {bytes} bytes: {error}"));
            libc::ENOMEM
        })?;
        let (object, place) = exports.lock().segment(!id).ok_or(libc::ENODEV)?;
        let place = i64::try_from(place + offset).unwrap_or(0);
        let answer = Answer { result: may_write.into(), extra: [place, i64::from(!id)] };
        self.connection.answer_with(answer, &[], Some(object.as_fd()));
        Ok(())
    }
}

/// Has site 0 know of objects that no process of this site has a descriptor of.
pub(super) fn sweep(site: &Site, runtime: &Runtime) {
    let proxies = site.authority.proxies();
    let _one = proxies.change();
    proxies.sweep().into_iter().for_each(|id| release(site, runtime, id));
}

/// This site has an object open no longer.
fn release(site: &Site, runtime: &Runtime, id: i32) {
    let process = Process { site: runtime.rank().0, pid: 0 };
    let (groups, now) = (Vec::new(), super::authority::now());
    let caller = Caller { process, uid: 0, gid: 0, groups, privileged: true, now };
    site.authority.call(runtime, caller, Request::PosixShm(PosixShm::Release(id)));
}
