//! Values that have names: types of ICMP, log levels, ways to reject.

use super::general::number;
use crate::IpVersion;

pub(super) fn icmp_type(version: IpVersion, text: &str) -> Result<String, String> {
    const V4: &[(&str, &str)] = &[
        ("any", "any"),
        ("echo-reply", "0"),
        ("pong", "0"),
        ("destination-unreachable", "3"),
        ("network-unreachable", "3/0"),
        ("host-unreachable", "3/1"),
        ("port-unreachable", "3/3"),
        ("fragmentation-needed", "3/4"),
        ("echo-request", "8"),
        ("ping", "8"),
        ("time-exceeded", "11"),
    ];
    const V6: &[(&str, &str)] = &[
        ("destination-unreachable", "1"),
        ("packet-too-big", "2"),
        ("time-exceeded", "3"),
        ("echo-request", "128"),
        ("ping", "128"),
        ("echo-reply", "129"),
        ("pong", "129"),
        ("router-solicitation", "133"),
        ("router-advertisement", "134"),
        ("neighbour-solicitation", "135"),
        ("neighbour-advertisement", "136"),
    ];
    let (names, family) = match version {
        IpVersion::V4 => (V4, "ICMP"),
        IpVersion::V6 => (V6, "ICMPv6"),
    };
    if let Some((_, saved)) = names.iter().find(|(name, _)| *name == text) {
        return Ok((*saved).to_owned());
    }
    let byte = |text: &str| number(text).and_then(|n| u8::try_from(n).ok());
    let saved = match text.split_once('/') {
        Some((kind, code)) => byte(kind).zip(byte(code)).map(|(k, c)| format!("{k}/{c}")),
        None => byte(text).map(|kind| match (version, kind) {
            (IpVersion::V4, 255) => "any".to_owned(),
            _ => kind.to_string(),
        }),
    };
    saved.ok_or_else(|| format!("Unknown {family} type `{text}'"))
}

pub(super) fn log_level(text: &str) -> Result<u64, String> {
    const LEVELS: [&str; 8] = [
        "emerg", "alert", "crit", "error", "warning", "notice", "info", "debug",
    ];
    let named = match text {
        "panic" => Some(0),
        name => LEVELS.iter().position(|level| *level == name),
    };
    number(text)
        .filter(|level| *level < 8)
        .or(named.map(|at| at as u64))
        .ok_or_else(|| format!("log level \"{text}\" unknown\n"))
}

pub(super) fn reject_with(version: IpVersion, text: &str) -> Result<String, String> {
    const V4: &[(&str, &str)] = &[
        ("icmp-net-unreachable", "net-unreach"),
        ("icmp-host-unreachable", "host-unreach"),
        ("icmp-proto-unreachable", "proto-unreach"),
        ("icmp-port-unreachable", "port-unreach"),
        ("icmp-net-prohibited", "net-prohib"),
        ("icmp-host-prohibited", "host-prohib"),
        ("tcp-reset", "tcp-rst"),
        ("icmp-admin-prohibited", "admin-prohib"),
    ];
    const V6: &[(&str, &str)] = &[
        ("icmp6-no-route", "no-route"),
        ("icmp6-adm-prohibited", "adm-prohibited"),
        ("icmp6-addr-unreachable", "addr-unreach"),
        ("icmp6-port-unreachable", "port-unreach"),
        ("tcp-reset", "tcp-reset"),
        ("icmp6-policy-fail", "policy-fail"),
        ("icmp6-reject-route", "reject-route"),
    ];
    let types = match version {
        IpVersion::V4 => V4,
        IpVersion::V6 => V6,
    };
    let lower = text.to_ascii_lowercase();
    types
        .iter()
        .find(|(name, alias)| name.starts_with(&lower) || alias.starts_with(&lower))
        .map(|(name, _)| (*name).to_owned())
        .ok_or_else(|| format!("unknown reject type \"{text}\""))
}
