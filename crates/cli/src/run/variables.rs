//! What a user may choose by a variable in place of an option, where the launcher decides it: nodes read the others themselves.

use super::error::LaunchError;
use super::options::{Encrypt, PlaceArgs, RunArgs, Variable};
use super::{environment, say};
use clap::ValueEnum;
use multigrain_transport::AddressKind;
use multigrain_transport::interfaces::parse_filter;
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
            unless_given(&mut self.interface, "MULTIGRAIN_INTERFACE", parse_filter)?;
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
        look_at(&self.env)?;
        unless_given(&mut self.links.transport, "MULTIGRAIN_TRANSPORT", |text| text.parse())?;
        unless_given(&mut self.links.encrypt, "MULTIGRAIN_ENCRYPT", encrypt)?;
        let listens = !self.links.transport().uses(AddressKind::Unix);
        self.place.take_variables(listens)
    }
}

/// The variables of `-x`; one that is not set here is told of.
///
/// # Errors
/// No variable can have such a name.
pub(super) fn look_at(given: &[Variable]) -> Result<(), LaunchError> {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(Variable { name, .. }) = given.iter().find(|one| !is_name(&one.name)) {
        let why = format!("-x {name}: no variable has such a name; write -x VAR or -x VAR=VALUE");
        return Err(LaunchError::Refused(why));
    }
    environment::lacking(given).for_each(|name| {
        say(&format!("-x {name}: it is not set here, so nodes do not get it; set it, or write -x {name}=VALUE"));
    });
    Ok(())
}

/// What tells a task of a process manager its number and how many there are.
const MANAGERS: [(&str, &str, &str); 3] = [
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mpiexec", "PMI_RANK", "PMI_SIZE"),
];

/// A line where a process manager has started several launchers, which is seldom meant; from the first of them.
pub(super) fn started_several_times(get: impl Fn(&str) -> Option<String>) -> Option<String> {
    if get("MULTIGRAIN_RANK").is_some() {
        return None;
    }
    let number = |name: &str| get(name)?.parse::<u32>().ok();
    let of =
        |(manager, rank, size)| Some((manager, number(rank)?, number(size).filter(|&n| n > 1)?));
    let (manager, rank, size) = MANAGERS.into_iter().find_map(of)?;
    (rank == 0).then(|| {
        format!(
            "{manager} has started {size} launchers, and each runs a job of its own; for one job leave out {manager}, \
             or `multigrain run`"
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_launchers_says_that_there_are_several() {
        let said = |set: &'static [(&str, &str)]| {
            let value = move |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            started_several_times(value)
        };
        let line = said(&[("PMI_RANK", "0"), ("PMI_SIZE", "4")]).unwrap();
        assert!(line.starts_with("mpiexec has started 4 launchers"), "{line}");
        let of_slurm: &[_] = &[
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "2"),
        ];
        assert!(said(of_slurm).is_some_and(|line| line.starts_with("srun has started 2 ")));
        assert_eq!(said(&[("PMI_RANK", "1"), ("PMI_SIZE", "4")]), None);
        // In a script of sbatch, and in a node of a job.
        assert_eq!(said(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]), None);
        assert_eq!(said(&[("PMI_RANK", "0"), ("PMI_SIZE", "4"), ("MULTIGRAIN_RANK", "0")]), None);
        assert_eq!(said(&[]), None);
    }
}
