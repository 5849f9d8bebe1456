//! The documentation that follows from the code is what the code says: the JSON Schemas, and the
//! tables of keys and attributes in the configuration reference. And what the reference shows as an
//! example is accepted.
//!
//! `UPDATE_DOCS=1 cargo test --test docs_are_current` writes what has changed.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use flowgate::cli::doctor::{Area, Kind as DoctorKind};
use flowgate::control::audit::Kind as FindingKind;
use flowgate::control::model::registry::{self, ObjectKind};
use flowgate::control::model::{State, objects_schema};
use flowgate::control::monitor::metrics::{FAMILIES, Kind};
use flowgate::control::node::{NodeConfig, node_schema};
use flowgate::control::socket::methods;
use flowgate::control::troubles::Kind as TroubleKind;
use flowgate::io::confine::{ThreadKind, names_of_calls};
use schemars::Schema;
use serde_json::Value;

const REFERENCE: &str = "docs/configuration.md";

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// That the file `name` holds `expected`; or makes it so, if that was asked for.
fn assert_current(name: &str, expected: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path(name), expected).unwrap_or_else(|error| panic!("{name}: {error}"));
        return;
    }
    let seen = fs::read_to_string(path(name)).unwrap_or_default();
    assert!(
        seen == expected,
        "{name} is not what the code says; `UPDATE_DOCS=1 cargo test --test docs_are_current` writes it anew"
    );
}

#[test]
fn no_document_has_what_a_merge_left_behind() {
    let in_docs = fs::read_dir(path("docs")).expect("a folder").map(|entry| entry.expect("readable").path());
    let documents = in_docs.chain(["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(path));
    for document in documents.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(&document).expect("readable");
        let left =
            text.lines().find(|line| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)));
        assert_eq!(left, None, "{}", document.display());
    }
}

#[test]
fn the_json_schemas_are_those_of_the_types() {
    for (name, schema) in [("node", node_schema()), ("objects", objects_schema())] {
        let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
        assert_current(&format!("docs/schema/{name}.schema.json"), &format!("{text}\n"));
    }
}

#[test]
fn the_sockets_description_is_that_of_its_methods() {
    let text = serde_json::to_string_pretty(&methods::dispatcher().document()).expect("it is JSON");
    assert_current("docs/openrpc.json", &format!("{text}\n"));
}

#[test]
fn the_tables_of_the_reference_are_those_of_the_types() {
    let mut text = read(REFERENCE);
    for (place, table) in [
        ("node", key_tables(&node_schema())),
        ("objects", key_tables(&objects_schema())),
        ("attributes", attribute_tables()),
    ] {
        let (begin, end) = (format!("<!-- {place}: begin -->\n"), format!("<!-- {place}: end -->"));
        let (before, rest) = text.split_once(&begin).expect("the reference has a place for the table");
        let (_, after) = rest.split_once(&end).expect("the table's place has an end");
        text = format!("{before}{begin}{table}\n{end}{after}");
    }
    assert_current(REFERENCE, &text);
}

#[test]
fn the_verbs_of_the_command_line_are_those_it_has() {
    const COMMAND_LINE: &str = "docs/command-line.md";
    let text = read(COMMAND_LINE);
    let (begin, end) = ("<!-- verbs: begin -->\n", "<!-- verbs: end -->");
    let (before, rest) = text.split_once(begin).expect("the page has a place for the verbs");
    let (_, after) = rest.split_once(end).expect("the verbs' place has an end");
    assert_current(COMMAND_LINE, &format!("{before}{begin}\n{}\n{end}{after}", verb_table()));
}

#[test]
fn the_metrics_are_those_that_are_served() {
    const METRICS: &str = "docs/metrics.md";
    let mut text = read(METRICS);
    for (place, table) in [("cloudwatch", cloudwatch_table()), ("series", series_tables())] {
        let (begin, end) = (format!("<!-- {place}: begin -->\n"), format!("<!-- {place}: end -->"));
        let (before, rest) = text.split_once(&begin).expect("the page has a place for the table");
        let (_, after) = rest.split_once(&end).expect("the table's place has an end");
        text = format!("{before}{begin}\n{table}\n{end}{after}");
    }
    assert_current(METRICS, &text);
}

#[test]
fn the_calls_that_threads_may_make_are_those_of_their_filters() {
    const PRIVILEGES: &str = "docs/privileges.md";
    let text = read(PRIVILEGES);
    let (begin, end) = ("<!-- calls: begin -->\n", "<!-- calls: end -->");
    let (before, rest) = text.split_once(begin).expect("the page has a place for the calls");
    let (_, after) = rest.split_once(end).expect("the calls' place has an end");
    assert_current(PRIVILEGES, &format!("{before}{begin}\n{}\n{end}{after}", call_table()));
}

/// Each kind of thread, and what it may call in a daemon whose ports are `net_af_packet`.
fn call_table() -> String {
    let mut table = "| kind | calls, with `net_af_packet` ports on x86-64 |\n|---|---|\n".to_owned();
    for (kind, name) in [
        (ThreadKind::Worker, "worker"),
        (ThreadKind::Host, "host"),
        (ThreadKind::Log, "log"),
        (ThreadKind::FlowLog, "flow log"),
        (ThreadKind::Files, "files"),
        (ThreadKind::Dpdk, "DPDK"),
        (ThreadKind::Control, "control core"),
    ] {
        let calls = names_of_calls(kind, &["net_af_packet"]).into_iter();
        let calls = calls.map(|(call, some)| format!("`{call}`{}", if some { "\\*" } else { "" }));
        writeln!(table, "| {name} | {} |", calls.collect::<Vec<_>>().join(" ")).expect("a string takes all");
    }
    table
}

/// What CloudWatch calls a Gateway Load Balancer's figures, and those of ours that are the same.
fn cloudwatch_table() -> String {
    let all = || FAMILIES.iter().flat_map(|(_, families)| families.iter());
    let mut names: Vec<&str> = all().flat_map(|family| family.cloudwatch_names()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut text = "| CloudWatch | ours |\n|---|---|\n".to_owned();
    for name in names {
        let ours = all().filter(|family| family.cloudwatch_names().contains(&name));
        let ours: Vec<_> = ours.map(|family| format!("`{}{}`", family.name(), selector(name))).collect();
        writeln!(text, "| `{name}` | {} |", ours.join("<br>")).expect("a String");
    }
    text
}

/// Which of a family's series have CloudWatch's figure of that name, where it is not their sum.
fn selector(cloudwatch: &str) -> &'static str {
    match cloudwatch {
        "HealthyHostCount" => "{state=\"healthy\"}",
        "UnHealthyHostCount" => "{state=\"unhealthy\"}",
        "RejectedFlowCount_TCP" => "{protocol=\"tcp\"}",
        _ => "",
    }
}

fn series_tables() -> String {
    let mut text = String::new();
    for (about, families) in FAMILIES {
        writeln!(text, "### {about}\n\n| name | type | labels | |\n|---|---|---|---|").expect("a String");
        for family in *families {
            let kind = match family.kind() {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let labels: Vec<_> = family.labels().iter().map(|label| format!("`{label}`")).collect();
            let (name, labels, help) = (family.name(), labels.join(", "), family.help());
            writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").expect("a String");
        }
        text.push('\n');
    }
    text
}

fn verb_table() -> String {
    let mut text = "| verb | |\n|---|---|\n".to_owned();
    let mut row = |verb: &str, command: &clap::Command| {
        let about = command.get_about().expect("every verb says what it does");
        let aliases = command.get_visible_aliases().map(|alias| format!(", `{alias}`")).collect::<String>();
        writeln!(text, "| `{verb}`{aliases} | {about} |").expect("a String");
    };
    for command in flowgate::cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        row(command.get_name(), command);
        for part in command.get_subcommands() {
            row(&format!("{} {}", command.get_name(), part.get_name()), part);
        }
    }
    text
}

#[test]
fn the_page_of_the_audit_lists_every_finding_with_its_severity_and_its_reason_and_no_other() {
    let text = read("docs/audit.md");
    let sections: Vec<&str> = text.split("\n### `").skip(1).collect();
    let listed: Vec<&str> = sections.iter().map(|section| section.split('`').next().unwrap_or("")).collect();
    let kinds: Vec<&str> = FindingKind::ALL.iter().map(|kind| kind.id()).collect();
    assert_eq!(listed, kinds, "in the order of src/control/audit/kinds.rs");
    for (kind, section) in FindingKind::ALL.iter().zip(sections) {
        let severity = format!("{:?}. {}", kind.severity(), kind.why());
        assert!(section.contains(&severity), "{} does not say: {severity}", kind.id());
        assert!(section.contains("- Found when: ") && section.contains("- What to do: "), "{}", kind.id());
    }
}

#[test]
fn the_page_for_bare_metal_lists_every_item_of_the_doctor_with_its_reason() {
    const BARE_METAL: &str = "docs/bare-metal.md";
    let text = read(BARE_METAL);
    let (begin, end) = ("<!-- items: begin -->\n", "<!-- items: end -->");
    let (before, rest) = text.split_once(begin).expect("the page has a place for the items");
    let (_, after) = rest.split_once(end).expect("the items' place has an end");
    let mut items = String::new();
    for area in Area::ALL {
        writeln!(items, "\n### {}", area.name()).expect("a String");
        for kind in DoctorKind::ALL.iter().filter(|kind| kind.area() == area) {
            writeln!(items, "\n#### {}\n\n{}", kind.id(), kind.why()).expect("a String");
        }
    }
    assert_current(BARE_METAL, &format!("{before}{begin}{items}\n{end}{after}"));
}

#[test]
fn the_page_of_troubles_lists_every_kind() {
    let mut table = "| kind | severity | when | what to do | alert |\n|---|---|---|---|---|\n".to_owned();
    for kind in TroubleKind::ALL {
        let alerts: Vec<String> = kind.alerts().iter().map(|alert| format!("`{alert}`")).collect();
        let row = [
            format!("`{kind}`"),
            kind.severity().to_string(),
            kind.when().to_owned(),
            kind.to_do().to_owned(),
            alerts.join(", "),
        ];
        writeln!(table, "| {} |", row.join(" | ")).expect("a String");
    }
    const MARKS: [&str; 2] = ["<!-- kinds -->\n", "<!-- end of kinds -->\n"];
    let text = read("docs/troubles.md");
    let (before, rest) = text.split_once(MARKS[0]).expect("the first mark");
    let (_, after) = rest.split_once(MARKS[1]).expect("the last mark");
    assert_current("docs/troubles.md", &format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]));
}

fn attribute_tables() -> String {
    let mut text = String::new();
    for kind in [ObjectKind::TargetGroup, ObjectKind::Listener, ObjectKind::LoadBalancer] {
        let noun = kind.noun();
        text += &format!("\n### Attributes: {}\n\n", noun.to_lowercase());
        text += "| key | default | values | rule | |\n|---|---|---|---|---|\n";
        for attribute in registry::of(kind) {
            let (key, default, values) = (attribute.key, attribute.default, attribute.values);
            writeln!(text, "| `{key}` | `{default}` | {values} | {} | {} |", attribute.rule, attribute.doc)
                .expect("a String");
        }
    }
    text
}

/// A table of keys for the document as a whole, and one for each kind of object in it.
fn key_tables(schema: &Schema) -> String {
    let root = schema.as_value();
    let title = root["title"].as_str().expect("the document has a title");
    let mut text = key_table(root, root, title);
    for (name, definition) in root["$defs"].as_object().expect("definitions") {
        if definition.get("properties").is_some() {
            text += &key_table(root, definition, name);
        }
    }
    text
}

fn key_table(root: &Value, object: &Value, heading: &str) -> String {
    let mut text = format!("\n### {heading}\n\n{}\n\n", one_line(object));
    text += "| key | default | values | |\n|---|---|---|---|\n";
    let required = object["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (key, property) in object["properties"].as_object().expect("properties") {
        let default = match property.get("default") {
            _ if required.iter().any(|name| name == key) => "required".to_owned(),
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        let values = values(root, property);
        writeln!(text, "| `{key}` | {default} | {values} | {} |", one_line(property)).expect("a String");
    }
    text
}

fn one_line(schema: &Value) -> String {
    let description = schema["description"].as_str().expect("every key and object is described");
    description.replace('\n', " ")
}

/// What a schema accepts, for people.
fn values(root: &Value, schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().expect("a name");
        let definition = &root["$defs"][name];
        return match definition.get("properties") {
            Some(_) => format!("[{name}](#{})", name.to_lowercase()),
            None => values(root, definition),
        };
    }
    for alternatives in ["anyOf", "oneOf"] {
        if let Some(schemas) = schema[alternatives].as_array() {
            let of_each = schemas.iter().map(|schema| values(root, schema));
            return of_each.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        }
    }
    if let Some(constant) = schema.get("const") {
        return format!("`{constant}`");
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match kind.expect("a schema without alternatives has a type") {
        "null" => String::new(),
        "array" => format!("list of {}", values(root, &schema["items"])),
        "string" if schema.get("examples").is_some() => {
            let examples = schema["examples"].as_array().expect("a list");
            let of_each = examples.iter().map(|example| format!("`{example}`"));
            format!("such as {}", of_each.collect::<Vec<_>>().join(", "))
        }
        "object" if schema["additionalProperties"].is_object() => {
            format!("keys, each with a {}", values(root, &schema["additionalProperties"]))
        }
        "object" if schema["patternProperties"].is_object() => {
            let of_each = schema["patternProperties"].as_object().expect("an object").values();
            let of_each: Vec<_> = of_each.map(|schema| values(root, schema)).collect();
            format!("keys, each with a {}", of_each.join(", "))
        }
        "object" => "[attributes](#attributes)".to_owned(),
        "integer" => match (&schema["minimum"], &schema["maximum"]) {
            (Value::Number(min), Value::Number(max)) => format!("{min}–{max}"),
            _ => "number".to_owned(),
        },
        kind => kind.to_owned(),
    }
}

/// The fenced examples of `language` in a document.
fn examples(document: &str, language: &str) -> Vec<String> {
    let text = read(document);
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_examples_are_accepted_and_go_together() {
    for page in [REFERENCE, "README.md"] {
        let nodes = examples(page, "toml");
        let documents = examples(page, "json");
        assert!(!nodes.is_empty() && !documents.is_empty(), "{page} shows both documents");
        for document in &documents {
            let state = State::from_document(document).unwrap_or_else(|error| panic!("{page}: {error}"));
            for node in &nodes {
                let config = NodeConfig::parse(node).unwrap_or_else(|error| panic!("{page}: {error}"));
                config.agrees_with(&state).unwrap_or_else(|error| panic!("{page}: {error}"));
            }
        }
    }
}

/// All Rust below a folder, in one text.
fn rust_below(folder: &str) -> String {
    let mut text = String::new();
    let mut folders = vec![path(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text += &fs::read_to_string(&path).expect("text");
            }
        }
    }
    text
}

#[test]
fn the_tests_by_which_faults_are_proved_are_there() {
    let document = read("docs/faults.md");
    let words = || document.split('`').skip(1).step_by(2);
    for file in words().filter(|word| word.ends_with(".rs")) {
        assert!(path(file).exists(), "there is no {file}");
    }
    let (_, named) = document.split_once("## The tests by name").expect("the list");
    let (named, _) = named.split_once("\n## ").expect("its end");
    let named: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
    assert!(named.len() > 20, "{named:?}");
    let code = ["tests", "src", "bench"].map(rust_below).concat();
    for test in named {
        assert!(code.contains(&format!("fn {test}() {{")), "there is no test {test}");
    }
}
