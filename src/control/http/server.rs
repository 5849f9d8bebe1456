//! The server: accepts connections and runs each to its end.
//!
//! The control core runs [`serve`] as a task of its current-thread runtime, inside a `LocalSet`.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::{Rc, Weak};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::bare::Bare;
use super::visit::{Progress, Visit};
use crate::control::panics::in_conversation;

/// How long to leave a listener alone that fails to accept, for want of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest head of a request, in bytes: that of a real client has some 900.
const MAX_HEAD: usize = 16 * 1024;
/// The most headers: a real client sends a dozen.
const MAX_HEADERS: usize = 64;

/// How long what a client still sends after its last answer is taken in, and how much of it. The kernel would answer
/// it with a reset when the connection is closed, and the client would lose the answer.
const FAREWELL: Duration = Duration::from_secs(2);
const FAREWELL_BYTES: u64 = 16 << 20;

/// How much a server gives away at most.
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

/// Whoever answers requests.
pub trait Handler: 'static {
    /// What answers are made of.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + 'static;

    /// What is served, for the log.
    fn name(&self) -> &'static str;

    /// TLS for a new connection; none: plain HTTP.
    fn tls(&self) -> Option<Rc<TlsAcceptor>> {
        None
    }

    /// The answer to a request that came on the connection of `visit`.
    fn answer(
        &self,
        request: Request<Incoming>,
        visit: &Rc<Visit>,
    ) -> impl Future<Output = Response<Self::Body>>;

    /// The answer to bytes that are no request. The connection ends with it.
    fn refuse(&self, status: StatusCode, why: &str, visit: &Visit) -> Response<Self::Body>;
}

/// Has `handler` answer at `listener` until the future is dropped, which closes every connection.
///
/// # Errors
/// When the runtime cannot take the listener.
///
/// # Panics
/// Outside a `LocalSet` or a local runtime.
pub async fn serve<H: Handler>(listener: TcpListener, handler: Rc<H>, limits: Limits) -> io::Result<()> {
    let incoming = tokio::net::TcpListener::from_std(listener)?;
    let mut visits: Vec<Weak<Visit>> = Vec::new();
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = tokio::select! {
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(name: "http_connection_failed", server = handler.name(), %error, "a connection's task ended by itself");
                }
                continue;
            }
            accepted = incoming.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(name: "http_cannot_accept", server = handler.name(), %error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        visits.retain(|visit| visit.strong_count() > 0);
        if visits.len() >= limits.connections {
            make_room(&mut visits);
        }
        let visit = Rc::new(Visit::new(peer, stream.local_addr().ok()));
        visits.push(Rc::downgrade(&visit));
        let tls = handler.tls();
        connections.spawn_local(in_conversation(run(stream, visit, tls, Rc::clone(&handler), limits)));
    }
}

/// Answers the requests on one connection without TLS, from wherever it comes, until it ends.
pub async fn converse<S, H>(stream: S, peer: SocketAddr, handler: Rc<H>, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    H: Handler,
{
    exchange(stream, &Rc::new(Visit::new(peer, None)), &handler, limits).await;
}

/// Ends the connection that has been longest without a request; of those that are to stay only if there is
/// no other.
fn make_room(visits: &mut Vec<Weak<Visit>>) {
    let alive = visits.iter().enumerate().filter_map(|(index, visit)| Some((index, visit.upgrade()?)));
    if let Some((index, visit)) = alive.min_by_key(|(_, visit)| (visit.is_to_stay(), visit.asked())) {
        visit.evict();
        visits.swap_remove(index);
    }
}

async fn run<H: Handler>(
    stream: TcpStream,
    visit: Rc<Visit>,
    tls: Option<Rc<TlsAcceptor>>,
    handler: Rc<H>,
    limits: Limits,
) {
    // Answers are small, and what waits for more of them is a client.
    stream.set_nodelay(true).ok();
    let socket = SockRef::from(&stream).try_clone();
    let stream = Progress::new(stream, Rc::clone(&visit));
    let served = async {
        match tls {
            None => exchange(stream, &visit, &handler, limits).await,
            Some(acceptor) => match timeout(limits.patience, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => exchange(stream, &visit, &handler, limits).await,
                Ok(Err(error)) => {
                    tracing::debug!(name: "http_no_tls", peer = %visit.peer(), %error, "no TLS with this client");
                }
                Err(_) => {
                    tracing::debug!(name: "http_tls_slow", peer = %visit.peer(), "a TLS handshake took too long");
                }
            },
        }
    };
    tokio::select! {
        () = served => return,
        () = visit.evicted() => {
            tracing::debug!(name: "http_made_room", peer = %visit.peer(), "a client made room for a newcomer");
        }
        () = visit.silent_for(limits.silence) => {
            tracing::debug!(name: "http_silent", peer = %visit.peer(), "a client was silent for too long");
        }
    }
    if let Ok(socket) = socket {
        // Else the kernel would keep what it has not taken, and offer it for minutes.
        socket.set_linger(Some(Duration::ZERO)).ok();
    }
}

/// Answers the requests of a connection, one after the other.
async fn exchange<S, H>(stream: S, visit: &Rc<Visit>, handler: &Rc<H>, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    H: Handler,
{
    let answer = service_fn(|request| async {
        visit.ask();
        Ok::<_, Infallible>(handler.answer(request, visit).await)
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(Bare::new(stream, Rc::clone(visit))), answer);
    let ended = (&mut connection).await;
    let http1::Parts { io, read_buf: unanswered, .. } = connection.into_parts();
    let stream = io.into_inner();
    let held = stream.held();
    let mut stream = stream.into_inner();
    if let Err(error) = ended {
        tracing::debug!(name: "http_connection_broke", peer = %visit.peer(), %error, "a connection broke");
        if let Some(status) = held.or_else(|| status_of(&error, &unanswered)) {
            let last = last_words(handler.refuse(status, &error.to_string(), visit)).await;
            // A client that is gone needs no answer.
            timeout(FAREWELL, stream.write_all(&last)).await.ok();
        }
        // hyper ends its side only where all went well. Whoever asks on must hear that nobody answers.
        timeout(FAREWELL, stream.shutdown()).await.ok();
    }
    let mut rest = stream.take(FAREWELL_BYTES);
    timeout(FAREWELL, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await.ok();
}

/// The status of the answer to whoever broke off with this error, having said what is unanswered; if hyper gave none
/// and one is due.
fn status_of(error: &hyper::Error, unanswered: &[u8]) -> Option<StatusCode> {
    match error {
        error if error.is_parse() => Some(StatusCode::BAD_REQUEST),
        // Who has said nothing since its last answer has asked nothing.
        error if error.is_timeout() && !unanswered.trim_ascii().is_empty() => {
            Some(StatusCode::REQUEST_TIMEOUT)
        }
        _ => None,
    }
}

/// A connection's last answer, as bytes.
async fn last_words<B: Body<Data = Bytes>>(response: Response<B>) -> Vec<u8> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
    let status = head.status;
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\ndate: {date}\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    )
    .into_bytes();
    for (name, value) in head.headers.iter().filter(|(name, _)| *name != CONNECTION) {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use tokio::io::duplex;
    use tokio::time::Instant;

    struct Says;

    impl Handler for Says {
        type Body = Full<Bytes>;

        fn name(&self) -> &'static str {
            "test"
        }

        async fn answer(&self, _: Request<Incoming>, _: &Rc<Visit>) -> Response<Self::Body> {
            Response::new(Full::from("well"))
        }

        fn refuse(&self, status: StatusCode, why: &str, _: &Visit) -> Response<Self::Body> {
            let mut refusal = Response::new(Full::from(why.to_owned()));
            *refusal.status_mut() = status;
            refusal
        }
    }

    /// The statuses that a client hears who says this and no more, and when the connection ends for it.
    async fn told(said: &str) -> (Vec<u16>, Duration) {
        let (mut client, server) = duplex(1 << 16);
        let start = Instant::now();
        let client = async move {
            client.write_all(said.as_bytes()).await.unwrap();
            let mut heard = String::new();
            client.read_to_string(&mut heard).await.unwrap();
            let statuses = heard.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().unwrap());
            (statuses.collect(), start.elapsed())
        };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        tokio::join!(converse(server, peer, Rc::new(Says), Limits::default()), client).1
    }

    /// Else it would go on to ask where nobody answers.
    #[tokio::test(start_paused = true)]
    async fn who_has_been_silent_for_too_long_hears_the_end_at_once() {
        let whole = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let half = &whole[..whole.len() / 2];
        let patience = Limits::default().patience;
        for (said, expected) in [
            (whole.to_owned(), vec![200]),
            (whole.repeat(3), vec![200; 3]),
            (String::new(), vec![]),
            (half.to_owned(), vec![408]),
            (format!("{whole}{half}"), vec![200, 408]),
        ] {
            let (statuses, waited) = told(&said).await;
            assert_eq!(statuses, expected, "{said:?}");
            // A timer may be late by a millisecond.
            assert!(
                (patience..patience + Duration::from_millis(10)).contains(&waited),
                "{said:?}: {waited:?}"
            );
        }
    }
}
