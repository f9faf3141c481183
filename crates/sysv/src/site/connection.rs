//! The sockets of processes: one call at a time on each, and its answer.

use core::mem::MaybeUninit;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use multigrain_runtime::Runtime;
use multigrain_types::NodeId;
use multigrain_types::sysv::{Answer, Ask, CALL_BYTES, Call, TOKEN_BYTES};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind,
    listen, recvmsg, sendmsg, shutdown, socket_with,
};
use rustix::rand::{GetRandomFlags, getrandom};

use super::processes::Calling;
use super::structures::Encoded;
use crate::ipc::{CallId, Caller, Process};

/// How processes come in.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    name: Vec<u8>,
    pub(super) token: [u8; TOKEN_BYTES],
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Listener {
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

/// A socket of a process.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    pub(super) pid: i32,
    /// The user and the group it was when it connected.
    user: u32,
    group: u32,
    /// As whom it has called last, and the groups of that beside its own.
    groups: Mutex<([u32; 2], Vec<u32>)>,
    /// Which of its images this is, and the fork it came from.
    pub(super) image: i64,
    pub(super) fork: i64,
    /// The call that blocks.
    blocked: Mutex<Option<CallId>>,
    /// Of its process.
    calling: Arc<Calling>,
}

/// A call as it came.
#[derive(Debug)]
pub(super) struct Arrived<'a> {
    pub(super) ask: Ask,
    pub(super) call: Call,
    pub(super) behind: &'a [u8],
    pub(super) descriptor: Option<OwnedFd>,
}

/// Who has connected; none of a process that is in another pid namespace, where this one does not see it.
pub(super) fn peer_of(socket: &OwnedFd) -> Option<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    let (place, option) = ((&raw mut peer).cast(), libc::SO_PEERCRED);
    // SAFETY: a place for the structure, and its length.
    let asked = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, place, &raw mut length)
    };
    (asked == 0 && peer.pid > 0).then_some(peer)
}

/// A process that connects says at once who it is.
const HELLO: Duration = Duration::from_secs(5);

impl Connection {
    /// Of a process that says on a socket that it may use this site; none of any other.
    pub(super) fn of(socket: OwnedFd, token: &[u8; TOKEN_BYTES]) -> Option<Self> {
        set_socket_timeout(&socket, Timeout::Recv, Some(HELLO)).ok()?;
        let mut room = [0; CALL_BYTES + TOKEN_BYTES + 1];
        let (hello, behind, _) = receive(&socket, &mut room)?;
        let peer = peer_of(&socket)?;
        if Ask::of(hello.ask) != Some(Ask::Hello) || behind != token {
            return None;
        }
        set_socket_timeout(&socket, Timeout::Recv, None).ok()?;
        let [image, fork, ..] = hello.arguments;
        let libc::ucred { pid, uid: user, gid: group } = peer;
        let groups = Mutex::new(([user, group], super::descendants::groups_of(pid)));
        Some(Self {
            socket,
            pid,
            user,
            group,
            groups,
            image,
            fork,
            blocked: Mutex::new(None),
            calling: Arc::default(),
        })
    }

    /// The next call; none when the process is gone, or says what none of ours does.
    pub(super) fn receive<'a>(
        &self,
        room: &'a mut [u8],
    ) -> Option<(Call, &'a [u8], Option<OwnedFd>)> {
        receive(&self.socket, room)
    }

    /// Who makes a call. A process may say that it is another user than it was if it was root.
    pub(super) fn caller(&self, runtime: &Runtime, call: &Call) -> Caller {
        let is = if self.user == 0 { [call.user, call.group] } else { [self.user, self.group] };
        let [uid, gid] = is;
        Caller {
            process: Process { site: runtime.rank().0, pid: self.pid },
            uid,
            gid,
            groups: self.groups_as(is),
            privileged: uid == 0,
            now: super::authority::now(),
        }
    }

    /// The groups of its process. Who becomes another user mostly leaves those it had, and nobody else can.
    fn groups_as(&self, is: [u32; 2]) -> Vec<u32> {
        let mut known = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, groups) = &mut *known;
        if core::mem::replace(of, is) != is {
            *groups = super::descendants::groups_of(self.pid);
        }
        groups.clone()
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
        let how = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if sendmsg(&self.socket, &parts, &mut control, how).is_err() {
            // It is gone, or takes no answers: who waits for one is told.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }

    /// The call that blocks, or has blocked last.
    pub(super) fn blocked(&self) -> std::sync::MutexGuard<'_, Option<CallId>> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same as a socket of a process of which that is kept.
    pub(super) fn belonging_to(self, calling: Arc<Calling>) -> Self {
        calling.opens(self.image);
        Self { calling, ..self }
    }

    /// What is kept of its process.
    pub(super) fn calling(&self) -> &Calling {
        &self.calling
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
