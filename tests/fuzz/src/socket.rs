//! Lines to the control socket, through a connection of the real server's.
//!
//! Promises, held against a second reading of each line that shares nothing with the daemon's: every request gets one
//! answer under its own id, a notification none, a batch one line, and the connection goes on after all of them; an
//! error has a code and a kind. A change by who may only look changes nothing. A change that is rehearsed
//! (`DryRun`) changes nothing, is refused just as the real one is, and told the differences that the real one made.

use crate::daemon::{World, is_sound};
use flowgate::control::model::difference;
use flowgate::control::socket::{Call, MAX_BATCH, Peer, Role, Service, Session, Subscribers, converse};
use serde_json::{Map, Value, json};
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The longest row of lines: what is longer finds nothing that this does not.
const LONGEST: usize = 8192;
/// The last request, whose answer shows that the connection is alive.
const LAST: &str = "\n{\"jsonrpc\":\"2.0\",\"id\":\"the last\"}\n";

pub fn run(lines: &[u8]) {
    if lines.len() <= LONGEST {
        World::with(|world| {
            held(world, lines);
            for line in lines.split(|byte| *byte == b'\n').take(4) {
                rehearsed(world, line);
            }
        });
    }
}

/// One connection that says `lines`.
fn held(world: &World, lines: &[u8]) {
    let fake = world.fresh();
    let text = world.block_on(async {
        let (mut client, server) = UnixStream::pair().unwrap();
        let session = Rc::new(session(Role::Admin));
        let service: Rc<dyn Service> = Rc::clone(&fake) as Rc<dyn Service>;
        let task = tokio::task::spawn_local(converse(server, session, service, Rc::clone(&world.methods)));
        client.write_all(&[lines, LAST.as_bytes()].concat()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        task.await.unwrap();
        text
    });
    assert!(text.ends_with('\n'));
    let said: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // What comes unasked has a method; what answers has none.
    let (unasked, answers): (Vec<&Value>, Vec<&Value>) =
        said.iter().partition(|value| value.get("method").is_some());
    assert_eq!(unasked[0]["method"], "hello");
    let expected: Vec<Expected> = [lines, LAST.as_bytes().trim_ascii()]
        .into_iter()
        .flat_map(|part| part.split(|b| *b == b'\n'))
        .collect::<Vec<_>>()
        .into_iter()
        .filter_map(expected)
        .collect();
    assert_eq!(answers.len(), expected.len(), "answers to {:?}: {text}", lossy(lines));
    for (answer, expected) in answers.iter().zip(&expected) {
        match (expected, answer) {
            (Expected::One(id), answer) => is_answer(answer, id),
            (Expected::Batch(ids), Value::Array(answers)) => {
                assert_eq!(answers.len(), ids.len(), "answers to {:?}: {text}", lossy(lines));
                answers.iter().zip(ids).for_each(|(answer, id)| is_answer(answer, id));
            }
            (Expected::Batch(_), other) => panic!("a batch is answered by {other}"),
        }
    }
    is_sound(&fake.state(), &world.seed);
}

fn is_answer(answer: &Value, id: &Value) {
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!(answer["id"], *id);
    match (answer.get("result"), answer.get("error")) {
        (Some(_), None) => {}
        (None, Some(error)) => {
            let code = error["code"].as_i64().unwrap();
            assert!([-32700, -32600, -32601, -32602, -32000].contains(&code), "{answer}");
            assert!(!error["message"].as_str().unwrap().is_empty(), "{answer}");
            let kind = error["data"]["kind"].as_str().unwrap();
            assert!(!kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{answer}");
        }
        _ => panic!("neither a result nor an error, or both: {answer}"),
    }
}

/// What a line is to be answered by.
enum Expected {
    One(Value),
    Batch(Vec<Value>),
}

/// JSON-RPC 2.0, sections 4 to 6, read once more.
fn expected(line: &[u8]) -> Option<Expected> {
    match serde_json::from_slice(line) {
        Ok(Value::Array(elements)) if (1..=MAX_BATCH).contains(&elements.len()) => {
            let ids: Vec<Value> = elements.iter().filter_map(expected_id).collect();
            (!ids.is_empty()).then_some(Expected::Batch(ids))
        }
        Ok(other) => expected_id(&other).map(Expected::One),
        Err(_) => Some(Expected::One(Value::Null)),
    }
}

/// The id to answer a request under; none for a notification.
fn expected_id(request: &Value) -> Option<Value> {
    let Some(request) = request.as_object() else { return Some(Value::Null) };
    match request.get("id") {
        None if envelope(request).is_some() => None,
        None => Some(Value::Null),
        Some(id) if id.is_string() || id.is_i64() || id.is_u64() => Some(id.clone()),
        Some(_) => Some(Value::Null),
    }
}

/// The method and the parameters of a request that is one.
fn envelope(request: &Map<String, Value>) -> Option<(&str, Map<String, Value>)> {
    let known = ["jsonrpc", "id", "method", "params"];
    if request.get("jsonrpc")? != "2.0" || request.keys().any(|key| !known.contains(&key.as_str())) {
        return None;
    }
    let params = match request.get("params") {
        None => Map::new(),
        Some(params) => params.as_object()?.clone(),
    };
    Some((request.get("method")?.as_str()?, params))
}

/// The change that `line` asks for, if it asks for one, rehearsed first and then made.
fn rehearsed(world: &World, line: &[u8]) {
    let Ok(Value::Object(request)) = serde_json::from_slice(line) else { return };
    let Some((name, mut params)) = envelope(&request) else { return };
    if !world.methods.methods().any(|method| method.name == name && method.is_change) {
        return;
    }
    params.remove("DryRun");
    let fake = world.fresh();
    let call = |role, dry_run: bool| {
        let session = session(role);
        let mut params = params.clone();
        if dry_run {
            params.insert("DryRun".to_owned(), json!(true));
        }
        let call = Call { service: &*fake, session: &session };
        world.block_on(world.methods.call(&call, name, params))
    };
    let denied = call(Role::ReadOnly, false).unwrap_err();
    assert_eq!(denied.data.kind, "AccessDenied");
    let told = call(Role::Admin, true);
    assert_eq!(fake.state(), world.seed, "a rehearsal that changed something");
    let made = call(Role::Admin, false);
    let differences = difference(&world.seed, &fake.state());
    match (told, made) {
        (Ok(plan), Ok(_)) => {
            let plan: Value = serde_json::from_str(&plan).unwrap();
            let made: Vec<String> = differences.iter().map(ToString::to_string).collect();
            assert_eq!(plan["Differences"], json!(made));
        }
        (Err(told), Err(made)) => {
            assert_eq!(told, made);
            assert_eq!(fake.state(), world.seed, "a refusal that changed something");
        }
        (told, made) => panic!("told {told:?} and made {made:?}"),
    }
}

fn session(role: Role) -> Session {
    Session::new(Peer { uid: 0, pid: None, role }, Subscribers::new(1))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
