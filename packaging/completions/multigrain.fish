# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_multigrain_global_optspecs
    string join \n h/help V/version
end

function __fish_multigrain_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_multigrain_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_multigrain_using_subcommand
    set -l cmd (__fish_multigrain_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c multigrain -n "__fish_multigrain_needs_command" -s h -l help -d 'Print help'
complete -c multigrain -n "__fish_multigrain_needs_command" -s V -l version -d 'Print version'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "run" -d 'Starts a program as the nodes of one job, on this host or on many'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "doctor" -d 'Checks this host, or all hosts of a job, and says what to change'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "bench" -d 'Measures the costs of Multigrain on this machine'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "check" -d 'Model-checks the protocols: all interleavings of small programs on 1 to 4 nodes'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "sim" -d 'Runs random programs on a virtual cluster of up to 10,000 nodes, and checks what they see'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "scale" -d 'Project the applications\' speed-up on up to 1,024 nodes'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "litmus" -d 'Runs litmus tests on real nodes and compares every outcome with the memory model'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "inject" -d 'Runs programs as real jobs and does them harm: processes are killed and stopped, connections cut, limits lowered'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "races" -d 'Plants races on real nodes, which --check-races must report, and twins without a fault, which it must not accuse'
complete -c multigrain -n "__fish_multigrain_needs_command" -f -a "random" -d 'Runs random programs without data races as real jobs and compares every read with a sequential execution'
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -s n -l nodes -d 'Processes to start, 1 to 1024 [default: 1, or one in each slot of the hosts]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l hosts -d 'Hosts to run on, with the nodes each has room for: `a:2,b:2`, or `[fd77::2]:2` for an IPv6 address; one where no number is given. Ranks fill the first host, then the next' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l hostfile -d 'The same from a file: a host a line, with `slots=N` behind it; `#` begins a comment' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -s t -l threads -d 'Threads each node is meant to run, up to 4096: what `mg_threads()` says [default: 1]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l launcher-command -d 'The command that runs another on a host, if not `ssh`: `ssh -F FILE`, for one. Quotes and backslashes keep words together as in a shell, which is not asked: nothing else of it is understood. It gets the host\'s name and one word for the host\'s shell, and has to pass stdin and stdout on' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l interface -d 'Where nodes of several hosts meet: an interface such as eth0, or a network such as 10.1.0.0/16 [default: a network that all hosts are in]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l ports -d 'The ports of TCP that nodes listen at, one each, as a firewall between hosts lets them through; on this host alone with `multigrain run --transport tcp` [default: any that is free]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l shared -d 'Size of the shared address space: bytes, or with a suffix K, M, G or T (powers of 1024); up to almost 16T [default: 64G]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l boot-timeout -d 'How long nodes wait for each other at the start, in seconds [default: 30, and more for many nodes: 292 for 1024]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l guard -d 'How accesses are noticed [default: auto]' -r -f -a "auto\t'Userfaultfd where the system allows it, else mprotect'
uffd\t'Userfaultfd'
mprotect\t'Mprotect and SIGSEGV'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l path -d 'By which path a page is updated while the program\'s threads are kept from it: what its memory is mapped twice from [default: memfd]' -r -f -a "memfd\t'A memfd, which is memory alone'
file\t'A file without a name in TMPDIR (/tmp), which costs disk writes; userfaultfd on tmpfs alone'
sysv\t'A System V segment, removed at once; not with userfaultfd'
mdup\t'Shared anonymous memory, whose mapping mremap duplicates'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l tracking -d 'How a node finds what its threads write to lazily consistent pages whose home it is, where other nodes have copies [default: faults]' -r -f -a "faults\t'The first write since a release traps'
scans\t'No write traps: the kernel opens the page, and a release asks it which it has opened (Linux 6.7; with the guard mprotect)'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l wait -d 'How a thread waits for a reply [default: adaptive]' -r -f -a "spin\t'Busy: fastest, one core per waiting thread'
yield\t'Busy, but gives the core up between looks'
block\t'Sleeps in the kernel'
adaptive\t'Spins for a while, then sleeps'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l service -d 'Which thread of a node serves what arrives: MIRAGE+\'s server process, or what is nearest to its interrupt level [default: helping]' -r -f -a "blocked\t'A thread of its own, asleep until something arrives'
polling\t'A thread of its own that looks all the time; needs a core'
helping\t'The threads that wait, and a thread of its own, asleep, while none does'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l manager -d 'Where directory entries live [default: auto]' -r -f -a "auto\t'`allocator` in a job of at most 8 nodes, `block` in a larger one'
first\t'Node 0 manages everything'
spread\t'Neighbours on one node after the other'
block\t'On each node a block of neighbours'
allocator\t'The node that allocated'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l learn -d 'Whether a node fetches ahead: what comes next in an array that a thread goes through and the neighbours of what it reads, write access for what it reads and then writes, and at barriers what it has fetched between them, or needed again after them, again and again [default: on]' -r -f -a "on\t'Learns and fetches ahead'
off\t'Fetches at faults only'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l consistency -d 'What the program may rely on where an allocation does not say it: on release-consistent memory, writes are seen by other nodes only after a lock, barrier, semaphore, thread start or join has ordered them, and there must be no data races [default: sequential]' -r -f -a "sequential\t'Every access in one order all nodes agree on'
eager-release\t'A release updates or invalidates all copies before it ends'
lazy-release\t'An acquire learns what releases before it have written'
auto\t'Lazy, and adapted at barriers by what is counted'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l check-races -d 'Reports bytes of release-consistent memory that two nodes write without synchronization, with their address and their allocation; the exit code is then 66, unless the program itself fails. A write that does not change a byte is not seen. Costs time. Without =WHICH the first of each allocation is a line, and at the end how many more there were of it. Where there were none, a line at the end says so, and what was not checked: reads, threads of one node, sequentially consistent memory' -r -f -a "first\t'The first of each allocation is a line, and the others are counted'
all\t'Each is a line'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l chunk -d 'Chunking level: how many neighbouring elements share a minipage, up to 65536; 1 is off. Of sequentially consistent memory alone' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l transport -d 'What carries the messages between the nodes [default: auto]' -r -f -a "auto\t'Unix sockets between nodes of one host, TCP between others'
unix\t'Unix sockets'
tcp\t'TCP; on one host, over the loopback interface'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l encrypt -d 'Whether nodes that TCP links encrypt what they say (TLS 1.3). Between hosts they prove their ranks with certificates of the job in any case. Unix sockets do not leave their host [default: auto]' -r -f -a "auto\t'Between hosts, and not within one'
on\t'Wherever it is TCP'
off\t'Nowhere, for closed networks'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l emulate -d 'Gives every link the latency of another network, one way, and its bandwidth in bits a second: `50us`, `10G` or `50us,10G`. Up to 100ms, and from 1M to 1000G' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l handshake -d 'Sends contents of minipages that are longer than a part in parts of so many bytes, from 64 to 1048576, each acknowledged before the next is sent: the handshake that MIRAGE+ measures blasting against. Without =BYTES they have 1024, as there. It is for measurements, and slower: otherwise, and with =off, contents travel as one stream' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l timeout -d 'Ends the job after this many seconds, with exit code 124 (66 if --check-races has reported races). Output that its reader does not take within a second after that is lost' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l kill-after -d 'How long nodes may take to end after SIGTERM before they are killed, in seconds [default: 5 after a SIGTERM that is handed on, 0.5 where the launcher ends the job]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -s x -l env -d 'Sets a variable for every node; without a value it passes the variable on, as happens to the whole environment on this host, and to what begins with MULTIGRAIN_ on others. May be repeated' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l stats -d 'Writes the counters of every node to this file, as JSON. Nodes send them in mg_finalize: of one that ended before, or whose job did, the file says so' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l segment-window -d 'With --sysv: how long a node keeps a page of a segment that it was granted, such as `500us` or `5ms` [default: as long as contention suggests]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l segment-compression -d 'With --sysv: how pages of segments are compressed on their way to another node, where that pays [default: none]' -r -f -a "none\t'As they are'
rle\t'Runs of a repeated word of 8 bytes'
lz4\t'LZ4 blocks'
zstd\t'Zstandard of level 1'"
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l tag-output -d 'Puts the node\'s rank before each line of output, as `[rank] ` [default: when N > 1]'
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l no-tag-output -d 'Leaves the lines as the nodes wrote them'
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l summary -d 'Prints time and counters on stderr at the end [default: when stderr is a terminal]. Asked for, it also names an allocation whose pages go to and fro because nodes use different parts of them, from 500 such faults on that are a quarter of its faults; what is fetched ahead (`--learn on`) is no fault and not counted there, but under release consistency, where pages fetched again are counted. `mg_get_stats(3)` says what each counter counts. Faults "answered locally" found the minipage here; "views at most" is how many minipages share one page, in as many views'
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l no-summary -d 'Prints no summary'
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -l sysv -d 'Shares the System V objects of programs that know nothing of Multigrain and are not linked with it: shared memory, semaphores and message queues (shmget, semop, msgsnd and what goes with them) are the job\'s, on all its nodes, and none of the host\'s; and so are POSIX names, those of shm_open and sem_open. Each node starts the program once; its children count as well. Needs root, or CAP_SYS_PTRACE'
complete -c multigrain -n "__fish_multigrain_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -s n -l nodes -d 'Processes to start, 1 to 1024 [default: 1, or one in each slot of the hosts]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l hosts -d 'Hosts to run on, with the nodes each has room for: `a:2,b:2`, or `[fd77::2]:2` for an IPv6 address; one where no number is given. Ranks fill the first host, then the next' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l hostfile -d 'The same from a file: a host a line, with `slots=N` behind it; `#` begins a comment' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -s t -l threads -d 'Threads each node is meant to run, up to 4096: what `mg_threads()` says [default: 1]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l launcher-command -d 'The command that runs another on a host, if not `ssh`: `ssh -F FILE`, for one. Quotes and backslashes keep words together as in a shell, which is not asked: nothing else of it is understood. It gets the host\'s name and one word for the host\'s shell, and has to pass stdin and stdout on' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l interface -d 'Where nodes of several hosts meet: an interface such as eth0, or a network such as 10.1.0.0/16 [default: a network that all hosts are in]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l ports -d 'The ports of TCP that nodes listen at, one each, as a firewall between hosts lets them through; on this host alone with `multigrain run --transport tcp` [default: any that is free]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l shared -d 'Size of the shared address space: bytes, or with a suffix K, M, G or T (powers of 1024); up to almost 16T [default: 64G]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l boot-timeout -d 'How long nodes wait for each other at the start, in seconds [default: 30, and more for many nodes: 292 for 1024]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -s x -l env -d 'Gives the program a variable, as `multigrain run` would: LD_LIBRARY_PATH, for one. May be repeated' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -s v -l verbose -d 'Says also what is as it should be'
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l json -d 'Says everything as one JSON object'
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -l sysv -d 'Looks also at what `multigrain run --sysv` needs'
complete -c multigrain -n "__fish_multigrain_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and not __fish_seen_subcommand_from costs mirage paths programs views node" -s h -l help -d 'Print help'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and not __fish_seen_subcommand_from costs mirage paths programs views node" -f -a "costs" -d 'What faults, fetches, messages, locks and barriers cost here, next to the physical floor'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and not __fish_seen_subcommand_from costs mirage paths programs views node" -f -a "mirage" -d 'Tables 1 to 7 and Figures 4, 6 and 7 of MIRAGE+ beside ours: page faults, compression, battleship, matrices'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and not __fish_seen_subcommand_from costs mirage paths programs views node" -f -a "paths" -d 'What access paths (run --path) cost: Tables 1 to 3 and Figures 10 to 15 of ParADE beside ours'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and not __fish_seen_subcommand_from costs mirage paths programs views node" -f -a "programs" -d 'How far programs on two nodes are from threads, from their floors, and where their time goes'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and not __fish_seen_subcommand_from costs mirage paths programs views node" -f -a "views" -d 'What many views cost: reading an array through 1 to 1664 of them (Figure 5)'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and not __fish_seen_subcommand_from costs mirage paths programs views node" -f -a "node" -d 'One node of a measuring job'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from costs" -l transport -d 'What carries the messages' -r -f -a "unix\t'Unix sockets'
tcp\t'TCP over the loopback interface'
both\t'One after the other'"
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from costs" -l wait -d 'How threads wait for a reply' -r -f -a "spin\t'Busy; left out where two threads cannot run at once'
block\t'Asleep in the kernel'
adaptive\t'Busy for a short while, then asleep'
all\t'One after the other'"
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from costs" -l json -d 'Prints one JSON object'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from costs" -l quick -d 'Few samples, fewer nodes: to see that it works'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from costs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from mirage" -l only -d 'Which parts, separated by commas [default: all]' -r -f -a "faults\t'Tables 1 to 3: what a page fault is made of, and who serves it'
compression\t'Table 4 and Figure 4'
battleship\t'Table 5 and Figure 6'
matmul\t'Table 6 and Figure 7'
summary\t'Table 7'"
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from mirage" -l runs -d 'How often each program runs, of which the medians are shown' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from mirage" -l apps-dir -d 'Where the programs are: `make -C apps/sysv OUT=DIR` builds them' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from mirage" -l svg -d 'Draws Figures 4 and 7 as SVG images into this directory' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from mirage" -l quick -d 'Few samples, one run, small inputs: to see that it works'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from mirage" -l json -d 'Prints one JSON object'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from mirage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from paths" -l only -d 'Which parts, separated by commas [default: all]' -r -f -a "calls\t'Table 1: bare system calls'
operations\t'The same of each path as a whole: making memory, updating a page, ending'
characteristics\t'Table 2: what the applications share'
initialization\t'Table 3: making that much memory'
fetches\t'Figure 10: a page fetched from another node'
programs\t'Figures 11 to 15: applications, and races for a page'"
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from paths" -l apps-dir -d 'Where the applications are; where there are none their tables are left out' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from paths" -l svg -d 'Draws Figures 10 and 11 as SVG images into this directory' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from paths" -l json -d 'Prints one JSON object'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from paths" -l quick -d 'Few samples and small inputs: to see that it works'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from paths" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from programs" -l pairs -d 'Rounds, of which the medians are shown' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from programs" -l transport -d 'What carries the messages' -r -f -a "unix\t'Unix sockets'
tcp\t'TCP over the loopback interface'
both\t'One after the other'"
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from programs" -l consistency -d 'Under which consistencies, separated by commas [default: all]' -r -f -a "sequential\t'Every access in one order'
eager-release\t'As MGS has it'
lazy-release\t'As ParADE has it'
auto\t'Lazy, and adapted at barriers'"
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from programs" -l apps-dir -d 'Where the applications are' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from programs" -l quick -d 'Small inputs: to see that it works'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from programs" -l json -d 'Prints one JSON object, with all that the programs counted'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from programs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from views" -l svg -d 'Draws the slowdowns as an SVG image into this file' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from views" -l max -d 'Largest array: bytes, or with a suffix K, M or G' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from views" -l json -d 'Prints one JSON object'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from views" -s h -l help -d 'Print help'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from node" -l samples -d 'Samples of cheap operations' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from node" -l transport -d 'The transport of the job, for the raw sockets beside it' -r -f -a "unix\t'Unix sockets'
tcp\t'TCP over the loopback interface'"
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from node" -l wait -d 'The way of waiting of the job, for the raw sockets beside it' -r -f -a "spin\t'Busy'
block\t'Asleep in the kernel'
adaptive\t'Busy for a short while, then asleep'"
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from node" -l minipages -d '`scale`: minipages of the allocation' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from node" -l grain -d '`scale`: bytes of a minipage; `faults`: of the largest one' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from node" -l batch -d '`scale`, `faults`, `packets`, `patterns`: minipages fetched in a row' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from node" -l pin -d 'Keeps each node on a CPU of its own, as if each had a machine of its own'
complete -c multigrain -n "__fish_multigrain_using_subcommand bench; and __fish_seen_subcommand_from node" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand check" -l proof -d 'Writes the figures into this file, docs/PROOF.md of the source' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand check" -l within -d 'Begins nothing that is likely to end after so many seconds; 0 for no such limit [default: 55, and none if an option says how much is to be done]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand check" -l long -d 'Checks the big configurations too; minutes'
complete -c multigrain -n "__fish_multigrain_using_subcommand check" -l list -d 'Lists the configurations and their numbers of states; checks nothing'
complete -c multigrain -n "__fish_multigrain_using_subcommand check" -l first -d 'Takes the smallest configurations first, and ends with the first property that does not hold'
complete -c multigrain -n "__fish_multigrain_using_subcommand check" -l json -d 'Prints the results on stdout as one JSON object, and nothing else there'
complete -c multigrain -n "__fish_multigrain_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l seed -d 'Seed of the first run; further runs have the seeds after it [default: a random one]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l nodes -d 'Nodes, 2 to 10000 [default: drawn from the seed]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l hours -d 'Virtual hours after which the programs come to their end; fractions are fine [default: 0.001, or 1000000 steps if that is earlier]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l steps -d 'Steps after which they do, if that is earlier [default: no limit, if hours are given]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l runs -d 'Runs, one seed each' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l threads -d 'Threads of each node [default: drawn from the seed]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l minipages -d 'Minipages of the job [default: drawn from the seed]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l deaths -d 'In which runs a node dies at some moment; some: those of one seed in eight' -r -f -a "never\t''
some\t''
always\t''"
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l proof -d 'Writes the figures into this file, docs/PROOF.md of the source' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l within -d 'Begins nothing that is likely to end after so many seconds; 0 for no such limit [default: 55, and none if an option says how much is to be done]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l release -d 'Runs programs without data races on release consistent memory; all but seeds and runs is drawn'
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l shares -d 'Has nodes compete for one minipage on even links, and says what share each gets, and how long threads wait'
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -l json -d 'Prints the results on stdout as one JSON object, and nothing else there'
complete -c multigrain -n "__fish_multigrain_using_subcommand sim" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l apps -d 'Which applications, separated by commas [default: all]' -r -f -a "sor\t''
is\t''
water\t''
lu\t''
tsp\t''
jacobi\t''"
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l nodes -d 'Numbers of nodes, 1 to 1024, separated by commas' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l costs -d 'Takes the costs from a saved `bench costs --json`, instead of measuring for some seconds' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l latency-us -d 'One way through the network [default: 0, nodes on one machine]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l bandwidth-gbit -d 'Of a node\'s wire [default: as measured between two nodes here]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l fault-us -d 'What a fault takes beside its messages [default: as measured]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l service-us -d 'A node\'s time to take a frame and act on it [default: as measured]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l send-us -d 'A node\'s time to send a frame [default: as measured]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l wake-us -d 'How much later a node that computes or sleeps takes a frame [default: as measured]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l transport -d 'Whose costs: what carries the messages' -r -f -a "unix\t'Unix sockets'
tcp\t'TCP over the loopback interface'"
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l manager -d 'Who manages minipages' -r -f -a "auto\t'As in such a job'
allocator\t'The node that allocated: node 0'
spread\t'Neighbours on one node after the other'
block\t'On each node a block of neighbours'"
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l input -d 'Which inputs' -r -f -a "paper\t'Those of the Millipage paper'
small\t'Small ones, as for --validate'
filling\t'Those that fill 64 machines; not of TSP'
growing\t'On each number of nodes, those that give a node the work that one of 64 has with `filling`'"
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l apps-dir -d 'Where the applications are; one-node runs say how fast they compute' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l element-ns -d 'What an element takes on one node, as --json prints it; then no application is run' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l svg -d 'Draws the speed-ups as an SVG image into this file' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l proof -d 'Writes the figures into this file, docs/PROOF.md of the source' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l validate -d 'Compares predictions for small inputs with real runs on this host, on 2 and 4 nodes; fails where messages or bytes differ that should not'
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l barriers -d 'Projects no application, but how long a barrier of all nodes takes'
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -l json -d 'Prints one JSON object'
complete -c multigrain -n "__fish_multigrain_using_subcommand scale" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l rounds -d 'Rounds of each test in each layout, placement and configuration, in whole batches of 32 [default: 32, long: 384]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l layout -d 'Where the variables lie; several with commas [default: all]' -r -f -a "minipage\t'All variables in one minipage'
page\t'Each in a minipage of its own, all in one page'
pages\t'Each in a page of its own'"
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l placement -d 'Where the threads run [default: all]' -r -f -a "one\t'All threads on one node'
mixed\t'Two threads here, the others there; of three or more'
own\t'Each thread on a node of its own'"
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l guard -d 'How accesses are noticed [default: all]' -r -f -a "uffd\t'Userfaultfd'
mprotect\t'Mprotect and SIGSEGV'"
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l transport -d 'What carries the messages [default: all]' -r -f -a "unix\t'Unix sockets'
tcp\t'TCP over the loopback interface'"
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l manager -d 'Where directory entries live [default: all]' -r -f -a "first\t'Node 0 manages everything'
spread\t'Spread over the nodes'
allocator\t'The node that allocated'"
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l consistency -d 'What the memory promises. On release consistent memory each instruction runs in a critical section, and every outcome must be one of an interleaving' -r -f -a "sequential\t'The tests as they are'
eager-release\t'Each instruction in a critical section, on eagerly release consistent memory'
lazy-release\t'The same on lazily release consistent memory'
auto\t'The same on memory that adapts'"
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l seed -d 'Seed of resets, read copies, delays and disturbances' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l proof -d 'Writes the figures into this file, docs/PROOF.md of the source' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l within -d 'Begins nothing that is likely to end after so many seconds; 0 for no such limit [default: 55, and none if an option says how much is to be done]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l long -d 'Many rounds: minutes'
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l list -d 'Lists the tests and ends'
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -l json -d 'Prints the results on stdout as one JSON object, and nothing else there'
complete -c multigrain -n "__fish_multigrain_using_subcommand litmus" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -l apps -d 'Directory of the C applications, where `make apps` puts them [default: a built-in program]' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -l times -d 'Jobs to run, each with one fault [default: as many of 200 as end within a minute, and no silence, which takes half of one to be noticed]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -l seed -d 'Seed of the first time; the next ones count up' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -l only -d 'This fault only [default: all in turn]' -r -f -a "kill\t'SIGKILL of a node, of the launcher or of its watchdog'
stop\t'SIGSTOP of a node or of the launcher for 10 s, then SIGCONT'
cut\t'A connection loses one direction, or both (shutdown)'
silence\t'A connection loses all that comes in, as if the other host were gone (a socket filter)'
unauthenticated\t'Unauthenticated connections come to a node\'s listening socket and stay half open'
shm\t'/dev/shm is full'
file-size\t'A limit of file size, which holds for memory objects too (RLIMIT_FSIZE)'
address-space\t'A limit of address space: mappings end with ENOMEM (RLIMIT_AS)'
data\t'A limit of private memory: heaps and stacks end with ENOMEM (RLIMIT_DATA)'
descriptors\t'A limit of file descriptors (RLIMIT_NOFILE)'"
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -l app -d 'This application only, of those of --apps [default: all in turn]' -r -f -a "sor\t''
is\t''
water\t''
lu\t''
tsp\t''
jacobi\t''"
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -l proof -d 'Write the figures into this file, docs/PROOF.md of the source' -r -F
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -l within -d 'Begins nothing that is likely to end after so many seconds; 0 for no such limit [default: 55, and none if an option says how much is to be done]' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -l json -d 'Prints the results on stdout as one JSON object, and nothing else there'
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and not __fish_seen_subcommand_from churn" -f -a "churn" -d 'One node of the built-in program'
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and __fish_seen_subcommand_from churn" -l rounds -d 'How often each node counts in each cell' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand inject; and __fish_seen_subcommand_from churn" -s h -l help -d 'Print help'
complete -c multigrain -n "__fish_multigrain_using_subcommand races" -l nodes -d 'Nodes of a job; several with commas' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand races" -l consistency -d 'What the memory promises; several with commas [default: all that are checked]' -r -f -a "eager-release\t'A release updates or invalidates all copies before it ends'
lazy-release\t'An acquire learns what releases before it have written'
auto\t'Lazy, and adapted at barriers'"
complete -c multigrain -n "__fish_multigrain_using_subcommand races" -l list -d 'Lists the cases of a job of the most nodes asked for, and ends'
complete -c multigrain -n "__fish_multigrain_using_subcommand races" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l seed -d 'Seed of the first run; the next ones count up' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l runs -d 'Runs, one seed each' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l times -d 'How often each seed is run: threads race in another way each time' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l nodes -d 'Nodes, 2 to 12; beyond 8 barriers of all threads go by a tree' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l threads -d 'Threads of each node, 1 to 4; the program may start more' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l consistency -d 'What the memory promises' -r -f -a "sequential\t'All memory is sequentially consistent'
eager-release\t'All memory is eagerly release consistent'
lazy-release\t'All memory is lazily release consistent'
auto\t'All memory adapts'
mixed\t'Each allocation asks for one of the four, or for that of the job'"
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l guard -d 'How accesses are noticed' -r -f -a "uffd\t''
mprotect\t''"
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l transport -d 'What carries the messages' -r -f -a "unix\t''
tcp\t''"
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l wait -d 'How a thread waits for a reply' -r -f -a "spin\t''
yield\t''
block\t''
adaptive\t''"
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l tracking -d 'How a node finds what its threads write to lazily consistent pages' -r -f -a "faults\t''
scans\t''"
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l length -d 'Shorter programs: so many phrases of each, and what it takes to end them. To find what a failure needs' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l limit -d 'Seconds after which a job hangs' -r
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l sweeps -d 'Programs of sweeps alone: pairs of threads go over many pages, all at once, and half of them write'
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l keep-going -d 'Goes on after a run that failed'
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l show -d 'Prints the programs instead of running them'
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -l json -d 'Prints the summary as one line of JSON'
complete -c multigrain -n "__fish_multigrain_using_subcommand random" -s h -l help -d 'Print help (see more with \'--help\')'
