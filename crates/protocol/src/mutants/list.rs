//! The list of all mutants: a name, and what it breaks. To find where it is bent, search for the name in quotes.

/// What a mutant breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Sequential consistency: a node's copy.
    Holder,
    /// Sequential consistency: the directory entry.
    Manager,
    /// Locks, barriers, semaphores, conditions.
    Synchronization,
    /// MGS: a node's copy.
    EagerClient,
    /// MGS: the directory.
    EagerServer,
    /// Home-based lazy release consistency: copies and homes.
    LazyCopy,
    /// Its dynamic homes.
    DynamicHome,
    /// Flushes, write notices, migration plans.
    Notices,
    /// What lies below release consistency, where only real nodes can show it.
    RuntimeOfRelease,
    /// What lies below the protocol, where only real nodes can show it.
    Runtime,
    /// Orders that weak memory allows.
    MemoryOrder,
    /// Bounds of what a program or a peer can fill.
    Bound,
}

/// A mutant.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What it belongs to.
    pub group: Group,
    /// Its name, for [`super::VARIABLE`] and at the place that it bends.
    pub name: &'static str,
    /// What it breaks, in a sentence.
    pub breaks: &'static str,
}

impl Row {
    /// Whether it lies below the protocol, where only real nodes can show it.
    #[must_use]
    pub const fn is_of_runtime(&self) -> bool {
        use Group as G;
        matches!(self.group, G::RuntimeOfRelease | G::Runtime | G::MemoryOrder | G::Bound)
    }

    /// Whether it is a flag in the wrong order or a queue without a bound, which tools of their own look
    /// for.
    #[must_use]
    pub const fn is_of_queues(&self) -> bool {
        matches!(self.group, Group::MemoryOrder | Group::Bound)
    }

    /// Whether only release consistent memory shows it.
    #[must_use]
    pub const fn is_of_release(&self) -> bool {
        use Group as G;
        matches!(
            self.group,
            G::EagerClient
                | G::EagerServer
                | G::LazyCopy
                | G::DynamicHome
                | G::Notices
                | G::RuntimeOfRelease
        )
    }
}

macro_rules! mutants {
    ($($group:ident: $($name:literal => $breaks:literal,)*)*) => {
        /// Every mutant.
        pub const MUTANTS: &[Row] =
            &[$($(Row { group: Group::$group, name: $name, breaks: $breaks },)*)*];
    };
}

mutants! {
    Holder:
        "read-forward-keeps-writable" => "A holder that supplies a reader may still write.",
        "write-forward-keeps-copy" => "A holder that supplies a writer keeps its own copy accessible.",
        "invalidation-keeps-copy" => "A holder answers an invalidation and keeps its copy accessible.",
        "subtree-loses-last" => "A node that passes an invalidation on forgets the last one to tell.",
        "subtree-answers-early" => "A node that passes an invalidation on answers before those below have.",
        "read-reply-writable" => "A read copy is installed writable: two writers.",
        "sent-before-protected" => "A page is sent before its protection is lowered.",
        "first-waiter-only" => "A reply wakes the first of a node's waiting threads alone.",
        "spurious-fault-sleeps" => "A thread that traps on a minipage that is there already is not woken.",
        "ack-dropped" => "The ack that closes a transaction is never sent.",
        "ack-now-lost" => "An AckNow that comes before the reply is forgotten.",
        "push-keeps-writable" => "A holder that pushes copies may still write.",
        "push-taken-for-reply" => "A pushed copy is taken for the reply to an open request.",
        "free-lost-in-fetch" => "A free that comes while the minipage is fetched is lost.",
        "free-forgets-ack" => "A free that comes with a grant still open drops its ack.",
        "freed-reused-early" => "A freed minipage is used again while other nodes have copies.",
        "turn-not-told" => "An ack does not say how long the turn of its node was.",
        "ack-before-instruction" => "An ack that somebody waits for leaves before the instruction that needs the minipage.",
        "pinned-retry-forgotten" => "A pinned retry is taken for a first fault: the instruction is as likely to lose the minipage again.",
        "second-minipage-drops-first" => "An instruction that needs a second minipage gives up the first.",
        "held-against-order" => "An instruction holds a minipage while it waits for one below it.",
    Manager:
        "ack-not-listed" => "The manager does not enter who acknowledged in the copyset.",
        "reader-forgotten" => "The manager forgets to invalidate one of several readers.",
        "first-invalidation-suffices" => "The first invalidation reply lets the write be supplied.",
        "supplier-stays-listed" => "The supplier of a write stays in the copyset.",
        "served-before-ack" => "A request is served before the ack of the one before it.",
        "queue-lost" => "Closing a transaction loses the queue of requests.",
        "ack-now-not-sent" => "The manager does not notify a node that somebody waits for its ack.",
        "overtaken-read-forwarded" => "A read request that a pushed copy overtook is forwarded all the same.",
        "push-closed-by-first-ack" => "The first ack of a push closes its transaction.",
        "pushes-pile-up" => "Pushes of one node queue up without end.",
        "readers-closed-by-first-ack" => "The first ack of readers that are served together closes their transaction.",
        "turns-not-counted" => "Grants do not say for how many turns of others their nodes have waited.",
    Synchronization:
        "lock-waiters-forgotten" => "A node that passes a lock on forgets its own waiting threads.",
        "lock-token-copied" => "A lock is granted to the next node while its holder keeps it.",
        "kept-token-stays" => "A lock's token that is kept for a window is not passed on when that is over.",
        "handover-sleeps" => "A lock handed to a thread of the same node does not wake it.",
        "barrier-opens-early" => "A barrier opens one thread too early.",
        "post-counts-twice" => "A semaphore counts every post twice.",
        "condition-without-lock" => "A thread woken from a condition does not take its lock again.",
        "broadcast-wakes-one" => "A broadcast to a condition wakes one thread alone.",
    EagerClient:
        "diff-forgotten" => "Eager: a written copy is invalidated and its diff is not sent.",
        "upgrade-unlisted" => "Eager: the home forgets a reader that became a writer (WNOTIFY).",
        "release-skips-page" => "Eager: a release passes by a written page.",
        "unreleased-without-release" => "Eager: a page that is invalidated before its release leaves without a REL.",
        "single-writer-without-twin" => "Eager: a single writer drops its twin.",
        "keeper-writes-on" => "Eager: a client that keeps its copy after a 1WINV may write it unseen.",
    EagerServer:
        "outdated-keeper-stays" => "Eager: a client that keeps its copy after a 1WINV keeps it beside another's diff.",
        "single-beside-readers" => "Eager: single-writer mode is granted while others have read copies.",
        "early-release-ack" => "Eager: a release is acknowledged before all copies are gone.",
        "served-in-release" => "Eager: a read request is answered in the middle of a release.",
        "single-writer-unasked" => "Eager: the home answers a request though a single writer has newer contents.",
        "late-release-forgotten" => "Eager: a REL that comes after its sender's answer is forgotten.",
    LazyCopy:
        "diff-not-sent" => "Lazy: a release sends no diff home.",
        "diff-not-merged" => "Lazy: the home acknowledges a diff before it merges it.",
        "notice-ignored" => "Lazy: an acquire does not invalidate a copy that a write notice names.",
        "noticed-diff-lost" => "Lazy: what was written in a copy that a notice names does not go home.",
        "stale-reply-taken" => "Lazy: contents sent before a write that is known of are taken.",
        "moved-home-forgotten" => "Lazy: a migration of the home is forgotten when contents come from the former home.",
        "exclusive-home-stays-writable" => "Lazy: after the first fetch the home still writes unnoticed.",
        "early-fetch-served" => "Lazy: a fetch is served by a node that has not received the migration plan its sender knows.",
        "writable-home-merged-as-closed" => "Lazy: a diff is merged as if threads of the home could not write the page, which they can.",
        "opened-ahead-taken-for-unwritten" => "Lazy: what was opened ahead is closed as if nobody had written it.",
        "tracked-homes-not-scanned" => "Lazy, tracked homes: a release does not scan for what was written.",
        "tracked-write-not-noticed" => "Lazy, tracked homes: what was found written gets no write notice.",
        "tracked-home-stays-writable" => "Lazy, tracked homes: a home that migrates is still written without a trap.",
    DynamicHome:
        "opened-ahead-over-a-diff" => "Dynamic home: a copy is opened ahead while a diff of it is on its way.",
        "prefetch-transfers-home" => "Auto: the home is transferred to a node none of whose threads waits for it.",
        "dirty-home-transferred" => "Auto: a home that has been written and not released is transferred.",
        "released-home-fetched" => "Lazy: a home does not note that somebody has fetched since its release: its next write has no notice.",
        "told-before-merged" => "Lazy: who is not the home is told of an interval that the home has not merged yet.",
        "ahead-of-other-homes" => "Lazy: a release leaves although others than its receiver have to acknowledge what was written.",
        "former-home-stays" => "Auto: a node that transfers the home stays a home.",
        "forwarded-diff-dropped" => "Auto: a former home acknowledges a diff and does not forward it.",
        "early-diff-dropped" => "Auto: a diff that comes ahead of the migration plan is acknowledged and never merged.",
        "fetch-overtakes-diff" => "Auto: a node asks for contents while its own diff is on its way to the home.",
    Notices:
        "grant-before-acks" => "A release leaves the node before its writes are acknowledged.",
        "grant-without-notices" => "Lazy: a lock is granted without the write notices.",
        "two-writers-move-home" => "Lazy: a home migrates to one of several writers.",
        "active-node-migrates-home" => "Lazy: homes migrate at a barrier while other threads run.",
        "begin-without-retract" => "Lazy: a thread begins on a quiescent node, and the manager is not asked to retract that.",
        "acquires-before-the-move" => "Lazy: a node applies notices while all its threads wait in a barrier behind which homes are elsewhere.",
        "let-go-acquires-nothing" => "Lazy: a node that is let go before it is answered that it runs counts as waiting until then.",
        "threads-of-two-episodes" => "Lazy: a barrier's manager takes a node for quiescent of which a thread waits in the episode before.",
        "flushes-wrap" => "The numbers of flushes have 32 bits.",
        "intervals-wrap" => "Lazy: the numbers of intervals have 32 bits.",
        "subtree-speaks-for-all" => "Lazy: what the nodes below one have received counts as received by all, and is forgotten.",
        "tree-answers-alone" => "Lazy: a node of the tree takes back what the node above was told, without asking it.",
        "notices-forgotten-early" => "Lazy: a barrier's manager forgets notices that not all nodes have received.",
        "empty-plan-of-old" => "Lazy: in a tree, a barrier without a plan is passed on with the plan of the barrier before.",
        "old-plan-repeated" => "Lazy: a migration plan received in parts is added to the one before when nobody wrote in between.",
        "newer-notice-forgotten" => "Lazy: an older notice takes the place of a newer one that came in the first part of a long batch.",
        "notified-before-queued" => "Lazy: notices count as sent before they are queued, and another message overtakes them.",
    RuntimeOfRelease:
        "twin-after-opening" => "Runtime: a twin is made after threads have written the page.",
        "runs-closed-unseen" => "Runtime: runs of pages are closed ahead of an acquire, whatever threads have opened since they were listed.",
        "clock-merged-at-arrival" => "Runtime, --check-races: a node that serves a message knows what its sender knew.",
        "clock-of-the-moment" => "Runtime, --check-races: a message brings what its sender knows when it leaves.",
    Runtime:
        "granted-before-bytes" => "Runtime: threads get access to a page before its bytes are there.",
        "protected-late" => "Runtime: page tables change some time after the page was sent.",
        "deferred-ack-lost" => "Runtime: a deferred ack is never sent.",
        "parked-thread-forgotten" => "Runtime: a thread that is parked is not woken.",
        "service-sleeps" => "Runtime: a node whose threads compute answers nobody.",
    MemoryOrder:
        "deferred-peer-forgotten" => "Transport: who flushes deferred frames loads the set of peers that have some and stores zero, instead of a swap.",
        "role-freed-unfenced" => "Runtime: no fence between freeing the receiver's role and the look for parked threads.",
        "parked-unfenced" => "Runtime: no fence between the word that a thread parks and its look at the receiver's role.",
        "nudge-not-passed-on" => "Runtime: a thread that was nudged and is woken then does not pass the nudge on.",
    Bound:
        "posts-without-room" => "Runtime: who posts does not wait for room, however much waits for the peer.",
        "hints-without-room" => "Runtime: who prefetches or pushes does not wait for room.",
        "held-without-end" => "Runtime: who posts behind a flush that does not end goes on without end.",
        "asked-twice" => "Runtime: a peer's thread may ask again before it has its answer.",
        "names-without-end" => "Runtime: a job may publish names without end.",
        "early-without-end" => "Lazy: what a peer sends ahead of the migration plan is kept without end.",
        "moves-without-end" => "Lazy: a peer may move the home of one minipage without end before a barrier opens.",
        "acknowledged-by-anyone" => "Lazy: a diff counts as merged when a node acknowledges it that it was not sent to.",
        "payload-kept-open" => "Runtime: what a peer announced for a page goes into it although another node has supplied it since.",
        "answers-without-end" => "Transport: a peer may ask without end and never read the answers.",
}
