//! Finds and replaces all instances of one rule in a chain of others.

use log::debug;

use super::run::Refusal;
use super::{Existed, IptablesUpdater};
use crate::error::{Error, FailureClass};
use crate::restore_input::{Builder, Command};
use crate::{Executor, HookChain, Rule};

/// How many instances of a rule the first look for duplicates finds in one restore.
const FIRST_LOOK: usize = 16;

/// The most deletions in one restore.
const MOST_AT_ONCE: usize = 4_096;

/// How often instances are counted again when other programs add and remove them meanwhile.
const MOST_ROUNDS: usize = 10;

/// After how many restores that found every instance that they were to delete the tool isn't believed any longer:
/// that is 400,000 instances.
const MOST_DELETIONS: usize = 100;

impl<E: Executor> IptablesUpdater<E> {
    /// Deletes all instances of a rule and, in the same commit, puts one with the command given; whether there was
    /// one before.
    ///
    /// iptables deletes one instance a line, and applies nothing if there is one line too many; but then it
    /// names that line, and so tells how many instances there are.
    pub(super) fn replace_all(
        &mut self,
        chain: &HookChain,
        rule: &Rule,
        put: Option<Command>,
    ) -> Result<Existed, Refusal> {
        let mut existed = Existed::No;
        let mut deletions = FIRST_LOOK;
        let mut counted = false;
        let mut round = 0;
        let mut pauses = self.runner.unexplained_pauses();
        loop {
            round += 1;
            let mut builder = Builder::new(self.runner.table);
            for _ in 0..deletions {
                builder.rule(Command::DeleteRule, chain, rule);
            }
            if let Some(command) = put {
                builder.rule(command, chain, rule);
            }
            let refusal = match self.runner.restore_last_try(&builder.build()) {
                Ok(()) if counted => return Ok(existed),
                Ok(()) if round > MOST_DELETIONS => {
                    return Err(Refusal::NotRun(Error::NeverAbsent {
                        chain: chain.clone(),
                        rule: rule.clone(),
                    }));
                }
                Ok(()) => {
                    existed = Existed::Yes;
                    deletions = deletions.saturating_mul(4).min(MOST_AT_ONCE);
                    continue;
                }
                Err(refusal) => refusal,
            };
            match instances(&refusal, deletions) {
                Some(0) if put.is_none() => return Ok(existed),
                Some(found) if round < MOST_ROUNDS => {
                    debug!("{found} instances in chain {chain}");
                    deletions = found;
                    counted = true;
                    if found > 0 {
                        existed = Existed::Yes;
                    }
                }
                _ if put.is_none() && nothing_to_remove(&refusal) => return Ok(existed),
                _ if refusal.class() == Some(FailureClass::Ambiguous) => {
                    // It may have been applied, and the same again would put a second instance: count anew.
                    let Some(pause) = pauses.next() else {
                        return Err(refusal);
                    };
                    self.runner.pause(FailureClass::Ambiguous, pause);
                    deletions = FIRST_LOOK;
                    counted = false;
                }
                _ => return Err(refusal),
            }
        }
    }
}

/// How many instances there are, told by the first deletion that found none.
fn instances(refusal: &Refusal, deletions: usize) -> Option<usize> {
    let Refusal::Failed(error) = refusal else {
        return None;
    };
    // The deletions begin in line 2, after `*table`.
    let found = error.line?.checked_sub(2)?;
    (error.class == FailureClass::RuleAbsent && found < deletions).then_some(found)
}

/// Whether the rule can't stand anywhere, because something that it names doesn't exist.
fn nothing_to_remove(refusal: &Refusal) -> bool {
    refusal.class() == Some(FailureClass::TargetAbsent)
}
