//! Signatures of requests to the elbv2 endpoint.
//!
//! Promises: of whatever stands in an `Authorization` header only the right signature lets in, and a refusal is one line.
//! What is signed by the rules of Signature Version 4, as this file has them once more, is let in whatever its body and
//! headers say; and with a bit of its body, a header, its moment or its key another it is not.

use crate::text::is_one_line;
use flowgate::control::elbv2::{Keys, verify_signature};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use ring::{digest, hmac};

const LONGEST: usize = 4096;
const KEYS: &str = "[one]\naws_access_key_id=AKIAONE\naws_secret_access_key=one/secret+of=enough\n\
    [two]\naws_access_key_id=AKIATWO\naws_secret_access_key=another-secret-of-enough\n";
const SECRET: &str = "one/secret+of=enough";
const DATE: &str = "20260801T123000Z";
/// The same moment.
const NOW: i64 = 1_785_587_400;
const QUARTER: i64 = 15 * 60;
const TYPE: &str = "application/x-www-form-urlencoded; charset=utf-8";
const BODY: &[u8] = b"Action=DescribeLoadBalancers&Version=2015-12-01";
/// botocore's signature over `BODY` with the region eu-central-1.
const SIGNATURE: &str = "c1ceb51789f4f5bc74deaaa4046942a1a1fbff5b53d3eed2fd4f98ddfff4092f";

pub fn run(bytes: &[u8]) {
    if bytes.len() > LONGEST {
        return;
    }
    let keys = Keys::parse(KEYS).unwrap();
    claimed(&keys, bytes);
    signed(&keys, bytes);
}

/// The bytes as the header that says who asks.
fn claimed(keys: &Keys, authorization: &[u8]) {
    let Ok(authorization) = HeaderValue::from_bytes(authorization) else { return };
    let mut headers = plain();
    headers.insert("authorization", authorization.clone());
    match verify_signature(keys, &headers, BODY, NOW) {
        Ok(signed) => {
            assert_eq!(signed.key.profile, "one");
            assert!(authorization.to_str().unwrap().contains(SIGNATURE));
        }
        Err(refusal) => {
            is_one_line(&refusal.message);
            assert!([400, 403].contains(&refusal.status.as_u16()));
        }
    }
}

/// A region, a header's name and value, and a body, each on its lines, signed by who may.
fn signed(keys: &Keys, bytes: &[u8]) {
    let mut parts = bytes.splitn(4, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (region, name, value, body) = (part(), part(), part(), part());
    let is_of_a_region = |byte: &u8| byte.is_ascii_graphic() && !b"/,".contains(byte);
    if region.is_empty() || !region.iter().all(is_of_a_region) {
        return;
    }
    let region = std::str::from_utf8(region).unwrap();
    let mut headers = plain();
    // A parser of HTTP leaves no tab at the ends of a value; within it nobody folds one.
    let named = HeaderName::from_bytes(name).ok().filter(|name| !reserved(name));
    let valued = HeaderValue::from_bytes(value).ok().filter(|value| !value.as_bytes().contains(&b'\t'));
    if let (Some(name), Some(value)) = (named, valued) {
        headers.append(name.clone(), value.clone());
        headers.append(name, value);
    }
    let right = sign(&headers, region, body);
    let mut with = headers.clone();
    with.insert("authorization", HeaderValue::from_str(&right).unwrap());
    let verdict =
        |headers: &HeaderMap, body: &[u8], now| verify_signature(keys, headers, body, now).map(|_| ());
    verdict(&with, body, NOW).unwrap_or_else(|refusal| panic!("{refusal:?}: {with:?}"));
    for now in [NOW - QUARTER - 1, NOW + QUARTER + 1] {
        verdict(&with, body, now).unwrap_err();
    }
    let mut other = body.to_vec();
    match other.last_mut() {
        Some(byte) => *byte ^= 1,
        None => other.push(b'x'),
    }
    verdict(&with, &other, NOW).unwrap_err();
    let mut elsewhere = with.clone();
    elsewhere.insert("host", HeaderValue::from_static("localhost:6081"));
    verdict(&elsewhere, body, NOW).unwrap_err();
    let mut one_more = with.clone();
    one_more.insert("x-amz-more", HeaderValue::from_static("unsigned"));
    verdict(&one_more, body, NOW).unwrap_err();
    let of_another = right.replace("AKIAONE", "AKIATWO");
    with.insert("authorization", HeaderValue::from_str(&of_another).unwrap());
    verdict(&with, body, NOW).unwrap_err();
}

/// What other headers mean is not for these tests to say.
fn reserved(name: &HeaderName) -> bool {
    let known = [
        "authorization",
        "host",
        "content-type",
        "x-amz-date",
        "x-amz-security-token",
        "x-amz-content-sha256",
    ];
    known.contains(&name.as_str())
}

fn plain() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("127.0.0.1:6080"));
    headers.insert("content-type", HeaderValue::from_static(TYPE));
    headers.insert("x-amz-date", HeaderValue::from_static(DATE));
    headers
}

/// The `Authorization` header of a request with these headers, all of them signed.
fn sign(headers: &HeaderMap, region: &str, body: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hash = |bytes: &[u8]| hex(digest::digest(&digest::SHA256, bytes).as_ref());
    let mac = |key: &[u8], text: &str| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
    };
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let mut canonical = b"POST\n/\n\n".to_vec();
    for name in &names {
        let values: Vec<Vec<u8>> =
            headers.get_all(*name).iter().map(|value| folded(value.as_bytes())).collect();
        canonical.extend([name.as_bytes(), b":", &values.join(&b','), b"\n"].concat());
    }
    let names = names.join(";");
    canonical.extend(format!("\n{names}\n{}", hash(body)).bytes());
    let scope = format!("{}/{region}/elasticloadbalancing/aws4_request", &DATE[..8]);
    let to_sign = format!("AWS4-HMAC-SHA256\n{DATE}\n{scope}\n{}", hash(&canonical));
    let key = scope.split('/').fold(format!("AWS4{SECRET}").into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &to_sign));
    format!("AWS4-HMAC-SHA256 Credential=AKIAONE/{scope}, SignedHeaders={names}, Signature={signature}")
}

/// A value without blanks at its ends, and with one where there were several.
fn folded(value: &[u8]) -> Vec<u8> {
    let mut folded = value.trim_ascii().to_vec();
    folded.dedup_by(|one, before| *one == b' ' && *before == b' ');
    folded
}
