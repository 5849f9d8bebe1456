//! The endpoint: where it listens, with which keys and certificates, and what is behind it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::credentials::Keys;
use super::once::Once;
use super::reloaded::Reloaded;
use super::requests::Requests;
use super::tls;
use crate::control::http::{self, Handler, Limits, Visit};
use crate::control::node::Elbv2;
use crate::control::socket::{Dispatcher, Service};

/// Why there is no endpoint. Each is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The system said no.
    #[error("the elbv2 endpoint cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// There are no credentials where the configuration says.
    #[error("elbv2.credentials: {0}")]
    Credentials(String),
    /// Nor a certificate and its key.
    #[error("elbv2.tls: {0}")]
    Tls(String),
}

/// An endpoint that listens and is not served yet.
pub struct Endpoint {
    listener: TcpListener,
    keys: Option<Rc<Reloaded<Keys>>>,
    tls: Option<Rc<Reloaded<TlsAcceptor>>>,
    once: Rc<Once>,
}

impl Endpoint {
    /// Listens as the configuration says.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(config: &Elbv2) -> Result<Self, BindError> {
        let (keys, tls) = files(config)?;
        let address = config.address;
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| BindError::Listen { address, source })?;
        Ok(Endpoint { listener, keys: keys.map(Rc::new), tls: tls.map(Rc::new), once: Rc::default() })
    }

    /// The same place, files and memory of signatures once more, to be served when whoever served them has ended. Nobody who connects
    /// meanwhile is refused.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn again(&self) -> io::Result<Self> {
        let Endpoint { listener, keys, tls, once } = self;
        Ok(Endpoint {
            listener: listener.try_clone()?,
            keys: keys.clone(),
            tls: tls.clone(),
            once: Rc::clone(once),
        })
    }

    /// Whether the files that the configuration names are sound; nothing is listened to.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn check(config: &Elbv2) -> Result<(), BindError> {
        files(config).map(|_| ())
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

type Files = (Option<Reloaded<Keys>>, Option<Reloaded<TlsAcceptor>>);

/// What the configuration's files say.
fn files(config: &Elbv2) -> Result<Files, BindError> {
    let keys = config.credentials.clone().map(|path| {
        let paths = vec![path.clone()];
        Reloaded::new(paths, move || Keys::read(&path)).map_err(BindError::Credentials)
    });
    let tls = config.tls.clone().map(|files| {
        let paths = vec![files.certificate.clone(), files.key.clone()];
        let read = move || tls::acceptor(&files.certificate, &files.key);
        Reloaded::new(paths, read).map_err(BindError::Tls)
    });
    Ok((keys.transpose()?, tls.transpose()?))
}

/// What is served at an endpoint.
struct Api {
    requests: Requests,
    tls: Option<Rc<Reloaded<TlsAcceptor>>>,
}

impl Handler for Api {
    type Body = Full<Bytes>;

    fn name(&self) -> &'static str {
        "elbv2"
    }

    fn tls(&self) -> Option<Rc<TlsAcceptor>> {
        self.tls.as_ref().map(|tls| tls.present())
    }

    async fn answer(&self, request: Request<Incoming>, visit: &Rc<Visit>) -> Response<Full<Bytes>> {
        self.requests.answer(request, visit.peer()).await
    }

    fn refuse(&self, status: StatusCode, why: &str, visit: &Visit) -> Response<Full<Bytes>> {
        self.requests.refuse(status, why, visit.peer())
    }
}

/// Serves `service` at `endpoint` until the future is dropped, which closes every connection.
///
/// # Errors
/// When the runtime cannot take the listener.
///
/// # Panics
/// Outside a `LocalSet` or a local runtime.
pub async fn serve(
    endpoint: Endpoint,
    service: Rc<dyn Service>,
    methods: Rc<Dispatcher>,
    limits: Limits,
) -> io::Result<()> {
    let Endpoint { listener, keys, tls, once } = endpoint;
    let requests = Requests::new(service, methods, keys, once, limits.patience);
    http::serve(listener, Rc::new(Api { requests, tls }), limits).await
}

/// Answers the requests on one connection without TLS or credentials, from wherever it comes, until it ends.
pub async fn converse<S>(
    stream: S,
    peer: SocketAddr,
    service: Rc<dyn Service>,
    methods: Rc<Dispatcher>,
    limits: Limits,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let requests = Requests::new(service, methods, None, Rc::default(), limits.patience);
    http::converse(stream, peer, Rc::new(Api { requests, tls: None }), limits).await;
}
