//! `capture` and `stop-capture`: live packets, as the blocks of a pcapng file.

#![forbid(unsafe_code)]

use super::node::Nothing;
use crate::control::nearest::nearest;
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::socket::service::CaptureError;
use crate::control::socket::views::{CaptureQuery, CaptureStarted};
use crate::datapath::counters::DropReason;

pub(super) fn register(table: &mut Dispatcher) {
    table.admin_method(
        "capture",
        "Captures live packets, which follow as a pcapng file in notifications until the capture ends.",
        capture,
    );
    table.admin_method(
        "stop-capture",
        "Ends this connection's capture; what was captured before still follows.",
        stop_capture,
    );
}

fn capture(call: &Call<'_>, mut asked: CaptureQuery) -> Result<CaptureStarted, RpcError> {
    if call.session.is_capturing() {
        let message = "this connection captures already";
        return Err(
            RpcError::refused("CaptureInProgress", message).hint("call stop-capture, or connect again")
        );
    }
    let state = call.service.state();
    if let Some(reference) = asked.target_group_arn.take() {
        let group = state
            .target_group(&reference)
            .map_err(|error| super::fault::of_model(error, "TargetGroupArn", &state))?;
        asked.target_group_arn = Some(group.name.to_string());
    }
    if let Some(reference) = asked.load_balancer_arn.take() {
        let balancer = state
            .load_balancer(&reference)
            .map_err(|error| super::fault::of_model(error, "LoadBalancerArn", &state))?;
        asked.load_balancer_arn = Some(balancer.name.to_string());
    }
    let stream = call.service.capture(&asked).map_err(|error| of_capture(call, &error))?;
    call.session.begin_capture(stream)?;
    Ok(CaptureStarted {
        workers: u32::try_from(call.service.workers(std::time::Duration::from_secs(1)).len())
            .unwrap_or(u32::MAX),
        snap_len: asked.snap_len,
        packets_per_second: asked.packets_per_second,
        bytes: asked.bytes,
    })
}

fn of_capture(call: &Call<'_>, error: &CaptureError) -> RpcError {
    let told = error.to_string();
    match error {
        CaptureError::TooMany(_) => RpcError::refused("TooManyCaptures", told).hint("end one of them"),
        CaptureError::Unknown { parameter: "Endpoint", name } => {
            let names: Vec<_> =
                call.service.endpoints().into_iter().map(|endpoint| endpoint.endpoint_name).collect();
            RpcError::refused("EndpointNotFound", format!("Endpoint '{name}' not found"))
                .at("Endpoint")
                .hint(format!("the endpoints are {}", names.join(", ")))
        }
        CaptureError::Unknown { parameter: "Reasons", name } => {
            let refused =
                RpcError::invalid_params("Reasons", format!("packets are never dropped for '{name}'"));
            match nearest(name, DropReason::ALL.iter().map(|reason| reason.name())) {
                Some(meant) => refused.hint(format!("did you mean {meant}?")),
                None => refused.hint("get-counters lists the reasons"),
            }
        }
        CaptureError::Unknown { parameter, .. } => RpcError::refused("ValidationError", told)
            .at(*parameter)
            .hint("packets are of a target group whose load balancer has a listener that forwards to it"),
    }
}

fn stop_capture(call: &Call<'_>, Nothing {}: Nothing) -> Result<Nothing, RpcError> {
    if call.session.stop_capture() {
        return Ok(Nothing {});
    }
    let message = "this connection does not capture";
    Err(RpcError::refused("NoCapture", message).hint("a capture is stopped by the connection that began it"))
}
