//! The history of a run, as the threads recorded it, and its check.
//!
//! Role: proves sequential consistency of what was recorded, from the records alone. The order in
//! which the accesses happened is the witness: if it keeps every thread's program order, and every
//! read in it returns the last write to its minipage, it is the total order that sequential
//! consistency requires. Since every store writes a number of its own, a read that returns another
//! store's number cannot pass. Records are checked as they fill a buffer, so that memory is bounded.

use super::cluster::{Content, FREED};

/// Records checked at once.
const BUFFER: usize = 1 << 14;
/// Stands for the thread of a record that no thread made.
const NOBODY: u32 = u32::MAX;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The thread, counted over the job.
    pub thread: u32,
    /// Its accesses before this one.
    pub number: u32,
    /// The minipage, by index.
    pub minipage: u32,
    /// What a load returned; both of these for an atomic read-modify-write.
    pub saw: Option<Content>,
    /// What a store wrote.
    pub wrote: Option<Content>,
}

/// The records that are not checked yet, and what those before them lead to.
#[derive(Debug)]
pub struct History {
    records: Vec<Record>,
    /// By thread: the number of its next access.
    numbers: Vec<u32>,
    /// By minipage: what was written last.
    latest: Vec<Content>,
}

impl History {
    /// No access yet; every minipage holds 0.
    #[must_use]
    pub fn new(threads: usize, minipages: usize) -> Self {
        Self {
            records: Vec::with_capacity(BUFFER),
            numbers: vec![0; threads],
            latest: vec![0; minipages],
        }
    }

    /// Adds an access.
    ///
    /// # Errors
    /// The first record that does not fit, with its reason.
    pub fn add(&mut self, record: Record) -> Result<(), (Record, String)> {
        self.records.push(record);
        if self.records.len() == BUFFER { self.check() } else { Ok(()) }
    }

    /// A minipage was reclaimed: whatever is read before the next write is wrong.
    ///
    /// # Errors
    /// As [`History::add`].
    pub fn forget(&mut self, minipage: u32) -> Result<(), (Record, String)> {
        let (thread, wrote) = (NOBODY, Some(FREED));
        self.add(Record { thread, number: 0, minipage, saw: None, wrote })
    }

    /// Checks what has been recorded.
    ///
    /// # Errors
    /// The first record that does not fit, with its reason.
    pub fn check(&mut self) -> Result<(), (Record, String)> {
        for record in self.records.drain(..) {
            let latest = &mut self.latest[record.minipage as usize];
            if let Some(next) = self.numbers.get_mut(record.thread as usize) {
                if record.number != *next {
                    let text = format!("program order: access {next} of the thread was to come");
                    return Err((record, text));
                }
                *next = next.wrapping_add(1);
            } else if record.thread != NOBODY {
                return Err((record, "there is no such thread".into()));
            }
            if let Some(saw) = record.saw
                && (saw != *latest || saw == FREED)
            {
                let text = format!("it saw {saw:#x}, but {latest:#x} was written last");
                return Err((record, text));
            }
            *latest = record.wrote.unwrap_or(*latest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(thread: u32, number: u32, saw: Option<u64>, wrote: Option<u64>) -> Record {
        Record { thread, number, minipage: 0, saw, wrote }
    }

    fn verdict(records: &[Record]) -> Result<(), (Record, String)> {
        let mut history = History::new(2, 1);
        records.iter().try_for_each(|record| history.add(*record))?;
        history.check()
    }

    #[test]
    fn a_read_of_the_last_write_passes() {
        let store = record(0, 0, None, Some(7));
        let both = record(1, 0, Some(7), Some(8));
        assert_eq!(verdict(&[store, both, record(0, 1, Some(8), None)]), Ok(()));
    }

    #[test]
    fn a_stale_read_is_found() {
        let writes = [record(0, 0, None, Some(7)), record(0, 1, None, Some(8))];
        let stale = record(1, 0, Some(7), None);
        assert_eq!(verdict(&[writes[0], writes[1], stale]).unwrap_err().0, stale);
    }

    #[test]
    fn two_fetch_and_adds_that_return_the_same_number_are_found() {
        let adds = [record(0, 0, Some(0), Some(1)), record(1, 0, Some(0), Some(1))];
        assert_eq!(verdict(&adds).unwrap_err().0, adds[1]);
    }

    #[test]
    fn an_access_out_of_program_order_is_found() {
        let early = record(0, 1, Some(0), None);
        assert_eq!(verdict(&[early]).unwrap_err().0, early);
    }

    #[test]
    fn a_read_of_freed_memory_is_found() {
        let mut history = History::new(1, 1);
        history.forget(0).unwrap();
        history.add(record(0, 0, Some(FREED), None)).unwrap();
        assert!(history.check().is_err());
    }
}
