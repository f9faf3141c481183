//! Checks of this host for the needs of a job: limits, kernel, memory, network. Each check gives one finding, which
//! says what it prevents and what mends it.
//!
//! Role: `multigrain doctor` asks for all findings, here or of an agent on another host; the launcher and the
//! agents use the same checks for their own errors. It must not know hosts beside this one.
//!
//! | file | checks |
//! |---|---|
//! | `finding` | the result of a check |
//! | `descriptor_limit` | file descriptors: needed, there, raised |
//! | `address_randomization` | switched off for the nodes; limits of addresses |
//! | `kernel` | version, process descriptors, processors, huge pages |
//! | `limits` | processes, locked memory, mappings |
//! | `memory` | memory objects, /dev/shm |
//! | `network` | the loopback interface, addresses, ports |
//! | `sysv_sites` | what `--sysv` needs: faults of other processes, the library, devices and namespaces |
//! | `userfaultfd` | the guard of that name and its sysctl, or the other; access paths; scans for written pages |

mod address_randomization;
pub(crate) mod descriptor_limit;
mod finding;
mod kernel;
mod limits;
mod memory;
mod network;
mod sysv_sites;
mod userfaultfd;

pub(crate) use address_randomization::{ELSEWHERE, fix_addresses, randomized};
pub(crate) use finding::{Finding, Level};
pub(crate) use network::{BRING_LOOPBACK_UP, reaches_itself};

use multigrain_transport::Ports;
use serde::{Deserialize, Serialize};

/// What a job wants of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Needs {
    /// Nodes of the job, and those of them on this host.
    pub(crate) nodes: u32,
    pub(crate) here: u32,
    /// Whether an agent starts them.
    pub(crate) by_agent: bool,
    /// Threads of each node.
    pub(crate) threads: u32,
    pub(crate) shared_bytes: u64,
    /// Whether nodes talk to other hosts.
    pub(crate) far: bool,
    /// Where nodes are to listen, if not at any port.
    pub(crate) ports: Option<Ports>,
    /// Whether nodes are sites of System V programs.
    pub(crate) sysv: bool,
}

/// All findings, good and bad.
pub(crate) fn examine(needs: &Needs) -> Vec<Finding> {
    let (memory, guard) = userfaultfd::objects_and_guard(needs.shared_bytes);
    let mut findings = vec![
        kernel::version(),
        kernel::process_descriptors(),
        address_randomization::randomization(needs.far),
        address_randomization::limit(),
        memory,
        guard,
        userfaultfd::access_paths(needs.shared_bytes),
        userfaultfd::scans(),
        limits::mappings(),
        memory::shm(),
        kernel::huge_pages(),
        descriptor_limit::check(needs),
        limits::processes(needs),
        limits::locked_memory(),
        kernel::processors(needs),
        network::loopback(),
        network::interfaces(needs.far),
    ];
    if needs.sysv {
        findings.extend(sysv_sites::examine());
    }
    findings.extend(needs.ports.map(|ports| network::ports(ports, needs.here)));
    findings
}
