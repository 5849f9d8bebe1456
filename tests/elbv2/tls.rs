//! The endpoint behind TLS, asked by OpenSSL.

use crate::client::request;
use crate::endpoint::{LIMITS, Served};
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const DESCRIBE: &str = "Action=DescribeLoadBalancers&Version=2015-12-01";

/// Puts a new key and certificate for 127.0.0.1 into `folder`.
fn certificate(folder: &Path, name: &str) {
    let arguments = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out new.pem \
         -subj /CN={name} -addext subjectAltName=IP:127.0.0.1 -days 2"
    );
    let made =
        Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::rename(folder.join("new.pem"), folder.join("certificate.pem")).unwrap();
}

/// What OpenSSL, which trusts the certificate in `folder`, is answered over TLS.
fn ask(folder: &Path, address: SocketAddr, more: &str) -> String {
    let arguments = format!(
        "s_client -quiet -verify_return_error -verify_ip 127.0.0.1 -CAfile certificate.pem -connect {address} {more}"
    );
    let mut client = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    // Where there is no session there is nobody to write to.
    input.write_all(request("Connection: close\r\n", DESCRIBE).as_bytes()).ok();
    let output = client.wait_with_output().unwrap();
    drop(input);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn start() -> (tempfile::TempDir, Served) {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path(), "one");
    let file = |name: &str| folder.path().join(name);
    let section = format!("[tls]\ncertificate = {:?}\nkey = {:?}", file("certificate.pem"), file("key.pem"));
    let served = Served::start_with(&section, LIMITS);
    (folder, served)
}

#[test]
fn tls_is_spoken_by_whatever_version_is_safe() {
    let (folder, served) = start();
    for version in ["", "-tls1_2", "-tls1_3"] {
        let answer = ask(folder.path(), served.address, version);
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("<LoadBalancerName>gw"), "{answer}");
    }
    assert_eq!(ask(folder.path(), served.address, "-tls1_1"), "");
}

#[test]
fn a_renewed_certificate_is_shown_to_the_next_client() {
    let (folder, served) = start();
    assert!(ask(folder.path(), served.address, "").starts_with("HTTP/1.1 200"));
    certificate(folder.path(), "two");
    assert!(ask(folder.path(), served.address, "").starts_with("HTTP/1.1 200"));
    fs::write(folder.path().join("key.pem"), "no key").unwrap();
    assert!(ask(folder.path(), served.address, "").starts_with("HTTP/1.1 200"));
}

#[test]
fn who_speaks_no_tls_is_ended() {
    let (_folder, served) = start();
    let mut plain = served.connect();
    plain.send(request("", DESCRIBE));
    assert!(plain.answer_bytes_are_tls_alert());
    let mut silent = served.connect();
    let start = std::time::Instant::now();
    assert!(silent.ends());
    assert!(start.elapsed() < LIMITS.patience + Duration::from_secs(3));
}
