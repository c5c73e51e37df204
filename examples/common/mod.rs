//! A throw-away network namespace for the examples, so that none can touch this machine's rules.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;

use iptables_updater::{Backend, CommandExecutor, ExecutorError, IpVersion};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// Moves this process into a new network namespace; without root, into a user namespace of its own too.
/// It must have no second thread yet.
pub fn enter_namespace() -> Result<(), Box<dyn Error>> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        unshare(CloneFlags::CLONE_NEWNET)?;
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("neither root nor allowed to make a user namespace: {error}"))?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    Ok(())
}

/// The iptables of this machine: of the back end given as the first argument (`nf_tables` or `legacy`),
/// or else whichever is the system's default.
pub fn executor(version: IpVersion) -> Result<CommandExecutor, Box<dyn Error>> {
    let mut builder = CommandExecutor::builder(version);
    match std::env::args().nth(1).as_deref() {
        Some("nf_tables") => builder = builder.backend(Backend::NfTables),
        Some("legacy") => builder = builder.backend(Backend::Legacy),
        Some(other) => {
            return Err(format!("no back end is called {other:?}: nf_tables or legacy").into());
        }
        None => {}
    }
    if fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open("/run/xtables.lock")
        .is_err()
    {
        // Not root: nobody else writes in this namespace, so any file will do as the lock.
        let lock = std::env::temp_dir().join(format!("quickstart-{}.lock", std::process::id()));
        builder = builder.env("XTABLES_LOCKFILE", lock);
    }
    Ok(builder.build()?)
}

/// What to do where there is no iptables, if that is what the error says.
pub fn how_to_install(error: &(dyn Error + 'static)) -> Option<&'static str> {
    match error.downcast_ref::<ExecutorError>()? {
        ExecutorError::NotFound { .. } => Some(
            "apt-get install iptables (Debian, Ubuntu), dnf install iptables-nft (Fedora), apk add iptables (Alpine)",
        ),
        ExecutorError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Some("run it as root")
        }
        _ => None,
    }
}
