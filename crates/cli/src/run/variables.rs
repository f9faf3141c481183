//! What a user may choose by a variable in place of an option, where the launcher decides it: nodes read the others themselves.

use super::error::LaunchError;
use super::options::{Encrypt, PlaceArgs, RunArgs};
use clap::ValueEnum;
use multigrain_transport::interfaces::parse_wish;
use std::env;
use std::fmt::Display;

impl PlaceArgs {
    /// Variables stand where no option does.
    ///
    /// # Errors
    /// One whose value is none.
    pub(super) fn take_variables(&mut self) -> Result<(), LaunchError> {
        unless_given(&mut self.ports, "MULTIGRAIN_PORTS", |text| text.parse())?;
        // It says where hosts meet: a job on one is no mistake.
        if !self.is_here() || matches!(self.allocation(), Ok(Some(_))) {
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
        self.place.take_variables()
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
