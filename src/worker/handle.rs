//! What callers hold: queues requests from any thread.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::queue::{Job, Queue};
use super::ticket::{Ticket, pair};
use crate::chain::rules_for;
use crate::error::{ChainNameError, Error};
use crate::updater::{Wanted, read_hook};
use crate::{
    Chain, ChainName, Changes, CleanupReport, Drift, Executor, HookChain, IntoRule,
    IptablesUpdater, NoAnswer, Request, Rule, Stats,
};

/// A caller's end of a worker. Clones are further ends of the same one; the worker stops when the last
/// is dropped, after it has done what is queued.
///
/// Each call has two forms: one that waits for the answer, and one, `…_later`, that gives a [`Ticket`] to wait
/// on, or to hang a callback on. Names and rules are checked at the call: what is wrong is answered at once, and
/// nothing is queued. Everything takes effect in the order in which it was queued.
pub struct Handle<E> {
    shared: Arc<Shared<E>>,
}

struct Shared<E> {
    queue: Arc<Queue<E>>,
    thread: Mutex<Option<JoinHandle<IptablesUpdater<E>>>>,
}

impl<E> Drop for Shared<E> {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl<E> Clone for Handle<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<E> fmt::Debug for Handle<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl<E: Executor + Send + 'static> Handle<E> {
    pub(super) fn new(queue: Arc<Queue<E>>, thread: JoinHandle<IptablesUpdater<E>>) -> Self {
        let thread = Mutex::new(Some(thread));
        Self {
            shared: Arc::new(Shared { queue, thread }),
        }
    }

    /// Applies a request, together with others that are queued.
    ///
    /// # Errors
    /// As [`IptablesUpdater::apply`] answers for it; [`Error::WorkerGone`].
    pub fn request(&self, request: Request) -> Result<(), Error> {
        self.wait(self.request_later(request))
    }

    /// The same, to be waited for later.
    pub fn request_later(&self, request: Request) -> Ticket<()> {
        let (answer, ticket) = pair("request");
        self.shared.queue.push(Job::Batchable(request, answer));
        ticket
    }

    /// As [`IptablesUpdater::rewrite_chains`], together with other requests that are queued.
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn rewrite_chains(&self, chains: impl IntoIterator<Item = Chain>) -> Result<(), Error> {
        self.request(Request::rewrite(chains))
    }

    /// The same, to be waited for later.
    pub fn rewrite_chains_later(&self, chains: impl IntoIterator<Item = Chain>) -> Ticket<()> {
        self.request_later(Request::rewrite(chains))
    }

    /// As [`IptablesUpdater::delete_chains`], together with other requests that are queued.
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn delete_chains<I>(&self, chains: I) -> Result<(), Error>
    where
        I: IntoIterator,
        I::Item: TryInto<ChainName>,
        ChainNameError: From<<I::Item as TryInto<ChainName>>::Error>,
    {
        self.wait(self.delete_chains_later(chains))
    }

    /// The same, to be waited for later.
    pub fn delete_chains_later<I>(&self, chains: I) -> Ticket<()>
    where
        I: IntoIterator,
        I::Item: TryInto<ChainName>,
        ChainNameError: From<<I::Item as TryInto<ChainName>>::Error>,
    {
        match Request::delete(chains) {
            Ok(request) => self.request_later(request),
            Err(error) => Ticket::answered("delete_chains", Err(error.into())),
        }
    }

    /// As [`IptablesUpdater::ensure_rule_inserted`].
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn ensure_rule_inserted<C>(&self, chain: C, rule: impl IntoRule) -> Result<(), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.wait(self.ensure_rule_inserted_later(chain, rule))
    }

    /// The same, to be waited for later.
    pub fn ensure_rule_inserted_later<C>(&self, chain: C, rule: impl IntoRule) -> Ticket<()>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.hook("ensure_rule_inserted", chain, rule, Wanted::Inserted)
    }

    /// As [`IptablesUpdater::ensure_rule_appended`].
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn ensure_rule_appended<C>(&self, chain: C, rule: impl IntoRule) -> Result<(), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.wait(self.ensure_rule_appended_later(chain, rule))
    }

    /// The same, to be waited for later.
    pub fn ensure_rule_appended_later<C>(&self, chain: C, rule: impl IntoRule) -> Ticket<()>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.hook("ensure_rule_appended", chain, rule, Wanted::Appended)
    }

    /// As [`IptablesUpdater::ensure_rule_removed`].
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn ensure_rule_removed<C>(&self, chain: C, rule: impl IntoRule) -> Result<(), Error>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.wait(self.ensure_rule_removed_later(chain, rule))
    }

    /// The same, to be waited for later.
    pub fn ensure_rule_removed_later<C>(&self, chain: C, rule: impl IntoRule) -> Ticket<()>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        self.hook("ensure_rule_removed", chain, rule, Wanted::Removed)
    }

    /// As [`IptablesUpdater::set_missing_chain_override`].
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn set_missing_chain_override<N, R>(&self, chain: N, rules: R) -> Result<(), Error>
    where
        N: TryInto<ChainName>,
        ChainNameError: From<N::Error>,
        R: IntoIterator,
        R::Item: IntoRule,
    {
        self.wait(self.set_missing_chain_override_later(chain, rules))
    }

    /// The same, to be waited for later.
    pub fn set_missing_chain_override_later<N, R>(&self, chain: N, rules: R) -> Ticket<()>
    where
        N: TryInto<ChainName>,
        ChainNameError: From<N::Error>,
        R: IntoIterator,
        R::Item: IntoRule,
    {
        let read = || -> Result<(ChainName, Vec<Rule>), Error> {
            let chain = chain.try_into().map_err(ChainNameError::from)?;
            let rules = rules_for(chain.as_str(), rules)?;
            Ok((chain, rules))
        };
        match read() {
            Ok((chain, rules)) => self.alone("set_missing_chain_override", |updater| {
                overridden(updater, chain, rules)
            }),
            Err(error) => Ticket::answered("set_missing_chain_override", Err(error)),
        }
    }

    /// As [`IptablesUpdater::refresh`].
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn refresh(&self) -> Result<Drift, Error> {
        self.wait(self.refresh_later())
    }

    /// The same, to be waited for later.
    pub fn refresh_later(&self) -> Ticket<Drift> {
        self.alone("refresh", IptablesUpdater::refresh)
    }

    /// As [`IptablesUpdater::refresh_all`].
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn refresh_all(&self) -> Result<Changes, Error> {
        self.wait(self.refresh_all_later())
    }

    /// The same, to be waited for later.
    pub fn refresh_all_later(&self) -> Ticket<Changes> {
        self.alone("refresh_all", IptablesUpdater::refresh_all)
    }

    /// As [`IptablesUpdater::verify`].
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn verify(&self) -> Result<Drift, Error> {
        self.wait(self.verify_later())
    }

    /// The same, to be waited for later.
    pub fn verify_later(&self) -> Ticket<Drift> {
        self.alone("verify", IptablesUpdater::verify)
    }

    /// As [`IptablesUpdater::cleanup`].
    ///
    /// # Errors
    /// Those of that call; [`Error::WorkerGone`].
    pub fn cleanup(&self) -> Result<CleanupReport, Error> {
        self.wait(self.cleanup_later())
    }

    /// The same, to be waited for later.
    pub fn cleanup_later(&self) -> Ticket<CleanupReport> {
        self.alone("cleanup", IptablesUpdater::cleanup)
    }

    /// What the updater has done when the worker comes to this call.
    ///
    /// # Errors
    /// [`Error::WorkerGone`].
    pub fn stats(&self) -> Result<Stats, Error> {
        self.wait(self.stats_later())
    }

    /// The same, to be waited for later.
    pub fn stats_later(&self) -> Ticket<Stats> {
        self.alone("stats", |updater| Ok(updater.stats()))
    }

    /// Has the worker do anything with its updater, at its place in the order.
    ///
    /// # Errors
    /// Those of the work; [`Error::WorkerGone`].
    pub fn call<T, W>(&self, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: FnOnce(&mut IptablesUpdater<E>) -> Result<T, Error> + Send + 'static,
    {
        self.wait(self.call_later(work))
    }

    /// The same, to be waited for later.
    pub fn call_later<T, W>(&self, work: W) -> Ticket<T>
    where
        T: Send + 'static,
        W: FnOnce(&mut IptablesUpdater<E>) -> Result<T, Error> + Send + 'static,
    {
        self.alone("call", work)
    }

    /// Lets nothing more in, waits until what is queued is done, and gives the updater back. Other handles
    /// get [`Error::WorkerGone`] from then on.
    ///
    /// # Errors
    /// [`Error::WorkerGone`]: the worker died of a panic, or another handle has shut it down.
    pub fn shutdown(self) -> Result<IptablesUpdater<E>, Error> {
        if self.shared.queue.is_worker() {
            return Err(on_itself());
        }
        self.shared.queue.close();
        let thread = self.shared.thread.lock();
        let thread = thread.unwrap_or_else(PoisonError::into_inner).take();
        let thread = thread.ok_or(Error::WorkerGone {
            reason: NoAnswer::ShutDown,
        })?;
        thread.join().map_err(|_| Error::WorkerGone {
            reason: NoAnswer::Panicked,
        })
    }

    fn hook<C>(
        &self,
        what: &'static str,
        chain: C,
        rule: impl IntoRule,
        wanted: Wanted,
    ) -> Ticket<()>
    where
        C: TryInto<HookChain>,
        ChainNameError: From<C::Error>,
    {
        match read_hook(chain, rule) {
            Ok((chain, rule)) => self.alone(what, move |updater| {
                updater.ensure_hook(chain, rule, wanted)
            }),
            Err(error) => Ticket::answered(what, Err(error)),
        }
    }

    fn alone<T, W>(&self, what: &'static str, work: W) -> Ticket<T>
    where
        T: Send + 'static,
        W: FnOnce(&mut IptablesUpdater<E>) -> Result<T, Error> + Send + 'static,
    {
        let (answer, ticket) = pair(what);
        let job = Job::Alone(Box::new(move |updater: &mut IptablesUpdater<E>| {
            let result = work(updater);
            answer.give(result);
        }));
        self.shared.queue.push(job);
        ticket
    }

    fn wait<T>(&self, ticket: Ticket<T>) -> Result<T, Error> {
        if self.shared.queue.is_worker() && !ticket.is_answered() {
            return Err(on_itself());
        }
        ticket.wait()
    }
}

// Outside of the generic call: there, the compiler takes every conversion for the caller's.

fn overridden<E: Executor>(
    updater: &mut IptablesUpdater<E>,
    chain: ChainName,
    rules: Vec<Rule>,
) -> Result<(), Error> {
    updater.set_missing_chain_override(chain, rules)
}

fn on_itself() -> Error {
    Error::WorkerGone {
        reason: NoAnswer::WaitsForItself,
    }
}
