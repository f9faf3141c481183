//! A node of a job: runs every case, with all the others.
#![expect(unsafe_code, reason = "shared memory is written by pointer")]

use super::board::Board;
use super::plan::{self, Case, Kind, Variant};
use anyhow::{Context, Result, ensure};
use multigrain_runtime::{Runtime, ThreadHandle};
use std::path::Path;
use std::sync::OnceLock;

/// What a node needs for all cases.
#[derive(Debug)]
struct Team {
    runtime: &'static Runtime,
    board: &'static Board,
    cases: Vec<Case>,
    /// Where each node's block lies.
    blocks: Vec<usize>,
}

/// For threads that are started by number.
static TEAM: OnceLock<Team> = OnceLock::new();

/// What the writers leave in the word.
const MOST_THREADS: u64 = 1;
const LATE: u64 = 2;
/// Memory that is freed has an area of its own.
const FREED_BYTES: usize = 68 << 10;
/// Marks: the early writer has done its part; before that, the late one is ready for it.
const READY: u64 = 1;
const WRITTEN: u64 = 2;

/// Runs every case.
pub(super) fn run(board: &Path) -> Result<()> {
    let runtime = Runtime::join()?;
    let nodes = runtime.node_count();
    ensure!(nodes > 1, "--node is for the command's own jobs");
    let me = u16::try_from(runtime.rank().index())?;
    let board = Board::open(board, me)?;
    let own = runtime.malloc(plan::block_bytes(nodes))?;
    runtime.publish(format!("block of {me}").as_bytes(), own)?;
    let lookup = |rank| runtime.lookup(format!("block of {rank}").as_bytes());
    let blocks = (0..nodes).map(lookup).collect::<Result<_, _>>()?;
    let team = TEAM.get_or_init(|| Team { runtime, board, cases: plan::cases(nodes), blocks });
    runtime.barrier(0, 0)?;
    let mut times = 1..;
    for number in 0..team.cases.len() {
        for variant in Variant::ALL {
            let mut meet = || times.next().into_iter().for_each(|time| board.meet(nodes, time));
            meet();
            board.set(0);
            meet();
            Scene::new(team, number, variant)
                .play()
                .with_context(|| format!("{}, {variant:?}", team.cases[number]))?;
        }
    }
    Ok(runtime.leave()?)
}

/// One case on this node.
#[derive(Debug, Clone, Copy)]
struct Scene {
    team: &'static Team,
    case: Case,
    variant: Variant,
    /// Its number among all scenes.
    number: usize,
    me: u16,
    /// What synchronizes has this id, so that the case's manager manages it.
    id: u32,
    word: *mut u64,
}

impl Scene {
    fn new(team: &'static Team, case: usize, variant: Variant) -> Self {
        let nodes = team.runtime.node_count();
        let (owner, byte) = plan::place(case, variant, nodes);
        let number = case * Variant::ALL.len() + usize::from(variant == Variant::Twin);
        let of = team.cases[case];
        let manager = u32::from(of.manager.unwrap_or(0));
        let id = u32::try_from(number + 1).unwrap_or(0) * u32::from(nodes) + manager;
        let word = core::ptr::with_exposed_provenance_mut(team.blocks[owner] + byte);
        let me = u16::try_from(team.runtime.rank().index()).unwrap_or(0);
        Self { team, case: of, variant, number, me, id, word }
    }

    fn play(self) -> Result<()> {
        match self.case.kind {
            Kind::Barrier => self.barrier(),
            Kind::AfterBarrier => self.after_barrier(),
            Kind::Lock => self.lock(),
            Kind::Semaphore => self.semaphore(),
            Kind::Condition => self.condition(),
            Kind::Start => self.start(),
            Kind::Join => self.join(),
            Kind::Name | Kind::UnreadName => self.name(),
            Kind::Free => self.free(),
        }
    }

    fn is_race(self) -> bool {
        self.variant == Variant::Race
    }

    fn is_early(self) -> bool {
        self.me == self.case.early
    }

    fn is_late(self) -> bool {
        self.me == self.case.late
    }

    fn write(self, value: u64) {
        // SAFETY: the word lies in a block that is never freed; nobody holds references to it.
        unsafe { self.word.write_volatile(value) };
    }

    /// The late writer's part; a twin finds what the early one wrote.
    fn write_late(self) -> Result<()> {
        // SAFETY: as above.
        let found = unsafe { self.word.read_volatile() };
        ensure!(self.is_race() || found == MOST_THREADS, "finds {found} after the early writer");
        self.write(LATE);
        Ok(())
    }

    /// All that this node wrote is where it belongs, and its epoch has ended.
    fn settle(self) -> Result<()> {
        Ok(self.team.runtime.release()?)
    }

    /// When this returns, that node has taken all that this one has sent it, and this one all that it
    /// had sent before: a question that orders nothing, for a thread that does not exist.
    fn pass_by(self, node: u16) {
        let nobody = ThreadHandle(u64::from(node) << 32 | u64::from(u32::MAX));
        let _ = self.team.runtime.thread_join(nobody);
    }

    fn barrier(self) -> Result<()> {
        let Team { runtime, board, .. } = self.team;
        if self.is_early() {
            self.write(MOST_THREADS);
            // All that is left for the barrier to send is the arrival.
            self.settle()?;
            board.set(WRITTEN);
        }
        if self.is_late() && self.is_race() {
            board.wait(WRITTEN);
            board.wait_asleep(self.case.early);
            self.pass_by(self.case.early);
            self.write_late()?;
        }
        runtime.barrier(self.id, runtime.node_count().into())?;
        if self.is_late() && !self.is_race() {
            self.write_late()?;
        }
        Ok(())
    }

    fn after_barrier(self) -> Result<()> {
        let Team { runtime, board, .. } = self.team;
        let barrier = |id| runtime.barrier(id, runtime.node_count().into());
        barrier(self.id)?;
        if self.is_early() {
            self.write(MOST_THREADS);
            self.settle()?;
            board.set(WRITTEN);
        }
        if !self.is_race() {
            barrier(self.id)?;
        }
        if self.is_late() {
            board.wait(WRITTEN);
            self.write_late()?;
        }
        Ok(())
    }

    fn lock(self) -> Result<()> {
        let Team { runtime, board, .. } = self.team;
        if self.is_early() {
            runtime.lock(self.id)?;
            if !self.is_race() {
                self.write(MOST_THREADS);
            }
            runtime.unlock(self.id)?;
            if self.is_race() {
                self.write(MOST_THREADS);
            }
            self.settle()?;
            board.set(WRITTEN);
        } else if self.is_late() {
            board.wait(WRITTEN);
            runtime.lock(self.id)?;
            self.write_late()?;
            runtime.unlock(self.id)?;
        }
        Ok(())
    }

    fn semaphore(self) -> Result<()> {
        let Team { runtime, board, .. } = self.team;
        if self.is_early() {
            self.write(MOST_THREADS);
            runtime.semaphore_post(self.id, 1)?;
            self.settle()?;
            (0..runtime.node_count()).for_each(|node| self.pass_by(node));
            board.set(WRITTEN);
        } else if self.is_late() {
            board.wait(WRITTEN);
            if !self.is_race() {
                runtime.semaphore_wait(self.id)?;
            }
            self.write_late()?;
        }
        Ok(())
    }

    fn condition(self) -> Result<()> {
        let Team { runtime, board, .. } = self.team;
        let lock = self.id + u32::from(runtime.node_count());
        if self.is_late() {
            runtime.lock(lock)?;
            board.set(READY);
            runtime.condition_wait(self.id, lock)?;
            self.write_late()?;
            runtime.unlock(lock)?;
        } else if self.is_early() {
            board.wait(READY);
            // Had when the other one is in the queue.
            runtime.lock(lock)?;
            if self.is_race() {
                runtime.unlock(lock)?;
                self.write(MOST_THREADS);
                self.settle()?;
                runtime.condition_signal(self.id, false)?;
            } else {
                self.write(MOST_THREADS);
                runtime.condition_signal(self.id, false)?;
                runtime.unlock(lock)?;
            }
        }
        Ok(())
    }

    /// Starts a thread at the node that writes with this one.
    fn spawn(self, node: u16) -> Result<ThreadHandle> {
        Ok(self.team.runtime.thread_create(node.into(), write_there, self.number as u64)?)
    }

    fn start(self) -> Result<()> {
        let Team { runtime, board, .. } = self.team;
        if !self.is_early() {
            return Ok(());
        }
        if !self.is_race() {
            self.write(MOST_THREADS);
        }
        let thread = self.spawn(self.case.late)?;
        if self.is_race() {
            self.write(MOST_THREADS);
        }
        self.settle()?;
        board.set(WRITTEN);
        let done = runtime.thread_join(thread)?;
        ensure!(done == 0, "the thread fails");
        Ok(())
    }

    fn join(self) -> Result<()> {
        let Team { runtime, board, .. } = self.team;
        if !self.is_late() {
            return Ok(());
        }
        let thread = self.spawn(self.case.early)?;
        board.wait(WRITTEN);
        if !self.is_race() {
            runtime.thread_join(thread)?;
            return self.write_late();
        }
        self.write_late()?;
        runtime.thread_join(thread)?;
        Ok(())
    }

    fn name(self) -> Result<()> {
        let Team { runtime, board, .. } = self.team;
        let name = format!("scene {}", self.number);
        let (unread, race) = (self.case.kind == Kind::UnreadName, self.is_race());
        if self.is_early() {
            if unread || !race {
                self.write(MOST_THREADS);
            }
            runtime.publish(name.as_bytes(), self.number)?;
            if !unread && race {
                self.write(MOST_THREADS);
            }
            self.settle()?;
            board.set(WRITTEN);
        } else if self.is_late() {
            board.wait(WRITTEN);
            if !(unread && race) {
                runtime.lookup(name.as_bytes())?;
            }
            self.write_late()?;
        }
        Ok(())
    }

    fn free(self) -> Result<()> {
        use core::sync::atomic::Ordering::SeqCst;
        let Team { runtime, board, .. } = self.team;
        if self.is_late() {
            let address = runtime.malloc(FREED_BYTES)?;
            board.word.store(address as u64, SeqCst);
            board.set(READY);
            board.wait(WRITTEN);
            if !self.is_race() {
                // Others may be free as well.
                while runtime.malloc(FREED_BYTES)? != address {}
            }
            self.write_late()?;
        } else if self.is_early() {
            board.wait(READY);
            self.write(MOST_THREADS);
            runtime.free(usize::try_from(board.word.load(SeqCst))?)?;
            board.set(WRITTEN);
        }
        Ok(())
    }
}

/// What a started thread does: its part of a scene; 0 if that went well.
extern "C" fn write_there(number: u64) -> u64 {
    let (Some(team), Ok(number)) = (TEAM.get(), usize::try_from(number)) else { return 1 };
    let variant = Variant::ALL[number % Variant::ALL.len()];
    let scene = Scene::new(team, number / Variant::ALL.len(), variant);
    if scene.case.kind == Kind::Start {
        team.board.wait(WRITTEN);
        return u64::from(scene.write_late().is_err());
    }
    scene.write(MOST_THREADS);
    let settled = scene.settle();
    team.board.set(WRITTEN);
    u64::from(settled.is_err())
}
