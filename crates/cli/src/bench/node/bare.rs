//! The bare mechanism under a fetch: a trap, a plain round trip, two changes of protection. One thread on each
//! side, the fault handled inline, no protocol: only the guard is the project's own.
//!
//! A process has room for one shared memory, and a measuring node's is the runtime's. So each of the
//! two nodes has a companion, a process on the same CPU with a memory of its own, which sleeps except in
//! its turns. Its standard input is a raw socket to the other companion, its standard output a stream
//! to its node: a byte from there begins a turn, and the times come back.
#![expect(unsafe_code, reason = "the signal entry, and pages by address")]

use super::raw_sockets::Raw;
use super::team::{self, Team};
use super::{NodeArgs, traps};
use crate::bench::clock::{load, store, timed};
use crate::bench::samples::Samples;
use anyhow::{Context, Result};
use core::ffi::{c_int, c_void};
use multigrain_memory::{Area, Config, Memory, Shape, VIEWS_BASE};
use multigrain_types::{Access, AreaId, MinipageId, PAGE_BYTES};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Pages fetched in a turn; the first waits until the other side has its turn, too, and does not count.
const PAGES: u32 = 1 + BATCH;
const BATCH: u32 = 64;
/// A time on its way from companion to node.
const TIME_BYTES: usize = size_of::<f64>();

/// A node's companion; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Bare {
    child: Child,
    control: Option<UnixStream>,
    measures: bool,
}

impl Bare {
    /// Starts the companions of nodes 0 and 1; both call it.
    pub(super) fn start(team: &Team, args: &NodeArgs) -> Result<Self> {
        let raw = Raw::connect(team.runtime, "bare", args.transport, args.wait)?;
        let (control, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "node", "bare", "--samples", "1"]);
        command.args(["--wait", &args.wait.to_string()]);
        let socket = raw.into_only_socket()?;
        command.stdin(Stdio::from(socket)).stdout(Stdio::from(OwnedFd::from(theirs)));
        let child = command.spawn().context("starting the companion of this node")?;
        Ok(Self { child, control: Some(control), measures: team.measures() })
    }

    /// One turn of the two companions, while their nodes sleep; node 0 has the times.
    pub(super) fn turn(&mut self) -> Result<Samples> {
        let control = self.control.as_mut().context("the companion has ended")?;
        control.write_all(&[1])?;
        let count = if self.measures { BATCH } else { 1 };
        let mut times = Samples::default();
        for _ in 0..count {
            let mut time = [0; TIME_BYTES];
            control.read_exact(&mut time).context("the companion gave no times")?;
            times.push(f64::from_ne_bytes(time));
        }
        Ok(if self.measures { times } else { Samples::default() })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The end of its control stream ends it.
        self.control = None;
        let _ = self.child.wait();
    }
}

/// A companion's half of the experiment.
#[derive(Debug)]
struct Half {
    memory: Memory,
    pages: Area,
    raw: Raw,
}

/// Where the signal handler finds it.
static HALF: OnceLock<Half> = OnceLock::new();

/// Runs one companion.
pub(super) fn run(args: &NodeArgs) -> Result<()> {
    let measures = team::rank()? == 0;
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut control = UnixStream::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let guard = multigrain_runtime::Config::from_environment()?.memory.guard;
    let bytes = u64::from(PAGES) * PAGE_BYTES as u64;
    let memory = Memory::new(&Config::new(bytes, guard))?;
    let shape = Shape::Pages { pages: 1 };
    let pages = Area { id: AreaId(0), base: VIEWS_BASE, file_offset: 0, bytes, shape };
    memory.map_area(pages, !measures)?;
    let half = HALF.get_or_init(|| Half { memory, pages, raw: Raw::of(args.wait, socket) });
    if measures {
        traps::catch(half.memory.signal(), on_trap)?;
    }
    let mut start = [0];
    while control.read(&mut start)? > 0 {
        let times = if measures { half.fetch_all()? } else { half.serve_all()? };
        for time in times {
            control.write_all(&time.to_ne_bytes())?;
        }
    }
    Ok(())
}

impl Half {
    fn minipages() -> impl Iterator<Item = MinipageId> {
        (0..PAGES).map(|index| MinipageId::new(AreaId(0), index))
    }

    /// The bytes of a page, where the runtime has them, too.
    #[expect(clippy::mut_from_ref, reason = "pages are reached by address")]
    fn page(&self, minipage: MinipageId) -> &mut [u8] {
        let (start, len) = self.memory.privileged(minipage);
        // SAFETY: the privileged view is mapped for the length of the minipage; the one thread of
        // this process uses one such slice at a time.
        unsafe { core::slice::from_raw_parts_mut(start, len) }
    }

    /// Node 0: reads a word of every page, which has to come; then has none again.
    fn fetch_all(&self) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        for minipage in Self::minipages() {
            let address = self.pages.address(minipage.index());
            let time = timed(|| {
                load(address);
            });
            times.push(time);
        }
        for minipage in Self::minipages() {
            self.memory.protect(minipage, Access::ReadOnly, Access::NoAccess)?;
        }
        Ok(times.split_off(1))
    }

    /// Node 1: has every page writable, and written; answers for each. The time says that it is done.
    fn serve_all(&self) -> Result<Vec<f64>> {
        for minipage in Self::minipages() {
            store(self.pages.address(minipage.index()), 7);
        }
        for minipage in Self::minipages() {
            self.raw.take_request()?;
            self.memory.protect(minipage, Access::ReadWrite, Access::ReadOnly)?;
            self.raw.reply(self.page(minipage))?;
        }
        for minipage in Self::minipages() {
            self.memory.protect(minipage, Access::ReadOnly, Access::ReadWrite)?;
        }
        Ok(vec![0.0])
    }

    fn fetch(&self, minipage: MinipageId) -> Result<()> {
        self.raw.request(self.page(minipage))?;
        Ok(self.memory.protect(minipage, Access::NoAccess, Access::ReadOnly)?)
    }
}

extern "C" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let fetched = HALF.get().and_then(|half| {
        let trap = half.memory.decode(signal, info, context)?;
        half.fetch(half.memory.translate(trap.address)?).ok()
    });
    if fetched.is_none() {
        // SAFETY: restoring the default action is always allowed; the access then ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
