//! `register-targets`, `deregister-targets` (O-3, T-3, T-7).

#![forbid(unsafe_code)]

use super::fault;
use crate::control::model::{Change, GENEVE_PORT, TargetChange, TargetDescription, Weight, Zone};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::socket::service::Applied;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

pub(super) fn register(table: &mut Dispatcher) {
    table.change(
        "register-targets",
        "Registers targets with a target group, or changes the zone or weight of registered ones.",
        register_targets,
    );
    table.change(
        "deregister-targets",
        "Deregisters targets: new flows go elsewhere, existing ones have the deregistration delay to end.",
        deregister_targets,
    );
}

/// Targets to register. All are, or none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct RegisterTargets {
    /// The target group's ARN or name.
    pub target_group_arn: String,
    /// At least one.
    pub targets: Vec<TargetToRegister>,
}

/// A target to register. What is not given keeps its value, if the target is there already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct TargetToRegister {
    /// Its IPv4 address.
    pub id: Ipv4Addr,
    /// 6081, if it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Its zone, or `all` for a target that serves every zone; `all` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Its share of new flows relative to the other targets; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
}

/// Targets to deregister.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DeregisterTargets {
    /// The target group's ARN or name.
    pub target_group_arn: String,
    /// At least one; one that is not registered is no error.
    pub targets: Vec<TargetName>,
}

/// A target by its address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct TargetName {
    /// Its IPv4 address.
    pub id: Ipv4Addr,
    /// 6081, if it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// What became of the targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Registrations {
    /// Those that are other than they were; a target that was as asked already is not among them.
    pub changed: Vec<Registration>,
    /// The configuration's number, this change included.
    pub generation: u64,
}

/// What became of one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Registration {
    /// Its address.
    pub id: Ipv4Addr,
    /// `registered`, `updated`, `reregistered` (it was draining), `draining` or `removed`.
    pub change: String,
}

fn register_targets(call: &Call<'_>, asked: RegisterTargets) -> Result<Registrations, RpcError> {
    let targets = asked
        .targets
        .into_iter()
        .enumerate()
        .map(|(index, target)| target.read().map_err(|error| under(index, error)))
        .collect::<Result<_, _>>()?;
    apply(call, &Change::RegisterTargets { target_group: asked.target_group_arn, targets })
}

fn deregister_targets(call: &Call<'_>, asked: DeregisterTargets) -> Result<Registrations, RpcError> {
    let targets = asked
        .targets
        .into_iter()
        .enumerate()
        .map(|(index, target)| {
            check_port(target.port).map(|()| target.id).map_err(|error| under(index, error))
        })
        .collect::<Result<_, _>>()?;
    let now_unix_ms = call.service.now_unix_ms();
    apply(call, &Change::DeregisterTargets { target_group: asked.target_group_arn, targets, now_unix_ms })
}

impl TargetToRegister {
    fn read(self) -> Result<TargetDescription, RpcError> {
        check_port(self.port)?;
        let zone = match self.availability_zone {
            None => None,
            Some(zone) if zone == Zone::ALL => Some(None),
            Some(zone) => {
                let zone = Zone::try_from(zone)
                    .map_err(|fault| RpcError::invalid_params("AvailabilityZone", fault))?;
                Some(Some(zone))
            }
        };
        Ok(TargetDescription { address: self.id, zone, weight: self.weight })
    }
}

/// O-2: there is no other port than GENEVE's.
fn check_port(port: Option<u16>) -> Result<(), RpcError> {
    match port {
        None | Some(GENEVE_PORT) => Ok(()),
        Some(other) => {
            let message = format!("the port '{other}' must be {GENEVE_PORT}, or left out");
            Err(RpcError::invalid_params("Port", message))
        }
    }
}

/// `error` of the target at `index`.
fn under(index: usize, error: RpcError) -> RpcError {
    let inner = error.data.path.clone().unwrap_or_default();
    error.at(format!("Targets[{index}].{inner}"))
}

fn apply(call: &Call<'_>, change: &Change) -> Result<Registrations, RpcError> {
    let Applied { generation, outcome } = call
        .service
        .apply(change)
        .map_err(|error| fault::of_change(error, "TargetGroupArn", &call.service.state()))?;
    let changed = outcome
        .targets()
        .map(|(_, id, change)| Registration { id, change: word(change).to_owned() })
        .collect();
    Ok(Registrations { changed, generation })
}

fn word(change: TargetChange) -> &'static str {
    match change {
        TargetChange::Registered => "registered",
        TargetChange::Updated => "updated",
        TargetChange::Reregistered => "reregistered",
        TargetChange::Draining => "draining",
        TargetChange::Removed => "removed",
    }
}
