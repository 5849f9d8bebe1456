//! `explain-flow`: what would become of packets, and why.

#![forbid(unsafe_code)]

use crate::control::explain::story::flags_from;
use crate::control::explain::{Asked, NotExplained, Packets, Tuple};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::{INTERNAL_ERROR, RpcError};
use crate::control::socket::views::{Explanation, Protocol};
use crate::wire::packet::protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

pub(super) fn register(table: &mut Dispatcher) {
    table.waiting_method(
        "explain-flow",
        "Says what would become of packets if they came in now, and why, step by step; changes nothing.",
        explain,
    );
}

/// Frames that one request explains, at most.
pub const MAX_FRAMES: usize = 256;

/// The longest frame that is explained: the largest IP packet under two tags.
const MAX_FRAME: usize = 65_575 + 22;

/// Which packets: `Frames`, or `Cookie`, or a tuple.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ExplainFlow {
    /// The endpoint that they come in by; needed where there are several and neither `Port` nor `Cookie` says which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The port that they come in by; the endpoint's first where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The IP protocol of the tuple; `tcp` where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Where the packet comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Its port; of ICMP the echo's identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Where it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Bytes of payload, up to 9,000; none where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 9000))]
    pub payload: Option<u16>,
    /// TCP's flags, a letter each: `F`, `S`, `R`, `P`, `A`, `U`, `E`, `W`. `A` where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
    /// The next packet of the flow that has this cookie, eight hexadecimal digits as `describe-flows` has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// With `Cookie`: from the side that did not begin the flow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_responder: bool,
    /// These frames, in hexadecimal digits, 256 at most; each as if it came in now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub frames: Vec<String>,
    /// The frames begin with their IP headers: a link header is put in front.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ip_only: bool,
}

/// What would become of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Explanations {
    /// In the order of the packets.
    pub explanations: Vec<Explanation>,
}

async fn explain(call: &Call<'_>, asked: ExplainFlow) -> Result<Explanations, RpcError> {
    let asked =
        Asked { endpoint: asked.endpoint.clone(), port: asked.port.clone(), packets: packets(&asked)? };
    let names = || -> Vec<String> {
        call.service.endpoints().into_iter().map(|endpoint| endpoint.endpoint_name).collect()
    };
    let explanations = call.service.explain(asked).await.map_err(|error| refusal(&error, names))?;
    Ok(Explanations { explanations })
}

fn refusal(error: &NotExplained, endpoints: impl FnOnce() -> Vec<String>) -> RpcError {
    let said = error.to_string();
    match error {
        NotExplained::NoEndpoint(_) => RpcError::refused("EndpointNotFound", said)
            .at("Endpoint")
            .hint(format!("the endpoints are {}", endpoints().join(", "))),
        NotExplained::WhichEndpoint(_) => {
            RpcError::invalid_params("Endpoint", said).hint("name the endpoint that the packet comes in by")
        }
        NotExplained::NoPort(_) => {
            RpcError::refused("PortNotFound", said).at("Port").hint("describe-ports lists the ports")
        }
        NotExplained::NoFlow(_) | NotExplained::Stateless(_) => RpcError::refused("FlowNotFound", said)
            .at("Cookie")
            .hint("describe-flows lists the flows and their cookies"),
        NotExplained::Unavailable(_) => {
            RpcError::new(INTERNAL_ERROR, "ServiceUnavailable", said).hint("repeat the request")
        }
    }
}

/// Which packets are meant: one of the three ways to say it, and no other.
fn packets(asked: &ExplainFlow) -> Result<Packets, RpcError> {
    let flags = match asked.flags.as_deref() {
        Some(letters) => flags_from(letters).map_err(|error| RpcError::invalid_params("Flags", error))?,
        None => 0x10,
    };
    let tuple = asked.source.is_some() || asked.destination.is_some();
    let ways =
        usize::from(tuple) + usize::from(asked.cookie.is_some()) + usize::from(!asked.frames.is_empty());
    if ways != 1 {
        let what = if ways == 0 { "nothing is" } else { "more than one way is" };
        let said = format!(
            "which packets are meant: {what} said; give Source and Destination, or Cookie, or Frames"
        );
        return Err(RpcError::invalid_params("params", said));
    }
    if !asked.frames.is_empty() {
        return frames(asked);
    }
    if let Some(cookie) = &asked.cookie {
        let digits = (1..=8).contains(&cookie.len()) && cookie.bytes().all(|byte| byte.is_ascii_hexdigit());
        let read = u32::from_str_radix(cookie, 16).ok().filter(|_| digits);
        let cookie = read.ok_or_else(|| {
            RpcError::invalid_params(
                "Cookie",
                format!("the cookie '{cookie}' must be eight hexadecimal digits"),
            )
        })?;
        return Ok(Packets::OfCookie { cookie, flags, from_responder: asked.from_responder });
    }
    one_tuple(asked, flags).map(Packets::Tuple)
}

fn one_tuple(asked: &ExplainFlow, flags: u8) -> Result<Tuple, RpcError> {
    let given = |address: Option<IpAddr>, path: &str| {
        address.ok_or_else(|| RpcError::invalid_params(path, format!("{path} is missing")))
    };
    let (source, destination) = (given(asked.source, "Source")?, given(asked.destination, "Destination")?);
    if source.is_ipv4() != destination.is_ipv4() {
        let said = format!("'{source}' and '{destination}' are of two versions of IP");
        return Err(RpcError::invalid_params("Destination", said));
    }
    let number = asked.protocol.map_or(protocol::TCP, |protocol| protocol.0);
    if matches!(
        number,
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::FRAGMENT | protocol::DESTINATION_OPTIONS
    ) {
        let said =
            format!("{number} is an extension header of IPv6 and no protocol: give the packet in Frames");
        return Err(RpcError::invalid_params("Protocol", said));
    }
    let payload = asked.payload.unwrap_or(0);
    if payload > 9000 {
        let said = format!("the payload '{payload}' must be between '0-9000' bytes inclusive");
        return Err(RpcError::invalid_params("Payload", said));
    }
    Ok(Tuple {
        protocol: number,
        source: (source, asked.source_port.unwrap_or(0)),
        destination: (destination, asked.destination_port.unwrap_or(0)),
        flags,
        payload,
    })
}

fn frames(asked: &ExplainFlow) -> Result<Packets, RpcError> {
    if asked.frames.len() > MAX_FRAMES {
        let said = format!("{} frames are too many: {MAX_FRAMES} are explained at once", asked.frames.len());
        return Err(RpcError::invalid_params("Frames", said));
    }
    let frames = asked.frames.iter().enumerate().map(|(place, digits)| {
        bytes(digits).filter(|bytes| bytes.len() <= MAX_FRAME).ok_or_else(|| {
            let said = format!("a frame must be pairs of hexadecimal digits, {MAX_FRAME} at most");
            RpcError::invalid_params(format!("Frames[{place}]"), said)
        })
    });
    Ok(Packets::Frames { frames: frames.collect::<Result<_, _>>()?, ip_only: asked.ip_only })
}

/// The bytes that pairs of hexadecimal digits stand for.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let pair = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(pair).collect() } else { None }
}
