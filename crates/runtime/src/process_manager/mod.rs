//! Nodes started by a process manager (`mpiexec`, `mpirun`, `srun`), without `multigrain run`.
//!
//! Role: finds out which process manager it was, learns rank and size from it, and exchanges through its key-value
//! space what the nodes need to connect: addresses, and the job's id and secret, which rank 0 makes (ADR 37).
//! After that it tells the process manager that this node is done with it: how a job ends is seen on the links.
//!
//! | file | part |
//! |---|---|
//! | `pmi` | the PMI-1 wire protocol: MPICH's Hydra, `srun --mpi=pmi2` |
//! | `pmix` | PMIx by its library: Open MPI, `srun --mpi=pmix` |
//! | `exchange` | what the nodes tell each other |
//! | `address_randomization` | turns address randomization off before `main` |

#![expect(unsafe_code, reason = "the environment is changed in place")]

#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
mod address_randomization;
mod exchange;
mod pmi;
mod pmix;

use std::ffi::OsString;
use std::time::Duration;

use crate::config::{Config, Variables};
use crate::error::Error;
use multigrain_types::NodeId;
use pmi::Pmi;
use pmix::Pmix;

/// A process manager: a rank, a size, and a space of keys and values that all processes of the job share.
/// An error is a line for the user.
trait ProcessManager {
    fn rank(&self) -> u32;

    fn nodes(&self) -> u32;

    /// Sets a value of this process, for all to see after the next [`ProcessManager::fence`]: text without blanks.
    fn put(&mut self, key: &str, value: &str) -> Result<(), String>;

    /// Waits for all processes of the job.
    fn fence(&mut self) -> Result<(), String>;

    /// The value that a process has set.
    fn get(&mut self, rank: u32, key: &str) -> Result<String, String>;

    /// This process needs it no more.
    fn finalize(self: Box<Self>) -> Result<(), String>;
}

/// By which a process manager tells a process that it has started it.
const OF_THIS_PROCESS: [&str; 6] =
    ["PMI_FD", "PMI_ID", "PMI_PORT", "PMI_RANK", "PMI_SIZE", "PMIX_RANK"];

/// What an environment says of process managers.
type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Makes this process a node of the job that a process manager has started, if one has.
///
/// # Errors
/// [`Error::Invalid`] for an environment that makes no sense, or nodes that do not fit together;
/// [`Error::System`] if the process manager fails.
pub(crate) fn join(config: Config, environment: Environment<'_>) -> Result<Config, Error> {
    // `multigrain run` may run in a job of a process manager.
    if !config.launch.peers.is_empty() || environment("MULTIGRAIN_RANK").is_some() {
        return Ok(config);
    }
    let Some(mut manager) = found(&config, environment)? else { return Ok(config) };
    if manager.nodes() == 1 {
        manager.finalize().map_err(Error::System)?;
        leave_environment(None);
        return Ok(config);
    }
    match exchange::meet(&config, &Variables::new(environment), &mut *manager) {
        Ok(config) => {
            manager.finalize().map_err(Error::System)?;
            leave_environment(Some(config.rank));
            Ok(config)
        }
        Err(error) => {
            // It may end a process that hangs up, and the program is about to say why it fails.
            core::mem::forget(manager);
            Err(error)
        }
    }
}

/// What this process was to the process manager, no program is that it starts: such a one would speak over a
/// descriptor that is another one now. It finds itself started by a node, as under `multigrain run`. From the
/// thread that joins, before the runtime has threads of its own.
fn leave_environment(rank: Option<NodeId>) {
    for name in OF_THIS_PROCESS {
        // SAFETY: whoever joins changes the environment in no other thread.
        unsafe { std::env::remove_var(name) };
    }
    if let Some(rank) = rank {
        // SAFETY: as above.
        unsafe { std::env::set_var("MULTIGRAIN_RANK", rank.0.to_string()) };
    }
}

/// The process manager that has started this process.
fn found(
    config: &Config,
    environment: Environment<'_>,
) -> Result<Option<Box<dyn ProcessManager>>, Error> {
    let is_set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
    let timeout =
        |nodes: u32| config.launch.boot_deadline(usize::try_from(nodes).unwrap_or(usize::MAX));
    // Each of them may have started the other, which leaves its variables; a socket is not left.
    let pmi_first = !is_set("PMIX_RANK") || pmi::has_socket(environment);
    if pmi_first && ["PMI_FD", "PMI_PORT", "PMI_RANK", "PMI_SIZE"].into_iter().any(is_set) {
        let pmi = Pmi::new(environment, &timeout)?;
        return Ok(Some(Box::new(pmi)));
    }
    if is_set("PMIX_RANK") {
        let pmix = Pmix::new(timeout(1)).map_err(Error::System)?;
        return Ok(Some(Box::new(pmix)));
    }
    let tasks = environment("SLURM_STEP_NUM_TASKS").and_then(|text| text.into_string().ok());
    let tasks = tasks.and_then(|text| text.parse::<u32>().ok());
    match tasks.filter(|&tasks| tasks > 1 && is_set("SLURM_PROCID")) {
        None => Ok(None),
        Some(tasks) => Err(Error::Invalid(format!(
            "srun has started {tasks} tasks that cannot find each other: use srun --mpi=pmi2 or --mpi=pmix, or \
             `multigrain run` without srun"
        ))),
    }
}

/// How a wait that took too long is told.
fn too_long(what: &str, timeout: Duration) -> String {
    format!(
        "{what} took longer than {} s (MULTIGRAIN_BOOT_SECONDS): did all processes of the job call mg_init?",
        timeout.as_secs_f64()
    )
}
