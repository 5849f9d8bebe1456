//! Whether a request was meant for this machine. A web page can have a browser ask any address, under any name
//! that it makes to mean that address; it cannot choose what the browser then writes into `Host`.

use std::net::IpAddr;

use hyper::header::HeaderValue;

/// Whether `host`, with or without a port, is a name of this machine that nobody else can give a meaning to.
pub fn is_this_machine(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_names_that_no_other_can_have() {
        for host in ["localhost", "LocalHost:6080", "127.0.0.1:6080", "127.9.9.9", "[::1]:6080", "[::1]"] {
            assert!(is_this_machine(&HeaderValue::from_static(host)), "{host}");
        }
        for host in [
            "",
            ":6080",
            "evil.example",
            "evil.example:6080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "[::2]:6080",
            "0.0.0.0:6080",
            "10.0.0.1",
            "localhost:6080:x",
            "::1",
            "[127.0.0.1",
        ] {
            assert!(!is_this_machine(&HeaderValue::from_static(host)), "{host}");
        }
    }
}
