//! The HTTPS check against targets of our own making, which misbehave: real sockets on loopback, and
//! TLS of the library's server half. Against TLS that others wrote: `tests/https_checks.rs`.

use std::io::{Read, Write};
use std::net::TcpStream as Connection;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::super::peer::{Peer, nobody};
use super::*;
use crate::control::health::state::ReasonCode;

const MINUTE: u64 = 60_000;

/// An Ed25519 key and a certificate for it that names nobody we ask and has expired (made by
/// `openssl x509 -req -days -1`).
const KEY: &[u8] = include_bytes!("peer_key.der");
const CERTIFICATE: &[u8] = include_bytes!("peer_cert.der");

type Session = StreamOwned<ServerConnection, Connection>;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Checks `/health` of a target that does `answer` with the bare connection, for 200–399.
async fn check_of(
    timeout_ms: u64,
    answer: impl FnOnce(Connection) + Send + 'static,
) -> Result<(), StateReason> {
    let peer = Peer::serve(answer);
    let deadline = Deadline::after(ms(timeout_ms));
    let seen = check(peer.address, None, "/health", &Matcher::default(), deadline).await;
    peer.end();
    seen
}

/// The same of a target that speaks TLS and does `answer` inside.
async fn check_of_session(
    timeout_ms: u64,
    answer: impl FnOnce(&mut Session) + Send + 'static,
) -> Result<(), StateReason> {
    check_of(timeout_ms, move |stream| {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
            .unwrap();
        let server = ServerConnection::new(Arc::new(config)).unwrap();
        answer(&mut StreamOwned::new(server, stream));
    })
    .await
}

fn read_request(stream: &mut impl Read) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        request.extend(byte);
    }
    String::from_utf8(request).unwrap()
}

fn failure(code: ReasonCode, description: &str) -> Result<(), StateReason> {
    Err(StateReason { code, description: description.to_owned() })
}

#[tokio::test]
async fn the_question_is_that_of_http_and_the_end_is_a_goodbye_h1_h3() {
    let seen = check_of_session(MINUTE, |session| {
        let request = read_request(session);
        let host = session.sock.local_addr().unwrap();
        assert!(request.starts_with(&format!("GET /health HTTP/1.1\r\nHost: {host}\r\n")), "{request}");
        assert_eq!(session.conn.server_name(), None, "an address is no name to ask for");
        session.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        // Without close_notify this would be an error.
        assert_eq!(session.read(&mut [0]).unwrap(), 0);
    });
    assert_eq!(seen.await, Ok(()));
}

#[test]
fn port_443_is_not_written_into_the_host_field() {
    let request = http::request("10.0.0.1:443".parse().unwrap(), DEFAULT_PORT, "/");
    assert!(request.contains("\r\nHost: 10.0.0.1\r\n"), "{request}");
}

#[tokio::test]
async fn a_code_that_the_matcher_has_not_is_told_h5() {
    let seen = check_of_session(MINUTE, |session| {
        read_request(session);
        session.write_all(b"HTTP/1.1 503 Busy\r\n\r\n").unwrap();
    });
    let description = "Health checks failed with these codes: [503], expected 200-399";
    assert_eq!(seen.await, failure(ReasonCode::ResponseCodeMismatch, description));
}

#[tokio::test]
async fn an_answer_before_the_request_followed_by_a_reset_is_an_answer_h3() {
    for (answer, expected) in [
        (&b"HTTP/1.1 200 OK\r\n\r\n"[..], Ok(())),
        (
            b"HTTP/1.1 500 Oh\r\n\r\n",
            failure(
                ReasonCode::ResponseCodeMismatch,
                "Health checks failed with these codes: [500], expected 200-399",
            ),
        ),
    ] {
        let seen = check_of_session(MINUTE, |session| {
            while session.conn.is_handshaking() {
                session.conn.complete_io(&mut session.sock).unwrap();
            }
            session.write_all(answer).unwrap();
            // The request is there and is not read: the close is a reset.
            assert_eq!(session.sock.peek(&mut [0]).unwrap(), 1);
        });
        assert_eq!(seen.await, expected);
    }
}

#[tokio::test]
async fn a_target_that_refuses_has_failed_with_the_connect_error_h5() {
    let target = nobody();
    let seen = check(target, None, "/", &Matcher::default(), Deadline::after(ms(MINUTE))).await;
    let description = format!("Health checks failed: connect to {target}: Connection refused (os error 111)");
    assert_eq!(seen, failure(ReasonCode::FailedHealthChecks, &description));
}

#[tokio::test]
async fn a_session_that_ends_too_soon_is_told_with_how_much_had_come_h5() {
    let seen = check_of_session(MINUTE, |session| {
        read_request(session);
        session.write_all(b"HTTP/1.1 2").unwrap();
    });
    let description =
        "Health checks failed: connection closed before the answer's head was complete (10 bytes received)";
    assert_eq!(seen.await, failure(ReasonCode::FailedHealthChecks, description));
}

#[tokio::test]
async fn plain_http_on_the_port_is_told_by_its_begin_h5() {
    let seen = check_of(MINUTE, |mut stream| {
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(hello[..3], [22, 3, 1], "a TLS handshake record");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n").unwrap();
        // Until the other side has closed.
        while stream.read(&mut [0; 512]).is_ok_and(|bytes| bytes > 0) {}
    });
    let reason = seen.await.unwrap_err();
    assert_eq!(reason.code, ReasonCode::FailedHealthChecks);
    let told = reason.description;
    assert!(told.starts_with("Health checks failed: TLS handshake with 127.0.0.1:"), "{told}");
    assert!(told.ends_with("; it begins \"HTTP/1.1 400 Bad Request\\r\\nServer\""), "{told}");
}

#[tokio::test]
async fn a_target_that_is_silent_times_out_wherever_it_fell_silent_h3_h5() {
    for (begin, told) in [
        (&b""[..], "TLS handshake not complete (0 bytes received)"),
        // A record that promises a ServerHello of 64 KiB less one, and half of its header.
        (b"\x16\x03\x03\x40\x00\x02\x00", "TLS handshake not complete (7 bytes received)"),
    ] {
        let began = Instant::now();
        let seen = check_of(200, |mut stream| {
            stream.write_all(begin).unwrap();
            while stream.read(&mut [0; 512]).unwrap() > 0 {}
        });
        let description = format!("Request timed out: {told} within 200 ms");
        assert_eq!(seen.await, failure(ReasonCode::Timeout, &description));
        assert!(began.elapsed() >= ms(200));
    }
    let seen = check_of_session(300, |session| {
        read_request(session);
        while session.read(&mut [0; 512]).is_ok_and(|bytes| bytes > 0) {}
    });
    let description = "Request timed out: connected, but no answer within 300 ms";
    assert_eq!(seen.await, failure(ReasonCode::Timeout, description));
}

#[tokio::test]
async fn a_handshake_or_an_answer_that_drips_ends_by_the_timeout_h3() {
    let began = Instant::now();
    let seen = check_of(300, |mut stream| {
        // A handshake message of 64 KiB less one in records of one byte.
        stream.write_all(b"\x16\x03\x03\x00\x04\x02\x00\xff\xff").unwrap();
        while stream.write_all(b"\x16\x03\x03\x00\x01x").is_ok() {
            sleep(ms(10));
        }
    });
    assert_eq!(seen.await.unwrap_err().code, ReasonCode::Timeout);
    let seen = check_of_session(300, |session| {
        read_request(session);
        session.write_all(b"HTTP/1.1 200 OK\r\nX: ").unwrap();
        while session.write_all(b"x").is_ok() {
            sleep(ms(10));
        }
    });
    assert_eq!(seen.await.unwrap_err().code, ReasonCode::Timeout);
    let took = began.elapsed().as_millis();
    assert!((600..4_000).contains(&took), "{took} ms");
}

#[tokio::test]
async fn of_100_mb_of_fields_or_body_no_more_is_taken_than_the_kernel_holds_h3() {
    let send = |session: &mut Session, begin: &[u8]| {
        read_request(session);
        session.write_all(begin).unwrap();
        let megabyte = vec![b'x'; 1 << 20];
        (0..100).take_while(|_| session.write_all(&megabyte).is_ok()).count()
    };
    let head = check_of_session(MINUTE, move |session| {
        let taken = send(session, b"HTTP/1.1 200 OK\r\nX: ");
        assert!(taken < 20, "{taken} MB were taken");
    });
    let description = "Health checks failed: answer's head is longer than 16384 bytes";
    assert_eq!(head.await, failure(ReasonCode::FailedHealthChecks, description));
    let body = check_of_session(MINUTE, move |session| {
        let taken = send(session, b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n");
        assert!(taken < 20, "{taken} MB were taken");
    });
    assert_eq!(body.await, Ok(()));
}
