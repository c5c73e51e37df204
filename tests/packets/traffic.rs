//! Traffic that has to get through at every instant, traffic that never may, and the count of both.
//!
//! Both ends are threads of one process, so the sender knows how many packets are on their way: never so many that a
//! buffer could overflow. What doesn't arrive was dropped by the firewall.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Ports to which everything is to be accepted.
pub const ALLOWED: Range<u16> = 7_000..7_004;
/// Ports to which nothing is.
pub const FORBIDDEN: Range<u16> = 7_100..7_104;

/// How many datagrams may be on their way.
const MOST_UNDERWAY: u64 = 32;
/// When a datagram that hasn't arrived counts as dropped.
const DROPPED_AFTER: Duration = Duration::from_millis(300);
/// A connection that takes longer than this has lost its first packet: that is sent again after a second.
const SLOW_CONNECT: Duration = Duration::from_millis(900);
/// How long a connection to a forbidden port is tried.
const SHORT_CONNECT: Duration = Duration::from_millis(4);

/// What was sent, and what became of it.
#[derive(Debug, Default)]
pub struct Counts {
    pub allowed_datagrams: AtomicU64,
    pub allowed_datagrams_delivered: AtomicU64,
    pub allowed_datagrams_dropped: AtomicU64,
    pub forbidden_datagrams: AtomicU64,
    pub forbidden_datagrams_delivered: AtomicU64,
    pub allowed_connections: AtomicU64,
    pub allowed_connections_dropped: AtomicU64,
    pub forbidden_connections: AtomicU64,
    pub forbidden_connections_made: AtomicU64,
}

impl Counts {
    /// Forbidden packets that were delivered.
    pub fn leaked(&self) -> u64 {
        self.forbidden_datagrams_delivered.load(Relaxed)
            + self.forbidden_connections_made.load(Relaxed)
    }

    /// Allowed packets that weren't.
    pub fn dropped(&self) -> u64 {
        self.allowed_datagrams_dropped.load(Relaxed)
            + self.allowed_connections_dropped.load(Relaxed)
    }
}

/// The sockets of the host, and the threads that serve them.
pub struct Host {
    sockets: Vec<(UdpSocket, bool)>,
    listeners: Vec<TcpListener>,
}

impl Host {
    pub fn listen(address: IpAddr) -> Self {
        let ports = || ALLOWED.chain(FORBIDDEN);
        let sockets = ports().map(|port| {
            let socket = UdpSocket::bind((address, port)).expect("a socket");
            let short = Some(Duration::from_millis(50));
            socket.set_read_timeout(short).expect("a limit");
            (socket, ALLOWED.contains(&port))
        });
        let listeners = ports().map(|port| {
            let listener = TcpListener::bind((address, port)).expect("a listener");
            listener.set_nonblocking(true).expect("not blocking");
            listener
        });
        Self {
            sockets: sockets.collect(),
            listeners: listeners.collect(),
        }
    }

    /// Takes what arrives until it is ended.
    pub fn serve<'s>(
        &'s self,
        scope: &'s thread::Scope<'s, '_>,
        counts: &'s Counts,
        ended: &'s AtomicBool,
    ) {
        for (socket, allowed) in &self.sockets {
            scope.spawn(move || {
                let count = if *allowed {
                    &counts.allowed_datagrams_delivered
                } else {
                    &counts.forbidden_datagrams_delivered
                };
                let mut packet = [0; 16];
                while !ended.load(Relaxed) {
                    if socket.recv(&mut packet).is_ok() {
                        count.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        scope.spawn(move || {
            while !ended.load(Relaxed) {
                let accepted = self.listeners.iter().filter_map(|l| l.accept().ok());
                if accepted.count() == 0 {
                    thread::sleep(Duration::from_micros(200));
                }
            }
        });
    }
}

/// Floods the host from another namespace until it is ended.
pub fn flood(host: IpAddr, counts: &Counts, ended: &AtomicBool) {
    thread::scope(|scope| {
        scope.spawn(|| datagrams(host, counts, ended));
        scope.spawn(|| connections(host, counts, ended));
        scope.spawn(|| forbidden_connections(host, counts, ended));
    });
}

fn datagrams(host: IpAddr, counts: &Counts, ended: &AtomicBool) {
    let any: IpAddr = match host {
        IpAddr::V4(_) => "0.0.0.0".parse().expect("an address"),
        IpAddr::V6(_) => "::".parse().expect("an address"),
    };
    let socket = UdpSocket::bind((any, 0)).expect("a socket");
    for (allowed, forbidden) in ALLOWED.zip(FORBIDDEN).cycle() {
        if ended.load(Relaxed) {
            break;
        }
        socket.send_to(b"x", (host, allowed)).expect("sent");
        counts.allowed_datagrams.fetch_add(1, Relaxed);
        socket.send_to(b"x", (host, forbidden)).expect("sent");
        counts.forbidden_datagrams.fetch_add(1, Relaxed);
        wait_for_arrival(counts, MOST_UNDERWAY);
        thread::sleep(Duration::from_micros(20));
    }
    wait_for_arrival(counts, 0);
}

/// Waits until no more than so many allowed datagrams are underway; those that don't arrive are counted.
fn wait_for_arrival(counts: &Counts, most: u64) {
    let underway = || {
        let arrived = counts.allowed_datagrams_delivered.load(Relaxed);
        let gone = arrived + counts.allowed_datagrams_dropped.load(Relaxed);
        counts.allowed_datagrams.load(Relaxed).saturating_sub(gone)
    };
    let start = Instant::now();
    while underway() > most {
        if start.elapsed() > DROPPED_AFTER {
            let dropped = &counts.allowed_datagrams_dropped;
            dropped.fetch_add(underway(), Relaxed);
        }
        thread::yield_now();
    }
}

fn connections(host: IpAddr, counts: &Counts, ended: &AtomicBool) {
    for port in ALLOWED.cycle() {
        if ended.load(Relaxed) {
            break;
        }
        let start = Instant::now();
        let made = TcpStream::connect_timeout(&SocketAddr::new(host, port), SLOW_CONNECT * 3);
        counts.allowed_connections.fetch_add(1, Relaxed);
        if made.is_err() || start.elapsed() > SLOW_CONNECT {
            counts.allowed_connections_dropped.fetch_add(1, Relaxed);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn forbidden_connections(host: IpAddr, counts: &Counts, ended: &AtomicBool) {
    for port in FORBIDDEN.cycle() {
        if ended.load(Relaxed) {
            break;
        }
        let made = TcpStream::connect_timeout(&SocketAddr::new(host, port), SHORT_CONNECT);
        counts.forbidden_connections.fetch_add(1, Relaxed);
        if made.is_ok() {
            counts.forbidden_connections_made.fetch_add(1, Relaxed);
        }
    }
}
