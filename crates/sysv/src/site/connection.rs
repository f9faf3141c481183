//! The sockets of processes: one call at a time on each, and its answer.

use core::mem::MaybeUninit;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use multigrain_runtime::Runtime;
use multigrain_types::NodeId;
use multigrain_types::sysv::{Answer, Ask, CALL_BYTES, Call, MOST_BEHIND, TOKEN_BYTES};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    listen, recvmsg, sendmsg, socket_with,
};
use rustix::rand::{GetRandomFlags, getrandom};

use super::Site;
use super::structures::Encoded;
use crate::ipc::{CallId, Caller, Process};

/// How processes come in.
#[derive(Debug)]
pub(super) struct Way {
    socket: OwnedFd,
    name: Vec<u8>,
    token: [u8; TOKEN_BYTES],
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Way {
    /// A socket with a name that nobody else has, which no file system knows.
    pub(super) fn open(rank: NodeId) -> Result<Self, Errno> {
        let mut token = [0; TOKEN_BYTES];
        getrandom(&mut token, GetRandomFlags::empty())?;
        let mut salt = [0; 8];
        getrandom(&mut salt, GetRandomFlags::empty())?;
        let name = format!("multigrain-{}-{}", rank.0, digits(&salt)).into_bytes();
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(&name)?)?;
        listen(&socket, 4096)?;
        Ok(Self { socket, name, token })
    }

    /// What a process has to know.
    pub(super) fn variable(&self) -> String {
        format!("{}:{}", digits(&self.name), digits(&self.token))
    }
}

/// Serves a call.
pub(super) type Answers =
    fn(&'static Site, &'static Runtime, &Arc<Connection>, arrived: Arrived<'_>);

/// Serves processes as long as this one lives.
pub(super) fn accept(site: &'static Site, runtime: &'static Runtime, way: Way, answers: Answers) {
    loop {
        let socket = match accept_with(&way.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(errno) => {
                eprintln!(
                    "multigrain: {} takes no more calls: {errno}; raise ulimit -n",
                    runtime.rank()
                );
                std::thread::sleep(std::time::Duration::from_millis(100));
                continue;
            }
        };
        let token = way.token;
        let serve = move || serve(site, runtime, socket, token, answers);
        if let Err(why) = site.helper("sysv-call", serve) {
            eprintln!("multigrain: {why}");
        }
    }
}

/// A socket of a process.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    pub(super) pid: i32,
    /// The user it was when it connected.
    user: u32,
    groups: Vec<u32>,
    /// Which of its images this is, and the fork it came from.
    pub(super) image: i64,
    pub(super) fork: i64,
    /// The call that blocks.
    blocked: Mutex<Option<CallId>>,
}

/// A call as it came.
#[derive(Debug)]
pub(super) struct Arrived<'a> {
    pub(super) ask: Ask,
    pub(super) call: Call,
    pub(super) behind: &'a [u8],
    pub(super) descriptor: Option<OwnedFd>,
}

impl Connection {
    /// Who makes a call. A process may say that it is another user than it was if it was root.
    pub(super) fn caller(&self, runtime: &Runtime, call: &Call) -> Caller {
        let claimed = if self.user == 0 { call.user } else { self.user };
        Caller {
            process: Process { site: runtime.rank().0, pid: self.pid },
            uid: claimed,
            gid: call.group,
            groups: self.groups.clone(),
            privileged: claimed == 0,
            now: super::authority::now(),
        }
    }

    /// The site itself, in the name of a process.
    pub(super) fn as_site(&self, runtime: &Runtime) -> Caller {
        let process = Process { site: runtime.rank().0, pid: self.pid };
        let groups = Vec::new();
        Caller { process, uid: 0, gid: 0, groups, privileged: true, now: super::authority::now() }
    }

    pub(super) fn answer(&self, (answer, behind): &Encoded) {
        self.answer_with(*answer, behind, None);
    }

    pub(super) fn answer_with(
        &self,
        answer: Answer,
        behind: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) {
        let head = answer.to_bytes();
        let parts = [IoSlice::new(&head), IoSlice::new(behind)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|descriptor| [descriptor]);
        if let Some(descriptors) = &descriptors {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        // Who does not wait for it is gone.
        let _ = sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL);
    }

    fn blocked(&self) -> std::sync::MutexGuard<'_, Option<CallId>> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that is under way may block.
    pub(super) fn blocks(&self, id: CallId) {
        *self.blocked() = Some(id);
    }
}

fn receive<'a>(socket: &OwnedFd, room: &'a mut [u8]) -> Option<(Call, &'a [u8], Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let bytes = loop {
        let mut parts = [IoSliceMut::new(room)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last();
        }
    }
    let (call, behind) = Call::from_bytes(room.get(..bytes)?)?;
    Some((call, behind, descriptor))
}

fn serve(
    site: &'static Site,
    runtime: &'static Runtime,
    socket: OwnedFd,
    token: [u8; TOKEN_BYTES],
    answers: Answers,
) {
    let mut room = vec![0; CALL_BYTES + MOST_BEHIND];
    let Some((hello, behind, _)) = receive(&socket, &mut room) else { return };
    let Ok(peer) = socket_peercred(socket.as_fd()) else { return };
    if Ask::of(hello.ask) != Some(Ask::Hello) || behind != token {
        return;
    }
    let [image, fork, ..] = hello.arguments;
    let pid = peer.pid.as_raw_nonzero().get();
    let groups = super::program::groups_of(&socket);
    let connection = Arc::new(Connection {
        socket,
        pid,
        user: peer.uid.as_raw(),
        groups,
        image,
        fork,
        blocked: Mutex::new(None),
    });
    let known = site.processes.add(pid);
    let failed =
        known.err().map_or_else(Answer::default, |errno| Answer::failed(errno.raw_os_error()));
    connection.answer_with(failed, &[], None);
    while let Some((call, behind, descriptor)) = receive(&connection.socket, &mut room) {
        let Some(ask) = Ask::of(call.ask) else { break };
        if ask == Ask::Cancel {
            if let Some(id) = *connection.blocked() {
                let errno = i32::try_from(call.arguments[0]).unwrap_or(libc::EINTR);
                site.authority.cancel(runtime, id, errno);
            }
            continue;
        }
        answers(site, runtime, &connection, Arrived { ask, call, behind, descriptor });
    }
    if let Some(id) = *connection.blocked() {
        site.authority.cancel(runtime, id, libc::EINTR);
    }
    // An exec, an end, or one socket less.
    site.exports.lock().sweep();
    site.pass_notes(runtime);
    site.catch_up(runtime);
}
