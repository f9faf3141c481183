//! Mutants are found by their names: each is in the list once, and is bent somewhere by it.

use std::fs;
use std::path::Path;

const LIST: &str = "src/mutants/list.rs";

fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            sources(&path, texts);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with(LIST) {
            texts.push(fs::read_to_string(path).expect("a source"));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "it looks for a hundred names in megabytes of text")]
fn every_mutant_is_bent_somewhere_by_its_name() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = fs::read_to_string(here.join(LIST)).expect("the list");
    let names: Vec<&str> = list
        .split("\" => \"")
        .filter_map(|part| part.rsplit('"').next())
        .filter(|name| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'))
        .filter(|name| name.contains('-'))
        .collect();
    assert!(names.len() > 90, "only {} names are found", names.len());
    let mut texts = Vec::new();
    for name in ["protocol", "runtime", "transport"] {
        sources(&here.join("..").join(name).join("src"), &mut texts);
    }
    for name in names {
        let quoted = format!("\"{name}\"");
        assert!(texts.iter().any(|text| text.contains(&quoted)), "nothing bends {name}");
        assert_eq!(list.matches(&quoted).count(), 1, "{name}");
    }
}
