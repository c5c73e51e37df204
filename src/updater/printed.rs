//! How iptables prints a rule: found out by writing it into a chain that nothing refers to.

use std::collections::HashMap;

use super::IptablesUpdater;
use crate::error::{Error, FailureClass};
use crate::restore_input::Builder;
use crate::{ChainName, ChainState, Executor, HookChain, Rule};

/// What is known of how rules are printed.
#[derive(Debug, Default)]
pub(super) struct Printed(HashMap<Rule, String>);

impl Printed {
    /// How the rule is printed; `None` if that wasn't found out.
    pub(super) fn of(&self, rule: &Rule) -> Option<&str> {
        self.0.get(rule).map(String::as_str)
    }
}

impl<E: Executor> IptablesUpdater<E> {
    /// Finds out how these rules are printed, unless that is known: a restore, a reading and a deletion.
    pub(super) fn learn_printed(&mut self, rules: &[Rule]) -> Result<(), Error> {
        let unknown: Vec<_> = rules
            .iter()
            .filter(|rule| self.printed.of(rule).is_none())
            .cloned()
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let scratch = self.spare_chain("scratch")?;
        let mut builder = Builder::new(self.runner.table);
        builder.contents(&scratch, &unknown, None);
        self.runner.restore(&builder.build())?;
        let texts = self.runner.save(|saved| {
            let rules = saved.chain(scratch.as_str()).map(|chain| {
                let texts = chain.rules().map(|rule| rule.text().to_owned());
                texts.collect::<Vec<_>>()
            });
            rules.unwrap_or_default()
        });
        let (_, undeleted) = self.delete_best_effort(vec![scratch]);
        self.runner.stats.chains_undeleted += undeleted.len() as u64;
        let texts = texts?;
        // Somebody may have removed or changed the chain meanwhile: then nothing is known.
        if texts.len() == unknown.len() {
            self.printed.0.extend(unknown.into_iter().zip(texts));
        }
        Ok(())
    }

    /// An owned chain for the updater's own purpose, that isn't in use: `web-~scratch`, or a shorter name. Left by a
    /// crash, it is an orphan for the next cleanup.
    pub(super) fn spare_chain(&self, purpose: &str) -> Result<ChainName, Error> {
        let free = |name: &ChainName| {
            let index = &self.index;
            let known = index.state(name.as_str()) != ChainState::Absent
                || self.shared.is_canary(name.as_str());
            !known
        };
        let prefixes = self.index.prefixes();
        let names = prefixes.iter().flat_map(|prefix| {
            let tails = [purpose, &purpose[..1], ""].map(|tail| format!("{prefix}~{tail}"));
            tails
                .into_iter()
                .filter_map(|name| ChainName::new(&name).ok())
        });
        let mut names = names.filter(free);
        let none = || Error::NoSpareChain {
            prefixes: prefixes.clone(),
        };
        names.next().ok_or_else(none)
    }

    /// Refuses to go on where a rule stands in the chain that is printed as this one, though iptables doesn't find it
    /// by this one's words.
    pub(super) fn check_twin(&mut self, chain: &HookChain, rule: &Rule) -> Result<(), Error> {
        if may_have_twin(rule) && !self.stands(chain, rule)? && self.has_twin(chain, rule)? {
            let (chain, rule) = (chain.clone(), rule.clone());
            return Err(Error::CantMatch { chain, rule });
        }
        Ok(())
    }

    /// Whether there is such a rule.
    pub(super) fn has_twin(&mut self, chain: &HookChain, rule: &Rule) -> Result<bool, Error> {
        if !may_have_twin(rule) {
            return Ok(false);
        }
        match self.learn_printed(std::slice::from_ref(rule)) {
            // What it names doesn't exist, so it stands nowhere.
            Err(error) if error.class().is_some_and(FailureClass::is_absence) => return Ok(false),
            learned => learned?,
        }
        let Some(printed) = self.printed.of(rule) else {
            return Ok(false);
        };
        self.runner.save(|saved| {
            let chain = saved.chain(chain.as_str());
            chain.is_some_and(|chain| chain.rules().any(|rule| rule.text() == printed))
        })
    }
}

/// Rules of `recent` and `connlimit` aren't found any longer once another program has saved and restored them: a
/// field that isn't printed differs then (measured on 1.8.9, IPv4, both back ends). A limit with a burst of 0 isn't
/// found at all on nf_tables.
fn may_have_twin(rule: &Rule) -> bool {
    let signs = ["-m recent", "-m connlimit", "--limit-burst 0"];
    signs.iter().any(|sign| rule.as_str().contains(sign))
}
