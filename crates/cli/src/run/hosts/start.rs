//! The start of a job on many hosts, all hosts at once in each step: agents, a comparison of builds, listening
//! sockets, nodes.

use super::super::environment;
use super::super::error::{LaunchError, NO_PROGRAM};
use super::super::hostfile::Share;
use super::super::options::RunArgs;
use super::super::program;
use super::agent_handle::AgentHandle;
use super::agents::Agents;
use super::builds;
use super::messages::{AgentEvent, Found, JobDescription, Request};
use super::remote_shell::LaunchContext;
use multigrain_transport::interfaces::{self, HostAddresses};
use multigrain_transport::{AddressKind, Transport};
use multigrain_types::exit_codes::LAUNCHER_FAILED;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

/// What a start on many hosts needs.
pub(in super::super) struct Start<'a> {
    pub(in super::super) context: LaunchContext<'a>,
    pub(in super::super) args: &'a RunArgs,
    pub(in super::super) job: &'a str,
    /// Whether node 0 gets input.
    pub(in super::super) input: bool,
}

impl Start<'_> {
    /// To the point where all nodes run; none does where one cannot.
    pub(in super::super) fn run(
        &self,
        secret: &str,
        credentials: &[String],
    ) -> Result<Agents, LaunchError> {
        let variables = environment::for_hosts(self.args);
        if let Some(why) = environment::refusal(&variables) {
            return Err(LaunchError::Refused(why));
        }
        let (context, shares) = (&self.context, self.context.shares);
        let transport = self.args.links.transport();
        if !transport.uses(AddressKind::Tcp) && shares.len() > 1 {
            let others = Transport::that_use(AddressKind::Tcp);
            let why = format!(
                "{} do not lead to other hosts: use --transport {others} with several",
                transport.help()
            );
            return Err(LaunchError::Refused(why));
        }
        let mut agents = context.agents(self.input)?;
        self.look(&mut agents, &variables)?;
        let found = context.gather(&mut agents, AgentEvent::prepared);
        let found = found.map_err(|error| self.is_on_this_host(error))?;
        self.compare(&found)?;
        for (handle, found) in agents.handles.iter_mut().zip(&found) {
            if let Some(group) = &found.group {
                handle.sweep_group(group);
            }
        }
        let tcp = self.tcp(&found)?;
        agents.addresses = tcp.iter().flatten().copied().collect();
        for (handle, (share, tcp)) in agents.handles.iter_mut().zip(shares.iter().zip(&tcp)) {
            let unix = transport.uses(AddressKind::Unix);
            handle.tell(&Request::Bind {
                transport,
                unix: unix && (share.ranks.len() > 1 || tcp.is_none()),
                tcp: *tcp,
                ports: self.args.place.ports,
            });
        }
        let bound = context.gather(&mut agents, AgentEvent::bound)?;
        check_nodes(shares, bound.iter().map(|(near, far)| [near.len(), far.len()]))?;
        for (host, handle) in agents.handles.iter_mut().enumerate() {
            let seen = |(of, (near, far)): (usize, &(Vec<String>, Vec<String>))| {
                if of == host { near.clone() } else { far.clone() }
            };
            let peers = bound.iter().enumerate().flat_map(seen).collect();
            let own = handle.ranks().filter_map(|rank| credentials.get(rank as usize));
            handle.tell(&Request::Start {
                peers,
                secret: secret.to_owned(),
                credentials: own.cloned().collect(),
            });
        }
        let pids = context.gather(&mut agents, AgentEvent::started)?;
        check_nodes(shares, pids.iter().map(|pids| [pids.len(); 2]))?;
        agents.pids = pids.concat();
        agents.handles.iter_mut().for_each(AgentHandle::start_channel);
        Ok(agents)
    }

    /// Has all agents look at their hosts.
    fn look(&self, agents: &mut Agents, variables: &[(String, String)]) -> Result<(), LaunchError> {
        let nodes = self.context.nodes();
        let directory = std::env::current_dir();
        let directory = directory
            .map_err(|error| LaunchError::system("the current directory", nodes, error))?;
        for handle in &mut agents.handles {
            let job = JobDescription {
                id: self.job.to_owned(),
                nodes,
                first: handle.ranks().start,
                end: handle.ranks().end,
                directory: directory.as_os_str().as_bytes().to_vec(),
                command: self.args.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
                variables: variables.to_vec(),
                input: self.input,
            };
            handle.sweep_by(self.context.sweep(handle.host(), &job.mark()));
            handle.tell(&Request::Prepare(job));
        }
        Ok(())
    }

    /// A program that another host lacks may be here.
    fn is_on_this_host(&self, mut error: LaunchError) -> LaunchError {
        if let LaunchError::Host { why, .. } = &mut error
            && let Some((program, _)) = why.split_once(NO_PROGRAM)
            && self.args.command.first().is_some_and(|name| program::find(name).is_ok())
        {
            *why = format!("{program}{NO_PROGRAM}; it is on this host: copy it to the same place");
        }
        error
    }

    fn compare(&self, found: &[Found]) -> Result<(), LaunchError> {
        let names = self.context.shares.iter().map(|share| share.host.as_str());
        let hosts: Vec<_> = names.zip(found.iter().map(|found| found.files.as_slice())).collect();
        builds::difference(&hosts).map_or(Ok(()), |why| Err(LaunchError::Different(why)))
    }

    /// The address of each host for its nodes' TCP sockets, if they have any.
    fn tcp(&self, found: &[Found]) -> Result<Vec<Option<IpAddr>>, LaunchError> {
        let interface = self.args.place.interface.as_ref();
        let alone = found.len() == 1 && self.args.links.transport().uses(AddressKind::Unix);
        if alone && interface.is_none() {
            return Ok(vec![None]);
        }
        let hosts: Vec<HostAddresses> = found.iter().map(|host| host.addresses.clone()).collect();
        let chosen = interfaces::choose(&hosts, interface);
        let option = if interface.is_some() { "--interface: " } else { "" };
        let refused = |(place, why): (usize, String)| {
            LaunchError::of_host(&self.context.shares[place].host, 2, format!("{option}{why}"))
        };
        let chosen = chosen.map_err(refused)?;
        Ok(chosen.into_iter().map(|address| (!alone).then_some(address)).collect())
    }
}

/// Each agent has spoken of as many nodes as it has.
fn check_nodes(
    shares: &[Share],
    counts: impl Iterator<Item = [usize; 2]>,
) -> Result<(), LaunchError> {
    for (share, counts) in shares.iter().zip(counts) {
        if counts != [share.ranks.len(); 2] {
            let why = "its agent speaks of more nodes than it has, or of fewer".to_owned();
            return Err(LaunchError::of_host(&share.host, LAUNCHER_FAILED, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With one process id too few, a later event of the last rank was looked up behind the end (the launcher panicked).
    #[test]
    fn an_agent_speaks_of_as_many_nodes_as_it_has() {
        let share = |host: &str, ranks| Share { host: host.to_owned(), ranks };
        let shares = [share("a", 0..2), share("b", 2..3)];
        assert!(check_nodes(&shares, [[2, 2], [1, 1]].into_iter()).is_ok());
        for wrong in [[2, 2], [0, 0], [1, 2], [1, 0]] {
            let error = check_nodes(&shares, [[2, 2], wrong].into_iter()).unwrap_err();
            assert!(error.to_string().starts_with("host b: its agent speaks of"), "{error}");
        }
    }
}
