//! What every method that changes the configuration takes besides its own parameters.
//!
//! Stripped by the dispatcher before a method's own parameters are read, so that no method has to name
//! them and none can forget them.

#![forbid(unsafe_code)]

use super::rpc::RpcError;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The common parameters of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Common {
    /// Make the change only if the configuration has this generation, else refuse it with
    /// `GenerationConflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_generation: Option<u64>,
    /// Make no change, but answer with what it would do: the differences in words, and what would become
    /// of live flows. What would be refused is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl Common {
    /// Their names.
    pub const NAMES: [&str; 2] = ["DryRun", "IfGeneration"];

    /// Takes them out of `params`, which are a method's own thereafter.
    ///
    /// # Errors
    /// When one of them is of the wrong type.
    pub(super) fn take(params: &mut Map<String, Value>) -> Result<Common, RpcError> {
        read(Common::NAMES.iter().filter_map(|name| params.remove_entry(*name)).collect())
    }

    /// Whether the change may be made at `generation`. Asked right before it is, with no wait in between.
    ///
    /// # Errors
    /// When it was to be made at another.
    pub(super) fn check(self, generation: u64) -> Result<(), RpcError> {
        match self.if_generation {
            Some(expected) if expected != generation => {
                let message = format!(
                    "the configuration has generation {generation} and the change was for {expected}"
                );
                Err(RpcError::refused("GenerationConflict", message).at("IfGeneration").hint(format!(
                    "look at what has changed (the end of a drain is a change, too), then repeat the request with IfGeneration {generation}"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Parameters as their type, or where they are not of it.
pub(super) fn read<P: DeserializeOwned + JsonSchema>(params: Map<String, Value>) -> Result<P, RpcError> {
    serde_path_to_error::deserialize(Value::Object(params)).map_err(|error| {
        let path = error.path().to_string();
        let fault = error.inner().to_string();
        // A missing or unknown name is told by serde without its place below the top.
        let path = if path == "." { "params".to_owned() } else { path };
        let told = out_of_range::<P>(&path, &fault).or_else(|| no_such_word(&fault)).unwrap_or(fault);
        RpcError::invalid_params(path, told)
    })
}

/// What AWS says of a number that does not fit, where serde names the type that it is kept in. The range is
/// what the schema says, or what the type can hold.
fn out_of_range<P: JsonSchema>(path: &str, fault: &str) -> Option<String> {
    let (value, kept_in) = fault.strip_prefix("invalid value: integer `")?.split_once("`, expected ")?;
    let most = match kept_in {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "u64" => u64::MAX,
        _ => return None,
    };
    let schema = P::json_schema(&mut SchemaGenerator::default());
    let said = |bound: &str| schema.get("properties")?.get(path)?.get(bound)?.as_u64();
    let (least, most) = (said("minimum").unwrap_or(0), said("maximum").unwrap_or(most));
    let key = path.rsplit('.').next().unwrap_or(path);
    Some(format!("'{key}' value '{value}' must be between '{least}-{most}' inclusive"))
}

/// The same of a word that is none of those there are.
fn no_such_word(fault: &str) -> Option<String> {
    let (word, known) = fault.strip_prefix("unknown variant `")?.split_once("`, expected ")?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some(format!("'{word}' must be one of [{}]", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_common_parameters_are_taken_and_the_methods_own_are_left() {
        let params = json!({"IfGeneration": 7, "DryRun": true, "TargetGroupArn": "fw"});
        let Value::Object(mut params) = params else { unreachable!() };
        assert_eq!(Common::take(&mut params).unwrap(), Common { if_generation: Some(7), dry_run: true });
        assert_eq!(Value::Object(params), json!({"TargetGroupArn": "fw"}));
        assert_eq!(Common::take(&mut Map::new()).unwrap(), Common::default());
    }

    #[test]
    fn every_common_parameter_is_among_the_names_that_are_taken() {
        let schema = Common::json_schema(&mut schemars::SchemaGenerator::default());
        let names: Vec<&String> = schema.get("properties").unwrap().as_object().unwrap().keys().collect();
        assert_eq!(names, Common::NAMES);
    }

    #[test]
    fn a11_a_number_and_a_word_that_do_not_fit_are_told_as_aws_tells_them() {
        #[derive(Debug, Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "read and looked at no more")]
        struct Params {
            #[schemars(range(min = 2, max = 10))]
            count: Option<u8>,
            ports: Option<Vec<Port>>,
            word: Option<Word>,
        }
        #[derive(Debug, Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "read and looked at no more")]
        struct Port {
            port: u16,
        }
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        enum Word {
            Ipv4,
            Dualstack,
        }
        for (params, path, expected) in [
            (json!({"count": 301}), "count", "'count' value '301' must be between '2-10' inclusive"),
            (json!({"count": -1}), "count", "'count' value '-1' must be between '2-10' inclusive"),
            (
                json!({"ports": [{"port": 1}, {"port": 65_536}]}),
                "ports[1].port",
                "'port' value '65536' must be between '0-65535' inclusive",
            ),
            (json!({"word": "ipv6"}), "word", "'ipv6' must be one of [ipv4, dualstack]"),
            (json!({"count": "x"}), "count", "invalid type: string \"x\", expected u8"),
        ] {
            let Value::Object(params) = params else { unreachable!() };
            let error = read::<Params>(params).unwrap_err();
            assert_eq!((error.data.path.as_deref(), error.message.as_str()), (Some(path), expected));
        }
    }

    #[test]
    fn a_generation_is_a_number_from_0() {
        for bad in [json!("7"), json!(-1), json!(1.5), json!([])] {
            let mut params = Map::from_iter([("IfGeneration".to_owned(), bad.clone())]);
            let error = Common::take(&mut params).unwrap_err();
            assert_eq!(error.data.path.as_deref(), Some("IfGeneration"), "{bad}");
        }
        // As serde has it for every optional value: null is none.
        let mut params = Map::from_iter([("IfGeneration".to_owned(), Value::Null)]);
        assert_eq!(Common::take(&mut params).unwrap(), Common::default());
    }

    #[test]
    fn a_change_for_another_generation_is_refused_with_the_present_one_in_the_hint() {
        let common = Common { if_generation: Some(7), ..Common::default() };
        assert!(common.check(7).is_ok() && Common::default().check(7).is_ok());
        for present in [6, 8] {
            let error = common.check(present).unwrap_err();
            assert_eq!(error.data.kind, "GenerationConflict");
            assert!(error.data.hint.unwrap().ends_with(&format!("IfGeneration {present}")));
        }
    }
}
