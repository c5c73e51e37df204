//! The worker's thread: takes jobs, makes batches, keeps the times for refresh and cleanup.

use std::time::{Duration, Instant};

use log::{error, warn};
use rand::RngExt as _;

use super::WorkerConfig;
use super::queue::{Job, Queue, Waited};
use crate::{Error, Executor, IptablesUpdater, deadline};

/// Runs until the queue is closed and empty; gives the updater back.
pub(super) fn run<E: Executor>(
    mut updater: IptablesUpdater<E>,
    config: &WorkerConfig,
    queue: &Queue<E>,
) -> IptablesUpdater<E> {
    let watch = Watch(queue);
    let mut times = Times::new(config, Instant::now());
    let mut next_batch = Instant::now();
    loop {
        times.keep(&mut updater, Instant::now());
        match queue.wait(times.next()) {
            Waited::Closed => break,
            Waited::Time => continue,
            Waited::Job => {}
        }
        if queue.next_is_batchable() && Instant::now() < next_batch {
            queue.pause(next_batch);
        }
        let mut jobs = queue.take(config.max_batch_requests, config.max_batch_bytes);
        if let Some(Job::Alone(_)) = jobs.first() {
            for job in jobs.drain(..) {
                if let Job::Alone(work) = job {
                    work(&mut updater);
                }
            }
        } else {
            next_batch = deadline::from_now(config.batch_spacing);
            batch(&mut updater, jobs);
        }
    }
    std::mem::forget(watch);
    updater
}

/// Does requests together and answers each.
fn batch<E: Executor>(updater: &mut IptablesUpdater<E>, jobs: Vec<Job<E>>) {
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    for job in jobs {
        if let Job::Batchable(request, answer) = job {
            requests.push(request);
            answers.push(answer);
        }
    }
    let results = updater.apply(&requests);
    for (answer, result) in answers.into_iter().zip(results) {
        answer.give(result);
    }
}

/// Tells the queue when the thread dies of a panic.
struct Watch<'q, E>(&'q Queue<E>);

impl<E> Drop for Watch<'_, E> {
    fn drop(&mut self) {
        error!("the worker has died of a panic");
        self.0.die();
    }
}

/// When to refresh and clean up.
struct Times {
    refresh_interval: Option<Duration>,
    refresh: Option<Instant>,
    cleanup_delay: Option<Duration>,
    cleanup: Option<Instant>,
    canary_interval: Option<Duration>,
    canary: Option<Instant>,
}

impl Times {
    fn new(config: &WorkerConfig, now: Instant) -> Self {
        let mut times = Self {
            refresh_interval: config.refresh_interval,
            refresh: None,
            cleanup_delay: config.cleanup_after,
            cleanup: config
                .cleanup_after
                .map(|delay| deadline::after(now, delay)),
            canary_interval: config.canary_interval,
            // The first look puts it.
            canary: config.canary_interval.map(|_| now),
        };
        times.set_refresh(now);
        times
    }

    fn set_refresh(&mut self, now: Instant) {
        self.refresh = self.refresh_interval.map(|interval| {
            let jitter = interval.mul_f64(rand::rng().random_range(0.0..=0.2));
            deadline::after(now, interval.saturating_add(jitter))
        });
    }

    fn next(&self) -> Option<Instant> {
        let times = [self.refresh, self.cleanup, self.canary];
        times.into_iter().flatten().min()
    }

    /// Does what is due. A failure is for the log and the statistics.
    fn keep<E: Executor>(&mut self, updater: &mut IptablesUpdater<E>, now: Instant) {
        if self.cleanup.is_some_and(|due| due <= now) {
            let done = log_failure("cleanup", &updater.cleanup());
            let again = self.cleanup_delay.filter(|_| !done);
            self.cleanup = again.map(deadline::from_now);
        }
        let mut flushed = false;
        if self.canary.is_some_and(|due| due <= now) {
            let canary = updater.verify_canary();
            log_failure("look at the canary", &canary);
            flushed = matches!(canary, Ok(false));
            self.canary = self.canary_interval.map(deadline::from_now);
        }
        if flushed {
            warn!("the canary is gone: somebody has flushed the table, refreshing");
        }
        if flushed || self.refresh.is_some_and(|due| due <= now) {
            log_failure("refresh", &updater.refresh());
            self.set_refresh(Instant::now());
        }
    }
}

fn log_failure<T>(what: &str, result: &Result<T, Error>) -> bool {
    if let Err(error) = result {
        warn!("periodic {what} failed, it is tried again: {error}");
    }
    result.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshes_are_spread_over_a_fifth_of_the_interval() {
        let config = WorkerConfig::default().with_refresh_interval(Duration::from_secs(100));
        let now = Instant::now();
        let waits: Vec<_> = (0..200)
            .filter_map(|_| Some(Times::new(&config, now).next()? - now))
            .collect();
        assert_eq!(waits.len(), 200);
        assert!(
            waits
                .iter()
                .all(|w| (100.0..=120.0).contains(&w.as_secs_f64()))
        );
        let spread = waits
            .iter()
            .max()
            .unwrap()
            .saturating_sub(*waits.iter().min().unwrap());
        assert!(spread > Duration::from_secs(10), "{spread:?}");
    }
}
