//! HTTPS health checks against TLS that others wrote: OpenSSL's `s_server` and Python's `ssl` (which is
//! OpenSSL too, and can be told to misbehave). Rules H-1, H-3 and H-5.
//!
//! Every certificate is made here by `openssl`. What happens inside of a session is tested beside the
//! code, in `control::health::check::https`.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use flowgate::control::health::check::{Checker, Outcome, SocketChecker};
use flowgate::control::model::{HealthCheckSettings, Matcher, Probe};
use tempfile::TempDir;

/// Runs `openssl` in `folder`.
fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("scripts/setup-packages installs openssl");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A folder with a key `key.pem` made by `-newkey ALGORITHM`, and `certificate.pem` for it, self-signed
/// with `more` arguments.
fn certificate(algorithm: &str, more: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    openssl(
        folder.path(),
        &format!(
            "req -x509 -newkey {algorithm} -nodes -keyout key.pem -out certificate.pem -subj /CN=appliance {more}"
        ),
    );
    folder
}

/// A server that serves until it is dropped.
struct Server {
    child: Child,
    address: SocketAddrV4,
    /// Held so that what it prints does not end it.
    _said: BufReader<ChildStdout>,
}

impl Server {
    /// `openssl s_server` in `folder`, which answers a request with its status page.
    fn openssl(folder: &Path, more: &str) -> Server {
        let arguments =
            format!("s_server -accept 127.0.0.1:0 -key key.pem -cert certificate.pem -www {more}");
        let mut command = Command::new("openssl");
        command.args(arguments.split_whitespace()).current_dir(folder);
        Server::start(command)
    }

    /// A Python program that listens with TLS as `listener` and then does `answer`.
    fn python(folder: &Path, answer: &str) -> Server {
        let program = format!(
            "import socket, ssl, struct\n\
             context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
             context.load_cert_chain('certificate.pem', 'key.pem')\n\
             listener = socket.create_server(('127.0.0.1', 0))\n\
             print('ACCEPT 127.0.0.1:%d' % listener.getsockname()[1], flush=True)\n\
             while True:\n\
             \x20   stream, _ = listener.accept()\n\
             \x20   stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
             \x20   try:\n\
             \x20       stream = context.wrap_socket(stream, server_side=True)\n\
             {answer}\
             \x20   except OSError:\n\
             \x20       pass\n\
             \x20   stream.close()\n"
        );
        let mut command = Command::new("python3");
        command.args(["-c", &program]).current_dir(folder);
        Server::start(command)
    }

    /// Both say `ACCEPT ADDRESS` when they listen.
    fn start(mut command: Command) -> Server {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("scripts/setup-packages installs it");
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ACCEPT ") {
            line.clear();
            if said.read_line(&mut line).unwrap() == 0 {
                let mut error = String::new();
                child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
                panic!("{command:?} ended: {error}");
            }
        }
        let address = line.trim().trim_start_matches("ACCEPT ").parse().unwrap();
        Server { child, address, _said: said }
    }

    /// One check of it.
    fn check(&self) -> Outcome {
        check(self.address, Duration::from_secs(20))
    }

    /// What a check that must fail says.
    fn refusal(&self) -> String {
        match self.check() {
            Outcome::Failure(reason) => format!("{}: {}", reason.code, reason.description),
            Outcome::Success => panic!("the check succeeded"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself: then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn check(address: SocketAddrV4, timeout: Duration) -> Outcome {
    let settings = HealthCheckSettings {
        probe: Probe::Https { path: "/".to_owned(), matcher: Matcher::default() },
        port: address.port(),
        interval: timeout,
        timeout,
        healthy_threshold: 2,
        unhealthy_threshold: 2,
    };
    let checker = SocketChecker { source: Some(Ipv4Addr::LOCALHOST) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(checker.check(address, &settings)).outcome
}

// H-3: certificates are not verified.
#[test]
fn an_appliance_is_as_healthy_as_it_answers_whatever_its_certificate() {
    for (algorithm, more, serving) in [
        ("rsa:2048", "", ""),
        ("rsa:4096", "", ""),
        ("rsa:1024", "-sha1", "-cipher DEFAULT:@SECLEVEL=0"),
        ("rsa:2048", "-sha1", "-cipher DEFAULT:@SECLEVEL=0"),
        ("rsa:2048", "-md5", "-cipher DEFAULT:@SECLEVEL=0"),
        ("rsa-pss", "", ""),
        ("ec -pkeyopt ec_paramgen_curve:P-256", "", ""),
        ("ec -pkeyopt ec_paramgen_curve:P-384", "", ""),
        ("ec -pkeyopt ec_paramgen_curve:P-521", "", ""),
        ("ed25519", "", ""),
        ("ed448", "", ""),
        // Two names, neither of which is asked for; and none at all.
        ("ed25519", "-addext subjectAltName=DNS:elsewhere.example,IP:192.0.2.1", ""),
    ] {
        let folder = certificate(algorithm, more);
        for version in ["-tls1_2", "-tls1_3"] {
            let server = Server::openssl(folder.path(), &format!("{version} {serving}"));
            let outcome = server.check();
            // What docs/health-checks.md says is not taken: the TLS library knows these in 1.3 only.
            let only_1_3 = ["rsa-pss", "ed448"].contains(&algorithm) || algorithm.ends_with("P-521");
            if only_1_3 && version == "-tls1_2" {
                assert!(matches!(outcome, Outcome::Failure(_)), "{algorithm} is taken in TLS 1.2 now");
            } else {
                assert_eq!(outcome, Outcome::Success, "{algorithm} {more} {version}");
            }
        }
    }
}

// H-3
#[test]
fn a_certificate_that_expired_is_taken() {
    let folder = certificate("ed25519", "");
    openssl(folder.path(), "req -new -key key.pem -subj /CN=appliance -out request.pem");
    openssl(folder.path(), "x509 -req -in request.pem -signkey key.pem -days -1 -out certificate.pem");
    assert_eq!(Server::openssl(folder.path(), "").check(), Outcome::Success);
}

// H-3
#[test]
fn a_chain_of_forty_certificates_is_taken_and_one_of_more_than_64_kib_refused() {
    let folder = certificate("rsa:2048", "");
    let one = std::fs::read_to_string(folder.path().join("certificate.pem")).unwrap();
    for (length, taken) in [(40, true), (120, false)] {
        std::fs::write(folder.path().join("chain.pem"), one.repeat(length)).unwrap();
        let server = Server::openssl(folder.path(), "-cert_chain chain.pem");
        if taken {
            assert_eq!(server.check(), Outcome::Success);
        } else {
            assert_too_large(&server.refusal());
        }
    }
}

// H-3
#[test]
fn a_certificate_of_more_than_64_kib_is_refused_and_told() {
    let folder = certificate("ed25519", "");
    let large = format!("1.2.3.4.5=ASN1:UTF8String:{}\n", "x".repeat(70_000));
    std::fs::write(folder.path().join("large.cnf"), large).unwrap();
    openssl(folder.path(), "req -new -key key.pem -subj /CN=appliance -out request.pem");
    openssl(
        folder.path(),
        "x509 -req -in request.pem -signkey key.pem -days 1 -extfile large.cnf -out certificate.pem",
    );
    for version in ["-tls1_2", "-tls1_3"] {
        assert_too_large(&Server::openssl(folder.path(), version).refusal());
    }
}

fn assert_too_large(told: &str) {
    assert!(
        told.starts_with("Target.FailedHealthChecks: Health checks failed: TLS handshake with"),
        "{told}"
    );
    assert!(told.contains("HandshakePayloadTooLarge"), "{told}");
}

// H-1: TLS 1.2 and 1.3.
#[test]
fn an_appliance_of_old_tls_alone_is_refused_and_its_alert_is_told() {
    let folder = certificate("rsa:2048", "");
    for (serving, told) in [
        ("-tls1 -cipher DEFAULT", "ProtocolVersion"),
        ("-tls1_1 -cipher DEFAULT", "ProtocolVersion"),
        // Keys that are agreed on by RSA alone, without forward secrecy.
        ("-tls1_2 -cipher AES128-SHA", "HandshakeFailure"),
    ] {
        let server = Server::openssl(folder.path(), &format!("{serving}:@SECLEVEL=0"));
        let refusal = server.refusal();
        let expected = format!(
            "Target.FailedHealthChecks: Health checks failed: TLS handshake with {}: received fatal alert: {told} (7 bytes received)",
            server.address
        );
        assert_eq!(refusal, expected, "{serving}");
    }
}

// H-3, H-5
#[test]
fn an_appliance_that_asks_for_a_certificate_is_given_none_and_one_that_insists_has_failed() {
    let folder = certificate("ed25519", "");
    for version in ["-tls1_2", "-tls1_3"] {
        let asks = Server::openssl(folder.path(), &format!("{version} -verify 1"));
        assert_eq!(asks.check(), Outcome::Success, "{version}");
        let refusal = Server::openssl(folder.path(), &format!("{version} -Verify 1")).refusal();
        assert!(refusal.starts_with("Target.FailedHealthChecks: Health checks failed: "), "{refusal}");
        // 1.2 says so in the handshake, 1.3 after it.
        let alert = if version == "-tls1_2" { "HandshakeFailure" } else { "CertificateRequired" };
        assert!(refusal.contains(&format!("received fatal alert: {alert}")), "{refusal}");
    }
}

// H-3
#[test]
fn an_appliance_that_talks_on_below_the_answer_is_cut_off_at_256_kib() {
    let folder = certificate("ed25519", "");
    // Tickets are TLS's own messages and carry nothing of an answer.
    let server = Server::openssl(folder.path(), "-tls1_3 -num_tickets 10000");
    assert_eq!(
        server.refusal(),
        "Target.FailedHealthChecks: Health checks failed: the target sent more than 262144 bytes before \
         the answer's head was complete (0 bytes received)"
    );
}

// H-5
#[test]
fn the_code_that_an_appliance_answers_with_is_told() {
    let folder = certificate("ed25519", "");
    let server = Server::python(
        folder.path(),
        "        stream.recv(1000)\n        stream.sendall(b'HTTP/1.1 503 Busy\\r\\n\\r\\n')\n",
    );
    assert_eq!(
        server.refusal(),
        "Target.ResponseCodeMismatch: Health checks failed with these codes: [503], expected 200-399"
    );
}

// H-3
#[test]
fn an_answer_that_comes_before_the_request_and_a_reset_after_it_are_an_answer() {
    let folder = certificate("ed25519", "");
    let server = Server::python(
        folder.path(),
        "        stream.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')\n        \
         stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n",
    );
    for _ in 0..20 {
        assert_eq!(server.check(), Outcome::Success);
    }
}

// H-3
#[test]
fn an_appliance_that_drips_its_answer_has_failed_when_the_time_is_over() {
    let folder = certificate("ed25519", "");
    let server = Server::python(
        folder.path(),
        "        import time\n        stream.sendall(b'HTTP/1.1 200 OK\\r\\n')\n        \
         for n in range(1000):\n            stream.sendall(b'X: y\\r\\n')\n            time.sleep(0.02)\n",
    );
    let began = std::time::Instant::now();
    let Outcome::Failure(reason) = check(server.address, Duration::from_millis(400)) else {
        panic!("there was no whole answer");
    };
    assert!(reason.description.starts_with("Request timed out: answer's head not complete ("), "{reason:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}
