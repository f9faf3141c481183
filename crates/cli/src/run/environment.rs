//! The environment variables that tell a node about its job: the contract with the runtime.

use super::elf;
use super::options::{self, RunArgs, Variable, name_of};
use super::races::Check;
use multigrain_runtime::Config;
use multigrain_transport::Authority;
use multigrain_types::NodeId;
use rustix::rand::{GetRandomFlags, getrandom};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::io;

/// A fresh random number of `BYTES` bytes, in hexadecimal.
pub(super) fn random_hex<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0_u8; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes.iter().fold(String::with_capacity(2 * BYTES), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// What the nodes of a job prove themselves with, by rank, if they are to. The authority that made it is
/// gone then: nobody can make more.
pub(super) fn credentials(
    encrypts: Option<bool>,
    job: &str,
    nodes: u32,
) -> io::Result<Vec<String>> {
    let Some(encrypts) = encrypts else { return Ok(Vec::new()) };
    let job = u128::from_str_radix(job, 16).map_err(io::Error::other)?;
    let authority = Authority::new(job).map_err(io::Error::other)?;
    let issue = |rank: u32| {
        let rank = u16::try_from(rank).map_err(io::Error::other)?;
        let own = authority.issue(NodeId(rank)).map_err(io::Error::other)?;
        Ok(if encrypts { own } else { own.in_clear() }.to_text())
    };
    (0..nodes).map(issue).collect()
}

/// What is the same for all nodes of a job on this host: what the user has chosen first, the contract after
/// it, so that the contract wins. `programs`: how many nodes run each.
pub(super) fn common(
    chosen: impl IntoIterator<Item = (String, String)>,
    nodes: u32,
    job: &str,
    peers: &[impl AsRef<str>],
    programs: &str,
) -> Vec<(String, String)> {
    let peers: Vec<&str> = peers.iter().map(AsRef::as_ref).collect();
    let contract = [
        ("MULTIGRAIN_NODES", nodes.to_string()),
        ("MULTIGRAIN_JOB", job.to_owned()),
        ("MULTIGRAIN_PEERS", peers.join(",")),
        ("MULTIGRAIN_PROGRAMS", programs.to_owned()),
    ];
    let contract = contract.map(|(name, value)| (name.to_owned(), value));
    chosen.into_iter().chain(contract).collect()
}

/// What the user has chosen, for nodes that do not inherit this environment: what of it is meant for them, and
/// what `-x` passes on.
pub(super) fn for_hosts(args: &RunArgs) -> Vec<(String, String)> {
    let own = env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("MULTIGRAIN_"))?;
        Some((name, value.into_string().ok()?))
    });
    let passed = args.env.iter().filter(|variable| variable.value.is_none());
    let passed = passed.filter_map(|one| Some((one.name.clone(), env::var(&one.name).ok()?)));
    own.chain(passed).chain(chosen(args)).collect()
}

/// What `-x` gives a program.
pub(super) fn passed(env: &[Variable]) -> Vec<(String, String)> {
    let value = |one: &Variable| one.value.clone().or_else(|| env::var(&one.name).ok());
    env.iter().filter_map(|one| Some((one.name.clone(), value(one)?))).collect()
}

/// What to do where the loader on another host lacks a library.
pub(super) fn load_advice(env: &[Variable]) -> &'static str {
    let name = "LD_LIBRARY_PATH";
    let is_set = env::var_os(name).is_some_and(|value| !value.is_empty());
    match is_set && env.iter().all(|variable| variable.name != name) {
        true => {
            "put the library where it is looked for, pass on what is set here (-x LD_LIBRARY_PATH), or link with -Wl,-rpath"
        }
        false => elf::LOAD_ADVICE,
    }
}

/// Names of `-x` that this environment lacks, where it is to have them.
pub(super) fn lacking(env: &[Variable]) -> impl Iterator<Item = &str> {
    let lacks = |one: &&Variable| one.value.is_none() && env::var_os(&one.name).is_none();
    env.iter().filter(lacks).map(|one| one.name.as_str())
}

/// `-x` with a value, and options that nodes learn of by variables.
pub(super) fn chosen(args: &RunArgs) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = args
        .env
        .iter()
        .filter_map(|Variable { name, value }| Some((name.clone(), value.clone()?)))
        .collect();
    let chosen = [
        ("MULTIGRAIN_THREADS", args.place.threads.map(|t| t.to_string()), Some("1")),
        ("MULTIGRAIN_GUARD", args.node.guard.as_ref().map(name_of), Some("auto")),
        ("MULTIGRAIN_PATH", args.node.path.map(|path| path.to_string()), Some("memfd")),
        ("MULTIGRAIN_TRACKING", args.node.tracking.as_ref().map(name_of), Some("faults")),
        ("MULTIGRAIN_WAIT", args.node.wait.as_ref().map(name_of), Some("adaptive")),
        ("MULTIGRAIN_SERVICE", args.node.service.as_ref().map(name_of), Some("helping")),
        ("MULTIGRAIN_MANAGER", args.node.manager.as_ref().map(name_of), Some("auto")),
        ("MULTIGRAIN_LEARN", args.node.learn.as_ref().map(name_of), Some("on")),
        ("MULTIGRAIN_CONSISTENCY", args.node.consistency.as_ref().map(name_of), Some("sequential")),
        ("MULTIGRAIN_CHECK_RACES", args.node.check_races.map(|_| "on".to_owned()), Some("off")),
        ("MULTIGRAIN_SHARING", args.names_sharing().then(|| "on".to_owned()), Some("off")),
        // Its own even where no option names it: addresses of nodes are those of this transport.
        ("MULTIGRAIN_TRANSPORT", Some(args.links.transport().to_string()), None),
        ("MULTIGRAIN_HANDSHAKE", args.links.handshake.map(|part| part.to_string()), None),
        ("MULTIGRAIN_EMULATE", args.links.emulate.map(|network| network.to_string()), None),
        (
            "MULTIGRAIN_BOOT_SECONDS",
            args.place.boot_timeout.map(|s| s.as_secs_f64().to_string()),
            None,
        ),
        ("MULTIGRAIN_SHARED", args.place.shared.map(|bytes| bytes.to_string()), None),
        ("MULTIGRAIN_CHUNK", args.node.chunk.map(|level| level.to_string()), None),
    ];
    for (name, option, default) in chosen {
        // An option wins over the user's environment, and that over the default.
        let given = env::var_os(name).is_some() || variables.iter().any(|(n, _)| n == name);
        let value = option.or_else(|| default.filter(|_| !given).map(str::to_owned));
        variables.extend(value.map(|value| (name.to_owned(), value)));
    }
    variables
}

/// The value of a variable in nodes that have these: their own, or the launcher's.
fn value(variables: &[(String, String)], wanted: &str) -> Option<OsString> {
    let chosen = variables.iter().rev().find(|(name, _)| name == wanted);
    chosen.map(|(_, value)| value.into()).or_else(|| env::var_os(wanted))
}

/// Whether the job is checked for races, by an option or by a variable.
pub(super) fn race_check(args: &RunArgs) -> Check {
    let by_variable = || value(&chosen(args), "MULTIGRAIN_CHECK_RACES");
    match args.node.check_races {
        Some(options::Races::All) => Check::All,
        Some(options::Races::First) => Check::First,
        None => match by_variable().as_deref().and_then(OsStr::to_str) {
            Some("all") => Check::All,
            Some("on" | "first") => Check::First,
            Some(_) | None => Check::Off,
        },
    }
}

/// What every node would refuse, in words for the user.
pub(super) fn refusal(variables: &[(String, String)]) -> Option<String> {
    let value = |wanted: &str| value(variables, wanted);
    let is = |name: &str, wanted: &str| value(name).is_some_and(|value| value == wanted);
    if is("MULTIGRAIN_TRACKING", "scans") {
        if ["on", "first", "all"].iter().any(|check| is("MULTIGRAIN_CHECK_RACES", check)) {
            return Some(
                "--check-races finds races by faults: use --tracking faults with it".into(),
            );
        }
        if is("MULTIGRAIN_GUARD", "uffd") {
            return Some(
                "--tracking scans needs the guard mprotect: use --guard mprotect with it".into(),
            );
        }
    }
    if is("MULTIGRAIN_GUARD", "uffd") && is("MULTIGRAIN_PATH", "sysv") {
        return Some(
            "--path sysv has pages that userfaultfd does not guard: use --guard mprotect with it"
                .into(),
        );
    }
    Config::of_job(&value).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_have_the_length_of_the_contract_and_differ() {
        let (one, two) = (random_hex::<16>().unwrap(), random_hex::<16>().unwrap());
        assert_eq!(one.len(), 32);
        assert!(one.bytes().all(|b| b.is_ascii_hexdigit()));
        assert_ne!(one, two);
    }
}
