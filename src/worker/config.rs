//! How a worker behaves.

use std::time::Duration;

/// How a worker gathers requests and what it does by itself.
///
/// ```
/// use std::time::Duration;
/// use iptables_updater::worker::WorkerConfig;
///
/// let config = WorkerConfig::default()
///     .with_batch_spacing(Duration::from_millis(50))
///     .with_refresh_interval(Duration::from_secs(90));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    pub(super) max_batch_requests: usize,
    pub(super) max_batch_bytes: usize,
    pub(super) batch_spacing: Duration,
    pub(super) queue_limit: Option<usize>,
    pub(super) refresh_interval: Option<Duration>,
    pub(super) cleanup_after: Option<Duration>,
    pub(super) canary_interval: Option<Duration>,
}

impl Default for WorkerConfig {
    /// Batches of up to 1,000 requests and 8 MiB, no spacing, a queue without a limit, no refresh and no
    /// cleanup of its own.
    fn default() -> Self {
        Self {
            max_batch_requests: 1_000,
            max_batch_bytes: 8 << 20,
            batch_spacing: Duration::ZERO,
            queue_limit: None,
            refresh_interval: None,
            cleanup_after: None,
            canary_interval: None,
        }
    }
}

impl WorkerConfig {
    /// The most requests in a batch; at least one.
    #[must_use]
    pub fn with_max_batch_requests(mut self, requests: usize) -> Self {
        self.max_batch_requests = requests.max(1);
        self
    }

    /// The most bytes of rules in a batch. A request that is larger by itself is a batch of its own.
    #[must_use]
    pub fn with_max_batch_bytes(mut self, bytes: usize) -> Self {
        self.max_batch_bytes = bytes;
        self
    }

    /// The least time from the beginning of one batch to that of the next: what is queued meanwhile joins it.
    #[must_use]
    pub fn with_batch_spacing(mut self, spacing: Duration) -> Self {
        self.batch_spacing = spacing;
        self
    }

    /// The most that may be queued; at least one. Whoever queues more waits until there is room, whichever
    /// form of the call it is. Without it the queue has no limit.
    #[must_use]
    pub fn with_queue_limit(mut self, limit: usize) -> Self {
        self.queue_limit = Some(limit.max(1));
        self
    }

    /// Refreshes again and again, each time after this interval and up to a fifth more, by chance, so that
    /// many workers don't refresh at once. A refresh that fails is logged, counted, and tried again next time.
    #[must_use]
    pub fn with_refresh_interval(mut self, interval: Duration) -> Self {
        self.refresh_interval = Some(interval);
        self
    }

    /// Looks at the canary again and again (see [`verify_canary`](crate::IptablesUpdater::verify_canary)), and refreshes
    /// at once when it is gone.
    #[must_use]
    pub fn with_canary_interval(mut self, interval: Duration) -> Self {
        self.canary_interval = Some(interval);
        self
    }

    /// Cleans up once, this long after the start: the time by which a restarted program has programmed
    /// everything. If that fails, it is tried again after the same time.
    #[must_use]
    pub fn with_cleanup_after(mut self, delay: Duration) -> Self {
        self.cleanup_after = Some(delay);
        self
    }
}
