//! The model's refusals as the socket's errors: AWS's code as `data.kind`, the parameter at fault as
//! `data.path`.

#![forbid(unsafe_code)]

use crate::control::model::{ErrorCode, ModelError, State, registry};
use crate::control::nearest::nearest;
use crate::control::socket::rpc::{INTERNAL_ERROR, RpcError};
use crate::control::socket::service::{ChangeError, Unavailable};

/// `error` of a request whose object is named by `parameter`.
pub(super) fn of_model(error: ModelError, parameter: &str, state: &State) -> RpcError {
    let mut told = RpcError::refused(error.code.as_str(), error.message);
    told.data.hint = names(error.code, seen(&told.message), state).or_else(|| keys(&told.message));
    match error.path {
        Some(path) => {
            if let (Some(parameter), Some((_, key))) = (in_creation(&path), path.split_once('.')) {
                // A message that quotes the key quotes what was asked for.
                told.message =
                    told.message.replace(&format!("'{key}' value"), &format!("'{parameter}' value"));
            }
            told.at(in_parameters(&path))
        }
        None => told.at(parameter),
    }
}

/// `error` of a change whose object is named by `parameter`.
pub(super) fn of_change(error: ChangeError, parameter: &str, state: &State) -> RpcError {
    match error {
        ChangeError::Refused(error) => of_model(error, parameter, state),
        ChangeError::NotStored(_) => of_storing(&error),
    }
}

/// `error` of a change that broke no rule.
pub(in crate::control::socket) fn of_storing(error: &ChangeError) -> RpcError {
    RpcError::new(INTERNAL_ERROR, "InternalFailure", error.to_string())
        .hint("look at the state directory's disk and permissions, then repeat the request")
}

/// What workers that do not answer are told as.
pub(super) fn of_workers(error: &Unavailable) -> RpcError {
    RpcError::new(INTERNAL_ERROR, "ServiceUnavailable", error.to_string()).hint("repeat the request")
}

/// The model's path in the words of the request: the model speaks the configuration's snake_case.
fn in_parameters(path: &str) -> String {
    if let Some(name) = in_creation(path) {
        return name.to_owned();
    }
    if let Some(rest) = path.strip_prefix("tags").filter(|rest| rest.is_empty() || rest.starts_with('.')) {
        return format!("Tags{rest}");
    }
    if let Some(index) = path.strip_prefix("resources") {
        return format!("ResourceArns{index}");
    }
    match path.strip_prefix("attributes").or_else(|| path.strip_prefix("targets")) {
        Some(rest) if path.starts_with("attributes") => format!("Attributes{rest}"),
        Some(rest) => {
            format!("Targets{}", rest.replace(".address", ".Id").replace(".zone", ".AvailabilityZone"))
        }
        None => path.to_owned(),
    }
}

/// The same for what objects are created and changed with.
fn in_creation(path: &str) -> Option<&'static str> {
    Some(match path {
        "name" => "Name",
        "tag_keys" => "TagKeys",
        "target_group" => "DefaultActions[0].TargetGroupArn",
        "health_check.protocol" => "HealthCheckProtocol",
        "health_check.port" => "HealthCheckPort",
        "health_check.path" => "HealthCheckPath",
        "health_check.matcher" => "Matcher.HttpCode",
        "health_check.interval_seconds" => "HealthCheckIntervalSeconds",
        "health_check.timeout_seconds" => "HealthCheckTimeoutSeconds",
        "health_check.healthy_threshold" => "HealthyThresholdCount",
        "health_check.unhealthy_threshold" => "UnhealthyThresholdCount",
        _ => return None,
    })
}

/// What a message quotes: the name or key that was given, as AWS's messages have it.
fn seen(message: &str) -> &str {
    message.split_once('\'').and_then(|(_, rest)| rest.rsplit_once('\'')).map_or("", |(seen, _)| seen)
}

/// The name that was meant instead of `given`, or the names there are, where one was given that there is not.
fn names(code: ErrorCode, given: &str, state: &State) -> Option<String> {
    /// More names than this are no help.
    const SHOWN: usize = 20;
    let (what, names): (&str, Vec<&str>) = match code {
        ErrorCode::TargetGroupNotFound => {
            ("target group", state.target_groups().map(|group| group.name.as_str()).collect())
        }
        ErrorCode::LoadBalancerNotFound | ErrorCode::ListenerNotFound => {
            ("load balancer", state.load_balancers().map(|balancer| balancer.name.as_str()).collect())
        }
        _ => return None,
    };
    if let Some(meant) = nearest(given, names.iter().copied()) {
        return Some(format!("did you mean {meant}?"));
    }
    Some(match names.as_slice() {
        [] => format!("there is no {what}"),
        [one] => format!("the only {what} is {one}"),
        many if many.len() > SHOWN => {
            let (shown, more) = (many[..SHOWN].join(", "), many.len() - SHOWN);
            format!("the {what}s are {shown} and {more} more")
        }
        many => format!("the {what}s are {}", many.join(", ")),
    })
}

/// The key that was meant, where an attribute's key is not known; or whose it is, where it is another
/// object's.
fn keys(message: &str) -> Option<String> {
    let (of, _) = message.strip_suffix(" is not recognized")?.split_once(" attribute key '")?;
    let key = seen(message);
    if let Some(other) = registry::ATTRIBUTES.iter().find(|attribute| attribute.key == key) {
        return Some(format!("it is an attribute of a {}", other.kind.noun().to_lowercase()));
    }
    let known = registry::ATTRIBUTES.iter().filter(|attribute| attribute.kind.noun() == of);
    nearest(key, known.map(|attribute| attribute.key)).map(|meant| format!("did you mean {meant}?"))
}
