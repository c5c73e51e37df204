//! Where the examples run: iptables in a network namespace made for it, or else a simulated kernel. Neither can
//! touch this machine's rules.

// Each example uses its own part of this.
#![allow(dead_code)]

use std::error::Error;
use std::fs;

use iptables_updater::{
    Backend, CommandExecutor, Executor, ExecutorError, IpVersion, MemoryExecutor,
};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// iptables in a network namespace of this process's own; where that can't be had, the simulated kernel.
/// Says which it is in a line. `nf_tables` or `legacy` as the first argument chooses the back end, `simulated` the
/// simulated kernel.
///
/// The process must have no second thread yet.
pub fn executor(version: IpVersion) -> Result<AnyExecutor, Box<dyn Error>> {
    Ok(executors()?(version)?)
}

/// The same for several IP versions, in one network namespace.
pub fn executors()
-> Result<impl FnMut(IpVersion) -> Result<AnyExecutor, ExecutorError>, Box<dyn Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let mut words = words.iter().map(String::as_str);
    let (backend, simulated) = match words.find(|word| !word.starts_with("--")) {
        Some("nf_tables") => (Some(Backend::NfTables), false),
        Some("legacy") => (Some(Backend::Legacy), false),
        Some("simulated") => (None, true),
        Some(other) => {
            return Err(format!("{other:?} is none of nf_tables, legacy, simulated").into());
        }
        None => (None, false),
    };
    let real = if simulated {
        Err("it was asked for".to_owned())
    } else {
        enter_namespace()
            .map_err(|reason| format!("no network namespace can be made ({reason})"))
            .and_then(|()| real(IpVersion::V4, backend).map_err(|error| error.to_string()))
    };
    match &real {
        Ok(executor) => println!("On {executor}, in a network namespace of its own."),
        Err(reason) => {
            let backend = backend.unwrap_or(Backend::NfTables);
            println!("On a simulated kernel ({backend}), because: {reason}");
        }
    }
    Ok(move |version| -> Result<AnyExecutor, ExecutorError> {
        if real.is_ok() {
            return Ok(Box::new(self::real(version, backend)?));
        }
        let backend = backend.unwrap_or(Backend::NfTables);
        Ok(Box::new(MemoryExecutor::new(version, backend)))
    })
}

pub type AnyExecutor = Box<dyn Executor + Send>;

fn real(version: IpVersion, backend: Option<Backend>) -> Result<CommandExecutor, ExecutorError> {
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
    builder.build()
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
