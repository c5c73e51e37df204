//! What the agent's chains let through: real packets between the host and a workload, on both back ends, IPv4 and IPv6.

#[allow(dead_code)]
mod bed;

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use bed::{Bed, WEB_CLOSED, WEB_OPEN, endpoint, profile_key};
use nix::sched::{CloneFlags, unshare};

const WORKLOAD: [&str; 2] = ["10.0.0.1", "2001:db8::1"];
const HOST: [&str; 2] = ["10.0.0.254", "2001:db8::254"];

#[test]
fn nf_tables() {
    bed::run("nf_tables", policy_decides);
}

#[test]
fn legacy() {
    bed::run("legacy", policy_decides);
}

fn policy_decides(bed: &mut Bed) {
    let (ask, answers) = workload();
    let listener = |address: &str| listen(address, 90);
    let _host = HOST.map(listener);
    let check = |what: &str, to_80: bool, to_443: bool, out: bool| {
        for address in WORKLOAD {
            assert_eq!(connects(address, 80), to_80, "{what}: {address}:80");
            assert_eq!(connects(address, 443), to_443, "{what}: {address}:443");
        }
        for address in HOST {
            ask.send(address).expect("the workload");
            assert_eq!(
                answers.recv().expect("the workload"),
                out,
                "{what}: to {address}"
            );
        }
    };
    check("without a policy", true, true, true);

    bed.start_etcd();
    bed.start_agent();
    bed.wait("hooks", &["-A OUTPUT -j pa-OUTPUT"], &[]);
    bed.wait_for_log("IPv6: first snapshot");
    check("an unknown workload", false, false, false);

    let (key, json) = endpoint("tap1");
    bed.put(&key, &json);
    bed.wait("a stub", &["missing chain pa-pi-web"], &[]);
    check("a missing profile", false, false, false);

    bed.put(&profile_key("web"), WEB_OPEN);
    bed.wait("the profile", &["--dports 80 "], &["missing chain"]);
    check("only 80 may come in", true, false, false);

    bed.put(&profile_key("web"), WEB_CLOSED);
    bed.wait("the profile", &["--dports 443 "], &["--dports 80 "]);
    check("only 443 may come in", false, true, false);

    bed.put(&profile_key("web"), r#"{"outbound":[{"action":"allow"}]}"#);
    bed.wait("the profile", &["-A pa-po-web -j MARK"], &["--dports 443 "]);
    check("all may go out", false, false, true);

    bed.put(
        &key,
        &json
            .replace("10.0.0.1/32", "10.0.0.2/32")
            .replace("db8::1/", "db8::2/"),
    );
    bed.wait(
        "other nets",
        &["-A pa-fe-tap1 -s "],
        &["10.0.0.1/32", "2001:db8::1/128"],
    );
    check("but not from a strange address", false, false, false);
}

/// A network namespace with `eth0`, whose other end is the host's `tap1`. It listens on ports 80 and 443, and tells
/// for each address it is asked about whether it reaches port 90 there.
fn workload() -> (Sender<&'static str>, Receiver<bool>) {
    ip("link add tap1 type veth peer name eth0");
    let (ask, asked) = channel::<&str>();
    let (answer, answers) = channel();
    let (tell, told) = channel();
    let (moved, is_moved) = channel();
    thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        tell.send(nix::unistd::gettid()).expect("the host");
        is_moved.recv().expect("the host");
        up("eth0", WORKLOAD);
        let _listeners = WORKLOAD.map(|address| [80, 443].map(|port| listen(address, port)));
        answer.send(true).expect("the host");
        while let Ok(address) = asked.recv() {
            if answer.send(connects(address, 90)).is_err() {
                break;
            }
        }
    });
    let id = told.recv().expect("the workload");
    ip(&format!("link set eth0 netns {id}"));
    up("tap1", HOST);
    moved.send(()).expect("the workload");
    assert!(answers.recv().expect("the workload"));
    (ask, answers)
}

fn up(interface: &str, [v4, v6]: [&str; 2]) {
    ip(&format!("addr add {v4}/24 dev {interface}"));
    ip(&format!("-6 addr add {v6}/64 dev {interface} nodad"));
    ip(&format!("link set {interface} up"));
}

fn ip(words: &str) {
    let output = Command::new("ip")
        .args(words.split(' '))
        .output()
        .expect("ip");
    assert!(output.status.success(), "ip {words}: {output:?}");
}

fn socket(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().expect("an address"), port)
}

fn listen(address: &str, port: u16) -> TcpListener {
    TcpListener::bind(socket(address, port)).expect("a listener")
}

/// Dropped packets show as silence, and a first packet of IPv6 may wait for its neighbour: so not at once.
fn connects(address: &str, port: u16) -> bool {
    TcpStream::connect_timeout(&socket(address, port), Duration::from_millis(700)).is_ok()
}
