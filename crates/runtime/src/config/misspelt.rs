//! Variables that nobody reads: their names are misspelt, or they are not for users.

use std::ffi::OsString;

use super::variables::{SETTINGS, is_known};

const PREFIX: &str = "MULTIGRAIN_";

/// At how many letters that are wrong, missing, too many or in each other's place a name is still the other one.
const MOST_WRONG: usize = 2;

/// A line for each of these variables whose name is nearly that of a setting. Others of the prefix are the program's.
pub(crate) fn misspelt(variables: impl Iterator<Item = OsString>) -> Vec<String> {
    let line = |variable: OsString| {
        let name = variable.to_str()?.strip_prefix(PREFIX).filter(|name| !is_known(name))?;
        let wrong = |setting: &&str| strsim::damerau_levenshtein(setting, name);
        let by_option = |option: &str| {
            format!("{PREFIX}{name} is no variable of Multigrain; {option} may be meant")
        };
        match name {
            "HOSTS" | "HOSTFILE" => return Some(by_option("--hosts or --hostfile")),
            "BOOT_TIMEOUT" => return Some(by_option("MULTIGRAIN_BOOT_SECONDS")),
            _ => {}
        }
        let nearest = SETTINGS.into_iter().min_by_key(|setting| wrong(setting))?;
        (wrong(&nearest) <= MOST_WRONG).then(|| {
            format!("{PREFIX}{name} is no variable of Multigrain; {PREFIX}{nearest} may be meant")
        })
    };
    variables.filter_map(line).collect()
}

/// A line for the variables of a process that nobody has made a node of, if they have a number of nodes.
pub(crate) fn nodes_of_nobody(get: &dyn Fn(&str) -> Option<OsString>) -> Option<String> {
    let nodes = get("MULTIGRAIN_NODES").filter(|_| get("MULTIGRAIN_RANK").is_none())?;
    let nodes = nodes.to_str().filter(|nodes| !["", "1"].contains(nodes))?;
    let meant = if nodes.parse::<u16>().is_ok_and(|nodes| nodes > 0) { nodes } else { "N" };
    Some(format!(
        "MULTIGRAIN_NODES={nodes} makes no nodes, and this job has one: start it with `multigrain run -n {meant}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::variables::OWN;
    use super::*;

    #[test]
    fn a_number_of_nodes_is_named_where_nobody_has_made_any() {
        let of = |rank: Option<&str>, nodes: &str| {
            nodes_of_nobody(&|name| match name {
                "MULTIGRAIN_RANK" => rank.map(Into::into),
                _ => Some(nodes.into()),
            })
        };
        assert!(of(None, "4").unwrap().ends_with("`multigrain run -n 4`"));
        assert!(of(None, "-1").unwrap().ends_with("`multigrain run -n N`"));
        assert_eq!([of(None, "1"), of(None, ""), of(Some("0"), "4")], [None, None, None]);
    }

    #[test]
    fn a_name_that_is_nearly_a_setting_is_named_with_it_and_no_other_is() {
        let of = |name: &str| misspelt(core::iter::once(name.into()));
        for (wrong, right) in
            [("GAURD", "GUARD"), ("TREADS", "THREADS"), ("CONSISTANCY", "CONSISTENCY")]
        {
            let line = format!(
                "MULTIGRAIN_{wrong} is no variable of Multigrain; MULTIGRAIN_{right} may be meant"
            );
            assert_eq!(of(&format!("MULTIGRAIN_{wrong}")), [line]);
        }
        for (wrong, right) in
            [("BOOT_TIMEOUT", "MULTIGRAIN_BOOT_SECONDS"), ("HOSTS", "--hosts or --hostfile")]
        {
            let lines = of(&format!("MULTIGRAIN_{wrong}"));
            assert!(lines.len() == 1 && lines[0].ends_with(&format!("; {right} may be meant")));
        }
        // PART is two letters from PORTS.
        for name in ["MULTIGRAIN_PART", "MULTIGRAIN_APPS", "MULTIGRAIN_INPUT_FILE", "GAURD", "HOME"]
        {
            assert_eq!(of(name), [""; 0], "{name}");
        }
        for known in SETTINGS.iter().chain(&OWN) {
            assert_eq!(of(&format!("{PREFIX}{known}")), [""; 0], "{known}");
        }
    }
}
