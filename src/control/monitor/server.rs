//! Where the endpoint listens, and who may ask.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use hyper::body::{Body as _, Incoming};
use hyper::header::HOST;
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Behind;
use super::answer::{self, AnswerBody};
use super::routes::Routes;
use crate::control::http::{self, Handler, Limits, Visit, is_this_machine};
use crate::control::node::Monitor;

/// Why there is no endpoint. It is one sentence.
#[derive(Debug, thiserror::Error)]
#[error("the monitoring endpoint cannot listen on {address}: {source}")]
pub struct BindError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// An endpoint that listens and is not served yet.
pub struct Endpoint {
    listener: TcpListener,
}

impl Endpoint {
    /// Listens as the configuration says; `None` if it wants no endpoint, or if it names no address and the
    /// usual one is taken, which is told once and is no fault.
    ///
    /// # Errors
    /// If the address that it names cannot be listened on.
    pub fn bind(config: &Monitor) -> Result<Option<Self>, BindError> {
        if !config.enabled {
            return Ok(None);
        }
        let address = config.address.unwrap_or(Monitor::DEFAULT);
        let bound =
            TcpListener::bind(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        match bound {
            Ok(listener) => {
                tracing::info!(name: "monitor_started", %address, "metrics are served over HTTP");
                Ok(Some(Endpoint { listener }))
            }
            Err(source) if config.address.is_some() => Err(BindError { address, source }),
            Err(source) => {
                let error = BindError { address, source };
                tracing::warn!(
                    name: "monitor_not_started", %address, %error,
                    "the daemon runs without its monitoring endpoint; monitor.address chooses another place"
                );
                Ok(None)
            }
        }
    }

    /// The same place once more, to be served when whoever served it has ended. Nobody who connects meanwhile is refused.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Endpoint { listener: self.listener.try_clone()? })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves what is `behind` at `endpoint` until the future is dropped, which closes every connection.
///
/// # Errors
/// When the runtime cannot take the listener.
///
/// # Panics
/// Outside a `LocalSet` or a local runtime.
pub async fn serve(endpoint: Endpoint, behind: Behind, limits: Limits) -> io::Result<()> {
    let recorder = Rc::clone(&behind.recorder);
    let server = Rc::new(Server { routes: Routes::new(behind) });
    tokio::select! {
        served = http::serve(endpoint.listener, server, limits) => served,
        // It ends when the control core does.
        () = recorder.run() => Ok(()),
    }
}

/// Answers the requests on one connection, from wherever it comes, until it ends.
pub async fn converse<S>(stream: S, peer: SocketAddr, behind: Behind, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    http::converse(stream, peer, Rc::new(Server { routes: Routes::new(behind) }), limits).await;
}

struct Server {
    routes: Routes,
}

impl Handler for Server {
    type Body = AnswerBody;

    fn name(&self) -> &'static str {
        "monitor"
    }

    async fn answer(&self, request: Request<Incoming>, visit: &Rc<Visit>) -> Response<AnswerBody> {
        // A client that sends many requests at once waits its turn after each.
        tokio::task::yield_now().await;
        match refused(&request, visit.is_local()) {
            Some(refusal) => refusal,
            None => self.routes.answer(&request, visit).await,
        }
    }

    fn refuse(&self, status: StatusCode, why: &str, _: &Visit) -> Response<AnswerBody> {
        answer::refusal(status, &format!("The request cannot be read: {why}."))
    }
}

/// The answer to a request that is not served, whatever it asks for.
fn refused(request: &Request<Incoming>, is_local: bool) -> Option<Response<AnswerBody>> {
    let headers = request.headers();
    let forbidden = |sentence| Some(answer::refusal(StatusCode::FORBIDDEN, sentence));
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Some(answer::refusal(StatusCode::BAD_REQUEST, "There is more than one Host header."));
    }
    // A browser always says whom it takes this for; health checks of HTTP/1.0 do not.
    if is_local && host.is_some_and(|host| !is_this_machine(host)) {
        return forbidden(
            "Over loopback only this machine is served, by the name localhost or by a loopback address.",
        );
    }
    if is_of_another_page(request) {
        return forbidden("Pages of other origins are not served.");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Some(answer::reading_only());
    }
    if request.uri().authority().is_some() {
        return Some(answer::refusal(
            StatusCode::BAD_REQUEST,
            "The address has a host in it, as for a proxy.",
        ));
    }
    if request.body().size_hint().exact() != Some(0) {
        return Some(answer::refusal(StatusCode::BAD_REQUEST, "A request to read has no body."));
    }
    None
}

/// Whether a browser says that a page of another origin asks. Following a link from one is what people do.
fn is_of_another_page(request: &Request<Incoming>) -> bool {
    let says = |name, what: &[&str]| {
        request.headers().get(name).is_some_and(|value| what.iter().any(|what| value == what))
    };
    says("sec-fetch-site", &["cross-site", "same-site"]) && !says("sec-fetch-mode", &["navigate"])
}
