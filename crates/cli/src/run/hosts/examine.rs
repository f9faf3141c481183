//! `multigrain doctor` over hosts: an agent examines each, and the results are compared.

use super::super::error::{LaunchError, NO_PROGRAM};
use super::super::hostfile::Share;
use super::super::program_check::CHECK;
use super::super::{elf, environment};
use super::agent_handle::NOT_STARTED;
use super::builds;
use super::messages::{Examination, Examined, Request};
use super::reachability;
use super::remote_shell::LaunchContext;
use crate::host::{Finding, Needs};
use multigrain_transport::Authority;
use multigrain_transport::interfaces;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Clocks that differ by less are not worth a line.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// What was found on each host, by its name.
pub(in super::super) type Findings = Vec<(String, Vec<Finding>)>;

/// Asks all hosts, and compares what they answer. `needs`: of each host; `program`: what is to run there.
///
/// # Errors
/// The user wants out, or this host cannot have so many agents.
pub(in super::super) fn examine(
    context: &LaunchContext<'_>,
    needs: impl Fn(&Share) -> Needs,
    program: Option<&Path>,
) -> Result<Findings, LaunchError> {
    let directory = std::env::current_dir();
    let directory = directory
        .map_err(|error| LaunchError::system("the current directory", context.nodes(), error))?;
    let mut agents = match context.agents(false) {
        Ok(agents) => agents,
        Err(LaunchError::Host { why, .. }) => return Ok(none_started(context, &why)),
        Err(error) => return Err(error),
    };
    for (handle, share) in agents.handles.iter_mut().zip(context.shares) {
        handle.tell(&Request::Examine(Examination {
            needs: needs(share),
            directory: directory.as_os_str().as_bytes().to_vec(),
            program: program.map(|program| program.as_os_str().as_bytes().to_vec()),
            variables: environment::passed(context.passed),
        }));
    }
    let asked = SystemTime::now();
    // Each with when it came: another host may take longer.
    let answers = context.gather_each(&mut agents, |event| {
        event.examined().map(|examined| (examined, SystemTime::now()))
    })?;
    let mut found: Findings = Vec::new();
    for ((share, answer), handle) in context.shares.iter().zip(&answers).zip(&agents.handles) {
        let mut findings = vec![reached(answer, || context.advice(handle))];
        if let Ok((examined, came)) = answer {
            findings.push(clock(SystemTime::UNIX_EPOCH + examined.time, [asked, *came]));
            findings.extend(examined.findings.iter().cloned());
        }
        found.push((share.host.clone(), findings));
    }
    let answered: Vec<(&str, &Examined)> = context
        .shares
        .iter()
        .zip(&answers)
        .filter_map(|(share, answer)| Some((share.host.as_str(), &answer.as_ref().ok()?.0)))
        .collect();
    let mut add = |host: &str, finding| {
        if let Some((_, findings)) = found.iter_mut().find(|(name, _)| name == host) {
            findings.push(finding);
        }
    };
    if program.is_some() {
        files(&answered, environment::load_advice(context.passed))
            .into_iter()
            .chain(remarks(&answered))
            .for_each(|(host, finding)| add(host, finding));
    }
    match meet(context, &answered) {
        Ok(chosen) => {
            for (&(host, _), at) in answered.iter().zip(&chosen) {
                add(host, Finding::fine("meeting at", at.to_string()));
            }
            let mut chosen = chosen.into_iter();
            let of =
                |answer: &Result<_, LaunchError>| answer.as_ref().ok().and_then(|_| chosen.next());
            let addresses: Vec<_> = answers.iter().map(of).collect();
            for (place, finding) in reachability::findings(context, &mut agents, &addresses)? {
                add(&context.shares[place].host, finding);
            }
        }
        Err((host, finding)) => add(host, finding),
    }
    Ok(found)
}

/// Nothing leads to any host.
fn none_started(context: &LaunchContext<'_>, why: &str) -> Findings {
    let (found, remedy) = why.rsplit_once("; ").unwrap_or((why, ""));
    let finding = Finding::prevents("reached", found, "no node runs there", remedy);
    context.shares.iter().map(|share| (share.host.clone(), vec![finding.clone()])).collect()
}

/// Whether there was an answer, which only an agent of the same build gives.
fn reached<T>(answer: &Result<T, LaunchError>, advice: impl Fn() -> String) -> Finding {
    let check = "reached";
    match answer {
        Ok(_) => Finding::fine(check, "its multigrain is the same as this one"),
        Err(LaunchError::Host { why, .. }) if why.starts_with(NOT_STARTED) => {
            Finding::prevents(check, why.clone(), "no node runs there", advice())
        }
        Err(LaunchError::Host { why, .. }) => {
            let (found, remedy) = why.rsplit_once("; ").unwrap_or((why, ""));
            Finding::prevents(check, found, "no node runs there", remedy)
        }
        Err(error) => Finding::prevents(check, error.to_string(), "no node runs there", ""),
    }
}

/// Whether its clock showed our time when it answered, which was between these two moments.
fn clock(at: SystemTime, [asked, came]: [SystemTime; 2]) -> Finding {
    let check = "clock";
    let (behind, ahead) = (asked.duration_since(at).ok(), at.duration_since(came).ok());
    let (off, way) = match (behind, ahead) {
        (_, Some(ahead)) => (ahead, "ahead of"),
        (behind, None) => (behind.unwrap_or_default(), "behind"),
    };
    if off < CLOCK_ERROR {
        return Finding::fine(check, "as here");
    }
    let found = format!("{} s {way} the launcher's", off.as_secs());
    let remedy = "timedatectl set-ntp true";
    let [earliest, latest] = Authority::VALID;
    if behind.is_some_and(|behind| behind >= earliest) || ahead.is_some_and(|ahead| ahead >= latest)
    {
        let limits = "certificates of a job are not valid yet there, or no more";
        return Finding::prevents(check, found, limits, remedy);
    }
    Finding::limits(check, found, "times in logs and files do not compare", remedy)
}

/// Whether all have the same program and library. `advice`: what to do where a library is not found.
fn files<'a>(hosts: &[(&'a str, &Examined)], advice: &str) -> Vec<(&'a str, Finding)> {
    let has_it = hosts.iter().find(|(_, examined)| examined.files.is_ok()).map(|&(host, _)| host);
    let mut findings = Vec::new();
    let mut first = None;
    for &(host, examined) in hosts {
        let files = match &examined.files {
            Ok((files, _)) => files.as_slice(),
            Err(why) => {
                let why = why.replace(elf::LOAD_ADVICE, advice);
                let (found, remedy) = why.rsplit_once("; ").unwrap_or((&why, ""));
                let remedy = match has_it.filter(|_| found.ends_with(NO_PROGRAM)) {
                    Some(other) => format!("it is on {other}: copy it to the same place"),
                    None => remedy.to_owned(),
                };
                findings.push((
                    host,
                    Finding::prevents(CHECK, found, "no node can start there", remedy),
                ));
                continue;
            }
        };
        let before = *first.get_or_insert((host, files));
        let finding = match builds::difference(&[before, (host, files)]) {
            Some(why) => {
                let (found, remedy) = why.rsplit_once("; ").unwrap_or((why.as_str(), ""));
                Finding::prevents(CHECK, found, "the job is refused", remedy)
            }
            None => Finding::fine(CHECK, "the same build as on other hosts"),
        };
        findings.push((host, finding));
    }
    findings
}

/// What else there is to say of the program: once, for it is the same on all hosts.
fn remarks<'a>(hosts: &[(&'a str, &Examined)]) -> Vec<(&'a str, Finding)> {
    let mut said: Vec<(&str, Finding)> = Vec::new();
    for &(host, examined) in hosts {
        for remark in examined.files.iter().flat_map(|(_, remarks)| remarks) {
            if said.iter().all(|(_, known)| known != remark) {
                said.push((host, remark.clone()));
            }
        }
    }
    said
}

/// Where the hosts would meet, if there are several; or which of them the others do not find.
fn meet<'a>(
    context: &LaunchContext<'_>,
    hosts: &[(&'a str, &Examined)],
) -> Result<Vec<IpAddr>, (&'a str, Finding)> {
    if hosts.len() < 2 {
        return Ok(Vec::new());
    }
    let places: Vec<_> = hosts.iter().map(|(_, examined)| examined.addresses.clone()).collect();
    let chosen = interfaces::choose(&places, context.place.interface.as_ref());
    chosen.map_err(|(host, why)| {
        let (found, remedy) =
            why.split_once("; ").unwrap_or((why.as_str(), "name another --interface"));
        let limits = "nodes of other hosts do not find it";
        (hosts[host].0, Finding::prevents("meeting at", found, limits, remedy))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Level;

    /// All were compared with the end of the last answer: right clocks were behind where one host was slow.
    #[test]
    fn a_clock_is_right_that_shows_a_time_between_question_and_answer() {
        let at =
            |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds);
        let said = |seconds| clock(at(seconds), [at(100), at(104)]);
        for right in [99, 100, 102, 104, 105] {
            assert_eq!(said(right).level(), Level::Fine, "{right}");
        }
        for (wrong, says) in [(97, "3 s behind the"), (108, "4 s ahead of the")] {
            assert!(said(wrong).to_string().contains(says), "{}", said(wrong));
        }
    }
}
