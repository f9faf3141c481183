//! A job that runs, watched from outside.

use super::leftovers::{self, Before, Process};
use super::outcome::{End, Seen, Struck};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A job hangs that has done nothing for so long, or is busy without an end for so long: other
/// work on the machine may slow it down a lot.
const IDLE: Duration = Duration::from_secs(60);
const BUSY: Duration = Duration::from_secs(600);
/// Between two looks at what a job does.
const STEP: Duration = Duration::from_secs(5);
/// Processor time within which nothing is done, in clock ticks.
const NOTHING: u64 = 2;
/// How long a job's processes may outlive a launcher that was killed.
const LAUNCHER_KILLED_WAIT: Duration = Duration::from_secs(3);
/// Between two looks.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(2);

type Lines = Arc<Mutex<Vec<(Duration, String)>>>;

/// A job that runs. Dropping it ends all of it.
pub(super) struct Running {
    child: Child,
    start: Instant,
    mark: String,
    /// Directory for temporary files of this job alone.
    own: PathBuf,
    before: Before,
    /// The job's id, once a node was seen.
    job: Option<String>,
    ended: Option<(ExitStatus, Duration)>,
    out: (Lines, JoinHandle<()>),
    err: (Lines, JoinHandle<()>),
    /// Connections that stay open as long as the job.
    pub(super) held: Vec<OwnedFd>,
}

impl Running {
    pub(super) fn start(words: Vec<OsString>) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let own = std::env::temp_dir().join(format!("multigrain-inject-{mark}"));
        fs::create_dir(&own).with_context(|| format!("cannot make {}", own.display()))?;
        let before = Before::look(&own);
        let mut words = words.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
        command.args(words).current_dir(&own).env("TMPDIR", &own).env(leftovers::MARK, &mark);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn().context("cannot start the launcher")?;
        let out = lines(child.stdout.take(), start);
        let err = lines(child.stderr.take(), start);
        let (job, ended, held) = (None, None, Vec::new());
        Ok(Self { child, start, mark, own, before, job, ended, out, err, held })
    }

    /// The launcher's process id.
    pub(super) fn launcher(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// How long it has run.
    pub(super) fn age(&self) -> Duration {
        self.start.elapsed()
    }

    /// All processes of the job.
    pub(super) fn processes(&mut self) -> Vec<Process> {
        let found = leftovers::processes(&self.mark);
        let id = found.iter().find_map(|process| process.variable("MULTIGRAIN_JOB"));
        self.job = self.job.take().or_else(|| id.map(str::to_owned));
        found
    }

    /// The node of this rank.
    pub(super) fn node(&mut self, rank: u32) -> Option<Process> {
        self.processes().into_iter().find(|process| process.rank() == Some(rank))
    }

    /// Lets the job run for a while, or to its end.
    pub(super) fn pass(&mut self, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        while !self.has_ended()? && Instant::now() < until {
            if self.job.is_none() {
                self.processes();
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?.map(|status| (status, self.start.elapsed()));
        }
        Ok(self.ended.is_some())
    }

    /// To the end, or to the conviction that there will be none.
    pub(super) fn watch(&mut self, struck: Struck) -> Result<Seen> {
        self.wait_for_end()?;
        let (end, at) = match self.ended {
            Some((status, at)) => (end_of(status), at),
            None => {
                let doing = self.processes().iter().map(Process::describe).collect();
                (End::Hang(doing), self.start.elapsed())
            }
        };
        let patience =
            if matches!(end, End::Signal(_)) { LAUNCHER_KILLED_WAIT } else { Duration::ZERO };
        let (orphans, left) = self.remains(patience);
        self.kill();
        let said = |lines: &(Lines, JoinHandle<()>)| {
            let deadline = Instant::now() + LAUNCHER_KILLED_WAIT;
            while !lines.1.is_finished() && Instant::now() < deadline {
                thread::sleep(POLL_INTERVAL);
            }
            lines.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        let out = said(&self.out).into_iter().map(|(_, line)| line).collect();
        Ok(Seen { struck, end, at, out, err: said(&self.err), orphans, left })
    }

    /// Returns at the end, or when there will be none.
    fn wait_for_end(&mut self) -> io::Result<()> {
        let ticks = |job: &mut Self| job.processes().iter().map(Process::ticks).sum::<u64>();
        let (start, mut worked, mut before) = (Instant::now(), Instant::now(), 0);
        while !self.has_ended()? && worked.elapsed() < IDLE && start.elapsed() < BUSY {
            self.pass(STEP)?;
            let now = ticks(self);
            if now > before + NOTHING {
                (worked, before) = (Instant::now(), now);
            }
        }
        Ok(())
    }

    /// Processes, and other things of the job, that are still there after so long.
    fn remains(&mut self, patience: Duration) -> (Vec<String>, Vec<String>) {
        let deadline = Instant::now() + patience;
        loop {
            let found = self.processes();
            let left = self.before.left(&self.own, self.job.as_deref());
            if (found.is_empty() && left.is_empty()) || Instant::now() >= deadline {
                return (found.iter().map(Process::describe).collect(), left);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in self.processes() {
            let _ = kill_process(process.pid, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.own);
    }
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

/// Collects lines in a thread, each with the time since `start`.
fn lines(pipe: Option<impl Read + Send + 'static>, start: Instant) -> (Lines, JoinHandle<()>) {
    let lines = Lines::default();
    let theirs = Arc::clone(&lines);
    let reader = thread::spawn(move || {
        for line in
            pipe.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok)
        {
            theirs.lock().unwrap_or_else(PoisonError::into_inner).push((start.elapsed(), line));
        }
    });
    (lines, reader)
}
