//! The holder role: what each node does about its own copy of a minipage (Millipage Figure 3,
//! left column).
//!
//! States: the access (`NoAccess`, `ReadOnly`, `ReadWrite`) times the phase:
//! - `Idle`: no request of this node is open.
//! - `Fetching`: a request was sent; threads wait for the reply.
//! - `Granted`: the reply is installed and the threads are awake, each with a *pin* on the grant.
//!   The last pin that goes sends the ack (3.3: "once a fault is served and the faulting thread
//!   wakes up, it sends an additional ack message to the manager"). Until then the manager sends
//!   nothing more about this minipage but `AckNow`.
//!
//! A pin goes when its thread resumes, if nobody waits for the ack, which is then sent later, with
//! something else. If somebody waits, or a thread pinned, the thread is told to hold the minipage
//! and its pin goes when the instruction is through: a grant is never lost unused twice (ADR 17).

use multigrain_types::{Access, NodeId, ThreadId};
use smallvec::SmallVec;

use super::{Illegal, Site};
use crate::effect::{Effect, Effects};
use crate::message::{Attach, Kind, PageMessage};

/// A node's state for one minipage; 16 bytes while nothing is being fetched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    access: Access,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
enum Phase {
    #[default]
    Idle,
    Fetching(Box<Open>),
    Granted(Box<Open>),
}

/// Whether another node waits for the ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Urgency {
    Deferred,
    /// Somebody waits, or did so when an instruction lost the minipage.
    AckNow,
}

/// A transaction of this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open {
    want: Want,
    /// While fetching, who waits for the reply; then the pins: who is not through yet.
    threads: Threads,
    /// Who wants to write what was asked for to read: the next transaction is theirs.
    writers: Threads,
    /// The minipage was freed while this request was open.
    reclaim_next: bool,
    urgency: Urgency,
    /// Estimator of others that were waited for.
    turns: u16,
}

type Threads = SmallVec<[ThreadId; 4]>;

/// What an open request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// A read copy.
    Read,
    /// The writable copy.
    Write,
    /// The writable copy, whatever its contents: the minipage was freed.
    Reclaim,
}

/// What can happen to a holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the message module")]
pub enum HolderEvent {
    /// A thread of this node trapped.
    Fault {
        thread: ThreadId,
        kind: Kind,
    },
    /// The same, and its instruction has lost the minipage before.
    PinnedRetry {
        thread: ThreadId,
        kind: Kind,
    },
    /// A copy is wanted and nobody waits for it.
    Prefetch {
        kind: Kind,
    },
    /// Read copies shall go to every node.
    Push,
    /// A woken thread is about to retry its access.
    Resumed {
        thread: ThreadId,
    },
    /// The access of a thread that holds the minipage is done, or gives it up.
    Retired {
        thread: ThreadId,
    },
    /// The minipage was freed; this node allocated it.
    Reclaim,
    Forward {
        kind: Kind,
        requester: NodeId,
        ack_now: bool,
        turns: u16,
    },
    PushForward {
        target: NodeId,
    },
    Reply {
        kind: Kind,
        attach: Attach,
        ack_now: bool,
        turns: u16,
    },
    PushReply,
    Invalidate,
    AckNow,
}

impl Holder {
    /// The allocating node's first state: the writable copy.
    #[must_use]
    pub fn owner() -> Self {
        Self { access: Access::ReadWrite, phase: Phase::Idle }
    }

    /// The access this node's threads have.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether a page may arrive: it is not accessible here and one has been asked for, or pushed.
    #[must_use]
    pub fn may_receive(&self) -> bool {
        self.access == Access::NoAccess && !matches!(self.phase, Phase::Granted(_))
    }

    /// Whether a request of this node is open.
    #[must_use]
    pub fn is_fetching(&self) -> bool {
        matches!(self.phase, Phase::Fetching(_))
    }

    /// Whether nothing is open at all.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// One step; effects are appended to `out`.
    ///
    /// # Errors
    /// [`Illegal`] when no correct peer can have sent this event in this state.
    #[expect(clippy::too_many_lines, reason = "the transition table of Figure 3, one row per arc")]
    pub fn handle(
        &mut self,
        site: &Site,
        event: &HolderEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        use Access::{NoAccess, ReadOnly, ReadWrite};
        use HolderEvent as E;
        use Phase::{Fetching, Granted, Idle};

        match (event, &mut self.phase, self.access) {
            // Figure 3, On Read Fault: send READ_REQUEST to the manager, wait.
            (E::Fault { thread, kind: Kind::Read }, Idle, NoAccess) => {
                self.request(site, Want::Read, waiter(*thread), Urgency::Deferred, out);
            }
            // Figure 3, On Write Fault: send WRITE_REQUEST to the manager, wait.
            (E::Fault { thread, kind: Kind::Write }, Idle, NoAccess | ReadOnly) => {
                self.request(site, Want::Write, waiter(*thread), Urgency::Deferred, out);
            }
            // It has lost the minipage before: whatever is here by now, a grant of its own stays.
            (E::PinnedRetry { thread, kind }, Idle, NoAccess | ReadOnly | ReadWrite) => {
                self.request(site, Want::of(*kind), waiter(*thread), Urgency::AckNow, out);
            }
            // Another thread of this node already waits for the minipage: join it, or be the next.
            (E::Fault { thread, kind: kind @ Kind::Read }, Fetching(open), NoAccess)
            | (
                E::Fault { thread, kind: kind @ Kind::Write },
                Fetching(open),
                NoAccess | ReadOnly,
            ) => {
                open.join(*thread, *kind);
            }
            (E::PinnedRetry { thread, kind }, Fetching(open), NoAccess | ReadOnly | ReadWrite) => {
                open.join(*thread, *kind);
                open.urgency = Urgency::AckNow;
            }
            // A write while a read is granted: the readers of this node are served first.
            (E::Fault { thread, kind: Kind::Write }, Granted(open), ReadOnly) => {
                open.writers.push(*thread);
            }
            (E::PinnedRetry { thread, kind: Kind::Write }, Granted(open), ReadOnly) => {
                open.writers.push(*thread);
                open.urgency = Urgency::AckNow;
            }
            // The grant came between the trap and its handling: it is this thread's as well.
            (E::Fault { thread, kind: Kind::Read }, Granted(open), ReadOnly)
            | (E::Fault { thread, .. }, Granted(open), ReadWrite) => {
                open.threads.push(*thread);
                self.spurious(site, *thread, out);
            }
            (E::PinnedRetry { thread, kind: Kind::Read }, Granted(open), ReadOnly)
            | (E::PinnedRetry { thread, .. }, Granted(open), ReadWrite) => {
                open.threads.push(*thread);
                open.urgency = Urgency::AckNow;
                self.spurious(site, *thread, out);
            }
            // Spurious: the access is there already, only the page tables lag.
            (E::Fault { thread, kind: Kind::Read }, Idle | Fetching(_), ReadOnly)
            | (E::Fault { thread, .. }, Idle | Fetching(_), ReadWrite) => {
                self.spurious(site, *thread, out);
            }

            // Prefetch: a request nobody waits for.
            (E::Prefetch { kind: Kind::Read }, Idle, NoAccess) => {
                self.request(site, Want::Read, Threads::new(), Urgency::Deferred, out);
            }
            (E::Prefetch { kind: Kind::Write }, Idle, NoAccess | ReadOnly) => {
                self.request(site, Want::Write, Threads::new(), Urgency::Deferred, out);
            }
            (E::Prefetch { kind: Kind::Read }, Idle, ReadOnly)
            | (E::Prefetch { .. }, Idle, ReadWrite)
            | (E::Prefetch { .. }, Fetching(_) | Granted(_), NoAccess | ReadOnly | ReadWrite) => {}

            // Push: only who has a copy can hand it out.
            (E::Push, Idle | Fetching(_) | Granted(_), ReadOnly | ReadWrite) => {
                Self::send(site, site.manager, PageMessage::PushRequest, out);
            }
            (E::Push, Idle | Fetching(_), NoAccess) => {}

            // Figure 3, Handle Read Request: ReadWrite becomes ReadOnly, then the page is sent.
            (
                E::Forward { kind: Kind::Read, requester, ack_now, turns },
                Idle | Fetching(_),
                ReadOnly | ReadWrite,
            ) => {
                let (requester, ack_now, turns) = (*requester, *ack_now, *turns);
                self.downgrade(site, out);
                let (kind, attach) = (Kind::Read, Attach::Page);
                Self::send(
                    site,
                    requester,
                    PageMessage::Reply { kind, attach, ack_now, turns },
                    out,
                );
            }
            // Figure 3, Handle Write Request: NoAccess, then the page is sent.
            (
                E::Forward { kind: Kind::Write, requester, ack_now, turns },
                Idle | Fetching(_),
                ReadOnly | ReadWrite,
            ) => {
                let (requester, ack_now, turns) = (*requester, *ack_now, *turns);
                self.protect(site, NoAccess, out);
                let (kind, attach) = (Kind::Write, Attach::Page);
                Self::send(
                    site,
                    requester,
                    PageMessage::Reply { kind, attach, ack_now, turns },
                    out,
                );
            }
            // Push: as a read request that the manager makes in the target's name.
            (E::PushForward { target }, Idle | Fetching(_), ReadOnly | ReadWrite) => {
                let target = *target;
                self.downgrade(site, out);
                Self::send(site, target, PageMessage::PushReply, out);
            }

            // Figure 3, Handle Invalidate Request.
            (E::Invalidate, Idle | Fetching(_), ReadOnly | ReadWrite) => {
                self.protect(site, NoAccess, out);
                Self::send(site, site.manager, PageMessage::InvalidateReply, out);
            }

            // Figure 3, Handle Read or Write Reply: the page becomes ReadOnly or ReadWrite.
            (
                E::Reply { kind: Kind::Read, attach: Attach::Page, ack_now, turns },
                Fetching(open),
                NoAccess,
            ) if open.want == Want::Read => {
                self.install(site, ReadOnly, out);
                self.granted(site, *ack_now, *turns, out);
            }
            (
                E::Reply { kind: Kind::Write, attach: Attach::Page, ack_now, turns },
                Fetching(open),
                NoAccess,
            ) if open.want == Want::Write => {
                self.install(site, ReadWrite, out);
                self.granted(site, *ack_now, *turns, out);
            }
            // A copy came before the reply, or was here: nothing more to install.
            (
                E::Reply { kind: Kind::Read, attach: Attach::Nothing, ack_now, turns },
                Fetching(open),
                ReadOnly | ReadWrite,
            ) if open.want == Want::Read => {
                self.granted(site, *ack_now, *turns, out);
            }
            // Upgrade: all other copies are gone, the own one becomes writable.
            (
                E::Reply { kind: Kind::Write, attach: Attach::Nothing, ack_now, turns },
                Fetching(open),
                ReadOnly,
            ) if open.want == Want::Write => {
                self.protect(site, ReadWrite, out);
                self.granted(site, *ack_now, *turns, out);
            }
            // It was writable when a thread insisted.
            (
                E::Reply { kind: Kind::Write, attach: Attach::Nothing, ack_now, turns },
                Fetching(open),
                ReadWrite,
            ) if open.want == Want::Write => {
                self.granted(site, *ack_now, *turns, out);
            }
            // Reclaim: no other copy is left; the contents are of no interest.
            (
                E::Reply { kind: Kind::Write, attach: Attach::Nothing, ack_now, turns },
                Fetching(open),
                NoAccess | ReadOnly,
            ) if open.want == Want::Reclaim => {
                self.protect(site, ReadWrite, out);
                out.push(Effect::Reclaimed { minipage: site.minipage });
                self.granted(site, *ack_now, *turns, out);
            }
            // A pushed read copy; the manager counts the acks of the targets.
            (E::PushReply, Idle | Fetching(_), NoAccess) => {
                self.install(site, ReadOnly, out);
                Self::send(site, site.manager, PageMessage::Ack, out);
            }

            // Section 3.3: the ack that closes the transaction follows the instruction where somebody
            // waits for it, and may be late where nobody does.
            (E::Resumed { thread }, Granted(open), ReadOnly | ReadWrite) => {
                let urgent = open.urgency == Urgency::AckNow;
                if !urgent && (open.turns == 0 || !open.writers.is_empty()) {
                    self.unpin(site, *thread, out);
                } else if open.threads.contains(thread) {
                    // Whoever waits ends the turn of a writer.
                    let ends = urgent && self.access == ReadWrite;
                    // Writers of this node wait for it to be over.
                    let turns = match open.writers.is_empty() {
                        true => open.turns.max(u16::from(ends)),
                        false => 0,
                    };
                    let (thread, minipage) = (*thread, site.minipage);
                    out.push(Effect::Hold { thread, minipage, turns, urgent });
                }
                // Else it was woken by a grant that was given back for a free.
            }
            (E::Retired { thread }, Granted(_), ReadOnly | ReadWrite) => {
                self.unpin(site, *thread, out);
            }
            // Somebody waits for the ack. If it is on its way, receiving this has sent it off.
            (E::AckNow, Granted(open), ReadOnly | ReadWrite)
            | (E::AckNow, Fetching(open), NoAccess | ReadOnly | ReadWrite) => {
                open.urgency = Urgency::AckNow;
            }
            (E::AckNow, Idle, NoAccess | ReadOnly | ReadWrite) => {}

            // Woken by a spurious fault, or by a grant that was given back for a free.
            (
                E::Resumed { .. } | E::Retired { .. },
                Idle | Fetching(_),
                NoAccess | ReadOnly | ReadWrite,
            ) => {}

            // Free: the owner takes the minipage back before it is used again.
            (E::Reclaim, Idle, ReadWrite) => {
                out.push(Effect::Reclaimed { minipage: site.minipage })
            }
            (E::Reclaim, Idle, NoAccess | ReadOnly) => {
                self.request(site, Want::Reclaim, Threads::new(), Urgency::Deferred, out);
            }
            (E::Reclaim, Fetching(open), NoAccess | ReadOnly | ReadWrite) => {
                open.reclaim_next = true;
            }
            (E::Reclaim, Granted(open), ReadOnly | ReadWrite) => {
                let writers = core::mem::take(&mut open.writers);
                self.acknowledge(site, Urgency::AckNow, out);
                self.reclaim_when_idle(site, writers, out);
            }

            // What no correct peer sends: a request to a node without a copy or with an open grant,
            // a reply nobody asked for, a copy onto a copy; and states that cannot be.
            (
                E::Forward { .. } | E::PushForward { .. } | E::Invalidate,
                Idle | Fetching(_) | Granted(_),
                NoAccess | ReadOnly | ReadWrite,
            )
            | (
                E::Reply { .. } | E::PushReply,
                Idle | Fetching(_) | Granted(_),
                NoAccess | ReadOnly | ReadWrite,
            )
            | (
                E::Fault { .. }
                | E::PinnedRetry { .. }
                | E::Push
                | E::Resumed { .. }
                | E::Retired { .. }
                | E::Reclaim
                | E::AckNow,
                Granted(_),
                NoAccess,
            ) => return Err(self.illegal()),
        }
        Ok(())
    }

    fn illegal(&self) -> Illegal {
        Illegal { role: "holder", state: format!("{self:?}") }
    }

    fn send(site: &Site, to: NodeId, body: PageMessage, out: &mut Effects) {
        out.push(Effect::Send { to, message: body.about(site.minipage) });
    }

    fn request(
        &mut self,
        site: &Site,
        want: Want,
        threads: Threads,
        urgency: Urgency,
        out: &mut Effects,
    ) {
        let message = match want {
            Want::Read => PageMessage::Request { kind: Kind::Read },
            Want::Write => PageMessage::Request { kind: Kind::Write },
            Want::Reclaim => PageMessage::ReclaimRequest,
        };
        let writers = Threads::new();
        let open = Open { want, threads, writers, reclaim_next: false, urgency, turns: 0 };
        self.phase = Phase::Fetching(Box::new(open));
        Self::send(site, site.manager, message, out);
    }

    fn spurious(&self, site: &Site, thread: ThreadId, out: &mut Effects) {
        out.push(Effect::Reprotect { minipage: site.minipage, access: self.access });
        out.push(Effect::Wake { thread });
    }

    fn protect(&mut self, site: &Site, to: Access, out: &mut Effects) {
        out.push(Effect::Protect { minipage: site.minipage, from: self.access, to });
        self.access = to;
    }

    fn downgrade(&mut self, site: &Site, out: &mut Effects) {
        if self.access == Access::ReadWrite {
            self.protect(site, Access::ReadOnly, out);
        }
    }

    fn install(&mut self, site: &Site, access: Access, out: &mut Effects) {
        out.push(Effect::Install { minipage: site.minipage, access });
        self.access = access;
    }

    /// The reply is in place: wake who waits; without anybody to resume, acknowledge at once.
    fn granted(&mut self, site: &Site, ack_now: bool, turns: u16, out: &mut Effects) {
        let Phase::Fetching(mut open) = core::mem::take(&mut self.phase) else {
            unreachable!("a grant is only given to a fetching holder");
        };
        if self.access == Access::ReadWrite {
            let writers = core::mem::take(&mut open.writers);
            open.threads.extend(writers);
        }
        if ack_now {
            open.urgency = Urgency::AckNow;
        }
        open.turns = turns;
        out.extend(open.threads.iter().map(|&thread| Effect::Wake { thread }));
        if open.reclaim_next {
            self.acknowledge(site, Urgency::AckNow, out);
            self.reclaim_when_idle(site, open.writers, out);
        } else if open.threads.is_empty() {
            self.close(site, Open { urgency: Urgency::AckNow, ..*open }, out);
        } else {
            self.phase = Phase::Granted(open);
        }
    }

    /// A thread that was woken needs the grant no longer; the last one closes it.
    fn unpin(&mut self, site: &Site, thread: ThreadId, out: &mut Effects) {
        let Phase::Granted(open) = &mut self.phase else {
            unreachable!("only a grant has pins");
        };
        if let Some(place) = open.threads.iter().position(|&pin| pin == thread) {
            open.threads.remove(place);
        }
        if open.threads.is_empty()
            && let Phase::Granted(open) = core::mem::take(&mut self.phase)
        {
            self.close(site, *open, out);
        }
    }

    /// Nobody needs the grant: acknowledge it, and ask for what writers want beyond it.
    fn close(&mut self, site: &Site, open: Open, out: &mut Effects) {
        self.acknowledge(site, open.urgency, out);
        if !open.writers.is_empty() {
            self.request(site, Want::Write, open.writers, open.urgency, out);
        }
    }

    fn acknowledge(&mut self, site: &Site, urgency: Urgency, out: &mut Effects) {
        self.phase = Phase::Idle;
        let (to, message) = (site.manager, PageMessage::Ack.about(site.minipage));
        out.push(match urgency {
            Urgency::AckNow => Effect::Send { to, message },
            // It goes with the next message.
            Urgency::Deferred => Effect::SendDeferred { to, message },
        });
    }

    fn reclaim_when_idle(&mut self, site: &Site, writers: Threads, out: &mut Effects) {
        if self.access == Access::ReadWrite {
            out.push(Effect::Reclaimed { minipage: site.minipage });
        } else {
            self.request(site, Want::Reclaim, writers, Urgency::Deferred, out);
        }
    }
}

impl Open {
    /// A thread waits too. What is asked for to read is too little for a writer.
    fn join(&mut self, thread: ThreadId, kind: Kind) {
        if (kind, self.want) == (Kind::Write, Want::Read) {
            self.writers.push(thread);
        } else {
            self.threads.push(thread);
        }
    }
}

impl Want {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
        }
    }
}

fn waiter(thread: ThreadId) -> Threads {
    core::iter::once(thread).collect()
}
