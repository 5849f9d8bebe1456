//! What the API and the socket's methods say differently.

use serde_json::{Map, Value, json};

use super::super::fault::Fault;
use crate::control::model::GENEVE_PORT;

type Fields = Map<String, Value>;

/// The parameters are the method's own.
#[expect(clippy::unnecessary_wraps, reason = "it stands where others refuse")]
pub fn as_it_is(_: &mut Fields) -> Result<(), Fault> {
    Ok(())
}

/// The answer is the method's own.
pub fn as_answered(_: &mut Fields) {}

/// A load balancer of no type would be an application's: nobody who asks for that is given a gateway.
pub fn a_gateway(params: &mut Fields) -> Result<(), Fault> {
    match params.get("Type").and_then(Value::as_str) {
        Some("gateway") => Ok(()),
        Some(other) => {
            Err(Fault::invalid(format!("The type '{other}' is not served here: it must be 'gateway'")))
        }
        None => Err(Fault::invalid(
            "The type must be given as 'gateway': without one it is 'application', which is not served here",
        )),
    }
}

/// One load balancer, where the method takes several.
#[expect(clippy::unnecessary_wraps, reason = "it stands where others refuse")]
pub fn that_load_balancer(params: &mut Fields) -> Result<(), Fault> {
    if let Some(arn) = params.remove("LoadBalancerArn") {
        params.insert("LoadBalancerArns".to_owned(), json!([arn]));
    }
    Ok(())
}

/// The load balancer is there, and has no capacity reserved.
pub fn nothing_reserved(result: &mut Fields) {
    result.insert("DecreaseRequestsRemaining".to_owned(), json!(0));
    result.insert("CapacityReservationState".to_owned(), json!([]));
}

/// The tunnels' addresses are IPv4, and the method takes no other.
pub fn geneve(params: &mut Fields) -> Result<(), Fault> {
    match params.remove("IpAddressType").as_ref().and_then(Value::as_str) {
        None | Some("ipv4") => Ok(()),
        Some(other) => Err(Fault::invalid(format!(
            "The IP address type '{other}' of a GENEVE target group must be 'ipv4'"
        ))),
    }
}

/// The port that is checked, as a number.
pub fn checked_port(result: &mut Fields) {
    for described in items(result, "TargetHealthDescriptions") {
        let port = described.get_mut("HealthCheckPort");
        if let Some(port) = port.filter(|port| **port == "traffic-port") {
            *port = GENEVE_PORT.to_string().into();
        }
    }
}

/// `ForwardConfig` with one target group says what `TargetGroupArn` says, which is what the method takes.
pub fn one_forward(params: &mut Fields) -> Result<(), Fault> {
    for (index, action) in items(params, "DefaultActions").enumerate() {
        // The order of one action among one.
        action.remove("Order");
        let Some(mut config) = action.remove("ForwardConfig") else { continue };
        let sticky = config.pointer("/TargetGroupStickinessConfig/Enabled");
        if sticky.is_some_and(|sticky| *sticky == true) {
            return Err(Fault::new(
                "InvalidLoadBalancerAction",
                "A Gateway Load Balancer's listener has no stickiness: it is an attribute of the target group",
            ));
        }
        let groups = config.get_mut("TargetGroups").and_then(Value::as_array_mut);
        let Some(groups) = groups.filter(|groups| !groups.is_empty()) else { continue };
        if groups.len() > 1 {
            return Err(Fault::new(
                "TooManyUniqueTargetGroupsPerLoadBalancer",
                "A Gateway Load Balancer's listener forwards to one target group",
            ));
        }
        let Some(arn) = groups[0].get_mut("TargetGroupArn").map(Value::take) else {
            return Err(Fault::invalid(format!(
                "DefaultActions.member.{}.ForwardConfig.TargetGroups.member.1.TargetGroupArn is missing",
                index + 1
            )));
        };
        match action.get("TargetGroupArn") {
            Some(other) if *other != arn => {
                return Err(Fault::invalid(format!(
                    "DefaultActions.member.{} names one target group and its ForwardConfig another",
                    index + 1
                )));
            }
            _ => action.insert("TargetGroupArn".to_owned(), arn),
        };
    }
    Ok(())
}

/// The actions of listeners and rules in both of the ways to say them.
pub fn with_forward_config(result: &mut Fields) {
    for (objects, list) in [("Listeners", "DefaultActions"), ("Rules", "Actions")] {
        for object in items(result, objects) {
            for action in items(object, list) {
                if let Some(arn) = action.get("TargetGroupArn").cloned() {
                    let config = json!({"TargetGroups": [{"TargetGroupArn": arn}]});
                    action.entry("ForwardConfig").or_insert(config);
                }
            }
        }
    }
}

/// The structures in the list `name`.
fn items<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    fields.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}
