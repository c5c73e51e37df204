//! Watches a host's policy in etcd and programs it into iptables.
//!
//! `policy_agent --host NAME [--etcd URL] [--backend nf_tables|legacy]`

use std::process::ExitCode;
use std::time::Duration;

use iptables_updater::Backend;
use log::{error, info, warn};
use policy_agent::agent::Agent;
use policy_agent::etcd::{Etcd, EtcdError};
use policy_agent::model::ROOT;

/// Between two tries to reach etcd: the first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

struct Arguments {
    host: String,
    etcd: String,
    backend: Option<Backend>,
}

fn arguments() -> Result<Arguments, String> {
    let mut host = None;
    let mut etcd = "http://127.0.0.1:2379".to_owned();
    let mut backend = None;
    let mut words = std::env::args().skip(1);
    while let Some(option) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{option} has no value"))?;
        match (option.as_str(), value.as_str()) {
            ("--host", _) => host = Some(value),
            ("--etcd", _) => etcd = value,
            ("--backend", "nf_tables") => backend = Some(Backend::NfTables),
            ("--backend", "legacy") => backend = Some(Backend::Legacy),
            _ => return Err(format!("what is {option} {value}?")),
        }
    }
    let host = host.ok_or("--host NAME is missing")?;
    Ok(Arguments {
        host,
        etcd,
        backend,
    })
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!(
                "policy_agent: {text}\nusage: policy_agent --host NAME [--etcd URL] [--backend nf_tables|legacy]"
            );
            return ExitCode::from(2);
        }
    };
    let mut agent = match Agent::open(&arguments.host, arguments.backend) {
        Ok(agent) => agent,
        Err(error) => {
            error!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let etcd = Etcd::new(&arguments.etcd);
    let mut pause = PAUSES.0;
    loop {
        let Err(error) = follow(&etcd, &mut agent, &mut pause) else {
            continue;
        };
        if matches!(error, EtcdError::Compacted) {
            info!("{error}; everything is read anew");
            continue;
        }
        // The chains stay as they are meanwhile.
        warn!("{error}; trying again in {pause:?}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Takes everything over, and then every change, until etcd fails.
fn follow(etcd: &Etcd, agent: &mut Agent, pause: &mut Duration) -> Result<(), EtcdError> {
    let (all, revision) = etcd.all(ROOT)?;
    *pause = PAUSES.0;
    info!("{} keys at revision {revision}", all.len());
    agent.snapshot(&all);
    etcd.watch(ROOT, revision + 1, |changes| agent.change(changes))
}
