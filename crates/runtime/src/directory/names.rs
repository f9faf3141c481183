//! Names for addresses: node 0 keeps them, a look-up waits until the name is there.

use std::collections::BTreeMap;

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants::Mutant;
use multigrain_types::NodeId;

use crate::driver::Driver;
use crate::error::Error;
use crate::frames::{Asker, MAX_NAME, Request};
use crate::races::Ordered;
use crate::shim::{Mutex, lock};
use crate::tsan::{self, Token};

/// Most names of a job, so that a program that makes up a new one each time is told.
pub(crate) const MOST: usize = 1 << 16;

/// The names of a job, on node 0.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    known: BTreeMap<Vec<u8>, u64>,
    waiting: BTreeMap<Vec<u8>, Vec<Asker>>,
}

impl Names {
    /// Makes an address known to the job. A name can be given again: later look-ups see the last.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or overlong name; [`Error::Limit`] for one name too many.
    pub(crate) fn publish(driver: &Driver, name: &[u8], address: usize) -> Result<(), Error> {
        check(name)?;
        tsan::give(Token::Names);
        driver.release()?;
        driver
            .request(NodeId(0), Request::Publish, address as u64, 0, name)
            .map(drop)
            .map_err(|(code, _)| Error::from_code(code, &format!("a job has at most {MOST} names")))
    }

    /// The address published under a name; waits for it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or overlong name.
    pub(crate) fn lookup(driver: &Driver, name: &[u8]) -> Result<usize, Error> {
        check(name)?;
        let address = driver
            .request(NodeId(0), Request::Lookup, 0, 0, name)
            .map_err(|(code, _)| Error::from_code(code, "look-up"))?;
        tsan::take(Token::Names);
        usize::try_from(address).map_err(|_| Error::System("address out of range".into()))
    }

    pub(crate) fn serve_publish(
        &self,
        driver: &Driver,
        asker: Asker,
        name: &[u8],
        address: u64,
    ) -> bool {
        if check(name).is_err() {
            return false;
        }
        let object = Ordered::Name(name.to_vec());
        let mut names = lock(&self.0);
        let most = MOST;
        #[cfg(feature = "mutants")]
        let most = crate::mutants::bound(Mutant::named("names-without-end"), most);
        if names.known.len() == most && !names.known.contains_key(name) {
            drop(names);
            driver.answer(asker, Error::Limit(String::new()).code(), 0);
            return true;
        }
        driver.races().keep(object.clone(), asker, Request::Publish);
        names.known.insert(name.to_vec(), address);
        let waiting = names.waiting.remove(name).unwrap_or_default();
        for waiter in &waiting {
            driver.races().answer(*waiter, &object);
        }
        drop(names);
        for waiter in waiting {
            driver.answer(waiter, 0, address);
        }
        driver.answer(asker, 0, 0);
        true
    }

    pub(crate) fn serve_lookup(&self, driver: &Driver, asker: Asker, name: &[u8]) -> bool {
        if check(name).is_err() {
            return false;
        }
        let mut names = lock(&self.0);
        let known = names.known.get(name).copied();
        if known.is_some() {
            driver.races().answer(asker, &Ordered::Name(name.to_vec()));
        } else {
            names.waiting.entry(name.to_vec()).or_default().push(asker);
        }
        drop(names);
        if let Some(address) = known {
            driver.answer(asker, 0, address);
        }
        true
    }
}

fn check(name: &[u8]) -> Result<(), Error> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(Error::Invalid(format!(
            "a name has 1 to {MAX_NAME} bytes, not {}",
            name.len()
        )));
    }
    Ok(())
}
