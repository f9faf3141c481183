//! The variables through which a node learns of its job: the contract with the runtime.

use super::options::{RunArgs, Variable, name_of};
use multigrain_runtime::Config;
use multigrain_transport::Authority;
use multigrain_types::NodeId;
use rustix::rand::{GetRandomFlags, getrandom};
use std::env;
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
/// it, so that the contract wins.
pub(super) fn common(
    args: &RunArgs,
    job: &str,
    secret: String,
    peers: String,
) -> Vec<(String, String)> {
    let mut variables = chosen(args);
    variables.push(("MULTIGRAIN_NODES".to_owned(), args.nodes_here().to_string()));
    variables.push(("MULTIGRAIN_JOB".to_owned(), job.to_owned()));
    variables.push(("MULTIGRAIN_SECRET".to_owned(), secret));
    variables.push(("MULTIGRAIN_PEERS".to_owned(), peers));
    variables
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

/// `-x` with a value, and options that nodes learn of by variables.
fn chosen(args: &RunArgs) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = args
        .env
        .iter()
        .filter_map(|Variable { name, value }| Some((name.clone(), value.clone()?)))
        .collect();
    let chosen = [
        ("MULTIGRAIN_THREADS", args.threads.map(|t| t.to_string()), Some("1")),
        ("MULTIGRAIN_GUARD", args.guard.as_ref().map(name_of), Some("auto")),
        ("MULTIGRAIN_TRACKING", args.tracking.as_ref().map(name_of), Some("faults")),
        ("MULTIGRAIN_WAIT", args.wait.as_ref().map(name_of), Some("adaptive")),
        ("MULTIGRAIN_MANAGER", args.manager.as_ref().map(name_of), Some("allocator")),
        ("MULTIGRAIN_LEARN", args.learn.as_ref().map(name_of), Some("on")),
        ("MULTIGRAIN_CONSISTENCY", args.consistency.as_ref().map(name_of), Some("sequential")),
        ("MULTIGRAIN_CHECK_RACES", args.check_races.map(|_| "on".to_owned()), Some("off")),
        ("MULTIGRAIN_SHARING", args.names_sharing().then(|| "on".to_owned()), Some("off")),
        ("MULTIGRAIN_BOOT_SECONDS", args.boot_timeout.map(|s| s.as_secs_f64().to_string()), None),
        ("MULTIGRAIN_SHARED", args.shared.map(|bytes| bytes.to_string()), None),
        ("MULTIGRAIN_CHUNK", args.chunk.map(|level| level.to_string()), None),
    ];
    for (name, option, default) in chosen {
        // An option wins over the user's environment, and that over the default.
        let given = env::var_os(name).is_some() || variables.iter().any(|(n, _)| n == name);
        let value = option.or_else(|| default.filter(|_| !given).map(str::to_owned));
        variables.extend(value.map(|value| (name.to_owned(), value)));
    }
    variables
}

/// What every node would refuse, in words for the user.
pub(super) fn refusal(variables: &[(String, String)]) -> Option<String> {
    let value = |wanted: &str| {
        let chosen = variables.iter().rev().find(|(name, _)| name == wanted);
        chosen.map(|(_, value)| value.into()).or_else(|| env::var_os(wanted))
    };
    let is = |name: &str, wanted: &str| value(name).is_some_and(|value| value == wanted);
    if is("MULTIGRAIN_TRACKING", "scans") {
        if is("MULTIGRAIN_CHECK_RACES", "on") {
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
