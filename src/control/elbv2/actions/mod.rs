//! The actions: each a method of the control socket under AWS's name, with AWS's parameters and answer.
//!
//! What an action does, and whether it may be done, is decided by the method alone; here stands only what the
//! two protocols say differently. `table.rs` lists all of them.

mod adapt;
mod table;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fault::Fault;
use super::query::Tree;
use super::shape::{self, Member, Shape};
use crate::control::socket::{Call, Dispatcher};

/// The version of the API that is served.
pub const VERSION: &str = "2015-12-01";

/// An action.
pub struct Action {
    /// As a request names it.
    pub name: &'static str,
    /// The socket's method that does it.
    pub method: &'static str,
    input: &'static [Member],
    output: Shape,
    prepare: fn(&mut Map<String, Value>) -> Result<(), Fault>,
    finish: fn(&mut Map<String, Value>),
}

/// A request's action and its parameters, as its method has them.
pub struct Prepared {
    /// The action.
    pub action: &'static Action,
    params: Map<String, Value>,
}

/// The action that a request names, if there is one of that name.
pub fn named(tree: &BTreeMap<String, Tree>) -> Option<&'static str> {
    let Some(Tree::Leaf(name)) = tree.get("Action") else { return None };
    table::ACTIONS.iter().map(|action| action.name).find(|known| known == name)
}

/// Reads a request's parameters.
///
/// # Errors
/// If there is no such action, or its parameters are not of its shape.
pub fn prepare(mut tree: BTreeMap<String, Tree>) -> Result<Prepared, Fault> {
    let mut named = |name: &str| match tree.remove(name) {
        Some(Tree::Leaf(value)) => Some(value),
        _ => None,
    };
    let Some(name) = named("Action").filter(|name| !name.is_empty()) else {
        return Err(Fault::new("MissingAction", "The request has no parameter 'Action'"));
    };
    let version = named("Version").unwrap_or_default();
    let action = table::ACTIONS.iter().find(|action| action.name == name);
    let Some(action) = action.filter(|_| version == VERSION) else {
        return Err(unknown(&name, &version));
    };
    let mut params = shape::read(action.input, tree)?;
    (action.prepare)(&mut params)?;
    Ok(Prepared { action, params })
}

impl Prepared {
    /// Does it; the answer's members.
    ///
    /// # Errors
    /// The method's refusal.
    pub async fn run(self, call: &Call<'_>, methods: &Dispatcher) -> Result<Map<String, Value>, Fault> {
        let Prepared { action, params } = self;
        let answer = methods.call(call, action.method, params).await?;
        let mut result = serde_json::from_str::<Map<String, Value>>(&answer).map_err(|error| {
            Fault::new("InternalFailure", format!("the answer cannot be read: {error}"))
                .status(hyper::StatusCode::INTERNAL_SERVER_ERROR)
        })?;
        (action.finish)(&mut result);
        match action.output.write(Value::Object(result)) {
            Value::Object(result) => Ok(result),
            _ => Ok(Map::new()),
        }
    }
}

/// The refusal of an action that is not served.
fn unknown(name: &str, version: &str) -> Fault {
    let shown: String = name.chars().take(64).collect();
    if table::NOT_A_GATEWAYS.contains(&name) && version == VERSION {
        return Fault::new("InvalidAction", format!("A Gateway Load Balancer has no use for {name}"));
    }
    let version: String = version.chars().take(64).collect();
    let told = format!("Could not find operation {shown} for version {version}");
    let nearest = table::ACTIONS
        .iter()
        .map(|action| (strsim::jaro_winkler(action.name, &shown), action.name))
        .filter(|(likeness, name)| *likeness > 0.9 && *name != shown)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    Fault::new(
        "InvalidAction",
        match nearest {
            _ if version != VERSION => format!("{told}; the version served is {VERSION}"),
            Some((_, nearest)) => format!("{told}; did you mean {nearest}?"),
            None => told,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::query;
    use super::*;
    use crate::control::socket::methods;

    fn refusal(form: &str) -> String {
        let tree = query::parse(form.as_bytes()).unwrap();
        prepare(tree).err().unwrap().to_string()
    }

    fn prepared(form: &str) -> Value {
        let tree = query::parse(form.as_bytes()).unwrap();
        Value::Object(prepare(tree).unwrap_or_else(|fault| panic!("{fault}")).params)
    }

    #[test]
    fn every_action_has_its_method_and_is_listed_once() {
        let methods = methods::dispatcher();
        let mut seen = std::collections::BTreeSet::new();
        for action in table::ACTIONS {
            assert!(seen.insert(action.name), "{} is there twice", action.name);
            assert!(!table::NOT_A_GATEWAYS.contains(&action.name));
            assert!(methods.methods().any(|method| method.name == action.method), "{}", action.method);
        }
        // The operations of the service's model, version 2015-12-01.
        assert_eq!(seen.len() + table::NOT_A_GATEWAYS.len(), 51);
    }

    #[test]
    fn an_action_that_is_not_there_is_refused_with_its_name() {
        for (form, expected) in [
            ("", "MissingAction: The request has no parameter 'Action'"),
            ("Action=", "MissingAction: The request has no parameter 'Action'"),
            (
                "Action=DescribeLoadBalancers&Version=2012-06-01",
                "InvalidAction: Could not find operation DescribeLoadBalancers for version 2012-06-01; \
                 the version served is 2015-12-01",
            ),
            (
                "Action=DescribeLoadBalancer&Version=2015-12-01",
                "InvalidAction: Could not find operation DescribeLoadBalancer for version 2015-12-01; \
                 did you mean DescribeLoadBalancers?",
            ),
            (
                "Action=CreateRule&Version=2015-12-01",
                "InvalidAction: A Gateway Load Balancer has no use for CreateRule",
            ),
            (
                "Action=Xyzzy&Version=2015-12-01",
                "InvalidAction: Could not find operation Xyzzy for version 2015-12-01",
            ),
        ] {
            assert_eq!(refusal(form), expected);
        }
        let long = refusal(&format!("Action={0}&Version={0}", "x".repeat(100_000)));
        assert!(long.len() < 300, "{long}");
    }

    #[test]
    fn a_load_balancer_is_created_as_a_gateway_or_not_at_all() {
        let form = |kind: &str| format!("Action=CreateLoadBalancer&Version=2015-12-01&Name=gw{kind}");
        assert_eq!(prepared(&form("&Type=gateway")), serde_json::json!({"Name": "gw", "Type": "gateway"}));
        for (kind, code) in [("", "ValidationError"), ("&Type=network", "ValidationError")] {
            assert!(refusal(&form(kind)).starts_with(code), "{kind}");
        }
    }
}
