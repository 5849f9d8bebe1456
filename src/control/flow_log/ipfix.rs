//! Records as IPFIX (RFC 7011) over UDP.
//!
//! A message has a header, then sets: templates, which say what the fields of records are, and records. There are a
//! template for IPv4 flows, one for IPv6 flows, and an options template for what RFC 7011 section 4.3 calls the
//! reliability of the exporting process: how much was not sent. Over UDP nobody knows what arrived, so that templates
//! are sent again every [`TEMPLATES_EVERY`]. The counts are deltas, those of the way back are "reverse" elements (RFC
//! 5103), and what the target returned is what the field's standard calls "post": as seen behind a middlebox.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{getsockopt, sockopt};

use super::record::Record;
use crate::control::wall;

/// How often templates and the account of what was lost are sent.
pub const TEMPLATES_EVERY: Duration = Duration::from_secs(30);

/// RFC 7011 3.1.
const VERSION: u16 = 10;
const HEADER: usize = 16;
const SET_HEADER: usize = 4;
/// RFC 7011 3.3.2.
const TEMPLATE_SET: u16 = 2;
const OPTIONS_TEMPLATE_SET: u16 = 3;
/// Templates have numbers from 256 on.
const V4_FLOW: u16 = 256;
const V6_FLOW: u16 = 257;
const RELIABILITY: u16 = 258;

/// The enterprise whose elements are those of the way back (RFC 5103).
const REVERSE: u32 = 29_305;
/// The length of a field that says its own length.
const VARIABLE: u16 = 0xffff;
/// Bytes of a name that are sent: their length then takes one byte.
const MAX_NAME: usize = 254;

/// An element and its length: number, enterprise (0: none), bytes.
type Field = (u16, u32, u16);

/// What both templates begin with, but for the addresses.
const TIMES: [Field; 2] = [(152, 0, 8), (153, 0, 8)];
const V4_ADDRESSES: [Field; 2] = [(8, 0, 4), (12, 0, 4)];
const V6_ADDRESSES: [Field; 2] = [(27, 0, 16), (28, 0, 16)];
/// Ports, protocol, flowEndReason, ipNextHopIPv4Address, flowId, deltas, deltas behind the target, interfaceName,
/// applicationName.
const REST: [Field; 16] = [
    (7, 0, 2),
    (11, 0, 2),
    (4, 0, 1),
    (136, 0, 1),
    (15, 0, 4),
    (148, 0, 8),
    (2, 0, 8),
    (1, 0, 8),
    (2, REVERSE, 8),
    (1, REVERSE, 8),
    (24, 0, 8),
    (23, 0, 8),
    (24, REVERSE, 8),
    (23, REVERSE, 8),
    (82, 0, VARIABLE),
    (96, 0, VARIABLE),
];
/// exportingProcessId (the scope), notSentFlowTotalCount, notSentPacketTotalCount, notSentOctetTotalCount,
/// samplingProbability.
const RELIABILITY_FIELDS: [Field; 5] = [(144, 0, 4), (165, 0, 8), (166, 0, 8), (167, 0, 8), (311, 0, 8)];

/// The longest message where nobody says how long packets to the collector may be (RFC 7011 10.3.3).
const SHORT: usize = 512;
/// And where that is known, at most; less what IPv6 and UDP put in front.
const LONG: usize = 1500 - 48;

/// What of a stream was not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotSent {
    /// Records.
    pub records: u64,
    /// Packets that these were about.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
}

/// Builds messages. Knows no socket.
#[derive(Debug)]
pub struct Messages {
    domain: u32,
    longest: usize,
    message: Vec<u8>,
    /// Where the set begins that records are added to, and of which template it is.
    set: Option<(usize, u16)>,
    /// Records in the message.
    records: u32,
    /// Records in the messages before it (RFC 7011 3.1).
    sequence: u32,
}

impl Messages {
    /// Messages of a domain, none longer than this.
    #[must_use]
    pub fn new(domain: u32, longest: usize) -> Messages {
        let mut messages =
            Messages { domain, longest, message: Vec::new(), set: None, records: 0, sequence: 0 };
        messages.begin();
        messages
    }

    fn begin(&mut self) {
        self.message.clear();
        self.message.resize(HEADER, 0);
        (self.set, self.records) = (None, 0);
    }

    /// Whether there is nothing in the message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.message.len() == HEADER
    }

    /// Adds the templates. There must be room: they go into an empty message.
    pub fn add_templates(&mut self) {
        self.close_set();
        let flow = |addresses: [Field; 2]| TIMES.into_iter().chain(addresses).chain(REST).collect::<Vec<_>>();
        self.open_set(TEMPLATE_SET);
        for (number, fields) in [(V4_FLOW, flow(V4_ADDRESSES)), (V6_FLOW, flow(V6_ADDRESSES))] {
            self.put(&number.to_be_bytes());
            self.put_fields(&[], &fields);
        }
        self.close_set();
        self.open_set(OPTIONS_TEMPLATE_SET);
        self.put(&RELIABILITY.to_be_bytes());
        // One of the fields says what the others are of.
        self.put_fields(&1_u16.to_be_bytes(), &RELIABILITY_FIELDS);
        self.close_set();
    }

    fn put_fields(&mut self, scope: &[u8], fields: &[Field]) {
        #[expect(clippy::cast_possible_truncation, reason = "some twenty")]
        self.put(&(fields.len() as u16).to_be_bytes());
        self.put(scope);
        for (number, enterprise, len) in fields {
            let flag = if *enterprise == 0 { 0 } else { 0x8000 };
            self.put(&(number | flag).to_be_bytes());
            self.put(&len.to_be_bytes());
            if *enterprise != 0 {
                self.put(&enterprise.to_be_bytes());
            }
        }
    }

    /// Adds what was not sent so far by the process of this number, and the part of all flows that is told of. There
    /// must be room.
    pub fn add_reliability(&mut self, process: u32, not_sent: NotSent, probability: f64) {
        self.enter_set(RELIABILITY);
        self.put(&process.to_be_bytes());
        for count in [not_sent.records, not_sent.packets, not_sent.bytes] {
            self.put(&count.to_be_bytes());
        }
        self.put(&probability.to_be_bytes());
        self.records += 1;
    }

    /// Adds a record. False: the message has no room for it and has to be taken first.
    #[must_use]
    pub fn add(&mut self, record: &Record<'_>) -> bool {
        let before = (self.message.len(), self.set);
        let addresses = match (record.source.ip(), record.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                [source, destination].map(|ip| ip.octets().to_vec())
            }
            (source, destination) => [source, destination].map(|ip| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            }),
        };
        self.enter_set(if record.source.is_ipv4() { V4_FLOW } else { V6_FLOW });
        self.put(&unix_ms(record.first).to_be_bytes());
        self.put(&unix_ms(record.last).to_be_bytes());
        addresses.iter().for_each(|address| self.put(address));
        for port in [record.source.port(), record.destination.port()] {
            self.put(&(if record.has_ports() { port } else { 0 }).to_be_bytes());
        }
        self.put(&[record.protocol, record.reason.flow_end_reason()]);
        self.put(&record.target.target.octets());
        self.put(&u64::from(record.cookie).to_be_bytes());
        for counted in [record.forward, record.reverse, record.returned_forward, record.returned_reverse] {
            self.put(&counted.packets.to_be_bytes());
            self.put(&counted.bytes.to_be_bytes());
        }
        self.put_name(record.endpoint);
        self.put_name(&format!("{}/{}", record.target.load_balancer, record.target.target_group));
        if self.message.len() > self.longest {
            self.message.truncate(before.0);
            self.set = before.1;
            return false;
        }
        self.records += 1;
        true
    }

    fn put_name(&mut self, name: &str) {
        let mut end = name.len().min(MAX_NAME);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 254")]
        self.put(&[end as u8]);
        self.put(name.get(..end).unwrap_or_default().as_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.message.extend_from_slice(bytes);
    }

    /// Records of one template after the other are in one set.
    fn enter_set(&mut self, number: u16) {
        if self.set.is_none_or(|(_, open)| open != number) {
            self.close_set();
            self.open_set(number);
        }
    }

    fn open_set(&mut self, number: u16) {
        self.set = Some((self.message.len(), number));
        self.put(&number.to_be_bytes());
        self.put(&[0; SET_HEADER - 2]);
    }

    fn close_set(&mut self) {
        if let Some((at, _)) = self.set.take() {
            let len = u16::try_from(self.message.len() - at).unwrap_or(u16::MAX);
            self.write_at(at + 2, &len.to_be_bytes());
        }
    }

    fn write_at(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.message.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Takes the message and how many records are in it, and begins the next.
    pub fn take(&mut self, now: SystemTime) -> (Vec<u8>, u32) {
        self.close_set();
        let len = u16::try_from(self.message.len()).unwrap_or(u16::MAX);
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.write_at(0, &VERSION.to_be_bytes());
        self.write_at(2, &len.to_be_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "RFC 7011 3.1 has 32 bits for it")]
        self.write_at(4, &(seconds as u32).to_be_bytes());
        self.write_at(8, &self.sequence.to_be_bytes());
        self.write_at(12, &self.domain.to_be_bytes());
        self.sequence = self.sequence.wrapping_add(self.records);
        let (message, records) = (self.message.clone(), self.records);
        self.begin();
        (message, records)
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Sends messages to a collector.
#[derive(Debug)]
pub struct Exporter {
    socket: UdpSocket,
    messages: Messages,
    probability: f64,
    templates_at: Option<Instant>,
    told: NotSent,
}

/// Records that were not sent, and why.
#[derive(Debug)]
pub struct NotExported {
    /// How many.
    pub records: u64,
    /// Why.
    pub error: io::Error,
}

impl Exporter {
    /// To this collector; of all flows one in `one_in` is told of.
    ///
    /// # Errors
    /// If there is no way to the collector.
    pub fn new(collector: SocketAddr, domain: u32, one_in: u64) -> io::Result<Exporter> {
        let any: IpAddr = match collector.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(collector)?;
        // What the kernel has no room for is lost; it is not waited for.
        socket.set_nonblocking(true)?;
        let known = getsockopt(&socket, sockopt::IpMtu).ok().and_then(|mtu| usize::try_from(mtu).ok());
        let longest = known.map_or(SHORT, |mtu| mtu.saturating_sub(48).clamp(SHORT, LONG));
        #[expect(clippy::cast_precision_loss, reason = "at most a million")]
        let probability = 1.0 / one_in as f64;
        let messages = Messages::new(domain, longest);
        Ok(Exporter { socket, messages, probability, templates_at: None, told: NotSent::default() })
    }

    /// Adds a record, and sends what there is no more room behind.
    ///
    /// # Errors
    /// What was not sent is lost then.
    pub fn add(&mut self, record: &Record<'_>) -> Result<(), NotExported> {
        if self.messages.add(record) {
            return Ok(());
        }
        let sent = self.flush();
        // A record fits into an empty message.
        if self.messages.add(record) {
            sent
        } else {
            Err(NotExported { records: 1, error: io::ErrorKind::InvalidInput.into() })
        }
    }

    /// To be called often: sends templates when they are due, and what was not sent when that is more than was told.
    ///
    /// # Errors
    /// As [`flush`](Exporter::flush).
    pub fn tend(&mut self, not_sent: NotSent, now: Instant) -> Result<(), NotExported> {
        let due = self.templates_at.is_none_or(|at| now.saturating_duration_since(at) >= TEMPLATES_EVERY);
        if !due && not_sent == self.told {
            return Ok(());
        }
        let sent = self.flush();
        if due {
            self.templates_at = Some(now);
            self.messages.add_templates();
        }
        self.told = not_sent;
        self.messages.add_reliability(std::process::id(), not_sent, self.probability);
        sent.and(self.flush())
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// What was not sent is lost then.
    pub fn flush(&mut self) -> Result<(), NotExported> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let (message, records) = self.messages.take(wall::now());
        // A refusal is of an earlier message, and told once.
        let sent = self.socket.send(&message).or_else(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => self.socket.send(&message),
            _ => Err(error),
        });
        sent.map(drop).map_err(|error| NotExported { records: records.into(), error })
    }
}

#[cfg(test)]
mod tests;
