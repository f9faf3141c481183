//! Which hosts a job runs on, and which nodes on each: `--hosts a:2,b:2`, or a file of hosts.
//!
//! A host has a slot for each node it may run. Ranks fill the slots of the first host, then those of the
//! next. A host that is named again has the slots of both entries.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a file of hosts that are read: some have no end.
const MOST_FILE_BYTES: u64 = 1 << 20;
/// And of a line.
const MOST_LINE_BYTES: usize = 1024;
/// How long a pipe may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host and its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// As ssh knows it: a name, an address, or USER@ and one of these.
    pub(super) name: String,
    slots: u32,
}

/// The hosts of one `--hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostList(Vec<Host>);

/// A host, and the ranks of the nodes on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    pub(super) host: String,
    pub(super) ranks: Range<u32>,
}

impl Share {
    /// Nodes on the host.
    pub(super) fn nodes(&self) -> u32 {
        self.ranks.end - self.ranks.start
    }
}

/// The list of `--hosts`: hosts with a comma between them.
pub(crate) fn parse_list(text: &str) -> Result<HostList, String> {
    let mut hosts = Vec::new();
    for word in text.split(',') {
        add(&mut hosts, host(word.trim())?);
    }
    Ok(HostList(hosts))
}

impl HostList {
    /// What a file of hosts says: a host a line, with `slots=N` behind it; what follows a `#` is no part of it. A pipe has as
    /// long as the job, and no longer than [`PATIENCE`].
    ///
    /// # Errors
    /// The line that makes no sense, in words.
    pub(super) fn of_file(path: &Path, within: Option<Duration>) -> Result<Self, String> {
        let at = |why: String| format!("--hostfile {}{why}", path.display());
        let within = within.map_or(PATIENCE, |within| within.min(PATIENCE));
        let text =
            read(path, within).map_err(|error| at(format!(": {error}; name a file of hosts")))?;
        let mut hosts = Vec::new();
        // Some editors begin a file with a byte order mark.
        for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            if line.len() > MOST_LINE_BYTES {
                return Err(at(format!(", line {number}: it is too long; name a file of hosts")));
            }
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            let wrong = |why: String| at(format!(", line {number}: {why}"));
            if name.contains(',') {
                return Err(wrong(format!("'{name}' is no host; write one a line")));
            }
            let mut host = host(name).map_err(wrong)?;
            let mut given = false;
            for word in words {
                match word.split_once('=') {
                    Some(("slots", _)) if given => {
                        return Err(wrong(format!("'{word}': the host has slots already")));
                    }
                    Some(("slots", count)) => {
                        host.slots = slots(count, word).map_err(wrong)?;
                        given = true;
                    }
                    // Open MPI's: no more nodes than slots are started here.
                    Some(("max_slots" | "max-slots", count)) => {
                        slots(count, word).map_err(wrong)?;
                    }
                    _ => return Err(wrong(format!("'{word}' is not understood; write slots=N"))),
                }
            }
            add(&mut hosts, host);
        }
        if hosts.is_empty() {
            return Err(at(" names no host; write one a line, such as 'node1 slots=4'".to_owned()));
        }
        Ok(Self(hosts))
    }

    /// Which nodes run where; without a number of nodes, one in each slot.
    ///
    /// # Errors
    /// There are fewer slots than nodes, or more than a job may have, in words.
    pub(super) fn place(&self, nodes: Option<u32>, most: u32) -> Result<Vec<Share>, String> {
        let slots = self.0.iter().fold(0_u32, |sum, host| sum.saturating_add(host.slots));
        let nodes = nodes.unwrap_or(slots);
        if nodes > slots {
            return Err(format!(
                "{nodes} nodes need {nodes} slots, and the hosts have {slots}; give them more \
                 (HOST:SLOTS, or slots=N in a file of hosts) or start fewer nodes"
            ));
        }
        if nodes > most {
            return Err(format!(
                "the hosts have {nodes} slots, and a job has {most} nodes at most"
            ));
        }
        let mut next: u32 = 0;
        let share = |host: &Host| {
            let ranks = next..nodes.min(next.saturating_add(host.slots));
            next = ranks.end;
            Share { host: host.name.clone(), ranks }
        };
        let shares = self.0.iter().map(share);
        Ok(shares.filter(|share| !share.ranks.is_empty()).collect())
    }
}

/// Hosts with so many slots each.
///
/// # Errors
/// A name that is none, in words.
pub(super) fn slots_of<'a>(
    hosts: impl Iterator<Item = (&'a str, u32)>,
) -> Result<HostList, String> {
    let mut all = Vec::new();
    for (name, slots) in hosts {
        add(&mut all, Host { slots, ..host(name)? });
    }
    Ok(HostList(all))
}

fn add(hosts: &mut Vec<Host>, host: Host) {
    match hosts.iter_mut().find(|known| known.name == host.name) {
        Some(known) => known.slots = known.slots.saturating_add(host.slots),
        None => hosts.push(host),
    }
}

/// `NAME`, `NAME:SLOTS`, `[ADDRESS]:SLOTS`; an IPv6 address without brackets has no slots behind it.
fn host(word: &str) -> Result<Host, String> {
    let (name, count) = match word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, rest)) => match rest.strip_prefix(':') {
            Some(count) => (name, Some(count)),
            None => return Err(format!("'{word}' is no host; write [ADDRESS]:SLOTS")),
        },
        None if word.matches(':').count() > 1 => (word, None),
        None => word.split_once(':').map_or((word, None), |(name, count)| (name, Some(count))),
    };
    let strange =
        |c: char| c.is_whitespace() || c.is_control() || "'\"\\$`;&|<>()[]*?!#".contains(c);
    if name.is_empty() || name.starts_with('-') || name.contains(strange) {
        return Err(format!("'{word}' is no host; write NAME or NAME:SLOTS"));
    }
    let slots = count.map_or(Ok(1), |count| slots(count, word))?;
    Ok(Host { name: name.to_owned(), slots })
}

fn slots(count: &str, word: &str) -> Result<u32, String> {
    let wrong = || format!("'{word}': slots are a number from 1");
    count.parse().ok().filter(|&slots| slots > 0).ok_or_else(wrong)
}

/// The text of a file, or of a pipe that somebody writes to, perhaps later.
fn read(path: &Path, within: Duration) -> io::Result<String> {
    let started = Instant::now();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?).take(MOST_FILE_BYTES);
    let mut bytes = Vec::new();
    loop {
        let left = Timespec::try_from(within.saturating_sub(started.elapsed()));
        let left = left.map_err(|_| io::ErrorKind::InvalidInput)?;
        if poll(&mut [PollFd::new(file.get_ref(), PollFlags::IN)], Some(&left))? == 0 {
            let why = format!("it has not come to its end in {} s", within.as_secs_f64());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        match file.read_to_end(&mut bytes) {
            Ok(_) => break,
            Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(text: &str, nodes: Option<u32>) -> Result<Vec<(String, Range<u32>)>, String> {
        let shares = parse_list(text)?.place(nodes, 1024)?;
        Ok(shares.into_iter().map(|share| (share.host, share.ranks)).collect())
    }

    #[test]
    fn ranks_fill_the_slots_of_one_host_after_the_other() {
        let on = |host: &str, ranks| (host.to_owned(), ranks);
        assert_eq!(shares("a:2,b:2", None), Ok(vec![on("a", 0..2), on("b", 2..4)]));
        assert_eq!(shares("a:2,b:2", Some(3)), Ok(vec![on("a", 0..2), on("b", 2..3)]));
        assert_eq!(shares("a:2,b", Some(2)), Ok(vec![on("a", 0..2)]), "b has no part in it");
        assert_eq!(shares("a,b,a:2", None), Ok(vec![on("a", 0..3), on("b", 3..4)]));
        let numeric = vec![on("me@fd77::1", 0..1), on("fd77::2", 1..4), on("10.0.0.1", 4..5)];
        assert_eq!(shares("me@fd77::1, [fd77::2]:3, 10.0.0.1", None), Ok(numeric));
    }

    #[test]
    fn what_is_no_host_is_named() {
        for (text, named) in [
            ("", "''"),
            ("a,,b", "''"),
            ("a:0", "'a:0'"),
            ("a:x", "'a:x'"),
            ("a:-1", "'a:-1'"),
            (":3", "':3'"),
            ("-oProxyCommand=x", "'-oProxyCommand=x'"),
            ("[a", "'[a'"),
            ("[a]2", "'[a]2'"),
            ("a b", "'a b'"),
            ("$(x)", "'$(x)'"),
        ] {
            let why = shares(text, None).unwrap_err();
            assert!(why.contains(named) && why.contains("SLOTS") | why.contains("slots"), "{why}");
        }
    }

    #[test]
    fn too_many_nodes_for_the_slots_are_too_many() {
        let why = shares("a:2,b", Some(4)).unwrap_err();
        assert!(why.starts_with("4 nodes need 4 slots, and the hosts have 3"), "{why}");
        let why = shares("a:4000000000,b:4000000000", None).unwrap_err();
        assert!(why.ends_with("1024 nodes at most"), "{why}");
    }

    #[test]
    fn what_other_launchers_files_say_is_understood_or_named() {
        let path = std::env::temp_dir().join(format!("hostfile-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let read = HostList::of_file(&path, None);
            std::fs::remove_file(&path).unwrap();
            read
        };
        let hosts = read("\u{feff}a slots=2 max_slots=4\nb max-slots=1 slots=1\r\n").unwrap();
        assert_eq!(hosts, parse_list("a:2,b:1").unwrap());
        for (text, says) in [
            ("a slots=1 slots=2\n", "line 1: 'slots=2': the host has slots already"),
            ("a\nb,c\n", "line 2: 'b,c' is no host; write one a line"),
            ("a\nb max_slots=x\n", "line 2: 'max_slots=x': slots are a number from 1"),
        ] {
            assert!(read(text).unwrap_err().ends_with(says), "{text}");
        }
    }

    #[test]
    fn a_pipe_is_read_when_its_writer_comes_and_not_waited_for_for_ever() {
        let pipe = std::env::temp_dir().join(format!("hosts-{}", std::process::id()));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).unwrap();
        let error = read(&pipe, Duration::from_nanos(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        let path = pipe.clone();
        let writes = std::thread::spawn(move || std::fs::write(path, "a slots=2\n"));
        assert_eq!(HostList::of_file(&pipe, None).unwrap().0.len(), 1);
        writes.join().unwrap().unwrap();
        std::fs::remove_file(pipe).unwrap();
    }
}
