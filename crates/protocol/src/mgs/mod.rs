//! MGS: eager, multi-writer release consistency between nodes of many cores (MGS 3.2, 3.3 and
//! Appendix A: Table 5 and Figure 22).
//!
//! Three engines in the paper, two structs here: [`Client`] is the local client and the remote
//! client of a minipage on one node, [`Server`] keeps the directory at its home, which never moves.
//! The paper splits the client because its processors have translation buffers of their own. The
//! threads of a process share one page table, so what the two parts say to each other (UPGRADE, UP_ACK,
//! PINV, PINV_ACK, P2INV, P2INV_ACK) is a change of protection under the minipage's lock, and the
//! kernel's TLB shootdown replaces the paper's interrupts. For the same reason there is one
//! delayed update queue a node, not one a processor: a write through a page that another thread
//! opened does not trap, so its writer is unknown (docs/adr/0009). Page cleaning is left to
//! cache-coherent hardware. docs/tables/mgs.md is the paper's table row by row; the golden tests write it.
//!
//! On the home the client's copy is the home copy itself: it has no twin and sends no bytes.

mod client;
pub mod row_coverage;
mod server;

pub use client::{Client, ClientEvent};
pub use server::{Server, ServerEvent};
