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

/// Terraform sends the VPC that it was given none of as an empty one.
#[expect(clippy::unnecessary_wraps, reason = "it stands where others refuse")]
pub fn no_empty_vpc(params: &mut Fields) -> Result<(), Fault> {
    if params.get("VpcId").is_some_and(|vpc| *vpc == "") {
        params.remove("VpcId");
    }
    Ok(())
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

/// Listeners of other load balancers may stick to one of several target groups; here the word is taken where it
/// says nothing.
pub fn no_stickiness(params: &mut Fields) -> Result<(), Fault> {
    for action in items(params, "DefaultActions") {
        let config = action.get_mut("ForwardConfig").and_then(Value::as_object_mut);
        let sticky = config.and_then(|config| config.remove("TargetGroupStickinessConfig"));
        if sticky.is_some_and(|sticky| sticky["Enabled"] == true) {
            return Err(Fault::new(
                "InvalidLoadBalancerAction",
                "A Gateway Load Balancer's listener has no stickiness: it is an attribute of the target group",
            ));
        }
    }
    Ok(())
}

/// The structures in the list `name`.
fn items<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    fields.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}
