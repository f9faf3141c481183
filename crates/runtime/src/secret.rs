//! A node's secret and credentials come to it by a pipe, where nobody else can read them (ADR 44).
//!
//! Role: the pipe is inherited until the node joins, since the program may be started by a shell, a debugger or
//! another wrapper; `MULTIGRAIN_SECRET_FD` is its number. It holds a line with the job's secret, and one with the
//! node's credentials, which is empty where it needs none. The contents are copied, not taken out, since the
//! program may be one of several that a script runs in sequence. As the node joins, it closes the pipe and
//! forgets the number, so that no program that it starts can join in its place. Who took a copy of the number
//! before, by fork, finds the pipe locked as long as the process that joined lives.

#![expect(
    unsafe_code,
    reason = "a descriptor is taken over by its number, and the environment changed"
)]

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use multigrain_transport::Credentials;
use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_lock, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};

use crate::error::Error;

/// The variable's name, behind `MULTIGRAIN_`.
pub(crate) const NAME: &str = "SECRET_FD";
/// Bytes in the pipe at most: what every pipe holds.
const MOST: usize = 4096;

/// What is in the pipe.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) secret: [u8; 32],
    pub(crate) credentials: Option<Credentials>,
}

impl Admission {
    /// From the pipe, which is closed.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the descriptor is something else, and stays; or another process
    /// of this node has joined.
    pub(crate) fn of_pipe(fd: RawFd) -> Result<Self, Error> {
        // SAFETY: a pipe is read without being changed, and anything else refuses to be.
        let pipe = unsafe { BorrowedFd::borrow_raw(fd) };
        let wrong = |why: &str| {
            Error::Invalid(format!(
                "MULTIGRAIN_{NAME}: descriptor {fd} is not the pipe that `multigrain run` gives a node ({why}); let \
                 nothing close it, nor any other that it has not opened, before mg_init"
            ))
        };
        let text = copy(pipe).map_err(|errno| match errno {
            Errno::MFILE => Error::System(
                "this node's limit of file descriptors is too low, raise it (ulimit -n)".into(),
            ),
            _ => wrong(&errno.to_string()),
        })?;
        let found =
            Self::of_text(&text).ok_or_else(|| wrong("it does not hold the job's secret"))?;
        let lockable = writable(fd);
        // SAFETY: it is the pipe that the launcher gave this process, and nothing else here uses it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        // Closing a descriptor of the pipe ends the locks that this process has on it.
        match lockable.map(claim) {
            Some(Err(other)) => Err(Error::Invalid(format!(
                "process {} of this node has called mg_init: only one process of a node joins the job",
                other.as_raw_nonzero()
            ))),
            _ => Ok(found),
        }
    }

    fn of_text(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?.strip_suffix('\n')?;
        let (secret, own) = text.split_once('\n')?;
        let credentials = (!own.is_empty()).then(|| Credentials::from_text(own).ok());
        let credentials = match credentials {
            None => None,
            Some(read) => Some(read?),
        };
        Some(Self { secret: hex_secret(secret)?, credentials })
    }
}

/// A pipe opened anew, as its lock needs it; none where there is no /proc, or the process is another user by now.
fn writable(pipe: RawFd) -> Option<OwnedFd> {
    let options = OFlags::RDWR | OFlags::CLOEXEC;
    let opened = open(format!("/proc/self/fd/{pipe}"), options, Mode::empty()).ok()?;
    // The program may have closed its stdin, stdout or stderr.
    fcntl_dupfd_cloexec(opened, 3).ok()
}

/// Locks the pipe for this process until its end; children have no part in that.
///
/// # Errors
/// The process that has it.
fn claim(pipe: OwnedFd) -> Result<(), Pid> {
    static CLAIM: OnceLock<OwnedFd> = OnceLock::new();
    if fcntl_lock(pipe.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
        let holder = fcntl_getlk(pipe.as_fd(), &Flock::from(FlockType::WriteLock));
        return holder.ok().flatten().and_then(|held| held.pid).map_or(Ok(()), Err);
    }
    // A second one fails to join for other reasons.
    drop(CLAIM.set(pipe));
    Ok(())
}

/// What lies in a pipe, and stays there.
fn copy(pipe: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let (copy, end) = pipe_with(PipeFlags::CLOEXEC)?;
    let held = tee(pipe, &end, MOST, SpliceFlags::NONBLOCK)?;
    drop(end);
    let mut text = vec![0; held];
    let mut have = 0;
    while have < held {
        match read(&copy, &mut text[have..])? {
            0 => break,
            some => have += some,
        }
    }
    text.truncate(have);
    Ok(text)
}

/// A program that this one starts finds no number. From the thread that joins, before the runtime has threads of its own.
pub(crate) fn leave_environment() {
    // SAFETY: whoever joins changes the environment in no other thread.
    unsafe { std::env::remove_var(format!("MULTIGRAIN_{NAME}")) };
}

fn hex_secret(text: &str) -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in secret.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_transport::Authority;
    use multigrain_types::NodeId;
    use rustix::io::{dup, write};
    use std::os::fd::{AsFd, IntoRawFd};

    fn pipe_with_text(text: &str) -> OwnedFd {
        let (pipe, end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        assert_eq!(write(&end, text.as_bytes()).unwrap(), text.len());
        pipe
    }

    #[test]
    fn a_secret_is_sixty_four_hex_digits_and_nothing_else() {
        assert_eq!(hex_secret(&"0f".repeat(32)), Some([15; 32]));
        assert_eq!(hex_secret(&"0f".repeat(31)), None);
        assert_eq!(hex_secret(&"0g".repeat(32)), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls C")]
    fn what_lies_in_the_pipe_is_read_and_stays_there_for_who_else_has_it() {
        let issued = Authority::new(7).unwrap().issue(NodeId(3)).unwrap().to_text();
        for own in ["", &issued] {
            let pipe = pipe_with_text(&format!("{}\n{own}\n", "0a".repeat(32)));
            for _ in 0..2 {
                let inherited = dup(pipe.as_fd()).unwrap().into_raw_fd();
                let found = Admission::of_pipe(inherited).unwrap();
                assert_eq!(found.secret, [10; 32]);
                let credentials = found.credentials.map(|own| own.to_text());
                assert_eq!(credentials.unwrap_or_default(), own);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "has no tee")]
    fn what_is_no_such_pipe_is_named_and_left_open() {
        let secret = "0a".repeat(32);
        for text in [String::new(), "x\n\n".to_owned(), secret.clone(), format!("{secret}\nx\n")] {
            let pipe = pipe_with_text(&text);
            let fd = dup(pipe.as_fd()).unwrap().into_raw_fd();
            let why = Admission::of_pipe(fd).unwrap_err().to_string();
            let line = format!(
                "MULTIGRAIN_SECRET_FD: descriptor {fd} is not the pipe that `multigrain run` gives a node"
            );
            assert!(why.contains(&line) && !why.contains(&secret), "{why}");
            // SAFETY: it was not taken.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        let why = Admission::of_pipe(dup(file.as_fd()).unwrap().into_raw_fd()).unwrap_err();
        assert!(why.to_string().contains("is not the pipe"), "{why}");
    }
}
