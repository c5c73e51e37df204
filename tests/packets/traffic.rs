//! The packets: a peer that floods allowed and forbidden ports, and what comes through counts them.

use std::fmt;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use crate::common::gated::wait_until;
use crate::wire::{Wire, lost_elsewhere};

pub const ALLOWED: u16 = 7_001;
pub const FORBIDDEN: u16 = 7_002;

/// A connect that took longer had its first packet dropped: the kernel sends it again after a second.
const SYN_LOST: Duration = Duration::from_millis(900);

/// What the two ends and the test tell each other, and count.
#[derive(Default)]
pub struct Traffic {
    /// The peer has seen that packets go through.
    flowing: AtomicBool,
    /// The peer is to stop.
    over: AtomicBool,
    /// The receivers are to stop.
    closed: AtomicBool,
    pub udp_allowed_sent: AtomicU64,
    pub udp_allowed_delivered: AtomicU64,
    pub udp_forbidden_sent: AtomicU64,
    pub udp_forbidden_delivered: AtomicU64,
    pub tcp_allowed: AtomicU64,
    pub tcp_allowed_lost: AtomicU64,
    pub tcp_forbidden: AtomicU64,
    pub tcp_forbidden_connected: AtomicU64,
    /// Lost in full buffers at either end: not the firewall's doing.
    pub lost_elsewhere: AtomicU64,
    received: AtomicU64,
}

/// Stops both ends when it is dropped.
struct Stop<'t>(&'t Traffic);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
        self.0.closed.store(true, Ordering::SeqCst);
    }
}

fn add(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::SeqCst)
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

impl Traffic {
    /// Forbidden packets that came through.
    pub fn leaked(&self) -> u64 {
        get(&self.udp_forbidden_delivered) + get(&self.tcp_forbidden_connected)
    }

    /// Allowed packets that the firewall has dropped.
    pub fn dropped(&self) -> u64 {
        let lost = get(&self.udp_allowed_sent) - get(&self.udp_allowed_delivered);
        lost.saturating_sub(get(&self.lost_elsewhere)) + get(&self.tcp_allowed_lost)
    }

    /// Whether enough was sent for zeros to mean something.
    pub fn is_much(&self) -> bool {
        let udp = get(&self.udp_allowed_sent).min(get(&self.udp_forbidden_sent));
        let tcp = get(&self.tcp_allowed).min(get(&self.tcp_forbidden));
        udp > 1_000 && tcp > 20
    }

    /// Opens the ports behind the firewall, and calls `work` while the peer's packets are flowing.
    pub fn around<T>(&self, wire: Wire, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            self.receive(scope, wire, ALLOWED, &self.udp_allowed_delivered);
            self.receive(scope, wire, FORBIDDEN, &self.udp_forbidden_delivered);
            for port in [ALLOWED, FORBIDDEN] {
                self.accept(scope, wire, port);
            }
            // Should the work panic, everybody has to stop all the same.
            let stop = Stop(self);
            wait_until("no packet flows", || self.flowing.load(Ordering::SeqCst));
            let result = work();
            self.over.store(true, Ordering::SeqCst);
            // What is under way arrives, and the receivers take it.
            let mut before = u64::MAX;
            while before != get(&self.received) {
                before = get(&self.received);
                std::thread::sleep(Duration::from_millis(300));
            }
            drop(stop);
            self.lost_elsewhere
                .fetch_add(lost_elsewhere(), Ordering::SeqCst);
            result
        })
    }

    fn receive<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        wire: Wire,
        port: u16,
        count: &'s AtomicU64,
    ) {
        let socket = UdpSocket::bind(wire.at(port)).expect("bind");
        // Beyond rmem_max: a scheduling pause of ours must not be taken for a drop.
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).expect("SO_RCVBUFFORCE");
        let pause = Some(Duration::from_millis(20));
        socket.set_read_timeout(pause).expect("timeout");
        scope.spawn(move || {
            let mut buffer = [0; 64];
            while !self.closed.load(Ordering::SeqCst) {
                if socket.recv(&mut buffer).is_ok() {
                    add(&self.received);
                    // The first ones, which only look whether there is a way, have no number.
                    if buffer[0] == 1 {
                        add(count);
                    } else {
                        self.flowing.store(true, Ordering::SeqCst);
                    }
                }
            }
        });
    }

    /// Accepts and closes at once: the port's side closes first, so that the peer's ports are free again.
    fn accept<'s>(&'s self, scope: &'s Scope<'s, '_>, wire: Wire, port: u16) {
        let listener = TcpListener::bind(wire.at(port)).expect("bind");
        listener.set_nonblocking(true).expect("nonblocking");
        scope.spawn(move || {
            while !self.closed.load(Ordering::SeqCst) {
                if listener.accept().is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }

    /// The peer: sends until it is told to stop.
    pub fn send(&self, wire: Wire) {
        let probe = UdpSocket::bind(wire.peers_end()).expect("bind");
        let start = Instant::now();
        while !self.flowing.load(Ordering::SeqCst) {
            assert!(start.elapsed() < Duration::from_secs(20), "no packet flows");
            let _ = probe.send_to(&[0; 8], wire.at(ALLOWED));
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::scope(|scope| {
            scope.spawn(|| self.flood(wire));
            scope.spawn(|| self.connect(wire));
            for _ in 0..3 {
                scope.spawn(|| self.connect_forbidden(wire));
            }
        });
        self.lost_elsewhere
            .fetch_add(lost_elsewhere(), Ordering::SeqCst);
    }

    fn flood(&self, wire: Wire) {
        let to = |port| {
            let socket = UdpSocket::bind(wire.peers_end()).expect("bind");
            socket.connect(wire.at(port)).expect("connect");
            socket
        };
        let ports = [
            (to(ALLOWED), &self.udp_allowed_sent),
            (to(FORBIDDEN), &self.udp_forbidden_sent),
        ];
        while !self.over.load(Ordering::SeqCst) {
            // Small bursts with pauses: some 20,000 a second of each, which no queue on the way has to drop.
            for _ in 0..8 {
                for (socket, sent) in &ports {
                    if socket.send(&[1; 32]).is_ok() {
                        add(sent);
                    }
                }
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn connect(&self, wire: Wire) {
        while !self.over.load(Ordering::SeqCst) {
            let start = Instant::now();
            let stream = TcpStream::connect_timeout(&wire.at(ALLOWED), Duration::from_secs(3));
            add(&self.tcp_allowed);
            // To the end, which takes a packet of each kind.
            let ended = stream.and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(3)))?;
                stream.read(&mut [0; 1])
            });
            if ended.is_err() || start.elapsed() > SYN_LOST {
                add(&self.tcp_allowed_lost);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn connect_forbidden(&self, wire: Wire) {
        while !self.over.load(Ordering::SeqCst) {
            add(&self.tcp_forbidden);
            if TcpStream::connect_timeout(&wire.at(FORBIDDEN), Duration::from_millis(10)).is_ok() {
                add(&self.tcp_forbidden_connected);
            }
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "allowed: {} datagrams sent, {} delivered, {} connects, {} lost; forbidden: {} datagrams sent, {} delivered, {} connects tried, {} made; {} lost in buffers",
            get(&self.udp_allowed_sent),
            get(&self.udp_allowed_delivered),
            get(&self.tcp_allowed),
            get(&self.tcp_allowed_lost),
            get(&self.udp_forbidden_sent),
            get(&self.udp_forbidden_delivered),
            get(&self.tcp_forbidden),
            get(&self.tcp_forbidden_connected),
            get(&self.lost_elsewhere),
        )
    }
}
