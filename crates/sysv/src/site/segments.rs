//! The memory of System V segments: each is a named segment of the job (ADR 50), whose library site is the site that has
//! created it, and is attached by a site when the first of its processes is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use multigrain_runtime::{Error, Runtime, SegmentOptions};

use super::exports::Exports;
use super::say;
use super::usage::Usage;

/// Who may attach: sites, which are all of one user.
const MODE: u32 = 0o600;
/// Between two looks whether another site has made the memory of the segment that it has just created.
const STEP: Duration = Duration::from_millis(1);

/// The segments that this site has created or attached.
#[derive(Debug)]
pub(super) struct Areas {
    options: SegmentOptions,
    created: Mutex<BTreeSet<i32>>,
    attaching: Mutex<()>,
    usage: Arc<Usage>,
}

fn name(id: i32) -> Vec<u8> {
    format!("sysv-{id}").into_bytes()
}

impl Areas {
    /// Of segments that are shared so.
    pub(super) fn new(options: SegmentOptions, usage: Arc<Usage>) -> Self {
        Self { options, created: Mutex::default(), attaching: Mutex::default(), usage }
    }

    /// Makes the memory of a segment.
    ///
    /// # Errors
    /// No room.
    pub(super) fn create(&self, runtime: &Runtime, id: i32, bytes: u64) -> Result<(), Error> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // Under this lock: that it is gone already is heard behind it.
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        runtime.segment_create(&name(id), bytes, MODE, self.options)?;
        created.insert(id);
        Ok(())
    }

    /// Has this site attach a segment that a process of it is about to, unless it has. `is_there`: it exists still.
    ///
    /// # Errors
    /// No room.
    pub(super) fn attach(
        &self,
        runtime: &Runtime,
        exports: &Exports,
        (id, bytes): (i32, u64),
        is_there: impl Fn() -> bool,
    ) -> Result<(), Error> {
        if exports.lock().segment(id).is_some() {
            return Ok(());
        }
        let _one = self.attaching.lock().unwrap_or_else(PoisonError::into_inner);
        if exports.lock().segment(id).is_some() {
            return Ok(());
        }
        let address = loop {
            match runtime.segment_attach(&name(id), true, false) {
                Err(Error::NotFound(_)) if is_there() => sleep(STEP),
                attached => break attached?,
            }
        };
        let area = runtime.area_at(address).ok_or(Error::NotInitialized)?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.usage.begins(area, id);
        let added = exports.lock().add_segment(area, id, address, bytes);
        added.map_err(|errno| {
            // Nobody else has it here.
            let _ = runtime.segment_detach(address);
            Error::System(format!("the memory object of a segment: {errno}"))
        })
    }

    /// A segment is gone, and nobody will attach it.
    pub(super) fn remove(&self, runtime: &Runtime, exports: &Exports, id: i32) {
        let _one = self.attaching.lock().unwrap_or_else(PoisonError::into_inner);
        let created = self.created.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let removed = if created { runtime.segment_remove(&name(id)) } else { Ok(()) };
        let address = exports.lock().remove_segment(id);
        let detached = address.map_or(Ok(()), |address| runtime.segment_detach(address));
        for gone in [removed, detached] {
            match gone {
                // It is gone with the job.
                Ok(()) | Err(Error::NotInitialized) => {}
                Err(error) => {
                    say(format_args!(
                        "{} keeps the memory of a segment that is gone: {error}",
                        runtime.rank()
                    ));
                }
            }
        }
    }
}
