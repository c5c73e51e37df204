//! A plan as a unified diff: what each chain holds now, and what it would hold.

use std::fmt;
use std::ops::Range;

use super::contents::{Contents, PlannedChain};
use super::edits::{Edit, edits};
use crate::Rule;

/// How many unchanged rules are shown around a change.
const CONTEXT: usize = 3;

/// What a [`Plan`](super::Plan) changes, as a unified diff; shown with [`Display`](fmt::Display).
///
/// Each chain has hunks of its own; the lines are numbered as its rules are, from 1. Nothing is shown of a plan
/// that changes no rule. The old rules are those that the updater has programmed, or those of the stub: of a chain that a
/// previous run has left, nothing is known but that it is there, and its title says so.
#[derive(Debug, Clone, Copy)]
pub struct PlanDiff<'p> {
    chains: &'p [PlannedChain],
    coloured: bool,
}

impl<'p> PlanDiff<'p> {
    pub(super) fn new(chains: &'p [PlannedChain]) -> Self {
        let coloured = false;
        Self { chains, coloured }
    }

    /// The same in the colours of a terminal.
    #[must_use]
    pub fn coloured(mut self) -> Self {
        self.coloured = true;
        self
    }

    /// Whether no chain changes.
    pub fn is_empty(&self) -> bool {
        self.chains.iter().all(|chain| hunks_of(chain).is_empty())
    }

    fn line(
        &self,
        f: &mut fmt::Formatter<'_>,
        kind: Kind,
        text: fmt::Arguments<'_>,
    ) -> fmt::Result {
        match kind.colour() {
            Some(colour) if self.coloured => writeln!(f, "\x1b[{colour}m{text}\x1b[0m"),
            _ => writeln!(f, "{text}"),
        }
    }
}

/// The kinds of lines of a diff.
#[derive(Clone, Copy)]
enum Kind {
    File,
    Hunk,
    Keep,
    Remove,
    Add,
}

impl Kind {
    /// As git colours them: bold, cyan, red, green.
    fn colour(self) -> Option<&'static str> {
        match self {
            Self::File => Some("1"),
            Self::Hunk => Some("36"),
            Self::Keep => None,
            Self::Remove => Some("31"),
            Self::Add => Some("32"),
        }
    }
}

/// Neighbouring edits of a chain, with the lines where they begin.
struct Hunk<'a> {
    edits: Vec<Edit<'a>>,
    old_before: usize,
    new_before: usize,
}

impl fmt::Display for PlanDiff<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut begun = false;
        for chain in self.chains {
            for hunk in hunks_of(chain) {
                if !begun {
                    self.line(f, Kind::File, format_args!("--- programmed"))?;
                    self.line(f, Kind::File, format_args!("+++ planned"))?;
                    begun = true;
                }
                let (name, what) = (&chain.name, title(chain));
                let ranges = hunk.ranges();
                self.line(
                    f,
                    Kind::Hunk,
                    format_args!("@@ {ranges} @@ chain {name}{what}"),
                )?;
                for edit in hunk.edits {
                    let (kind, mark, rule) = match edit {
                        Edit::Keep(rule) => (Kind::Keep, ' ', rule),
                        Edit::Remove(rule) => (Kind::Remove, '-', rule),
                        Edit::Add(rule) => (Kind::Add, '+', rule),
                    };
                    self.line(f, kind, format_args!("{mark}-A {name} {rule}"))?;
                }
            }
        }
        Ok(())
    }
}

/// What becomes of the chain as a whole.
fn title(chain: &PlannedChain) -> &'static str {
    use Contents::{Absent, Ensured, Leftover, Programmed, Stub};
    match (&chain.before, &chain.after) {
        (Absent, Programmed(_)) => ", new",
        (Absent, Stub(_)) => ", new, a stub",
        (Programmed(_), Stub(_)) => ", a stub from now on",
        (Stub(_), Programmed(_)) => ", no longer a stub",
        (Programmed(_) | Stub(_), Absent) => ", deleted",
        (Leftover, Absent) => ", left by a previous run, deleted",
        (Leftover, Stub(_)) => ", left by a previous run, a stub from now on",
        (Leftover, Programmed(_)) => ", left by a previous run, its old rules aren't known",
        (Ensured, Absent) => ", deleted, its old rules aren't known",
        (Ensured, Stub(_)) => ", a stub from now on, its old rules aren't known",
        (Ensured, Programmed(_)) => ", its old rules aren't known",
        (Programmed(_), Programmed(_))
        | (Stub(_), Stub(_))
        | (Absent, Absent)
        | (_, Leftover | Ensured) => "",
    }
}

/// The hunks of a chain; a single one without lines where it comes or goes and has no rules to show.
fn hunks_of(chain: &PlannedChain) -> Vec<Hunk<'_>> {
    if chain.before == chain.after {
        return Vec::new();
    }
    let edits = edits(&texts(&chain.before), &texts(&chain.after));
    let shown = shown(&edits);
    if shown.is_empty() && !title(chain).is_empty() {
        let edits = Vec::new();
        return vec![Hunk {
            edits,
            old_before: 0,
            new_before: 0,
        }];
    }
    let hunks = shown.into_iter().map(|range| Hunk {
        old_before: count(&edits[..range.start], |edit| !matches!(edit, Edit::Add(_))),
        new_before: count(&edits[..range.start], |edit| {
            !matches!(edit, Edit::Remove(_))
        }),
        edits: edits[range].to_vec(),
    });
    hunks.collect()
}

fn texts(contents: &Contents) -> Vec<&str> {
    contents.rules().iter().map(Rule::as_str).collect()
}

/// The ranges of edits to show: the changes with their context, those that touch made one.
fn shown(edits: &[Edit<'_>]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        if matches!(edit, Edit::Keep(_)) {
            continue;
        }
        let start = at.saturating_sub(CONTEXT);
        let end = (at + 1 + CONTEXT).min(edits.len());
        match ranges.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    ranges
}

fn count(edits: &[Edit<'_>], which: impl Fn(&Edit<'_>) -> bool) -> usize {
    edits.iter().filter(|edit| which(edit)).count()
}

impl Hunk<'_> {
    /// `-1,2 +1,3`, as diff writes it: a length of 1 is left out, and an empty range names the line before it.
    fn ranges(&self) -> String {
        let range = |before: usize, length: usize| match length {
            0 => format!("{before},0"),
            1 => format!("{}", before + 1),
            length => format!("{},{length}", before + 1),
        };
        let old = count(&self.edits, |edit| !matches!(edit, Edit::Add(_)));
        let new = count(&self.edits, |edit| !matches!(edit, Edit::Remove(_)));
        let (old, new) = (range(self.old_before, old), range(self.new_before, new));
        format!("-{old} +{new}")
    }
}
