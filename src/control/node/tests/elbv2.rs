//! `[elbv2]`.

use super::*;

fn with(section: &str) -> String {
    edited("[underlay]", &format!("{section}\n[underlay]"))
}

#[test]
fn there_is_no_endpoint_without_its_section_and_it_is_loopbacks_without_an_address() {
    assert!(NodeConfig::parse(GOOD).expect("good").elbv2.is_none());
    let config = NodeConfig::parse(&with("[elbv2]")).expect("good");
    assert_eq!(config.elbv2.expect("given").address.to_string(), "127.0.0.1:6080");
}

#[test]
fn others_than_this_machine_are_known_by_credentials_or_not_served() {
    let section = |address: &str, more: &str| with(&format!("[elbv2]\naddress = \"{address}\"\n{more}"));
    for address in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80"] {
        assert!(NodeConfig::parse(&section(address, "")).is_ok(), "{address}");
    }
    for address in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "[::ffff:127.0.0.1]:80"] {
        assert_eq!(
            refusal(&section(address, "")),
            format!(
                "elbv2.address: {address} is reached by others than this machine, and there are no \
                 elbv2.credentials to know them by; give some, or a loopback address"
            )
        );
        assert!(NodeConfig::parse(&section(address, "credentials = \"/etc/keys\"")).is_ok(), "{address}");
    }
}

#[test]
fn what_an_endpoint_cannot_have_is_refused() {
    for (section, expected) in [
        ("[elbv2]\naddress = \"localhost:80\"", "elbv2.address: invalid socket address syntax (line 22)"),
        ("[elbv2]\naddress = \"127.0.0.1\"", "elbv2.address: invalid socket address syntax (line 22)"),
        ("[elbv2.tls]\nkey = \"key.pem\"", "elbv2.tls: missing field `certificate` (line 21)"),
    ] {
        assert_eq!(refusal(&with(section)), expected);
    }
}
