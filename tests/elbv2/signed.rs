//! An endpoint with credentials: who signs is known, and nobody else is served.

use crate::client::{Answer, request};
use crate::endpoint::{GROUP, Served};
use flowgate::control::elbv2::Limits;
use ring::{digest, hmac};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FILE: &str = "[ops]\naws_access_key_id = AKIAOPS\naws_secret_access_key = the-secret-of-operators\n\
    [look]\naws_access_key_id = AKIALOOK\naws_secret_access_key = the-secret-of-onlookers\nflowgate_role = read-only\n";
const DESCRIBE: &str = "Action=DescribeLoadBalancers&Version=2015-12-01";
const CREATE: &str = "Action=CreateLoadBalancer&Version=2015-12-01&Name=new&Type=gateway";

struct Signed {
    served: Served,
    folder: TempDir,
}

impl Signed {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        put(&folder, FILE);
        let section = format!("credentials = {:?}", folder.path().join("keys"));
        Signed { served: Served::start_with(&section, Limits::default()), folder }
    }

    /// The answer to `form` in a request with these headers besides.
    fn ask(&self, headers: &str, form: &str) -> Answer {
        let mut client = self.served.connect();
        client.send(request(headers, form));
        client.answer().unwrap()
    }

    fn signed(&self, id: &str, secret: &str, form: &str) -> Answer {
        self.ask(&sign(id, secret, form, 0), form)
    }
}

/// Puts the file of keys in its place, whole.
fn put(folder: &TempDir, text: &str) {
    let (draft, path) = (folder.path().join("draft"), folder.path().join("keys"));
    fs::write(&draft, text).unwrap();
    fs::set_permissions(&draft, Permissions::from_mode(0o600)).unwrap();
    fs::rename(draft, path).unwrap();
}

/// The headers of a request that is signed by a clock so many seconds ahead.
fn sign(id: &str, secret: &str, form: &str, ahead: i64) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hash = |bytes: &[u8]| hex(digest::digest(&digest::SHA256, bytes).as_ref());
    let mac = |key: &[u8], text: &str| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
    };
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + ahead).unwrap();
    let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let scope = format!("{}/here-1/elasticloadbalancing/aws4_request", &date[..8]);
    let canonical = format!(
        "POST\n/\n\ncontent-type:application/x-www-form-urlencoded; charset=utf-8\nhost:127.0.0.1:6080\n\
         x-amz-date:{date}\n\ncontent-type;host;x-amz-date\n{}",
        hash(form.as_bytes())
    );
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hash(canonical.as_bytes()));
    let key = scope.split('/').fold(format!("AWS4{secret}").into_bytes(), |key, part| mac(&key, part));
    format!(
        "X-Amz-Date: {date}\r\nAuthorization: AWS4-HMAC-SHA256 Credential={id}/{scope}, \
         SignedHeaders=content-type;host;x-amz-date, Signature={}\r\n",
        hex(&mac(&key, &to_sign))
    )
}

const OPS: (&str, &str) = ("AKIAOPS", "the-secret-of-operators");
const LOOK: (&str, &str) = ("AKIALOOK", "the-secret-of-onlookers");

#[test]
fn who_signs_is_served_and_nobody_else() {
    let signed = Signed::start();
    assert_eq!(signed.signed(OPS.0, OPS.1, CREATE).status, 200);
    for (answer, expected) in [
        (signed.ask("", DESCRIBE), "MissingAuthenticationToken"),
        (signed.signed("AKIANOBODY", OPS.1, DESCRIBE), "InvalidClientTokenId"),
        (signed.signed(OPS.0, LOOK.1, DESCRIBE), "SignatureDoesNotMatch"),
        (signed.ask(&sign(OPS.0, OPS.1, DESCRIBE, 16 * 60), DESCRIBE), "SignatureDoesNotMatch"),
        (signed.ask(&sign(OPS.0, OPS.1, DESCRIBE, -16 * 60), DESCRIBE), "SignatureDoesNotMatch"),
        // What nobody signed is not even looked at.
        (signed.ask("", "%"), "MissingAuthenticationToken"),
    ] {
        let (status, code, message) = answer.refusal();
        assert_eq!((status, code.as_str()), (403, expected), "{message}");
    }
    assert_eq!(signed.ask(&sign(OPS.0, OPS.1, DESCRIBE, 14 * 60), DESCRIBE).status, 200);
    // The clocks are told, and the answer says what ours is.
    let skewed = signed.ask(&sign(OPS.0, OPS.1, DESCRIBE, -16 * 60), DESCRIBE);
    assert!(skewed.refusal().2.starts_with("Signature expired: "), "{}", skewed.body);
    assert!(skewed.head.contains("\r\ndate: "), "{}", skewed.head);
}

#[test]
fn a_body_is_served_under_its_own_signature_alone() {
    let signed = Signed::start();
    let of_another = sign(OPS.0, OPS.1, DESCRIBE, 0);
    let delete = "Action=DeleteLoadBalancer&Version=2015-12-01&LoadBalancerArn=x";
    assert_eq!(signed.ask(&of_another, delete).refusal().1, "SignatureDoesNotMatch");
    assert_eq!(signed.ask(&of_another, DESCRIBE).status, 200);
    // The same question twice in a second is signed alike, and clients do ask it.
    assert_eq!(signed.ask(&of_another, DESCRIBE).status, 200);
}

#[test]
fn who_may_look_may_not_change() {
    let signed = Signed::start();
    assert_eq!(signed.signed(LOOK.0, LOOK.1, DESCRIBE).status, 200);
    let (status, code, message) = signed.signed(LOOK.0, LOOK.1, CREATE).refusal();
    assert_eq!((status, code.as_str()), (403, "AccessDenied"));
    assert_eq!(
        message,
        "User: look is not authorized to perform: elasticloadbalancing:CreateLoadBalancer because its role is read-only"
    );
    assert!(!signed.signed(LOOK.0, LOOK.1, DESCRIBE).body.contains(">new<"));
}

#[test]
fn keys_are_renewed_while_the_endpoint_serves() {
    let signed = Signed::start();
    assert_eq!(signed.signed(OPS.0, OPS.1, DESCRIBE).status, 200);
    put(&signed.folder, &FILE.replace(OPS.1, "another-secret-of-operators"));
    assert_eq!(signed.signed(OPS.0, OPS.1, DESCRIBE).refusal().1, "SignatureDoesNotMatch");
    assert_eq!(signed.signed(OPS.0, "another-secret-of-operators", DESCRIBE).status, 200);
    // What cannot be read changes nothing.
    put(&signed.folder, "[half a file");
    assert_eq!(signed.signed(OPS.0, "another-secret-of-operators", DESCRIBE).status, 200);
}

#[test]
fn a_signed_request_may_come_by_any_name() {
    let signed = Signed::start();
    let mut client = signed.served.connect();
    let headers = sign(OPS.0, OPS.1, DESCRIBE, 0);
    client.send(request(&headers, DESCRIBE).replace("Host: 127.0.0.1:6080", "Host: gateway.example"));
    // Another name than the one that was signed: it is the signature that is refused, not the name.
    assert_eq!(client.answer().unwrap().refusal().1, "SignatureDoesNotMatch");
}

/// What was heard on the network and is sent once more, byte by byte, changes nothing; whoever has the secret signs anew.
#[test]
fn a_change_is_carried_out_once_under_its_signature() {
    let signed = Signed::start();
    let tag = |value: &str| {
        format!(
            "Action=AddTags&Version=2015-12-01&ResourceArns.member.1={GROUP}&Tags.member.1.Key=k&Tags.member.1.Value={value}"
        )
    };
    let (one, two) = (tag("one"), tag("two"));
    let heard = sign(OPS.0, OPS.1, &one, 0);
    assert_eq!(signed.ask(&heard, &one).status, 200);
    assert_eq!(signed.signed(OPS.0, OPS.1, &two).status, 200);
    // With another space in the header it is the same signature.
    for again in [heard.clone(), heard.replace(", Signature", ",   Signature")] {
        let (status, code, message) = signed.ask(&again, &one).refusal();
        assert_eq!((status, code.as_str()), (403, "SignatureDoesNotMatch"));
        assert!(message.starts_with("Signature already used: "), "{message}");
    }
    let describe = format!("Action=DescribeTags&Version=2015-12-01&ResourceArns.member.1={GROUP}");
    assert!(signed.signed(OPS.0, OPS.1, &describe).body.contains("<Value>two</Value>"));
    // The same a second time in one second, as its client's own ids say. On a machine that has no time it is no longer that.
    let start = Instant::now();
    let three = tag("three");
    let heard = sign(OPS.0, OPS.1, &three, 0);
    let answers = ["", "amz-sdk-invocation-id: another\r\n", "Amz-Sdk-Request: attempt=2\r\n"]
        .map(|ids| signed.ask(&format!("{heard}{ids}"), &three).status);
    assert!(answers == [200; 3] || start.elapsed() > Duration::from_secs(4), "{answers:?}");
    assert_eq!(signed.ask(&sign(OPS.0, OPS.1, &one, 1), &one).status, 200);
    assert!(signed.signed(OPS.0, OPS.1, &describe).body.contains("<Value>one</Value>"));
    // One that was refused may be carried out later: it is let in no second time either.
    let missing = one.replace("/fw/", "/none/");
    let headers = sign(OPS.0, OPS.1, &missing, 0);
    assert_eq!(signed.ask(&headers, &missing).refusal().1, "TargetGroupNotFound");
    assert_eq!(signed.ask(&headers, &missing).refusal().1, "SignatureDoesNotMatch");
    // Who may not change anything is told so each time, and takes no place of what was.
    let headers = sign(LOOK.0, LOOK.1, &one, 0);
    for _ in 0..2 {
        assert_eq!(signed.ask(&headers, &one).refusal().1, "AccessDenied");
    }
}
