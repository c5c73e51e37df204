//! A network policy agent: what etcd says of this host's workloads becomes iptables chains, and stays so.

mod compile;
mod etcd;
mod model;
mod program;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use iptables_updater::{Backend, CommandExecutor, IpVersion};
use log::{error, info, warn};

use etcd::{Client, Event};
use model::{Key, ROOT, State};
use program::Programmer;

const USAGE: &str =
    "policy_agent --etcd URL --host NAME [--interface-prefix TEXT] [--backend nf_tables|legacy]";

/// A connection that held this long was a good one: after it, waiting begins from the shortest again.
const GOOD: Duration = Duration::from_secs(5);
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Options {
    etcd: String,
    host: String,
    interface_prefix: String,
    backend: Option<Backend>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        etcd: "http://127.0.0.1:2379".to_owned(),
        host: String::new(),
        interface_prefix: "tap".to_owned(),
        backend: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--etcd" => options.etcd = value,
            "--host" => options.host = value,
            "--interface-prefix" => options.interface_prefix = value,
            "--backend" if value == "nf_tables" => options.backend = Some(Backend::NfTables),
            "--backend" if value == "legacy" => options.backend = Some(Backend::Legacy),
            _ => return Err(format!("{word} {value} isn't understood")),
        }
    }
    if options.host.is_empty() {
        return Err("--host is needed".to_owned());
    }
    // An empty one would drop the traffic of every interface there is.
    model::InterfaceName::try_from(options.interface_prefix.clone())?;
    Ok(options)
}

#[derive(Debug)]
struct Agent {
    options: Options,
    state: State,
    programmers: Vec<Programmer<CommandExecutor>>,
}

impl Agent {
    fn take(&mut self, event: Event) {
        let (Event::Put(key, _) | Event::Delete(key)) = &event;
        let text = key.clone();
        let Some(key) = Key::parse(&text, &self.options.host) else {
            return;
        };
        match event {
            Event::Delete(_) => self.state.delete(&key),
            Event::Put(_, json) => {
                let prefix = &self.options.interface_prefix;
                if let Err(why) = self.state.put(key, &json, prefix) {
                    warn!("{text}: not understood, counts as not there: {why}");
                }
            }
        }
    }

    fn program(&mut self) {
        for programmer in &mut self.programmers {
            let version = programmer.version;
            let prefix = &self.options.interface_prefix;
            programmer.program(&compile::compile(&self.state, version, prefix));
        }
    }

    /// Snapshot and watch until something breaks that only a new snapshot mends.
    fn follow(&mut self, client: &Client, wait: &mut Duration) -> etcd::Error {
        let snapshot = match client.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => return error,
        };
        let mut revision = snapshot.revision;
        info!(
            "snapshot: {} keys at revision {revision}",
            snapshot.pairs.len()
        );
        self.state = State::default();
        for (key, value) in snapshot.pairs {
            self.take(Event::Put(key, value));
        }
        self.program();
        loop {
            let started = Instant::now();
            let result = client.watch(&snapshot.cluster, &mut revision, |events| {
                for event in events {
                    self.take(event);
                }
                self.program();
            });
            if started.elapsed() >= GOOD {
                *wait = SHORTEST_WAIT;
            }
            match result {
                // What failed before is tried again.
                Ok(()) => self.program(),
                Err(error @ etcd::Error::Lost(_)) => return error,
                Err(error) => {
                    warn!("etcd: {error}: again from revision {revision} in {wait:?}");
                    pause(wait);
                }
            }
        }
    }
}

fn pause(wait: &mut Duration) {
    sleep(*wait);
    *wait = (*wait * 2).min(LONGEST_WAIT);
}

fn main() -> ExitCode {
    env_logger::Builder::new()
        .filter_level(log::LevelFilter::Info)
        .parse_default_env()
        .init();
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let versions = [IpVersion::V4, IpVersion::V6];
    let programmers = versions.map(|version| Programmer::open(version, options.backend));
    let programmers: Result<Vec<_>, _> = programmers.into_iter().collect();
    let programmers = match programmers {
        Ok(programmers) => programmers,
        Err(error) => {
            error!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let client = Client::new(&options.etcd, ROOT);
    let mut agent = Agent {
        options,
        state: State::default(),
        programmers,
    };
    let mut wait = SHORTEST_WAIT;
    loop {
        let why = agent.follow(&client, &mut wait);
        warn!("etcd: {why}: a new snapshot in {wait:?}");
        pause(&mut wait);
    }
}
