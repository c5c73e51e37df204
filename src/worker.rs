//! A thread that drives an updater, for callers on many threads.
//!
//! Callers queue requests; whatever rewrites and deletions are pending become one batch, and so one commit.
//! One bad request doesn't spoil the others: see [`IptablesUpdater::apply`]. Everything else (hook rules,
//! refresh, cleanup, …) keeps its place in the order and runs by itself.
//!
//! ```no_run
//! use std::time::Duration;
//! use iptables_updater::worker::{self, WorkerConfig};
//! use iptables_updater::{Chain, CommandExecutor, IpVersion, IptablesUpdater, Table};
//!
//! # fn main() -> Result<(), iptables_updater::Error> {
//! let updater = IptablesUpdater::builder(Table::Filter)
//!     .chain_prefix("web-")
//!     .open(CommandExecutor::new(IpVersion::V4)?)?;
//! let config = WorkerConfig::default()
//!     .with_refresh_interval(Duration::from_secs(60))
//!     .with_cleanup_after(Duration::from_secs(10));
//! let handle = worker::spawn(updater, config);
//!
//! // From any thread: wait for it, or take a ticket and wait later, or have a callback called.
//! handle.rewrite_chains([Chain::new("web-a", ["-j ACCEPT"])?])?;
//! let ticket = handle.rewrite_chains_later([Chain::new("web-b", ["-j DROP"])?]);
//! handle.delete_chains_later(["web-old"]).on_done(|result| println!("deleted: {result:?}"));
//! ticket.wait()?;
//!
//! let updater = handle.shutdown()?; // does what is queued first
//! # Ok(())
//! # }
//! ```

mod config;
mod handle;
mod queue;
mod run;
mod ticket;

pub use config::WorkerConfig;
pub use handle::Handle;
pub use ticket::{Pending, Ticket};

use std::sync::Arc;
use std::thread;

use crate::{Executor, IptablesUpdater};
use queue::Queue;

/// Starts a thread that drives the updater. It stops when the last handle is dropped, after it has done what
/// is queued, or at [`Handle::shutdown`].
///
/// # Panics
/// The system can't start a thread.
pub fn spawn<E>(updater: IptablesUpdater<E>, config: WorkerConfig) -> Handle<E>
where
    E: Executor + Send + 'static,
{
    let queue = Arc::new(Queue::new(config.queue_limit));
    let thread = thread::spawn({
        let queue = Arc::clone(&queue);
        move || run::run(updater, &config, &queue)
    });
    queue.set_worker(thread.thread().id());
    Handle::new(queue, thread)
}
