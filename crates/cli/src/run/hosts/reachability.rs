//! Whether the hosts reach each other at the ports where nodes would listen (`multigrain doctor`): each agent listens
//! at one, and connects to those of the others.

use super::super::error::LaunchError;
use super::agents::Agents;
use super::messages::{ANSWER_WAIT, AgentEvent, Request};
use super::remote_shell::LaunchContext;
use crate::host::Finding;
use multigrain_types::tree::{Fan, SMALL_JOB, Tree};
use std::net::IpAddr;
use std::time::Instant;

/// The name of the check.
const CHECK: &str = "links";
/// Up to so many hosts all pairs are tried, both ways. Of more each host tries the next one and the first.
const ALL_PAIRS: usize = 64;

/// Tries it among the hosts that have an address; those that have none are not heard of any more. What was found, by
/// the host's place.
///
/// # Errors
/// The user wants out.
pub(super) fn findings(
    context: &LaunchContext<'_>,
    agents: &mut Agents,
    addresses: &[Option<IpAddr>],
) -> Result<Vec<(usize, Finding)>, LaunchError> {
    if addresses.iter().flatten().count() < 2 {
        return Ok(Vec::new());
    }
    let ports = context.place.ports;
    let hosts = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    // Each answer has a time of its own.
    let again = || LaunchContext { began: Instant::now() + ANSWER_WAIT, ..*context };
    for (handle, at) in agents.handles.iter_mut().zip(addresses) {
        at.iter().for_each(|&at| handle.tell(&Request::Listen { at, ports, hosts }));
    }
    let listening = again().gather_each(agents, AgentEvent::listening)?;
    let mut found = Vec::new();
    let mut listeners = Vec::new();
    for (place, said) in listening.into_iter().enumerate() {
        let Some(at) = addresses[place] else { continue };
        match said {
            Ok(Ok(address)) => listeners.push((place, address)),
            Ok(Err(why)) => {
                let why = format!("cannot listen at {at}: {why}");
                found.push((place, Finding::prevents(CHECK, why, "nor can its nodes", "")));
            }
            Err(error) => found.push((place, not_tried(&error))),
        }
    }
    let mut tried: Vec<Vec<&(usize, String)>> = addresses.iter().map(|_| Vec::new()).collect();
    for (own, (place, _)) in listeners.iter().enumerate() {
        tried[*place] = targets(own, listeners.len()).map(|one| &listeners[one]).collect();
    }
    for (handle, others) in agents.handles.iter_mut().zip(&tried) {
        let to = others.iter().map(|(_, address)| address.clone()).collect();
        handle.tell(&Request::Connect { to });
    }
    let answers = again().gather_each(agents, AgentEvent::connected)?;
    for (place, (others, answer)) in tried.iter().zip(answers).enumerate() {
        let said = match answer {
            _ if others.is_empty() => continue,
            Ok(said) => said,
            Err(error) => {
                found.push((place, not_tried(&error)));
                continue;
            }
        };
        let failed =
            others.iter().zip(&said).filter_map(|(to, said)| Some((to, said.as_ref().err()?)));
        let failed: Vec<_> =
            failed.map(|(to, why)| (place, unreached(context, place, to, why))).collect();
        if failed.is_empty() {
            let names: Vec<&str> =
                others.iter().map(|(one, _)| context.shares[*one].host.as_str()).collect();
            found.push((place, Finding::fine(CHECK, format!("reaches {}", names.join(", ")))));
        }
        found.extend(failed);
    }
    Ok(found)
}

/// Which of so many hosts one connects to.
fn targets(own: usize, hosts: usize) -> impl Iterator<Item = usize> {
    let is_tried =
        move |other: usize| hosts <= ALL_PAIRS || other == 0 || other == (own + 1) % hosts;
    (0..hosts).filter(move |&other| other != own && is_tried(other))
}

fn not_tried(error: &LaunchError) -> Finding {
    Finding::prevents(CHECK, error.to_string(), "its links are not tried", "")
}

/// One host does not reach another.
fn unreached(
    context: &LaunchContext<'_>,
    place: usize,
    (to, address): &(usize, String),
    why: &str,
) -> Finding {
    let found = format!("cannot reach {} at {address}: {why}", context.shares[*to].host);
    let remedy = match context.place.ports {
        Some(ports) => format!(
            "let --ports ({ports}) through where a firewall drops them, or name another network by --interface"
        ),
        None => {
            "where a firewall drops it, let a range of ports through and name it by --ports; or name another network by --interface"
                .to_owned()
        }
    };
    let small =
        u16::try_from(context.nodes()).is_ok_and(|n| Tree::new(n, Fan::default()).is_flat());
    // In a small job higher ranks connect to lower ones, and nobody else to anybody.
    match small && place < *to {
        true => {
            let what = format!("only jobs of more than {SMALL_JOB} nodes need it");
            Finding::limits(CHECK, found, what, remedy)
        }
        false => Finding::prevents(CHECK, found, "nodes there cannot join", remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hosts_are_tried_with_all_others_and_many_with_the_next_and_the_first() {
        let of = |own, hosts| targets(own, hosts).collect::<Vec<_>>();
        assert_eq!(of(1, 3), [0, 2]);
        assert_eq!(of(0, 64).len(), 63);
        assert_eq!((of(0, 65), of(5, 65), of(64, 65)), (vec![1], vec![0, 6], vec![0]));
    }
}
