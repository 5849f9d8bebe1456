//! The server: accepts connections and runs each to its end.
//!
//! The control core runs [`serve`] as a task of its current-thread runtime, inside a `LocalSet`. What is held for
//! clients is bounded: [`Limits::connections`] connections with one request and one answer each. A newcomer to a
//! full house takes the place of the connection that has been longest without a request, so that clients which
//! hold connections and say nothing, or never end, lock nobody out.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::{Rc, Weak};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::credentials::Keys;
use super::progress::{Progress, Visit};
use super::reloaded::Reloaded;
use super::requests::Requests;
use super::tls;
use crate::control::node::Elbv2;
use crate::control::socket::{Dispatcher, Service};

/// How long to leave a listener alone that fails to accept, for want of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest head of a request, in bytes: that of a real client has some 900.
const MAX_HEAD: usize = 16 * 1024;
/// The most headers: a real client sends a dozen.
const MAX_HEADERS: usize = 64;

/// How much the endpoint gives away at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// For a TLS handshake, for a request's head after the one before, and for its body: each as a whole.
    pub patience: Duration,
    /// For a byte to move in either direction.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 64, patience: Duration::from_secs(20), silence: Duration::from_secs(30) }
    }
}

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
    keys: Option<Reloaded<Keys>>,
    tls: Option<Reloaded<TlsAcceptor>>,
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
        Ok(Endpoint { listener, keys, tls })
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
    let Endpoint { listener, keys, tls } = endpoint;
    let incoming = tokio::net::TcpListener::from_std(listener)?;
    let requests = Rc::new(Requests::new(service, methods, keys, limits.patience));
    let mut visits: Vec<Weak<Visit>> = Vec::new();
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = tokio::select! {
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection's task ended by itself");
                }
                continue;
            }
            accepted = incoming.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "the elbv2 endpoint cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        visits.retain(|visit| visit.strong_count() > 0);
        if visits.len() >= limits.connections {
            make_room(&mut visits);
        }
        let visit = Rc::new(Visit::new(peer));
        visits.push(Rc::downgrade(&visit));
        let acceptor = tls.as_ref().map(|tls| tls.present());
        connections.spawn_local(run(stream, visit, acceptor, Rc::clone(&requests), limits));
    }
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
    let requests = Rc::new(Requests::new(service, methods, None, limits.patience));
    exchange(stream, &Rc::new(Visit::new(peer)), &requests, limits).await;
}

/// Ends the connection that has been longest without a request.
fn make_room(visits: &mut Vec<Weak<Visit>>) {
    let alive = visits.iter().enumerate().filter_map(|(index, visit)| Some((index, visit.upgrade()?)));
    if let Some((index, visit)) = alive.min_by_key(|(_, visit)| visit.asked()) {
        visit.evict();
        visits.swap_remove(index);
    }
}

async fn run(
    stream: TcpStream,
    visit: Rc<Visit>,
    acceptor: Option<Rc<TlsAcceptor>>,
    requests: Rc<Requests>,
    limits: Limits,
) {
    // Answers are small, and what waits for more of them is a client.
    stream.set_nodelay(true).ok();
    let socket = SockRef::from(&stream).try_clone();
    let stream = Progress::new(stream, Rc::clone(&visit));
    let served = async {
        match acceptor {
            None => exchange(stream, &visit, &requests, limits).await,
            Some(acceptor) => match timeout(limits.patience, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => exchange(stream, &visit, &requests, limits).await,
                Ok(Err(error)) => {
                    tracing::debug!(peer = %visit.peer(), %error, "no TLS with this client");
                }
                Err(_) => tracing::debug!(peer = %visit.peer(), "a TLS handshake took too long"),
            },
        }
    };
    tokio::select! {
        () = served => return,
        () = visit.evicted() => tracing::debug!(peer = %visit.peer(), "it made room for a newcomer"),
        () = visit.silent_for(limits.silence) => tracing::debug!(peer = %visit.peer(), "it was silent"),
    }
    if let Ok(socket) = socket {
        // Else the kernel would keep what it has not taken, and offer it for minutes.
        socket.set_linger(Some(Duration::ZERO)).ok();
    }
}

/// Answers the requests of a connection, one after the other.
async fn exchange<S>(stream: S, visit: &Rc<Visit>, requests: &Rc<Requests>, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let answer = service_fn(|request| async {
        visit.ask();
        Ok::<_, Infallible>(requests.answer(request, visit.peer()).await)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = connection.await {
        tracing::debug!(peer = %visit.peer(), %error, "a connection ended");
    }
}
