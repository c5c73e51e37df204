//! A plan's graph as a Mermaid flowchart.

use super::graph::{EdgeKind, Fate, Graph, NodeKind};

pub(super) fn of(graph: &Graph) -> String {
    let mut text = String::from("flowchart LR\n");
    for (number, node) in graph.nodes.iter().enumerate() {
        let label = match node.caption() {
            caption if caption.is_empty() => escaped(&node.name),
            caption => format!("{}<br/>{caption}", escaped(&node.name)),
        };
        let (open, close) = match node.kind {
            NodeKind::Other => ("([", "])"),
            _ => ("[", "]"),
        };
        text.push_str(&format!("    n{number}{open}\"{label}\"{close}\n"));
    }
    for (from, to, kind) in &graph.edges {
        let arrow = match kind {
            EdgeKind::Jump => "-->",
            EdgeKind::Goto => "==>|goto|",
            EdgeKind::Requires => "-.->|requires|",
        };
        text.push_str(&format!("    n{from} {arrow} n{to}\n"));
    }
    for fate in [Fate::New, Fate::Changed, Fate::Deleted] {
        let style = format!("fill:{},color:#000000", fate.colour());
        let class = fate.class().unwrap_or_default();
        let nodes = graph.nodes.iter().map(|node| node.fate == fate);
        text.push_str(&class_lines(class, &style, nodes));
    }
    let border = NodeKind::Stub.border();
    let style = format!("stroke:{border},stroke-dasharray:5 5");
    let stubs = graph.nodes.iter().map(|node| node.kind == NodeKind::Stub);
    text.push_str(&class_lines("stub", &style, stubs));
    text
}

/// Defines a class and gives it to the nodes that are marked; nothing where there are none.
fn class_lines(class: &str, style: &str, marked: impl Iterator<Item = bool>) -> String {
    let numbers = marked.enumerate().filter(|(_, marked)| *marked);
    let ids: Vec<_> = numbers.map(|(number, _)| format!("n{number}")).collect();
    if ids.is_empty() {
        return String::new();
    }
    format!(
        "    classDef {class} {style}\n    class {} {class}\n",
        ids.join(",")
    )
}

/// A text for the inside of a quoted label: whatever could be HTML, Markdown or Mermaid's own is written as its
/// number.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_alphanumeric() || matches!(c, '-' | '.' | ':' | '/' | '+') {
            escaped.push(c);
        } else {
            escaped.push_str(&format!("#{};", u32::from(c)));
        }
    }
    escaped
}
