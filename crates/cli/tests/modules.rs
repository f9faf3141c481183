//! The structure of all crates, read from their sources: modules that lie beside each other see each other
//! one way only, no file is too long to hold in mind, no type that others reach into has too many fields, and files
//! that documents and comments name exist.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use multigrain_types::limits::MAX_HELPERS;

/// Lines of code of a file, its tests and comments not counted.
const MOST_LINES: usize = 400;

/// Fields of a type that other modules reach into.
const MOST_FIELDS: usize = 10;

/// A module by the names on its way from the crate's root.
type Module = Vec<String>;

/// A source file: its module, and its code without comments and tests.
struct Source {
    path: PathBuf,
    module: Module,
    code: String,
}

fn crates() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut crates: Vec<_> = fs::read_dir(all).unwrap().map(|each| each.unwrap().path()).collect();
    crates.sort();
    crates
}

/// Files of a crate, but for modules that only tests and their tools have.
fn sources(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    for start in ["lib.rs", "main.rs"] {
        let path = root.join("src").join(start);
        if path.exists() {
            read(&path, Vec::new(), &mut found);
        }
    }
    found
}

fn read(path: &Path, module: Module, found: &mut Vec<Source>) {
    let text = fs::read_to_string(path).unwrap();
    let code = without_tests(&text);
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let directory = match stem {
        "lib" | "main" | "mod" => path.parent().unwrap().to_path_buf(),
        _ => path.with_extension(""),
    };
    for name in submodules(&code) {
        let places = [directory.join(format!("{name}.rs")), directory.join(&name).join("mod.rs")];
        // Not there: a module in this file, or one whose place an attribute gives.
        if let Some(place) = places.iter().find(|place| place.exists()) {
            let submodule = module.iter().cloned().chain([name]).collect();
            read(place, submodule, found);
        }
    }
    found.push(Source { path: path.to_path_buf(), module, code });
}

/// The code before a file's tests, without comments, and without modules that only tests have.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut for_tests = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("//") || line.is_empty() {
            continue;
        }
        let tests = line.starts_with("#[cfg(test)") || line.starts_with("#[cfg(all(test");
        let tools = ["mutants", "shuttle", "loom", "fuzzing"];
        let of_tool = |tool: &&str| line.contains(&format!("(feature = \"{tool}\""));
        if tests
            || (line.starts_with("#[cfg(") && !line.contains("not(") && tools.iter().any(of_tool))
        {
            for_tests = true;
        } else if for_tests && line.starts_with("#[") {
            // Another attribute of the same.
        } else if for_tests
            && (line.starts_with("mod ")
                || line.starts_with("pub mod ")
                || line.starts_with("pub(crate) mod "))
        {
            if line.ends_with('{') {
                return code;
            }
            for_tests = false;
        } else {
            for_tests = false;
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

fn submodules(code: &str) -> Vec<String> {
    let name = |line: &str| {
        let at = line.find("mod ")?;
        let visible = line[..at].trim();
        let declares = visible.is_empty() || visible.starts_with("pub");
        let name = line[at + 4..].strip_suffix(';')?;
        declares.then(|| name.to_owned())
    };
    code.lines().filter_map(name).collect()
}

/// Paths that code names from the crate's root or from modules above, as modules or items.
fn named(source: &Source) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::"] {
        for (at, _) in source.code.match_indices(start) {
            let before = source.code[..at].chars().next_back();
            if before
                .is_some_and(|before| before.is_alphanumeric() || before == '_' || before == ':')
            {
                continue;
            }
            expand(&source.code[at..], &source.module, &[], &mut found);
        }
    }
    found
}

/// Adds what a path, or a tree of paths in braces, names.
fn expand(text: &str, from: &Module, prefix: &[String], found: &mut BTreeSet<Module>) {
    let end =
        text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    let mut path = prefix.to_vec();
    path.extend(text[..end].split("::").filter(|name| !name.is_empty()).map(str::to_owned));
    if text[..end].ends_with("::") && text[end..].starts_with('{') {
        let mut depth = 0;
        let mut start = end + 1;
        for (at, c) in text[end..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' | ',' if depth == 1 => {
                    expand(text[start..end + at].trim(), from, &path, found);
                    start = end + at + 1;
                    depth -= usize::from(c == '}');
                }
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }
    let absolute = match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        _ => {
            let ups = path.iter().take_while(|name| *name == "super").count();
            let kept = from.len().saturating_sub(ups);
            from[..kept].iter().chain(&path[ups..]).cloned().collect()
        }
    };
    found.insert(absolute);
}

/// Which modules beside a module it names: by their parent, from each to the others.
fn neighbours(sources: &[Source]) -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
    let modules: BTreeSet<&Module> = sources.iter().map(|source| &source.module).collect();
    let mut edges = BTreeMap::<Module, BTreeMap<String, BTreeSet<String>>>::new();
    for source in sources {
        for target in named(source) {
            let same =
                source.module.iter().zip(&target).take_while(|(one, other)| one == other).count();
            let (Some(from), Some(to)) = (source.module.get(same), target.get(same)) else {
                continue;
            };
            if modules.contains(&target[..=same].to_vec()) {
                let parent = edges.entry(target[..same].to_vec()).or_default();
                parent.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    edges
}

/// A cycle among neighbours, if there is one.
fn cycle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<BTreeSet<String>> {
    let mut left = edges.clone();
    // What sees nothing that is left, or is seen by nothing that is left, is part of no cycle.
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        let seen: BTreeSet<String> = left.values().flatten().cloned().collect();
        let before = left.len();
        left.retain(|name, sees| !sees.is_disjoint(&names) && seen.contains(name));
        if left.len() == before {
            break;
        }
    }
    (!left.is_empty()).then(|| left.into_keys().collect())
}

#[test]
fn modules_beside_each_other_see_each_other_one_way_only() {
    let mut wrong = Vec::new();
    for root in crates() {
        let sources = sources(&root);
        assert!(!sources.is_empty(), "{} has sources", root.display());
        for (parent, edges) in neighbours(&sources) {
            if let Some(modules) = cycle(&edges) {
                let name = root.file_name().unwrap().display();
                wrong.push(format!("{name}::{}: {modules:?}", parent.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "cycles among:\n{}", wrong.join("\n"));
}

#[test]
fn no_file_has_more_code_than_a_reader_holds_in_mind() {
    let mut long = Vec::new();
    for source in crates().iter().flat_map(|root| sources(root)) {
        let lines = source.code.lines().count();
        if lines > MOST_LINES {
            long.push(format!("{}: {lines}", source.path.display()));
        }
    }
    assert!(long.is_empty(), "more than {MOST_LINES} lines of code:\n{}", long.join("\n"));
}

/// A struct with named fields: how many it has, and whether other modules see any.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    name: String,
    fields: usize,
    visible: bool,
}

/// The structs of a source. Those that C knows as well have the fields that C has.
fn records(code: &str) -> Vec<Record> {
    let mut found = Vec::new();
    let mut of_c = false;
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[") {
            of_c |= line.starts_with("#[repr(C");
            continue;
        }
        let of_c = std::mem::take(&mut of_c);
        let words = line.strip_suffix(" {").map(|line| line.split(' ').collect::<Vec<_>>());
        let Some(words) = words.filter(|_| !of_c) else { continue };
        let Some(at) = words.iter().position(|word| *word == "struct") else { continue };
        let Some(name) = words.get(at + 1).filter(|_| at < 2) else { continue };
        let name = name.split('<').next().unwrap().to_owned();
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").collect();
        let is_field = |line: &&&str| {
            let field = line.rsplit_once(") ").map_or(**line, |(_, field)| field);
            let field = field.strip_prefix("pub ").unwrap_or(field);
            let name = field.split_once(": ").map_or("", |(name, _)| name);
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        let fields = body.iter().filter(is_field).count();
        found.push(Record {
            name,
            fields,
            visible: body.iter().any(|line| line.starts_with("pub")),
        });
    }
    found
}

#[test]
fn no_type_that_others_reach_into_has_more_fields_than_a_reader_holds_in_mind() {
    let (mut large, mut seen) = (Vec::new(), 0);
    for sources in crates().iter().map(|root| sources(root)) {
        for source in &sources {
            let records = records(&source.code);
            seen += records.len();
            for Record { name, fields, visible } in records {
                // Modules below one see all that it has.
                let below = |other: &&Source| {
                    other.module.len() > source.module.len()
                        && other.module.starts_with(&source.module)
                };
                let names_it = |other: &Source| {
                    other
                        .code
                        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                        .any(|word| word == name)
                };
                let reached = visible || sources.iter().filter(below).any(names_it);
                if fields > MOST_FIELDS && reached {
                    large.push(format!("{}: {name}: {fields}", source.path.display()));
                }
            }
        }
    }
    assert!(large.is_empty(), "more than {MOST_FIELDS} fields:\n{}", large.join("\n"));
    assert!(seen > 300, "{seen} structs");
}

#[test]
fn the_glossary_names_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let glossary = fs::read_to_string(root.join("../docs/GLOSSARY.md")).unwrap();
    let (mut terms, mut last) = (0, String::new());
    for line in glossary.lines().filter(|line| line.ends_with("` |")) {
        let term = line.split('|').nth(1).unwrap().to_lowercase().replace('-', " ");
        let letters = term.trim().chars().filter(|it| it.is_ascii_alphanumeric() || *it == ' ');
        let term: String = letters.collect();
        assert!(last <= term, "{term} stands behind {last}");
        last = term;
        let file = line.trim_end_matches("` |").rsplit('`').next().unwrap();
        assert!(root.join(file).exists(), "{line}");
        terms += 1;
    }
    assert!(terms > 80, "{terms} terms");
}

/// All files and folders below a folder, but for what is hidden or built.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with('.') || ["target", "node_modules"].contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), found);
        }
        found.push(entry.path());
    }
}

/// What names a file or folder of the project in this text: words in backticks, and targets of links. Of bare
/// names only those of modules are: others may be a program's.
fn paths_in(text: &str) -> Vec<&str> {
    let words = text.split('`').skip(1).step_by(2);
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let is_path = |path: &&str| {
        let plain = |c: char| c.is_alphanumeric() || "_-./".contains(c);
        let of_file = [".c", ".h", ".hpp", ".f90", ".md", ".toml", ".sh", ".py", "/"];
        let is_below = path.contains('/') && of_file.iter().any(|end| path.ends_with(end));
        (is_below || path.ends_with(".rs"))
            && path.chars().all(plain)
            && !path.starts_with('/')
            && !path.contains("NAME")
    };
    words.chain(links.map(|(target, _)| target)).filter(is_path).collect()
}

/// The names on a path by which it is known: documents leave out `src`.
fn names(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !["", ".", "..", "src"].contains(name)).collect()
}

#[test]
fn documents_and_comments_name_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    walk(&root, &mut files);
    let below = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    let known: Vec<String> = files.iter().map(|path| below(path)).collect();
    let known: Vec<Vec<&str>> = known.iter().map(|path| names(path)).collect();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for path in &files {
        let name = below(path);
        let is_document = name.ends_with(".md")
            && (name.starts_with("docs/") || ["README.md", "CONTRIBUTING.md"].contains(&&*name));
        let is_source = name.starts_with("crates/") && name.ends_with(".rs");
        if !is_document && !is_source {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        for (number, line) in text.lines().enumerate() {
            if is_source && !line.trim_start().starts_with("//") {
                continue;
            }
            for named in paths_in(line) {
                checked += 1;
                if !known.iter().any(|path| path.ends_with(&names(named))) {
                    wrong.push(format!("{name}:{}: {named}", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "these do not exist:\n{}", wrong.join("\n"));
    assert!(checked > 200, "{checked} paths");
}

/// The rows of the runtime's drawing of its modules: the names in each, before a colon.
fn drawn_rows(head: &str) -> Vec<Vec<String>> {
    let drawing = head.split("//! ```text\n").nth(1).unwrap().split("//! ```\n").next().unwrap();
    let names = |row: &str| row.trim_start_matches("//!").split(':').next().unwrap().to_owned();
    let words = |row: &str| names(row).split_whitespace().map(str::to_owned).collect();
    drawing.lines().map(words).collect()
}

/// A name stands in the drawing once, and is that of a module; a module sees those of its row and below.
#[test]
fn the_drawing_of_the_runtime_has_its_modules_in_their_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime");
    let rows = drawn_rows(&fs::read_to_string(root.join("src/lib.rs")).unwrap());
    let sources = sources(&root);
    let all = sources.iter().filter(|source| source.module.len() == 1);
    let modules: BTreeSet<&str> = all.map(|source| &*source.module[0]).collect();
    let mut places = BTreeMap::new();
    for (row, name) in rows
        .iter()
        .enumerate()
        .flat_map(|(row, names)| names.iter().map(move |name| (row, &**name)))
    {
        assert!(modules.contains(name), "no module is called {name}");
        assert_eq!(places.insert(name, row), None, "{name} stands there twice");
    }
    let missing: Vec<_> = modules.iter().filter(|name| !places.contains_key(*name)).collect();
    assert!(missing.is_empty(), "not in the drawing: {missing:?}");
    let neighbours = neighbours(&sources);
    let mut upwards = Vec::new();
    for (from, to) in &neighbours[&Module::new()] {
        let above = to.iter().filter(|to| places[&***to] < places[&**from]);
        upwards.extend(above.map(|to| format!("{from} sees {to}")));
    }
    assert!(upwards.is_empty(), "upwards in the drawing: {upwards:?}");
}

/// The modules that a file's head has in the first column of its table `| file | part |`.
fn tabled(text: &str) -> BTreeSet<String> {
    let rows = text.lines().skip_while(|line| *line != "//! | file | part |");
    let rows = rows.take_while(|line| line.starts_with("//! |"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned));
    names.map(|name| name.trim_end_matches('/').to_owned()).collect()
}

#[test]
fn tables_of_modules_have_each_of_them() {
    for head in ["run/mod.rs", "inject/mod.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(head);
        let text = fs::read_to_string(path).unwrap();
        let modules: BTreeSet<String> = submodules(&without_tests(&text)).into_iter().collect();
        assert_eq!(tabled(&text), modules, "{head}");
    }
}

/// Bare names in the second column of a table of layers are names of modules.
#[test]
fn the_table_of_the_runtime_s_layers_names_modules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("../../docs/ARCHITECTURE.md")).unwrap();
    let table = text.split("| layer | modules | what it is |\n").nth(1).unwrap();
    let mut checked = 0;
    for row in table.lines().take_while(|line| line.starts_with('|')).skip(1) {
        for name in row.split('|').nth(2).unwrap().split('`').skip(1).step_by(2) {
            let place = root.join("../runtime/src").join(name);
            assert!(
                place.exists() || place.with_extension("rs").exists(),
                "no module {name}: {row}"
            );
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked} names");
}

/// `multigrain doctor` asks for as many threads beside those of the program.
#[test]
fn the_helpers_of_a_node_are_as_many_as_it_is_said_to_have() {
    let runtime = sources(&crates()[0].with_file_name("runtime"));
    let names: BTreeSet<String> = runtime
        .iter()
        .flat_map(|source| source.code.split("\"mg-").skip(1))
        .filter_map(|rest| rest.split('"').next().map(str::to_owned))
        // Of a thread of the program, by its number.
        .filter(|name| !name.contains('{'))
        .collect();
    assert_eq!(names.len(), MAX_HELPERS as usize, "{names:?}");
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CLUSTER.md");
    let said = format!("its threads and up to {MAX_HELPERS} more");
    assert!(fs::read_to_string(cluster).unwrap().contains(&said), "{said}");
}

#[test]
fn the_reader_of_structs_counts_their_fields() {
    let code = "struct A {\na: u8,\n#[arg(long)]\nb: Vec<(u8, u8)>,\n}\n#[repr(C)]\npub struct B {\npub a: u8,\n}\n\
                #[derive(Debug)]\npub(crate) struct C<'a> {\npub(crate) a: &'a u8,\npub b: [u8; 2],\n}\nlet x = A {\n";
    let record = |name: &str, visible| Record { name: name.to_owned(), fields: 2, visible };
    assert_eq!(records(code), [record("A", false), record("C", true)]);
}

#[test]
fn the_reader_of_sources_finds_what_they_name() {
    let source = |module: &[&str], code: &str| Source {
        path: PathBuf::new(),
        module: module.iter().map(|&name| name.to_owned()).collect(),
        code: without_tests(code),
    };
    let one = source(
        &["a", "b"],
        "use crate::c::{d, e::F};\nuse super::g::H;\n// crate::none\nlet x = crate::i::j();\n\
         #[cfg(test)]\nmod tests {\nuse crate::k;\n}",
    );
    let found: Vec<String> = named(&one).iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a::g::H", "c::d", "c::e::F", "i::j"]);
    let edge = |from: &str, to: &[&str]| {
        (from.to_owned(), to.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>())
    };
    let none = [edge("a", &["b", "c"]), edge("b", &["c"])].into_iter().collect();
    assert_eq!(cycle(&none), None);
    let text = "see `a/b.rs`, [`c`](../d.md), `e/`, `f.rs:3`, `/proc/self/`, `x.c` and `*.rs`";
    assert_eq!(paths_in(text), ["a/b.rs", "e/", "../d.md"]);
    let around = [edge("a", &["b"]), edge("b", &["c"]), edge("c", &["a"]), edge("d", &["e"])];
    assert_eq!(cycle(&around.into_iter().collect()).unwrap().len(), 3);
}
