//! What each call means, and how it is answered.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use multigrain_runtime::{Error, Runtime, error_code};
use multigrain_types::sysv::{Answer, Ask};
use rustix::io::Errno;

use super::connection::{Arrived, Connection};
use super::requests::{command, int, msg_control, sem_control, sem_operate, shm_control};
use super::structures::{Encoded, Kind, encode};
use super::userfault;
use super::{Site, posix_sem, posix_shm, say};
use crate::ipc::{Reply, Request};

/// SHM_DEST: of a segment that was removed and is attached.
const REMOVED: u32 = 0o1000;
/// Pieces of an attach that an answer names, at most.
const MOST_PIECES: usize = 64;

/// Serves one call.
pub(super) fn serve(
    site: &'static Site,
    runtime: &'static Runtime,
    connection: &Arc<Connection>,
    arrived: Arrived<'_>,
) {
    // What has ended before this call has ended for it, and so has what was unmapped.
    site.catch_up(runtime);
    site.pass_notifications(runtime);
    let calls = Calls { site, runtime, connection };
    let [first, second, ..] = arrived.call.arguments;
    match arrived.ask {
        Ask::ShmGet => calls.shm_get(&arrived),
        Ask::ShmAttach => calls.shm_attach(&arrived),
        Ask::Device => calls.device(),
        Ask::ShmGuard => calls.shm_guard(arrived),
        Ask::ShmAbandon => {
            let mut result = Err(libc::EINVAL);
            connection.calling().while_it_lives(|| {
                if connection.calling().takes_attach(connection.image, int(first)) {
                    result = calls.detach(int(first));
                }
            });
            calls.done(result);
        }
        Ask::ShmDetach => calls.shm_detach(first),
        Ask::IsAttached => calls.is_attached([first, second].map(address)),
        Ask::ShmControl => {
            site.exports.lock().sweep();
            site.pass_notifications(runtime);
            let request = shm_control(&arrived);
            calls.control(&arrived, request, (Kind::Shm, int(second)));
        }
        Ask::SemGet => {
            let [key, count, flags, _] = arrived.call.arguments.map(int);
            calls.short(&arrived, Request::SemGet { key, count, flags });
        }
        Ask::SemOperate => calls.blocking(&arrived, sem_operate(&arrived)),
        Ask::SemControl => {
            let command = int(arrived.call.arguments[2]);
            calls.control(&arrived, sem_control(&arrived), (Kind::Sem, command));
        }
        Ask::MsgGet => {
            let [key, flags, ..] = arrived.call.arguments.map(int);
            calls.short(&arrived, Request::MsgGet { key, flags });
        }
        Ask::MsgSend => {
            let [id, flags, ..] = arrived.call.arguments.map(int);
            let request = arrived.behind.split_first_chunk().map(|(kind, text)| {
                let (kind, bytes) = (i64::from_ne_bytes(*kind), text.to_vec());
                Request::MsgSend { id, kind, bytes, flags }
            });
            calls.blocking(&arrived, request);
        }
        Ask::MsgReceive => {
            let [id, _, _, flags] = arrived.call.arguments.map(int);
            let kind = arrived.call.arguments[2];
            let most = u64::try_from(second).unwrap_or(u64::MAX);
            calls.blocking(&arrived, Some(Request::MsgReceive { id, kind, most, flags }));
        }
        Ask::MsgControl => {
            calls.control(&arrived, msg_control(&arrived), (Kind::Msg, int(second)));
        }
        Ask::Fork => {
            let mut exports = site.exports.lock();
            let key = exports.image_of(connection.pid, connection.image, connection.fork);
            if let Some(key) = key {
                exports.will_fork(key, first);
            }
            drop(exports);
            calls.done(Ok(()));
        }
        Ask::Forked => calls.forked(),
        Ask::PosixSemWait => calls.blocking(&arrived, posix_sem::request(&arrived, connection.pid)),
        Ask::PosixSemOpen
        | Ask::PosixSemClose
        | Ask::PosixSemUnlink
        | Ask::PosixSemPost
        | Ask::PosixSemValue
        | Ask::PosixInherit => match posix_sem::request(&arrived, connection.pid) {
            Some(request) => calls.short(&arrived, request),
            None => calls.done(Err(libc::EPROTO)),
        },
        Ask::PosixShmOpen | Ask::PosixShmUnlink | Ask::PosixShmSize | Ask::PosixShmMap => {
            posix_shm::Calls { site, runtime, connection }.serve(&arrived);
        }
        Ask::Hello | Ask::Cancel | Ask::Waits => calls.done(Err(libc::EPROTO)),
    }
}

/// A socket is closed: what its process was about to attach it has not.
pub(super) fn abandon(
    site: &'static Site,
    runtime: &'static Runtime,
    connection: &Arc<Connection>,
) {
    connection.calling().closes(connection.image, |id| {
        // A segment that is gone has no attach to give back.
        let _ = Calls { site, runtime, connection }.detach(id);
    });
}

fn address(word: i64) -> usize {
    usize::try_from(word).unwrap_or(0)
}

struct Calls<'a> {
    site: &'static Site,
    runtime: &'static Runtime,
    connection: &'a Arc<Connection>,
}

impl Calls<'_> {
    fn done(&self, result: Result<(), i32>) {
        let answer = result.err().map_or_else(Answer::default, Answer::failed);
        self.connection.answer_with(answer, &[], None);
    }

    fn call(&self, arrived: &Arrived<'_>, request: Request) -> Reply {
        let caller = self.connection.caller(self.runtime, &arrived.call);
        self.site.authority.call(self.runtime, caller, request)
    }

    /// In the name of the process, whatever its rights.
    fn call_as_site(&self, request: Request) -> Reply {
        let caller = self.connection.as_site(self.runtime);
        self.site.authority.call(self.runtime, caller, request)
    }

    fn detach(&self, id: i32) -> Result<(), i32> {
        if id < 0 {
            self.site.authority.detached(self.runtime, id, self.connection.pid);
            return Ok(());
        }
        if let Reply::Failed(errno) = self.call_as_site(Request::ShmDetach { id }) {
            return Err(errno);
        }
        Ok(())
    }

    fn short(&self, arrived: &Arrived<'_>, request: Request) {
        self.connection.calling().while_it_lives(|| {
            let reply = self.call(arrived, request);
            self.connection.answer(&encode(reply, Kind::Sem, false, false));
        });
    }

    /// A call that may block: it is answered by who lets it go on.
    fn blocking(&self, arrived: &Arrived<'_>, request: Option<Request>) {
        let Some(request) = request else { return self.done(Err(libc::EINVAL)) };
        let caller = self.connection.caller(self.runtime, &arrived.call);
        let connection = Arc::clone(self.connection);
        let completion = Box::new(move |reply| {
            connection.answer(&encode(reply, Kind::Msg, false, false));
        });
        self.connection.calling().while_it_lives(|| {
            let id = self.site.authority.ask(self.runtime, caller, request, completion);
            self.connection.blocks(id);
        });
    }

    fn control(
        &self,
        arrived: &Arrived<'_>,
        request: Option<Request>,
        (kind, command): (Kind, i32),
    ) {
        let Some(request) = request else { return self.done(Err(libc::EINVAL)) };
        let of_shm = [command::SHM_STAT, command::SHM_STAT_ANY];
        let of_sem = [command::SEM_STAT, command::SEM_STAT_ANY];
        let of_msg = [command::MSG_STAT, command::MSG_STAT_ANY];
        let (by_index, used) = match kind {
            Kind::Shm => (of_shm.contains(&command), command == command::SHM_INFO),
            Kind::Sem => (of_sem.contains(&command), command == command::SEM_INFO),
            Kind::Msg => (of_msg.contains(&command), command == command::MSG_INFO),
        };
        let counts = matches!(request, Request::SemCount { .. });
        let reply = self.call(arrived, request);
        let encoded = if let (Reply::Done(count), true) = (&reply, counts) {
            semaphores(*count)
        } else {
            encode(reply, kind, by_index, used)
        };
        self.connection.answer(&encoded);
    }

    fn shm_get(&self, arrived: &Arrived<'_>) {
        let [key, bytes, flags, _] = arrived.call.arguments;
        let bytes = bytes.cast_unsigned();
        let request = Request::ShmGet { key: int(key), bytes, flags: int(flags) };
        let reply = self.call(arrived, request);
        if let Reply::Created(id) = reply
            && let Err(error) = self.site.areas.create(self.runtime, int(id), bytes)
        {
            self.call_as_site(Request::ShmRemove { id: int(id) });
            say(format_args!("shmget of {bytes} bytes: {error}"));
            let errno = if error.code() == error_code::LIMIT { libc::ENOSPC } else { libc::ENOMEM };
            return self.done(Err(errno));
        }
        self.connection.answer(&encode(reply, Kind::Shm, false, false));
    }

    fn shm_attach(&self, arrived: &Arrived<'_>) {
        let [id, flags, ..] = arrived.call.arguments.map(int);
        let (calling, image) = (self.connection.calling(), self.connection.image);
        let mut reply = Reply::Failed(libc::ESRCH);
        calling.while_it_lives(|| {
            reply = self.call(arrived, Request::ShmAttach { id, flags });
            if let Reply::Attached { .. } = reply {
                calling.attaches(image, id);
            }
        });
        let Reply::Attached { bytes, .. } = reply else {
            return self.connection.answer(&encode(reply, Kind::Shm, false, false));
        };
        // One that could not be made is removed, though this attach keeps it.
        let is_there = || {
            let reply = self.call_as_site(Request::ShmStat { id });
            matches!(reply, Reply::Shm(stat) if stat.permission.mode & REMOVED == 0)
        };
        let Site { areas, exports, .. } = self.site;
        let attached = areas.attach(self.runtime, exports, (id, bytes), is_there);
        let exported = attached.map(|_| exports.lock().segment(id));
        let Ok(Some((object, place))) = exported else {
            // It was removed meanwhile, or could not be made.
            let errno = match exported {
                Err(error) if !matches!(error, Error::NotFound(_)) => {
                    say(format_args!("shmat of {bytes} bytes: {error}"));
                    libc::ENOMEM
                }
                _ => libc::EIDRM,
            };
            calling.while_it_lives(|| {
                if calling.takes_attach(image, id) {
                    // As in `abandon`.
                    let _ = self.detach(id);
                }
            });
            return self.done(Err(errno));
        };
        let result = i64::try_from(bytes).unwrap_or(i64::MAX);
        let answer = Answer { result, extra: [i64::try_from(place).unwrap_or(0), 0] };
        self.connection.answer_with(answer, &[], Some(object.as_fd()));
    }

    /// A child keeps its userfaultfd open, so that nothing of it is unguarded if this process ends.
    fn forked(&self) {
        let Connection { pid, image, fork, .. } = **self.connection;
        let mut exports = self.site.exports.lock();
        let key = exports.image_of(pid, image, fork);
        let ways = key.and_then(|key| exports.descriptors_of(key));
        drop(exports);
        match ways {
            None => self.done(Err(libc::EINVAL)),
            Some((userfault, _)) => {
                let descriptor = Some(userfault.0.as_fd());
                self.connection.answer_with(Answer::default(), &[], descriptor);
            }
        }
    }

    /// A process of another user makes its userfaultfd of the device that this one may open.
    fn device(&self) {
        let opened = File::options().read(true).write(true).open("/dev/userfaultfd");
        match opened {
            Ok(device) => {
                self.connection.answer_with(Answer::default(), &[], Some(device.as_fd()));
            }
            Err(error) => {
                say(format_args!(
                    "process {} may not make a userfaultfd, and /dev/userfaultfd: {error}; say sysctl vm.unprivileged_userfaultfd=1",
                    self.connection.pid
                ));
                self.done(Err(libc::EPERM));
            }
        }
    }

    fn shm_guard(&self, arrived: Arrived<'_>) {
        let [id, start, bytes, first] = arrived.call.arguments;
        let Connection { pid, image, fork, .. } = **self.connection;
        let calling = self.connection.calling();
        let descriptor = arrived.descriptor.filter(userfault::is_one);
        let mut exports = self.site.exports.lock();
        // It may map what it has been told of, and nothing else. Under this lock: who looks for its end finds it there, or not yet here.
        if !calling.takes_attach(image, int(id)) {
            drop(exports);
            return self.done(Err(libc::EINVAL));
        }
        let key = match (exports.image_of(pid, image, fork), descriptor) {
            (Some(key), _) => Ok(key),
            (None, Some(userfault)) => exports.add_image(pid, image, userfault),
            (None, None) => Err(Errno::PERM),
        };
        let part = (int(id), address(first));
        let guarded =
            key.and_then(|key| exports.guard_part(key, part, address(start), address(bytes)));
        if guarded.is_err() {
            // It abandons it itself.
            calling.attaches(image, int(id));
        }
        drop(exports);
        self.site.pass_notifications(self.runtime);
        self.done(guarded.map_err(Errno::raw_os_error));
    }

    fn is_attached(&self, [start, bytes]: [usize; 2]) {
        let Connection { pid, image, fork, .. } = **self.connection;
        let mut exports = self.site.exports.lock();
        let range = start..start.saturating_add(bytes);
        let key = exports.image_of(pid, image, fork);
        let is = key.is_some_and(|key| exports.is_attached(key, range));
        drop(exports);
        self.connection.answer_with(Answer { result: is.into(), extra: [0; 2] }, &[], None);
    }

    fn shm_detach(&self, start: i64) {
        let Connection { pid, image, fork, .. } = **self.connection;
        let mut exports = self.site.exports.lock();
        let key = exports.image_of(pid, image, fork);
        let pieces = key.map(|key| exports.pieces(key, address(start))).unwrap_or_default();
        drop(exports);
        if pieces.is_empty() {
            return self.done(Err(libc::EINVAL));
        }
        let result = i64::try_from(pieces.len()).unwrap_or(0);
        let behind = pieces.iter().take(MOST_PIECES).flat_map(|(start, bytes)| [start, bytes]);
        let behind: Vec<u8> = behind.flat_map(|word| word.to_ne_bytes()).collect();
        self.connection.answer_with(Answer { result, extra: [0; 2] }, &behind, None);
    }
}

/// The structure of a set of which nothing is said but how many semaphores it has.
fn semaphores(count: i64) -> Encoded {
    let stat = crate::ipc::SemStat { count: count.unsigned_abs(), ..Default::default() };
    encode(Reply::Sem(stat), Kind::Sem, false, false)
}
