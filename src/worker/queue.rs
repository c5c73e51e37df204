//! What is to be done, in the order in which it was asked for.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use super::ticket::Answer;
use crate::{IptablesUpdater, Request};

/// One thing to do.
pub(super) enum Job<E> {
    /// A request that may be done together with its neighbours.
    Batchable(Request, Answer<()>),
    /// Anything else: by itself, at its place in the order.
    Alone(Work<E>),
}

type Work<E> = Box<dyn FnOnce(&mut IptablesUpdater<E>) + Send>;

pub(super) struct Queue<E> {
    state: Mutex<State<E>>,
    /// Something was queued, or the queue was closed.
    filled: Condvar,
    /// There is room again, or the queue was closed.
    room: Condvar,
    limit: Option<usize>,
}

struct State<E> {
    jobs: VecDeque<Job<E>>,
    /// Nothing is let in any longer.
    closed: bool,
    worker: Option<ThreadId>,
}

impl<E> Queue<E> {
    pub(super) fn new(limit: Option<usize>) -> Self {
        Self {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                closed: false,
                worker: None,
            }),
            filled: Condvar::new(),
            room: Condvar::new(),
            limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_worker(&self, worker: ThreadId) {
        self.lock().worker = Some(worker);
    }

    /// Whether this is the worker's own thread: it can't wait for itself.
    pub(super) fn is_worker(&self) -> bool {
        self.lock().worker == Some(thread::current().id())
    }

    /// Queues a job; waits for room where there is a limit, unless the worker itself queues it. Where nothing is
    /// let in any longer, the job is dropped, and so answered.
    pub(super) fn push(&self, job: Job<E>) {
        let mut state = self.lock();
        let patient = state.worker != Some(thread::current().id());
        let full = |state: &State<E>| self.limit.is_some_and(|limit| state.jobs.len() >= limit);
        while patient && full(&state) && !state.closed {
            let room = self.room.wait(state);
            state = room.unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            // A callback may run here: not under the lock.
            drop(state);
            drop(job);
            return;
        }
        state.jobs.push_back(job);
        self.filled.notify_one();
    }

    /// Waits until there is something to do, the queue is closed, or the time has come.
    pub(super) fn wait(&self, until: Option<Instant>) -> Waited {
        self.wait_while(until, |state| state.jobs.is_empty())
    }

    /// Waits until the time has come or the queue is closed, whatever is queued meanwhile.
    pub(super) fn pause(&self, until: Instant) {
        self.wait_while(Some(until), |_| true);
    }

    fn wait_while(&self, until: Option<Instant>, idle: impl Fn(&State<E>) -> bool) -> Waited {
        let mut state = self.lock();
        loop {
            if state.closed {
                return if state.jobs.is_empty() {
                    Waited::Closed
                } else {
                    Waited::Job
                };
            }
            if !idle(&state) {
                return Waited::Job;
            }
            state = match until {
                None => {
                    let filled = self.filled.wait(state);
                    filled.unwrap_or_else(PoisonError::into_inner)
                }
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Waited::Time;
                    }
                    let filled = self.filled.wait_timeout(state, left);
                    filled.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Takes the next job, with all that may be done together with it.
    pub(super) fn take(&self, max_requests: usize, max_bytes: usize) -> Vec<Job<E>> {
        let mut state = self.lock();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while taken.len() < max_requests {
            let together = match state.jobs.front() {
                Some(Job::Batchable(request, _)) => {
                    bytes += request.bytes();
                    taken.is_empty() || bytes <= max_bytes
                }
                Some(Job::Alone(_)) => taken.is_empty(),
                None => false,
            };
            let Some(job) = together.then(|| state.jobs.pop_front()).flatten() else {
                break;
            };
            let alone = matches!(job, Job::Alone(_));
            taken.push(job);
            if alone {
                break;
            }
        }
        self.room.notify_all();
        taken
    }

    /// Whether the next job may be done together with others.
    pub(super) fn next_is_batchable(&self) -> bool {
        matches!(self.lock().jobs.front(), Some(Job::Batchable(..)))
    }

    /// Lets nothing more in. What is queued stays.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.room.notify_all();
    }

    /// The worker's thread has died: what is queued is dropped, and so answered.
    pub(super) fn die(&self) {
        let jobs = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.jobs)
        };
        self.filled.notify_all();
        self.room.notify_all();
        // Callbacks run here, without the lock.
        drop(jobs);
    }
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Job,
    Time,
    /// Closed, and nothing is left to do.
    Closed,
}
