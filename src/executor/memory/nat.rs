//! Values of the targets of table `nat`: addresses and ports to translate to.

use super::values::{Named, port, range_text};
use crate::IpVersion;

fn port_protocol(named: Named<'_>) -> Result<(), String> {
    match named.protocol {
        Some((1 | 6 | 17 | 33 | 132, _)) => Ok(()),
        _ => Err("Need TCP, UDP, SCTP or DCCP with port specification".to_owned()),
    }
}

/// `--to-ports`: a port or a range.
pub(super) fn ports(named: Named<'_>, text: &str) -> Result<String, String> {
    port_protocol(named)?;
    let one = |text: &str| port(text).map_err(|_| format!("Port `{text}' not valid"));
    let (low, high, last) = match text.split_once('-') {
        Some((low, high)) => (one(low)?, one(high)?, high),
        None if text.contains(':') => {
            return Err("Invalid port:port syntax - use dash".to_owned());
        }
        None => (one(text)?, one(text)?, text),
    };
    if low > high {
        return Err(format!("Port range `{last}' funky"));
    }
    Ok(range_text((low, high)).replace(':', "-"))
}

/// `--to-destination` and `--to-source`: an address or a range, and ports.
pub(super) fn destination(named: Named<'_>, text: &str) -> Result<String, String> {
    let is_address = |text: &str| match named.dialect.version {
        IpVersion::V4 => text.parse::<std::net::Ipv4Addr>().is_ok(),
        IpVersion::V6 => text.parse::<std::net::Ipv6Addr>().is_ok(),
    };
    let bad = |text: &str| format!("Bad IP address \"{text}\"");
    let v6 = named.dialect.version == IpVersion::V6;
    let (addresses, ports) = match text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        Some((addresses, rest)) if v6 => (addresses, rest.strip_prefix(':')),
        Some(_) => return Err("Invalid address format".to_owned()),
        // A single colon can't be an address's.
        None if text.matches(':').count() == 1 => match text.split_once(':') {
            Some((addresses, ports)) => (addresses, Some(ports)),
            None => (text, None),
        },
        None => (text, None),
    };
    if ports.is_some() {
        port_protocol(named)?;
    }
    let mut saved = match addresses.split_once('-') {
        Some((low, high)) if low == high && is_address(low) => low.to_owned(),
        Some((low, high)) => match (is_address(low), is_address(high)) {
            (true, true) => addresses.to_owned(),
            (false, _) => return Err(bad(low)),
            _ => return Err(bad(high)),
        },
        None if addresses.is_empty() && ports.is_some() => String::new(),
        None if is_address(addresses) => addresses.to_owned(),
        None => return Err(bad(addresses)),
    };
    if let Some(ports) = ports {
        if v6 && !saved.is_empty() {
            saved = format!("[{saved}]");
        }
        saved.push(':');
        saved.push_str(&self::ports(named, ports)?);
    }
    Ok(saved)
}
