//! What objects are called: names, zones, ids and the ARNs made of them (O-2, O-5).

use std::borrow::Borrow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What every ARN of ours starts with. Shaped so that tools which check a region and an account
/// (Terraform does) accept it, and so that nobody takes it for a real region.
const ARN_PREFIX: &str = "arn:aws:elasticloadbalancing:xx-local-1:000000000000:";

/// The name of a load balancer or target group: 1–32 of `[A-Za-z0-9-]` (O-2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = r"^[A-Za-z0-9-]{1,32}$"))]
pub struct Name(String);

/// The name of a zone: 1–64 of `[A-Za-z0-9._-]`, and not `all`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = r"^[A-Za-z0-9._-]{1,64}$"), extend("not" = serde_json::json!({ "const": "all" })))]
pub struct Zone(String);

/// The id of something that this node keeps and shows but knows nothing about, a subnet or a VPC: 1–128 of
/// `[A-Za-z0-9._:/-]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = r"^[A-Za-z0-9._:/-]{1,128}$"))]
pub struct ForeignId(String);

/// The part of an ARN that makes it unique: 64 bits, written as 16 hexadecimal digits (O-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = r"^[0-9a-f]{16}$"))]
pub struct ObjectId(u64);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Zone {
    /// The word that stands for every zone where a zone may be given, as AWS has it.
    pub const ALL: &'static str = "all";

    /// The zone as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ForeignId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ObjectId {
    /// The id of an object that was given none. It depends on nothing but the arguments, so that
    /// the same document gives the same ARNs on every node of a fleet, and `generation` sees to it
    /// that an object made again under an old name is not taken for the one before.
    pub(super) fn derive(kind: &str, name: &Name, generation: u64) -> ObjectId {
        // FNV-1a, then the finalizer of MurmurHash3: short inputs that differ in one character
        // get ids that look nothing alike. Unique it need not be: the name is in the ARN too.
        let bytes = kind.bytes().chain([0]).chain(name.0.bytes()).chain(generation.to_be_bytes());
        let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        ObjectId(hash ^ (hash >> 33))
    }
}

/// The ARN of the load balancer `name`.
pub(super) fn load_balancer_arn(name: &Name, id: ObjectId) -> String {
    format!("{ARN_PREFIX}loadbalancer/gwy/{name}/{id}")
}

/// The ARN of a listener of the load balancer `name`.
pub(super) fn listener_arn(name: &Name, load_balancer: ObjectId, id: ObjectId) -> String {
    format!("{ARN_PREFIX}listener/gwy/{name}/{load_balancer}/{id}")
}

/// The ARN of the one rule of a listener of the load balancer `name`.
pub(super) fn rule_arn(name: &Name, load_balancer: ObjectId, listener: ObjectId) -> String {
    let id = ObjectId::derive("listener-rule", name, listener.0);
    format!("{ARN_PREFIX}listener-rule/gwy/{name}/{load_balancer}/{listener}/{id}")
}

/// The ARN of the target group `name`.
pub(super) fn target_group_arn(name: &Name, id: ObjectId) -> String {
    format!("{ARN_PREFIX}targetgroup/{name}/{id}")
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Name, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if (1..=32).contains(&text.len()) && text.chars().all(allowed) {
            Ok(Name(text))
        } else {
            Err(format!("the name '{text}' must be 1 to 32 letters, digits and hyphens"))
        }
    }
}

impl TryFrom<String> for Zone {
    type Error = String;

    fn try_from(text: String) -> Result<Zone, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text == Zone::ALL {
            Err("'all' means every zone and cannot be the name of one".to_owned())
        } else if (1..=64).contains(&text.len()) && text.chars().all(allowed) {
            Ok(Zone(text))
        } else {
            Err(format!("the zone '{text}' must be 1 to 64 letters, digits, dots, hyphens and underscores"))
        }
    }
}

impl TryFrom<String> for ForeignId {
    type Error = String;

    fn try_from(text: String) -> Result<ForeignId, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._:/-".contains(c);
        if (1..=128).contains(&text.len()) && text.chars().all(allowed) {
            Ok(ForeignId(text))
        } else {
            Err(format!("the id '{text}' must be 1 to 128 letters, digits and '._:/-'"))
        }
    }
}

impl TryFrom<String> for ObjectId {
    type Error = String;

    fn try_from(text: String) -> Result<ObjectId, String> {
        let digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        match u64::from_str_radix(&text, 16) {
            Ok(id) if text.len() == 16 && text.chars().all(digit) => Ok(ObjectId(id)),
            _ => Err(format!("the id '{text}' must be 16 hexadecimal digits in lower case")),
        }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> String {
        zone.0
    }
}

impl From<ForeignId> for String {
    fn from(id: ForeignId) -> String {
        id.0
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> String {
        id.to_string()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ForeignId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::try_from(text.to_owned()).expect("a valid name")
    }

    #[test]
    fn o2_names_are_1_to_32_letters_digits_and_hyphens() {
        for good in ["a", "fw-1", &"x".repeat(32)] {
            assert!(Name::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", &"x".repeat(33), "fw_1", "fw 1", "fẅ", "a/b"] {
            assert!(Name::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn o5_arns_end_as_those_of_aws_do() {
        let id = ObjectId::try_from("00000000deadbeef".to_owned()).expect("a valid id");
        assert!(load_balancer_arn(&name("gw"), id).ends_with(":loadbalancer/gwy/gw/00000000deadbeef"));
        assert!(
            listener_arn(&name("gw"), id, id).ends_with(":listener/gwy/gw/00000000deadbeef/00000000deadbeef")
        );
        assert!(target_group_arn(&name("fw"), id).ends_with(":targetgroup/fw/00000000deadbeef"));
    }

    #[test]
    fn o5_a_derived_id_repeats_and_tells_kinds_names_and_generations_apart() {
        let id = ObjectId::derive("targetgroup", &name("fw"), 0);
        assert_eq!(id, ObjectId::derive("targetgroup", &name("fw"), 0));
        assert_ne!(id, ObjectId::derive("loadbalancer", &name("fw"), 0));
        assert_ne!(id, ObjectId::derive("targetgroup", &name("fw2"), 0));
        assert_ne!(id, ObjectId::derive("targetgroup", &name("fw"), 1));
    }

    // O-5
    #[test]
    fn an_id_is_16_digits_in_lower_case() {
        for bad in ["", "0", "00000000DEADBEEF", "+0000000deadbeef", "00000000deadbeef0"] {
            assert!(ObjectId::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    // A-8
    #[test]
    fn no_zone_is_called_all() {
        assert!(Zone::try_from("all".to_owned()).is_err());
        assert!(Zone::try_from("rack-1.b_2".to_owned()).is_ok());
        assert!(Zone::try_from("rack 1".to_owned()).is_err());
    }
}
