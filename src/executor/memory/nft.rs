//! nf_tables: a block's commands are collected, turned into one batch of messages against a cache of
//! the table, and the kernel takes all messages or none.

use super::command::{Action, Command, VERDICTS, check_length_and_lead, parameter};
use super::dialect::{Dialect, Stop};
use super::input::no_policy;
use super::kernel::Chains;
use crate::{KernelChain, Table};

mod batch;
mod cache;
mod prepare;
mod validate;

/// The commands of a block, with their lines.
#[derive(Debug)]
pub(super) struct Block {
    steps: Vec<(usize, Step)>,
}

/// What of one block the tool still has in mind in the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory(&'static str);

impl Default for Memory {
    fn default() -> Self {
        Self(prepare::NO_CHAIN)
    }
}

#[derive(Debug)]
enum Step {
    /// `:chain -`
    Declare(String),
    /// `:CHAIN POLICY` of a kernel chain.
    Policy(String, String),
    Command(Command),
}

impl Block {
    pub(super) fn new() -> Self {
        Self { steps: Vec::new() }
    }

    pub(super) fn declare(
        &mut self,
        line: usize,
        name: &str,
        policy: Option<&str>,
        table: Table,
        dialect: Dialect,
    ) -> Result<(), Stop> {
        check_length_and_lead(name)?;
        if VERDICTS.contains(&name) {
            return Err(parameter("chain name may not clash with target name"));
        }
        let policy = policy.ok_or_else(|| no_policy(dialect, line))?;
        let step = match KernelChain::from_name(name).filter(|chain| table.has(*chain)) {
            Some(_) => Step::Policy(name.to_owned(), policy.to_owned()),
            // A user chain's policy is ignored.
            None => Step::Declare(name.to_owned()),
        };
        self.steps.push((line, step));
        Ok(())
    }

    pub(super) fn push(&mut self, line: usize, command: Command) {
        self.steps.push((line, Step::Command(command)));
    }

    /// Does the whole block; the table as it is afterwards.
    pub(super) fn commit(
        self,
        chains: &Chains,
        table: Table,
        dialect: Dialect,
        memory: &mut Memory,
    ) -> Result<Chains, Stop> {
        let loads_rules = self.steps.iter().any(|(_, step)| step.loads_rules());
        let mut preparation = prepare::Preparation::new(chains, table, loads_rules, memory.0);
        for (line, step) in self.steps {
            preparation.step(line, step)?;
        }
        let (messages, missing) = preparation.finish();
        *memory = Memory(missing);
        batch::run(chains, &messages, table, dialect).map_err(Stop::Kernel)
    }
}

impl Step {
    /// Whether the tool reads rules from the kernel for it. If it does for one command of a block, it
    /// does for every chain that the block names.
    fn loads_rules(&self) -> bool {
        let Self::Command(command) = self else {
            return false;
        };
        match command.action {
            Action::Insert(number) => number > 1,
            Action::Replace(_)
            | Action::Delete
            | Action::DeleteNumber(_)
            | Action::Check
            | Action::Zero
            | Action::ZeroNumber(_)
            | Action::List => true,
            Action::DeleteChain => command.chain.is_none(),
            _ => false,
        }
    }
}
