//! What would become of a packet, and why (`flowgate explain`).
//!
//! The workers say what they would do ([`enquiry`](crate::datapath::enquiry)); here their answer is put into
//! words: what each step rests on, the rule behind it, and the command that would change it. Nothing is decided
//! here, so that an explanation cannot drift from what packets meet. [`frame`] makes a frame of a tuple,
//! [`story`] an [`Explanation`](super::socket::views::Explanation) of a worker's judgement, and [`words`] has a
//! sentence for each [`Reason`](crate::datapath::decide::account::Reason). `core/explain.rs` asks the workers.

#![forbid(unsafe_code)]

pub mod frame;
#[cfg(test)]
pub mod given;
pub mod story;
pub mod words;

use std::net::IpAddr;

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The endpoint that it comes in by; needed where there are several, and neither a port nor a cookie says it.
    pub endpoint: Option<String>,
    /// The port that it comes in by; none: the endpoint's first, or, for GENEVE to this gateway, the target side's.
    pub port: Option<String>,
    /// The packets.
    pub packets: Packets,
}

/// Which packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packets {
    /// One with this tuple.
    Tuple(Tuple),
    /// The next one of the flow that has this cookie.
    OfCookie {
        /// The cookie.
        cookie: u32,
        /// With these TCP flags.
        flags: u8,
        /// From the side that answers.
        from_responder: bool,
    },
    /// These frames; `ip_only`: from their IP headers on.
    Frames {
        /// Their bytes.
        frames: Vec<Vec<u8>>,
        /// Whether there is no link header in front.
        ip_only: bool,
    },
}

/// A packet by what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// The IP protocol.
    pub protocol: u8,
    /// From where.
    pub source: (IpAddr, u16),
    /// To where; of the same version.
    pub destination: (IpAddr, u16),
    /// TCP's flags.
    pub flags: u8,
    /// Bytes of payload.
    pub payload: u16,
}

/// Why there is no explanation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExplained {
    /// There is no such endpoint.
    #[error("Endpoint '{0}' not found")]
    NoEndpoint(String),
    /// There are several, and which one is meant is not said.
    #[error("which endpoint is meant is not said: there are {0}")]
    WhichEndpoint(String),
    /// There is no such port.
    #[error("Port '{0}' not found")]
    NoPort(String),
    /// No flow of this node has the cookie.
    #[error("no flow of this node has the cookie '{0:08x}'")]
    NoFlow(u32),
    /// The cookie is of a packet that was sent without state.
    #[error(
        "the cookie '{0:08x}' is that of a packet that was sent without state, of which no flow is known (F-12)"
    )]
    Stateless(u32),
    /// The workers do not answer.
    #[error("{0}")]
    Unavailable(String),
}
