//! The HTTP check against real sockets on loopback, and its reading of an answer against a property.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream as Connection};
use std::thread::sleep;
use std::time::Duration;

use proptest::prelude::*;
use tokio::net::TcpSocket;

use super::super::peer::{Peer, nobody};
use super::*;

const MINUTE: u64 = 60_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Checks `/health` of a target that does `answer`, for 200–399.
async fn check_of(
    timeout_ms: u64,
    answer: impl FnOnce(&mut Connection) + Send + 'static,
) -> Result<(), StateReason> {
    let peer = Peer::serve(move |mut stream| answer(&mut stream));
    let deadline = Deadline::after(ms(timeout_ms));
    let seen = check(peer.address, None, "/health", &Matcher::default(), deadline).await;
    peer.end();
    seen
}

/// The same, of a target that reads the request and sends `answer`.
async fn answered_by(answer: &'static [u8]) -> Result<(), StateReason> {
    check_of(MINUTE, move |stream| {
        read_request(stream);
        stream.write_all(answer).unwrap();
    })
    .await
}

fn read_request(stream: &mut Connection) -> Vec<u8> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        request.extend(byte);
    }
    request
}

fn failure(code: ReasonCode, description: &str) -> Result<(), StateReason> {
    Err(StateReason { code, description: description.to_owned() })
}

#[tokio::test]
async fn the_request_is_a_get_over_http_1_1_that_asks_to_close_h1() {
    let seen = check_of(MINUTE, |stream| {
        let request = String::from_utf8(read_request(stream)).unwrap();
        let expected = format!(
            "GET /health HTTP/1.1\r\nHost: {}\r\nUser-Agent: flowgate-health/{}\r\nAccept: */*\r\n\
             Connection: close\r\n\r\n",
            stream.local_addr().unwrap(),
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(request, expected);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        // Closed after the answer (H-3), though this side keeps it open.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    assert_eq!(seen.await, Ok(()));
}

// H-1
#[test]
fn port_80_is_not_written_into_the_host_field() {
    let request = request("10.0.0.1:80".parse().unwrap(), 80, "/");
    assert!(request.contains("\r\nHost: 10.0.0.1\r\n"), "{request}");
}

#[tokio::test]
async fn any_answer_with_a_code_of_the_matcher_is_healthy_h1() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..],
        b"HTTP/1.1 399 \r\n\r\n",
        b"HTTP/1.1 204\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\nServer: bare line ends\n\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ] {
        assert_eq!(answered_by(answer).await, Ok(()), "{}", answer.escape_ascii());
    }
}

#[tokio::test]
async fn a_code_that_the_matcher_has_not_is_told_h5() {
    for (answer, description) in [
        (
            &b"HTTP/1.1 503 Service Unavailable\r\n\r\n"[..],
            "Health checks failed with these codes: [503], expected 200-399",
        ),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "Health checks failed with these codes: [404], expected 200-399"),
        // The final code decides, not an interim one; 101 is final.
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oh\r\n\r\n",
            "Health checks failed with these codes: [500], expected 200-399",
        ),
        (
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "Health checks failed with these codes: [101], expected 200-399",
        ),
    ] {
        assert_eq!(answered_by(answer).await, failure(ReasonCode::ResponseCodeMismatch, description));
    }
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_told_by_its_begin_h5() {
    for (answer, description) in [
        (
            &b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"[..],
            "Health checks failed: answer is not HTTP/1: invalid HTTP version; it begins \
             \"SSH-2.0-OpenSSH_9.2p1 Debian-2+d\"",
        ),
        (
            b"\x15\x03\x01\x00\x02\x02\x46",
            "Health checks failed: answer is not HTTP/1: invalid HTTP version; it begins \
             \"\\x15\\x03\\x01\\x00\\x02\\x02F\"",
        ),
        (
            b"HTTP/1.1 2x0 OK\r\n\r\n",
            "Health checks failed: answer is not HTTP/1: invalid response status; it begins \
             \"HTTP/1.1 2x0 OK\\r\\n\\r\\n\"",
        ),
    ] {
        assert_eq!(answered_by(answer).await, failure(ReasonCode::FailedHealthChecks, description));
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
async fn a_connection_that_ends_too_soon_is_told_with_how_much_had_come_h5() {
    assert_eq!(
        answered_by(b"").await,
        failure(
            ReasonCode::FailedHealthChecks,
            "Health checks failed: connection closed before the answer's head was complete (0 bytes received)"
        )
    );
    assert_eq!(
        answered_by(b"HTTP/1.1 200 OK\r\n").await,
        failure(
            ReasonCode::FailedHealthChecks,
            "Health checks failed: connection closed before the answer's head was complete (17 bytes received)"
        )
    );
}

#[tokio::test]
async fn a_target_that_connects_and_says_nothing_times_out_h5() {
    let seen = check_of(200, |stream| {
        read_request(stream);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    let description = "Request timed out: connected, but no answer within 200 ms";
    assert_eq!(seen.await, failure(ReasonCode::Timeout, description));
}

#[tokio::test]
async fn a_target_that_stops_in_the_head_times_out_with_how_much_had_come_h5() {
    let seen = check_of(200, |stream| {
        read_request(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nServer:").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    let description = "Request timed out: answer's head not complete (24 bytes received) within 200 ms";
    assert_eq!(seen.await, failure(ReasonCode::Timeout, description));
}

#[tokio::test]
async fn a_target_that_drips_does_not_hold_a_check_beyond_its_timeout_h3() {
    let began = std::time::Instant::now();
    let seen = check_of(300, |stream| {
        read_request(stream);
        // It would take 16 seconds; the check closes before, and the write fails.
        stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").unwrap();
        for _ in 0..800 {
            if stream.write_all(b"x").is_err() {
                return;
            }
            sleep(ms(20));
        }
    });
    assert_eq!(seen.await.unwrap_err().code, ReasonCode::Timeout);
    let took = began.elapsed().as_millis();
    assert!((300..2_000).contains(&took), "{took} ms");
}

#[tokio::test]
async fn a_body_of_100_mb_is_not_read_h3() {
    let seen = check_of(MINUTE, |stream| {
        read_request(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n").unwrap();
        let megabyte = vec![b'x'; 1 << 20];
        let taken = (0..100).take_while(|_| stream.write_all(&megabyte).is_ok()).count();
        // What the kernel's two buffers hold, and no more.
        assert!(taken < 20, "{taken} MB were taken");
    });
    assert_eq!(seen.await, Ok(()));
}

#[tokio::test]
async fn a_head_may_have_16384_bytes_and_not_one_more_h3() {
    let head = |length: usize| {
        let begin = "HTTP/1.1 200 OK\r\nX: ";
        format!("{begin}{}\r\n\r\n", "x".repeat(length - begin.len() - 4))
    };
    for (length, expected) in [
        (16_384, Ok(())),
        (
            16_385,
            failure(
                ReasonCode::FailedHealthChecks,
                "Health checks failed: answer's head is longer than 16384 bytes",
            ),
        ),
    ] {
        let answer = head(length);
        assert_eq!(answer.len(), length);
        let seen = check_of(MINUTE, move |stream| {
            read_request(stream);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        assert_eq!(seen.await, expected, "{length}");
    }
}

#[tokio::test]
async fn a_head_of_too_many_fields_is_refused_h3() {
    let seen = check_of(MINUTE, |stream| {
        read_request(stream);
        let fields = "a: b\r\n".repeat(MAX_FIELDS + 1);
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes()).unwrap();
    });
    let description = "Health checks failed: answer is not HTTP/1: too many headers; it begins \
                       \"HTTP/1.1 200 OK\\r\\na: b\\r\\na: b\\r\\na: \"";
    assert_eq!(seen.await, failure(ReasonCode::FailedHealthChecks, description));
}

/// A target without end: it sends `pattern` again and again after `begin`, at once.
struct Endless {
    begin: &'static [u8],
    pattern: &'static [u8],
    sent: usize,
}

impl AsyncRead for Endless {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        while buffer.remaining() > 0 {
            let next = self.begin.get(self.sent).copied();
            let later = self.sent.saturating_sub(self.begin.len()) % self.pattern.len();
            buffer.put_slice(&[next.unwrap_or(self.pattern[later])]);
            self.sent += 1;
        }
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn of_an_answer_without_end_16384_bytes_are_read_and_not_one_more_h3() {
    let long = "answer's head is longer than 16384 bytes";
    for (begin, pattern, told) in [
        // A field, an empty field's begin, a status line, a reason and an interim answer that do not end.
        (&b"HTTP/1.1 200 OK\r\nX: "[..], &b"x"[..], long),
        (b"HTTP/1.1 200 OK\r\n", b"x", long),
        (b"HTTP/1.1 200 ", b"k", long),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", long),
        // Lines before the status line, which RFC 9112 (2.2) lets a reader pass over.
        (b"", b"\r\n", long),
        // Fields and fields: stopped by their number before.
        (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", "answer is not HTTP/1: too many headers; it begins"),
        // A version that never comes to its end.
        (b"HTTP/1.1", b"1", "answer is not HTTP/1: invalid HTTP version; it begins"),
    ] {
        let mut target = Endless { begin, pattern, sent: 0 };
        let Err(ReadFailure::Reason(reason)) = final_code(&mut target, Deadline::after(ms(MINUTE))).await
        else {
            panic!("there is no end: {}", pattern.escape_ascii());
        };
        assert_eq!(reason.code, ReasonCode::FailedHealthChecks);
        let told = format!("Health checks failed: {told}");
        assert!(
            reason.description.starts_with(&told),
            "{} for {}",
            reason.description,
            pattern.escape_ascii()
        );
        assert!(target.sent <= MAX_HEAD, "{} bytes were read", target.sent);
    }
}

#[tokio::test]
async fn a_status_line_that_is_cut_is_told_wherever_it_is_cut_h5() {
    let line = b"HTTP/1.1 200 OK\r\n";
    for length in 1..line.len() {
        let told = format!(
            "Health checks failed: connection closed before the answer's head was complete \
             ({length} bytes received)"
        );
        assert_eq!(answered_by(&line[..length]).await, failure(ReasonCode::FailedHealthChecks, &told));
    }
}

#[tokio::test]
async fn fields_of_100_mb_are_not_taken_h3() {
    let seen = check_of(MINUTE, |stream| {
        read_request(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").unwrap();
        let megabyte = vec![b'x'; 1 << 20];
        let taken = (0..100).take_while(|_| stream.write_all(&megabyte).is_ok()).count();
        assert!(taken < 20, "{taken} MB were taken");
    });
    let description = "Health checks failed: answer's head is longer than 16384 bytes";
    assert_eq!(seen.await, failure(ReasonCode::FailedHealthChecks, description));
}

#[tokio::test]
async fn an_answer_without_reading_the_request_is_an_answer_h3() {
    // Closed with the request unread, the kernel sends a reset after the answer.
    let seen = check_of(MINUTE, |stream| stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap());
    assert_eq!(seen.await, Ok(()));
}

/// Connects to a target that sends `answer` and then resets, and asks only when both have come.
async fn ask_after_reset(answer: &'static [u8]) -> Result<u16, StateReason> {
    let peer = Peer::serve(move |mut stream| {
        stream.write_all(answer).unwrap();
        // One byte that it does not read makes its close a reset.
        assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
    });
    let mut stream = TcpSocket::new_v4().unwrap().connect(peer.address.into()).await.unwrap();
    stream.writable().await.unwrap();
    assert_eq!(stream.try_write(b"?").unwrap(), 1);
    peer.end();
    sleep(ms(20));
    let request = request("127.0.0.1:80".parse().unwrap(), 80, "/");
    ask(&mut stream, &request, Deadline::after(ms(MINUTE))).await
}

#[tokio::test]
async fn an_answer_before_the_request_followed_by_a_reset_is_an_answer_h3() {
    assert_eq!(ask_after_reset(b"HTTP/1.1 200 OK\r\n\r\n").await, Ok(200));
    assert_eq!(ask_after_reset(b"HTTP/1.1 503 Busy\r\n\r\n").await, Ok(503));
}

#[tokio::test]
async fn a_reset_without_a_whole_answer_is_told_with_what_had_come_h5() {
    let failed = |description: &str| {
        Err(StateReason { code: ReasonCode::FailedHealthChecks, description: description.to_owned() })
    };
    assert_eq!(
        ask_after_reset(b"").await,
        failed(
            "Health checks failed: connection closed before the answer's head was complete \
             (0 bytes received); request: Connection reset by peer (os error 104)"
        )
    );
    assert_eq!(
        ask_after_reset(b"HTTP/1.1").await,
        failed(
            "Health checks failed: connection closed before the answer's head was complete \
             (8 bytes received); request: Connection reset by peer (os error 104)"
        )
    );
}

#[tokio::test]
async fn a_target_that_closes_its_side_after_the_answer_is_healthy_h3() {
    let seen = check_of(MINUTE, |stream| {
        read_request(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    assert_eq!(seen.await, Ok(()));
}

/// What is read of `answer` if it comes in pieces that end at `cuts`.
fn read_in_pieces(answer: &[u8], cuts: &[prop::sample::Index]) -> Result<Option<u16>, StateReason> {
    let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(answer.len() + 1)).collect();
    ends.push(answer.len());
    ends.sort_unstable();
    let (mut head, mut begin) = (Vec::new(), 0);
    for end in ends {
        head.extend(&answer[begin..end]);
        begin = end;
        if let Some(code) = take_final_code(&mut head)? {
            return Ok(Some(code));
        }
    }
    Ok(None)
}

proptest! {
    // H-3
    #[test]
    fn the_code_does_not_depend_on_how_the_answer_is_cut_into_pieces(
        interim in prop::collection::vec(prop_oneof![Just(100), 102_u16..200], 0..3),
        code in 200_u16..1000,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let heads = interim.iter().chain([&code]);
        let answer: String = heads.map(|code| format!("HTTP/1.1 {code} X\r\nA: b\r\n\r\n")).collect();
        prop_assert_eq!(read_in_pieces(answer.as_bytes(), &cuts), Ok(Some(code)));
    }

    // H-3
    #[test]
    fn any_bytes_are_read_without_a_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), prefix in any::<bool>(),
    ) {
        if prefix {
            bytes.splice(0..0, *b"HTTP/1.1 ");
        }
        match take_final_code(&mut bytes) {
            Ok(code) => prop_assert!(code.is_none_or(|code| code < 1000)),
            Err(reason) => prop_assert_eq!(reason.code, ReasonCode::FailedHealthChecks),
        }
    }
}
