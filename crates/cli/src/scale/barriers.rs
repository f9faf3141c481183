//! `multigrain scale --barriers`: how long a barrier of all nodes takes, and how many messages.

use anyhow::{Context, Result};
use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_types::Placement;
use multigrain_verify::scale::apps::Barriers;
use multigrain_verify::scale::{Costs, Hosts, Plan, project};
use serde_json::json;

use crate::bench::table::Table;

/// Barriers one after the other, of which the mean counts.
const COUNT: u32 = 10;

/// A row for each number of nodes, or one JSON object.
pub(super) fn text(nodes: &[u16], costs: Costs, json: bool) -> Result<String> {
    let mut table = Table::new(["nodes", "us a barrier", "messages"]);
    let mut points = Vec::new();
    for &nodes in nodes {
        let result = project(&Plan {
            pattern: &Barriers { count: COUNT },
            nodes,
            element_ns: 1.0,
            costs,
            hosts: Hosts::OWN,
            invalidations: TreeShape::default(),
            placement: Placement::Allocator,
            most_rounds: COUNT,
        });
        let result = result.map_err(anyhow::Error::msg);
        let result = result.with_context(|| format!("a barrier of {nodes} nodes"))?;
        let (ns, messages) = (result.ns / u64::from(COUNT), result.messages / u64::from(COUNT));
        table.row([
            nodes.to_string(),
            format!("{}.{}", ns / 1000, ns % 1000 / 100),
            messages.to_string(),
        ]);
        points.push(json!({ "nodes": nodes, "ns": ns, "messages": messages }));
    }
    if json {
        return Ok(serde_json::to_string_pretty(&json!({ "barriers": points }))? + "\n");
    }
    Ok(table.render())
}
