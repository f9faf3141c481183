//! The holder role: what each node does about its own copy of a minipage (Millipage Figure 3,
//! left column).
//!
//! States: the access (`NoAccess`, `ReadOnly`, `ReadWrite`) times the phase:
//! - `Idle`: no request of this node is open.
//! - `Fetching`: a request was sent; threads wait for the reply.
//! - `Granted`: the reply is installed and the threads are awake; the first that resumes sends the
//!   ack (3.3: "once a fault is served and the faulting thread wakes up, it sends an additional ack
//!   message to the manager"). Until then the manager sends nothing more about this minipage but
//!   `Hurry`. An ack that nobody waits for is sent later, with something else.

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
    Fetching(Box<Wait>),
    Granted(Urgency),
}

/// Whether another node waits for the ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Urgency {
    Leisure,
    Hurry,
}

impl Urgency {
    fn of(hurry: bool) -> Self {
        if hurry { Self::Hurry } else { Self::Leisure }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wait {
    want: Want,
    waiters: SmallVec<[ThreadId; 4]>,
    /// The minipage was freed while this request was open.
    reclaim_next: bool,
    /// The manager's `Hurry` came before the reply.
    urgency: Urgency,
}

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
    /// A copy is wanted and nobody waits for it.
    Prefetch {
        kind: Kind,
    },
    /// Read copies shall go to every node.
    Push,
    /// A woken thread is about to retry its access.
    Resumed,
    /// The minipage was freed; this node allocated it.
    Reclaim,
    Forward {
        kind: Kind,
        requester: NodeId,
        hurry: bool,
    },
    PushForward {
        target: NodeId,
    },
    Reply {
        kind: Kind,
        attach: Attach,
        hurry: bool,
    },
    PushReply,
    Invalidate,
    Hurry,
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
                self.request(site, Want::Read, Some(*thread), out);
            }
            // Figure 3, On Write Fault: send WRITE_REQUEST to the manager, wait.
            (E::Fault { thread, kind: Kind::Write }, Idle, NoAccess | ReadOnly) => {
                self.request(site, Want::Write, Some(*thread), out);
            }
            // Another thread of this node already waits for the minipage: join it.
            (E::Fault { thread, kind: Kind::Read }, Fetching(wait), NoAccess)
            | (E::Fault { thread, kind: Kind::Write }, Fetching(wait), NoAccess | ReadOnly) => {
                wait.waiters.push(*thread);
            }
            // A write right after a read was granted: close that transaction, open the next.
            (E::Fault { thread, kind: Kind::Write }, Granted(_), ReadOnly) => {
                let message = PageMessage::Ack.about(site.minipage);
                out.push(Effect::SendLater { to: site.manager, message });
                self.request(site, Want::Write, Some(*thread), out);
            }
            // Spurious: the access is there already, only the page tables lag.
            (E::Fault { thread, kind: Kind::Read }, Idle | Fetching(_) | Granted(_), ReadOnly)
            | (E::Fault { thread, .. }, Idle | Fetching(_) | Granted(_), ReadWrite) => {
                out.push(Effect::Reprotect { minipage: site.minipage, access: self.access });
                out.push(Effect::Wake { thread: *thread });
            }

            // Prefetch: a request nobody waits for.
            (E::Prefetch { kind: Kind::Read }, Idle, NoAccess) => {
                self.request(site, Want::Read, None, out)
            }
            (E::Prefetch { kind: Kind::Write }, Idle, NoAccess | ReadOnly) => {
                self.request(site, Want::Write, None, out);
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
                E::Forward { kind: Kind::Read, requester, hurry },
                Idle | Fetching(_),
                ReadOnly | ReadWrite,
            ) => {
                let (requester, hurry) = (*requester, *hurry);
                self.downgrade(site, out);
                let (kind, attach) = (Kind::Read, Attach::Page);
                Self::send(site, requester, PageMessage::Reply { kind, attach, hurry }, out);
            }
            // Figure 3, Handle Write Request: NoAccess, then the page is sent.
            (
                E::Forward { kind: Kind::Write, requester, hurry },
                Idle | Fetching(_),
                ReadOnly | ReadWrite,
            ) => {
                let (requester, hurry) = (*requester, *hurry);
                self.protect(site, NoAccess, out);
                let (kind, attach) = (Kind::Write, Attach::Page);
                Self::send(site, requester, PageMessage::Reply { kind, attach, hurry }, out);
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
                E::Reply { kind: Kind::Read, attach: Attach::Page, hurry },
                Fetching(wait),
                NoAccess,
            ) if wait.want == Want::Read => {
                self.install(site, ReadOnly, out);
                self.granted(site, *hurry, out);
            }
            (
                E::Reply { kind: Kind::Write, attach: Attach::Page, hurry },
                Fetching(wait),
                NoAccess,
            ) if wait.want == Want::Write => {
                self.install(site, ReadWrite, out);
                self.granted(site, *hurry, out);
            }
            // A pushed copy came before the reply: nothing more to install.
            (
                E::Reply { kind: Kind::Read, attach: Attach::Nothing, hurry },
                Fetching(wait),
                ReadOnly,
            ) if wait.want == Want::Read => {
                self.granted(site, *hurry, out);
            }
            // Upgrade: all other copies are gone, the own one becomes writable.
            (
                E::Reply { kind: Kind::Write, attach: Attach::Nothing, hurry },
                Fetching(wait),
                ReadOnly,
            ) if wait.want == Want::Write => {
                self.protect(site, ReadWrite, out);
                self.granted(site, *hurry, out);
            }
            // Reclaim: no other copy is left; the contents are of no interest.
            (
                E::Reply { kind: Kind::Write, attach: Attach::Nothing, hurry },
                Fetching(wait),
                NoAccess | ReadOnly,
            ) if wait.want == Want::Reclaim => {
                self.protect(site, ReadWrite, out);
                out.push(Effect::Reclaimed { minipage: site.minipage });
                self.granted(site, *hurry, out);
            }
            // A pushed read copy; the manager counts the acks of the targets.
            (E::PushReply, Idle | Fetching(_), NoAccess) => {
                self.install(site, ReadOnly, out);
                Self::send(site, site.manager, PageMessage::Ack, out);
            }

            // Section 3.3: the ack that closes the transaction, sent by the thread that wakes.
            (E::Resumed, Granted(Urgency::Hurry), ReadOnly | ReadWrite) => {
                self.acknowledge(site, out)
            }
            // Nobody waits for it: it goes with the next message.
            (E::Resumed, Granted(Urgency::Leisure), ReadOnly | ReadWrite) => {
                self.phase = Idle;
                let message = PageMessage::Ack.about(site.minipage);
                out.push(Effect::SendLater { to: site.manager, message });
            }
            // Somebody waits for the ack: send it as soon as the thread resumes. If it is on its way,
            // receiving this has sent it off.
            (E::Hurry, Granted(urgency), ReadOnly | ReadWrite) => *urgency = Urgency::Hurry,
            (E::Hurry, Fetching(wait), NoAccess | ReadOnly) => wait.urgency = Urgency::Hurry,
            (E::Hurry, Idle, NoAccess | ReadOnly | ReadWrite) => {}

            // Later waiters of the same grant find it acknowledged.
            (E::Resumed, Idle | Fetching(_), NoAccess | ReadOnly | ReadWrite) => {}

            // Free: the owner takes the minipage back before it is used again.
            (E::Reclaim, Idle, ReadWrite) => {
                out.push(Effect::Reclaimed { minipage: site.minipage })
            }
            (E::Reclaim, Idle, NoAccess | ReadOnly) => self.request(site, Want::Reclaim, None, out),
            (E::Reclaim, Fetching(wait), NoAccess | ReadOnly) => wait.reclaim_next = true,
            (E::Reclaim, Granted(_), ReadOnly | ReadWrite) => {
                self.acknowledge(site, out);
                self.reclaim_when_idle(site, out);
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
                E::Fault { .. } | E::Push | E::Resumed | E::Reclaim | E::Hurry,
                Granted(_),
                NoAccess,
            )
            | (E::Reclaim | E::Hurry, Fetching(_), ReadWrite) => return Err(self.illegal()),
        }
        Ok(())
    }

    fn illegal(&self) -> Illegal {
        Illegal { role: "holder", state: format!("{self:?}") }
    }

    fn send(site: &Site, to: NodeId, body: PageMessage, out: &mut Effects) {
        out.push(Effect::Send { to, message: body.about(site.minipage) });
    }

    fn request(&mut self, site: &Site, want: Want, thread: Option<ThreadId>, out: &mut Effects) {
        let message = match want {
            Want::Read => PageMessage::Request { kind: Kind::Read },
            Want::Write => PageMessage::Request { kind: Kind::Write },
            Want::Reclaim => PageMessage::ReclaimRequest,
        };
        let wait = Wait {
            want,
            waiters: thread.into_iter().collect(),
            reclaim_next: false,
            urgency: Urgency::Leisure,
        };
        self.phase = Phase::Fetching(Box::new(wait));
        Self::send(site, site.manager, message, out);
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
    fn granted(&mut self, site: &Site, hurry: bool, out: &mut Effects) {
        let Phase::Fetching(wait) = core::mem::take(&mut self.phase) else {
            unreachable!("a grant is only given to a fetching holder");
        };
        let hurry = hurry || wait.urgency == Urgency::Hurry;
        self.phase = Phase::Granted(Urgency::of(hurry));
        out.extend(wait.waiters.iter().map(|&thread| Effect::Wake { thread }));
        if wait.waiters.is_empty() || wait.reclaim_next {
            self.acknowledge(site, out);
        }
        if wait.reclaim_next {
            self.reclaim_when_idle(site, out);
        }
    }

    fn acknowledge(&mut self, site: &Site, out: &mut Effects) {
        self.phase = Phase::Idle;
        Self::send(site, site.manager, PageMessage::Ack, out);
    }

    fn reclaim_when_idle(&mut self, site: &Site, out: &mut Effects) {
        if self.access == Access::ReadWrite {
            out.push(Effect::Reclaimed { minipage: site.minipage });
        } else {
            self.request(site, Want::Reclaim, None, out);
        }
    }
}
