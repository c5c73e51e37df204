//! Where the examples run: iptables in a network namespace made for it, or else a simulated kernel. Neither can
//! touch this machine's rules.

use std::error::Error;
use std::fs;

use iptables_updater::{Backend, CommandExecutor, Executor, IpVersion, MemoryExecutor};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// iptables in a network namespace of this process's own; where that can't be had, the simulated kernel.
/// Says which it is in a line. `nf_tables` or `legacy` as the first argument chooses the back end.
///
/// The process must have no second thread yet.
pub fn executor(version: IpVersion) -> Result<Box<dyn Executor + Send>, Box<dyn Error>> {
    let backend = match std::env::args().nth(1).as_deref() {
        Some("nf_tables") => Some(Backend::NfTables),
        Some("legacy") => Some(Backend::Legacy),
        Some(other) => return Err(format!("{other:?} is no back end: nf_tables or legacy").into()),
        None => None,
    };
    match real(version, backend) {
        Ok(executor) => {
            println!("On {executor}, in a network namespace of its own.");
            Ok(Box::new(executor))
        }
        Err(reason) => {
            let backend = backend.unwrap_or(Backend::NfTables);
            println!("On a simulated kernel ({backend}, {version}), because: {reason}");
            Ok(Box::new(MemoryExecutor::new(version, backend)))
        }
    }
}

fn real(version: IpVersion, backend: Option<Backend>) -> Result<CommandExecutor, Box<dyn Error>> {
    enter_namespace().map_err(|reason| format!("no network namespace can be made ({reason})"))?;
    let mut builder = CommandExecutor::builder(version);
    if let Some(backend) = backend {
        builder = builder.backend(backend);
    }
    let lock = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open("/run/xtables.lock");
    if lock.is_err() {
        // Not root: nobody else writes in this namespace, so any file will do as the lock.
        let name = format!("xtables-{}.lock", std::process::id());
        builder = builder.env("XTABLES_LOCKFILE", std::env::temp_dir().join(name));
    }
    Ok(builder.build()?)
}

/// Moves this process into a new network namespace; without root, into a user namespace of its own too.
fn enter_namespace() -> Result<(), Box<dyn Error>> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        unshare(CloneFlags::CLONE_NEWNET)?;
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    Ok(())
}
