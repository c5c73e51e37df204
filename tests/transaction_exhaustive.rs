//! Every transition of the transaction over three chains, against a model that is computed from scratch.
//!
//! A state is what each chain was programmed with (nothing, or one of the eight sets of chains to require) and
//! which leftover chains of a previous run are untouched. Every operation is tried in every state that can be
//! reached from every start; as the index after each step must *equal* one built from scratch, this covers
//! every sequence of operations of any length, those of four among them. Batches of several operations in one
//! transaction are tried beside, all up to three from every start, random ones from random states.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use iptables_updater::{
    Chain, ChainName, ChainState, Change, Delta, Error, Index, Prefixes, Transaction,
};
use proptest::prelude::*;

const NAMES: [&str; 3] = ["x-a", "x-b", "x-c"];

/// A set of chains, as bits.
type Set = u8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Rewrite(usize, Set),
    Delete(usize),
}

fn operations() -> Vec<Operation> {
    let rewrites = (0..3).flat_map(|chain| (0..8).map(move |set| Operation::Rewrite(chain, set)));
    rewrites.chain((0..3).map(Operation::Delete)).collect()
}

/// What a caller has asked for so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    programmed: [Option<Set>; 3],
    leftover: Set,
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    Programmed(Set),
    Stub,
    Old,
}

fn has(set: Set, chain: usize) -> bool {
    set & (1 << chain) != 0
}

impl State {
    fn after(mut self, operation: Operation) -> Self {
        let (chain, contents) = match operation {
            Operation::Rewrite(chain, set) => (chain, Some(set)),
            Operation::Delete(chain) => (chain, None),
        };
        self.programmed[chain] = contents;
        self.leftover &= !(1 << chain);
        self
    }

    fn required(self, chain: usize) -> bool {
        self.programmed.iter().flatten().any(|set| has(*set, chain))
    }

    /// What has to stand in the dataplane.
    fn dataplane(self) -> BTreeMap<usize, Contents> {
        let contents = |chain: usize| match self.programmed[chain] {
            Some(set) => Some(Contents::Programmed(set)),
            None if has(self.leftover, chain) => Some(Contents::Old),
            None if self.required(chain) => Some(Contents::Stub),
            None => None,
        };
        (0..3).filter_map(|c| Some((c, contents(c)?))).collect()
    }

    /// Whether some chain leads back to itself, by walking all paths of three steps.
    fn circular(self) -> bool {
        let next = |set: Set| {
            let reached = (0..3).filter(|chain| has(set, *chain));
            reached.fold(0, |all, c| all | self.programmed[c].unwrap_or(0))
        };
        (0..3).any(|chain| {
            let one = self.programmed[chain].unwrap_or(0);
            let (two, three) = (next(one), next(next(one)));
            has(one | two | three, chain)
        })
    }

    /// The index built from nothing, in one go.
    fn index(self) -> Index {
        let leftover = (0..3).filter(|c| has(self.leftover, *c));
        let leftover = leftover.map(|c| ChainName::new(NAMES[c]).unwrap());
        let mut index = Index::new(Prefixes::new(["x-"]).unwrap()).with_leftover(leftover);
        let mut transaction = Transaction::new(&index);
        let programmed = self.programmed.iter().enumerate();
        let changes = programmed.filter_map(|(c, set)| Some(Change::Rewrite(contents(c, (*set)?))));
        transaction
            .request(&changes.collect::<Vec<_>>(), 0)
            .unwrap();
        let update = transaction.delta().into_update();
        index.apply(update);
        index
    }
}

fn contents(chain: usize, requires: Set) -> Chain {
    let targets = (0..3).filter(|c| has(requires, *c));
    Chain::new(NAMES[chain], targets.map(|c| format!("-j {}", NAMES[c]))).unwrap()
}

fn number(name: &ChainName) -> usize {
    NAMES.iter().position(|n| name == n).unwrap()
}

/// Does to the dataplane what the delta says.
fn play(dataplane: &mut BTreeMap<usize, Contents>, delta: &Delta) {
    for rewrite in delta.rewrites() {
        let targets = rewrite
            .chain
            .rules()
            .iter()
            .filter_map(|rule| rule.target());
        let set = targets.fold(0, |set, target| {
            set | 1 << NAMES.iter().position(|name| *name == target).unwrap()
        });
        dataplane.insert(number(rewrite.chain.name()), Contents::Programmed(set));
    }
    for stub in delta.stubs() {
        dataplane.insert(number(&stub.chain), Contents::Stub);
    }
    for deletion in delta.deletions() {
        let chain = number(&deletion.chain);
        let before = dataplane.remove(&chain).expect("it stood there");
        assert_eq!(deletion.stub_first, before != Contents::Stub);
    }
}

/// One transaction of several operations from a state; `None` where it is refused.
fn step(before: State, operations: &[Operation]) -> Option<State> {
    let after = operations.iter().fold(before, |s, o| s.after(*o));
    let index = before.index();
    let mut transaction = Transaction::new(&index);
    let changes = operations.iter().map(|operation| match *operation {
        Operation::Rewrite(chain, set) => Change::Rewrite(contents(chain, set)),
        Operation::Delete(chain) => Change::Delete(ChainName::new(NAMES[chain]).unwrap()),
    });
    if let Err(error) = transaction.request(&changes.collect::<Vec<_>>(), 0) {
        let Error::Cycle { chains } = error else {
            panic!("{error}");
        };
        assert!(after.circular(), "{before:?} {operations:?}: {chains:?}");
        assert!(transaction.delta().is_empty());
        return None;
    }
    let delta = transaction.delta();
    assert!(!after.circular(), "{before:?} {operations:?}");
    let mut dataplane = before.dataplane();
    play(&mut dataplane, &delta);
    assert_eq!(dataplane, after.dataplane(), "{before:?} {operations:?}");

    let written: BTreeSet<_> = delta
        .rewrites()
        .iter()
        .map(|r| number(r.chain.name()))
        .collect();
    for chain in written {
        let unchanged = before.programmed[chain] == after.programmed[chain];
        assert!(
            !unchanged,
            "{before:?} {operations:?}: chain {chain} was written for nothing"
        );
    }
    let mut index = index;
    index.apply(delta.into_update());
    assert_eq!(index, after.index(), "{before:?} {operations:?}");
    for (chain, name) in NAMES.iter().enumerate() {
        let expected = match after.dataplane().get(&chain) {
            Some(Contents::Programmed(_)) => ChainState::Programmed,
            Some(Contents::Stub) => ChainState::Stub,
            Some(Contents::Old) => ChainState::Leftover,
            None => ChainState::Absent,
        };
        assert_eq!(index.state(name), expected);
        assert_eq!(index.is_required(name), after.required(chain));
    }
    Some(after)
}

fn starts() -> impl Iterator<Item = State> {
    (0..8).map(|leftover| State {
        programmed: [None; 3],
        leftover,
    })
}

#[test]
fn every_operation_in_every_state_does_what_the_model_says() {
    let mut known: HashSet<State> = starts().collect();
    let mut queue: VecDeque<State> = starts().collect();
    let mut transitions = 0;
    while let Some(state) = queue.pop_front() {
        for operation in operations() {
            transitions += 1;
            if let Some(next) = step(state, &[operation])
                && known.insert(next)
            {
                queue.push_back(next);
            }
        }
    }
    // Counted another way, so that none was missed.
    assert_eq!(known.len(), reachable_by_counting());
    assert_eq!(transitions, known.len() * 27);
}

/// States without a circle in which no programmed chain is leftover.
fn reachable_by_counting() -> usize {
    let contents = || (0..9_u8).map(|c| c.checked_sub(1));
    let mut count = 0;
    for a in contents() {
        for b in contents() {
            for c in contents() {
                for leftover in 0..8 {
                    let programmed = [a, b, c];
                    let state = State {
                        programmed,
                        leftover,
                    };
                    let overlap = (0..3).any(|c| has(leftover, c) && programmed[c].is_some());
                    count += usize::from(!overlap && !state.circular());
                }
            }
        }
    }
    count
}

#[test]
fn every_batch_of_up_to_three_operations_does_what_the_model_says() {
    for start in starts() {
        for first in operations() {
            for second in operations() {
                step(start, &[first, second]);
                for third in operations() {
                    // The third chain is alike by symmetry: let one name stay fixed.
                    if matches!(first, Operation::Rewrite(0, _) | Operation::Delete(0)) {
                        step(start, &[first, second, third]);
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn batches_after_batches_do_what_the_model_says(
        leftover in 0_u8..8,
        batches in prop::collection::vec(prop::collection::vec(prop::sample::select(operations()), 1..6), 1..8),
    ) {
        let mut state = State { programmed: [None; 3], leftover };
        for batch in batches {
            state = step(state, &batch).unwrap_or(state);
        }
    }
}
