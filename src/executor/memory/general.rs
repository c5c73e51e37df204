//! The options that every rule may have: addresses, interfaces, protocol.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::IpVersion;

/// Names that `/etc/protocols` and iptables itself know.
const PROTOCOLS: &[(&str, u8)] = &[
    ("tcp", 6),
    ("sctp", 132),
    ("udp", 17),
    ("udplite", 136),
    ("icmp", 1),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("esp", 50),
    ("ah", 51),
    ("mobility-header", 135),
    ("ipv6-mh", 135),
    ("mh", 135),
    ("all", 0),
    ("ip", 0),
    ("hopopt", 0),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("st", 5),
    ("egp", 8),
    ("igp", 9),
    ("pup", 12),
    ("hmp", 20),
    ("xns-idp", 22),
    ("rdp", 27),
    ("iso-tp4", 29),
    ("dccp", 33),
    ("xtp", 36),
    ("ddp", 37),
    ("idpr-cmtp", 38),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("idrp", 45),
    ("rsvp", 46),
    ("gre", 47),
    ("skip", 57),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("rspf", 73),
    ("vmtp", 81),
    ("eigrp", 88),
    ("ospf", 89),
    ("ax.25", 93),
    ("ipip", 94),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("isis", 124),
    ("fc", 133),
    ("mpls-in-ip", 137),
    ("manet", 138),
    ("hip", 139),
    ("shim6", 140),
    ("wesp", 141),
    ("rohc", 142),
    ("ethernet", 143),
];

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// A protocol's number; its text is in lower case already.
pub(super) fn protocol(text: &str) -> Result<u8, String> {
    if let Some(number) = number(text).and_then(|n| u8::try_from(n).ok()) {
        return Ok(number);
    }
    PROTOCOLS
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, number)| *number)
        .ok_or_else(|| format!("unknown protocol \"{text}\" specified"))
}

/// The name under which a protocol is saved; its number where it has none.
pub(super) fn protocol_name(number: u8) -> String {
    PROTOCOLS
        .iter()
        .find(|(_, known)| *known == number)
        .map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

/// A whole number as iptables reads it: decimal, `0x` and leading `0` alike.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// An address with its mask, masked, as saved; `0.0.0.0/0` is the address that every packet has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) text: String,
    /// Whether it is the whole address space.
    pub(super) any: bool,
}

pub(super) fn network(version: IpVersion, text: &str) -> Result<Network, String> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    let bits = |max: u32| -> Result<Option<u32>, String> {
        match mask {
            None => Ok(Some(max)),
            Some(mask) => {
                if let Some(bits) = number(mask).and_then(|n| u32::try_from(n).ok()) {
                    if bits <= max {
                        return Ok(Some(bits));
                    }
                } else if mask.contains('.') && max == 32 {
                    return Ok(None);
                }
                Err(format!("invalid mask `{mask}' specified"))
            }
        }
    };
    let unknown = || format!("host/network `{address}' not found");
    match version {
        IpVersion::V4 => {
            let bits = bits(32)?;
            let mask = match bits {
                Some(bits) => u32::MAX.checked_shl(32 - bits).unwrap_or(0),
                None => mask
                    .and_then(|mask| mask.parse::<Ipv4Addr>().ok())
                    .map(u32::from)
                    .ok_or_else(|| format!("invalid mask `{}' specified", mask.unwrap_or("")))?,
            };
            // Without a bit to look at, the address may be anything.
            let address = match mask {
                0 => 0,
                mask => dotted(address).ok_or_else(unknown)? & mask,
            };
            let address = Ipv4Addr::from(address);
            let text = if mask.leading_ones() + mask.trailing_zeros() >= 32 {
                format!("{address}/{}", mask.leading_ones())
            } else {
                format!("{address}/{}", Ipv4Addr::from(mask))
            };
            Ok(Network {
                text,
                any: mask == 0,
            })
        }
        IpVersion::V6 => {
            let bits = bits(128)?.unwrap_or(128);
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            let address: Ipv6Addr = match bits {
                0 => Ipv6Addr::UNSPECIFIED,
                _ => address.parse().map_err(|_| unknown())?,
            };
            let address = Ipv6Addr::from(u128::from(address) & mask);
            Ok(Network {
                text: format!("{address}/{bits}"),
                any: bits == 0,
            })
        }
    }
}

/// One to four numbers with dots: missing ones are 0.
fn dotted(text: &str) -> Option<u32> {
    let parts: Vec<_> = text.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut address = 0;
    for (at, part) in parts.iter().enumerate() {
        let byte = number(part).and_then(|n| u8::try_from(n).ok())?;
        address |= u32::from(byte) << (24 - 8 * at);
    }
    Some(address)
}

/// Checks an interface's name.
pub(super) fn interface(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("Empty interface is likely to be undesired".to_owned());
    }
    if name.len() > 15 {
        return Err(format!(
            "interface name `{name}' must be shorter than IFNAMSIZ (15)"
        ));
    }
    Ok(())
}

/// What iptables says about a name that no interface can have.
pub(super) fn interface_warning(name: &str) -> Option<String> {
    let weird = name.contains(['/', ' ']);
    weird.then(|| {
        format!(
            "Warning: weird character in interface `{name}' ('/' and ' ' are not allowed by the kernel).\n"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_masked_and_get_their_prefix_length() {
        for (given, saved) in [
            ("192.0.2.1", "192.0.2.1/32"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10/8", "10.0.0.0/8"),
            ("192.0.2.1/255.255.255.0", "192.0.2.0/24"),
            ("192.0.2.1/255.0.255.0", "192.0.2.0/255.0.255.0"),
            ("0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(network(IpVersion::V4, given).unwrap().text, saved);
        }
        assert_eq!(
            network(IpVersion::V6, "2001:DB8:0::1/32").unwrap().text,
            "2001:db8::/32"
        );
        assert_eq!(
            network(IpVersion::V4, "192.0.2.1/33").unwrap_err(),
            "invalid mask `33' specified"
        );
        assert_eq!(
            network(IpVersion::V4, "2001:db8::1").unwrap_err(),
            "host/network `2001:db8::1' not found"
        );
    }
}
