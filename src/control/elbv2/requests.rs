//! From a request to its answer: taken in, known by its signature, done, written.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};

use super::credentials::Keys;
use super::fault::Fault;
use super::http::{self, Asked, Strangers};
use super::once::Once;
use super::reloaded::Reloaded;
use super::signature::{self, Signed};
use super::{actions, query, xml};
use crate::control::socket::{Call, Dispatcher, Peer, Role, Service, Session, Subscribers};

/// The user of a peer that comes by TCP: the number that no user can have.
const NOBODY: u32 = u32::MAX;

/// What all requests are answered with.
pub struct Requests {
    service: Rc<dyn Service>,
    methods: Rc<Dispatcher>,
    keys: Option<Rc<Reloaded<Keys>>>,
    once: Rc<Once>,
    patience: Duration,
    subscribers: Rc<Subscribers>,
    random: SystemRandom,
    /// When a request that was not allowed was logged last, and how many have come since.
    told: Cell<Option<Instant>>,
    untold: Cell<u64>,
}

/// An answer in the making: what is known of the request so far.
#[derive(Default)]
struct Known {
    action: Option<&'static str>,
    who: Option<String>,
}

impl Requests {
    /// Requests to `service` by its `methods`, signed with one of `keys` if there are any; changes are let in by `once`.
    pub fn new(
        service: Rc<dyn Service>,
        methods: Rc<Dispatcher>,
        keys: Option<Rc<Reloaded<Keys>>>,
        once: Rc<Once>,
        patience: Duration,
    ) -> Self {
        let (subscribers, random) = (Subscribers::new(0), SystemRandom::new());
        let (told, untold) = (Cell::new(None), Cell::new(0));
        Requests { service, methods, keys, once, patience, subscribers, random, told, untold }
    }

    /// The answer to `request` of `peer`.
    pub async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        // A client that sends many requests at once waits its turn after each.
        tokio::task::yield_now().await;
        let id = self.request_id();
        let mut known = Known::default();
        let outcome = self.outcome(request, &mut known).await;
        let (action, who) = (known.action.unwrap_or("-"), known.who.as_deref().unwrap_or("-"));
        match outcome {
            Ok(result) => {
                if action.starts_with("Describe") {
                    tracing::debug!(name: "elbv2_question", action, who, %peer, request = id, "an elbv2 request that only asks");
                } else {
                    let generation = self.service.state().generation();
                    tracing::info!(
                        name: "elbv2_request", action, who, %peer, request = id, generation,
                        "an elbv2 request was carried out"
                    );
                }
                http::respond(StatusCode::OK, xml::answer(action, &result, &id), &id, false)
            }
            Err(fault) => {
                self.note(&fault, action, who, peer, &id);
                http::respond(fault.status, xml::refusal(&fault, &id), &id, fault.closes)
            }
        }
    }

    /// The answer to bytes that are no request.
    pub fn refuse(&self, status: StatusCode, why: &str, peer: SocketAddr) -> Response<Full<Bytes>> {
        let id = self.request_id();
        let code =
            if status == StatusCode::REQUEST_TIMEOUT { "RequestTimeout" } else { "MalformedHttpRequest" };
        let fault = Fault::new(code, format!("The request cannot be read: {why}")).status(status).closing();
        self.note(&fault, "-", "-", peer, &id);
        http::respond(status, xml::refusal(&fault, &id), &id, true)
    }

    async fn outcome(
        &self,
        request: Request<Incoming>,
        known: &mut Known,
    ) -> Result<Map<String, Value>, Fault> {
        let strangers = if self.keys.is_some() { Strangers::None } else { Strangers::LocalPrograms };
        let Asked { headers, body } = http::take(request, strangers, self.patience).await?;
        let (mut role, mut signed) = (Role::Admin, None);
        if let Some(keys) = &self.keys {
            let keys = keys.present();
            let Signed { key, signature } = signature::verify(&keys, &headers, &body, unix_now())?;
            (role, signed) = (key.role, Some(signature));
            known.who = Some(key.profile.clone());
        }
        let form = query::parse(&body)?;
        known.action = actions::named(&form);
        let prepared = actions::prepare(form)?;
        let action = prepared.action.name;
        let who = known.who.as_deref().map_or("elbv2".to_owned(), |who| format!("elbv2, as {who}"));
        let is_change = !action.starts_with("Describe");
        // A role that may not change anything fills no memory with what it asks for.
        if let Some(signature) = signed.filter(|_| is_change && role == Role::Admin) {
            self.once.admit(signature, &headers, Instant::now())?;
        }
        let peer = Peer { uid: NOBODY, pid: None, role };
        let session = Session::new(peer, Rc::clone(&self.subscribers)).on_behalf_of(who);
        let call = Call { service: &*self.service, session: &session };
        prepared.run(&call, &self.methods).await.map_err(|fault| match fault.status {
            StatusCode::FORBIDDEN => {
                let who = known.who.as_deref().unwrap_or_default();
                let message = format!(
                    "User: {who} is not authorized to perform: elasticloadbalancing:{action} because its role is {role}"
                );
                Fault { message, ..fault }
            }
            _ => fault,
        })
    }

    /// Logs a refusal. Of those who may not, whoever they are and however often they ask, one a second.
    fn note(&self, fault: &Fault, action: &str, who: &str, peer: SocketAddr, id: &str) {
        tracing::debug!(name: "elbv2_refused", action, who, %peer, request = id, %fault, "an elbv2 request is refused");
        if fault.status != StatusCode::FORBIDDEN {
            return;
        }
        let untold = self.untold.get() + 1;
        if self.told.get().is_some_and(|told| told.elapsed() < Duration::from_secs(1)) {
            self.untold.set(untold);
            return;
        }
        self.told.set(Some(Instant::now()));
        self.untold.set(0);
        tracing::warn!(
            name: "elbv2_not_allowed", action, who, %peer, request = id, %fault, count = untold,
            "somebody may not do what an elbv2 request asks for"
        );
    }

    /// A random UUID (version 4), as AWS's request ids are.
    fn request_id(&self) -> String {
        let mut bytes = [0; 16];
        // Without randomness ids are the same, and nothing depends on them.
        self.random.fill(&mut bytes).ok();
        let bits = u128::from_be_bytes(bytes) & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let text = format!("{bits:032x}");
        [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
    }
}

fn unix_now() -> i64 {
    jiff::Timestamp::now().as_second()
}
