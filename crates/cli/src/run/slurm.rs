//! A Slurm allocation: its hosts and slots serve a job that names none, and `srun` starts the agents there.

use super::hostfile::{HostList, slots_of};
use std::env;
use std::process::{Command, Stdio};

/// What Slurm lets a job run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allocation {
    job: String,
    hosts: Vec<Host>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Host {
    name: String,
    tasks: u32,
    cpus: u32,
}

/// Variables by which an allocation or its user tells `srun` other than what an agent needs.
const IN_THE_WAY: [&str; 19] = [
    "SLURM_CPUS_PER_TASK",
    "SLURM_DISTRIBUTION",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
    "SLURM_HINT",
    "SLURM_LABELIO",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_STDERRMODE",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_TIMELIMIT",
    "SLURM_WCKEY",
];

/// A step of one task on one host, over whose standard streams an agent talks: bytes, at once. It waits for
/// nothing that other steps of the job have.
const SRUN: [&str; 9] = [
    "srun",
    "--nodes=1",
    "--ntasks=1",
    "--overlap",
    "--mem=0",
    "--mpi=none",
    "--unbuffered",
    "--quiet",
    "--export=ALL",
];

impl Allocation {
    /// The one that this process runs in. Not of a task that is one of several, nor of a node: each of these
    /// starts a job of its own where it is.
    ///
    /// # Errors
    /// What Slurm says makes no sense, in words.
    pub(super) fn of_environment() -> Result<Option<Self>, String> {
        let get = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let several = get("SLURM_STEP_NUM_TASKS").is_some_and(|tasks| tasks != "1");
        let Some((job, list)) = get("SLURM_JOB_ID").zip(get("SLURM_JOB_NODELIST")) else {
            return Ok(None);
        };
        if several || get("MULTIGRAIN_RANK").is_some() {
            return Ok(None);
        }
        let at = |why: String| format!("in the allocation of Slurm's job {job}: {why}");
        let names = names(&list).map_err(at)?;
        let counts = |name: &str| {
            let text = get(name).unwrap_or_else(|| format!("1(x{})", names.len()));
            let counts = counts(&text).filter(|counts| counts.len() == names.len());
            counts.ok_or_else(|| at(format!("{name} is {text}, for {} hosts", names.len())))
        };
        let (tasks, cpus) = (counts("SLURM_TASKS_PER_NODE")?, counts("SLURM_JOB_CPUS_PER_NODE")?);
        let hosts = names.into_iter().zip(tasks.into_iter().zip(cpus));
        let hosts = hosts.map(|(name, (tasks, cpus))| Host { name, tasks, cpus }).collect();
        Ok(Some(Self { job, hosts }))
    }

    /// Its hosts, with a slot for each task.
    ///
    /// # Errors
    /// A host has a strange name.
    pub(super) fn hosts(&self) -> Result<HostList, String> {
        slots_of(self.hosts.iter().map(|host| (host.name.as_str(), host.tasks)))
    }

    /// What is wrong with the number of nodes, and how to get more of them.
    pub(super) fn explain(&self, why: &str) -> String {
        let why = why.split(';').next().unwrap_or_default();
        format!(
            "in the allocation of Slurm's job {}, whose tasks are slots: {why}; allocate more (salloc -n) or start \
             fewer nodes",
            self.job
        )
    }

    /// The command that runs another, in words of a shell, on a host.
    pub(super) fn command(&self, host: &str, agent: &str) -> Vec<String> {
        let known = self.hosts.iter().find(|known| known.name == host);
        let unset = IN_THE_WAY.into_iter().flat_map(|name| ["-u", name]);
        let words = ["env"].into_iter().chain(unset).chain(SRUN).map(str::to_owned);
        let cpus = known.map(|host| format!("--cpus-per-task={}", host.cpus));
        let place = [format!("--jobid={}", self.job), format!("--nodelist={host}")];
        let agent = ["sh", "-c", agent].map(str::to_owned);
        words.chain(cpus).chain(place).chain(agent).collect()
    }
}

/// The hosts of a list such as `node[1-3,7]`, which Slurm's own command reads.
fn names(list: &str) -> Result<Vec<String>, String> {
    let mut scontrol = Command::new("scontrol");
    scontrol.args(["show", "hostnames", list]).stdin(Stdio::null());
    let output = scontrol.output().map_err(|error| {
        format!("scontrol cannot be run ({error}); put Slurm's commands into PATH, or name --hosts")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if !output.status.success() || names.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("scontrol show hostnames {list} names no host: {}", said.trim()));
    }
    Ok(names)
}

/// The numbers of a list such as `4(x2),1`: 4, 4, 1.
fn counts(text: &str) -> Option<Vec<u32>> {
    const MOST: usize = 1 << 16;
    let mut all = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let count: u32 = count.parse().ok().filter(|&count| count > 0)?;
        if times > MOST - all.len() {
            return None;
        }
        all.extend(std::iter::repeat_n(count, times));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_slurm_are_read_and_others_are_not() {
        assert_eq!(counts("4"), Some(vec![4]));
        assert_eq!(counts("4(x2),1"), Some(vec![4, 4, 1]));
        for wrong in ["", "x", "0", "4(x", "4(x2", "4(xy)", "-1", "4,,1", "1(x4000000000)"] {
            assert_eq!(counts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_agent_gets_one_step_of_all_processors_of_its_host() {
        let host = |name: &str, tasks, cpus| Host { name: name.to_owned(), tasks, cpus };
        let hosts = vec![host("n1", 2, 8), host("n2", 1, 4)];
        let allocation = Allocation { job: "7".to_owned(), hosts };
        let words = allocation.command("n2", "exec x agent").join(" ");
        let end = "--cpus-per-task=4 --jobid=7 --nodelist=n2 sh -c exec x agent";
        assert!(words.starts_with("env -u ") && words.ends_with(end), "{words}");
        let shares = allocation.hosts().unwrap().place(None, 1024).unwrap();
        let ranks: Vec<_> = shares.into_iter().map(|share| (share.host, share.ranks)).collect();
        assert_eq!(ranks, [("n1".to_owned(), 0..2), ("n2".to_owned(), 2..3)]);
    }
}
