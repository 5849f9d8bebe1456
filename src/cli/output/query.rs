//! `--query`: a JMESPath expression, as `aws` has it, over the JSON of a result.

#![forbid(unsafe_code)]

use jmespath::{JmespathError, compile};
use serde_json::Value;

/// An expression that was read without a fault.
#[derive(Clone, Debug)]
pub struct Query(String);

impl Query {
    /// Reads an expression.
    ///
    /// # Errors
    /// The fault, on one line.
    pub fn read(text: &str) -> Result<Self, String> {
        compile(text).map(|_| Query(text.to_owned())).map_err(|error| sentence(&error))
    }

    /// What the expression picks of `result`; null where it picks nothing.
    ///
    /// # Errors
    /// The fault, on one line.
    pub fn of(&self, result: &Value) -> Result<Value, String> {
        // Compiled anew: a compiled expression may not go from clap's threads to ours.
        let found = compile(&self.0).and_then(|expression| expression.search(result));
        let found = found.map_err(|error| sentence(&error))?;
        serde_json::to_value(&*found).map_err(|error| error.to_string())
    }
}

/// The fault on one line; the crate's own text draws a caret over several.
fn sentence(error: &JmespathError) -> String {
    let reason = error.reason.to_string();
    let reason = reason.trim_end().replace('\n', " ");
    format!("{reason}, at column {}", error.column + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_query_picks_as_jmespath_says() {
        let result = json!({"TargetGroups": [
            {"TargetGroupName": "fw", "Port": 6081, "LoadBalancerArns": ["a"]},
            {"TargetGroupName": "spare", "Port": 6081, "LoadBalancerArns": []},
        ], "Big": 9_007_199_254_740_993_u64});
        for (query, expected) in [
            ("TargetGroups[].TargetGroupName", json!(["fw", "spare"])),
            (
                "TargetGroups[?length(LoadBalancerArns) > `0`].{Name: TargetGroupName}",
                json!([{"Name": "fw"}]),
            ),
            ("TargetGroups[0].[TargetGroupName, Port]", json!(["fw", 6081])),
            ("length(TargetGroups)", json!(2)),
            ("Nothing", Value::Null),
            ("Big", json!(9_007_199_254_740_993_u64)),
        ] {
            assert_eq!(Query::read(query).unwrap().of(&result).unwrap(), expected, "{query}");
        }
    }

    #[test]
    fn a_fault_is_one_line_and_says_where() {
        let fault = Query::read("TargetGroups[").unwrap_err();
        assert!(!fault.contains('\n') && fault.contains("at column "), "{fault}");
        let fault = Query::read("length(@)").unwrap().of(&json!(1)).unwrap_err();
        assert!(!fault.contains('\n'), "{fault}");
    }
}
