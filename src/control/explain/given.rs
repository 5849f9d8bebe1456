//! For tests: gives a command that was named to a state, as an operator would.

use crate::control::model::{Change, ModelError, ObjectKind, State, registry};

/// The state after `flowgate set NAME KEY=VALUE…`.
///
/// # Errors
/// The refusal.
pub fn given(state: &State, command: &str) -> Result<State, ModelError> {
    let words: Vec<&str> = command.split(' ').collect();
    crate::cli::command().try_get_matches_from(&words).unwrap_or_else(|error| panic!("{command}: {error}"));
    assert_eq!(words[..2], ["flowgate", "set"]);
    let name = words[2].to_owned();
    let pairs = words[3..].iter().map(|change| change.split_once('=').expect("a key and a value"));
    let attributes: Vec<_> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let has = |kind| attributes.iter().all(|(key, _)| registry::find(kind, key).is_ok());
    let change = if state.target_group(&name).is_ok() {
        Change::ModifyTargetGroupAttributes { target_group: name, attributes }
    } else if has(ObjectKind::LoadBalancer) {
        Change::ModifyLoadBalancerAttributes { load_balancer: name, attributes }
    } else {
        Change::ModifyListenerAttributes { listener: name, attributes }
    };
    state.apply(&change).map(|(next, _)| next)
}
