//! The web page and what it asks for. The page is plain HTML, CSS and JavaScript as in `page/`, put into the daemon when
//! that is built: nothing is made from it and nothing comes from elsewhere.
//!
//! | path | |
//! |---|---|
//! | `/`, `/page/…` | the page and its parts |
//! | `/api/overview` | the node now, as `get-overview` of the socket |
//! | `/api/history` | the last five minutes (`span=fine`) or the last hour (`span=coarse`) of the node, or of `target=GROUP/ADDRESS` |
//! | `/api/failovers` | the last failovers on record, as `describe-failovers` of the socket |
//! | `/api/timeline` | the last hour's events |
//! | `/events` | events as they come (server-sent events), after `Last-Event-ID` or `after=ID` |

use std::rc::Rc;

use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Response, StatusCode, Uri};
use percent_encoding::percent_decode_str;

use super::answer::{self, AnswerBody};
use super::history::Span;
use super::recorder::Recorder;
use super::streams::Streams;
use super::timeline::Place;
use crate::control::http::Visit;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// The page can show and ask for nothing but its own, and nobody can show it as a part of theirs. No script or
/// style stands in the HTML, so that no name of an operator's can become one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! assets {
    ($($kind:ident $name:literal,)+) => {
        &[$(($name, $kind, include_str!(concat!("page/", $name)))),+]
    };
}

/// The parts of the page: name, type, content.
const ASSETS: &[(&str, &str, &str)] = assets![
    HTML "index.html",
    CSS "base.css",
    CSS "parts.css",
    SVG "icon.svg",
    SCRIPT "charts.js",
    SCRIPT "detail.js",
    SCRIPT "dom.js",
    SCRIPT "failovers.js",
    SCRIPT "lanes.js",
    SCRIPT "live.js",
    SCRIPT "main.js",
    SCRIPT "model.js",
    SCRIPT "path.js",
    SCRIPT "tables.js",
    SCRIPT "theme.js",
    SCRIPT "timeline.js",
    SCRIPT "words.js",
];

/// A part of the page, if `path` is that of one.
pub fn asset(path: &str) -> Option<Response<AnswerBody>> {
    let name = if path == "/" { "index.html" } else { path.strip_prefix("/page/")? };
    let (_, kind, content) = ASSETS.iter().find(|(known, ..)| *known == name)?;
    let mut response = answer::whole(StatusCode::OK, kind, content.as_bytes());
    let headers = response.headers_mut();
    headers.insert("content-security-policy", HeaderValue::from_static(POLICY));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    Some(response)
}

/// What the page asks for, if `uri` is that of such a thing.
pub fn data(
    uri: &Uri,
    headers: &HeaderMap,
    recorder: &Rc<Recorder>,
    streams: &Streams,
    visit: &Visit,
) -> Option<Response<AnswerBody>> {
    let query = uri.query().unwrap_or_default();
    let response = match uri.path() {
        "/api/overview" => answer::whole(StatusCode::OK, JSON, recorder.overview()),
        "/api/failovers" => answer::whole(StatusCode::OK, JSON, recorder.failovers()),
        "/api/timeline" => answer::whole(StatusCode::OK, JSON, recorder.timeline()),
        "/api/history" => history(query, recorder),
        "/events" => events(query, headers, recorder, streams, visit),
        _ => return None,
    };
    Some(response)
}

fn history(query: &str, recorder: &Recorder) -> Response<AnswerBody> {
    let span = match value(query, "span").as_deref() {
        None | Some("fine") => Span::Fine,
        Some("coarse") => Span::Coarse,
        Some(_) => return answer::refusal(StatusCode::BAD_REQUEST, "The span is fine or coarse."),
    };
    match recorder.history(value(query, "target").as_deref(), span) {
        Some(json) => answer::whole(StatusCode::OK, JSON, json),
        None => answer::refusal(StatusCode::NOT_FOUND, "There is no history of that."),
    }
}

fn events(
    query: &str,
    headers: &HeaderMap,
    recorder: &Rc<Recorder>,
    streams: &Streams,
    visit: &Visit,
) -> Response<AnswerBody> {
    // What a browser says when it comes back is of later than what the page said when it came.
    let of_browser = headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default().to_owned());
    let place = match of_browser.or_else(|| value(query, "after")) {
        None => None,
        Some(id) => match Place::parse(&id) {
            Some(place) => Some(place),
            None => return answer::refusal(StatusCode::BAD_REQUEST, "There is no event of that id."),
        },
    };
    match streams.open(EVENTS, visit) {
        Ok((feed, response)) => {
            recorder.follow(feed, place);
            response
        }
        Err(refused) => *refused,
    }
}

/// The value of a query's parameter.
fn value(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(known, _)| *known == name)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::history::HistoryView;
    use super::super::timeline::Timeline;
    use super::*;
    use crate::control::events::{Event, Timestamp};
    use crate::control::socket::methods;
    use serde_json::Value;
    use std::collections::HashSet;

    #[test]
    fn every_file_of_the_page_is_served_and_no_other() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/control/monitor/page");
        let files = std::fs::read_dir(folder).unwrap();
        let mut there: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        there.sort_unstable();
        let mut served: Vec<&str> = ASSETS.iter().map(|(name, ..)| *name).collect();
        served.sort_unstable();
        assert_eq!(there, served);
        for path in ["/index.html", "/page/", "/page/nothing.js", "/page/../page.rs", "/page//dom.js"] {
            assert!(asset(path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_page_holds_to_its_policy() {
        for (name, _, content) in ASSETS {
            for word in
                ["https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!content.contains(word), "{name} has {word}");
            }
        }
        let (_, _, html) = ASSETS.iter().find(|(name, ..)| *name == "index.html").unwrap();
        for word in ["<style", " style=", "onclick", "<script>", "javascript:"] {
            assert!(!html.contains(word), "{word}");
        }
    }

    /// The members that a script reads of what it is told: those with a capital, but for the browser's own.
    fn members(script: &str) -> impl Iterator<Item = &str> {
        script.split('.').skip(1).filter_map(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let member = &rest[..end];
            let is_read = member.starts_with(|first: char| first.is_ascii_uppercase())
                && member.contains(|letter: char| letter.is_ascii_lowercase())
                && !["NumberFormat", "DateTimeFormat"].contains(&member);
            is_read.then_some(member)
        })
    }

    /// The names of all members, and the last words of all strings, in a schema or in a value.
    fn names(value: &Value, is_schema: bool, found: &mut HashSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, inner) in members {
                    if !is_schema {
                        found.insert(name.clone());
                    } else if name == "properties"
                        && let Value::Object(properties) = inner
                    {
                        found.extend(properties.keys().cloned());
                    }
                    names(inner, is_schema, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| names(item, is_schema, found)),
            // A reason such as `Target.Timeout` is a word that looks like a member.
            Value::String(word) => found.extend(word.rsplit_once('.').map(|(_, last)| last.to_owned())),
            _ => {}
        }
    }

    #[test]
    fn the_page_reads_nothing_that_it_is_not_told() {
        // Of an entry of the timeline.
        let mut told: HashSet<String> = ["Until"].map(str::to_owned).into();
        names(&methods::dispatcher().document(), true, &mut told);
        names(&schemars::schema_for!(Event).to_value(), true, &mut told);
        let now = Timestamp::from_unix_ms(0);
        names(&serde_json::to_value(HistoryView::default()).unwrap(), false, &mut told);
        names(&serde_json::to_value(Timeline::new(now).view(now)).unwrap(), false, &mut told);
        let unknown = |script| members(script).filter(|member| !told.contains(*member)).collect::<Vec<_>>();
        assert_eq!(unknown("a.Target.Durations.b.Flows"), ["Durations"], "which is a type's name alone");
        for (name, _, script) in ASSETS.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            assert_eq!(unknown(script), Vec::<&str>::new(), "{name} reads what nobody tells");
        }
    }

    #[test]
    fn a_query_is_read_as_browsers_write_it() {
        let query = "span=fine&target=fire%2Fwalls%2F10.0.0.1&empty=";
        assert_eq!(value(query, "target").as_deref(), Some("fire/walls/10.0.0.1"));
        assert_eq!(value(query, "empty").as_deref(), Some(""));
        assert_eq!(value(query, "arget"), None);
        assert_eq!(value("target=%ff%", "target").as_deref(), Some("\u{fffd}%"));
    }
}
