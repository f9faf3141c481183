//! The lines of the summary about System V objects: what the processes of all sites did with each.

use super::quantity::quantity;
use multigrain_types::site_usage::{ObjectUsage, SegmentUsage, SiteUsage};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Objects that have a line; the file of --stats has all.
const MOST_LINES: usize = 16;

/// The lines, the busiest objects first; nothing for a job that has no sites.
pub(super) fn lines<'a>(stats: impl Iterator<Item = &'a Map<String, Value>>) -> String {
    let mut segments: BTreeMap<i32, SegmentUsage> = BTreeMap::new();
    let mut objects: Vec<ObjectUsage> = Vec::new();
    for of_node in stats.filter(|stats| stats.contains_key("sysv_segments")) {
        // What a node of another version says is left out.
        let of_node = serde_json::from_value(Value::Object(of_node.clone()));
        let SiteUsage { sysv_segments, sysv_objects } = of_node.unwrap_or_default();
        for of_site in sysv_segments {
            add(segments.entry(of_site.id).or_default(), of_site);
        }
        objects.extend(sysv_objects);
    }
    let mut lines: Vec<(u64, String)> = Vec::new();
    for object in &objects {
        if object.kind == "segment" {
            let usage = segments.remove(&object.id).unwrap_or_default();
            lines.extend(of_segment(object, usage));
        } else {
            lines.extend(of_object(object));
        }
    }
    lines.sort_by_key(|(weight, _)| core::cmp::Reverse(*weight));
    let more = lines.len().saturating_sub(MOST_LINES);
    let mut text: String = lines.into_iter().take(MOST_LINES).map(|(_, line)| line).collect();
    if more > 0 {
        text += &format!("  and {more} objects more (--stats FILE has all)\n");
    }
    text
}

fn add(sum: &mut SegmentUsage, more: SegmentUsage) {
    sum.read_faults += more.read_faults;
    sum.write_faults += more.write_faults;
    sum.pages_fetched += more.pages_fetched;
    sum.pages_taken += more.pages_taken;
}

/// What the user knows it by.
fn known_as(object: &ObjectUsage) -> String {
    match (object.name.as_str(), object.key) {
        ("", 0) => "private".to_owned(),
        ("", key) => format!("key {key:#x}"),
        (name, _) => name.to_owned(),
    }
}

fn cells(title: &str, cells: &[(u64, &str)]) -> (u64, String) {
    let text: Vec<String> =
        cells.iter().map(|(value, words)| format!("{} {words}", quantity("", *value))).collect();
    let weight = cells.iter().map(|(value, _)| value).sum();
    (weight, format!("  {title}: {}\n", text.join(", ")))
}

fn of_segment(object: &ObjectUsage, usage: SegmentUsage) -> Option<(u64, String)> {
    let known = known_as(object);
    let size = quantity("bytes", object.size);
    let title = match object.id {
        0.. => format!("segment {} ({known}, {size})", object.id),
        _ => format!("shared memory {known} ({size})"),
    };
    let cells = cells(
        &title,
        &[
            (usage.read_faults, "read faults"),
            (usage.write_faults, "write faults"),
            (usage.pages_fetched, "pages fetched"),
            (usage.pages_taken, "pages taken away"),
        ],
    );
    Some(cells).filter(|(weight, _)| *weight > 0)
}

fn of_object(object: &ObjectUsage) -> Option<(u64, String)> {
    let (id, known) = (object.id, known_as(object));
    let [first, second] = object.calls;
    let waited = (object.waited, "of them waited");
    let line = match object.kind.as_str() {
        "set" => {
            let title = format!("set {id} ({known}, semaphores: {})", object.size);
            cells(&title, &[(first, "semop calls"), waited])
        }
        "queue" => {
            let title = format!("queue {id} ({known})");
            cells(&title, &[(first, "msgsnd calls"), (second, "msgrcv calls"), waited])
        }
        "semaphore" => {
            let title = format!("semaphore {known}");
            cells(&title, &[(first, "post calls"), (second, "wait calls"), waited])
        }
        _ => cells("other objects", &[(first + second, "calls"), waited]),
    };
    Some(line).filter(|_| first + second > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_a_line_with_the_sum_of_all_sites_the_busiest_first() {
        let first = r#"{"sysv_segments": [{"id": 3, "read_faults": 1200, "write_faults": 5, "pages_fetched": 7, "pages_taken": 2}],
            "sysv_objects": [
            {"kind": "set", "id": 0, "key": 0, "name": "", "size": 3, "calls": [9, 0], "waited": 4},
            {"kind": "segment", "id": 3, "key": 17, "name": "", "size": 8192, "calls": [0, 0], "waited": 0},
            {"kind": "segment", "id": -1, "key": 0, "name": "/a", "size": 1, "calls": [0, 0], "waited": 0},
            {"kind": "queue", "id": 5, "key": 1, "name": "", "size": 0, "calls": [2, 3], "waited": 1}]}"#;
        let second = r#"{"sysv_segments": [{"id": 3, "read_faults": 34, "write_faults": 0, "pages_fetched": 1, "pages_taken": 0}],
            "sysv_objects": []}"#;
        let stats =
            [first, second, r#"{"locks": 1}"#].map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(
            lines(stats.iter()),
            "  segment 3 (key 0x11, 8.0 KiB): 1,234 read faults, 5 write faults, 8 pages fetched, 2 pages taken away\n\
             \x20 set 0 (private, semaphores: 3): 9 semop calls, 4 of them waited\n\
             \x20 queue 5 (key 0x1): 2 msgsnd calls, 3 msgrcv calls, 1 of them waited\n"
        );
        assert_eq!(lines([serde_json::from_str("{}").unwrap()].iter()), "");
    }
}
