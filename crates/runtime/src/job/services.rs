//! Which service serves which request.

use multigrain_transport::Header;

use crate::directory::Directory;
use crate::directory::names::Names;
use crate::driver::{Driver, Services};
use crate::frames::{Asker, kind};
use crate::heap::Heap;
use crate::segments::Segments;
use crate::threads::{ThreadHandle, Threads};

/// The services of a node that are asked by others.
#[derive(Debug)]
pub(super) struct NodeServices {
    pub(super) directory: Directory,
    pub(super) names: Names,
    pub(super) heap: Heap,
    pub(super) segments: Segments,
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
        let NodeServices { directory, names, heap, segments, threads } = &*self.0;
        let Header { kind, subject, value, .. } = *header;
        let lets_go = |id| heap.lets_go(id);
        let makes_sense = match kind {
            kind::AREA_REQUEST => directory.serve_request(driver, asker, body),
            kind::AREA_ANNOUNCE => {
                return crate::directory::serve_announce(driver, asker.node, body);
            }
            kind::AREA_MAPPED => directory.serve_mapped(driver, asker.node, subject, value),
            kind::AREA_RETURN => directory.serve_return(driver, lets_go, asker, subject),
            kind::AREA_RETIRE => crate::directory::serve_retire(driver, lets_go, subject),
            kind::FREE => {
                driver.acquire();
                heap.serve_free(driver, asker, subject);
                true
            }
            kind::PUBLISH => names.serve_publish(driver, asker, body, subject),
            kind::LOOKUP => names.serve_lookup(driver, asker, body),
            kind::SEGMENT_NAME => segments.serve_name(driver, asker, body),
            kind::SEGMENT_MADE => segments.serve_made(driver, asker, body),
            kind::SEGMENT_FIND => segments.serve_find(driver, asker, body, false),
            kind::SEGMENT_WAIT => segments.serve_find(driver, asker, body, true),
            kind::SEGMENT_STAT => segments.serve_stat(driver, asker, subject),
            kind::SEGMENT_ATTACH => segments.serve_attach(driver, asker, subject),
            kind::SEGMENT_DETACH => segments.serve_detach(driver, asker, subject),
            kind::SEGMENT_REMOVE => segments.serve_remove(driver, asker, subject),
            kind::SEGMENT_SET => segments.serve_set(driver, asker, (subject, value), body),
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
