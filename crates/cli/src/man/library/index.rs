//! The page multigrain(3): all functions by the parts of `multigrain.h`, and all errors.

use super::{Group, function, groups, members, name, pages};
use clap_mangen::roff::{Roff, bold, roman};

const ABOUT: &str = "A program that includes multigrain.h and is linked with libmultigrain calls mg_init(3) first and \
    mg_finalize(3) last; multigrain(7) shows one. The functions by what they are about:";

const RETURNS: &str = "Functions that return an int give 0, or one of the negative codes below; those that return a \
    pointer give NULL. mg_last_error(3) has the code of what failed last in this thread, and mg_strerror(3) says in words \
    which lock, thread, address or limit it was.";

const BUILDING: &str = "cc app.c -o app $(pkg-config --cflags --libs multigrain). multigrain.hpp has the same for C++17, \
    multigrain.f90 for Fortran.";

/// The page.
pub(super) fn page() -> Vec<u8> {
    let groups = groups();
    let mut roff = Roff::new();
    roff.control("TH", ["multigrain", "3", "", "", "Multigrain"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("multigrain - the Multigrain interface for C: all functions, all errors")]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold("#include <multigrain.h>")]);
    roff.control("PP", []);
    roff.text([roman(BUILDING)]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(ABOUT)]);
    let mut part = "";
    for row in rows(&groups) {
        if row.part != part {
            part = row.part;
            roff.control("SS", [part]);
        }
        roff.control("TP", []);
        roff.text([bold(row.functions.join(", "))]);
        roff.text([roman(row.what)]);
    }
    roff.control("SH", ["RETURN VALUE"]);
    roff.text([roman(RETURNS)]);
    roff.control("SH", ["ERRORS"]);
    let errors = groups.iter().flat_map(|group| &group.declarations);
    errors.filter(|it| name(it) == Some("mg_error")).for_each(|it| members(&mut roff, it));
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman("multigrain(7), multigrain(1), multigrain-run(1)")]);
    roff.render().into_bytes()
}

/// The functions of one page that one part of the header declares.
struct Row<'a> {
    part: &'a str,
    page: &'a str,
    what: &'a str,
    functions: Vec<&'a str>,
}

/// All functions, in the header's order.
fn rows(groups: &[Group]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for group in groups {
        for function in group.declarations.iter().filter_map(|it| function(it)) {
            let entry = pages::all().find(|entry| entry.names.contains(&function));
            let own = || (group.names()[0], "described together, on the page of the first");
            let (page, what) = entry.map_or_else(own, |entry| (entry.names[0], entry.what));
            let part = group.part.as_str();
            match rows.iter_mut().find(|row| (row.part, row.page) == (part, page)) {
                Some(row) => row.functions.push(function),
                None => rows.push(Row { part, page, what, functions: vec![function] }),
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_names_every_function_and_every_error_once() {
        let text = String::from_utf8(page()).unwrap().replace("\\fB", "").replace("\\fI", "");
        let (listed, errors) = text.split_once(".SH \"RETURN VALUE\"").unwrap();
        let (_, listed) = listed.split_once(".SS").unwrap();
        let count = |text: &str, wanted: &str| {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            text.split(|c| !is_word(c)).filter(|word| *word == wanted).count()
        };
        let groups = groups();
        let declared = || groups.iter().flat_map(|group| &group.declarations);
        let functions: Vec<&str> = declared().filter_map(|it| function(it)).collect();
        assert!(functions.len() > 90, "{}", functions.len());
        for name in functions {
            assert_eq!(count(listed, name), 1, "{name}");
        }
        for error in ["MG_OK", "MG_EINVAL", "MG_EACCES"] {
            assert_eq!(count(errors, error), 1, "{error}");
        }
        for part in ["Errors and version", "Job", "Memory", "Synchronization", "Statistics"] {
            assert!(
                text.lines().any(|line| line.trim_start_matches(".SS ").trim_matches('"') == part),
                "{part}"
            );
        }
    }

    #[test]
    fn what_a_function_is_for_is_said() {
        let groups = groups();
        for row in rows(&groups) {
            assert!(!row.what.is_empty() && !row.part.is_empty(), "{:?}", row.functions);
        }
    }
}
