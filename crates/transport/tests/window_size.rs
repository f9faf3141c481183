//! Wake-up suppression leaves the windows of TCP connections alone. In a process of its own, whose sockets are all the
//! test's.
#![expect(unsafe_code, reason = "asks the kernel about a socket")]
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

mod support;

use multigrain_transport::Receiver;
use support::{Family, job};

/// The kernel sets the window of a connection by a low-water mark that its buffer is too small for.
#[test]
fn windows_stay_as_wide_as_they_were() {
    let (meshes, _) = job(Family::Tcp, 2);
    let before = tcp_windows();
    assert!(before.len() >= 2, "{before:?}");
    meshes[0].suppress_wakeups(Receiver::Polls);
    assert_eq!(tcp_windows(), before);
    meshes[0].resume_wakeups();
    assert_eq!(tcp_windows(), before);
}

/// The widest windows that the TCP connections of this process may offer, in bytes.
fn tcp_windows() -> Vec<i32> {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let fds = fds.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let window = |fd: i32| {
        let (mut bytes, mut len) = (0_i32, 4);
        let place = (&raw mut bytes).cast();
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);
        // SAFETY: both places live through the call, and hold the four bytes that it may write.
        let done = unsafe { libc::getsockopt(fd, level, name, place, &raw mut len) };
        // A listener has none.
        (done == 0 && bytes > 0).then_some(bytes)
    };
    fds.filter_map(window).collect()
}
