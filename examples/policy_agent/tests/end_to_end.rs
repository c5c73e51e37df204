//! The agent at work: a real etcd, the real kernel, in a network namespace of the test's own. etcd restarts and compacts,
//! the agent is stopped and killed, and the table is as the policy wants it each time.
//!
//! Without root, etcd or iptables it reports itself as skipped; `IPTABLES_UPDATER_REQUIRE_KERNEL=1` makes that a failure.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const URL: &str = "http://127.0.0.1:2379";
const WEB: &str = "policy/profile/web/rules";

/// A child that is killed when the test is over.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).expect("a pid");
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }

    fn stop(mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("reaped");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_etcd(data: &Path) -> Running {
    let child = Command::new("etcd")
        .args(["--listen-client-urls", URL, "--advertise-client-urls", URL])
        .args(["--listen-peer-urls", "http://127.0.0.1:2380", "--data-dir"])
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd");
    let running = Running(child);
    until("etcd answers", || {
        post("/v3/kv/range", "{\"key\":\"AA==\"}").is_some()
    });
    running
}

fn start_agent(backend: &str) -> Running {
    let child = Command::new(env!("CARGO_BIN_EXE_policy_agent"))
        .args(["--host", "here", "--etcd", URL, "--backend", backend])
        .spawn()
        .expect("the agent");
    Running(child)
}

fn post(path: &str, body: &str) -> Option<String> {
    let answer = ureq::post(format!("{URL}{path}")).send(body).ok()?;
    answer.into_body().read_to_string().ok()
}

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(format!("/policy_agent/v1/{text}"))
}

fn put(key: &str, value: &str) -> String {
    let value = BASE64_STANDARD.encode(value);
    let body = format!("{{\"key\":\"{}\",\"value\":\"{value}\"}}", base64(key));
    post("/v3/kv/put", &body).expect("put")
}

fn delete(key: &str) {
    post(
        "/v3/kv/deleterange",
        &format!("{{\"key\":\"{}\"}}", base64(key)),
    )
    .expect("deleted");
}

fn endpoint(id: &str) -> String {
    format!("host/here/workload/test/{id}/endpoint/eth0")
}

/// A profile that lets these ports in.
fn ports(ports: &str) -> String {
    format!("{{\"inbound\":[{{\"action\":\"allow\",\"protocol\":\"tcp\",\"ports\":[{ports}]}}]}}")
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One back end's filter tables.
#[derive(Clone, Copy)]
struct Tables(&'static str);

impl Tables {
    fn programs(self) -> [String; 2] {
        let tool = if self.0 == "legacy" { "legacy" } else { "nft" };
        ["iptables", "ip6tables"].map(|family| format!("{family}-{tool}-save"))
    }

    /// The rules of the chain, in both tables; `None` if it isn't in both.
    fn rules(self, chain: &str) -> Option<String> {
        let tables = self.programs().map(|program| {
            let output = Command::new(program).args(["-t", "filter"]).output();
            let text = String::from_utf8(output.expect("iptables-save").stdout).expect("text");
            let there = text.contains(&format!("\n:{chain} "));
            let rules = text
                .lines()
                .filter(|line| line.starts_with(&format!("-A {chain} ")));
            there.then(|| rules.collect::<Vec<_>>().join("\n"))
        });
        let [v4, v6] = tables;
        Some(v4? + "\n" + &v6?)
    }

    fn shows(self, chain: &str, text: &str) {
        until(&format!("{chain} has {text}"), || {
            // In both tables.
            self.rules(chain)
                .is_some_and(|rules| rules.matches(text).count() >= 2)
        });
    }

    fn gone(self, chain: &str) {
        until(&format!("{chain} is gone"), || self.rules(chain).is_none());
    }
}

fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    let programs = ["etcd", "ip", "iptables-nft-save", "ip6tables-legacy-save"];
    let runs = |program: &&str| {
        let version = if *program == "ip" { "-V" } else { "--version" };
        let command = Command::new(program)
            .arg(version)
            .stdout(Stdio::null())
            .status();
        command.is_ok_and(|status| status.success())
    };
    let missing = programs.into_iter().find(|program| !runs(program))?;
    Some(format!("{missing} isn't there"))
}

fn in_namespace(test: &str, body: impl FnOnce() + Send) {
    if let Some(reason) = missing() {
        let required = std::env::var_os("IPTABLES_UPDATER_REQUIRE_KERNEL");
        assert!(required.is_none_or(|v| v != "1"), "{test} needs: {reason}");
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
        return;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("unshare");
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private /");
            mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).expect("own /run");
            let up = Command::new("ip")
                .args(["link", "set", "lo", "up"])
                .status();
            assert!(up.expect("ip").success());
            body();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn policy_follows_etcd_through_every_failure_on_nf_tables() {
    in_namespace(
        "policy_follows_etcd_through_every_failure_on_nf_tables",
        || {
            follows("nf_tables");
        },
    );
}

#[test]
fn policy_follows_etcd_through_every_failure_on_legacy() {
    in_namespace(
        "policy_follows_etcd_through_every_failure_on_legacy",
        || {
            follows("legacy");
        },
    );
}

fn follows(backend: &'static str) {
    let tables = Tables(backend);
    let data = tempfile::tempdir().expect("a folder");
    let etcd = start_etcd(data.path());
    put(WEB, &ports("80"));
    put(
        &endpoint("one"),
        "{\"interface\":\"cali1\",\"profiles\":[\"web\"]}",
    );
    put(
        "host/elsewhere/workload/x/x/endpoint/x",
        "{\"interface\":\"cali9\",\"profiles\":[]}",
    );
    let agent = start_agent(backend);
    tables.shows("pa-in-web", "80");
    tables.shows("FORWARD", "pa-forward");
    tables.shows("pa-to", "-o cali1 -g pa-to-");
    assert!(
        !tables
            .rules("pa-to")
            .expect("it is there")
            .contains("cali9")
    );

    // Changed, added, and a profile that can't be read: it fails closed, and hurts no other.
    put(WEB, &ports("80,443"));
    tables.shows("pa-in-web", "80,443");
    put(
        &endpoint("two"),
        "{\"interface\":\"cali2\",\"profiles\":[\"db\",\"web\"]}",
    );
    tables.shows("pa-in-db", "missing chain pa-in-db\" -j DROP");
    put("policy/profile/db/rules", &ports("5432"));
    tables.shows("pa-in-db", "5432");
    put(
        "policy/profile/db/rules",
        "{\"inbound\":[{\"action\":\"alow\"}]}",
    );
    tables.shows("pa-in-db", "missing chain pa-in-db\" -j DROP");
    // Nor does one that iptables refuses.
    put(
        "policy/profile/db/rules",
        "{\"inbound\":[{\"action\":\"allow\",\"protocol\":\"icmp\",\"ports\":[1]}]}",
    );
    put(WEB, &ports("8080"));
    tables.shows("pa-in-web", "8080");
    delete(&endpoint("two"));
    tables.gone("pa-in-db");

    // etcd dies: the chains stay. It comes back with another policy.
    etcd.stop();
    assert!(
        tables
            .rules("pa-in-web")
            .expect("it stays")
            .contains("8080")
    );
    let etcd = start_etcd(data.path());
    put(WEB, &ports("8081"));
    tables.shows("pa-in-web", "8081");

    // The agent sleeps while etcd forgets what it would have to be told.
    agent.signal(Signal::SIGSTOP);
    put(
        &endpoint("three"),
        "{\"interface\":\"cali3\",\"profiles\":[\"web\"]}",
    );
    let mut answer = String::new();
    for port in 9_000..9_010 {
        answer = put(WEB, &ports(&port.to_string()));
    }
    etcd.stop();
    let etcd = start_etcd(data.path());
    let revision = answer.split("\"revision\":\"").nth(1).expect("a revision");
    let revision = revision.split('"').next().expect("a number");
    let compacted = post(
        "/v3/kv/compaction",
        &format!("{{\"revision\":\"{revision}\"}}"),
    );
    compacted.expect("compacted");
    agent.signal(Signal::SIGCONT);
    tables.shows("pa-in-web", "9009");
    tables.shows("pa-to", "cali3");

    // The agent is killed, and policy changes meanwhile. Its chains stay in force until the next one has taken over.
    agent.stop();
    delete(&endpoint("three"));
    put(WEB, &ports("7000"));
    let agent = start_agent(backend);
    until("the new policy", || {
        let rules = tables.rules("pa-in-web").expect("it is never gone");
        assert!(rules.contains("9009") || rules.contains("7000"), "{rules}");
        rules.matches("7000").count() >= 2
    });
    until("what was left is gone", || {
        let rules = tables.rules("pa-to").expect("it is there");
        !rules.contains("cali3")
    });
    agent.stop();
    etcd.stop();
}
