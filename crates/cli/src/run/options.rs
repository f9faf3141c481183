//! The options of `multigrain run`.

use super::hostfile::{HostList, Share, parse_list};
use super::slurm::Allocation;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use multigrain_memory::AccessPath;
use multigrain_runtime::Config;
use multigrain_transport::interfaces::{InterfaceFilter, parse_filter};
use multigrain_transport::{Emulation, Ports, Transport};
use multigrain_types::limits::{MAX_NODES, MAX_THREADS};
use std::ffi::OsString;
use std::fmt::{self, Display};
use std::path::PathBuf;
use std::time::Duration;

/// Starts a program as the nodes of one job, on this host or on many.
///
/// Every node gets the same arguments. Their output comes back line by line, the exit code is that
/// of the first node that failed, and no process of the job outlives it. Programs that know nothing
/// of Multigrain may be run as well.
///
/// In an allocation of Slurm (`salloc`, `sbatch`), where neither `--hosts` nor `--hostfile` is given, the job
/// runs on the hosts of the allocation, with a slot for each task, and `srun` leads to them.
///
/// Processes that nodes fork end with the job, also if the launcher is killed. Only what runs in another
/// session without the job's environment stays then, unless this user may make control groups; and so does
/// all that nodes have forked if the launcher and its watchdog (mg-watchdog) are killed at the same moment. Where
/// /proc is not mounted, whatever runs in another session stays, as the launcher says.
///
/// SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are handed on to every node. Nodes that SIGTERM has not ended after 5 seconds (--kill-after) are
/// killed, and so are all at a second Ctrl-C.
///
/// What a failed job has printed and its reader does not take for 2 seconds is lost, which a line says beside that of the
/// job's end. A line of a node that is longer than 1 MiB comes in several.
///
/// A job in which nothing can go on, because all threads wait for each other or some hold locks in a
/// cycle, ends with one line that says who waits where, and with exit code 35.
#[derive(Debug, Args)]
#[command(after_help = "Example: multigrain run -n 4 -t 2 -- ./app --size 1000")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) place: PlaceArgs,

    #[command(flatten)]
    pub(super) node: NodeArgs,

    #[command(flatten)]
    pub(super) links: LinkArgs,

    #[command(flatten)]
    pub(super) limits: LimitArgs,

    /// Sets a variable for every node; without a value it passes the variable on, as happens to the
    /// whole environment on this host, and to what begins with MULTIGRAIN_ on others. May be repeated.
    #[arg(short = 'x', long = "env", value_name = "VAR[=VALUE]", value_parser = parse_variable)]
    pub(super) env: Vec<Variable>,

    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Shares the System V objects of programs that know nothing of Multigrain and are not linked with it: shared
    /// memory, semaphores and message queues (shmget, semop, msgsnd and what goes with them) are the job's, on all its
    /// nodes, and none of the host's; and so are POSIX names, those of shm_open and sem_open. Each node starts the
    /// program once; its children count as well. Needs root, or CAP_SYS_PTRACE.
    #[arg(long)]
    pub(super) sysv: bool,

    #[command(flatten)]
    pub(super) segments: SegmentArgs,

    /// The program, by path or by name in PATH, and its arguments. Others follow, each behind `: -n N`: they are nodes
    /// of the same job, on this host. A `:` of its own is never an argument. Node 0 reads the command's stdin, the others an empty one.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", num_args = 1..)]
    pub(super) command: Vec<OsString>,
}

// What nodes are told by variables.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    /// How accesses are noticed [default: auto].
    #[arg(long, value_enum)]
    pub(super) guard: Option<Guard>,

    /// By which path a page is updated while the program's threads are kept from it: what its memory is mapped twice
    /// from [default: memfd].
    #[arg(long, value_parser = access_paths())]
    pub(super) path: Option<AccessPath>,

    /// How a node finds what its threads write to lazily consistent pages whose home it is, where other
    /// nodes have copies [default: faults].
    #[arg(long, value_enum)]
    pub(super) tracking: Option<Tracking>,

    /// How a thread waits for a reply [default: adaptive].
    #[arg(long, value_enum)]
    pub(super) wait: Option<WaitMode>,

    /// Which thread of a node serves what arrives: MIRAGE+'s server process, or what is nearest to its interrupt level
    /// [default: helping].
    #[arg(long, value_enum)]
    pub(super) service: Option<Service>,

    /// Where directory entries live [default: auto]
    #[arg(long, value_enum)]
    pub(super) manager: Option<Manager>,

    /// Whether a node fetches ahead: what comes next in an array that a thread goes through and the neighbours of
    /// what it reads, write access for what it reads and then writes, and at barriers what it has fetched between them,
    /// or needed again after them, again and again [default: on].
    #[arg(long, value_enum)]
    pub(super) learn: Option<Learn>,

    /// What the program may rely on where an allocation does not say it: on release-consistent
    /// memory, writes are seen by other nodes only after a lock, barrier, semaphore, thread start
    /// or join has ordered them, and there must be no data races [default: sequential].
    #[arg(long, value_enum)]
    pub(super) consistency: Option<Consistency>,

    /// Reports bytes of release-consistent memory that two nodes write without synchronization, with their
    /// address and their allocation; the exit code is then 66, unless the program itself fails. A write that does not change a
    /// byte is not seen. Costs time. Without =WHICH the first of each allocation is a line, and at the end
    /// how many more there were of it. Where there were none, a line at the end says so, and what was not checked: reads,
    /// threads of one node, sequentially consistent memory.
    #[arg(long, value_name = "WHICH", value_enum, num_args = 0..=1, require_equals = true,
          default_missing_value = "first")]
    pub(super) check_races: Option<Races>,

    /// Chunking level: how many neighbouring elements share a minipage, up to 65536; 1 is off. Of sequentially consistent
    /// memory alone.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(1..=i64::from(Config::LARGEST_CHUNK)))]
    pub(super) chunk: Option<u32>,
}

// How nodes reach each other.
#[derive(Debug, Args)]
pub(super) struct LinkArgs {
    /// What carries the messages between the nodes [default: auto].
    #[arg(long, value_parser = transports())]
    pub(super) transport: Option<Transport>,

    /// Whether nodes that TCP links encrypt what they say (TLS 1.3). Between hosts they prove their ranks with
    /// certificates of the job in any case. Unix sockets do not leave their host [default: auto].
    #[arg(long, value_enum)]
    pub(super) encrypt: Option<Encrypt>,

    /// Gives every link the latency of another network, one way, and its bandwidth in bits a second: `50us`, `10G` or
    /// `50us,10G`. Up to 100ms, and from 1M to 1000G.
    #[arg(long, value_name = "LATENCY,BANDWIDTH", allow_hyphen_values = true)]
    pub(super) emulate: Option<Emulation>,

    /// Sends contents of minipages that are longer than a part in parts of so many bytes, from 64 to 1048576, each acknowledged
    /// before the next is sent: the handshake that MIRAGE+ measures blasting against. Without =BYTES they have 1024, as there. It is
    /// for measurements, and slower: otherwise, and with =off, contents travel as one stream.
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "1024",
          value_parser = parse_part)]
    pub(super) handshake: Option<Handshake>,
}

/// `--handshake`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    Off,
    /// Bytes of a part.
    Parts(usize),
}

impl Display for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Parts(bytes) => bytes.fmt(f),
        }
    }
}

/// The bytes of a part.
fn parse_part(text: &str) -> Result<Handshake, String> {
    if text == "off" {
        return Ok(Handshake::Off);
    }
    let bytes = multigrain_types::parse_size(text).and_then(|bytes| bytes.try_into().ok());
    let (least, most) = (Config::PARTS.start(), Config::PARTS.end());
    let wrong = || format!("a part has from {least} to {most} bytes, such as 1024 or 4K");
    bytes.filter(|bytes| Config::PARTS.contains(bytes)).map(Handshake::Parts).ok_or_else(wrong)
}

// How System V segments are shared.
#[derive(Debug, Args)]
pub(super) struct SegmentArgs {
    /// With --sysv: how long a node keeps a page of a segment that it was granted, such as `500us` or `5ms` [default: as
    /// long as contention suggests].
    #[arg(long, value_name = "TIME", value_parser = parse_window, requires = "sysv")]
    segment_window: Option<Duration>,

    /// With --sysv: how pages of segments are compressed on their way to another node, where that pays [default: none].
    #[arg(long, value_enum, requires = "sysv")]
    segment_compression: Option<SegmentCompression>,
}

impl SegmentArgs {
    /// The same for `multigrain site`.
    pub(super) fn of_site(&self) -> Vec<OsString> {
        let window = self.segment_window.map(|window| format!("--window={}", window.as_micros()));
        let compression = self.segment_compression.and_then(|of| of.to_possible_value());
        let compression = compression.map(|of| format!("--compression={}", of.get_name()));
        window.into_iter().chain(compression).map(OsString::from).collect()
    }
}

/// `--segment-compression`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SegmentCompression {
    /// As they are.
    None,
    /// Runs of a repeated word of 8 bytes.
    Rle,
    /// LZ4 blocks.
    Lz4,
    /// Zstandard of level 1.
    Zstd,
}

/// A time in milliseconds or microseconds, with its unit.
fn parse_window(text: &str) -> Result<Duration, String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().ok().filter(|&number: &u64| number > 0);
    let window = match (number, unit) {
        (Some(number), "us") => Some(Duration::from_micros(number)),
        (Some(number), "ms") => Some(Duration::from_millis(number)),
        _ => None,
    };
    window
        .filter(|window| *window <= Duration::from_secs(10))
        .ok_or_else(|| "a time such as 500us or 5ms, up to 10000ms".to_owned())
}

// How long a job may take.
#[derive(Debug, Args)]
pub(super) struct LimitArgs {
    /// Ends the job after this many seconds, with exit code 124 (66 if --check-races has reported races). Output that its
    /// reader does not take within a second after that is lost.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(super) timeout: Option<Duration>,

    /// How long nodes may take to end after SIGTERM before they are killed, in seconds [default: 5 after a
    /// SIGTERM that is handed on, 0.5 where the launcher ends the job].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(super) kill_after: Option<Duration>,
}

// What comes out of a job.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Puts the node's rank before each line of output, as `[rank] ` [default: when N > 1].
    #[arg(long, overrides_with = "no_tag_output")]
    tag_output: bool,

    /// Leaves the lines as the nodes wrote them.
    #[arg(long, overrides_with = "tag_output")]
    no_tag_output: bool,

    /// Prints time and counters on stderr at the end [default: when stderr is a terminal]. Asked for, it
    /// also names an allocation whose pages go to and fro because nodes use different parts of them, from 500 such faults on that are a quarter of its
    /// faults; what is fetched ahead (`--learn on`) is no fault and not counted there, but under release consistency, where pages
    /// fetched again are counted. `mg_get_stats(3)` says
    /// what each counter counts. Faults "answered locally" found the minipage here; "views at most" is how many
    /// minipages share one page, in as many views.
    #[arg(long, overrides_with = "no_summary")]
    summary: bool,

    /// Prints no summary.
    #[arg(long, overrides_with = "summary")]
    no_summary: bool,

    /// Writes the counters of every node to this file, as JSON. Nodes send them in mg_finalize: of one that
    /// ended before, or whose job did, the file says so.
    #[arg(long, value_name = "FILE")]
    pub(super) stats: Option<PathBuf>,
}

/// How large a job is, and where it runs: also what `multigrain doctor` looks at.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Processes to start, 1 to 1024 [default: 1, or one in each slot of the hosts].
    #[arg(short = 'n', long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_NODES)))]
    nodes: Option<u32>,

    /// Hosts to run on, with the nodes each has room for: `a:2,b:2`, or `[fd77::2]:2` for an IPv6 address; one where no
    /// number is given. Ranks fill the first host, then the next.
    #[arg(long, value_name = "HOST[:SLOTS],...", value_parser = parse_list, conflicts_with = "hostfile")]
    hosts: Option<HostList>,

    /// The same from a file: a host a line, with `slots=N` behind it; `#` begins a comment.
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,

    /// Threads each node is meant to run, up to 4096: what `mg_threads()` says [default: 1].
    #[arg(short = 't', long, value_name = "T",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub(super) threads: Option<u32>,

    /// The command that runs another on a host, if not `ssh`: `ssh -F FILE`, for one. Quotes and backslashes keep
    /// words together as in a shell, which is not asked: nothing else of it is understood. It gets the host's
    /// name and one word for the host's shell, and has to pass stdin and stdout on.
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    pub(super) launcher_command: Option<String>,

    /// Where nodes of several hosts meet: an interface such as eth0, or a network such as 10.1.0.0/16
    /// [default: a network that all hosts are in].
    #[arg(long, value_name = "NAME|NETWORK", value_parser = parse_filter)]
    pub(super) interface: Option<InterfaceFilter>,

    /// The ports of TCP that nodes listen at, one each, as a firewall between hosts lets them through; on this host
    /// alone with `multigrain run --transport tcp` [default: any that is free].
    #[arg(long, value_name = "FIRST-LAST", allow_hyphen_values = true)]
    pub(super) ports: Option<Ports>,

    /// Size of the shared address space: bytes, or with a suffix K, M, G or T (powers of 1024); up to
    /// almost 16T [default: 64G].
    #[arg(long, value_name = "SIZE", value_parser = Config::parse_shared_size)]
    pub(super) shared: Option<u64>,

    /// How long nodes wait for each other at the start, in seconds [default: 30, and more for many
    /// nodes: 292 for 1024].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(super) boot_timeout: Option<Duration>,
}

impl PlaceArgs {
    /// The hosts of Slurm's allocation that this process runs in, if the user names no others.
    ///
    /// # Errors
    /// What Slurm says makes no sense, in words.
    pub(super) fn allocation(&self) -> Result<Option<Allocation>, String> {
        match self.hosts.is_some() || self.hostfile.is_some() {
            true => Ok(None),
            false => Allocation::of_environment(),
        }
    }

    /// Which nodes run where, if hosts are named or allocated.
    ///
    /// # Errors
    /// What is wrong with the hosts, in words.
    pub(super) fn shares(
        &self,
        allocation: Option<&Allocation>,
        timeout: Option<Duration>,
    ) -> Result<Option<Vec<Share>>, String> {
        if let Some(allocation) = allocation {
            let placed = allocation.hosts()?.place(self.nodes, MAX_NODES);
            return placed.map(Some).map_err(|why| allocation.explain(&why));
        }
        let read = self.hostfile.as_deref().map(|file| HostList::of_file(file, timeout));
        let read = read.transpose()?;
        let hosts = self.hosts.as_ref().or(read.as_ref());
        hosts.map(|hosts| hosts.place(self.nodes, MAX_NODES)).transpose()
    }

    /// Whether the job is on this host alone: none is named, nor allocated.
    pub(super) fn is_here(&self) -> bool {
        self.hosts.is_none() && self.hostfile.is_none() && !matches!(self.allocation(), Ok(Some(_)))
    }

    /// Options that say nothing of a job on this host alone. `listens`: its nodes listen at ports of TCP.
    ///
    /// # Errors
    /// The one that is given nevertheless, in words.
    pub(super) fn refuse_idle(&self, listens: bool) -> Result<(), String> {
        let alone = "this job has this host alone: leave it out, or name --hosts";
        let why = if self.interface.is_some() {
            format!("--interface says where hosts meet, and {alone}")
        } else if self.launcher_command.is_some() {
            format!("--launcher-command leads to other hosts, and {alone}")
        } else if self.ports.is_some() && !listens {
            "--ports is for TCP, and nodes of this host alone talk over Unix sockets: leave it out, or name --hosts (or \
             --transport tcp)"
                .to_owned()
        } else {
            return Ok(());
        };
        if self.is_here() { Err(why) } else { Ok(()) }
    }

    /// Nodes of a job on this host alone.
    pub(super) fn nodes_here(&self) -> u32 {
        self.nodes.unwrap_or(1)
    }
}

impl RunArgs {
    /// Whether nodes that TCP links encrypt what they say; `None`: nor do they prove their ranks. `hosts`: the
    /// job runs on other hosts, too.
    pub(super) fn encrypts(&self, hosts: bool) -> Option<bool> {
        match self.links.encrypt {
            Some(Encrypt::On) => Some(true),
            Some(Encrypt::Off) => hosts.then_some(false),
            Some(Encrypt::Auto) | None => hosts.then_some(true),
        }
    }

    /// Whether output lines carry the rank in a job of so many nodes.
    pub(super) fn tagged(&self, nodes: u32) -> bool {
        self.output.tag_output || (nodes > 1 && !self.output.no_tag_output)
    }

    /// Whether nodes count which minipages go to and fro for nothing: it costs, so only on request.
    pub(super) fn names_sharing(&self) -> bool {
        self.output.summary
    }

    /// The option whose value stands in the program's place: its value follows `=`, and there was a space.
    pub(super) fn value_in_place_of_program(&self) -> Option<String> {
        let word = self.command.first()?.to_str()?;
        let is_value = self.node.check_races.is_some() && Races::from_str(word, false).is_ok();
        is_value.then(|| format!("--check-races={word}"))
    }

    /// Whether the summary is printed.
    pub(super) fn summarized(&self, stderr_is_terminal: bool) -> bool {
        self.output.summary || (stderr_is_terminal && !self.output.no_summary)
    }
}

/// `--guard`; the names are those of MULTIGRAIN_GUARD.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Guard {
    /// Userfaultfd where the system allows it, else mprotect.
    Auto,
    /// Userfaultfd.
    Uffd,
    /// Mprotect and SIGSEGV.
    Mprotect,
}

/// `--tracking`; the names are those of MULTIGRAIN_TRACKING.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Tracking {
    /// The first write since a release traps.
    Faults,
    /// No write traps: the kernel opens the page, and a release asks it which it has opened (Linux 6.7;
    /// with the guard mprotect).
    Scans,
}

/// `--path`: what the memory knows, by their names, which are those of MULTIGRAIN_PATH.
fn access_paths() -> impl TypedValueParser<Value = AccessPath> {
    let known = AccessPath::ALL.map(|one| PossibleValue::new(one.name()).help(one.help()));
    PossibleValuesParser::new(known).try_map(|name| name.parse::<AccessPath>())
}

/// `--transport`: what the transport knows, by their names.
fn transports() -> impl TypedValueParser<Value = Transport> {
    let known = Transport::all().map(|one| PossibleValue::new(one.name()).help(one.help()));
    PossibleValuesParser::new(known).try_map(|name| name.parse::<Transport>())
}

impl LinkArgs {
    /// What carries the messages.
    pub(super) fn transport(&self) -> Transport {
        self.transport.unwrap_or_default()
    }
}

/// `--encrypt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encrypt {
    /// Between hosts, and not within one.
    Auto,
    /// Wherever it is TCP.
    On,
    /// Nowhere, for closed networks.
    Off,
}

/// `--wait`; the names are those of MULTIGRAIN_WAIT.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WaitMode {
    /// Busy: fastest, one core per waiting thread.
    Spin,
    /// Busy, but gives the core up between looks.
    Yield,
    /// Sleeps in the kernel.
    Block,
    /// Spins for a while, then sleeps.
    Adaptive,
}

/// `--service`; the names are those of MULTIGRAIN_SERVICE.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Service {
    /// A thread of its own, asleep until something arrives.
    Blocked,
    /// A thread of its own that looks all the time; needs a core.
    Polling,
    /// The threads that wait, and a thread of its own, asleep, while none does.
    Helping,
}

/// `--learn`; the names are those of MULTIGRAIN_LEARN.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Learn {
    /// Learns and fetches ahead.
    On,
    /// Fetches at faults only.
    Off,
}

/// `--consistency`; the names are those of MULTIGRAIN_CONSISTENCY.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Consistency {
    /// Every access in one order all nodes agree on.
    Sequential,
    /// A release updates or invalidates all copies before it ends.
    EagerRelease,
    /// An acquire learns what releases before it have written.
    LazyRelease,
    /// Lazy, and adapted at barriers by what is counted.
    Auto,
}

/// `--check-races`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Races {
    /// The first of each allocation is a line, and the others are counted.
    First,
    /// Each is a line.
    All,
}

/// `--manager`; the names are those of MULTIGRAIN_MANAGER.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Manager {
    /// `allocator` in a job of at most 8 nodes, `block` in a larger one.
    Auto,
    /// Node 0 manages everything.
    First,
    /// Neighbours on one node after the other.
    Spread,
    /// On each node a block of neighbours.
    Block,
    /// The node that allocated.
    Allocator,
}

/// The name a value has on the command line and in the environment.
pub(super) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
}

/// One `-x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Its name.
    pub(super) name: String,
    /// Its value; none means that of the launcher's own environment.
    pub(super) value: Option<String>,
}

pub(super) fn parse_variable(text: &str) -> Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err("give a name: VAR or VAR=VALUE".to_owned());
    }
    Ok(Variable { name: name.to_owned(), value })
}

fn parse_command(text: &str) -> Result<String, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(text.to_owned()),
        Some(_) => Err("give a command, such as 'ssh -F FILE'".to_owned()),
        None => Err("a quote is not closed, or nothing follows a backslash".to_owned()),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "give a number of seconds above 0, such as 90 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if !limit.is_zero() => Ok(limit),
        // Its clock would overflow.
        Err(_) if seconds > 0.0 => {
            Err("more than any clock counts: leave it out for no limit".to_owned())
        }
        Ok(_) | Err(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_consistencies_are_those_of_the_runtime() {
        let ours = Consistency::value_variants().iter().map(name_of);
        assert!(ours.eq(multigrain_types::Consistency::ALL.map(|known| known.name().to_owned())));
    }

    #[test]
    fn the_service_levels_are_those_of_the_runtime() {
        let ours = Service::value_variants().iter().map(name_of);
        let theirs = multigrain_runtime::ServiceLevel::ALL;
        assert!(ours.eq(theirs.map(|level| level.name().to_owned())));
    }

    #[test]
    fn a_part_has_a_length_within_limits() {
        let parts = |bytes| Ok(Handshake::Parts(bytes));
        assert_eq!((parse_part("64"), parse_part("4K")), (parts(64), parts(4096)));
        assert_eq!(parse_part("off"), Ok(Handshake::Off));
        for wrong in ["0", "63", "2M", "-1", "many", ""] {
            let said = parse_part(wrong).unwrap_err();
            assert_eq!(said, "a part has from 64 to 1048576 bytes, such as 1024 or 4K", "{wrong}");
        }
    }

    #[test]
    fn a_command_has_words_and_closes_its_quotes() {
        assert!(parse_command("ssh -F 'my file'").is_ok());
        for (wrong, why) in [(" ", "give a command"), ("ssh -F 'my", "a quote is not closed")] {
            assert!(parse_command(wrong).unwrap_err().starts_with(why), "{wrong}");
        }
    }

    #[test]
    fn a_time_out_is_a_positive_number() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "x", ""] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_variable_may_hold_equal_signs() {
        let variable = parse_variable("A=b=c").unwrap();
        assert_eq!(variable, Variable { name: "A".into(), value: Some("b=c".into()) });
        assert_eq!(parse_variable("A").unwrap().value, None);
        assert!(parse_variable("=x").is_err());
    }
}
