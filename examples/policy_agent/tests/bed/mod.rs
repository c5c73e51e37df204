//! etcd, the agent and iptables in one network namespace, and what a test asks of them.

mod table;

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use table::{TOOLS, Watcher, save, short, wrong};

pub const WEB_OPEN: &str = r#"{"inbound":[{"action":"allow","protocol":"tcp","ports":[80]}]}"#;
pub const WEB_CLOSED: &str = r#"{"inbound":[{"action":"allow","protocol":"tcp","ports":[443]}]}"#;

const URL: &str = "http://127.0.0.1:2379";
const LIMIT: Duration = Duration::from_secs(40);

/// The key and JSON of a good endpoint with this interface.
pub fn endpoint(interface: &str) -> (String, String) {
    (
        format!("/policy_agent/v1/host/h1/workload/test/web/endpoint/{interface}"),
        format!(
            r#"{{"interface":"{interface}","nets":["10.0.0.1/32","2001:db8::1/128"],"profiles":["web"]}}"#
        ),
    )
}

pub fn profile_key(id: &str) -> String {
    format!("/policy_agent/v1/policy/profile/{id}/rules")
}

pub struct Bed {
    backend: &'static str,
    dir: tempfile::TempDir,
    etcd: Option<Child>,
    agent: Option<Child>,
    agents: u32,
}

impl Drop for Bed {
    fn drop(&mut self) {
        stop(&mut self.agent);
        stop(&mut self.etcd);
        if thread::panicking() {
            eprintln!("--- {}: the agent's log\n{}", self.backend, self.log());
            for tool in TOOLS {
                eprintln!("--- {tool}\n{}", save(tool, self.backend));
            }
        }
    }
}

/// Runs a test body in a network namespace of its own, or says by name that it was skipped.
pub fn run(backend: &'static str, body: fn(&mut Bed)) {
    if let Some(reason) = missing(backend) {
        let required =
            std::env::var_os("IPTABLES_UPDATER_REQUIRE_KERNEL").is_some_and(|v| v == "1");
        assert!(!required, "end_to_end::{backend}: {reason}");
        eprintln!("skipped: end_to_end::{backend}: {reason}");
        return;
    }
    // Only this thread, and what it starts, leaves the machine's namespace.
    let test = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        let lo = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(lo.expect("ip").success());
        let dir = tempfile::tempdir().expect("a directory");
        body(&mut Bed {
            backend,
            dir,
            etcd: None,
            agent: None,
            agents: 0,
        });
    });
    if let Err(panic) = test.join() {
        std::panic::resume_unwind(panic);
    }
}

fn missing(backend: &str) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    let short = short(backend);
    let tools = TOOLS.map(|tool| format!("{tool}-{short}-save"));
    let others = ["etcd", "ip"].map(str::to_owned);
    tools.into_iter().chain(others).find_map(|program| {
        let flag = if program == "ip" { "-V" } else { "--version" };
        let run = Command::new(&program)
            .arg(flag)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        (!run.is_ok_and(|status| status.success())).then(|| format!("{program} isn't there"))
    })
}

fn stop(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}

fn eventually(what: &str, mut wrong: impl FnMut() -> Vec<String>) {
    let started = Instant::now();
    loop {
        let found = wrong();
        if found.is_empty() {
            return;
        }
        assert!(started.elapsed() < LIMIT, "{what}: {found:#?}");
        sleep(Duration::from_millis(50));
    }
}

fn ask(path: &str, body: &Value) -> Result<Value, ureq::Error> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(10)))
        .proxy(None);
    let agent: ureq::Agent = config.build().into();
    let answer = agent.post(format!("{URL}{path}")).send(body.to_string());
    let text = answer?.into_body().read_to_string()?;
    Ok(serde_json::from_str(&text).expect("JSON"))
}

// Who asks etcd has a bed, so there is an etcd, even where the call needs nothing of it.
#[allow(clippy::unused_self)]
impl Bed {
    pub fn start_etcd(&mut self) {
        let log = File::create(self.dir.path().join("etcd.log")).expect("a log");
        let peers = "http://127.0.0.1:2380";
        let mut etcd = Command::new("etcd");
        etcd.arg("--data-dir").arg(self.dir.path().join("etcd"));
        etcd.args(["--listen-client-urls", URL, "--advertise-client-urls", URL]);
        etcd.args([
            "--listen-peer-urls",
            peers,
            "--initial-advertise-peer-urls",
            peers,
        ]);
        etcd.args(["--initial-cluster", &format!("default={peers}")]);
        let etcd = etcd.stdout(Stdio::null()).stderr(log).spawn();
        self.etcd = Some(etcd.expect("etcd"));
        eventually("etcd answers", || {
            let answer = ask(
                "/v3/kv/range",
                &json!({ "key": BASE64_STANDARD.encode("x") }),
            );
            answer
                .err()
                .map(|error| error.to_string())
                .into_iter()
                .collect()
        });
    }

    /// With SIGKILL, and not returning before nobody listens.
    pub fn kill_etcd(&mut self) {
        stop(&mut self.etcd);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 2379));
        std::net::TcpStream::connect(address).expect_err("etcd still listens");
    }

    pub fn forget_etcd_data(&self) {
        fs::remove_dir_all(self.dir.path().join("etcd")).expect("data to forget");
    }

    pub fn start_agent(&mut self) {
        self.agents += 1;
        let log = File::create(self.log_path()).expect("a log");
        let agent = Command::new(env!("CARGO_BIN_EXE_policy_agent"))
            .args(["--etcd", URL, "--host", "h1", "--backend", self.backend])
            .env("RUST_LOG", "info")
            .stderr(log)
            .spawn();
        self.agent = Some(agent.expect("the agent"));
    }

    pub fn kill_agent(&mut self) {
        stop(&mut self.agent);
    }

    pub fn signal_agent(&self, signal: Signal) {
        let id = self.agent.as_ref().expect("an agent").id();
        kill(Pid::from_raw(id.cast_signed()), signal).expect("kill");
    }

    pub fn put(&self, key: &str, value: &str) {
        let pair =
            json!({ "key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(value) });
        ask("/v3/kv/put", &pair).expect("put");
    }

    pub fn delete(&self, key: &str) {
        let answer = ask(
            "/v3/kv/deleterange",
            &json!({ "key": BASE64_STANDARD.encode(key) }),
        );
        assert_eq!(answer.expect("delete")["deleted"], "1", "{key}");
    }

    /// Forgets every revision but the newest.
    pub fn compact(&self) {
        let answer = ask(
            "/v3/kv/range",
            &json!({ "key": BASE64_STANDARD.encode("x") }),
        );
        let revision = &answer.expect("range")["header"]["revision"];
        let request = json!({ "revision": revision, "physical": true });
        ask("/v3/kv/compaction", &request).expect("compaction");
    }

    /// Waits until both tables hold the one and not the other.
    pub fn wait(&self, what: &str, present: &[&str], absent: &[&str]) {
        eventually(what, || wrong(self.backend, present, absent));
    }

    /// The same without waiting.
    pub fn check(&self, what: &str, present: &[&str], absent: &[&str]) {
        assert_eq!(wrong(self.backend, present, absent), [""; 0], "{what}");
    }

    pub fn check_versions(&self, v4: &str, v6: &str) {
        for (tool, own, other) in [(TOOLS[0], v4, v6), (TOOLS[1], v6, v4)] {
            let table = save(tool, self.backend);
            assert!(
                table.contains(own) && !table.contains(other),
                "{tool}:\n{table}"
            );
        }
    }

    pub fn check_once(&self, rule: &str) {
        for tool in TOOLS {
            assert_eq!(
                save(tool, self.backend).matches(rule).count(),
                1,
                "{tool}: {rule}"
            );
        }
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join(format!("agent{}.log", self.agents))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub fn count_in_log(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    pub fn wait_for_log(&self, text: &str) {
        eventually("the log", || {
            let missing = self.count_in_log(text) == 0;
            missing.then(|| text.to_owned()).into_iter().collect()
        });
    }

    /// Looks at the tables again and again until it is stopped.
    pub fn watch_that_stays(&self, present: &'static [&'static str]) -> Watcher {
        Watcher::start(self.backend, present)
    }
}
