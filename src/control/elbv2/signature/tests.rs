//! Against signatures that botocore 1.44.8 made, and against all that is almost one.

use super::*;
use hyper::header::{HeaderName, HeaderValue};
use proptest::prelude::*;

const BODY: &[u8] = b"Action=DescribeLoadBalancers&Version=2015-12-01";
const SECRETS: &str = "[one]\naws_access_key_id=AKIAONE\naws_secret_access_key=one/secret+of=enough\n\
    [two]\naws_access_key_id=AKIATWO\naws_secret_access_key=another-secret-of-enough\nflowgate_role=read-only\n";
/// 2026-08-01T12:30:00Z.
const SIGNED_AT: i64 = 1_785_587_400;
const SIGNATURE: &str = "c1ceb51789f4f5bc74deaaa4046942a1a1fbff5b53d3eed2fd4f98ddfff4092f";
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=AKIAONE/20260801/eu-central-1/elasticloadbalancing/aws4_request, \
    SignedHeaders=content-type;host;x-amz-date, \
    Signature=c1ceb51789f4f5bc74deaaa4046942a1a1fbff5b53d3eed2fd4f98ddfff4092f";

fn keys() -> Keys {
    Keys::parse(SECRETS).unwrap()
}

fn headers(authorization: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("host", "127.0.0.1:6080"),
        ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        ("x-amz-date", "20260801T123000Z"),
        ("user-agent", "Boto3/1.44.8"),
        ("authorization", authorization),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn verdict(headers: &HeaderMap, body: &[u8], now: i64) -> Result<String, String> {
    match verify(&keys(), headers, body, now) {
        Ok(signed) => Ok(signed.key.profile.clone()),
        Err(fault) => {
            let status = if fault.code == "IncompleteSignature" { 400 } else { 403 };
            assert_eq!(fault.status, status);
            Err(format!("{}: {}", fault.code, fault.message))
        }
    }
}

/// The verdict on the request with one header another or gone.
fn with(name: &'static str, value: Option<&'static str>) -> Result<String, String> {
    let mut headers = headers(AUTHORIZATION);
    match value {
        Some(value) => headers.insert(name, HeaderValue::from_static(value)),
        None => headers.remove(name),
    };
    verdict(&headers, BODY, SIGNED_AT)
}

#[test]
fn a_signature_of_botocores_is_known() {
    assert_eq!(verdict(&headers(AUTHORIZATION), BODY, SIGNED_AT), Ok("one".to_owned()));
    // Blanks are folded, and headers that are not signed say what they like.
    assert_eq!(
        with("content-type", Some("application/x-www-form-urlencoded;   charset=utf-8 ")),
        Ok("one".to_owned())
    );
    assert_eq!(with("user-agent", Some("somebody else")), Ok("one".to_owned()));
    assert_eq!(with("user-agent", None), Ok("one".to_owned()));
}

#[test]
fn a_body_under_another_signature_is_refused() {
    let refused =
        verdict(&headers(AUTHORIZATION), b"Action=DeleteLoadBalancer&Version=2015-12-01", SIGNED_AT);
    assert!(refused.unwrap_err().starts_with("SignatureDoesNotMatch: The request signature we calculated"));
    assert!(verdict(&headers(AUTHORIZATION), b"", SIGNED_AT).is_err());
}

#[test]
fn a_hash_that_the_client_names_must_be_the_bodys_and_signed() {
    // botocore's own signature over these headers, this one among them.
    let authorization =
        AUTHORIZATION.replace("x-amz-date", "x-amz-content-sha256;x-amz-date").replace(SIGNATURE, WITH_HASH);
    let with_hash = |hash: &str| {
        let mut headers = headers(&authorization);
        headers.insert("x-amz-content-sha256", HeaderValue::from_str(hash).unwrap());
        headers
    };
    let right = hex(digest(&SHA256, BODY).as_ref());
    assert_eq!(verdict(&with_hash(&right), BODY, SIGNED_AT), Ok("one".to_owned()));
    let other = "UNSIGNED-PAYLOAD";
    assert!(verdict(&with_hash(other), BODY, SIGNED_AT).unwrap_err().starts_with("SignatureDoesNotMatch"));
    assert!(
        verdict(&with_hash(&right), b"Action=", SIGNED_AT).unwrap_err().starts_with("SignatureDoesNotMatch")
    );
    let mut not_signed = headers(AUTHORIZATION);
    not_signed.insert("x-amz-content-sha256", HeaderValue::from_str(&right).unwrap());
    assert_eq!(
        verdict(&not_signed, BODY, SIGNED_AT).unwrap_err(),
        "SignatureDoesNotMatch: The header 'x-amz-content-sha256' must be signed"
    );
}
const WITH_HASH: &str = "d144218d144c126ed7cf0b5631ecf93f0b9a9a91daf379ba1dc84a535897d849";

#[test]
fn a_clock_may_be_off_by_a_quarter_of_an_hour() {
    let at = |now| verdict(&headers(AUTHORIZATION), BODY, now);
    assert_eq!(at(SIGNED_AT + 900), Ok("one".to_owned()));
    assert_eq!(at(SIGNED_AT - 900), Ok("one".to_owned()));
    assert_eq!(
        at(SIGNED_AT + 901).unwrap_err(),
        "SignatureDoesNotMatch: Signature expired: 20260801T123000Z is now earlier than 20260801T123001Z \
         (20260801T124501Z - 15 min.)"
    );
    assert_eq!(
        at(SIGNED_AT - 901).unwrap_err(),
        "SignatureDoesNotMatch: Signature not yet current: 20260801T123000Z is still later than 20260801T122959Z \
         (20260801T121459Z + 15 min.)"
    );
}

#[test]
fn whoever_is_not_known_is_told_so() {
    let authorized = |authorization: &str| verdict(&headers(authorization), BODY, SIGNED_AT).unwrap_err();
    let unknown = "InvalidClientTokenId: The security token included in the request is invalid.";
    assert_eq!(authorized(&AUTHORIZATION.replace("AKIAONE", "AKIATHREE")), unknown);
    assert_eq!(
        with("x-amz-security-token", Some("token")).unwrap_err(),
        "SignatureDoesNotMatch: The header 'x-amz-security-token' must be signed"
    );
    // Known, and signed with another's secret.
    assert!(
        authorized(&AUTHORIZATION.replace("AKIAONE", "AKIATWO"))
            .starts_with("SignatureDoesNotMatch: The request")
    );
    assert_eq!(
        with("authorization", None).unwrap_err(),
        "MissingAuthenticationToken: Request is missing Authentication Token"
    );
}

#[test]
fn a_signature_for_something_else_is_refused() {
    let authorized = |from: &str, to: &str| {
        verdict(&headers(&AUTHORIZATION.replace(from, to)), BODY, SIGNED_AT).unwrap_err()
    };
    assert!(
        authorized("elasticloadbalancing", "ec2")
            .starts_with("SignatureDoesNotMatch: Credential should be scoped")
    );
    assert!(
        authorized("aws4_request", "aws5").starts_with("SignatureDoesNotMatch: Credential should be scoped")
    );
    assert!(
        authorized("20260801/", "20260802/").starts_with("SignatureDoesNotMatch: Date in Credential scope")
    );
    assert!(
        authorized("eu-central-1", "eu-central-2")
            .starts_with("SignatureDoesNotMatch: The request signature")
    );
    assert_eq!(
        authorized("content-type;host", "content-type"),
        "SignatureDoesNotMatch: The header 'host' must be signed"
    );
    assert_eq!(
        authorized("content-type;host", "host"),
        "SignatureDoesNotMatch: The header 'content-type' must be signed"
    );
    assert!(
        authorized("content-type;host", "host;content-type")
            .starts_with("SignatureDoesNotMatch: The request")
    );
    assert!(
        with("host", Some("127.0.0.1:6081")).unwrap_err().starts_with("SignatureDoesNotMatch: The request")
    );
    assert!(
        with("x-amz-date", Some("20260801T123001Z"))
            .unwrap_err()
            .starts_with("SignatureDoesNotMatch: The request")
    );
}

#[test]
fn a_header_of_two_values_is_not_one_of_either() {
    let mut headers = headers(AUTHORIZATION);
    headers.append("host", HeaderValue::from_static("127.0.0.1:6080"));
    assert!(verdict(&headers, BODY, SIGNED_AT).is_err());
}

#[test]
fn what_is_no_signature_is_incomplete() {
    for (from, to) in [
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA512"),
        ("AWS4-HMAC-SHA256", "Basic"),
        ("Credential=", "Cred="),
        ("SignedHeaders=", "Signature="),
        ("/aws4_request", ""),
        ("/aws4_request", "/aws4_request/x"),
        ("AKIAONE", ""),
        ("Signature=c1", "Signature=C1"),
        ("Signature=c1", "Signature=c"),
        ("content-type;host", "content-type;;host"),
        ("content-type;host", "content-type;host;x-forwarded-for"),
        ("content-type;host", "content-type;h\u{7f}st"),
    ] {
        let mut claimed = headers("x");
        let Ok(value) = HeaderValue::from_str(&AUTHORIZATION.replace(from, to)) else { continue };
        claimed.insert("authorization", value);
        let refusal = verdict(&claimed, BODY, SIGNED_AT).unwrap_err();
        assert!(refusal.starts_with("IncompleteSignature: "), "{from} → {to}: {refusal}");
    }
    for date in [
        None,
        Some("20260801"),
        Some("2026-08-01T12:30Z"),
        Some("20261301T123000Z"),
        Some("+2260801T123000Z"),
    ] {
        let refusal = with("x-amz-date", date).unwrap_err();
        assert!(!refusal.contains("calculated"), "{date:?}: {refusal}");
    }
}

proptest! {
    #[test]
    fn any_header_is_refused_and_breaks_nothing(authorization in "(AWS4-HMAC-SHA256 )?[ -~]{0,80}", date in "[ -~]{0,20}") {
        let mut headers = headers(AUTHORIZATION);
        headers.insert("authorization", HeaderValue::from_str(&authorization).unwrap());
        headers.insert("x-amz-date", HeaderValue::from_str(&date).unwrap());
        prop_assert!(verify(&keys(), &headers, BODY, SIGNED_AT).is_err());
    }

    #[test]
    fn another_signature_is_another(at in 0_usize..64, digit in "[0-9a-f]") {
        let mut signature = SIGNATURE.to_owned();
        signature.replace_range(at..=at, &digit);
        let authorization = AUTHORIZATION.replace(SIGNATURE, &signature);
        let known = verify(&keys(), &headers(&authorization), BODY, SIGNED_AT).is_ok();
        prop_assert_eq!(known, signature == SIGNATURE);
    }
}
