//! Several requests in one commit: the one at fault is found and takes the error, the others are applied.

use std::time::Instant;

use log::{debug, warn};

use super::{Changes, IptablesUpdater};
use crate::error::{Error, FailureClass};
use crate::{Executor, Request};

impl<E: Executor> IptablesUpdater<E> {
    /// Applies requests together, in one commit if all are sound; one result for each, in their order.
    ///
    /// They take effect in the order given: where two name the same chain, the later wins. A request
    /// succeeds or fails as a whole. If the commit fails, the request at fault is found by the line that iptables
    /// names, or that jumps to the chain that is missing, and the rest is committed again without it; where iptables
    /// names nothing to go by, the batch is halved, in order. What a request's result is doesn't depend on how
    /// the batch was split. What fails of a race for as long as the [`RetryPolicy`](crate::RetryPolicy) allows is tried
    /// once more in each part, and not as often again.
    ///
    /// ```no_run
    /// # use iptables_updater::{Chain, Error, Executor, IptablesUpdater, Request};
    /// # fn example(filter: &mut IptablesUpdater<impl Executor>) -> Result<(), Error> {
    /// let requests = [
    ///     Request::rewrite([Chain::new("web-input", ["-j web-tls"])?]),
    ///     Request::rewrite([Chain::new("web-bad", ["-m no-such-match"])?]),
    ///     Request::delete(["web-old"])?,
    /// ];
    /// let results = filter.apply(&requests);
    /// assert!(results[0].is_ok() && results[1].is_err() && results[2].is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "each request has a result of its own"]
    pub fn apply(&mut self, requests: &[Request]) -> Vec<Result<(), Error>> {
        let started = self.runner.clock.now();
        let retry = self.runner.retry.clone();
        let results = self.apply_parts(requests);
        self.runner.retry = retry;
        let failed = results.iter().filter(|result| result.is_err()).count();
        self.count_batch(requests.len(), failed, started);
        results
    }

    /// Applies one request by itself.
    pub(crate) fn apply_one(&mut self, request: &Request) -> Result<Changes, Error> {
        let started = self.runner.clock.now();
        let result = request
            .check(self.index.prefixes())
            .and_then(|()| self.commit(&[request]))
            .and_then(|mut committed| match committed.refused.pop() {
                Some((_, error)) => Err(error),
                None => Ok(committed.changes),
            });
        self.count_batch(1, usize::from(result.is_err()), started);
        result
    }

    fn count_batch(&mut self, requests: usize, failed: usize, started: Instant) {
        let time = self.runner.clock.now().saturating_duration_since(started);
        let stats = &mut self.runner.stats;
        stats.requests += requests as u64;
        stats.requests_failed += failed as u64;
        stats.batch_requests.add(requests as u64);
        stats.batch_time.add(time);
    }

    fn apply_parts(&mut self, requests: &[Request]) -> Vec<Result<(), Error>> {
        let prefixes = self.index.prefixes();
        let mut results: Vec<Result<(), Error>> = requests
            .iter()
            .map(|request| request.check(prefixes))
            .collect();
        let owned = (0..requests.len()).filter(|number| results[*number].is_ok());
        let mut groups = vec![owned.collect::<Vec<usize>>()];
        while let Some(mut group) = groups.pop() {
            if group.is_empty() {
                continue;
            }
            let batch: Vec<&Request> = group.iter().map(|number| &requests[*number]).collect();
            let error = match self.commit(&batch) {
                Ok(committed) => {
                    for (at, error) in committed.refused {
                        results[group[at]] = Err(error);
                    }
                    continue;
                }
                Err(error) => error,
            };
            if group.len() == 1 {
                results[group[0]] = Err(renumbered(error, group[0]));
            } else if let Some(at) = at_fault(&error) {
                let number = group.remove(at);
                debug!("request {number} is at fault: {error}");
                results[number] = Err(renumbered(error, number));
                self.runner.stats.splits += 1;
                groups.push(group);
            } else if concerns_all(&error) {
                for number in group {
                    results[number] = Err(error.clone());
                }
            } else {
                warn!(
                    "{}: a batch of {} requests failed, halving it: {error}",
                    self.runner.place(),
                    group.len()
                );
                let second = group.split_off(group.len() / 2);
                self.runner.stats.splits += 1;
                groups.extend([second, group]);
                if error.class() == Some(FailureClass::Race) {
                    // It has outlasted all tries once; each part again would be hours for a large batch.
                    self.runner.retry = self.runner.retry.clone().with_tries(1);
                }
            }
        }
        results
    }
}

/// Which request of the batch iptables points at, if that can be relied on.
fn at_fault(error: &Error) -> Option<usize> {
    let Error::Restore(error) = error else {
        return None;
    };
    match error.class {
        // The chain that closes a circle isn't the one that iptables names.
        FailureClass::TooManyLinks | FailureClass::Ambiguous => None,
        FailureClass::TargetAbsent => error.request,
        _ if error.cascade => None,
        _ => error.request,
    }
}

/// Whether any part of the batch would fail in the same way.
fn concerns_all(error: &Error) -> bool {
    match error {
        Error::Restore(error) => matches!(
            error.class,
            FailureClass::LockHeld
                | FailureClass::LockFile
                | FailureClass::NoPrivilege
                | FailureClass::NoTable
        ),
        Error::Executor(_) => true,
        _ => false,
    }
}

/// The number of a request is that in the whole batch, not in the part that was tried last.
fn renumbered(error: Error, number: usize) -> Error {
    match error {
        Error::Restore(mut error) => {
            if error.request.is_some() {
                error.request = Some(number);
            }
            Error::Restore(error)
        }
        error => error,
    }
}
