//! AWS's shorthand for lists of structures: `Id=10.0.0.1,Weight=2`, `Key=stickiness.enabled,Value=true`.

#![forbid(unsafe_code)]

use crate::control::model::Weight;
use crate::control::socket::methods::attributes::Attribute;
use crate::control::socket::methods::balancers::Action;
use crate::control::socket::methods::groups::CodeMatcher;
use crate::control::socket::methods::registration::{TargetName, TargetToRegister};
use std::net::Ipv4Addr;

/// An attribute: `Key=KEY,Value=VALUE`. The value is all that follows, commas too.
pub(super) fn attribute(text: &str) -> Result<Attribute, String> {
    text.strip_prefix("Key=")
        .and_then(|rest| rest.split_once(",Value="))
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| Attribute { key: key.to_owned(), value: value.to_owned() })
        .ok_or_else(|| "expected Key=KEY,Value=VALUE".to_owned())
}

/// A listener's action: `Type=forward,TargetGroupArn=NAME|ARN`, or the target group alone.
pub(super) fn action(text: &str) -> Result<Action, String> {
    let (mut kind, mut target_group_arn) = (None, None);
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("Type", value)) => kind = Some(value.to_owned()),
            Some(("TargetGroupArn", value)) => target_group_arn = Some(value.to_owned()),
            Some((key, _)) => return Err(format!("'{key}' must be one of [Type, TargetGroupArn]")),
            None => target_group_arn = Some(part.to_owned()),
        }
    }
    let target_group_arn =
        target_group_arn.filter(|arn| !arn.is_empty()).ok_or("TargetGroupArn=NAME|ARN is missing")?;
    Ok(Action { kind: kind.unwrap_or_else(|| "forward".to_owned()), target_group_arn })
}

/// The codes of a matcher: `HttpCode=CODES`, or the codes alone.
pub(super) fn code_matcher(text: &str) -> Result<CodeMatcher, String> {
    match text.split_once('=') {
        None => Ok(CodeMatcher { http_code: text.to_owned() }),
        Some(("HttpCode", codes)) => Ok(CodeMatcher { http_code: codes.to_owned() }),
        Some((key, _)) => Err(format!("'{key}' must be HttpCode")),
    }
}

/// A target to name: `Id=ADDRESS[,Port=6081]`, or the address alone.
pub(super) fn target_name(text: &str) -> Result<TargetName, String> {
    let TargetToRegister { id, port, availability_zone, weight } = target(text)?;
    match (availability_zone, weight) {
        (None, None) => Ok(TargetName { id, port }),
        _ => Err("a target is named by its address alone: Id=ADDRESS".to_owned()),
    }
}

/// A target to register: `Id=ADDRESS[,Port=6081][,AvailabilityZone=ZONE][,Weight=N]`, or the address alone.
pub(super) fn target(text: &str) -> Result<TargetToRegister, String> {
    if let Ok(id) = text.parse() {
        return Ok(TargetToRegister { id, port: None, availability_zone: None, weight: None });
    }
    let (mut id, mut port, mut availability_zone, mut weight) = (None, None, None, None);
    for part in text.split(',') {
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("expected Id=ADDRESS, found '{part}'"))?;
        let again = match key {
            "Id" => id.replace(address(value)?).is_some(),
            "Port" => port.replace(number::<u16>(key, value)?).is_some(),
            "AvailabilityZone" => availability_zone.replace(value.to_owned()).is_some(),
            "Weight" => weight.replace(Weight::try_from(number::<u16>(key, value)?)?).is_some(),
            _ => return Err(format!("'{key}' must be one of [Id, Port, AvailabilityZone, Weight]")),
        };
        if again {
            return Err(format!("'{key}' is given twice"));
        }
    }
    let id = id.ok_or_else(|| "Id=ADDRESS is missing".to_owned())?;
    Ok(TargetToRegister { id, port, availability_zone, weight })
}

fn address(value: &str) -> Result<Ipv4Addr, String> {
    value.parse().map_err(|_| format!("the Id '{value}' must be an IPv4 address"))
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("the {key} '{value}' must be a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_a_key_and_all_that_follows() {
        let read = |text| attribute(text).map(|Attribute { key, value }| (key, value));
        let pair = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(read("Key=a.b,Value=true"), pair("a.b", "true"));
        assert_eq!(read("Key=a,Value="), pair("a", ""));
        assert_eq!(read("Key=a,Value=200,301"), pair("a", "200,301"));
        for bad in ["", "a=b", "Key=a", "Key=,Value=x", "Value=x,Key=a"] {
            assert_eq!(read(bad), Err("expected Key=KEY,Value=VALUE".to_owned()), "{bad}");
        }
    }

    #[test]
    fn an_action_forwards_to_a_group_by_name_or_arn() {
        let read = |text| action(text).map(|action| (action.kind, action.target_group_arn));
        let forward = |group: &str| Ok(("forward".to_owned(), group.to_owned()));
        assert_eq!(read("Type=forward,TargetGroupArn=fw"), forward("fw"));
        assert_eq!(read("TargetGroupArn=arn:aws:x:y/z"), forward("arn:aws:x:y/z"));
        assert_eq!(read("fw"), forward("fw"));
        assert_eq!(read("Type=forward").unwrap_err(), "TargetGroupArn=NAME|ARN is missing");
        assert_eq!(read("Typ=forward,fw").unwrap_err(), "'Typ' must be one of [Type, TargetGroupArn]");
    }

    #[test]
    fn a_matcher_is_its_codes_with_or_without_their_name() {
        for text in ["HttpCode=200,301-302", "200,301-302"] {
            assert_eq!(code_matcher(text).unwrap().http_code, "200,301-302");
        }
        assert_eq!(code_matcher("GrpcCode=12").unwrap_err(), "'GrpcCode' must be HttpCode");
    }

    #[test]
    fn a_target_is_an_address_with_or_without_more() {
        let plain = target("10.0.0.1").unwrap();
        assert_eq!(plain, target("Id=10.0.0.1").unwrap());
        let full = target("Id=10.0.0.1,Port=6081,AvailabilityZone=b,Weight=7").unwrap();
        assert_eq!((full.port, full.availability_zone.as_deref()), (Some(6081), Some("b")));
        assert_eq!(full.weight.map(Weight::get), Some(7));
    }

    #[test]
    fn a_faulty_target_is_told_apart() {
        for (text, fault) in [
            ("10.0.0.300", "expected Id=ADDRESS, found '10.0.0.300'"),
            ("Id=fw1", "the Id 'fw1' must be an IPv4 address"),
            ("Port=6081", "Id=ADDRESS is missing"),
            ("Id=10.0.0.1,Id=10.0.0.2", "'Id' is given twice"),
            ("Id=10.0.0.1,Wieght=2", "'Wieght' must be one of [Id, Port, AvailabilityZone, Weight]"),
            ("Id=10.0.0.1,Weight=x", "the Weight 'x' must be a number"),
        ] {
            assert_eq!(target(text).unwrap_err(), fault);
        }
        assert!(target("Id=10.0.0.1,Weight=0").unwrap_err().contains("must be between 1 and 1000"));
        assert!(target_name("Id=10.0.0.1,Weight=2").unwrap_err().contains("by its address alone"));
    }
}
