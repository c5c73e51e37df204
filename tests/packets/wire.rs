//! Two network namespaces joined by a veth pair: the calling thread's, which has the firewall, and a peer's.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::mpsc;

use iptables_updater::IpVersion;

use crate::common::in_namespace;

/// The two ends' addresses.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// Of the end behind the firewall.
    firewall: IpAddr,
    peer: IpAddr,
}

impl Wire {
    /// A port behind the firewall.
    pub fn at(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.firewall, port)
    }

    /// Any free port of the peer.
    pub fn peers_end(self) -> SocketAddr {
        SocketAddr::new(self.peer, 0)
    }
}

/// Runs `here` in the calling thread's namespace, which must be one of its own already, and `there` in the peer's, at
/// the same time. Threads that they start inherit the namespaces.
pub fn joined<T, P: Send>(
    version: IpVersion,
    here: impl FnOnce(Wire) -> T,
    there: impl FnOnce(Wire) -> P + Send,
) -> (T, P) {
    let wire = match version {
        IpVersion::V4 => Wire {
            firewall: [10, 77, 0, 1].into(),
            peer: [10, 77, 0, 2].into(),
        },
        IpVersion::V6 => Wire {
            firewall: [0xfd77, 0, 0, 0, 0, 0, 0, 1].into(),
            peer: [0xfd77, 0, 0, 0, 0, 0, 0, 2].into(),
        },
    };
    let (tell, told) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    // It owns the channels' ends, so that a panic at one end reaches the other.
    std::thread::scope(move |scope| {
        let peer = scope.spawn(move || {
            in_namespace(move || {
                // PID/task/TID: the namespace is this thread's, not the process's.
                let thread = std::fs::read_link("/proc/thread-self").expect("thread-self");
                tell.send(format!("/proc/{}/ns/net", thread.display()))
                    .expect("tell");
                gone.recv().expect("the other end");
                up("peer0", wire.peer);
                there(wire)
            })
        });
        let namespace = told.recv().expect("the peer's namespace");
        ip("link add fire0 type veth peer name peer0");
        ip(&format!("link set peer0 netns {namespace}"));
        up("fire0", wire.firewall);
        go.send(()).expect("the peer");
        let here = here(wire);
        let there = peer.join();
        (
            here,
            there.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })
}

fn up(device: &str, address: IpAddr) {
    ip("link set lo up");
    ip(&match address {
        IpAddr::V4(address) => format!("addr add {address}/24 dev {device}"),
        // Without duplicate address detection, so that it can be used at once.
        IpAddr::V6(address) => format!("addr add {address}/64 dev {device} nodad"),
    });
    ip(&format!("link set {device} up"));
}

fn ip(words: &str) {
    let output = Command::new("ip")
        .args(words.split(' '))
        .output()
        .expect("ip");
    assert!(output.status.success(), "ip {words}: {output:?}");
}

/// Whether iproute2 is there.
pub fn has_ip() -> bool {
    Command::new("ip")
        .arg("-V")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// What the calling thread's namespace has lost elsewhere than in a firewall: full socket buffers, and the devices' drops.
pub fn lost_elsewhere() -> u64 {
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default()
    };
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let mut lost = 0;
    // A line of names, and one of values.
    let snmp = read("snmp");
    let lines: Vec<Vec<&str>> = snmp
        .lines()
        .filter(|line| line.starts_with("Udp:"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let at = lines[0].iter().position(|name| *name == "RcvbufErrors");
    lost += number(lines[1][at.expect("RcvbufErrors")]);
    lost += read("snmp6")
        .lines()
        .filter_map(|line| line.strip_prefix("Udp6RcvbufErrors"))
        .map(|value| number(value.trim()))
        .sum::<u64>();
    // Name: eight numbers received, of which the fourth is drops, and eight sent, likewise.
    for line in read("dev").lines() {
        if let Some((name, numbers)) = line.split_once(':')
            && name.trim().ends_with('0')
        {
            let numbers: Vec<_> = numbers.split_whitespace().map(number).collect();
            lost += numbers[3] + numbers[11];
        }
    }
    lost
}
