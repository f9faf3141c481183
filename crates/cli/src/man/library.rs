//! The pages of the C interface, section 3, made from `multigrain.h`: a comment and the declarations below it are
//! one page, under the name of the first; the others' pages lead there.

use clap_mangen::roff::{Roff, bold, roman};

const HEADER: &str = include_str!("../../../../include/multigrain.h");

/// A page: its file's name, and its text in roff.
pub(super) type Page = (String, Vec<u8>);

/// A comment and what is declared below it.
#[derive(Debug, Default)]
struct Group {
    text: Vec<String>,
    declarations: Vec<String>,
    /// What the part of the header it stands in begins with.
    notes: Vec<String>,
}

impl Group {
    /// What is declared: functions, or else types.
    fn names(&self) -> Vec<&str> {
        let functions: Vec<_> = self.declarations.iter().filter_map(|it| function(it)).collect();
        let types = || self.declarations.iter().filter_map(|it| kind_of_data(it)).collect();
        if functions.is_empty() { types() } else { functions }
    }
}

/// The function that is declared, if one is.
fn function(declaration: &str) -> Option<&str> {
    let is_data = ["enum ", "struct ", "typedef "].iter().any(|it| declaration.starts_with(it));
    let before = declaration.split_once('(').filter(|_| !is_data)?.0;
    before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

/// The enumeration or structure that is declared, if one is.
fn kind_of_data(declaration: &str) -> Option<&str> {
    let is_data = declaration.starts_with("enum ") || declaration.starts_with("struct ");
    declaration.split_whitespace().nth(1).filter(|_| is_data)
}

/// The header's groups.
fn groups() -> Vec<Group> {
    let body = HEADER.split_once("extern \"C\" {\n#endif\n").map_or("", |(_, body)| body);
    let mut groups: Vec<Group> = vec![Group::default()];
    let mut notes = Vec::new();
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        let last = groups.last_mut();
        if line.starts_with("/*") {
            let mut comment = vec![line];
            while comment.last().is_some_and(|line| !line.contains("*/")) {
                comment.extend(lines.next());
            }
            let text = plain(&comment);
            if comment.iter().any(|line| line.contains("----")) {
                notes = text;
                groups.push(Group::default());
            } else {
                groups.push(Group { text, ..Group::default() });
            }
        } else if line.starts_with('#') || line == "}" {
            // Constants are in the comments, or speak for themselves.
        } else if line.is_empty() {
            groups.push(Group::default());
        } else if let Some(group) = last {
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
            group.notes.clone_from(&notes);
        }
    }
    merged(groups)
}

/// Types without a page of their own belong to the functions that follow.
fn merged(groups: Vec<Group>) -> Vec<Group> {
    let mut all: Vec<Group> = Vec::new();
    let mut waiting: Option<Group> = None;
    for mut group in groups.into_iter().filter(|group| !group.declarations.is_empty()) {
        if let Some(Group { text, declarations, .. }) = waiting.take() {
            group.text.splice(0..0, text.into_iter().chain([String::new()]));
            group.declarations.splice(0..0, declarations);
        }
        if group.names().is_empty() {
            waiting = Some(group);
        } else {
            all.push(group);
        }
    }
    all
}

/// A declaration's line without its comment.
fn code(line: &str) -> &str {
    line.split_once("/*").map_or(line, |(code, _)| code).trim_end()
}

/// A comment's text, a line each.
fn plain(comment: &[&str]) -> Vec<String> {
    let strip = |line: &&str| {
        let line = line.trim().trim_start_matches("/*").trim_end_matches("*/");
        line.trim_start_matches('*').trim().to_owned()
    };
    comment.iter().map(strip).filter(|line| !line.contains("----")).collect()
}

/// The first sentence of a comment.
fn sentence(text: &[String]) -> String {
    let all = text.join(" ");
    let end = all.find(". ").or_else(|| all.find("; ")).unwrap_or(all.len());
    all[..end].trim().trim_end_matches('.').to_owned()
}

/// All pages.
pub(super) fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for group in groups() {
        let names: Vec<String> = group.names().into_iter().map(str::to_owned).collect();
        let Some((first, others)) = names.split_first() else { continue };
        pages.push((format!("{first}.3"), page(&group, &names)));
        let link = format!(".so man3/{first}.3\n");
        pages.extend(others.iter().map(|name| (format!("{name}.3"), link.clone().into_bytes())));
    }
    pages
}

fn page(group: &Group, names: &[String]) -> Vec<u8> {
    let mut roff = Roff::new();
    roff.control("TH", [names[0].as_str(), "3", "", "", "Multigrain"]);
    roff.control("SH", ["NAME"]);
    let what = match sentence(&group.text) {
        none if none.is_empty() => "of the Multigrain interface for C".to_owned(),
        some => some,
    };
    roff.text([roman(format!("{} - {what}", names.join(", ")))]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.control("nf", []);
    roff.text([bold("#include <multigrain.h>")]);
    roff.text([roman("")]);
    for line in group.declarations.iter().flat_map(|declaration| declaration.lines()) {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.control("SH", ["DESCRIPTION"]);
    describe(&mut roff, &group.text);
    if group.notes.iter().any(|line| !line.is_empty()) {
        roff.control("SH", ["NOTES"]);
        describe(&mut roff, &group.notes);
    }
    roff.control("SH", ["RETURN VALUE"]);
    roff.text([roman(
        "Functions that return an int return 0, a number that the text names, or a negative error of \
         enum mg_error, which mg_strerror explains. Functions that return a pointer return NULL on \
         failure, and mg_last_error has the reason.",
    )]);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(
        "multigrain(1), mg_error(3); multigrain.h has all of the interface in one place.",
    )]);
    roff.render().into_bytes()
}

/// Lines of a comment: empty ones part paragraphs, those with a dash are items.
fn describe(roff: &mut Roff, text: &[String]) {
    let mut paragraph = String::new();
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
        match item {
            Some(_) => roff.control("IP", ["-", "2"]),
            None if line.is_empty() => roff.control("PP", []),
            None => roff,
        };
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
        paragraph.push_str(item.unwrap_or(line));
    }
    flush(roff, &mut paragraph);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_header_has_a_page() {
        let names: Vec<String> = pages().into_iter().map(|(name, _)| name).collect();
        let code: String = HEADER
            .split("/*")
            .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
            .collect();
        let declared: Vec<&str> =
            code.split(';').filter_map(|text| function(text.trim())).collect();
        let functions = declared.iter().filter(|name| name.starts_with("mg_"));
        let mut count = 0;
        for name in functions {
            assert!(names.contains(&format!("{name}.3")), "{name} has none of {names:?}");
            count += 1;
        }
        assert!(count > 65, "{count}");
    }

    #[test]
    fn a_page_has_what_the_header_says() {
        let all = pages();
        let text = |name: &str| {
            let page = all.iter().find(|(file, _)| file == name);
            String::from_utf8(page.unwrap_or_else(|| panic!("no {name}")).1.clone()).unwrap()
        };
        assert!(text("mg_barrier.3").contains("Waits until"), "{}", text("mg_barrier.3"));
        assert_eq!(text("mg_unlock.3"), ".so man3/mg_lock.3\n");
        assert!(text("mg_thread_create_with.3").contains("struct mg_thread_attr"));
        assert!(text("mg_error.3").contains("MG_EBUSY"));
        assert!(text("mg_trylock.3").contains("CLOCK_REALTIME"), "what holds for all of them");
    }
}
