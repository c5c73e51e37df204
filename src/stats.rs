//! What an updater has done so far, in numbers.

use std::fmt;
use std::time::Duration;

use crate::FailureClass;

/// A snapshot of an updater's counters. All count from its opening and never go back, but for
/// [`hook_rules`](Self::hook_rules); requests and chains are counted once, however often a batch was tried.
///
/// The fields are plain numbers, to be handed to whatever metrics system a program uses; times are in
/// [`Duration`]s. `Display` prints them for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Runs of iptables-restore, failed ones included.
    pub restores: u64,
    /// Runs of iptables-save, failed ones included.
    pub saves: u64,
    /// Runs that were repeated because of a failure that may pass.
    pub retries: Retries,
    /// Lines handed to iptables-restore.
    pub lines_written: u64,
    /// Bytes handed to iptables-restore.
    pub bytes_written: u64,
    /// Requests to rewrite or delete chains.
    pub requests: u64,
    /// How many of them were refused or failed.
    pub requests_failed: u64,
    /// How often a batch was parted, because a request of it failed.
    pub splits: u64,
    /// Chains written with the contents asked for.
    pub chains_rewritten: u64,
    /// How many of them were [changed in place](crate::UpdateMode::Minimal).
    pub chains_edited: u64,
    /// How often a commit that changed chains in place failed, and they were written whole.
    pub edits_refused: u64,
    /// Rewrites that asked for the contents that the chain held already.
    pub chains_unchanged: u64,
    /// Chains for which a stub was put.
    pub chains_stubbed: u64,
    /// Chains deleted.
    pub chains_deleted: u64,
    /// Deletions that didn't succeed.
    pub chains_undeleted: u64,
    /// Orphans that cleanups found, deleted or not.
    pub orphans_found: u64,
    /// Chains that were written again because somebody else had changed or removed them.
    pub chains_repaired: u64,
    /// Hook rules that are remembered now, removed ones included.
    pub hook_rules: u64,
    /// Refreshes and cleanups that failed.
    pub refreshes_failed: u64,
    /// Requests in a batch.
    pub batch_requests: Tally<u64>,
    /// Time that a batch took, retries and pauses included.
    pub batch_time: Tally<Duration>,
    /// Time in which restores found the xtables lock held by another program (legacy), as far as that is known.
    pub lock_wait: Duration,
}

/// How often something was tried again, by what had gone wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retries {
    /// Another program held the xtables lock.
    pub lock_held: u64,
    /// The kernel was short of something, or another program wrote at the same instant.
    pub race: u64,
    /// iptables didn't say why it failed, or its output was lost.
    pub ambiguous: u64,
}

impl Retries {
    pub(crate) fn count(&mut self, class: FailureClass) {
        match class {
            FailureClass::LockHeld => self.lock_held += 1,
            FailureClass::Race => self.race += 1,
            _ => self.ambiguous += 1,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.lock_held + self.race + self.ambiguous
    }
}

/// A quantity that is measured again and again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally<T> {
    /// How often it was measured.
    pub count: u64,
    /// The last.
    pub last: T,
    /// The sum.
    pub total: T,
    /// The largest.
    pub max: T,
}

impl<T: Copy + Ord + std::ops::AddAssign> Tally<T> {
    pub(crate) fn add(&mut self, value: T) {
        self.count += 1;
        self.last = value;
        self.total += value;
        self.max = self.max.max(value);
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            retries,
            batch_requests,
            batch_time,
            ..
        } = self;
        writeln!(
            f,
            "runs: {} restores ({} lines, {} bytes), {} saves, {} retries ({} lock, {} race, {} unexplained)",
            self.restores,
            self.lines_written,
            self.bytes_written,
            self.saves,
            retries.total(),
            retries.lock_held,
            retries.race,
            retries.ambiguous
        )?;
        writeln!(
            f,
            "requests: {} ({} failed) in {} batches ({} at most, {} splits), {:.3?} in all, {:.3?} at most",
            self.requests,
            self.requests_failed,
            batch_requests.count,
            batch_requests.max,
            self.splits,
            batch_time.total,
            batch_time.max
        )?;
        writeln!(
            f,
            "chains: {} rewritten, {} unchanged, {} stubbed, {} deleted, {} not deleted, {} repaired",
            self.chains_rewritten,
            self.chains_unchanged,
            self.chains_stubbed,
            self.chains_deleted,
            self.chains_undeleted,
            self.chains_repaired
        )?;
        write!(
            f,
            "upkeep: {} orphans found, {} hook rules, {} refreshes failed, {:.3?} at a held lock",
            self.orphans_found, self.hook_rules, self.refreshes_failed, self.lock_wait
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_keeps_last_sum_and_largest() {
        let mut tally = Tally::default();
        for value in [3, 7, 2_u64] {
            tally.add(value);
        }
        assert_eq!(
            (tally.count, tally.last, tally.total, tally.max),
            (3, 2, 12, 7)
        );
    }

    #[test]
    fn it_reads_well() {
        let mut stats = Stats {
            restores: 3,
            requests: 5,
            ..Stats::default()
        };
        stats.retries.count(FailureClass::LockHeld);
        stats.batch_time.add(Duration::from_millis(12));
        let text = stats.to_string();
        assert!(
            text.starts_with("runs: 3 restores (0 lines, 0 bytes), 0 saves, 1 retries (1 lock,")
        );
        assert!(text.contains("requests: 5 (0 failed) in 0 batches"));
        assert!(text.contains("12.000ms at most"));
    }
}
