//! A page fetch broken down as in ParADE's Figure 10. Its bars have no numbers; two of the parts
//! are in its Table 1 (600 MHz Pentium III): the call of a SIGSEGV handler, and `mprotect` of 4 KB.

use super::jobs::Done;
use crate::bench::table::micros;
use serde::Serialize;

const PARADE_HANDLER_US: f64 = 9.8;
const PARADE_MPROTECT_US: f64 = 3.4;

/// Medians, microseconds, of the parts of a lazy page fetch. Each is measured by itself in the same
/// run, but for the last, which is what they leave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Breakdown {
    fetch_us: f64,
    /// Into the handler and back.
    fault_entry_us: f64,
    /// A small message over a plain socket, one way.
    request_us: f64,
    /// What the home does to the page before it sends it: nothing, for it is read-only there since its
    /// last release, and is sent from where it lies.
    preparation_us: f64,
    /// The page over a plain socket, one way.
    transfer_us: f64,
    /// Opening the page.
    resume_us: f64,
    /// Both ends of the protocol, and waking who waits.
    protocol_us: f64,
}

impl Breakdown {
    /// Of a job that fetched pages, next to the job that measured traps and protections.
    pub(super) fn of(job: &Done, jobs: &[Done]) -> Option<Self> {
        let row = |job: &Done, key: &str| job.rows.iter().find(|row| row.key == key).cloned();
        let memory = jobs.iter().find(|job| job.program == "memory")?;
        let fetch = row(job, "lazy-read-fetch")?;
        let (fetch_us, there_and_back_us) = (fetch.ours.median_us, fetch.floor?.time.median_us);
        // Its floor goes there and back in small messages.
        let request_us = row(job, "lazy-release-1")?.floor?.time.median_us / 2.0;
        let transfer_us = there_and_back_us - request_us;
        let fault_entry_us = row(memory, "access-fault")?.ours.median_us;
        let resume_us = row(memory, "set-protection-none-read")?.ours.median_us;
        let protocol_us = fetch_us - fault_entry_us - there_and_back_us - resume_us;
        let preparation_us = 0.0;
        Some(Self {
            fetch_us,
            fault_entry_us,
            request_us,
            preparation_us,
            transfer_us,
            resume_us,
            protocol_us,
        })
    }

    /// A line for people.
    pub(super) fn line(&self) -> String {
        format!(
            "page fetch, lazy, as ParADE's Figure 10: {} = fault entry {} (ParADE {PARADE_HANDLER_US}) \
             + request {} + preparation {} + transfer {} + protocol {} + resume {} (ParADE \
             {PARADE_MPROTECT_US})\n",
            micros(self.fetch_us),
            micros(self.fault_entry_us),
            micros(self.request_us),
            micros(self.preparation_us),
            micros(self.transfer_us),
            micros(self.protocol_us),
            micros(self.resume_us),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::Row;
    use crate::bench::samples::Summary;

    fn job(program: &'static str, rows: Vec<Row>) -> Done {
        Done {
            program,
            nodes: 2,
            transport: None,
            wait: None,
            size: None,
            pinned: true,
            cache_line_us: [None; 2],
            guard: String::new(),
            rows,
        }
    }

    #[test]
    fn the_parts_are_the_whole() {
        let time = |median_us| Summary { samples: 9, median_us, p99_us: median_us };
        let row = |key: &str, us, floor| Row::new(key, key, time(us)).over("raw", time(floor));
        let memory = job(
            "memory",
            vec![row("access-fault", 4.0, 3.0), row("set-protection-none-read", 1.0, 2.0)],
        );
        let release = vec![row("lazy-read-fetch", 20.0, 9.0), row("lazy-release-1", 12.0, 6.0)];
        let jobs = [memory, job("release", release)];
        let parts = Breakdown::of(&jobs[1], &jobs).unwrap();
        assert_eq!((parts.request_us, parts.transfer_us, parts.protocol_us), (3.0, 6.0, 6.0));
        let line = parts.line();
        assert!(line.contains("20.0 = fault entry 4.00 (ParADE 9.8) + request 3.00"), "{line}");
        assert_eq!(Breakdown::of(&jobs[0], &jobs), None);
    }
}
