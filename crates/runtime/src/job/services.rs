//! Which service serves which request.

use multigrain_transport::Header;

use super::departure::Departure;
use crate::directory::Directory;
use crate::directory::names::Names;
use crate::driver::{Driver, Services};
use crate::frames::{Asker, Request};
use crate::heap::Heap;
use crate::named_segments::NamedSegments;
use crate::threads::{ThreadHandle, Threads};

/// The services of a node that are asked by others.
#[derive(Debug)]
pub(super) struct NodeServices {
    pub(super) directory: Directory,
    pub(super) names: Names,
    pub(super) heap: Heap,
    pub(super) segments: NamedSegments,
    pub(super) threads: Threads,
    pub(super) departure: Departure,
}

/// The driver's share of the services.
#[derive(Debug)]
pub(super) struct Shared(pub(super) std::sync::Arc<NodeServices>);

impl Services for Shared {
    fn serve(
        &self,
        driver: &Driver,
        asker: Asker,
        request: Request,
        header: &Header,
        body: &[u8],
    ) -> Result<(), String> {
        let NodeServices { directory, names, heap, segments, threads, departure } = &*self.0;
        let Header { kind, subject, value, .. } = *header;
        let lets_go = |id| heap.lets_go(id);
        let makes_sense = match request {
            Request::NewArea => directory.serve_request(driver, asker, body),
            Request::AreaAnnounce => {
                return crate::directory::serve_announce(driver, asker.node, body);
            }
            Request::AreaMapped => directory.serve_mapped(driver, asker.node, subject, value),
            Request::AreaReturn => directory.serve_return(driver, lets_go, asker, subject),
            Request::AreaRetire => {
                crate::directory::serve_retire(driver, lets_go, subject, value != 0)
            }
            Request::AreaSpare => {
                heap.serve_spare(driver, asker);
                true
            }
            Request::Free => {
                driver.acquire();
                heap.serve_free(driver, asker, subject);
                true
            }
            Request::Publish => names.serve_publish(driver, asker, body, subject),
            Request::Lookup => names.serve_lookup(driver, asker, body),
            Request::SegmentName => segments.serve_name(driver, asker, body),
            Request::SegmentMade => segments.serve_made(driver, asker, body),
            Request::SegmentFind => segments.serve_find(driver, asker, body, false),
            Request::SegmentWait => segments.serve_find(driver, asker, body, true),
            Request::SegmentStat => segments.serve_stat(driver, asker, subject),
            Request::SegmentAttach => segments.serve_attach(driver, asker, subject),
            Request::SegmentDetach => segments.serve_detach(driver, asker, subject),
            Request::SegmentRemove => segments.serve_remove(driver, asker, subject),
            Request::SegmentSet => segments.serve_set(driver, asker, (subject, value), body),
            Request::ThreadStart => {
                return threads.serve_start(driver, asker, (subject, value), body);
            }
            Request::ThreadJoin => {
                threads.serve_join(driver, asker, ThreadHandle(subject));
                true
            }
            Request::ThreadDetach => {
                threads.serve_detach(driver, asker, ThreadHandle(subject));
                true
            }
            Request::Departure => departure.serve(driver, asker, subject),
            Request::SiteMessage => super::sysv_sites::serve(asker.node, body),
        };
        if makes_sense { Ok(()) } else { Err(format!("frame kind {kind} makes no sense")) }
    }
}
