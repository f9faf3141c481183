//! A small process manager: a PMI-1 server for one job, whose behaviour can be wrong in several ways.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

use super::SECONDS;
use crate::support::assert_gone;

/// How the server of the tests behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    Good,
    /// Values have 64 bytes at most.
    Terse,
    /// Answers what is no PMI.
    Nonsense,
    /// Hangs up at the barrier.
    HangsUp,
    /// Refuses to set values.
    Refuses,
    /// Says nothing at the barrier, and stays.
    Silent,
    /// Gives other values than were set.
    Lies,
    /// Gives the digest of node 1's certificate as another than it is.
    Forges,
}

pub(crate) type Space = Mutex<BTreeMap<String, String>>;

/// Whether a value is the last piece of what node 1 says of itself, which ends with its digest.
fn is_end_of_node_1(key: &str, value: &str) -> bool {
    key.starts_with("multigrain-node-1") && value.starts_with('.')
}

/// Serves one process to its end.
pub(crate) fn serve(stream: UnixStream, manners: Manners, space: &Space, barrier: &Barrier) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    while let Some(Ok(line)) = lines.next() {
        let words: Vec<(&str, &str)> =
            line.split(' ').map(|word| word.split_once('=').unwrap()).collect();
        let field = |name: &str| words.iter().find(|(key, _)| *key == name).unwrap().1;
        let answer = match field("cmd") {
            _ if manners == Manners::Nonsense => "220 mail.example.org ESMTP".to_owned(),
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            "get_maxes" => {
                let most = if manners == Manners::Terse { 64 } else { 1024 };
                format!("cmd=maxes kvsname_max=64 keylen_max=64 vallen_max={most}")
            }
            "get_my_kvsname" => "cmd=my_kvsname kvsname=space_1".to_owned(),
            "put" if manners == Manners::Refuses => "cmd=put_result rc=-1 msg=no_space".to_owned(),
            "put" => {
                let (key, value) = (field("key").to_owned(), field("value").to_owned());
                assert!(field("kvsname") == "space_1" && key.len() < 64 && value.len() < 1024);
                assert!(manners != Manners::Terse || value.len() < 64, "{line}");
                assert!(space.lock().unwrap().insert(key, value).is_none(), "set twice: {line}");
                "cmd=put_result rc=0 msg=success".to_owned()
            }
            "barrier_in" if manners == Manners::HangsUp => return,
            "barrier_in" if manners == Manners::Silent => continue,
            "barrier_in" => {
                barrier.wait();
                "cmd=barrier_out rc=0".to_owned()
            }
            "get" if manners == Manners::Lies => "cmd=get_result rc=0 value=.00".to_owned(),
            "get" => match space.lock().unwrap().get(field("key")) {
                Some(value)
                    if manners == Manners::Forges && is_end_of_node_1(field("key"), value) =>
                {
                    let end = if value.ends_with('0') { '1' } else { '0' };
                    let rest = &value[..value.len() - 1];
                    format!("cmd=get_result rc=0 msg=success value={rest}{end}")
                }
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found".to_owned(),
            },
            "finalize" => "cmd=finalize_ack rc=0".to_owned(),
            _ => panic!("not a command that a node gives: {line}"),
        };
        if stream.write_all(format!("{answer}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// Runs a program as the processes of a job of the tests' own server; what became of each.
pub(crate) fn manage(
    program: &Path,
    argument: &str,
    nodes: u32,
    manners: Manners,
    variables: &[(&str, &str)],
) -> Vec<Output> {
    let space = Arc::<Space>::default();
    let barrier = Arc::new(Barrier::new(usize::try_from(nodes).unwrap()));
    let mut servers: Vec<JoinHandle<()>> = Vec::new();
    let mut children = Vec::new();
    for rank in 0..nodes {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("timeout");
        command.args(["--foreground", SECONDS]).arg(program).arg(argument);
        command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", nodes.to_string());
        command.env("PMI_FD", "0").envs(variables.iter().copied());
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        children.push(command.spawn().unwrap());
        let (space, barrier) = (Arc::clone(&space), Arc::clone(&barrier));
        servers.push(std::thread::spawn(move || serve(ours, manners, &space, &barrier)));
    }
    let ended = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    servers.into_iter().for_each(|server| server.join().unwrap());
    assert_gone(program);
    ended
}
