//! Fairness under contention: how often each thread gets a minipage on which threads of several nodes work as fast
//! as they can, or with some computation in between, on links that are all alike.
//!
//! Role: the shares of nodes and the longest wait are properties of time, which the model checker
//! does not know. Every cost here is the same for all nodes, so differences between shares are due to the protocol
//! (ADR 17).

use multigrain_protocol::held_accesses::{Accesses, Asking};
use multigrain_protocol::{Input, Kind};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

use super::cluster::{Broken, Cluster, Even, Event, Hold, Placed};

/// An instruction on memory that is here, and one that is stepped.
const OPERATION_NS: u64 = 200;
const STEP_NS: u64 = 2_000;
/// From a trap to its request, and from a wake-up to the retried instruction.
const TRAP_NS: u64 = 2_000;

/// What competes.
#[derive(Clone, Debug)]
pub struct Contention {
    /// Threads of each node.
    pub threads: Vec<u32>,
    /// The node with the directory entry.
    pub manager: NodeId,
    /// Between two operations of a thread.
    pub think_ns: u64,
    /// Whether nodes of odd rank only read.
    pub readers: bool,
    /// How long it goes on.
    pub virtual_ns: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Operations of each thread, node by node.
    pub done: Vec<Vec<u64>>,
    /// Of each node, how often a thread of it was granted the minipage.
    pub turns: Vec<u64>,
    /// The longest time from the begin of an operation to its end.
    pub longest_wait_ns: u64,
    /// Most faults of one operation.
    pub most_faults: u32,
}

impl Shares {
    /// How many times as much as the node that has done least, the one that has done most has done.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let of_node = |threads: &Vec<u64>| threads.iter().sum();
        let bounds = |(low, high): (u64, u64), share: u64| (low.min(share), high.max(share));
        let (least, most) = self.done.iter().map(of_node).fold((u64::MAX, 0), bounds);
        most as f64 / least.max(1) as f64
    }
}

/// Nanoseconds in which a node takes a frame.
const SERVICE_NS: u64 = 2_000;

#[derive(Clone, Copy, Debug)]
enum State {
    /// About to do its operation.
    Running,
    /// Its trap is being handled.
    Trapped,
    /// Waits for the minipage.
    Faulted,
    /// Its operation is done, and what it holds not yet retired.
    Through,
}

#[derive(Clone, Debug)]
struct Thread {
    node: NodeId,
    local: ThreadId,
    kind: Kind,
    state: State,
    accesses: Accesses<()>,
    pinned: bool,
    trapped_ns: u64,
    /// A window keeps the minipage for it; somebody waited when it was told to hold it.
    in_window: bool,
    urgent: bool,
    done: u64,
    turns: u64,
    faults: u32,
    begun_ns: u64,
}

struct Run {
    cluster: Cluster<Even>,
    minipage: MinipageId,
    threads: Vec<Thread>,
    think_ns: u64,
    longest_wait_ns: u64,
    most_faults: u32,
}

/// Runs it.
///
/// # Errors
/// [`Broken`] if an invariant of shared memory does not hold.
pub fn compete(contention: &Contention) -> Result<Shares, Broken> {
    let nodes = u16::try_from(contention.threads.len()).unwrap_or(u16::MAX);
    let placed = Placed { manager: contention.manager, owner: NodeId(0), bytes: 8 };
    let threads: Vec<Thread> = (0..nodes)
        .zip(&contention.threads)
        .flat_map(|(node, &count)| (0..count).map(move |local| (node, local)))
        .map(|(node, local)| Thread::new(node, local, contention.readers && node % 2 == 1))
        .collect();
    let mut cluster = Cluster::new(
        nodes,
        vec![placed],
        Even { service_ns: SERVICE_NS },
        (threads.len() as u64, 0),
    );
    cluster.run_at_once(&contention.threads);
    let minipage = cluster.id(0);
    let think_ns = contention.think_ns;
    let mut run = Run { cluster, minipage, threads, think_ns, longest_wait_ns: 0, most_faults: 0 };
    for thread in 0..run.threads.len() {
        run.after(OPERATION_NS * (1 + thread as u64), thread);
    }
    while let Some(happening) = run.cluster.next()? {
        if run.cluster.now_ns() > contention.virtual_ns {
            break;
        }
        match happening {
            Event::Timer { token } => run.turn(usize::try_from(token).unwrap_or(0))?,
            Event::Woken { node, thread } => run.woken(node, thread)?,
            Event::Reclaimed { .. } | Event::Control { .. } | Event::Lost { .. } => {}
        }
    }
    Ok(run.shares(nodes))
}

impl Thread {
    fn new(node: u16, local: u32, reads: bool) -> Self {
        Self {
            node: NodeId(node),
            local: ThreadId(local),
            kind: if reads { Kind::Read } else { Kind::Write },
            state: State::Running,
            accesses: Accesses::new(),
            pinned: false,
            trapped_ns: 0,
            in_window: false,
            urgent: false,
            done: 0,
            turns: 0,
            faults: 0,
            begun_ns: 0,
        }
    }
}

impl Run {
    fn after(&mut self, ns: u64, thread: usize) {
        self.cluster.timer(ns, thread as u64);
    }

    fn shares(&self, nodes: u16) -> Shares {
        let of = |node| self.threads.iter().filter(move |thread| thread.node == NodeId(node));
        let done = (0..nodes).map(|node| of(node).map(|thread| thread.done).collect()).collect();
        let turns = (0..nodes).map(|node| of(node).map(|thread| thread.turns).sum()).collect();
        // Threads that still wait have waited as well.
        let now_ns = self.cluster.now_ns();
        let waits = |thread: &&Thread| !matches!(thread.state, State::Running);
        let waiting = self.threads.iter().filter(waits).map(|thread| now_ns - thread.begun_ns);
        let longest_wait_ns = waiting.fold(self.longest_wait_ns, u64::max);
        Shares { done, turns, longest_wait_ns, most_faults: self.most_faults }
    }

    fn turn(&mut self, number: usize) -> Result<(), Broken> {
        if let Some(number) = number.checked_sub(self.threads.len()) {
            return self.end_window(number);
        }
        match self.threads[number].state {
            State::Running => self.operate(number),
            State::Trapped => self.fault(number),
            State::Through => {
                self.threads[number].state = State::Running;
                self.retire(number)?;
                self.begin(number);
                Ok(())
            }
            State::Faulted => Ok(()),
        }
    }

    /// The next operation, after some thought.
    fn begin(&mut self, number: usize) {
        let think_ns = self.think_ns;
        let thread = &mut self.threads[number];
        thread.begun_ns = self.cluster.now_ns() + think_ns;
        thread.accesses.forget();
        thread.faults = 0;
        self.after(think_ns + OPERATION_NS, number);
    }

    fn operate(&mut self, number: usize) -> Result<(), Broken> {
        let Thread { node, kind, .. } = self.threads[number];
        let allowed = match (kind, self.cluster.access(node, self.minipage)) {
            (Kind::Read, Access::ReadOnly) | (_, Access::ReadWrite) => true,
            (Kind::Read | Kind::Write, Access::NoAccess) | (Kind::Write, Access::ReadOnly) => false,
        };
        if !allowed {
            self.threads[number].state = State::Trapped;
            self.after(TRAP_NS, number);
            return Ok(());
        }
        let value = self.cluster.read(node, self.minipage)?;
        if kind == Kind::Write {
            self.cluster.write(node, self.minipage, value + 1);
        }
        let now_ns = self.cluster.now_ns();
        let thread = &mut self.threads[number];
        thread.done += 1;
        self.longest_wait_ns = self.longest_wait_ns.max(now_ns.saturating_sub(thread.begun_ns));
        if thread.accesses.holds_any() {
            thread.state = State::Through;
            self.after(STEP_NS, number);
        } else {
            self.begin(number);
        }
        Ok(())
    }

    fn fault(&mut self, number: usize) -> Result<(), Broken> {
        let minipage = self.minipage;
        let thread = &mut self.threads[number];
        (thread.state, thread.faults) = (State::Faulted, thread.faults + 1);
        self.most_faults = self.most_faults.max(thread.faults);
        let Thread { node, local: thread, kind, .. } = *thread;
        let Asking { given_up, pinned } = self.threads[number].accesses.fault((), minipage);
        for minipage in given_up {
            self.cluster.retire(node, thread, minipage, true)?;
        }
        self.threads[number].pinned = pinned;
        self.threads[number].trapped_ns = self.cluster.now_ns();
        let input = if pinned {
            Input::PinnedRetry { thread, minipage, kind }
        } else {
            Input::Fault { thread, minipage, kind }
        };
        self.cluster.step(node, input)?;
        // A thread that begins to wait sends what its node has deferred.
        self.cluster.flush(node);
        Ok(())
    }

    fn woken(&mut self, node: NodeId, local: ThreadId) -> Result<(), Broken> {
        let mut all = self.threads.iter();
        let Some(number) = all.position(|thread| (thread.node, thread.local) == (node, local))
        else {
            return Ok(());
        };
        let minipage = self.minipage;
        self.cluster.step(node, Input::Resumed { thread: local, minipage })?;
        if let Some(told) = self.cluster.take_asked_to_hold() {
            self.hold(number, told)?;
        }
        let thread = &mut self.threads[number];
        (thread.state, thread.turns) = (State::Running, thread.turns + 1);
        self.after(TRAP_NS, number);
        Ok(())
    }

    /// A thread keeps the minipage for a while, or until its instruction is through, as the runtime
    /// does.
    fn hold(&mut self, number: usize, told: Hold) -> Result<(), Broken> {
        let Thread { node, trapped_ns, pinned, .. } = self.threads[number];
        self.threads[number].urgent = told.urgent;
        let waited_ns = self.cluster.now_ns() - trapped_ns;
        let window_ns = match told.turns.count {
            0 => 0,
            _ => self.cluster.window_ns(node, self.minipage, (waited_ns, told.turns)),
        };
        if window_ns > 0 {
            self.threads[number].in_window = true;
            self.after(window_ns, self.threads.len() + number);
        }
        if told.urgent && (window_ns == 0 || pinned) {
            self.threads[number].accesses.hold(self.minipage);
        } else if window_ns == 0 {
            self.retire_one(number)?;
        }
        Ok(())
    }

    fn end_window(&mut self, number: usize) -> Result<(), Broken> {
        let thread = &mut self.threads[number];
        thread.in_window = false;
        if thread.accesses.holds_any() {
            return Ok(());
        }
        self.retire_one(number)
    }

    fn retire_one(&mut self, number: usize) -> Result<(), Broken> {
        let Thread { node, local: thread, urgent, .. } = self.threads[number];
        self.cluster.retire(node, thread, self.minipage, urgent)
    }

    fn retire(&mut self, number: usize) -> Result<(), Broken> {
        let Thread { node, local: thread, in_window, urgent, .. } = self.threads[number];
        for minipage in self.threads[number].accesses.retire() {
            if !in_window {
                self.cluster.retire(node, thread, minipage, urgent)?;
            }
        }
        Ok(())
    }
}

/// Every case: 2, 4 and 8 nodes, in tight loops and with 50 us of thought, adding and in a mix with
/// readers, the manager among those that compete and not; and eight threads of a node against one.
#[must_use]
pub fn contentions() -> Vec<Contention> {
    let mut all = Vec::new();
    for nodes in [2, 4, 8] {
        for think_ns in [0, 50_000] {
            for readers in [false, true] {
                for manager in [NodeId(0), NodeId(1)] {
                    let threads = vec![1; nodes];
                    let virtual_ns = 50_000_000;
                    all.push(Contention { threads, manager, think_ns, readers, virtual_ns });
                }
            }
        }
    }
    for threads in [vec![8, 1], vec![8, 1, 1, 1], vec![1, 8, 1, 1, 1, 1, 1, 1]] {
        for manager in [NodeId(0), NodeId(1)] {
            let threads = threads.clone();
            let (think_ns, readers, virtual_ns) = (0, false, 50_000_000);
            all.push(Contention { threads, manager, think_ns, readers, virtual_ns });
        }
    }
    all
}

/// Why a case is unfair, if it is. What nodes do must differ by less than a factor of 2, no operation
/// may take more than two faults, or wait for more than a turn of every node.
#[must_use]
pub fn complaint(contention: &Contention, shares: &Shares) -> Option<String> {
    let nodes = contention.threads.len() as u64;
    // A request, the page and what it is taken away with, of 15 us each with their service, and a
    // window of four of those in which nobody has the page. Several threads of a node use its last part
    // together, and others get as much.
    let most = contention.threads.iter().copied().max().unwrap_or(1);
    let bound_ns = (nodes + 1) * (40_000 * u64::from(most)).max(130_000);
    let ratio = shares.ratio();
    if ratio > 2.0 {
        Some(format!("shares differ by {ratio:.1}: {shares:?}"))
    } else if shares.most_faults > 2 {
        Some(format!("an operation took {} faults", shares.most_faults))
    } else if shares.longest_wait_ns > bound_ns {
        Some(format!("a thread waited {} ns, more than {bound_ns}", shares.longest_wait_ns))
    } else {
        None
    }
}
