//! The calls of a program that need one service alone; the service documents what each does.

use multigrain_protocol::Kind;

use super::Runtime;
use crate::atomic_op::AtomicOp;
use crate::atomics;
use crate::deadlines::Deadline;
use crate::directory::names::Names;
use crate::error::Error;
use crate::heap::{Heap, Policy};
use crate::prefetch::Prefetcher;
use crate::program::ThreadFunction;
use crate::signal_reentrancy::{Inside, Outside};
use crate::sync::{SyncId, WaitLimit};
use crate::threads::{ThreadAttributes, ThreadHandle, Threads};

/// Memory.
impl Runtime {
    /// `bytes` of shared memory, fresh or used before; 0 bytes are 1. It is aligned to 16 bytes, to 8 if
    /// it has fewer than 16, and to a page beyond half a page.
    ///
    /// # Errors
    /// No room.
    pub fn malloc(&self, bytes: usize) -> Result<usize, Error> {
        self.services.heap.malloc_with(self.member()?, bytes, Policy::new())
    }

    /// `bytes` of shared memory as a policy wants it, fresh or used before; 0 bytes are 1.
    ///
    /// # Errors
    /// A grain of zero bytes, or no room.
    pub fn malloc_with(&self, bytes: usize, policy: Policy) -> Result<usize, Error> {
        self.services.heap.malloc_with(self.member()?, bytes, policy)
    }

    /// `bytes` of zeroed shared memory; 0 bytes are 1.
    ///
    /// # Errors
    /// No room.
    pub fn calloc(&self, bytes: usize) -> Result<usize, Error> {
        self.services.heap.calloc(self.member()?, bytes)
    }

    /// `bytes` of shared memory whose address is a multiple of `align`; 0 bytes are 1.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `align` is no power of two up to 4 MiB; no room.
    pub fn memalign(&self, align: usize, bytes: usize) -> Result<usize, Error> {
        self.services.heap.memalign(&self.driver, align, bytes)
    }

    /// An allocation with another size, in its place or a new one of this node; 0 bytes are 1.
    ///
    /// # Errors
    /// [`Error::NotShared`] if it is none, or an array; no room: it is as it was then.
    pub fn realloc(&self, address: usize, bytes: usize) -> Result<usize, Error> {
        self.services.heap.realloc(&self.driver, address, bytes)
    }

    /// Bytes of an allocation that may be used, as many as were asked for or more.
    ///
    /// # Errors
    /// [`Error::NotShared`] if it is none, or an array.
    pub fn usable_bytes(&self, address: usize) -> Result<usize, Error> {
        Heap::usable_bytes(&self.driver, address)
    }

    /// `bytes` in one block of minipages of `grain` bytes, rounded up to pages, of the job's
    /// consistency.
    ///
    /// # Errors
    /// Zero bytes or grain, or no room.
    pub fn malloc_grain(&self, bytes: usize, grain: usize) -> Result<usize, Error> {
        self.services.heap.malloc_grain(self.member()?, bytes, grain)
    }

    /// `count` elements of `bytes`, of the job's consistency and at its natural grain: each a
    /// minipage of its own (or each chunk of them) if it is sequential.
    ///
    /// # Errors
    /// Zero count or bytes, or no room.
    pub fn malloc_array(&self, count: usize, bytes: usize) -> Result<usize, Error> {
        self.malloc_array_with(count, bytes, Policy::new())
    }

    /// `count` elements of `bytes` as a policy wants them; [`Runtime::element`] knows where they
    /// lie.
    ///
    /// # Errors
    /// Zero count, bytes or grain, or no room.
    pub fn malloc_array_with(
        &self,
        count: usize,
        bytes: usize,
        policy: Policy,
    ) -> Result<usize, Error> {
        self.services.heap.malloc_array(self.member()?, count, bytes, policy)
    }

    /// Address of element `index` of an array.
    ///
    /// # Errors
    /// [`Error::NotShared`] if `array` is no array, [`Error::Invalid`] if it has no such element.
    pub fn element(&self, array: usize, index: usize) -> Result<usize, Error> {
        self.services.heap.element(self.member()?, array, index)
    }

    /// Addresses of the first elements of an array, as many as `out` takes.
    ///
    /// # Errors
    /// As [`Runtime::element`], for the last one.
    pub fn elements(&self, array: usize, out: &mut [usize]) -> Result<(), Error> {
        self.services.heap.elements(self.member()?, array, out)
    }

    /// Gives an allocation back; any node may.
    ///
    /// # Errors
    /// [`Error::NotShared`] or [`Error::NotPermitted`] for what is no live allocation.
    pub fn free(&self, address: usize) -> Result<(), Error> {
        self.services.heap.free(self.member()?, address)
    }

    /// Whether an address is shared memory of an allocation, or was made for some.
    #[must_use]
    pub fn is_shared(&self, address: usize) -> bool {
        self.driver.memory().translate(address).is_some()
    }

    /// Whether an address was shared memory of an allocation that is freed, and has been given up since.
    #[must_use]
    pub fn is_freed(&self, address: usize) -> bool {
        self.driver.memory().is_retired(address)
    }

    /// Checks that a range lies in one allocation, or for an array of minipages that share pages, in one, and that this
    /// node may access it so.
    ///
    /// # Errors
    /// [`Error::NotShared`] if it begins in none, [`Error::Invalid`] if it ends beyond it; [`Error::Denied`] in a segment
    /// that this node is not attached to, or only to read where that is not enough.
    pub fn check_range(&self, address: usize, bytes: usize, kind: Kind) -> Result<(), Error> {
        Heap::check_range(self.member()?, address, bytes, kind)
    }

    /// Sets the chunking level of later allocations of this node; 1 is off.
    ///
    /// # Errors
    /// [`Error::Invalid`] for 0 and beyond 65,536.
    pub fn set_chunking(&self, level: u32) -> Result<(), Error> {
        self.services.heap.set_chunking(level)
    }
}

/// Copies ahead of time.
impl Runtime {
    /// Asks for copies of the minipages in `bytes` from `address`, without waiting for them (Millipage
    /// 4.3.1, the prefetch calls of LU).
    ///
    /// # Errors
    /// As [`Runtime::touch`].
    pub fn prefetch(&self, address: usize, bytes: usize, kind: Kind) -> Result<(), Error> {
        Prefetcher::prefetch(self.member()?, address, bytes, kind)
    }

    /// Hands read copies of the minipages to every node (Millipage 4.3.1, TSP), without waiting
    /// for them.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for a range that ends beyond its allocation.
    pub fn push(&self, address: usize, bytes: usize) -> Result<(), Error> {
        Prefetcher::push(self.member()?, address, bytes)
    }

    /// Returns once this node has held every minipage for `kind` of access: what a system call
    /// needs, for the kernel does not trap but fails.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for a range that ends beyond its allocation; [`Error::Denied`] in a
    /// segment that this node is not attached to, or only to read where that is not enough.
    pub fn touch(&self, address: usize, bytes: usize, kind: Kind) -> Result<(), Error> {
        self.prefetcher.touch(self.member()?, address, bytes, kind).map(drop)
    }
}

/// Atomic operations.
impl Runtime {
    /// Does an atomic operation on a word of sequentially consistent memory, where the word lives; the value before.
    /// Many nodes may use it so without moving its minipage, beside plain accesses and atomic instructions.
    ///
    /// # Errors
    /// [`Error::NotShared`]; [`Error::Invalid`] for an address that is not aligned, a word that ends beyond its allocation, or
    /// memory of another consistency; [`Error::Denied`] in a segment that this node is not attached to write.
    pub fn fetch_op(&self, address: usize, op: AtomicOp) -> Result<u64, Error> {
        atomics::fetch_op(self.member()?, &self.prefetcher, address, op)
    }
}

/// Synchronization.
impl Runtime {
    /// Waits until this thread holds lock `id`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if it holds the lock already; [`Error::Limit`] for one id too many.
    pub fn lock(&'static self, id: impl Into<SyncId>) -> Result<(), Error> {
        self.lock_with(id, WaitLimit::Endless)
    }

    /// The same, for as long as is said.
    ///
    /// # Errors
    /// As [`Runtime::lock`]; [`Error::Busy`] without a wait, also if this thread holds it;
    /// [`Error::TimedOut`].
    pub fn lock_with(&'static self, id: impl Into<SyncId>, limit: WaitLimit) -> Result<(), Error> {
        self.sync.lock(self.member()?, id.into().value(), limit)
    }

    /// Gives lock `id` back.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not hold it.
    pub fn unlock(&self, id: impl Into<SyncId>) -> Result<(), Error> {
        self.sync.unlock(self.member()?, id.into().value())
    }

    /// Waits until this thread has read-write lock `id` for a kind of access. A thread that has it to read gets it so
    /// again at once.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if it has it otherwise; [`Error::Limit`] for one id too many;
    /// [`Error::Busy`] if it `tries`.
    pub fn read_write_lock(
        &self,
        id: impl Into<SyncId>,
        kind: Kind,
        tries: bool,
    ) -> Result<(), Error> {
        self.sync.read_write_lock(self.member()?, id.into().value(), (kind, tries))
    }

    /// Gives read-write lock `id` back.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not have it.
    pub fn read_write_unlock(&self, id: impl Into<SyncId>) -> Result<(), Error> {
        self.sync.read_write_unlock(self.member()?, id.into().value())
    }

    /// Takes one unit of semaphore `id`.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub fn semaphore_wait(&'static self, id: impl Into<SyncId>) -> Result<(), Error> {
        self.semaphore_wait_with(id, WaitLimit::Endless)
    }

    /// The same, for as long as is said.
    ///
    /// # Errors
    /// As [`Runtime::semaphore_wait`]; [`Error::Busy`] without a wait; [`Error::TimedOut`].
    pub fn semaphore_wait_with(
        &'static self,
        id: impl Into<SyncId>,
        limit: WaitLimit,
    ) -> Result<(), Error> {
        self.sync.semaphore_wait(self.member()?, id.into().value(), limit)
    }

    /// Adds units to semaphore `id`. Waits only where much waits already for its manager to take. In a signal's handler that has
    /// interrupted its thread inside of the runtime ([`crate::Inside`]) another thread does it, soon.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads or ids in use; as [`Runtime::semaphore_post_later`] there.
    pub fn semaphore_post(&self, id: impl Into<SyncId>, count: u32) -> Result<(), Error> {
        if Inside::is_nested() {
            return self.semaphore_post_later(id, count);
        }
        self.sync.semaphore_post(self.member()?, id.into().value(), count)
    }

    /// The same, always by another thread: nothing is allocated here.
    ///
    /// # Errors
    /// [`Error::Limit`] for too many such posts that wait.
    pub fn semaphore_post_later(&self, id: impl Into<SyncId>, count: u32) -> Result<(), Error> {
        self.member()?;
        self.sync.post_later(id.into().value(), count)
    }

    /// Gives `lock` back, waits for a signal on condition `id`, takes `lock` again.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not hold the lock.
    pub fn condition_wait(
        &'static self,
        id: impl Into<SyncId>,
        lock: impl Into<SyncId>,
    ) -> Result<(), Error> {
        let ids = (id.into().value(), lock.into().value());
        self.sync.condition_wait(self.member()?, ids, None)
    }

    /// The same, until then.
    ///
    /// # Errors
    /// As [`Runtime::condition_wait`]; [`Error::TimedOut`], and this thread holds the lock.
    pub fn condition_wait_until(
        &'static self,
        id: impl Into<SyncId>,
        lock: impl Into<SyncId>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let ids = (id.into().value(), lock.into().value());
        self.sync.condition_wait(self.member()?, ids, Some(deadline))
    }

    /// Wakes one waiting thread of condition `id`, or all. Waits as [`Runtime::semaphore_post`] does.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub fn condition_signal(&self, id: impl Into<SyncId>, all: bool) -> Result<(), Error> {
        self.sync.condition_signal(self.member()?, id.into().value(), all)
    }

    /// Runs `run` in the first thread of the job that comes with this id; returns when it has run.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] inside of `run`; [`Error::Limit`] for one id too many.
    pub fn once(&'static self, id: impl Into<SyncId>, run: impl FnOnce()) -> Result<(), Error> {
        self.sync.once(self.member()?, id.into().value(), || {
            let _outside = Outside::new();
            run();
        })
    }

    /// An id that nobody in the job has: from 2^31 on, which programs leave to this.
    ///
    /// # Errors
    /// [`Error::Limit`] when this node has given out its share.
    pub fn new_id(&self) -> Result<u32, Error> {
        self.sync.new_id(self.member()?)
    }

    /// The id that an address of shared memory is.
    ///
    /// # Errors
    /// [`Error::NotShared`].
    pub fn id_at(&self, address: usize) -> Result<SyncId, Error> {
        match self.driver.memory().translate(address) {
            Some(_) => Ok(SyncId::at(address)),
            None => Err(Error::NotShared(address)),
        }
    }

    /// Returns when what this node wrote can be seen by whoever is told next by other means than
    /// synchronization calls (a thread's start, a free, a name).
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub fn release(&self) -> Result<(), Error> {
        self.member()?.release()
    }
}

/// Threads and names.
impl Runtime {
    /// The next node in turn, for threads that may run anywhere.
    pub fn any_node(&self) -> i64 {
        self.services.threads.any_node(&self.driver)
    }

    /// Starts `function(argument)` on a node; returns when it runs. The function is one of the
    /// program: of its executable, or of a shared object that needs libmultigrain and was loaded
    /// before this process joined.
    ///
    /// # Errors
    /// [`Error::NoNode`]; [`Error::Invalid`] for a function of no such object; [`Error::Limit`] when
    /// the node can start no more threads, with the limit's name.
    pub fn thread_create(
        &self,
        node: i64,
        function: ThreadFunction,
        argument: u64,
    ) -> Result<ThreadHandle, Error> {
        self.thread_create_with(node, ThreadAttributes::default(), function, argument)
    }

    /// The same, of a thread with these attributes.
    ///
    /// # Errors
    /// As [`Runtime::thread_create`]; [`Error::Invalid`] for a stack of less than
    /// [`ThreadAttributes::LEAST_STACK_BYTES`], or more than [`ThreadAttributes::MOST_STACK_BYTES`].
    pub fn thread_create_with(
        &self,
        node: i64,
        attributes: ThreadAttributes,
        function: ThreadFunction,
        argument: u64,
    ) -> Result<ThreadHandle, Error> {
        let start = (function, argument);
        self.services.threads.create(self.member()?, node, attributes, start)
    }

    /// Waits for the end of a thread; returns its result.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a thread that never was, or was joined or detached already.
    pub fn thread_join(&self, handle: ThreadHandle) -> Result<u64, Error> {
        Threads::join(self.member()?, handle)
    }

    /// Nobody will wait for the end of a thread: its node forgets it then.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a thread that never was, or was joined or detached already.
    pub fn thread_detach(&self, handle: ThreadHandle) -> Result<(), Error> {
        Threads::detach(self.member()?, handle)
    }

    /// Makes an address, or a number, known to the job. A name can be given again: later look-ups see the last.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or overlong name; [`Error::Limit`] for one name too many.
    pub fn publish(&self, name: &[u8], address: usize) -> Result<(), Error> {
        Names::publish(self.member()?, name, address)
    }

    /// The address published under a name; waits for it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or overlong name.
    pub fn lookup(&self, name: &[u8]) -> Result<usize, Error> {
        Names::lookup(self.member()?, name)
    }
}
