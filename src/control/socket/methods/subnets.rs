//! `set-subnets` and `set-ip-address-type`, and what a request says of subnets.
//!
//! This node has zones and no subnets. Those that AWS's tools name are kept and shown. Which zone one
//! stands for is said by the table `[subnets]` of the node's configuration, where a subnet that is not in
//! it does not exist; without such a table every subnet does, and the load balancer serves every zone.

#![forbid(unsafe_code)]

use super::balancers::{AvailabilityZone, changed};
use super::fault;
use crate::control::model::{Change, ForeignId, IpAddressType, Placement, Zone};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::socket::service::Service;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.change(
        "set-subnets",
        "Has a load balancer serve the zones of other subnets, or other zones, in place of those that it had.",
        set_subnets,
    );
    table.change("set-ip-address-type", "Lets IPv6 travel inside, or no longer.", set_ip_address_type);
}

/// A subnet as AWS has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct SubnetMapping {
    /// What AWS's tools call it.
    pub subnet_id: ForeignId,
    /// Not for a gateway: refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_id: Option<String>,
    /// Not for a gateway: refused.
    #[serde(rename = "PrivateIPv4Address", default, skip_serializing_if = "Option::is_none")]
    pub private_ipv4_address: Option<String>,
    /// Not for a gateway: refused.
    #[serde(rename = "IPv6Address", default, skip_serializing_if = "Option::is_none")]
    pub ipv6_address: Option<String>,
}

/// A load balancer and where it is to serve from now on: subnets, subnet mappings or zones, one of the three.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct SetSubnets {
    /// Its ARN or name.
    pub load_balancer_arn: String,
    /// The subnets whose zones it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<ForeignId>,
    /// The same in AWS's longer form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnet_mappings: Vec<SubnetMapping>,
    /// The names of the zones that it serves, or `all`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub availability_zones: Vec<String>,
    /// What may travel inside GENEVE; as it was if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address_type: Option<IpAddressType>,
}

/// Where a load balancer serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Subnets {
    /// The zones it serves; empty for every zone.
    pub availability_zones: Vec<AvailabilityZone>,
    /// What may travel inside GENEVE.
    pub ip_address_type: IpAddressType,
    /// The configuration's number, this change included.
    pub generation: u64,
}

/// A load balancer and what may travel inside GENEVE from now on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct SetIpAddressType {
    /// Its ARN or name.
    pub load_balancer_arn: String,
    /// `ipv4` or `dualstack`.
    pub ip_address_type: IpAddressType,
}

/// What may travel inside GENEVE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct IpAddressTypeSet {
    /// `ipv4` or `dualstack`.
    pub ip_address_type: IpAddressType,
    /// The configuration's number, this change included.
    pub generation: u64,
}

fn set_subnets(call: &Call<'_>, asked: SetSubnets) -> Result<Subnets, RpcError> {
    let SetSubnets { load_balancer_arn, subnets, subnet_mappings, availability_zones, ip_address_type } =
        asked;
    let everywhere = availability_zones == [Zone::ALL];
    let zones = if everywhere { Vec::new() } else { zones(availability_zones)? };
    let placement = match placement(call.service, subnets, subnet_mappings, zones)? {
        Some(placement) if !everywhere => placement,
        None if everywhere => Placement::everywhere(),
        None => {
            let message = "You must specify either subnets or subnet mappings";
            return Err(RpcError::invalid_params("Subnets", message));
        }
        Some(_) => return Err(not_both()),
    };
    let change = Change::SetSubnets { load_balancer: load_balancer_arn.clone(), placement, ip_address_type };
    let generation = changed(call, &change, "LoadBalancerArn")?;
    let state = call.service.state();
    let balancer = state
        .load_balancer(&load_balancer_arn)
        .map_err(|error| fault::of_model(error, "LoadBalancerArn", &state))?;
    Ok(Subnets {
        availability_zones: AvailabilityZone::of(&balancer.placement),
        ip_address_type: balancer.ip_address_type,
        generation,
    })
}

fn set_ip_address_type(call: &Call<'_>, asked: SetIpAddressType) -> Result<IpAddressTypeSet, RpcError> {
    let SetIpAddressType { load_balancer_arn, ip_address_type } = asked;
    let change = Change::SetIpAddressType { load_balancer: load_balancer_arn, ip_address_type };
    let generation = changed(call, &change, "LoadBalancerArn")?;
    Ok(IpAddressTypeSet { ip_address_type, generation })
}

fn zones(names: Vec<String>) -> Result<Vec<Zone>, RpcError> {
    let zone = |(index, name)| {
        Zone::try_from(name)
            .map_err(|fault| RpcError::invalid_params(format!("AvailabilityZones[{index}]"), fault))
    };
    names.into_iter().enumerate().map(zone).collect()
}

/// Where a request wants a load balancer to serve; none if it does not say.
pub(super) fn placement(
    service: &dyn Service,
    subnets: Vec<ForeignId>,
    mappings: Vec<SubnetMapping>,
    zones: Vec<Zone>,
) -> Result<Option<Placement>, RpcError> {
    let given = [!subnets.is_empty(), !mappings.is_empty(), !zones.is_empty()];
    if given.into_iter().filter(|given| *given).count() > 1 {
        return Err(not_both());
    }
    if !zones.is_empty() {
        return Ok(Some(Placement::of_zones(zones)));
    }
    let (parameter, subnets) = if mappings.is_empty() {
        ("Subnets", subnets)
    } else {
        for (index, mapping) in mappings.iter().enumerate() {
            mapping.check(index)?;
        }
        ("SubnetMappings", mappings.into_iter().map(|mapping| mapping.subnet_id).collect())
    };
    if subnets.is_empty() {
        return Ok(None);
    }
    let known = service.subnets();
    let mut placed = Vec::with_capacity(subnets.len());
    for (index, id) in subnets.into_iter().enumerate() {
        let zone = known.get(&id).cloned();
        if zone.is_none() && !known.is_empty() {
            let names: Vec<&str> = known.keys().map(ForeignId::as_str).collect();
            return Err(RpcError::refused("SubnetNotFound", format!("The subnet ID '{id}' does not exist"))
                .at(format!("{parameter}[{index}]"))
                .hint(format!("the node's configuration has the subnets {}", names.join(", "))));
        }
        placed.push((id, zone));
    }
    Placement::of_subnets(placed).map(Some).map_err(|error| {
        let path = format!("{parameter}{}", error.path.unwrap_or_default());
        RpcError::refused(error.code.as_str(), error.message).at(path)
    })
}

fn not_both() -> RpcError {
    let message = "You must specify either subnets, subnet mappings or zones, but only one of these";
    RpcError::invalid_params("Subnets", message)
}

impl SubnetMapping {
    /// Gateways have no addresses of their own in their subnets.
    fn check(&self, index: usize) -> Result<(), RpcError> {
        for (parameter, given) in [
            ("AllocationId", &self.allocation_id),
            ("PrivateIPv4Address", &self.private_ipv4_address),
            ("IPv6Address", &self.ipv6_address),
        ] {
            if given.is_some() {
                let message = format!("{parameter} is not supported for load balancers with type 'gateway'");
                return Err(RpcError::refused("InvalidConfigurationRequest", message)
                    .at(format!("SubnetMappings[{index}].{parameter}")));
            }
        }
        Ok(())
    }
}
