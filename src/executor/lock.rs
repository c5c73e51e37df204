//! The xtables lock, taken by ourselves for versions of iptables-restore that don't take it.
//!
//! Legacy programs lock `/run/xtables.lock` with `flock(2)`. iptables-restore takes part in that since 1.6.2, with
//! `-w`; the versions before write without the lock, and so over what others write.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Outcome, deadline};

/// Where the lock is, unless `XTABLES_LOCKFILE` says otherwise.
pub(super) const DEFAULT_PATH: &str = "/run/xtables.lock";

/// The pauses between two tries: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(10));

/// Takes the lock, and holds it until the file is dropped.
///
/// # Errors
/// What iptables itself would have said: it is held by another program for that long, or the file can't be opened.
pub(super) fn take(path: &Path, wait: Duration) -> Result<File, Outcome> {
    let file = open(path).map_err(|error| unusable(path, &error))?;
    let deadline = deadline::from_now(wait);
    let mut pause = PAUSES.0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(unusable(path, &error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if Instant::now() >= deadline {
            return Err(held(path, wait));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Whether another program holds the lock at this instant.
pub(super) fn is_held(path: &Path) -> bool {
    let locked = open(path).map(|file| file.try_lock());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)
}

fn held(path: &Path, wait: Duration) -> Outcome {
    let text = format!(
        "Can't lock {}: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after {}s.\n",
        path.display(),
        wait.as_secs()
    );
    Outcome::failure(4, text)
}

fn unusable(path: &Path, error: &io::Error) -> Outcome {
    let text = format!("Fatal: can't open lock file {}: {error}\n", path.display());
    Outcome::failure(4, text)
}
