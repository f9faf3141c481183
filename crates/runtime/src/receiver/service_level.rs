//! The service level: who receives for a node, and so runs the protocol on what arrives (MIRAGE+ 3.3, 4.6).
//!
//! MIRAGE+ had a kernel's server process take each packet, which has to be scheduled first, or its interrupt routine, which
//! runs at once wherever the processor is. A user's program has no interrupts; what corresponds is a thread that is running
//! when a packet arrives: one that waits for it, or one that does nothing but look.
//!
//! A level is nothing but who has the receiver's role. At the two levels of MIRAGE+'s server the service thread has it from the
//! beginning to the end, so threads that wait find it taken, and park or look at their word, as `--wait` says.

use multigrain_transport::{Mesh, Sink, Timeout};

use super::Receiver;
use super::slots;
use crate::membership::Membership;
use crate::shim::{spin_loop, yield_now};

/// Who receives for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ServiceLevel {
    /// The service thread, which sleeps until something arrives: MIRAGE+'s server process.
    Blocked,
    /// The service thread, which looks all the time and needs a core: the nearest to interrupt level while threads compute.
    Polling,
    /// Whatever thread of the program waits, and the service thread, asleep, while none does.
    #[default]
    Helping,
}

impl ServiceLevel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Blocked, Self::Polling, Self::Helping];

    /// What `--service` calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Polling => "polling",
            Self::Helping => "helping",
        }
    }
}

impl Receiver {
    /// The service thread where it alone receives, until this node leaves. It has the role since this receiver was made.
    pub(super) fn serve_alone(
        &self,
        polls: bool,
        mesh: &Mesh,
        sink: &mut dyn Sink,
        membership: &Membership,
    ) {
        let wait = if polls { Timeout::Now } else { Timeout::Forever };
        let mut fruitless = 0_u32;
        while !membership.is_leaving() {
            if mesh.receive(sink, wait) > 0 {
                fruitless = 0;
            } else if polls {
                fruitless = fruitless.saturating_add(1);
                // There may be more nodes than cores: who is to send needs one as well.
                if fruitless < POLLS { spin_loop() } else { yield_now() }
            }
        }
        self.role.give_back();
        if self.role.waits_for_more_than(0) {
            slots::nudge_one();
        }
    }
}

/// So many looks that find nothing, and the core is offered to others before each further one: about as long as a wait polls.
const POLLS: u32 = 256;
