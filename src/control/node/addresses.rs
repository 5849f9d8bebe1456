//! Addresses, networks and names of interfaces in the node's configuration: each reads its text, or
//! says what it saw and what it expected.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// A network: `10.0.0.0/8`, `2001:db8::/32`, `::/0`. No bit outside of the prefix is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The network's own address.
    pub network: IpAddr,
    /// The length of the prefix: 0–32 or 0–128.
    pub length: u8,
}

/// An address of an interface of ours and the length of its network's prefix: `10.1.0.1/24`,
/// `2001:db8:1::1/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostAddress {
    /// The address.
    pub address: IpAddr,
    /// The length of the prefix: 1–32 or 1–128.
    pub prefix_length: u8,
}

/// The name of an interface of the kernel's: 1 to 15 bytes, as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(String);

/// Bits of an address, and of its family's addresses.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// The bits of an address that a prefix of this length leaves to the hosts; `width` is the family's.
fn host_mask(length: u8, width: u8) -> u128 {
    let free = u32::from(width.saturating_sub(length));
    1_u128.checked_shl(free).map_or(u128::MAX, |bit| bit - 1)
}

/// `address/length`, the length at least `least`.
fn parse(text: &str, least: u8) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse().ok().filter(|length| digits && (least..=bits(address).1).contains(length))?;
    Some((address, length))
}

impl Prefix {
    /// The network that `address` is on.
    #[must_use]
    pub fn of(address: IpAddr, length: u8) -> Prefix {
        let (all, width) = bits(address);
        let network = all & !host_mask(length, width);
        let network = match address {
            // The upper bits are none: they were an IPv4 address's.
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(network).unwrap_or_default().into()),
            IpAddr::V6(_) => IpAddr::V6(network.into()),
        };
        Prefix { network, length }
    }

    /// Whether an address is on this network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.network.is_ipv4() == address.is_ipv4() && Prefix::of(address, self.length) == *self
    }
}

impl HostAddress {
    /// The network that the address is on.
    #[must_use]
    pub fn network(&self) -> Prefix {
        Prefix::of(self.address, self.prefix_length)
    }
}

impl LinkName {
    /// Bytes that a name may have: the kernel's `IFNAMSIZ` without its final zero.
    pub const MAX: usize = 15;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let (address, length) = parse(text, 0)
            .ok_or_else(|| format!("'{text}' must be a network, such as 10.0.0.0/8 or 2001:db8::/32"))?;
        let network = Prefix::of(address, length);
        if network.network == address {
            Ok(network)
        } else {
            Err(format!("'{text}' has bits beyond its prefix; the network is {network}"))
        }
    }
}

impl FromStr for HostAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<HostAddress, String> {
        let (address, prefix_length) = parse(text, 1).ok_or_else(|| {
            format!("'{text}' must be an address with its prefix, such as 10.1.0.1/24 or 2001:db8:1::1/64")
        })?;
        let unfit = match address {
            IpAddr::V4(address) => address.is_broadcast() || address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local() || address.to_ipv4_mapped().is_some(),
        };
        if unfit || address.is_unspecified() || address.is_loopback() || address.is_multicast() {
            return Err(format!("'{text}' must be the address of an interface on a network"));
        }
        let (all, width) = bits(address);
        let mask = host_mask(prefix_length, width);
        let host = all & mask;
        // RFC 3021 and RFC 6164: a link of two needs neither address; IPv6 has no broadcast.
        let own = mask > 1 && host == 0;
        if own || (mask > 1 && address.is_ipv4() && host == mask) {
            let what = if address.is_ipv4() { "own or its broadcast address" } else { "own address" };
            return Err(format!("'{text}' is a network's {what}, and must be a host's"));
        }
        Ok(HostAddress { address, prefix_length })
    }
}

impl FromStr for LinkName {
    type Err = String;

    fn from_str(text: &str) -> Result<LinkName, String> {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
        if (1..=LinkName::MAX).contains(&text.len())
            && text.bytes().all(allowed)
            && !matches!(text, "." | "..")
        {
            return Ok(LinkName(text.to_owned()));
        }
        Err(format!(
            "'{text}' must be a name that the kernel takes for an interface: 1 to {} printable characters without \
             '/', ':', '%' and blanks",
            LinkName::MAX
        ))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

from_string!(Prefix, "a network in a string", {
    "type": "string", "pattern": "^[0-9A-Fa-f.:]+/[0-9]+$", "examples": ["10.0.0.0/8", "2001:db8::/32"]
});
from_string!(HostAddress, "an address with its prefix in a string", {
    "type": "string", "pattern": "^[0-9A-Fa-f.:]+/[0-9]+$", "examples": ["10.1.0.1/24", "2001:db8:1::1/64"]
});
from_string!(LinkName, "an interface's name in a string", {
    "type": "string", "minLength": 1, "maxLength": 15, "examples": ["fg-lan.100"]
});

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<HostAddress, String> {
        text.parse()
    }

    #[test]
    fn a_network_has_no_bits_beyond_its_prefix() {
        for good in ["0.0.0.0/0", "10.0.0.0/8", "192.0.2.7/32", "::/0", "2001:db8::/32", "2001:db8::1/128"] {
            assert_eq!(good.parse::<Prefix>().expect(good).to_string(), good);
        }
        assert_eq!(
            "10.1.0.0/8".parse::<Prefix>(),
            Err("'10.1.0.0/8' has bits beyond its prefix; the network is 10.0.0.0/8".to_owned())
        );
        for bad in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/", "::/129", "any/0"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_is_on_its_network_and_on_none_of_the_other_family() {
        let network: Prefix = "10.1.0.0/16".parse().expect("a network");
        let all_v6: Prefix = "::/0".parse().expect("a network");
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(network.contains(address("10.1.255.255")) && !network.contains(address("10.2.0.0")));
        assert!(all_v6.contains(address("2001:db8::1")) && !all_v6.contains(address("10.1.0.1")));
        assert!(!network.contains(address("::ffff:10.1.0.1")));
        assert_eq!(host("10.1.2.3/16").expect("good").network(), network);
    }

    #[test]
    fn an_interfaces_address_is_a_hosts() {
        for good in
            ["10.1.0.1/24", "10.0.0.0/31", "10.0.0.1/32", "2001:db8::1/64", "2001:db8::/127", "::2/128"]
        {
            assert_eq!(host(good).expect(good).to_string(), good);
        }
        for bad in [
            "10.1.0.0/24",
            "10.1.0.255/24",
            "2001:db8::/64",
            "fe80::1/64",
            "169.254.1.1/16",
            "::1/128",
            "127.0.0.1/8",
            "224.0.0.1/4",
            "ff02::1/16",
            "0.0.0.0/8",
            "::ffff:10.0.0.1/120",
            "255.255.255.255/32",
            "10.1.0.1/0",
        ] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_link_has_a_name_that_the_kernel_takes() {
        for bad in ["", ".", "..", "a/b", "a:b", "a b", "tap%d", "sixteen-letters-"] {
            assert!(bad.parse::<LinkName>().is_err(), "{bad}");
        }
        assert_eq!("fifteen-letters".parse::<LinkName>().expect("good").as_str(), "fifteen-letters");
    }
}
