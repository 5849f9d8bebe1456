//! What is not a request of this API gets its reason and no more, and the next client does not notice.

use crate::client::{Client, request, text};
use crate::endpoint::{LIMITS, Served};
use std::net::Shutdown;
use std::time::{Duration, Instant};

const DESCRIBE: &str = "Action=DescribeLoadBalancers&Version=2015-12-01";

/// A request without the end of its body.
pub fn half_a_body() -> String {
    let mut whole = request("", DESCRIBE);
    whole.truncate(whole.len() - DESCRIBE.len() / 2);
    whole
}

/// What the server makes of these bytes: the status of its one answer, after which the connection ends.
fn verdict(served: &Served, name: &str, bytes: impl AsRef<[u8]>) -> u16 {
    let mut client = served.connect();
    client.send(bytes);
    let (status, _, message) = client.answer().unwrap_or_else(|| panic!("{name}: no answer")).refusal();
    assert!(!message.is_empty());
    assert!(client.ends(), "{name}: a connection that goes on");
    assert_eq!(served.connect().post(DESCRIBE).status, 200);
    status
}

#[test]
fn bytes_in_which_another_could_see_a_second_request_end_the_connection() {
    let served = Served::start();
    let smuggled = request("", "Action=DeleteLoadBalancer&Version=2015-12-01");
    let length = DESCRIBE.len();
    let post = |headers: &str, body: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n{headers}\r\n{body}{smuggled}"
        )
    };
    let chunked = format!("{length:x}\r\n{DESCRIBE}\r\n0\r\n\r\n");
    for (name, bytes, expected) in [
        ("chunked", post("Transfer-Encoding: chunked\r\n", &chunked), 411),
        (
            "CL.TE",
            post(&format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"), &chunked),
            411,
        ),
        (
            "TE.CL",
            post(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), &chunked),
            411,
        ),
        ("TE.TE", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", &chunked), 400),
        (
            "TE obfuscated",
            post(&format!("Transfer-Encoding: xchunked\r\nContent-Length: {length}\r\n"), DESCRIBE),
            400,
        ),
        (
            "TE in vain",
            post(&format!("Transfer-Encoding : chunked\r\nContent-Length: {length}\r\n"), DESCRIBE),
            400,
        ),
        ("two lengths", post(&format!("Content-Length: {length}\r\nContent-Length: 3\r\n"), DESCRIBE), 400),
        ("a list of lengths", post(&format!("Content-Length: {length}, {length}\r\n"), DESCRIBE), 400),
        ("a length with a sign", post(&format!("Content-Length: +{length}\r\n"), DESCRIBE), 400),
        ("a length below none", post("Content-Length: -1\r\n", DESCRIBE), 400),
        ("a length in hexadecimal", post("Content-Length: 0x2f\r\n", DESCRIBE), 400),
        ("a length beyond 64 bits", post("Content-Length: 99999999999999999999999\r\n", DESCRIBE), 400),
        ("a folded header", post(&format!("X: a\r\n b\r\nContent-Length: {length}\r\n"), DESCRIBE), 400),
        ("a header without a name", post(&format!(": a\r\nContent-Length: {length}\r\n"), DESCRIBE), 400),
        ("a zero in a header", post(&format!("X: a\0b\r\nContent-Length: {length}\r\n"), DESCRIBE), 400),
        ("two hosts", post(&format!("Host: localhost\r\nContent-Length: {length}\r\n"), DESCRIBE), 400),
        (
            "two types",
            post(&format!("Content-Type: text/plain\r\nContent-Length: {length}\r\n"), DESCRIBE),
            400,
        ),
    ] {
        assert_eq!(verdict(&served, name, &bytes), expected, "{name}");
    }
    // Whatever was seen in those bytes, nothing was deleted.
    assert!(served.done("DescribeLoadBalancers", "").contains("<LoadBalancerName>gw</LoadBalancerName>"));
}

#[test]
fn a_carriage_return_alone_ends_no_line() {
    let served = Served::start();
    let bytes = request("X: a\rTransfer-Encoding: chunked\r\n", DESCRIBE);
    assert_eq!(verdict(&served, "", bytes), 400);
}

// RFC 9110, section 8.6: the same length said twice is one length.
#[test]
fn the_same_length_twice_is_one_length() {
    let served = Served::start();
    let mut client = served.connect();
    client.send(request(&format!("Content-Length: {}\r\n", DESCRIBE.len()), DESCRIBE).repeat(2));
    let statuses: Vec<u16> = (0..2).map(|_| client.answer().unwrap().status).collect();
    assert_eq!(statuses, [200, 200]);
}

#[test]
fn requests_behind_one_another_are_answered_in_their_order() {
    let served = Served::start();
    let mut client = served.connect();
    client.send(format!(
        "{}{}{}",
        request("", DESCRIBE),
        request("", "Action=No&Version=2015-12-01"),
        request("", DESCRIBE)
    ));
    let statuses: Vec<u16> = (0..3).map(|_| client.answer().unwrap().status).collect();
    assert_eq!(statuses, [200, 400, 200]);
}

#[test]
fn what_is_not_http_is_refused_or_ended() {
    let served = Served::start();
    let post = request("", DESCRIBE);
    let unreadable = |why: &str| ("MalformedHttpRequest", format!("The request cannot be read: {why}"));
    let (method, version) = ("invalid HTTP method parsed", "invalid HTTP version parsed");
    let too_large = "message head is too large";
    for (name, bytes, status, why) in [
        ("an empty line and an end", b"\r\n\r\n\0".to_vec(), 400, method),
        ("random bytes", (0..=255).cycle().take(5000).map(|n: u8| n.wrapping_mul(89)).collect(), 400, method),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), 400, method),
        (
            "HTTP/2",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            400,
            "invalid HTTP version parsed (found HTTP2 preface)",
        ),
        (
            "the socket's protocol",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"describe-workers\"}\n".to_vec(),
            400,
            method,
        ),
        ("a version of the future", post.replace("HTTP/1.1", "HTTP/9.9").into_bytes(), 400, version),
        (
            "an address too long",
            post.replace("POST /", &format!("POST /{}", "a".repeat(70_000))).into_bytes(),
            431,
            too_large,
        ),
        (
            "a head too long",
            request(&format!("X: {}\r\n", "a".repeat(20_000)), DESCRIBE).into_bytes(),
            431,
            too_large,
        ),
        ("too many headers", request(&"X: a\r\n".repeat(100), DESCRIBE).into_bytes(), 431, too_large),
    ] {
        let mut client = served.connect();
        client.send(bytes);
        let answer = client.answer().unwrap_or_else(|| panic!("{name}: no answer"));
        let id = text(&answer.body, "RequestId");
        assert!(answer.head.contains(&format!("x-amzn-requestid: {id}\r\n")), "{}", answer.head);
        let (code, message) = unreadable(why);
        assert_eq!(answer.refusal(), (status, code.to_owned(), message), "{name}");
        assert!(client.ends(), "{name}: a connection that goes on");
        assert_eq!(served.connect().post(DESCRIBE).status, 200, "{name}");
    }
}

/// An answer before what is wrong on the same connection is not lost with it.
#[test]
fn what_is_wrong_behind_a_request_is_told_after_its_answer() {
    let served = Served::start();
    let mut client = served.connect();
    client.send(request("", DESCRIBE) + "nonsense\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 200);
    assert_eq!(client.answer().unwrap().refusal().1, "MalformedHttpRequest");
    assert!(client.ends());
}

/// A client that sends on, as clients do that look for an answer when they have said all, gets to read it.
#[test]
fn a_refusal_reaches_a_client_that_has_not_said_all() {
    let served = Served::start();
    let too_much = vec![b'a'; 4 << 20];
    for head in [
        request("", "").replace("Length: 0", &format!("Length: {}", too_much.len())),
        "nonsense\r\n\r\n".to_owned(),
    ] {
        let mut client = served.connect();
        let start = Instant::now();
        client.send(&head);
        let sent = client.send_all(&too_much);
        let told = client.answer().is_some_and(|answer| answer.refusal().0 >= 400);
        // The server takes in what comes for two seconds, which a machine without time may not have.
        assert!(sent.is_ok() && told || start.elapsed() > Duration::from_secs(1), "{sent:?}");
    }
}

#[test]
fn a_request_of_another_kind_is_refused_with_its_reason() {
    let served = Served::start();
    let post = request("", DESCRIBE);
    for (bytes, expected) in [
        (post.replace("POST", "GET"), (405, "MethodNotAllowed")),
        (post.replace("POST", "PUT"), (405, "MethodNotAllowed")),
        (post.replace("POST", "CONNECT").replace(" / ", " a:1 "), (405, "MethodNotAllowed")),
        (post.replace(" / ", " /elb "), (404, "InvalidRequest")),
        (post.replace(" / ", &format!(" /?{DESCRIBE} ")), (404, "InvalidRequest")),
        (post.replace(" / ", " //evil.example/ "), (404, "InvalidRequest")),
        (post.replace(" / ", " http://evil.example/ "), (404, "InvalidRequest")),
        (post.replace(" / ", " /? "), (404, "InvalidRequest")),
        (post.replace("x-www-form-urlencoded", "json"), (415, "InvalidRequest")),
        (post.replace("Host: 127.0.0.1:6080\r\n", ""), (400, "InvalidRequest")),
    ] {
        let mut client = served.connect();
        client.send(&bytes);
        let (status, code, message) = client.answer().unwrap().refusal();
        assert_eq!((status, code.as_str()), expected, "{bytes}: {message}");
        assert!(client.ends());
    }
}

#[test]
fn a_web_page_cannot_reach_the_endpoint() {
    let served = Served::start();
    for (bytes, reason) in [
        (request("Origin: https://evil.example\r\n", DESCRIBE), "Web pages are not served"),
        (request("Origin: null\r\n", DESCRIBE), "Web pages are not served"),
        (request("Sec-Fetch-Site: cross-site\r\n", DESCRIBE), "Web pages are not served"),
        (
            request("", DESCRIBE).replace("127.0.0.1:6080", "rebound.evil.example"),
            "only this machine is served",
        ),
    ] {
        let mut client = served.connect();
        client.send(&bytes);
        let (status, code, message) = client.answer().unwrap().refusal();
        assert_eq!((status, code.as_str()), (403, "AccessDenied"));
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn a_bomb_of_parameters_is_refused_and_costs_little() {
    let served = Served::start();
    let start = Instant::now();
    let many: String = (0..60_000).map(|number| format!("&P{number}=")).collect();
    let nested: String = (0..2_000).map(|number| format!("&{}{number}=", "a.".repeat(100))).collect();
    let one_name = format!("&{}=", "a".repeat(900_000));
    let escapes = format!("&Name={}", "%25".repeat(300_000));
    let members: String = (1..4_000).map(|number| format!("&Names.member.{}=x", u32::MAX - number)).collect();
    for (name, form, expected) in [
        ("many", many, "MalformedQueryString"),
        ("nested", nested, "MalformedQueryString"),
        ("one name", one_name, "MalformedQueryString"),
        ("escapes", escapes, "ValidationError"),
        ("members", members, "LoadBalancerNotFound"),
    ] {
        let action = if name == "escapes" { "CreateTargetGroup" } else { "DescribeLoadBalancers" };
        let (status, code, message) = served.refused(action, &form);
        assert_eq!((status, code.as_str()), (400, expected), "{name}");
        assert!(message.len() < 2_000_000, "{name}");
    }
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

#[test]
fn a_body_too_long_is_refused_before_it_is_sent() {
    let served = Served::start();
    let mut client = served.connect();
    client.send(request("", DESCRIBE).replace(&format!("Length: {}", DESCRIBE.len()), "Length: 1048577"));
    assert_eq!(client.answer().unwrap().refusal().0, 413);
    assert!(client.ends());
    let mut client = served.connect();
    client.send(request("Expect: 100-continue\r\n", "").replace("Length: 0", "Length: 1000000000000"));
    assert_eq!(client.answer().unwrap().refusal().0, 413);
}

#[test]
fn a_client_that_expects_to_be_told_to_go_on_is_told() {
    let served = Served::start();
    let mut client = served.connect();
    let (head, body) = request("Expect: 100-continue\r\n", DESCRIBE)
        .split_once("\r\n\r\n")
        .map(|(a, b)| (format!("{a}\r\n\r\n"), b.to_owned()))
        .unwrap();
    client.send(head);
    assert_eq!(client.answer().unwrap().status, 100);
    client.send(body);
    assert_eq!(client.answer().unwrap().status, 200);
}

#[test]
fn what_is_not_utf8_or_not_xml_is_told_in_xml() {
    let served = Served::start();
    assert_eq!(served.refused("DescribeLoadBalancers", "&Names.member.1=%ff%fe").1, "MalformedQueryString");
    let (_, code, message) =
        served.refused("CreateLoadBalancer", "&Type=gateway&Name=%00%1b%3C%2FMessage%3E%26");
    assert_eq!(code, "ValidationError");
    assert!(message.contains("\u{fffd}\u{fffd}&lt;/Message&gt;&amp;"), "{message}");
}

#[test]
fn a_client_that_does_not_finish_is_not_waited_for() {
    let served = Served::start_with("", LIMITS);
    let ends_within = |client: &mut Client, least: Duration| {
        let start = Instant::now();
        let status = client.answer().map(|answer| answer.status);
        assert!(client.ends());
        let waited = start.elapsed();
        assert!(waited >= least && waited < least + Duration::from_secs(10), "{waited:?}");
        status
    };
    let mut nothing = served.connect();
    assert_eq!(ends_within(&mut nothing, LIMITS.patience / 2), None);
    let mut half_a_head = served.connect();
    half_a_head.send("POST / HTTP/1.1\r\nHost: loc");
    assert_eq!(ends_within(&mut half_a_head, LIMITS.patience / 2), Some(408));
    let mut slow = served.connect();
    slow.send(half_a_body());
    assert_eq!(ends_within(&mut slow, LIMITS.patience / 2), Some(408));
    // One that has been answered and then says nothing.
    let mut done = served.connect();
    assert_eq!(done.post(DESCRIBE).status, 200);
    assert_eq!(ends_within(&mut done, LIMITS.patience / 2), None);
}

#[test]
fn a_client_that_goes_in_the_middle_leaves_nothing_behind() {
    let served = Served::start();
    for length in 0..request("", DESCRIBE).len() {
        let mut client = served.connect();
        client.send(&request("", DESCRIBE)[..length]);
        client.close(if length % 2 == 0 { Shutdown::Both } else { Shutdown::Write });
    }
    assert_eq!(served.connect().post(DESCRIBE).status, 200);
}
