//! Which service serves which request.

use multigrain_transport::Header;

use crate::directory::Directory;
use crate::directory::names::Names;
use crate::driver::{Driver, Services};
use crate::frames::{Asker, kind};
use crate::heap::Heap;
use crate::threads::{ThreadHandle, Threads};

/// The services of a node that are asked by others.
#[derive(Debug)]
pub(super) struct NodeServices {
    pub(super) directory: Directory,
    pub(super) names: Names,
    pub(super) heap: Heap,
    pub(super) threads: Threads,
}

/// The driver's share of the services.
#[derive(Debug)]
pub(super) struct Shared(pub(super) std::sync::Arc<NodeServices>);

impl Services for Shared {
    fn serve(
        &self,
        driver: &Driver,
        asker: Asker,
        header: &Header,
        body: &[u8],
    ) -> Result<(), String> {
        let NodeServices { directory, names, heap, threads } = &*self.0;
        let Header { kind, subject, value, .. } = *header;
        let makes_sense = match kind {
            kind::AREA_REQUEST => directory.serve_request(driver, asker, body),
            kind::AREA_ANNOUNCE => {
                return crate::directory::serve_announce(driver, asker.node, body);
            }
            kind::AREA_MAPPED => directory.serve_mapped(driver, asker.node, subject, value),
            kind::AREA_RETURN => directory.serve_return(driver, asker, subject),
            kind::AREA_RETIRE => crate::directory::serve_retire(driver, subject),
            kind::FREE => {
                driver.acquire();
                heap.serve_free(driver, asker, subject);
                true
            }
            kind::PUBLISH => names.serve_publish(driver, asker, body, subject),
            kind::LOOKUP => names.serve_lookup(driver, asker, body),
            kind::THREAD_START => {
                return threads.serve_start(driver, asker, (subject, value), body);
            }
            kind::THREAD_JOIN => {
                threads.serve_join(driver, asker, ThreadHandle(subject));
                true
            }
            kind::THREAD_DETACH => {
                threads.serve_detach(driver, asker, ThreadHandle(subject));
                true
            }
            _ => false,
        };
        if makes_sense { Ok(()) } else { Err(format!("frame kind {kind} makes no sense")) }
    }
}
