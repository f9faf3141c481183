//! Names for addresses: node 0 keeps them, a look-up waits until the name is there.

use std::collections::BTreeMap;

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants::Mutant;
use multigrain_types::NodeId;

use crate::boot::Runtime;
use crate::control::{Asker, kind};
use crate::error::Error;
use crate::races::Object;
use crate::tables::lock;
use crate::tsan::{self, Token};

/// Longest name, bytes.
const MAX_NAME: usize = 63;

/// Most names of a job, so that a program that makes up a new one each time is told.
pub(crate) const MOST: usize = 1 << 16;

/// Node 0's books.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: BTreeMap<Vec<u8>, u64>,
    waiting: BTreeMap<Vec<u8>, Vec<Asker>>,
}

impl Runtime {
    /// Makes an address known to the job. A name can be given again: later look-ups see the last.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or overlong name; [`Error::Limit`] for one name too many.
    pub fn publish(&self, name: &[u8], address: usize) -> Result<(), Error> {
        check(name)?;
        tsan::give(Token::Names);
        self.release()?;
        self.ask(NodeId(0), kind::PUBLISH, address as u64, 0, name)
            .map(drop)
            .map_err(|(code, _)| Error::from_code(code, &format!("a job has at most {MOST} names")))
    }

    /// The address published under a name; waits for it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or overlong name.
    pub fn lookup(&self, name: &[u8]) -> Result<usize, Error> {
        check(name)?;
        let address = self
            .ask(NodeId(0), kind::LOOKUP, 0, 0, name)
            .map_err(|(code, _)| Error::from_code(code, "look-up"))?;
        tsan::take(Token::Names);
        usize::try_from(address).map_err(|_| Error::System("address out of range".into()))
    }

    pub(crate) fn serve_publish(&self, asker: Asker, name: &[u8], address: u64) -> bool {
        if check(name).is_err() {
            return false;
        }
        let object = Object::Name(name.to_vec());
        let mut names = lock(&self.names);
        let most = MOST;
        #[cfg(feature = "mutants")]
        let most = crate::mutants::bound(Mutant::named("names-without-end"), most);
        if names.known.len() == most && !names.known.contains_key(name) {
            drop(names);
            self.answer(asker, Error::Limit(String::new()).code(), 0);
            return true;
        }
        self.order_keep(object.clone(), asker, kind::PUBLISH);
        names.known.insert(name.to_vec(), address);
        let waiting = names.waiting.remove(name).unwrap_or_default();
        for waiter in &waiting {
            self.order_answer(*waiter, &object);
        }
        drop(names);
        for waiter in waiting {
            self.answer(waiter, 0, address);
        }
        self.answer(asker, 0, 0);
        true
    }

    pub(crate) fn serve_lookup(&self, asker: Asker, name: &[u8]) -> bool {
        if check(name).is_err() {
            return false;
        }
        let mut names = lock(&self.names);
        let known = names.known.get(name).copied();
        if known.is_some() {
            self.order_answer(asker, &Object::Name(name.to_vec()));
        } else {
            names.waiting.entry(name.to_vec()).or_default().push(asker);
        }
        drop(names);
        if let Some(address) = known {
            self.answer(asker, 0, address);
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
