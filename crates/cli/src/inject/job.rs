//! One job under `multigrain run`, watched from outside.

use super::apply::apply;
use super::apps::Program;
use super::fault::{Fault, FaultKind, Limit, Target};
use super::outcome::{Outcome, Struck, judge};
use super::plan::Plan;
use super::running::{POLL_INTERVAL, Running};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// Runs a plan; the outcome is a violation if a promise is broken.
pub(super) fn run(plan: &Plan, program: &Program, usual: Duration) -> Result<Outcome> {
    let mut job = Running::start(command(plan, program)?)?;
    let struck = match inject_at(&mut job, &plan.fault, plan.moment(usual)) {
        Ok(struck) => struck,
        Err(error) => return Ok(Outcome::NotHere { why: error.to_string() }),
    };
    let seen = job.watch(struck)?;
    if let Some((_, why)) = seen.err.iter().find(|(_, line)| is_of_the_wrapper(line)) {
        return Ok(Outcome::NotHere { why: why.clone() });
    }
    Ok(judge(&seen, Some(&plan.fault)))
}

/// Runs a program on 3 nodes without a fault; how long it takes.
pub(super) fn undisturbed(program: &Program) -> Result<(Outcome, Duration)> {
    let mut words = launcher(3, 1, "auto", "unix")?;
    words.extend(program.command.iter().cloned());
    let mut job = Running::start(words)?;
    let seen = job.watch(Struck::Never)?;
    Ok((judge(&seen, None), seen.at))
}

/// The tools that prepare a fault and may not be allowed to.
fn is_of_the_wrapper(line: &str) -> bool {
    ["unshare: ", "mount: "].iter().any(|tool| line.starts_with(tool))
}

fn launcher(nodes: u32, threads: u32, guard: &str, transport: &str) -> Result<Vec<OsString>> {
    let this = std::env::current_exe().context("the path of this program")?;
    let (nodes, threads) = (nodes.to_string(), threads.to_string());
    let options = ["-n", &nodes, "-t", &threads, "--guard", guard, "--transport", transport, "--"];
    let words = ["run"].into_iter().chain(options).map(OsString::from);
    Ok([this.into()].into_iter().chain(words).collect())
}

/// The command line of a plan, and in it the faults that are there from the start.
fn command(plan: &Plan, program: &Program) -> Result<Vec<OsString>> {
    let mut words = launcher(plan.nodes, plan.threads, plan.guard, plan.transport)?;
    let through_shell = |script: String| ["sh".into(), "-c".into(), script.into()];
    match plan.fault {
        Fault::Limit { kind, target: Target::Node(rank), limit: Limit::Start(value) } => {
            let limit = ulimit(kind, value);
            words.extend(through_shell(format!(
                "[ \"$MULTIGRAIN_RANK\" != {rank} ] || {limit}; exec \"$0\" \"$@\""
            )));
        }
        Fault::Limit { kind, limit: Limit::Start(value), .. } => {
            let script = format!("{}; exec \"$0\" \"$@\"", ulimit(kind, value));
            words.splice(0..0, through_shell(script));
        }
        Fault::Shm => {
            let script = "mount -t tmpfs -o size=4k none /dev/shm && \
                          head -c 4096 /dev/zero > /dev/shm/full && exec \"$0\" \"$@\"";
            let user: &[&str] = match rustix::process::geteuid().is_root() {
                true => &[],
                false => &["--user", "--map-root-user"],
            };
            let unshare = ["unshare", "--mount"].iter().chain(user).map(OsString::from);
            let prefix: Vec<_> = unshare.chain(through_shell(script.to_owned())).collect();
            words.splice(0..0, prefix);
        }
        Fault::Kill(_)
        | Fault::Stop(_)
        | Fault::Cut { .. }
        | Fault::Silence { .. }
        | Fault::Unauthenticated { .. }
        | Fault::Limit { .. } => {}
    }
    words.extend(program.command.iter().cloned());
    if matches!(plan.fault, Fault::Silence { .. }) {
        words.extend(program.much_longer().map(OsString::from));
    }
    Ok(words)
}

/// The shell's word for it, in the shell's units.
fn ulimit(kind: FaultKind, value: u64) -> String {
    match kind {
        FaultKind::FileSize => format!("ulimit -f {}", value / 512),
        FaultKind::AddressSpace => format!("ulimit -v {}", value / 1024),
        FaultKind::Data => format!("ulimit -d {}", value / 1024),
        FaultKind::Descriptors
        | FaultKind::Kill
        | FaultKind::Stop
        | FaultKind::Cut
        | FaultKind::Silence
        | FaultKind::Unauthenticated
        | FaultKind::Shm => format!("ulimit -n {value}"),
    }
}

/// Waits for the moment and for the victim; then it happens.
fn inject_at(job: &mut Running, fault: &Fault, moment: Duration) -> io::Result<Struck> {
    if !fault.has_a_moment() {
        return Ok(Struck::At(Duration::ZERO));
    }
    job.pass(moment.saturating_sub(job.age()))?;
    while !job.has_ended()? {
        match apply(fault, job) {
            Ok(true) => return Ok(Struck::At(job.age())),
            Ok(false) => job.pass(POLL_INTERVAL)?,
            // What was to be hit may have gone while it was looked for.
            Err(_) if job.has_ended()? => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Struck::Never)
}
