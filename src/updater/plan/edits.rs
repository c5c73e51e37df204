//! The least number of lines to remove and to add that makes one list out of another.

/// How many edits are looked for before the differing middle is simply replaced: time and memory grow with
/// the square of it (some 25 ms and 32 MB here, for as long as one chain is compared).
const MOST_EDITS: usize = 2_000;

/// One line of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit<'a> {
    Keep(&'a str),
    Remove(&'a str),
    Add(&'a str),
}

/// Compares two lists. Where lines are replaced, those removed stand before those added.
pub(super) fn edits<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Edit<'a>> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = before.iter().zip(after).take_while(same).count();
    let rests = before[head..].iter().rev().zip(after[head..].iter().rev());
    let tail = rests.take_while(same).count();
    let old = &before[head..before.len() - tail];
    let new = &after[head..after.len() - tail];
    let keep = |lines: &[&'a str]| lines.iter().map(|line| Edit::Keep(line)).collect();
    let mut edits: Vec<Edit<'a>> = keep(&before[..head]);
    edits.extend(shortest(old, new).unwrap_or_else(|| replacement(old, new)));
    edits.extend::<Vec<_>>(keep(&before[before.len() - tail..]));
    removals_first(&mut edits);
    edits
}

fn replacement<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Edit<'a>> {
    let removed = old.iter().map(|line| Edit::Remove(line));
    removed
        .chain(new.iter().map(|line| Edit::Add(line)))
        .collect()
}

/// Puts the removals of each run of edits before its additions.
fn removals_first(edits: &mut [Edit<'_>]) {
    let runs = edits.chunk_by_mut(|a, b| {
        let kept = |edit: &Edit<'_>| matches!(edit, Edit::Keep(_));
        kept(a) == kept(b)
    });
    for run in runs {
        run.sort_by_key(|edit| matches!(edit, Edit::Add(_)));
    }
}

/// Myers' greedy search: after `d` edits, how far down the old list each diagonal has come. `None` where more
/// than [`MOST_EDITS`] are needed.
fn shortest<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Vec<Edit<'a>>> {
    let most = MOST_EDITS.min(old.len() + new.len());
    // Diagonal `zero + x - y` holds the points with x lines of the old list and y of the new one.
    let zero = most + 1;
    let mut reach = vec![0; 2 * most + 3];
    let mut trace: Vec<Vec<usize>> = Vec::new();
    for d in 0..=most {
        for diagonal in (zero - d..=zero + d).step_by(2) {
            let down = goes_down(&reach, diagonal, zero, d);
            let mut x = if down {
                reach[diagonal + 1]
            } else {
                reach[diagonal - 1] + 1
            };
            let mut y = x + zero - diagonal;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            reach[diagonal] = x;
            if (x, y) == (old.len(), new.len()) {
                return Some(walk_back(old, new, &trace, zero));
            }
        }
        trace.push(reach[zero - d..=zero + d].to_vec());
    }
    None
}

/// Whether the `d`th edit that leads to the diagonal adds a line, rather than removing one.
fn goes_down(reach: &[usize], diagonal: usize, zero: usize, d: usize) -> bool {
    diagonal == zero - d || (diagonal != zero + d && reach[diagonal - 1] < reach[diagonal + 1])
}

/// Goes from the ends of both lists back to their beginnings, by what each step of the search had reached.
fn walk_back<'a>(
    old: &[&'a str],
    new: &[&'a str],
    trace: &[Vec<usize>],
    zero: usize,
) -> Vec<Edit<'a>> {
    let (mut x, mut y) = (old.len(), new.len());
    let mut edits = Vec::with_capacity(x + y);
    for (before, reach) in trace.iter().enumerate().rev() {
        // The row begins at diagonal `zero - before`; seen from there, its middle is `before`.
        let d = before + 1;
        let diagonal = zero + x - y;
        let at = |diagonal: usize| reach[diagonal + before - zero];
        let down =
            diagonal == zero - d || (diagonal != zero + d && at(diagonal - 1) < at(diagonal + 1));
        let from = if down { diagonal + 1 } else { diagonal - 1 };
        let from_x = at(from);
        let from_y = from_x + zero - from;
        while x > from_x && y > from_y {
            (x, y) = (x - 1, y - 1);
            edits.push(Edit::Keep(old[x]));
        }
        if down {
            y -= 1;
            edits.push(Edit::Add(new[y]));
        } else {
            x -= 1;
            edits.push(Edit::Remove(old[x]));
        }
    }
    edits.extend(old[..x].iter().rev().map(|line| Edit::Keep(line)));
    edits.reverse();
    edits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sides<'a>(edits: &[Edit<'a>]) -> (Vec<&'a str>, Vec<&'a str>) {
        let old = edits.iter().filter_map(|edit| match edit {
            Edit::Keep(line) | Edit::Remove(line) => Some(*line),
            Edit::Add(_) => None,
        });
        let new = edits.iter().filter_map(|edit| match edit {
            Edit::Keep(line) | Edit::Add(line) => Some(*line),
            Edit::Remove(_) => None,
        });
        (old.collect(), new.collect())
    }

    fn kept(edits: &[Edit<'_>]) -> usize {
        let kept = edits.iter().filter(|edit| matches!(edit, Edit::Keep(_)));
        kept.count()
    }

    /// The longest common subsequence by the book, to compare with.
    fn longest_common(a: &[&str], b: &[&str]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for line in a {
            let mut diagonal = 0;
            for (at, other) in b.iter().enumerate() {
                let here = if line == other {
                    diagonal + 1
                } else {
                    row[at].max(row[at + 1])
                };
                diagonal = std::mem::replace(&mut row[at + 1], here);
            }
        }
        row[b.len()]
    }

    proptest! {
        #[test]
        fn both_sides_come_back_with_as_much_kept_as_can_be(
            before in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 0..24),
            after in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 0..24),
        ) {
            let edits = edits(&before, &after);
            prop_assert_eq!(sides(&edits), (before.clone(), after.clone()));
            prop_assert_eq!(kept(&edits), longest_common(&before, &after));
        }
    }

    #[test]
    fn removals_stand_before_additions() {
        let edits = edits(&["a", "x", "y", "b"], &["a", "1", "2", "b"]);
        let expected = [
            Edit::Keep("a"),
            Edit::Remove("x"),
            Edit::Remove("y"),
            Edit::Add("1"),
            Edit::Add("2"),
            Edit::Keep("b"),
        ];
        assert_eq!(edits, expected);
    }

    #[test]
    fn long_lists_cost_no_square() {
        let names: Vec<String> = (0..40_000).map(|n| format!("rule {n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (old, new) = names.split_at(20_000);
        let begun = std::time::Instant::now();
        // Nothing in common: given up, and replaced as a whole.
        assert_eq!(kept(&edits(old, new)), 0);
        // A few scattered changes in many lines are found one by one.
        let scattered = old.iter().enumerate();
        let scattered: Vec<&str> = scattered
            .map(|(n, line)| if n % 100 == 7 { new[n] } else { line })
            .collect();
        assert_eq!(kept(&edits(old, &scattered)), 19_800);
        // By the square it would be 400 million steps each, minutes in a debug build.
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
