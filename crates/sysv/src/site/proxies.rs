//! Descriptors that stand for POSIX shared memory objects in processes.
//!
//! An object has two memory objects of this site that hold nothing but its size, mode and owner: one for descriptors to read,
//! and one for those to write. A process gets a descriptor opened with O_PATH, which fstat(2) tells the inode of, and which
//! read(2), write(2), mmap(2) and ftruncate(2) refuse with EBADF: the library takes the last two then. The kernel keeps count
//! of such descriptors through dup, fork, exec and sockets, and this looks in /proc whether any process has one still.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_link, read_to_string};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    CWD, Gid, MemfdFlags, Mode, OFlags, Uid, fchmod, fchown, fstat, ftruncate, memfd_create, openat,
};
use rustix::io::Errno;

use super::descendants;

/// Looks in a row that find no descriptor, after which there is none: one may come out of a socket while it is looked for.
const UNSEEN: u32 = 2;

/// Objects that are not looked for before the second is over.
const MANY: usize = 256;

/// Owner, group and mode of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
}

#[derive(Debug)]
struct ProxyFile {
    file: OwnedFd,
    /// Device and inode.
    identity: (u64, u64),
    /// What /proc shows of its descriptors.
    link: String,
}

#[derive(Debug)]
struct Proxy {
    to_read: ProxyFile,
    to_write: ProxyFile,
    bytes: u64,
    unseen: u32,
}

/// Those of this site, by the ids of the objects.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    known: Mutex<BTreeMap<i32, Proxy>>,
    changing: Mutex<()>,
    /// Twice as many as the last look has left.
    many: AtomicUsize,
}

impl ProxyFile {
    fn new(id: i32, access: &str, rights: Rights) -> Result<Self, Errno> {
        let name = format!("multigrain-posix-{}-{id}-{access}", std::process::id());
        let file = memfd_create(&*name, MemfdFlags::CLOEXEC)?;
        fchmod(&file, Mode::from_raw_mode(rights.mode))?;
        // As far as this process may.
        let owner = (Some(Uid::from_raw(rights.uid)), Some(Gid::from_raw(rights.gid)));
        let _ = fchown(&file, owner.0, owner.1);
        let stat = fstat(&file)?;
        Ok(Self { file, identity: (stat.st_dev, stat.st_ino), link: format!("/memfd:{name}") })
    }

    fn has(&self, seen: &BTreeSet<String>) -> bool {
        seen.contains(&self.link)
    }
}

impl Proxy {
    fn is_seen(&self, links: &BTreeSet<String>) -> bool {
        self.to_read.has(links) || self.to_write.has(links)
    }
}

impl Proxies {
    /// While a site comes to have an object open, or to have it no longer.
    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Proxy>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new descriptor of an object for a process.
    pub(super) fn open(&self, id: i32, writes: bool, rights: Rights) -> Result<OwnedFd, Errno> {
        let mut known = self.lock();
        if let std::collections::btree_map::Entry::Vacant(vacant) = known.entry(id) {
            let to_read = ProxyFile::new(id, "r", rights)?;
            let to_write = ProxyFile::new(id, "rw", rights)?;
            vacant.insert(Proxy { to_read, to_write, bytes: 0, unseen: 0 });
        }
        let proxy = known.get_mut(&id).ok_or(Errno::BADF)?;
        proxy.unseen = 0;
        let file = if writes { &proxy.to_write } else { &proxy.to_read };
        let link = format!("/proc/self/fd/{}", file.file.as_raw_fd());
        openat(CWD, link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    }

    /// Whether a process of this site has had a descriptor of an object lately.
    pub(super) fn has(&self, id: i32) -> bool {
        self.lock().contains_key(&id)
    }

    /// Which object a descriptor stands for, and whether that may be written.
    pub(super) fn find(&self, device: u64, inode: u64) -> Option<(i32, bool)> {
        let known = self.lock();
        known.iter().find_map(|(id, proxy)| {
            let is_it = |file: &ProxyFile| file.identity == (device, inode);
            let writes = is_it(&proxy.to_write);
            (writes || is_it(&proxy.to_read)).then_some((*id, writes))
        })
    }

    /// An object has a size, which stays.
    pub(super) fn set_size(&self, id: i32, bytes: u64) {
        if let Some(proxy) = self.lock().get_mut(&id)
            && bytes > proxy.bytes
        {
            proxy.bytes = bytes;
            // No larger than what the job could make room for; a refusal shows in fstat alone.
            let _ = ftruncate(&proxy.to_read.file, bytes);
            let _ = ftruncate(&proxy.to_write.file, bytes);
        }
    }

    /// An object is gone.
    pub(super) fn remove(&self, id: i32) {
        self.lock().remove(&id);
    }

    /// Whether so many objects are known that it is time to look which of them nobody has: a program may make and close them quicker
    /// than anybody looks every second.
    pub(super) fn are_many(&self) -> bool {
        self.lock().len() >= self.many.load(Ordering::Relaxed).max(MANY)
    }

    /// Forgets objects of which no process has a descriptor; which ones. Under [`Self::change`].
    pub(super) fn sweep(&self) -> Vec<i32> {
        if self.lock().is_empty() {
            return Vec::new();
        }
        let processes = descendants::all();
        let seen = links(&processes);
        if self.lock().values().any(|proxy| !proxy.is_seen(&seen)) && are_sent(&processes) {
            // One of these may be such a descriptor, which nobody could tell from others.
            return Vec::new();
        }
        let mut known = self.lock();
        for proxy in known.values_mut() {
            proxy.unseen = if proxy.is_seen(&seen) { 0 } else { proxy.unseen + 1 };
        }
        let gone: Vec<i32> =
            known.iter().filter(|(_, proxy)| proxy.unseen >= UNSEEN).map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| drop(known.remove(id)));
        self.many.store(2 * known.len(), Ordering::Relaxed);
        gone
    }
}

/// Whether descriptors wait in a socket of a process to be received.
fn are_sent(processes: &[i32]) -> bool {
    let about = { processes.iter() }
        .flat_map(|pid| read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten());
    about.filter_map(|each| read_to_string(each.path()).ok()).any(|text| {
        let waiting = text.lines().find_map(|line| line.strip_prefix("scm_fds:"));
        waiting.is_some_and(|count| count.trim() != "0")
    })
}

/// What the descriptors of processes are that could be proxies.
fn links(processes: &[i32]) -> BTreeSet<String> {
    let descriptors = { processes.iter() }
        .flat_map(|pid| read_dir(format!("/proc/{pid}/fd")).into_iter().flatten());
    let links = descriptors.flatten().filter_map(|each| read_link(each.path()).ok());
    let named = links.filter_map(|link| link.into_os_string().into_string().ok());
    let ours = named.filter(|link| link.starts_with("/memfd:multigrain-posix-"));
    ours.map(|link| link.trim_end_matches(" (deleted)").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHTS: Rights = Rights { uid: 0, gid: 0, mode: 0o640 };

    #[test]
    fn a_descriptor_tells_its_object_and_its_size_and_holds_nothing() {
        let proxies = Proxies::default();
        let read = proxies.open(3, false, RIGHTS).unwrap();
        let write = proxies.open(3, true, RIGHTS).unwrap();
        proxies.set_size(3, 10_000);
        proxies.set_size(3, 0);
        for (descriptor, writes) in [(&read, false), (&write, true)] {
            let stat = fstat(descriptor).unwrap();
            assert_eq!(proxies.find(stat.st_dev, stat.st_ino), Some((3, writes)));
            assert_eq!((stat.st_size, stat.st_mode & 0o777), (10_000, 0o640));
            assert_eq!(rustix::io::read(descriptor, &mut [0; 1]), Err(Errno::BADF));
            assert_eq!(ftruncate(descriptor, 5), Err(Errno::BADF));
        }
        proxies.remove(3);
        let stat = fstat(&read).unwrap();
        assert_eq!(proxies.find(stat.st_dev, stat.st_ino), None);
    }

    #[test]
    fn two_looks_that_find_no_descriptor_end_a_placeholder() {
        let proxies = Proxies::default();
        proxies.open(3, false, RIGHTS).unwrap();
        // What this process has does not count: it is the site.
        assert_eq!(proxies.sweep(), [0; 0]);
        proxies.open(3, false, RIGHTS).unwrap();
        assert_eq!(proxies.sweep(), [0; 0], "it was opened meanwhile");
        // A child of another test may have it for a while.
        let gone = core::iter::repeat_with(|| proxies.sweep()).find(|gone| !gone.is_empty());
        assert_eq!(gone, Some(vec![3]));
        assert_eq!(proxies.sweep(), [0; 0]);
    }
}
