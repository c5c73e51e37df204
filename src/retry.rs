//! How often and with which pauses a failure that may pass by itself is tried again.

use std::time::{Duration, Instant};

use rand::RngExt as _;

/// The time source of an updater: replaced in tests, so that no test has to wait.
pub trait Clock: Send {
    /// Now, on a clock that never goes back.
    fn now(&self) -> Instant;

    /// Waits that long.
    fn sleep(&self, pause: Duration);
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, pause: Duration) {
        std::thread::sleep(pause);
    }
}

/// How often a run of iptables is tried, and how long the pauses between the tries are.
///
/// Only failures that may pass by themselves are tried again: a held lock, a race, and those that
/// iptables doesn't explain (the latter less often). Each pause is 1.5 to 2.5 times the last, by chance,
/// so that programs that collided once don't collide again.
///
/// ```
/// use std::time::Duration;
/// use iptables_updater::RetryPolicy;
///
/// let policy = RetryPolicy::default().with_tries(4).with_first_pause(Duration::from_millis(5));
/// assert_eq!(policy.tries(), 4);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    tries: u32,
    ambiguous_tries: u32,
    first_pause: Duration,
    max_pause: Duration,
}

impl Default for RetryPolicy {
    /// 10 tries, 3 where the reason isn't known; the first pause 10 ms, none over 200 ms.
    fn default() -> Self {
        Self {
            tries: 10,
            ambiguous_tries: 3,
            first_pause: Duration::from_millis(10),
            max_pause: Duration::from_millis(200),
        }
    }
}

impl RetryPolicy {
    /// No second try of the same input, whatever the failure. (Where chains of ours were removed meanwhile, the commit
    /// that puts them back is another input.)
    pub fn never() -> Self {
        Self::default().with_tries(1).with_ambiguous_tries(1)
    }

    /// How often a held lock or a race is tried in all; at least once.
    #[must_use]
    pub fn with_tries(mut self, tries: u32) -> Self {
        self.tries = tries.max(1);
        self
    }

    /// How often a failure without a reason is tried in all; at least once. The table is read again before
    /// the last of them.
    #[must_use]
    pub fn with_ambiguous_tries(mut self, tries: u32) -> Self {
        self.ambiguous_tries = tries.max(1);
        self
    }

    /// The pause before the second try.
    #[must_use]
    pub fn with_first_pause(mut self, pause: Duration) -> Self {
        self.first_pause = pause;
        self
    }

    /// The longest pause.
    #[must_use]
    pub fn with_max_pause(mut self, pause: Duration) -> Self {
        self.max_pause = pause;
        self
    }

    /// How often a held lock or a race is tried in all.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How often a failure without a reason is tried in all.
    pub fn ambiguous_tries(&self) -> u32 {
        self.ambiguous_tries
    }

    /// The pauses, one after the other.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let max = self.max_pause;
        let mut next = self.first_pause.min(max);
        std::iter::repeat_with(move || {
            let pause = next;
            next = pause.mul_f64(rand::rng().random_range(1.5..=2.5)).min(max);
            pause
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pause_is_longer_than_the_last_up_to_the_longest() {
        let policy = RetryPolicy::default();
        for _ in 0..50 {
            let pauses: Vec<_> = policy.pauses().take(9).collect();
            assert_eq!(pauses[0], Duration::from_millis(10));
            for pair in pauses.windows(2) {
                let grown = pair[1] >= pair[0].mul_f64(1.49) && pair[1] <= pair[0].mul_f64(2.51);
                assert!(grown || pair[1] == Duration::from_millis(200), "{pair:?}");
            }
            assert_eq!(pauses[8], Duration::from_millis(200));
        }
    }

    #[test]
    fn there_is_always_one_try() {
        let policy = RetryPolicy::never().with_tries(0);
        assert_eq!((policy.tries(), policy.ambiguous_tries()), (1, 1));
    }
}
