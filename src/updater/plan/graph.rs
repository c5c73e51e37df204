//! A plan as a graph: which chain leads to which, and what becomes of each.

use std::collections::{BTreeMap, BTreeSet};

use super::contents::{Contents, PlannedChain};
use super::{dot, mermaid};
use crate::{HookChain, Rule};

/// The chains as a [`Plan`](super::Plan) would leave them, to be drawn by Graphviz or Mermaid.
///
/// Its nodes are the owned chains, those that the plan deletes among them, and the chains of others in which
/// hook rules stand; its edges are jumps, gotos and explicit requirements between them. What leads from a chain whose
/// rules aren't known (see [`PlanDiff`](super::PlanDiff)) isn't drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub(super) nodes: Vec<Node>,
    /// From and to as places in `nodes`, in order, each once.
    pub(super) edges: BTreeSet<(usize, usize, EdgeKind)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: NodeKind,
    pub(super) fate: Fate,
    /// How many rules it holds then, where that is known.
    pub(super) rules: Option<usize>,
}

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKind {
    Chain,
    Stub,
    /// Left by a previous run, or only ensured to be there.
    Unknown,
    /// A kernel chain, or another program's.
    Other,
}

/// What becomes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Unchanged,
    New,
    Changed,
    Deleted,
}

/// What leads from one chain to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EdgeKind {
    Jump,
    Goto,
    Requires,
}

impl Graph {
    pub(super) fn new(chains: &[PlannedChain], hooks: &[(HookChain, Rule)]) -> Self {
        let mut nodes: Vec<Node> = chains.iter().map(Node::of).collect();
        let owned = chains.iter().map(|chain| chain.name.as_str());
        let mut places: BTreeMap<&str, usize> = owned.zip(0..).collect();
        for (chain, _) in hooks {
            places.entry(chain.as_str()).or_insert_with(|| {
                nodes.push(Node::other(chain));
                nodes.len() - 1
            });
        }
        let mut edges = BTreeSet::new();
        let mut lead = |from: &str, to: &str, kind| {
            if let (Some(from), Some(to)) = (places.get(from), places.get(to)) {
                edges.insert((*from, *to, kind));
            }
        };
        let planned = chains.iter().flat_map(|chain| {
            let rules = chain.after.rules().iter();
            rules.map(|rule| (chain.name.as_str(), rule))
        });
        let hooks = hooks.iter().map(|(chain, rule)| (chain.as_str(), rule));
        for (chain, rule) in planned.chain(hooks) {
            if let Some(target) = rule.target() {
                let kind = if rule.is_goto() {
                    EdgeKind::Goto
                } else {
                    EdgeKind::Jump
                };
                lead(chain, target, kind);
            }
        }
        for chain in chains {
            if let Contents::Programmed(contents) = &chain.after {
                for required in contents.explicit_requirements() {
                    lead(chain.name.as_str(), required.as_str(), EdgeKind::Requires);
                }
            }
        }
        Self { nodes, edges }
    }

    /// The graph in Graphviz' language, for `dot -Tsvg`.
    pub fn to_dot(&self) -> String {
        dot::of(self)
    }

    /// The graph as a Mermaid flowchart, which GitHub and others draw in Markdown.
    pub fn to_mermaid(&self) -> String {
        mermaid::of(self)
    }
}

impl Node {
    fn of(chain: &PlannedChain) -> Self {
        let fate = match (&chain.before, &chain.after) {
            (before, after) if before == after => Fate::Unchanged,
            (Contents::Absent, _) => Fate::New,
            (_, Contents::Absent) => Fate::Deleted,
            _ => Fate::Changed,
        };
        let last = match fate {
            Fate::Deleted => &chain.before,
            _ => &chain.after,
        };
        let kind = match last {
            Contents::Programmed(_) | Contents::Absent => NodeKind::Chain,
            Contents::Stub(_) => NodeKind::Stub,
            Contents::Leftover | Contents::Ensured => NodeKind::Unknown,
        };
        let known = fate != Fate::Deleted && !chain.after.is_unknown();
        Self {
            name: chain.name.to_string(),
            kind,
            fate,
            rules: known.then(|| chain.after.rules().len()),
        }
    }

    fn other(chain: &HookChain) -> Self {
        Self {
            name: chain.to_string(),
            kind: NodeKind::Other,
            fate: Fate::Unchanged,
            rules: None,
        }
    }

    /// What stands under its name: `new, stub, 1 rule`.
    pub(super) fn caption(&self) -> String {
        let kind = match self.kind {
            NodeKind::Chain => None,
            NodeKind::Stub => Some("stub"),
            NodeKind::Unknown => Some("rules not known"),
            NodeKind::Other => Some("not owned"),
        };
        let rules = self.rules.map(|count| match count {
            1 => "1 rule".to_owned(),
            count => format!("{count} rules"),
        });
        let parts = self.fate.class().into_iter().chain(kind);
        let parts: Vec<_> = parts.map(str::to_owned).chain(rules).collect();
        parts.join(", ")
    }
}

impl Fate {
    /// Its name, where there is something to tell.
    pub(super) fn class(self) -> Option<&'static str> {
        match self {
            Self::Unchanged => None,
            Self::New => Some("new"),
            Self::Changed => Some("changed"),
            Self::Deleted => Some("deleted"),
        }
    }

    /// The colour that fills its node.
    pub(super) fn colour(self) -> &'static str {
        match self {
            Self::Unchanged => "#ffffff",
            Self::New => "#c8e6c9",
            Self::Changed => "#fff3b0",
            Self::Deleted => "#ffcdd2",
        }
    }
}

impl NodeKind {
    /// The colour of its border.
    pub(super) fn border(self) -> &'static str {
        match self {
            Self::Chain => "#333333",
            Self::Stub => "#e65100",
            Self::Unknown | Self::Other => "#888888",
        }
    }
}
