//! Two network namespaces joined by a pair of virtual interfaces: the host with the firewall, and a peer.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use iptables_updater::IpVersion;
use nix::sched::{CloneFlags, unshare};

/// The host's address.
pub fn host(version: IpVersion) -> IpAddr {
    match version {
        IpVersion::V4 => Ipv4Addr::new(10, 9, 0, 1).into(),
        IpVersion::V6 => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("iproute2");
    assert!(status.success(), "ip {arguments}");
}

/// Makes this thread's namespace the host, and runs `peer` on a thread in another, joined to it, while `body` runs
/// here.
pub fn joined<T>(peer: impl FnOnce() + Send, body: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (tell_thread, thread_id) = mpsc::channel();
        let (tell_ready, ready) = mpsc::channel();
        let peer = scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("unshare");
            let this = fs::read_link("/proc/thread-self").expect("procfs");
            let id = this.file_name().expect("a thread").to_owned();
            tell_thread.send(id).expect("the host waits for it");
            ready.recv().expect("the host makes the interfaces");
            for command in [
                "link set lo up",
                "address add 10.9.0.2/24 dev peer",
                "address add fd09::2/64 dev peer nodad",
                "link set peer up",
            ] {
                ip(command);
            }
            peer();
        });
        let id = thread_id.recv().expect("the peer's thread");
        let id = id.into_string().expect("a number");
        for command in [
            "link set lo up",
            "link add host type veth peer name peer",
            &format!("link set peer netns {id}"),
            "address add 10.9.0.1/24 dev host",
            "address add fd09::1/64 dev host nodad",
            "link set host up",
        ] {
            ip(command);
        }
        tell_ready.send(()).expect("the peer waits for it");
        let value = body();
        peer.join().expect("the peer");
        value
    })
}
