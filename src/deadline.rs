//! Points in time that a caller's duration leads to, however long it is.

use std::time::{Duration, Instant};

/// Longer than anything waits; a clock can count it.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The time so long after that one: `Duration::MAX`, which people write for "never", would panic in an addition.
pub(crate) fn after(start: Instant, wait: Duration) -> Instant {
    start + wait.min(CENTURY)
}

/// The time so long from now.
pub(crate) fn from_now(wait: Duration) -> Instant {
    after(Instant::now(), wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_duration_leads_somewhere() {
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        assert_eq!(after(start, minute), start + minute);
        assert!(after(start, Duration::MAX) > start + Duration::from_secs(3_000_000_000));
        assert!(from_now(Duration::MAX) > from_now(minute));
    }
}
