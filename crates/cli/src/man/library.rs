//! The pages of the C interface, section 3: the text of `multigrain.h`, put together by the table in `pages`.
//!
//! A comment of the header is about the declarations below it. A page has those of several functions, each
//! under their names; what is not in the table gets a page of its own.

mod index;
mod pages;

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use pages::{ALWAYS, CODE, Entry};

const HEADER: &str = include_str!("../../../../include/multigrain.h");

/// A page: its file's name, and its text in roff.
pub(super) type Page = (String, Vec<u8>);

/// A comment and what is declared below it.
#[derive(Debug, Default)]
struct Group {
    text: Vec<String>,
    declarations: Vec<String>,
    /// The part of the header it stands in.
    part: String,
    /// What that begins with.
    notes: Vec<String>,
}

impl Group {
    /// What is declared, in order.
    fn names(&self) -> Vec<&str> {
        self.declarations.iter().filter_map(|it| name(it)).collect()
    }
}

/// The function, enumeration or structure that is declared, if one is.
fn name(declaration: &str) -> Option<&str> {
    function(declaration).or_else(|| kind_of_data(declaration))
}

fn function(declaration: &str) -> Option<&str> {
    let is_data = ["enum ", "struct ", "typedef "].iter().any(|it| declaration.starts_with(it));
    let before = declaration.split_once('(').filter(|_| !is_data)?.0;
    before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

fn kind_of_data(declaration: &str) -> Option<&str> {
    let is_data = declaration.starts_with("enum ") || declaration.starts_with("struct ");
    declaration.split_whitespace().nth(1).filter(|_| is_data && declaration.contains('{'))
}

/// The header's groups.
fn groups() -> Vec<Group> {
    let body = HEADER.split_once("extern \"C\" {\n#endif\n").map_or("", |(_, body)| body);
    let mut groups: Vec<Group> = vec![Group::default()];
    let (mut part, mut notes) = ("Errors and version".to_owned(), Vec::new());
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        let last = groups.last_mut();
        if line.starts_with("/*") {
            let mut comment = vec![line];
            while comment.last().is_some_and(|line| !line.contains("*/")) {
                comment.extend(lines.next());
            }
            let text = plain(&comment);
            if let Some(title) = comment.iter().find_map(|line| title(line)) {
                (part, notes) = (title.to_owned(), text);
                groups.push(Group::default());
            } else {
                groups.push(Group { text, ..Group::default() });
            }
        } else if line.is_empty() {
            groups.push(Group::default());
        } else if let Some(group) = last.filter(|_| !line.starts_with('#') && line != "}") {
            let mut declaration = line.to_owned();
            let ends = |text: &str| match text.contains('{') {
                true => text.contains("\n}") && text.ends_with(';'),
                false => code(text).ends_with(';'),
            };
            while !ends(&declaration) && lines.peek().is_some() {
                declaration.push('\n');
                declaration.push_str(lines.next().unwrap_or_default());
            }
            group.declarations.push(declaration);
            group.part.clone_from(&part);
            group.notes.clone_from(&notes);
        }
    }
    groups.retain(|group| !group.declarations.is_empty());
    groups
}

/// What a part of the header is called, where one begins; not what is said behind a colon.
fn title(line: &str) -> Option<&str> {
    let title = line.split_once("----")?.1.trim_matches([' ', '-', '*', '/']);
    title.split(':').next()
}

/// A declaration's line without its comment.
fn code(line: &str) -> &str {
    line.split_once("/*").map_or(line, |(code, _)| code).trim_end()
}

/// The comment behind a declaration on its line.
fn remark(line: &str) -> Option<String> {
    let comment = line.split_once("/*")?.1;
    Some(comment.trim_end_matches("*/").trim().to_owned())
}

/// A comment's text, a line each.
fn plain(comment: &[&str]) -> Vec<String> {
    let strip = |line: &&str| {
        let line = line.trim().trim_start_matches("/*").trim_end_matches("*/");
        line.trim_start_matches('*').trim().to_owned()
    };
    let lines: Vec<String> =
        comment.iter().map(strip).filter(|line| !line.contains("----")).collect();
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(lines.len());
    let last = lines.iter().rposition(|line| !line.is_empty()).map_or(first, |last| last + 1);
    lines[first..last].to_vec()
}

/// All pages.
pub(super) fn pages() -> Vec<Page> {
    let groups = groups();
    let mut pages: Vec<Page> =
        pages::all().flat_map(|entry| files(entry.names, &page(entry, &groups))).collect();
    let known = |name: &str| pages::all().any(|entry| entry.names.contains(&name));
    for group in &groups {
        let own: Vec<&str> = group.names().into_iter().filter(|name| !known(name)).collect();
        if !own.is_empty() {
            let what = "of the Multigrain interface for C";
            let parts =
                Parts { names: &own, what, about: "", returns: CODE, errors: &[], see: &[] };
            pages.extend(files(&own, &render(&parts, &groups)));
        }
    }
    pages.push(("multigrain.3".to_owned(), index::page()));
    pages
}

/// The page under its first name; the others lead there.
fn files(names: &[&str], page: &[u8]) -> Vec<Page> {
    let Some((first, others)) = names.split_first() else { return Vec::new() };
    let link = format!(".so man3/{first}.3\n").into_bytes();
    let links = others.iter().map(|name| (format!("{name}.3"), link.clone()));
    core::iter::once((format!("{first}.3"), page.to_vec())).chain(links).collect()
}

/// What [`Entry`] has, of a page that may have none.
struct Parts<'a> {
    names: &'a [&'a str],
    what: &'a str,
    about: &'a str,
    returns: &'a str,
    errors: &'a [(&'a str, &'a str)],
    see: &'a [&'a str],
}

fn page(entry: &Entry, groups: &[Group]) -> Vec<u8> {
    let Entry { names, what, about, returns, errors, see } = *entry;
    render(&Parts { names, what, about, returns, errors, see }, groups)
}

fn render(parts: &Parts<'_>, groups: &[Group]) -> Vec<u8> {
    let has = |declaration: &&String| name(declaration).is_some_and(|it| parts.names.contains(&it));
    let of_page: Vec<&Group> =
        groups.iter().filter(|group| group.declarations.iter().any(|it| has(&it))).collect();
    let mut roff = Roff::new();
    roff.control("TH", [parts.names[0], "3", "", "", "Multigrain"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{} - {}", parts.names.join(", "), parts.what))]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.control("nf", []);
    roff.text([bold("#include <multigrain.h>")]);
    for group in &of_page {
        roff.text([roman("")]);
        // What is no page's of its own, a type or a constant, goes with what it stands beside.
        let shown = group.declarations.iter().filter(|it| has(it) || name(it).is_none());
        for line in shown.flat_map(|declaration| declaration.lines()) {
            let line = code(line);
            if !line.trim_start().starts_with('*') && !line.trim().is_empty() {
                roff.text([bold(line)]);
            }
        }
    }
    roff.control("fi", []);
    roff.control("SH", ["DESCRIPTION"]);
    if !parts.about.is_empty() {
        roff.text([roman(parts.about)]);
    }
    let notes: &[String] =
        of_page.iter().find(|group| !group.notes.is_empty()).map_or(&[], |group| &group.notes);
    let is_silent = |group: &Group| {
        group.text.is_empty() && !group.declarations.iter().any(|it| remark(it).is_some())
    };
    if of_page.iter().all(|group| is_silent(group)) {
        paragraphs(&mut roff, notes, "PP");
    } else {
        for group in &of_page {
            describe(&mut roff, group, &has);
        }
        if !notes.is_empty() {
            roff.control("SH", ["NOTES"]);
            paragraphs(&mut roff, notes, "PP");
        }
    }
    roff.control("SH", ["RETURN VALUE"]);
    roff.text([roman(parts.returns)]);
    roff.control("SH", ["ERRORS"]);
    let nothing = ("none", "These give no errors.");
    let fails = parts.returns == CODE || !parts.errors.is_empty() || parts.returns.contains("MG_");
    let system = parts.errors.iter().any(|(code, _)| *code == "EFAULT");
    let always = if fails { ALWAYS } else { nothing };
    for (code, cause) in parts.errors.iter().copied().chain((!system).then_some(always)) {
        roff.control("TP", []);
        roff.text([bold(code)]);
        roff.text([roman(cause)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let more = ["mg_error", "multigrain", "multigrain(1)"]
        .into_iter()
        .filter(|it| !parts.names.contains(it));
    let see: Vec<String> = parts
        .see
        .iter()
        .copied()
        .chain(more)
        .map(|page| if page.ends_with(')') { page.into() } else { format!("{page}(3)") })
        .collect();
    roff.text([roman(see.join(", "))]);
    roff.render().into_bytes()
}

/// What a comment says of the declarations below it, under their names.
fn describe(roff: &mut Roff, group: &Group, has: &impl Fn(&&String) -> bool) {
    let declared: Vec<&String> = group.declarations.iter().filter(has).collect();
    let functions: Vec<&str> = declared.iter().filter_map(|it| function(it)).collect();
    let remarks: Vec<_> =
        declared.iter().filter_map(|it| Some((function(it)?, remark(it)?))).collect();
    if !functions.is_empty() && (remarks.is_empty() || !group.text.is_empty()) {
        entry(roff, &functions, &group.text);
    }
    for (function, remark) in remarks {
        entry(roff, &[function], &[remark]);
    }
    for data in declared.iter().filter(|it| function(it).is_none()) {
        if functions.is_empty() {
            roff.control("PP", []);
            paragraphs(roff, &group.text, "PP");
        }
        members(roff, data);
    }
}

/// A text under the names it is about.
fn entry(roff: &mut Roff, functions: &[&str], text: &[String]) {
    roff.control("TP", []);
    let mut names: Vec<Inline> = Vec::new();
    for function in functions {
        if !names.is_empty() {
            names.push(roman(", "));
        }
        names.extend([bold(*function), roman("()")]);
    }
    roff.text(names);
    paragraphs(roff, text, "IP");
}

/// The fields of a structure or the constants of an enumeration, each with its comment.
fn members(roff: &mut Roff, declaration: &str) {
    let mut lines = declaration.lines().skip(1).map(str::trim);
    while let Some(line) = lines.next() {
        if line.starts_with("/*") {
            let mut comment = vec![line];
            while comment.last().is_some_and(|line| !line.contains("*/")) {
                comment.extend(lines.next());
            }
            roff.control("PP", []);
            paragraphs(roff, &plain(&comment), "PP");
            continue;
        }
        let member = code(line).trim_end_matches([';', ',']);
        let Some(name) =
            member.split(" = ").next().and_then(|it| it.split_whitespace().next_back())
        else {
            continue;
        };
        if name.starts_with('}') {
            continue;
        }
        roff.control("TP", []);
        roff.text([italic(name)]);
        roff.text([roman(remark(line).unwrap_or_else(|| name.replace('_', " ")))]);
    }
}

/// Lines of a comment: empty ones part paragraphs, begun with this request; those with a dash are items.
fn paragraphs(roff: &mut Roff, text: &[String], begin: &str) {
    let mut paragraph = String::new();
    let mut in_list = false;
    let flush = |roff: &mut Roff, paragraph: &mut String| {
        if !paragraph.is_empty() {
            roff.text([roman(core::mem::take(paragraph))]);
        }
    };
    for line in text {
        let item = line.strip_prefix("- ");
        if line.is_empty() || item.is_some() {
            flush(roff, &mut paragraph);
        }
        if item.is_some() {
            if !in_list {
                roff.control("RS", []);
            }
            in_list = true;
            roff.control("IP", ["-", "2"]);
        } else if line.is_empty() {
            if core::mem::take(&mut in_list) {
                roff.control("RE", []);
            }
            roff.control(begin, []);
        }
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
        paragraph.push_str(item.unwrap_or(line));
    }
    flush(roff, &mut paragraph);
    if in_list {
        roff.control("RE", []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> String {
        let page = pages().into_iter().find(|(file, _)| file == name);
        String::from_utf8(page.unwrap_or_else(|| panic!("no {name}")).1).unwrap()
    }

    #[test]
    fn everything_the_header_declares_has_one_page() {
        let mut names: Vec<String> = pages().into_iter().map(|(name, _)| name).collect();
        let declared = groups();
        let declared = declared.iter().flat_map(Group::names);
        let mut count = 0;
        for name in declared.filter(|name| name.starts_with("mg_")) {
            assert!(names.contains(&format!("{name}.3")), "{name} has none of {names:?}");
            count += 1;
        }
        assert!(count > 70, "{count}");
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "a page is there twice");
    }

    /// What the table says is declared, and no code that a page's text names is missing below it.
    #[test]
    fn a_page_reads_as_one() {
        let declared = groups();
        let declared: Vec<&str> = declared.iter().flat_map(Group::names).collect();
        for entry in pages::all() {
            for name in entry.names {
                assert!(declared.contains(name), "{name} is declared nowhere");
            }
            let page = text(&format!("{}.3", entry.names[0]));
            let parts: Vec<&str> = page.split(".SH ").skip(1).collect();
            for title in
                ["NAME", "SYNOPSIS", "DESCRIPTION", "\"RETURN VALUE\"", "ERRORS", "\"SEE ALSO\""]
            {
                let part = parts.iter().find_map(|part| part.strip_prefix(title));
                let part = part.unwrap_or_else(|| panic!("{}: no {title}", entry.names[0]));
                assert!(part.trim().len() > 10, "{}: nothing in {title}", entry.names[0]);
            }
            let described = parts.iter().find(|part| part.starts_with("DESCRIPTION")).unwrap();
            assert!(
                !described.contains("below") && !described.contains("in the next"),
                "{described}"
            );
            let errors = parts.iter().find(|part| part.starts_with("ERRORS")).unwrap();
            let codes = described.split(|c: char| !c.is_ascii_uppercase() && c != '_');
            for code in codes.filter(|word| word.starts_with("MG_E") && *word != "MG_EAGER_RELEASE")
            {
                let known = errors.contains(code) || entry.names.contains(&"mg_error");
                assert!(known, "{}: {code} is not explained", entry.names[0]);
            }
        }
    }

    #[test]
    fn a_page_has_what_the_header_says() {
        assert!(text("mg_barrier.3").contains("Waits until"), "{}", text("mg_barrier.3"));
        assert_eq!(text("mg_unlock.3"), ".so man3/mg_lock.3\n");
        assert!(text("mg_thread_create.3").contains("struct mg_thread_attr"));
        assert!(text("mg_strerror.3").contains("\\fIMG_EBUSY\\fR\na try: somebody has it"));
        assert!(text("mg_lock.3").contains("CLOCK_REALTIME"), "what holds for all of them");
        let stats = text("mg_get_stats.3");
        assert!(stats.contains("\\fIcompeting\\fR\nrequests queued here"), "{stats}");
        assert!(stats.contains("The five are all of that time."), "{stats}");
    }
}
