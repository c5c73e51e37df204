//! What has to stand in the dataplane and in the index after each step: plain maps, nothing of the library's own workings.

use std::collections::BTreeMap;

use iptables_updater::{ChainState, Error, FailureClass, Index};

use crate::plane::{NAMES, Plane, Set, has};

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Program a chain that jumps to some, and requires others by name alone.
    Rewrite {
        chain: usize,
        jumps: Set,
        named: Set,
    },
    Delete(usize),
    Override(usize),
    Cleanup,
    Refresh,
    /// The updater is gone, and another is opened on the same kernel.
    Restart,
    /// Somebody else empties a chain of ours.
    ForeignFlush(usize),
    /// Somebody else deletes a chain of ours, if nothing refers to it.
    ForeignDelete(usize),
}

/// What is known of a fault during a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interference {
    None,
    /// Whatever failed has changed nothing.
    Honest,
    /// What was reported as failed may have been applied.
    Applied,
}

/// What a caller has asked for so far, and what others did to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Model {
    programmed: BTreeMap<usize, (Set, Set)>,
    overridden: Set,
    /// Chains of a previous run with their contents, until they are written or cleaned up.
    left: BTreeMap<usize, Vec<String>>,
    /// What somebody else has changed since it was written: it may hold anything, until it is written again.
    damaged: Set,
    /// Chains of a commit that was reported as failed and may have been applied.
    doubtful: Set,
    /// Chains that nobody wants, and that may be there: no cleanup could remove them yet.
    orphans: Set,
    /// Chains of a previous run that somebody else has deleted: the updater may not know yet.
    vanished: Set,
}

fn chains() -> std::ops::Range<usize> {
    0..NAMES.len()
}

pub fn rules(jumps: Set) -> Vec<String> {
    let jumps = chains().filter(|c| has(jumps, *c));
    let jumps = jumps.map(|c| format!("-j {}", NAMES[c]));
    jumps.chain(["-j RETURN".to_owned()]).collect()
}

impl Model {
    /// What a program finds that starts on this.
    pub fn at_start(plane: &Plane) -> Self {
        let left = chains().filter_map(|c| Some((c, plane.rules(c)?.to_vec())));
        Self {
            left: left.collect(),
            ..Self::default()
        }
    }

    fn required(&self, chain: usize) -> bool {
        let mut all = self.programmed.values();
        all.any(|(jumps, named)| has(jumps | named, chain))
    }

    fn stub(&self, chain: usize) -> Vec<String> {
        if has(self.overridden, chain) {
            return vec!["-j ACCEPT".to_owned()];
        }
        let name = NAMES[chain];
        vec![format!(
            "-m comment --comment \"missing chain {name}\" -j DROP"
        )]
    }

    /// What stands under a chain's name.
    fn state(&self, chain: usize) -> ChainState {
        if self.programmed.contains_key(&chain) {
            ChainState::Programmed
        } else if self.left.contains_key(&chain) {
            ChainState::Leftover
        } else if self.required(chain) {
            ChainState::Stub
        } else {
            ChainState::Absent
        }
    }

    /// What it holds.
    fn holds(&self, chain: usize) -> Option<Vec<String>> {
        match self.state(chain) {
            ChainState::Programmed => Some(rules(self.programmed[&chain].0)),
            ChainState::Leftover => Some(self.left[&chain].clone()),
            ChainState::Stub => Some(self.stub(chain)),
            _ => None,
        }
    }

    fn is_circular(&self) -> bool {
        let next = |set: Set| {
            let from = chains().filter(|c| has(set, *c));
            from.fold(0, |all, c| {
                let (jumps, named) = self.programmed.get(&c).copied().unwrap_or_default();
                all | jumps | named
            })
        };
        chains().any(|c| {
            let one = next(1 << c);
            let two = next(one);
            has(one | two | next(two), c)
        })
    }

    /// What a caller has asked for with this operation beside; `None` where it has to be refused.
    fn with(&self, operation: Operation) -> Option<Self> {
        let mut after = self.clone();
        match operation {
            Operation::Rewrite {
                chain,
                jumps,
                named,
            } => {
                after.programmed.insert(chain, (jumps, named));
                after.left.remove(&chain);
                if after.is_circular() {
                    return None;
                }
            }
            Operation::Delete(chain) => {
                after.programmed.remove(&chain);
                after.left.remove(&chain);
            }
            Operation::Override(chain) => {
                if self.required(chain) {
                    return None;
                }
                after.overridden |= 1 << chain;
            }
            Operation::Cleanup => after.left.clear(),
            _ => {}
        }
        Some(after)
    }

    /// The model after a step of somebody else.
    pub fn after_foreign(mut self, operation: Operation, before: &Plane, after: &Plane) -> Self {
        match operation {
            Operation::ForeignFlush(chain) => match self.state(chain) {
                ChainState::Leftover => {
                    self.left.insert(chain, Vec::new());
                }
                ChainState::Absent => {}
                _ => self.damaged |= 1 << chain,
            },
            Operation::ForeignDelete(chain) => {
                if before.rules(chain).is_some() && after.rules(chain).is_none() {
                    if self.left.remove(&chain).is_some() {
                        self.vanished |= 1 << chain;
                    }
                    self.orphans &= !(1 << chain);
                    if self.state(chain) != ChainState::Absent {
                        self.damaged |= 1 << chain;
                    }
                }
            }
            _ => unreachable!(),
        }
        self
    }

    /// Checks what became of an operation of our own; the model after it.
    pub fn after_own(
        &self,
        operation: Operation,
        outcome: &Result<(), Error>,
        interference: Interference,
        (before, after): (&Plane, &Plane),
        index: &Index,
    ) -> Self {
        let wanted = self.with(operation);
        match outcome {
            Ok(()) => {
                let wanted = wanted.expect("it had to be refused");
                self.success(wanted, operation, interference, before, after)
            }
            Err(Error::Cycle { .. }) => {
                assert!(wanted.is_none() && matches!(operation, Operation::Rewrite { .. }));
                // What was in doubt is written again on the occasion.
                self.success(self.clone(), operation, interference, before, after)
            }
            Err(Error::OverrideTooLate { .. }) => {
                assert!(wanted.is_none() && matches!(operation, Operation::Override(_)));
                self.clone()
            }
            Err(error) => {
                let wanted = wanted.unwrap_or_else(|| self.clone());
                let circle = wanted.laid_over(before).has_reachable_circle();
                assert!(
                    interference != Interference::None || circle && is_circle(error),
                    "failed without a fault: {error}"
                );
                if operation == Operation::Cleanup {
                    return self.failed_cleanup(&wanted, after, index);
                }
                self.failure(&wanted, interference, (before, after), index)
            }
        }
    }

    /// The dataplane as it would be with what is wanted.
    fn laid_over(&self, before: &Plane) -> Plane {
        self.laid_over_only(before, |_| true)
    }

    fn laid_over_only(&self, before: &Plane, which: impl Fn(usize) -> bool) -> Plane {
        let mut plane = before.clone();
        for chain in chains().filter(|c| which(*c)) {
            if let Some(rules) = self.holds(chain) {
                plane.0.insert(NAMES[chain].to_owned(), rules);
            }
        }
        plane
    }

    fn success(
        &self,
        mut new: Self,
        operation: Operation,
        interference: Interference,
        before: &Plane,
        after: &Plane,
    ) -> Self {
        let commits = !matches!(operation, Operation::Override(_) | Operation::Cleanup);
        if commits {
            new.damaged &= !self.doubtful | self.vanished;
            new.doubtful = 0;
        }
        if operation == Operation::Refresh {
            new.damaged = 0;
        }
        let lost =
            chains().any(|c| new.state(c) != ChainState::Absent && before.rules(c).is_none());
        if operation == Operation::Cleanup && lost {
            // It found chains missing, and wrote everything again.
            new.damaged = 0;
            new.doubtful = 0;
        }
        for chain in chains() {
            let bit = 1 << chain;
            let (was, is) = (self.holds(chain), new.holds(chain));
            let unaware =
                has(self.vanished & !self.orphans, chain) && operation == Operation::Delete(chain);
            if was != is {
                new.damaged &= !bit;
            }
            if is.is_some() {
                new.orphans &= !bit;
            } else if (was.is_some() || unaware) && after.rules(chain).is_some() {
                // A deletion is best effort; but it has a reason, and the chain is safe.
                let held = after.is_referred_to(chain)
                    || operation == Operation::Cleanup && lost && before.is_referred_to(chain);
                assert!(
                    interference != Interference::None || held,
                    "{} should be gone",
                    NAMES[chain]
                );
                if operation != Operation::Cleanup && !has(self.damaged, chain) {
                    assert_eq!(after.rules(chain), Some(self.stub(chain).as_slice()));
                }
                new.orphans |= bit;
            }
            let wanted = is.is_some() || has(new.vanished, chain) && new.required(chain);
            if wanted && matches!(operation, Operation::Refresh | Operation::Cleanup) {
                new.vanished &= !bit;
            }
        }
        if operation == Operation::Cleanup && interference == Interference::None {
            // A chain that referred to an orphan at the reading may have been repaired after it.
            let read = new.laid_over_only(before, |c| self.state(c) == ChainState::Leftover);
            let held = if lost { &read } else { after };
            new.check_orphans(held, after);
        }
        if operation == Operation::Cleanup {
            let gone = chains().filter(|c| after.rules(*c).is_none());
            let gone = gone.fold(0, |set, c| set | 1 << c);
            new.orphans &= !gone;
        }
        new
    }

    /// After a cleanup: what nobody wants and still stands is held by what isn't an orphan.
    fn check_orphans(&self, held: &Plane, after: &Plane) {
        let wanted = held.0.keys().map(String::as_str).filter(|name| {
            let ours = NAMES.iter().position(|n| n == name);
            ours.is_none_or(|chain| self.holds(chain).is_some())
        });
        let reached = held.reached(wanted);
        for chain in chains().filter(|c| self.holds(*c).is_none()) {
            let name = NAMES[chain];
            assert!(
                after.rules(chain).is_none() || reached.contains(name),
                "{name} is an orphan"
            );
        }
    }

    /// A rewrite, a deletion or a refresh failed: all is as before, unless a failure lied.
    fn failure(
        &self,
        wanted: &Self,
        interference: Interference,
        (before, after): (&Plane, &Plane),
        index: &Index,
    ) -> Self {
        let mut new = self.clone();
        for chain in chains() {
            let bit = 1 << chain;
            if has(self.vanished, chain)
                && interference == Interference::Applied
                && index.state(NAMES[chain]) == ChainState::Leftover
                && let Some(found) = after.rules(chain)
            {
                // The updater, which didn't know that it had vanished, has put a stub under its name.
                assert!(found == self.stub(chain) || Some(found) == wanted.holds(chain).as_deref());
                new.left.insert(chain, found.to_vec());
                new.vanished &= !bit;
                continue;
            }
            if interference != Interference::Applied || self.holds(chain) == wanted.holds(chain) {
                continue;
            }
            let found = after.rules(chain);
            let may = [
                before.rules(chain).map(<[String]>::to_vec),
                wanted.holds(chain),
                Some(self.stub(chain)),
            ];
            assert!(
                may.contains(&found.map(<[String]>::to_vec)),
                "{} holds {found:?}",
                NAMES[chain]
            );
            match (self.state(chain), found) {
                (ChainState::Leftover, Some(found)) => {
                    new.left.insert(chain, found.to_vec());
                }
                (ChainState::Absent, Some(_)) => new.orphans |= bit,
                _ => {}
            }
            new.doubtful |= bit;
        }
        new
    }

    /// A cleanup does several things in order, and may stop between them: orphans are gone or not, stubs put or not.
    fn failed_cleanup(&self, wanted: &Self, after: &Plane, index: &Index) -> Self {
        let mut new = self.clone();
        for (chain, old) in &self.left {
            let (chain, bit) = (*chain, 1 << *chain);
            let found = after.rules(chain).map(<[String]>::to_vec);
            assert!(
                found.as_ref() == Some(old) || found == wanted.holds(chain),
                "{} holds {found:?}",
                NAMES[chain]
            );
            let goes_on = index.state(NAMES[chain]) == ChainState::Leftover;
            match &found {
                Some(found) if goes_on => {
                    new.left.insert(chain, found.clone());
                    continue;
                }
                None if goes_on => new.vanished |= bit,
                _ => {}
            }
            new.left.remove(&chain);
            match (found, wanted.holds(chain)) {
                (Some(_), None) => new.orphans |= bit,
                (found, wanted) if found != wanted => new.damaged |= bit,
                _ => {}
            }
        }
        new
    }

    /// Compares the dataplane and the index with what they have to be.
    pub fn check(&self, plane: &Plane, index: &Index) {
        assert_eq!(plane.dangling(), [], "dangling jumps");
        for chain in chains() {
            let name = NAMES[chain];
            let found = plane.rules(chain).map(<[String]>::to_vec);
            let wanted = self.holds(chain);
            let unsure = has(self.damaged | self.doubtful, chain)
                || wanted.is_none() && has(self.orphans, chain);
            assert!(unsure || found == wanted, "{name}: {found:?}, {wanted:?}");

            let state = index.state(name);
            let unaware = state == ChainState::Leftover && has(self.vanished, chain);
            assert!(
                state == self.state(chain) || unaware,
                "{name}: {state:?}, {:?}",
                self.state(chain)
            );
            let known = index.programmed(name).map(|chain| {
                let known = chain.rules().iter().map(ToString::to_string);
                known.collect::<Vec<_>>()
            });
            let wanted = self.programmed.get(&chain).map(|(jumps, _)| rules(*jumps));
            assert_eq!(known, wanted, "{name}");
            let requirers = self.programmed.values();
            let requirers = requirers.filter(|(jumps, named)| has(jumps | named, chain));
            assert_eq!(index.requirers(name), requirers.count(), "{name}");
        }
    }

    /// Whether others have left nothing to be repaired: then the dataplane has to be just what the index says.
    pub fn is_settled(&self) -> bool {
        self.damaged | self.doubtful == 0
    }
}

/// Whether that is how a circle through chains which the transaction doesn't know looks.
fn is_circle(error: &Error) -> bool {
    let Error::Restore(error) = error else {
        return false;
    };
    match error.class {
        FailureClass::TooManyLinks => !error.circle.is_empty(),
        class => class == FailureClass::Ambiguous,
    }
}
