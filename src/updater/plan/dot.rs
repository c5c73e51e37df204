//! A plan's graph in Graphviz' language.

use super::graph::{EdgeKind, Graph, Node, NodeKind};

pub(super) fn of(graph: &Graph) -> String {
    let mut text = String::from(
        "digraph plan {\n    rankdir=LR;\n    node [shape=box, fontname=\"sans-serif\"];\n",
    );
    for (number, node) in graph.nodes.iter().enumerate() {
        text.push_str(&format!("    n{number} [{}];\n", attributes(node)));
    }
    for (from, to, kind) in &graph.edges {
        let look = match kind {
            EdgeKind::Jump => "",
            EdgeKind::Goto => " [label=\"goto\", style=bold, arrowhead=empty]",
            EdgeKind::Requires => " [label=\"requires\", style=dashed]",
        };
        text.push_str(&format!("    n{from} -> n{to}{look};\n"));
    }
    text.push_str("}\n");
    text
}

fn attributes(node: &Node) -> String {
    // `\n` is Graphviz' own escape here: a line break in a label.
    let label = match node.caption() {
        caption if caption.is_empty() => escaped(&node.name),
        caption => format!("{}\\n{caption}", escaped(&node.name)),
    };
    let style = match node.kind {
        NodeKind::Chain => "filled",
        NodeKind::Stub => "filled,dashed",
        NodeKind::Unknown => "filled,dotted",
        NodeKind::Other => "filled,rounded",
    };
    let (fill, border) = (node.fate.colour(), node.kind.border());
    format!("label=\"{label}\", style=\"{style}\", fillcolor=\"{fill}\", color=\"{border}\"")
}

/// A text for the inside of a quoted label: Graphviz reads backslashes there, and entities such as `&lt;`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            '&' => escaped.push_str("&amp;"),
            c => escaped.push(c),
        }
    }
    escaped
}
