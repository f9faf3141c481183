//! Which guard is chosen where userfaultfd is forbidden, as container runtimes do by seccomp.
#![expect(unsafe_code, reason = "installs a seccomp filter in a thread of its own")]

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter, sock_fprog};
use multigrain_memory::{Config, GuardChoice, GuardKind, Memory, MemoryError};

/// Makes userfaultfd() fail with EPERM in this thread and those it starts.
fn forbid_userfaultfd() {
    let step = |code: u32, jt, jf, k| sock_filter {
        code: u16::try_from(code).expect("BPF codes have 16 bits"),
        jt,
        jf,
        k,
    };
    let number = u32::try_from(libc::SYS_userfaultfd).expect("a system call's number");
    let denied = libc::SECCOMP_RET_ERRNO | 1;
    let mut filter = [
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number),
        step(BPF_RET | BPF_K, 0, 0, denied),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: only gives up privileges of this thread.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program and its four steps outlive the call, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(set, 0);
}

#[test]
fn auto_falls_back_to_mprotect_where_userfaultfd_is_forbidden_and_says_so() {
    let checked = std::thread::spawn(|| {
        forbid_userfaultfd();
        let memory = Memory::new(&Config::new(1, GuardChoice::Auto)).unwrap();
        assert_eq!((memory.guard(), memory.signal()), (GuardKind::Mprotect, libc::SIGSEGV));
        let note = memory.guard_note();
        assert!(note.contains("userfaultfd") && note.contains("Operation not permitted"), "{note}");
        assert!(!note.contains('\n'), "{note}");
        drop(memory);
        let asked = Memory::new(&Config::new(1, GuardChoice::Uffd));
        assert!(matches!(asked, Err(MemoryError::GuardUnavailable { .. })), "{asked:?}");
    });
    checked.join().unwrap();
}
