//! A page fetch taken apart, as ParADE's Figure 10 does. Its bars have no numbers; two of the parts
//! are in its Table 1 (600 MHz Pentium III): the call of a SIGSEGV handler, and `mprotect` of 4 KB.

use super::jobs::Done;
use crate::bench::table::micros;
use serde::Serialize;

const PARADE_HANDLER_US: f64 = 9.8;
const PARADE_MPROTECT_US: f64 = 3.4;

/// Medians, microseconds, of the parts of a lazy page fetch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Parts {
    fetch_us: f64,
    /// Into the handler and back: the trap alone.
    trap_us: f64,
    /// Request and page over a plain socket.
    transfer_us: f64,
    /// Opening the page.
    mapping_us: f64,
    /// What is left: both ends of the protocol, and waking who waits.
    protocol_us: f64,
}

impl Parts {
    /// Of a job that fetched pages, next to the job that measured traps and protections.
    pub(super) fn of(job: &Done, jobs: &[Done]) -> Option<Self> {
        let row = |job: &Done, key: &str| job.rows.iter().find(|row| row.key == key).cloned();
        let memory = jobs.iter().find(|job| job.program == "memory")?;
        let fetch = row(job, "lazy-read-fetch")?;
        let (fetch_us, transfer_us) = (fetch.ours.median_us, fetch.floor?.time.median_us);
        let trap_us = row(memory, "access-fault")?.ours.median_us;
        let mapping_us = row(memory, "set-protection-none-read")?.ours.median_us;
        let protocol_us = fetch_us - trap_us - transfer_us - mapping_us;
        Some(Self { fetch_us, trap_us, transfer_us, mapping_us, protocol_us })
    }

    /// A line for people.
    pub(super) fn line(&self) -> String {
        format!(
            "page fetch, lazy, in parts: {} = trap {} (ParADE {PARADE_HANDLER_US}) + request and page \
             {} + mapping {} (ParADE {PARADE_MPROTECT_US}) + protocol {}\n",
            micros(self.fetch_us),
            micros(self.trap_us),
            micros(self.transfer_us),
            micros(self.mapping_us),
            micros(self.protocol_us),
        )
    }
}
