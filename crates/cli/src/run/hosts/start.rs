//! The start of a job on many hosts: agents first; then all is compared, bound, and started, host by host at once.

use super::super::environment;
use super::super::error::LaunchError;
use super::super::options::{RunArgs, Transport};
use super::super::shares::Share;
use super::super::signals::Signals;
use super::super::slurm::Allocation;
use super::super::warden::Warden;
use super::agents::Agents;
use super::builds;
use super::contact::Contact;
use super::frame::{Found, Job, Order, Word};
use multigrain_transport::interfaces::{self, Whereabouts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// What leads to a host. A connection that others might come to share would end with the job.
const SSH: [&str; 4] = ["ssh", "-T", "-o", "ControlMaster=no"];
/// How long the agents may take to be there, if the user gives no boot time.
const START_WAIT: Duration = Duration::from_secs(30);
/// Between two looks whether it is time for something.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What a start on many hosts needs.
pub(in super::super) struct Start<'a> {
    pub(in super::super) args: &'a RunArgs,
    pub(in super::super) shares: &'a [Share],
    /// What the hosts are of, if they are allocated.
    pub(in super::super) allocation: Option<&'a Allocation>,
    pub(in super::super) job: &'a str,
    pub(in super::super) began: Instant,
    pub(in super::super) warden: &'a Warden,
    pub(in super::super) signals: &'a Signals,
    /// Whether node 0 gets input.
    pub(in super::super) input: bool,
}

impl Start<'_> {
    /// Nodes of the job.
    pub(in super::super) fn nodes(&self) -> u32 {
        self.shares.last().map_or(0, |share| share.ranks.end)
    }

    /// To the point where all nodes run; none does where one cannot.
    pub(in super::super) fn run(&self, secret: &str) -> Result<Agents, LaunchError> {
        let variables = environment::for_hosts(self.args);
        if let Some(why) = environment::refusal(&variables) {
            return Err(LaunchError::Refused(why));
        }
        if self.args.transport == Some(Transport::Unix) && self.shares.len() > 1 {
            let why =
                "Unix sockets do not lead to other hosts: use --transport auto or tcp with several";
            return Err(LaunchError::Refused(why.to_owned()));
        }
        let mut agents = self.agents()?;
        self.look(&mut agents, &variables)?;
        let found = self.gather(&mut agents, Word::found)?;
        self.compare(&found)?;
        let tcp = self.tcp(&found)?;
        for (contact, (share, tcp)) in agents.contacts.iter_mut().zip(self.shares.iter().zip(&tcp))
        {
            let unix = self.args.transport != Some(Transport::Tcp);
            contact.tell(&Order::Bind {
                unix: unix && (share.ranks.len() > 1 || tcp.is_none()),
                tcp: *tcp,
            });
        }
        let bound = self.gather(&mut agents, Word::bound)?;
        for (host, contact) in agents.contacts.iter_mut().enumerate() {
            let seen = |(of, (near, far)): (usize, &(Vec<String>, Vec<String>))| {
                if of == host { near.clone() } else { far.clone() }
            };
            let peers = bound.iter().enumerate().flat_map(seen).collect();
            contact.tell(&Order::Start { peers, secret: secret.to_owned() });
        }
        let pids = self.gather(&mut agents, Word::started)?;
        agents.pids = pids.concat();
        agents.contacts.iter_mut().for_each(Contact::forgive);
        Ok(agents)
    }

    /// Starts the agents.
    fn agents(&self) -> Result<Agents, LaunchError> {
        let refused = |what: &str| {
            let what = what.to_owned();
            move |error| LaunchError::system(what, self.nodes(), error)
        };
        let own = builds::own().map_err(refused("this program"))?;
        let path = std::env::current_exe().map_err(refused("this program's path"))?;
        let agent = format!("exec {} agent", quoted(&path));
        let mut agents = Agents::new(own, self.input);
        for share in self.shares {
            let (command, name) = self.command(&share.host, &agent);
            let started = Contact::start(share, &command, self.warden, self.signals.before());
            let at = |error| LaunchError::of_host(&share.host, 125, format!("{name}: {error}"));
            agents.contacts.push(started.map_err(at)?);
        }
        Ok(agents)
    }

    /// The command that runs the agent on a host, and what it is called.
    fn command(&self, host: &str, agent: &str) -> (Vec<String>, String) {
        let way: Vec<String> = match (&self.args.launcher_command, self.allocation) {
            (Some(command), _) => command.split_whitespace().map(str::to_owned).collect(),
            (None, Some(allocation)) => {
                return (allocation.command(host, agent), "srun".to_owned());
            }
            (None, None) => SSH.map(str::to_owned).to_vec(),
        };
        let name = way.join(" ");
        (way.into_iter().chain([host, agent].map(str::to_owned)).collect(), name)
    }

    /// Has all agents look at their hosts.
    fn look(&self, agents: &mut Agents, variables: &[(String, String)]) -> Result<(), LaunchError> {
        let directory = std::env::current_dir();
        let directory = directory
            .map_err(|error| LaunchError::system("the current directory", self.nodes(), error))?;
        for contact in &mut agents.contacts {
            contact.tell(&Order::Look(Job {
                id: self.job.to_owned(),
                nodes: self.nodes(),
                first: contact.ranks.start,
                end: contact.ranks.end,
                directory: directory.as_os_str().as_bytes().to_vec(),
                command: self.args.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
                variables: variables.to_vec(),
                input: self.input,
            }));
        }
        Ok(())
    }

    fn compare(&self, found: &[Found]) -> Result<(), LaunchError> {
        let hosts: Vec<(&str, &Found)> =
            self.shares.iter().map(|share| share.host.as_str()).zip(found).collect();
        builds::difference(&hosts).map_or(Ok(()), |why| Err(LaunchError::Different(why)))
    }

    /// The address of each host for its nodes' TCP sockets, if they have any.
    fn tcp(&self, found: &[Found]) -> Result<Vec<Option<IpAddr>>, LaunchError> {
        if found.len() == 1 && self.args.transport != Some(Transport::Tcp) {
            return Ok(vec![None]);
        }
        let hosts: Vec<Whereabouts> = found.iter().map(|host| host.whereabouts.clone()).collect();
        let chosen = interfaces::choose(&hosts, self.args.interface.as_ref());
        let option = if self.args.interface.is_some() { "--interface: " } else { "" };
        let refused = |(place, why): (usize, String)| {
            LaunchError::of_host(&self.shares[place].host, 2, format!("{option}{why}"))
        };
        let chosen = chosen.map_err(refused)?;
        Ok(chosen.into_iter().map(Some).collect())
    }

    /// Waits for one answer of each agent.
    fn gather<T>(
        &self,
        agents: &mut Agents,
        pick: impl Fn(Word) -> Option<T>,
    ) -> Result<Vec<T>, LaunchError> {
        let mut answers: Vec<Option<T>> = agents.contacts.iter().map(|_| None).collect();
        let mut buffer = vec![0; 64 << 10];
        while answers.iter().any(Option::is_none) {
            self.check(&agents.contacts, |host| answers[host].is_none())?;
            wait(&agents.contacts, self.signals);
            let own = agents.own.clone();
            for (contact, answer) in agents.contacts.iter_mut().zip(&mut answers) {
                contact.beat();
                let _ = contact.read_complaints(&mut buffer);
                let read = contact.read(&mut buffer);
                // What comes after the answer stays in the channel: its nodes may run while others start.
                if answer.is_none() {
                    *answer = self.answer(contact, &own, &pick)?;
                }
                if answer.is_none() {
                    read.map_err(|why| LaunchError::of_host(&contact.host, 125, why))?;
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// The answer of an agent, if it is there.
    fn answer<T>(
        &self,
        contact: &mut Contact,
        own: &str,
        pick: impl Fn(Word) -> Option<T>,
    ) -> Result<Option<T>, LaunchError> {
        let host = contact.host.clone();
        let at = |code, why| LaunchError::of_host(&host, code, why);
        while let Some(word) = contact.next(own).map_err(|why| at(125, why))? {
            if let Word::Failed { code, why } = word {
                return Err(at(code, why));
            }
            if !matches!(word, Word::Beat { .. }) {
                let wrong = || at(125, "its agent answers what was not asked".to_owned());
                return pick(word).map(Some).ok_or_else(wrong);
            }
        }
        Ok(None)
    }

    /// Whether the start may go on: the user does not want out, and there is time.
    fn check(
        &self,
        contacts: &[Contact],
        waits: impl Fn(usize) -> bool,
    ) -> Result<(), LaunchError> {
        while let Some(signal) = self.signals.next() {
            if [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal) {
                return Err(LaunchError::Interrupted(signal.as_raw()));
            }
        }
        if let Some(limit) = self.args.timeout.filter(|&limit| self.began.elapsed() >= limit) {
            return Err(LaunchError::TimeOut(limit));
        }
        let limit = self.args.boot_timeout.unwrap_or(START_WAIT);
        if self.began.elapsed() < limit {
            return Ok(());
        }
        let late = contacts.iter().enumerate().find(|(host, _)| waits(*host));
        let host = late.map_or("", |(_, contact)| contact.host.as_str());
        let why = format!(
            "no answer in {} s; try to log in there, or give it longer with --boot-timeout",
            limit.as_secs_f64()
        );
        Err(LaunchError::of_host(host, 125, why))
    }
}

/// Waits until there is something to hear, or a while.
fn wait(contacts: &[Contact], signals: &Signals) {
    let signals = signals.as_fd();
    let mut set = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
    for contact in contacts {
        set.push(PollFd::from_borrowed_fd(contact.input(), PollFlags::IN));
        let complaints = contact.complaints();
        set.extend(complaints.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        set.extend(contact.output().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
    }
    let _ = poll(&mut set, Some(&LOOK));
}

/// For the host's shell, whichever that is.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
