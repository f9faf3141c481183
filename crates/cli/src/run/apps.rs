//! Several programs in one job, as mpiexec has it: `multigrain run -n 2 ./a 7 : -n 1 ./b`.

use std::ffi::OsString;

use multigrain_types::limits::MAX_NODES;

/// A program and its arguments, and on how many nodes it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct App {
    pub(super) nodes: u32,
    pub(super) command: Vec<OsString>,
}

/// The programs of a command line, the first of which runs on `nodes`. A `:` of its own parts two, whatever follows, for
/// one that is mistyped would hand the second program to the first as arguments.
///
/// # Errors
/// What is wrong with a part, in words.
pub(super) fn split(nodes: u32, words: &[OsString]) -> Result<Vec<App>, String> {
    let mut apps = vec![App { nodes, command: Vec::new() }];
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if word == ":" {
            let wanted = "after ':' comes -n and a number of nodes";
            match words.next() {
                Some(option) if option == "-n" => {}
                Some(other) => return Err(format!("{wanted}, not '{}'", other.display())),
                None => return Err(format!("{wanted}, and then a program")),
            }
            let count = words.next().and_then(|count| count.to_str()?.parse().ok());
            let nodes = count.filter(|count| (1..=MAX_NODES).contains(count));
            let wrong = || format!("after ': -n' comes a number of nodes, 1 to {MAX_NODES}");
            apps.push(App { nodes: nodes.ok_or_else(wrong)?, command: Vec::new() });
            words.next_if(|word| *word == "--");
            continue;
        }
        if let Some(app) = apps.last_mut() {
            app.command.push(word.clone());
        }
    }
    if let Some((index, empty)) = apps.iter().enumerate().find(|(_, app)| app.command.is_empty()) {
        return Err(match index {
            0 => "before ':' comes a program".to_owned(),
            _ => format!("after ': -n {}' comes a program", empty.nodes),
        });
    }
    let option = |app: &&App| app.command[0].to_str().is_some_and(|word| word.starts_with('-'));
    if let Some(app) = apps.iter().skip(1).find(option) {
        let word = app.command[0].display();
        return Err(format!(
            "after ': -n {}' comes a program, not '{word}': other options stand in front and are for all",
            app.nodes
        ));
    }
    let all = self::nodes(&apps);
    if all > MAX_NODES {
        return Err(format!("{all} nodes in all: a job has {MAX_NODES} at most"));
    }
    Ok(apps)
}

/// Nodes of them all.
pub(super) fn nodes(apps: &[App]) -> u32 {
    apps.iter().map(|app| app.nodes).sum()
}

/// How many nodes each has, as nodes are told.
pub(super) fn counts(apps: &[App]) -> String {
    let counts: Vec<String> = apps.iter().map(|app| app.nodes.to_string()).collect();
    counts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(words: &str) -> Result<Vec<App>, String> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        split(2, &words)
    }

    #[test]
    fn a_colon_parts_programs_where_a_number_of_nodes_follows() {
        let app = |nodes, command: &[&str]| {
            let command = command.iter().map(OsString::from).collect();
            App { nodes, command }
        };
        assert_eq!(parts("./a -n 3").unwrap(), [app(2, &["./a", "-n", "3"])]);
        assert_eq!(parts("./a :x y:").unwrap(), [app(2, &["./a", ":x", "y:"])]);
        let two = parts("./a 7 : -n 3 ./b c").unwrap();
        assert_eq!(two, [app(2, &["./a", "7"]), app(3, &["./b", "c"])]);
        assert_eq!(parts("./a 7 : -n 3 -- ./b c").unwrap(), two);
        assert_eq!((nodes(&two), counts(&two)), (5, "2,3".to_owned()));
    }

    #[test]
    fn a_part_that_is_none_is_said_to_be() {
        for wrong in ["./a : -n", "./a : -n 0 ./b", "./a : -n x ./b", "./a : -n 1025 ./b"] {
            assert!(parts(wrong).unwrap_err().contains("a number of nodes"), "{wrong}");
        }
        for wrong in ["-np", "--nodes", "-m", "-n1", "./b", ":"] {
            let said = parts(&format!("./a : {wrong} 1 ./b")).unwrap_err();
            assert!(said.ends_with(&format!("not '{wrong}'")), "{said}");
        }
        for wrong in ["./a :", "./a : -n 1 ./b :"] {
            let said = "after ':' comes -n and a number of nodes, and then a program";
            assert_eq!(parts(wrong).unwrap_err(), said);
        }
        assert_eq!(parts("./a : -n 3").unwrap_err(), "after ': -n 3' comes a program");
        assert_eq!(parts(": -n 3 ./b").unwrap_err(), "before ':' comes a program");
        let said = parts("./a : -n 1 -t 3 ./b").unwrap_err();
        assert!(said.starts_with("after ': -n 1' comes a program, not '-t'"), "{said}");
        assert!(parts("./a : -n 1023 ./b").unwrap_err().contains("1025 nodes in all"));
    }
}
