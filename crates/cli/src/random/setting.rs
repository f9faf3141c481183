//! The setting of a run: everything is drawn from its seed, and options replace what was drawn.

use super::JobArgs;
use clap::ValueEnum;
use core::fmt;
use multigrain_types::Consistency;
use multigrain_verify::sim::rng::Rng;

/// `--consistency`: what the job's memory promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// All memory is sequentially consistent.
    Sequential,
    /// All memory is eagerly release consistent.
    EagerRelease,
    /// All memory is lazily release consistent.
    LazyRelease,
    /// All memory adapts.
    Auto,
    /// Each allocation asks for one of the four, or for that of the job.
    Mixed,
}

impl Mode {
    /// The consistency of all memory, if it is one.
    fn only(self) -> Option<Consistency> {
        match self {
            Self::Sequential => Some(Consistency::Sequential),
            Self::EagerRelease => Some(Consistency::EagerRelease),
            Self::LazyRelease => Some(Consistency::LazyRelease),
            Self::Auto => Some(Consistency::Auto),
            Self::Mixed => None,
        }
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) seed: u64,
    pub(super) nodes: u16,
    /// Initial threads of a node.
    pub(super) threads: u16,
    pub(super) mode: Mode,
    /// Nothing but sweeps.
    pub(super) sweeps: bool,
    launch: Launch,
}

/// What else `multigrain run` is given.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Launch {
    consistency: Consistency,
    guard: String,
    transport: String,
    wait: String,
    tracking: String,
    manager: &'static str,
    learn: &'static str,
    chunk: &'static str,
}

impl Setting {
    /// The run of a seed.
    pub(super) fn drawn(args: &JobArgs, seed: u64) -> Self {
        let rng = &mut Rng::of(seed, 1);
        // All is drawn, whatever was given: the rest must not depend on it.
        let nodes = rng.pick(&[2, 2, 2, 3, 3, 4, 4, 5, 6, 8, 10]);
        let threads = rng.pick(&[1, 1, 1, 2, 2, 3, 4]);
        let (modes, turn) = (Mode::value_variants(), seed % Mode::value_variants().len() as u64);
        let mode = modes[usize::try_from(turn).unwrap_or(0)];
        let of_job = rng.pick(&Consistency::ALL);
        let guard = rng.pick(&["uffd", "mprotect"]);
        let transport = rng.pick(&["unix", "unix", "tcp"]);
        let wait = rng.pick(&["adaptive", "adaptive", "block", "yield", "spin"]);
        let tracking = rng.pick(&["faults", "faults", "scans"]);
        let given =
            |given: &Option<String>, drawn: &str| given.clone().unwrap_or_else(|| drawn.to_owned());
        // Scans are refused under userfaultfd: what was drawn gives way to what was given.
        let scans = args.tracking.as_deref() == Some("scans");
        let guard = given(&args.guard, if scans { "mprotect" } else { guard });
        // So many threads that spin keep each other from running.
        let wait = if wait == "spin" && nodes * threads > 4 { "yield" } else { wait };
        let tracking = if guard == "uffd" { "faults" } else { tracking };
        let mode = args.consistency.unwrap_or(mode);
        Self {
            seed,
            nodes: args.nodes.unwrap_or(nodes),
            threads: args.threads.unwrap_or(threads),
            mode,
            sweeps: args.sweeps,
            launch: Launch {
                consistency: mode.only().unwrap_or(of_job),
                guard,
                transport: given(&args.transport, transport),
                wait: given(&args.wait, wait),
                tracking: given(&args.tracking, tracking),
                manager: rng.pick(&["allocator", "spread", "block", "first"]),
                learn: rng.pick(&["on", "on", "off"]),
                chunk: rng.pick(&["1", "1", "4"]),
            },
        }
    }

    /// The run of a seed without any options.
    #[cfg(test)]
    pub(super) fn of_seed(seed: u64) -> Self {
        Self::drawn(&JobArgs::default(), seed)
    }

    /// The options for the launcher.
    pub(super) fn of_launcher(&self) -> Vec<String> {
        let (number, launch) = (u16::to_string, &self.launch);
        [
            ("nodes", number(&self.nodes)),
            ("threads", number(&self.threads)),
            ("consistency", launch.consistency.name().to_owned()),
            ("guard", launch.guard.clone()),
            ("transport", launch.transport.clone()),
            ("wait", launch.wait.clone()),
            ("tracking", launch.tracking.clone()),
            ("manager", launch.manager.to_owned()),
            ("learn", launch.learn.to_owned()),
            ("chunk", launch.chunk.to_owned()),
        ]
        .map(|(name, value)| format!("--{name}={value}"))
        .into()
    }

    /// The options that make a node generate the same program.
    pub(super) fn of_node(&self) -> Vec<String> {
        let Self { seed, nodes, threads, sweeps, .. } = self;
        let mode = name_of(&self.mode);
        [
            ("seed", seed.to_string()),
            ("nodes", nodes.to_string()),
            ("threads", threads.to_string()),
            ("consistency", mode),
        ]
        .map(|(name, value)| format!("--{name}={value}"))
        .into_iter()
        .chain(sweeps.then(|| "--sweeps".to_owned()))
        .collect()
    }
}

/// The options that repeat the run.
impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, nodes, threads, launch, sweeps, .. } = self;
        let Launch { guard, transport, wait, tracking, .. } = launch;
        write!(out, "--seed {seed} --nodes {nodes} --threads {threads}")?;
        write!(out, " --consistency {} --guard {guard}", name_of(&self.mode))?;
        write!(out, " --transport {transport} --wait {wait} --tracking {tracking}")?;
        if *sweeps { out.write_str(" --sweeps") } else { Ok(()) }
    }
}

fn name_of(mode: &Mode) -> String {
    mode.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
