//! What an action takes and gives, as data: the way from a Query request's tree to the socket's JSON, and
//! from its JSON to what AWS answers with.
//!
//! A member that is not in the shape is refused on the way in, as what it asks for would not be done, and left out
//! on the way out, as no client of AWS's knows it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fault::Fault;
use super::query::Tree;

/// The type of a parameter or of a part of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Text.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// An ARN of one kind of object, or of any.
    Arn(Kind),
    /// In an answer: a moment, written as RFC 3339 has it.
    Moment,
    /// A list.
    List(&'static Shape),
    /// Named members.
    Structure(&'static [Member]),
}

/// A named part.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// What becomes of it.
    pub usage: Usage,
}

/// What becomes of a member.
#[derive(Clone, Copy, Debug)]
pub enum Usage {
    /// It is passed on.
    Taken(Shape),
    /// It has no bearing on a gateway and is not looked at.
    Ignored,
    /// A gateway cannot have it: the code and the sentence of the refusal.
    Refused(&'static str, &'static str),
}

/// What an ARN names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A load balancer.
    LoadBalancer,
    /// A listener.
    Listener,
    /// A target group.
    TargetGroup,
    /// A rule.
    Rule,
    /// Anything.
    Resource,
}

/// A member that is passed on.
pub const fn taken(name: &'static str, shape: Shape) -> Member {
    Member { name, usage: Usage::Taken(shape) }
}

/// A member that is not looked at.
pub const fn ignored(name: &'static str) -> Member {
    Member { name, usage: Usage::Ignored }
}

/// A member that is refused.
pub const fn refused(name: &'static str, code: &'static str, why: &'static str) -> Member {
    Member { name, usage: Usage::Refused(code, why) }
}

/// A list of texts.
pub const TEXTS: Shape = Shape::List(&Shape::Text);

/// The parameters in `tree` as JSON.
///
/// # Errors
/// The first that is not as `members` have it.
pub fn read(members: &[Member], tree: BTreeMap<String, Tree>) -> Result<Map<String, Value>, Fault> {
    structure(members, tree, "")
}

fn structure(
    members: &[Member],
    tree: BTreeMap<String, Tree>,
    path: &str,
) -> Result<Map<String, Value>, Fault> {
    let mut fields = Map::new();
    for (name, below) in tree {
        let Some(member) = members.iter().find(|member| member.name == name) else {
            return Err(unknown(members, &join(path, &name)));
        };
        match member.usage {
            Usage::Taken(shape) => {
                fields.insert(name.clone(), shape.read(below, &join(path, &name))?);
            }
            Usage::Ignored => {}
            Usage::Refused(code, why) => return Err(Fault::new(code, why)),
        }
    }
    Ok(fields)
}

fn unknown(members: &[Member], path: &str) -> Fault {
    let known: Vec<&str> = members.iter().map(|member| member.name).collect();
    let hint = if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) };
    Fault::invalid(format!("There is no parameter '{path}'{hint}"))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl Shape {
    fn read(self, tree: Tree, path: &str) -> Result<Value, Fault> {
        match (self, tree) {
            (Shape::List(of), tree) => list(*of, tree, path),
            (Shape::Structure(members), Tree::Branch(below)) => {
                Ok(Value::Object(structure(members, below, path)?))
            }
            (Shape::Structure(_), Tree::Leaf(text)) if text.is_empty() => Ok(Value::Object(Map::new())),
            (Shape::Structure(_), Tree::Leaf(_)) => {
                Err(Fault::invalid(format!("'{path}' has members and no value of its own")))
            }
            (_, Tree::Branch(_)) => Err(Fault::invalid(format!("'{path}' has a value and no members"))),
            (Shape::Text | Shape::Moment, Tree::Leaf(text)) => Ok(Value::String(text)),
            (Shape::Number, Tree::Leaf(text)) => match text.parse::<i64>() {
                Ok(number) => Ok(number.into()),
                Err(fault) => {
                    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                    let told = match fault.kind() {
                        PosOverflow => "is too large",
                        NegOverflow => "is too small",
                        _ => "must be a whole number",
                    };
                    Err(Fault::invalid(format!("The value '{text}' of '{path}' {told}")))
                }
            },
            (Shape::Flag, Tree::Leaf(text)) => match text.as_str() {
                "true" => Ok(true.into()),
                "false" => Ok(false.into()),
                _ => Err(Fault::invalid(format!("The value '{text}' of '{path}' must be 'true' or 'false'"))),
            },
            (Shape::Arn(kind), Tree::Leaf(text)) if kind.names(&text) => Ok(Value::String(text)),
            (Shape::Arn(kind), Tree::Leaf(text)) => {
                Err(Fault::invalid(format!("'{text}' is not a valid {} ARN", kind.words())))
            }
        }
    }

    /// What of `value` is of this shape.
    pub fn write(self, value: Value) -> Value {
        match (self, value) {
            (Shape::Structure(members), Value::Object(mut fields)) => {
                let written = |member: &Member| match member.usage {
                    Usage::Taken(shape) => {
                        let field = fields.remove(member.name)?;
                        Some((member.name.to_owned(), shape.write(field)))
                    }
                    Usage::Ignored | Usage::Refused(..) => None,
                };
                Value::Object(members.iter().filter_map(written).collect())
            }
            (Shape::List(of), Value::Array(items)) => {
                Value::Array(items.into_iter().map(|item| of.write(item)).collect())
            }
            (Shape::Moment, Value::Object(mut moment)) => moment.remove("Rfc3339").unwrap_or_default(),
            (_, value) => value,
        }
    }
}

/// `Name.member.N`, by their numbers: an index names an item and makes no room, so gaps are no matter.
fn list(of: Shape, tree: Tree, path: &str) -> Result<Value, Fault> {
    let mut below = match tree {
        Tree::Branch(below) => below,
        Tree::Leaf(text) if text.is_empty() => return Ok(Value::Array(Vec::new())),
        Tree::Leaf(_) => {
            return Err(Fault::invalid(format!("'{path}' is a list: its first item is '{path}.member.1'")));
        }
    };
    let items = below.remove("member");
    if let Some(name) = below.keys().next() {
        return Err(Fault::invalid(format!(
            "There is no parameter '{path}.{name}': the first item of the list is '{path}.member.1'"
        )));
    }
    let Some(Tree::Branch(items)) = items else {
        return Err(Fault::invalid(format!(
            "'{path}.member' is a list: its first item is '{path}.member.1'"
        )));
    };
    let mut numbered = BTreeMap::new();
    for (index, item) in items {
        let number = index.parse::<u32>().ok().filter(|n| *n > 0 && n.to_string() == index);
        let Some(number) = number else {
            return Err(Fault::invalid(format!("'{path}.member.{index}': items are numbered from 1")));
        };
        numbered.insert(number, item);
    }
    let read = |(number, item)| of.read(item, &format!("{path}.member.{number}"));
    Ok(Value::Array(numbered.into_iter().map(read).collect::<Result<_, _>>()?))
}

impl Kind {
    /// Whether `arn` has the form of this kind's.
    fn names(self, arn: &str) -> bool {
        let mut parts = arn.splitn(6, ':');
        let head = [(); 3].map(|()| parts.next().unwrap_or_default());
        let resource = parts.nth(2).unwrap_or_default();
        let (is_aws, is_ours) = (head[1].starts_with("aws"), head[2] == "elasticloadbalancing");
        let prefix = match self {
            Kind::LoadBalancer => "loadbalancer/",
            Kind::Listener => "listener/",
            Kind::TargetGroup => "targetgroup/",
            Kind::Rule => "listener-rule/",
            Kind::Resource => "",
        };
        head[0] == "arn" && is_aws && is_ours && !resource.is_empty() && resource.starts_with(prefix)
    }

    fn words(self) -> &'static str {
        match self {
            Kind::LoadBalancer => "load balancer",
            Kind::Listener => "listener",
            Kind::TargetGroup => "target group",
            Kind::Rule => "rule",
            Kind::Resource => "resource",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::query;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const TARGET: Shape =
        Shape::Structure(&[taken("Id", Shape::Text), taken("Port", Shape::Number), ignored("QuicServerId")]);
    const MEMBERS: &[Member] = &[
        taken("Arn", Shape::Arn(Kind::TargetGroup)),
        taken("Targets", Shape::List(&TARGET)),
        taken("Names", TEXTS),
        taken("Enabled", Shape::Flag),
        refused("Scheme", "InvalidConfigurationRequest", "no scheme"),
    ];

    fn read_form(form: &str) -> Result<Value, String> {
        let tree = query::parse(form.as_bytes()).unwrap();
        read(MEMBERS, tree).map(Value::Object).map_err(|fault| fault.to_string())
    }

    #[test]
    fn parameters_become_json_of_their_types() {
        let form = "Targets.member.2.Id=b&Targets.member.10.Id=c&Targets.member.1.Id=a&Targets.member.1.Port=6081\
                    &Targets.member.1.QuicServerId=x&Enabled=true&Names=\
                    &Arn=arn:aws:elasticloadbalancing:xx:0:targetgroup/fw/00";
        assert_eq!(
            read_form(form).unwrap(),
            json!({
                "Arn": "arn:aws:elasticloadbalancing:xx:0:targetgroup/fw/00",
                "Targets": [{"Id": "a", "Port": 6081}, {"Id": "b"}, {"Id": "c"}],
                "Names": [],
                "Enabled": true,
            })
        );
    }

    #[test]
    fn what_is_not_of_the_shape_is_refused_with_its_place() {
        for (form, expected) in [
            (
                "Nmes.member.1=a",
                "There is no parameter 'Nmes'; there are Arn, Targets, Names, Enabled, Scheme",
            ),
            (
                "Targets.member.1.Zone=a",
                "There is no parameter 'Targets.member.1.Zone'; there are Id, Port, QuicServerId",
            ),
            ("Targets.member.1=a", "'Targets.member.1' has members and no value of its own"),
            ("Targets=a", "'Targets' is a list: its first item is 'Targets.member.1'"),
            (
                "Targets.1.Id=a",
                "There is no parameter 'Targets.1': the first item of the list is 'Targets.member.1'",
            ),
            ("Targets.member=a", "'Targets.member' is a list: its first item is 'Targets.member.1'"),
            ("Names.member.0=a", "'Names.member.0': items are numbered from 1"),
            ("Names.member.01=a", "'Names.member.01': items are numbered from 1"),
            ("Names.member.-1=a", "'Names.member.-1': items are numbered from 1"),
            ("Names.member.4294967296=a", "'Names.member.4294967296': items are numbered from 1"),
            ("Names.member.1.x=a", "'Names.member.1' has a value and no members"),
            ("Enabled=True", "The value 'True' of 'Enabled' must be 'true' or 'false'"),
            ("Targets.member.1.Port=6k", "The value '6k' of 'Targets.member.1.Port' must be a whole number"),
            (
                "Targets.member.1.Port=99999999999999999999",
                "The value '99999999999999999999' of 'Targets.member.1.Port' is too large",
            ),
            ("Arn=fw", "'fw' is not a valid target group ARN"),
        ] {
            assert_eq!(read_form(form).unwrap_err(), format!("ValidationError: {expected}"));
        }
        assert_eq!(read_form("Scheme=internal").unwrap_err(), "InvalidConfigurationRequest: no scheme");
    }

    #[test]
    fn an_arn_is_of_its_kind() {
        let arn = |resource: &str| format!("arn:aws:elasticloadbalancing:xx-local-1:000000000000:{resource}");
        assert!(Kind::LoadBalancer.names(&arn("loadbalancer/gwy/gw/00")));
        assert!(!Kind::LoadBalancer.names(&arn("listener/gwy/gw/00/00")));
        assert!(Kind::Resource.names(&arn("listener/gwy/gw/00/00")));
        assert!(Kind::Rule.names(&arn("listener-rule/gwy/gw/00/00/00")));
        assert!(!Kind::Listener.names(&arn("listener-rule/gwy/gw/00/00/00")));
        for bad in ["", "arn", "arn:aws:s3:::bucket", "arn:aws:elasticloadbalancing:a:b:", "gw", "::::::"] {
            assert!(!Kind::Resource.names(bad), "{bad}");
        }
    }

    #[test]
    fn a_high_index_takes_no_room() {
        assert_eq!(
            read_form("Names.member.4294967295=b&Names.member.1=a").unwrap(),
            json!({"Names": ["a", "b"]})
        );
    }

    #[test]
    fn an_answer_has_the_members_of_its_shape_and_no_other() {
        const OUT: Shape = Shape::Structure(&[
            taken("Targets", Shape::List(&TARGET)),
            taken("At", Shape::Moment),
            taken("Absent", Shape::Text),
        ]);
        let seen = json!({
            "Targets": [{"Id": "a", "Port": 1, "Flows": 7}], "Generation": 3,
            "At": {"UnixMs": 0, "Rfc3339": "1970-01-01T00:00:00.000Z"},
        });
        let expected = json!({"Targets": [{"Id": "a", "Port": 1}], "At": "1970-01-01T00:00:00.000Z"});
        assert_eq!(OUT.write(seen), expected);
    }

    proptest! {
        #[test]
        fn any_form_is_read_or_refused(
            form in "((Arn|Targets|Names|Enabled|Scheme|member|1|2|Id|Port|x)[.=&]){0,20}"
        ) {
            if let Ok(tree) = query::parse(form.as_bytes()) {
                read(MEMBERS, tree).ok();
            }
        }
    }
}
