//! The page multigrain(7): what Multigrain is, for who reads one page. Its program is that of README.md, which
//! packaging/check-install.sh compiles and runs as it stands there.

use clap_mangen::roff::{Roff, bold, roman};

const README: &str = include_str!("../../../../README.md");

const WHAT: &[&str] = &[
    "Multigrain is software distributed shared memory: a program of threads runs as N processes, the nodes, on one \
     host or on many, and reads and writes memory that all of them share, by ordinary pointers, which have the same \
     value on every node. Page protection finds the accesses, and a protocol keeps the nodes' copies coherent.",
    "The unit that is protected, fetched and invalidated is the minipage, of 4 bytes up to 1 GiB. Several minipages \
     may lie in one physical page, each protected on its own, so that variables that happen to lie side by side \
     cause no false sharing.",
];

const MEMORY: &[(&str, &str)] = &[
    (
        "shared",
        "What mg_malloc(3) and its kin allocate, on any node, until mg_free; and named segments, \
         mg_segment_create(3). A node tells the others an address by mg_publish(3), or in memory that is shared already.",
    ),
    (
        "private",
        "Globals, static variables, stacks, and memory of malloc(3), new and mmap(2): each node has its own. So are file \
         descriptors, signals and all else that the kernel keeps for a process.",
    ),
];

const CONSISTENCIES: &[(&str, &str)] = &[
    (
        "sequential",
        "The default: all accesses take place in one order that all nodes agree on. Atomics and flags that are polled \
         work across nodes.",
    ),
    (
        "eager-release",
        "Nodes may write one page at the same time. A write is seen elsewhere after a lock, barrier, semaphore, thread \
         start or join has ordered it: who releases notifies all. There must be no data races.",
    ),
    ("lazy-release", "The same promise; who acquires learns of the writes. Fewer messages."),
    ("auto", "As lazy-release, and adapted at barriers by what is counted."),
];

const LIMITS: &[(&str, &str)] = &[
    ("system", "Linux on x86-64; 6.4 or newer for the guard uffd, 5.3 for mprotect."),
    ("nodes", "1 to 1,024, which have the same program and library in the same place."),
    ("threads", "4,096 of a node that use shared memory."),
    (
        "memory",
        "64 GiB of shared addresses unless multigrain run --shared says otherwise, up to almost 16 TiB.",
    ),
    (
        "system calls",
        "They fail with EFAULT on memory that is elsewhere: use mg_read(3) and its kin, or mg_touch_read(3) before.",
    ),
    (
        "futexes",
        "They do not cross nodes: pthread mutexes, sem_wait(3) and std::atomic::wait in shared memory sleep for \
         ever. Use mg_lock(3), mg_sem_wait(3), mg_cond_wait(3).",
    ),
    (
        "signals",
        "SIGSEGV, SIGBUS and SIGTRAP make accesses work. sigaction(2), signal(2), sigprocmask(2), pthread_sigmask(3), \
         their older forms and sigsuspend(2) never block the three, and a program's handler for them gets what is not the \
         library's. Leave them out of the masks of ppoll(2), pselect(2), epoll_pwait(2) (if a handler that they let through \
         touches shared memory), pthread_attr_setsigmask_np(3) and setcontext(3), and out of system calls of your own.",
    ),
    (
        "signal handlers",
        "They must not touch shared memory while their thread is inside a function of multigrain(3). SIGHUP, SIGINT, SIGQUIT \
         and SIGTERM end a program that has no handler for them at once.",
    ),
    (
        "mappings and descriptors",
        "mprotect(2), munmap(2), mremap(2) and mmap(2) with MAP_FIXED refuse shared memory with EACCES and a line: \
         mg_free(3) takes memory away. close(2), close_range(2), closefrom(3), dup2(2) and dup3(2) leave the library's \
         descriptors alone. mlockall(2) locks no shared memory. madvise(2) with MADV_REMOVE must not be given any: it \
         empties one node's copy. Shared memory cannot be executed.",
    ),
    ("stacks", "A thread that uses shared memory needs 64 KiB."),
    (
        "fork and exec",
        "A child is outside of the job: it may exec or exit. A node that calls exec itself leaves the job without \
         mg_finalize(3), which ends it as a failure.",
    ),
    ("failures", "A node that dies ends the job: one line says which, and the exit code is its."),
];

const SEE: &str = "multigrain(1), multigrain-run(1), multigrain-doctor(1), multigrain(3), mg_init(3), mg_malloc(3), \
                   mg_consistency(3), mg_lock(3), mg_barrier(3), mg_thread_create(3)";

/// README's code block of a language, by number from 0.
pub(super) fn block(language: &str, number: usize) -> Option<&'static str> {
    let begin = format!("```{language}\n");
    README.split(begin.as_str()).nth(number + 1)?.split_once("```").map(|(block, _)| block)
}

/// The page.
pub(super) fn page() -> Vec<u8> {
    let mut roff = Roff::new();
    roff.control("TH", ["multigrain", "7", "", "", "Multigrain"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(
        "multigrain - one memory over many processes, shared at the grain you choose",
    )]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(WHAT[0])]);
    roff.control("PP", []);
    roff.text([roman(WHAT[1])]);
    roff.control("SH", ["A FIRST PROGRAM"]);
    roff.text([roman("This is first.c:")]);
    example(&mut roff, block("c", 0).unwrap_or_default().lines());
    roff.control("PP", []);
    roff.text([roman("Compile it, and run it as four nodes; each prints that it sees 6:")]);
    let commands = block("sh", 2).unwrap_or_default().lines();
    let shared = |line: &&str| !line.starts_with("export") && !line.contains("-static");
    example(&mut roff, commands.filter(shared).take(2));
    roff.control("PP", []);
    roff.text([roman(
        "With -static, and pkg-config --static, the program needs no library where it runs. multigrain run --hosts a:2,b:2 \
         starts nodes on other hosts by ssh(1).",
    )]);
    section(&mut roff, "WHICH MEMORY IS SHARED", MEMORY);
    roff.control("SH", ["CONSISTENCIES"]);
    roff.text([roman(
        "What a program may rely on, chosen for a job (multigrain run --consistency) or an allocation \
         (mg_malloc_with(3)); mg_consistency(3) has the rules.",
    )]);
    super::entries(&mut roff, CONSISTENCIES);
    section(&mut roff, "LIMITS", LIMITS);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(SEE)]);
    roff.render().into_bytes()
}

fn section(roff: &mut Roff, title: &str, rows: &[(&str, &str)]) {
    roff.control("SH", [title]);
    super::entries(roff, rows);
}

/// Lines as they are.
fn example<'a>(roff: &mut Roff, lines: impl Iterator<Item = &'a str>) {
    roff.control("PP", []);
    roff.control("RS", ["4"]);
    roff.control("nf", []);
    for line in lines {
        if line.is_empty() {
            roff.control("sp", []);
        } else {
            roff.text([bold(line)]);
        }
    }
    roff.control("fi", []);
    roff.control("RE", []);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_has_readmes_program_and_how_to_build_and_run_it() {
        let page = String::from_utf8(page()).unwrap();
        assert!(page.contains("int main(int argc, char **argv)"), "{page}");
        assert!(
            page.contains(
                "cc first.c \\-o first $(pkg\\-config \\-\\-cflags \\-\\-libs multigrain)"
            ),
            "{page}"
        );
        assert!(page.contains("multigrain run \\-n 4 ./first"), "{page}");
        assert!(page.contains("sees %ld\\\\n"), "a backslash of the program: {page}");
    }

    #[test]
    fn the_overview_names_every_consistency_and_pages_that_are_there() {
        let known = multigrain_types::Consistency::ALL.map(|known| known.name());
        assert!(CONSISTENCIES.iter().map(|(name, _)| *name).eq(known));
        let library = super::super::library::pages();
        let texts = MEMORY.iter().chain(LIMITS).map(|(_, text)| *text).chain([SEE]);
        for text in texts {
            for name in text.split("(3)").filter_map(|before| before.split([' ', '(']).next_back())
            {
                let is_ours = name.starts_with("mg_");
                assert!(
                    !is_ours || library.iter().any(|(file, _)| *file == format!("{name}.3")),
                    "{name}"
                );
            }
        }
    }
}
