//! What a user may choose by a variable in place of an option, where the launcher decides it: nodes read the others themselves.

use super::error::LaunchError;
use super::options::{Encrypt, PlaceArgs, RunArgs};
use clap::ValueEnum;
use multigrain_transport::AddressKind;
use multigrain_transport::interfaces::parse_wish;
use std::env;
use std::fmt::Display;

impl PlaceArgs {
    /// Variables stand where no option does. `listens`: nodes listen at ports of TCP also where the job is on this
    /// host alone.
    ///
    /// # Errors
    /// One whose value is none, or an option that says nothing there; a variable is no mistake.
    pub(super) fn take_variables(&mut self, listens: bool) -> Result<(), LaunchError> {
        self.refuse_idle(listens).map_err(LaunchError::Hosts)?;
        unless_given(&mut self.ports, "MULTIGRAIN_PORTS", |text| text.parse())?;
        if !self.is_here() {
            unless_given(&mut self.interface, "MULTIGRAIN_INTERFACE", parse_wish)?;
        }
        Ok(())
    }
}

impl RunArgs {
    /// The same.
    ///
    /// # Errors
    /// As there.
    pub(super) fn take_variables(&mut self) -> Result<(), LaunchError> {
        let encrypt = |text: &str| {
            Encrypt::from_str(text, false).map_err(|_| format!("{text}: it is auto, on or off"))
        };
        unless_given(&mut self.links.transport, "MULTIGRAIN_TRANSPORT", |text| text.parse())?;
        unless_given(&mut self.links.encrypt, "MULTIGRAIN_ENCRYPT", encrypt)?;
        let listens = !self.links.transport().uses(AddressKind::Unix);
        self.place.take_variables(listens)
    }
}

fn unless_given<T, E: Display>(
    option: &mut Option<T>,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<(), LaunchError> {
    let Some(text) = env::var_os(name).filter(|text| option.is_none() && !text.is_empty()) else {
        return Ok(());
    };
    let wrong = |why: &dyn Display| LaunchError::Refused(format!("{name}: {why}"));
    let text = text.to_str().ok_or_else(|| wrong(&"is no text"))?;
    *option = Some(parse(text).map_err(|why| wrong(&why))?);
    Ok(())
}
