//! Who serves the sockets of processes.

use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use multigrain_runtime::Runtime;
use multigrain_types::sysv::{Answer, Ask, CALL_BYTES, MOST_BEHIND, TOKEN_BYTES};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::connection::{Arrived, Connection, Listener, peer_of};
use super::{Site, answers, descendants, end};

/// Sockets of which nothing is known yet, and how many there may be.
static NEW: AtomicU32 = AtomicU32::new(0);
const MOST_NEW: u32 = 64;

/// Serves processes as long as this one lives.
pub(super) fn accept(site: &'static Site, runtime: &'static Runtime, way: Listener) {
    loop {
        let socket = match accept_with(&way.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(errno) => end(&format!("the site takes no more calls: {errno}; raise ulimit -n")),
        };
        // Connections that say nothing cost no more than these: of more only what the program has forked comes in.
        if NEW.load(Ordering::Relaxed) >= MOST_NEW && !is_ours(&socket) {
            continue;
        }
        NEW.fetch_add(1, Ordering::Relaxed);
        let token = way.token;
        let serve = move || serve(site, runtime, socket, token);
        if let Err(why) = site.helper("sysv-call", serve) {
            end(&why);
        }
    }
}

/// Whether a process below this one is at the other end.
fn is_ours(socket: &OwnedFd) -> bool {
    peer_of(socket).is_some_and(|peer| descendants::is_one(peer.pid))
}

fn serve(
    site: &'static Site,
    runtime: &'static Runtime,
    socket: OwnedFd,
    token: [u8; TOKEN_BYTES],
) {
    let connection = Connection::of(socket, &token);
    NEW.fetch_sub(1, Ordering::Relaxed);
    let Some(connection) = connection else { return };
    let mut room = vec![0; CALL_BYTES + MOST_BEHIND];
    // One that had its number before has ended.
    site.catch_up(runtime);
    let connection = match site.processes.add(connection.pid) {
        Ok(calling) => Arc::new(connection.belonging_to(calling)),
        Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
            end(&format!("the site cannot watch a process that calls: {errno}; raise ulimit -n"))
        }
        Err(errno) => {
            return connection.answer_with(Answer::failed(errno.raw_os_error()), &[], None);
        }
    };
    connection.answer_with(Answer::default(), &[], None);
    while let Some((call, behind, descriptor)) = connection.receive(&mut room) {
        let Some(ask) = Ask::of(call.ask) else { break };
        if ask == Ask::Cancel {
            if let Some(id) = *connection.blocked() {
                let errno = i32::try_from(call.arguments[0]).unwrap_or(libc::EINTR);
                site.authority.cancel(runtime, id, errno);
            }
            continue;
        }
        if ask == Ask::Waits {
            if let Some(id) = *connection.blocked() {
                let [has_limit, has_timer, ..] = call.arguments;
                site.authority.waits(id, has_limit == 0 && has_timer == 0);
            }
            continue;
        }
        if connection.blocked().is_some_and(|id| site.authority.is_unanswered(id)) {
            // One call at a time: who asks more than it hears is none of ours.
            break;
        }
        answers::serve(site, runtime, &connection, Arrived { ask, call, behind, descriptor });
    }
    if let Some(id) = *connection.blocked() {
        site.authority.cancel(runtime, id, libc::EINTR);
        site.authority.forget(id);
    }
    answers::abandon(site, runtime, &connection);
    // An exec, an end, or one socket less.
    site.exports.lock().sweep();
    site.pass_notifications(runtime);
    site.catch_up(runtime);
}
