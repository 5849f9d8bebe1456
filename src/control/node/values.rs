//! Values of the node's configuration that have a form of their own: each reads its text, or says
//! what it saw and what it expected.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A link-layer address, such as `02:00:00:00:00:01`: of one station, so neither multicast nor
/// all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

/// An endpoint's 64-bit id as GENEVE carries it: a number, or `"0x…"` in hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WireId(pub u64);

/// An interface's address and the length of its network's prefix: `192.0.2.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub address: Ipv4Addr,
    /// The length of the prefix: 1–32.
    pub prefix_length: u8,
}

/// What DPDK opens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// A device on the PCI bus, as `domain:bus:device.function`.
    Pci(String),
    /// A virtual device, as for EAL's `--vdev`: `net_af_packet0,iface=eth1`.
    Virtual(String),
}

/// The secret that flows are spread under (F-4). Never shown, not even by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct HashSeed(pub [u8; 32]);

/// How packets leave an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// What comes in on one of two ports leaves by the other.
    Wire,
    /// What comes in on one of its interfaces leaves by the longest match of its routes.
    Routed,
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MacAddress, String> {
        let expected = || format!("'{text}' must be a link-layer address such as 02:00:00:00:00:01");
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(expected)?;
            *byte = hex_byte(part.as_bytes()).ok_or_else(expected)?;
        }
        if parts.next().is_some() {
            return Err(expected());
        }
        if mac[0] & 1 == 1 {
            return Err(format!("'{text}' is a multicast address; it must be that of one station"));
        }
        if mac == [0; 6] {
            return Err(format!("'{text}' is no station's address"));
        }
        Ok(MacAddress(mac))
    }
}

impl FromStr for WireId {
    type Err = String;

    fn from_str(text: &str) -> Result<WireId, String> {
        text.strip_prefix("0x")
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(WireId)
            .ok_or_else(|| format!("'{text}' must be '0x' and 1 to 16 hexadecimal digits, or a number"))
    }
}

impl FromStr for InterfaceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<InterfaceAddress, String> {
        let parsed = text.split_once('/').and_then(|(address, length)| {
            let digits = length.bytes().all(|byte| byte.is_ascii_digit());
            let prefix_length = length.parse().ok().filter(|n| digits && (1..=32).contains(n))?;
            Some(InterfaceAddress { address: address.parse().ok()?, prefix_length })
        });
        let Some(parsed) = parsed else {
            return Err(format!("'{text}' must be an IPv4 address with its prefix, such as 192.0.2.1/24"));
        };
        let address = parsed.address;
        if address.is_unspecified()
            || address.is_loopback()
            || address.is_multicast()
            || address.is_broadcast()
        {
            return Err(format!("'{text}' must be the address of an interface on a network"));
        }
        if parsed.prefix_length < 31 && [0, !parsed.mask()].contains(&(address.to_bits() & !parsed.mask())) {
            return Err(format!(
                "'{text}' is a network's own or its broadcast address, and must be a host's"
            ));
        }
        Ok(parsed)
    }
}

impl InterfaceAddress {
    /// Whether `other` is on the same network.
    #[must_use]
    pub fn contains(&self, other: Ipv4Addr) -> bool {
        (self.address.to_bits() ^ other.to_bits()) & self.mask() == 0
    }

    fn mask(&self) -> u32 {
        u32::MAX << (32 - u32::from(self.prefix_length))
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Device, String> {
        if let Some(pci) = pci_address(text) {
            return Ok(Device::Pci(pci));
        }
        let name = text.split(',').next().unwrap_or_default();
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let virtual_device = name.starts_with("net_") || name.starts_with("virtio_user");
        if virtual_device && name.chars().all(allowed) && !text.contains(char::is_whitespace) {
            return Ok(Device::Virtual(text.to_owned()));
        }
        Err(format!(
            "'{text}' must be a PCI address such as 0000:3b:00.0, or a virtual device such as \
             net_af_packet0,iface=eth1"
        ))
    }
}

impl Device {
    /// What EAL calls the device: the PCI address, or the virtual device's name without its
    /// arguments.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Device::Pci(address) => address,
            Device::Virtual(device) => device.split(',').next().unwrap_or(device),
        }
    }

    /// The value of a virtual device's argument.
    #[must_use]
    pub fn argument(&self, key: &str) -> Option<&str> {
        match self {
            Device::Pci(_) => None,
            Device::Virtual(device) => device
                .split(',')
                .skip(1)
                .filter_map(|argument| argument.split_once('='))
                .find_map(|(name, value)| (name == key).then_some(value)),
        }
    }
}

impl FromStr for HashSeed {
    type Err = String;

    fn from_str(text: &str) -> Result<HashSeed, String> {
        // The text is a secret, so that the refusal does not repeat it.
        let expected = || format!("it has {} characters and must be 64 hexadecimal digits", text.len());
        let mut seed = [0; 32];
        if text.len() != 64 {
            return Err(expected());
        }
        for (byte, digits) in seed.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte =
                hex_byte(digits).ok_or("it has characters other than the 64 hexadecimal digits expected")?;
        }
        Ok(HashSeed(seed))
    }
}

impl FromStr for EndpointKind {
    type Err = String;

    fn from_str(text: &str) -> Result<EndpointKind, String> {
        match text {
            "wire" => Ok(EndpointKind::Wire),
            "routed" => Ok(EndpointKind::Routed),
            other => Err(format!("'{other}' must be one of ['wire', 'routed']")),
        }
    }
}

/// Two hexadecimal digits.
fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
    match digits {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// `text` as `domain:bus:device.function` in lower case; the domain may be left out.
fn pci_address(text: &str) -> Option<String> {
    let (bus_device, function) = text.split_once('.')?;
    let parts: Vec<&str> = bus_device.split(':').collect();
    let (domain, bus, device) = match parts[..] {
        [bus, device] => ("0000", bus, device),
        [domain, bus, device] => (domain, bus, device),
        _ => return None,
    };
    let hex = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let function_ok = matches!(function.as_bytes(), [b'0'..=b'7']);
    if hex(domain, 4) && hex(bus, 2) && hex(device, 2) && function_ok {
        Some(format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
    } else {
        None
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Display for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Pci(text) | Device::Virtual(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSeed(secret)")
    }
}

/// Reads from a string, and has that string's form in the JSON Schema.
macro_rules! from_string {
    ($type:ident, $expecting:literal, $schema:tt) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($type))
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

from_string!(MacAddress, "a link-layer address in a string", {
    "type": "string", "pattern": "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$",
    "examples": ["02:00:00:00:00:01"]
});
from_string!(InterfaceAddress, "an IPv4 address with its prefix in a string", {
    "type": "string", "pattern": "^[0-9]+(\\.[0-9]+){3}/[0-9]+$", "examples": ["192.0.2.1/24"]
});
from_string!(Device, "a PCI address or a virtual device in a string", {
    "type": "string", "examples": ["0000:3b:00.0", "net_af_packet0,iface=eth1"]
});
from_string!(HashSeed, "64 hexadecimal digits in a string", {
    "type": "string", "pattern": "^[0-9A-Fa-f]{64}$"
});
from_string!(EndpointKind, "an endpoint's kind in a string", {
    "type": "string", "enum": ["wire", "routed"]
});

impl<'de> Deserialize<'de> for WireId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Id;

        impl Visitor<'_> for Id {
            type Value = WireId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 64-bit id: '0x' and hexadecimal digits in a string, or a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<WireId, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<WireId, E> {
                Ok(WireId(id))
            }

            fn visit_i64<E: de::Error>(self, id: i64) -> Result<WireId, E> {
                u64::try_from(id)
                    .map(WireId)
                    .map_err(|_| E::custom(format!("the id {id} must not be negative")))
            }
        }

        deserializer.deserialize_any(Id)
    }
}

impl Serialize for WireId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for WireId {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("WireId")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^0x[0-9A-Fa-f]{1,16}$", "examples": ["0x00000000000000a1"] }
        ]})
    }
}
