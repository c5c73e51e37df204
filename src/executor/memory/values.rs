//! How iptables reads and stores the values of extensions' options.

use super::dialect::Dialect;
use super::general::number;
use super::{names, nat, quote};
use crate::excerpt;

/// What kind of value an option has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Flag,
    /// Free text: the least and the most bytes that are kept.
    Text(usize, usize),
    /// The prefix of `NFLOG`, for which legacy has less room.
    NflogPrefix,
    /// One port or a range; the whole range says nothing and isn't saved.
    Port,
    /// Up to 15 ports and ranges.
    Ports,
    /// TCP flags: which to look at, and in the next word which are set.
    TcpFlags,
    /// `--syn`.
    Syn,
    States,
    /// A number with a mask, in hexadecimal.
    Mark,
    /// The same as a mark to set.
    SetMark(Mark),
    Rate,
    /// A number in this range, and the one that isn't saved.
    Number(u64, u64, Option<u64>),
    /// A set, and in the next word the directions.
    Set,
    IcmpType,
    LogLevel,
    RejectWith,
    /// Address, range of addresses, ports.
    Nat,
    ToPorts,
    /// Kept as it is written.
    Word,
}

/// The ways to name a mark that is to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Xor,
    Set,
    And,
    Or,
    Flip,
}

/// What an option is called, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) extension: &'a str,
    pub(super) option: &'a str,
    pub(super) dialect: Dialect,
    pub(super) protocol: Option<(u8, bool)>,
}

/// Services of `/etc/services` that rules name.
const SERVICES: &[(&str, u16)] = &[
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("tftp", 69),
    ("http", 80),
    ("pop3", 110),
    ("ntp", 123),
    ("snmp", 161),
    ("https", 443),
    ("syslog", 514),
    ("mysql", 3306),
];

pub(super) fn port(text: &str) -> Result<u16, String> {
    number(text)
        .and_then(|n| u16::try_from(n).ok())
        .or_else(|| {
            SERVICES
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, port)| *port)
        })
        .ok_or_else(|| format!("invalid port/service `{text}' specified"))
}

fn range(text: &str) -> Result<(u16, u16), String> {
    match text.split_once(':') {
        None => port(text).map(|port| (port, port)),
        Some((low, high)) => {
            let low = if low.is_empty() { 0 } else { port(low)? };
            let high = if high.is_empty() {
                u16::MAX
            } else {
                port(high)?
            };
            Ok((low, high))
        }
    }
}

pub(super) fn range_text((low, high): (u16, u16)) -> String {
    if low == high {
        low.to_string()
    } else {
        format!("{low}:{high}")
    }
}

/// The value as saved; `None` where it isn't saved at all. `second` is the second word of those
/// kinds that have one.
pub(super) fn normal(
    kind: Kind,
    named: Named<'_>,
    text: &str,
    second: Option<&str>,
) -> Result<Option<String>, String> {
    let kind = match kind {
        Kind::NflogPrefix if named.dialect.is_legacy() => Kind::Text(1, 63),
        Kind::NflogPrefix => Kind::Text(1, 127),
        kind => kind,
    };
    let saved = match kind {
        Kind::NflogPrefix | Kind::Flag => String::new(),
        Kind::Text(min, _) if text.len() < min => {
            return Err(format!(
                "Argument must have a minimum length of {min} characters\n"
            ));
        }
        Kind::Text(_, max) => quote::text(excerpt::beginning(text, max)),
        Kind::Port => {
            let (low, high) = range(text)?;
            if low > high {
                return Err("invalid portrange (min > max)".to_owned());
            }
            if (low, high) == (0, u16::MAX) {
                return Ok(None);
            }
            range_text((low, high))
        }
        Kind::Ports => ports(text)?,
        Kind::TcpFlags => format!("{} {}", tcp_flags(text)?, tcp_flags(second.unwrap_or(""))?),
        Kind::Syn => "FIN,SYN,RST,ACK SYN".to_owned(),
        Kind::States => states(named, text)?,
        Kind::Mark => {
            let (value, mask) = mark(named, text)?;
            if mask == u32::MAX {
                format!("{value:#x}")
            } else {
                format!("{value:#x}/{mask:#x}")
            }
        }
        Kind::SetMark(how) => set_mark(how, named, text)?,
        Kind::Rate => rate(text)?,
        Kind::Number(low, high, silent) => match number(text) {
            Some(n) if (low..=high).contains(&n) => {
                if Some(n) == silent {
                    return Ok(None);
                }
                n.to_string()
            }
            _ => {
                return Err(format!(
                    "{}: bad value for option \"--{}\", or out of range ({low}-{high}).\n",
                    named.extension, named.option
                ));
            }
        },
        Kind::Set => format!("{text} {}", second.unwrap_or("")),
        Kind::IcmpType => names::icmp_type(named.dialect.version, text)?,
        Kind::LogLevel => match names::log_level(text)? {
            4 => return Ok(None),
            level => level.to_string(),
        },
        Kind::RejectWith => names::reject_with(named.dialect.version, text)?,
        Kind::Nat => nat::destination(named, text)?,
        Kind::ToPorts => nat::ports(named, text)?,
        Kind::Word => text.to_owned(),
    };
    Ok(Some(saved))
}

fn ports(text: &str) -> Result<String, String> {
    let mut saved = Vec::new();
    let mut count = 0;
    for part in text.split(',') {
        let (low, high) = range(part)?;
        let is_range = part.contains(':');
        count += if is_range { 2 } else { 1 };
        if count > 15 {
            return Err("too many ports specified".to_owned());
        }
        if is_range && low >= high {
            return Err("invalid portrange specified".to_owned());
        }
        saved.push(range_text((low, high)));
    }
    Ok(saved.join(","))
}

const TCP_FLAGS: [&str; 6] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG"];

fn tcp_flags(text: &str) -> Result<String, String> {
    let mut mask = 0;
    for word in text.split(',') {
        mask |= match word.to_ascii_uppercase().as_str() {
            "ALL" => 0x3f,
            "NONE" => 0,
            upper => match TCP_FLAGS.iter().position(|flag| *flag == upper) {
                Some(at) => 1 << at,
                None => return Err(format!("Unknown TCP flag `{word}'")),
            },
        };
    }
    Ok(chosen(&TCP_FLAGS, mask).unwrap_or_else(|| "NONE".to_owned()))
}

/// The names whose bit is set, with commas; `None` if none is.
fn chosen(names: &[&str], mask: u32) -> Option<String> {
    let names: Vec<_> = names
        .iter()
        .enumerate()
        .filter(|(at, _)| mask & (1 << at) != 0)
        .map(|(_, name)| *name)
        .collect();
    (!names.is_empty()).then(|| names.join(","))
}

const STATES: [&str; 7] = [
    "INVALID",
    "NEW",
    "RELATED",
    "ESTABLISHED",
    "UNTRACKED",
    "SNAT",
    "DNAT",
];

fn states(named: Named<'_>, text: &str) -> Result<String, String> {
    let known = if named.extension == "state" { 5 } else { 7 };
    let mut mask = 0;
    for word in text.split(',') {
        let upper = word.to_ascii_uppercase();
        // A beginning of the name is enough.
        match STATES[..known]
            .iter()
            .position(|s| !word.is_empty() && s.starts_with(&upper))
        {
            Some(at) => mask |= 1 << at,
            None => return Err(format!("Bad {} \"{word}\"", named.option)),
        }
    }
    Ok(chosen(&STATES, mask).unwrap_or_default())
}

fn mark(named: Named<'_>, text: &str) -> Result<(u32, u32), String> {
    let read = |text: &str| number(text).and_then(|n| u32::try_from(n).ok());
    let parts = match text.split_once('/') {
        Some((value, mask)) => read(value).zip(read(mask)),
        None => read(text).map(|value| (value, u32::MAX)),
    };
    parts.ok_or_else(|| {
        format!(
            "{}: bad integer value for option \"--{}\", or out of range.\n",
            named.extension, named.option
        )
    })
}

fn set_mark(how: Mark, named: Named<'_>, text: &str) -> Result<String, String> {
    let (value, mask) = mark(named, text)?;
    let (value, mask) = match how {
        Mark::Xor => (value, mask),
        Mark::Set => (value, value | mask),
        Mark::And => (0, !value),
        Mark::Or => (value, value),
        Mark::Flip => (value, 0),
    };
    Ok(format!("{value:#x}/{mask:#x}"))
}

fn rate(text: &str) -> Result<String, String> {
    const SCALE: u64 = 10_000;
    const UNITS: [(&str, &str, u64); 4] = [
        ("day", "day", SCALE * 24 * 60 * 60),
        ("hour", "hour", SCALE * 60 * 60),
        ("minute", "min", SCALE * 60),
        ("second", "sec", SCALE),
    ];
    let bad = || format!("bad rate \"{text}\"'");
    let (count, unit) = match text.split_once('/') {
        Some((count, unit)) if !unit.is_empty() => (count, unit.to_ascii_lowercase()),
        Some(_) => return Err(bad()),
        None => (text, "second".to_owned()),
    };
    let scale = UNITS
        .iter()
        .find(|(name, ..)| name.starts_with(&unit))
        .map(|(.., scale)| *scale)
        .ok_or_else(bad)?;
    let digits = count.bytes().take_while(u8::is_ascii_digit).count();
    let count: u64 = count[..digits].parse().unwrap_or(0);
    if count == 0 {
        return Err(bad());
    }
    let period = scale / count;
    if period == 0 {
        return Err(format!("Rate too fast \"{text}\""));
    }
    let mut best = UNITS[0];
    for unit in &UNITS[1..] {
        if period > unit.2 || unit.2 / period < unit.2 % period {
            break;
        }
        best = *unit;
    }
    Ok(format!("{}/{}", best.2 / period, best.1))
}
