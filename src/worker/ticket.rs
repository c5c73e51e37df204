//! The two ends of an answer: the worker's, and the caller's ticket.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::{error, warn};

use crate::{Error, NoAnswer, deadline};

type Callback<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// An answer that is still to come, or has come.
///
/// Dropped without having been looked at, it lets the request go on; if that fails, the error is logged at
/// `warn`.
#[must_use = "dropped, a ticket gives the result away: only an error is logged"]
pub struct Ticket<T> {
    slot: Arc<Slot<T>>,
}

/// The worker's end. Dropped without an answer, it answers that the worker is gone.
pub(super) struct Answer<T> {
    slot: Arc<Slot<T>>,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// What was asked for, for the log.
    what: &'static str,
}

enum State<T> {
    Waiting,
    Answered(Result<T, Error>),
    /// To be called with the answer.
    Called(Callback<T>),
    /// Nobody waits for it any longer.
    Abandoned,
    Collected,
}

/// The time was over before the answer came: it has the ticket, to wait again.
///
/// As long as it isn't dropped, the request's error isn't given away, see [`Ticket`].
#[must_use = "dropped, it gives the result away as its ticket does"]
pub struct Pending<T>(Ticket<T>);

impl<T> Pending<T> {
    /// The ticket, to wait again.
    pub fn into_ticket(self) -> Ticket<T> {
        self.0
    }
}

impl<T> fmt::Display for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no answer within the time", self.0.slot.what)
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            f.debug_tuple("Pending").field(&self.0).finish()
        } else {
            fmt::Display::fmt(self, f)
        }
    }
}

impl<T> std::error::Error for Pending<T> {}

pub(super) fn pair<T>(what: &'static str) -> (Answer<T>, Ticket<T>) {
    let slot = Arc::new(Slot {
        state: Mutex::new(State::Waiting),
        changed: Condvar::new(),
        what,
    });
    let answer = Answer {
        slot: Arc::clone(&slot),
    };
    (answer, Ticket { slot })
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No state is half-written when a callback panics: it runs without the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uncollected(&self, error: &Error) {
        warn!("{}: nobody collected this error: {error}", self.what);
    }
}

impl<T> Ticket<T> {
    /// An answer that was known at once.
    pub(super) fn answered(what: &'static str, result: Result<T, Error>) -> Self {
        let (answer, ticket) = pair(what);
        answer.give(result);
        ticket
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// That of the request, or [`Error::WorkerGone`].
    pub fn wait(self) -> Result<T, Error> {
        let mut state = self.slot.lock();
        loop {
            match std::mem::replace(&mut *state, State::Collected) {
                State::Answered(result) => return result,
                other => *state = other,
            }
            let changed = self.slot.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the answer, but not longer than this.
    ///
    /// # Errors
    /// [`Pending`] gives the ticket back where the time was over first.
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<T, Error>, Pending<T>> {
        let deadline = deadline::from_now(limit);
        let mut state = self.slot.lock();
        loop {
            match std::mem::replace(&mut *state, State::Collected) {
                State::Answered(result) => return Ok(result),
                other => *state = other,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return Err(Pending(self));
            }
            let changed = self.slot.changed.wait_timeout(state, left);
            state = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the answer has come.
    pub fn is_answered(&self) -> bool {
        matches!(*self.slot.lock(), State::Answered(_))
    }

    /// Has the callback called with the answer: on the worker's thread, which waits for it to return, or
    /// at once on this one where the answer has come already.
    ///
    /// A callback may queue further requests, but it mustn't wait for one: that is refused, see
    /// [`Error::WorkerGone`]. If it panics, that is logged, and the worker goes on.
    pub fn on_done(self, callback: impl FnOnce(Result<T, Error>) + Send + 'static) {
        let mut state = self.slot.lock();
        match std::mem::replace(&mut *state, State::Collected) {
            State::Answered(result) => {
                drop(state);
                callback(result);
            }
            _ => *state = State::Called(Box::new(callback)),
        }
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        let mut state = self.slot.lock();
        match &*state {
            State::Waiting => *state = State::Abandoned,
            State::Answered(Err(error)) => self.slot.uncollected(error),
            _ => {}
        }
    }
}

impl<T> Answer<T> {
    /// Answers, and calls the callback if there is one.
    pub(super) fn give(self, result: Result<T, Error>) {
        self.put(result);
    }

    fn put(&self, result: Result<T, Error>) {
        let mut state = self.slot.lock();
        match std::mem::replace(&mut *state, State::Collected) {
            State::Waiting => {
                *state = State::Answered(result);
                self.slot.changed.notify_all();
            }
            State::Called(callback) => {
                drop(state);
                if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
                    error!("{}: the callback panicked", self.slot.what);
                }
            }
            State::Abandoned => {
                if let Err(error) = &result {
                    self.slot.uncollected(error);
                }
            }
            other @ (State::Answered(_) | State::Collected) => *state = other,
        }
    }

    fn is_given(&self) -> bool {
        matches!(*self.slot.lock(), State::Answered(_) | State::Collected)
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if !self.is_given() {
            self.put(Err(Error::WorkerGone {
                reason: NoAnswer::Gone,
            }));
        }
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("what", &self.slot.what)
            .field("answered", &self.is_answered())
            .finish()
    }
}
