//! Who may do what.

use super::super::facts::Facts;
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::NO_CONFIGURATION;
use super::network::shares_any;
use crate::control::node::SocketMode;

/// Capabilities by their number in the kernel, with why the daemon needs them.
const NEEDED: [(u32, &str, &str); 4] = [
    (12, "CAP_NET_ADMIN", "to set up interfaces"),
    (13, "CAP_NET_RAW", "to open packet sockets"),
    (14, "CAP_IPC_LOCK", "to pin memory"),
    (21, "CAP_SYS_ADMIN", "to read where memory lies"),
];

pub(in super::super) fn configuration(facts: &Facts, items: &mut Items) {
    let path = facts.gateway.path.display().to_string();
    let Some(mode) = facts.gateway.modes.config else {
        return items.cannot_tell(Kind::ConfigurationMode, Some(&path), "there is no such file");
    };
    let mut is_well = true;
    if mode.bits & 0o022 != 0 {
        is_well = false;
        let found = format!("others than its owner may write it ({:04o})", mode.bits);
        items.mend(
            Kind::ConfigurationMode,
            Some(&path),
            Verdict::Problem,
            found,
            format!("chmod go-w {path}"),
        );
    }
    let has_seed = facts.gateway.node().is_some_and(|config| config.hash_seed.is_some());
    if has_seed && mode.bits & 0o004 != 0 {
        is_well = false;
        let found = format!("it has the hash seed, and everybody may read it ({:04o})", mode.bits);
        items.mend(
            Kind::ConfigurationMode,
            Some(&path),
            Verdict::Warning,
            found,
            format!("chmod o-r {path}"),
        );
    }
    if let Some((seed, mode)) = facts.gateway.modes.seed.as_ref().filter(|(_, mode)| mode.bits & 0o077 != 0) {
        is_well = false;
        let found = format!("others than its owner may read or write the hash seed ({:04o})", mode.bits);
        items.mend(
            Kind::ConfigurationMode,
            Some(seed),
            Verdict::Warning,
            found,
            format!("chmod 0600 {seed}"),
        );
    }
    if is_well {
        let found = format!("{:04o}: only its owner may write it", mode.bits);
        items.ok(Kind::ConfigurationMode, Some(&path), found);
    }
}

pub(in super::super) fn state(facts: &Facts, items: &mut Items) {
    let Some(config) = facts.gateway.node() else {
        return items.cannot_tell(Kind::StateDirectory, None, NO_CONFIGURATION);
    };
    let path = config.state_directory.display().to_string();
    let object = Some(path.as_str());
    match facts.gateway.modes.state {
        None => items.ok(
            Kind::StateDirectory,
            object,
            "it is not there yet: the daemon makes it at its first start",
        ),
        Some(mode) if mode.bits & 0o002 != 0 => {
            let found =
                format!("everybody may write it ({:04o}), and so change what the gateway does", mode.bits);
            items.mend(Kind::StateDirectory, object, Verdict::Problem, found, format!("chmod 0750 {path}"));
        }
        Some(mode) => match facts.user {
            Some(user) if user != 0 && user != mode.user => {
                let found = format!("it is user {}'s, and the daemon runs as user {user}", mode.user);
                items.mend(
                    Kind::StateDirectory,
                    object,
                    Verdict::Problem,
                    found,
                    format!("chown -R {user} {path}"),
                );
            }
            _ => items.ok(Kind::StateDirectory, object, format!("{:04o}, of user {}", mode.bits, mode.user)),
        },
    }
}

pub(in super::super) fn socket(facts: &Facts, items: &mut Items) {
    let Some(config) = facts.gateway.node() else {
        return items.cannot_tell(Kind::SocketMode, None, NO_CONFIGURATION);
    };
    let path = config.socket.path.display().to_string();
    let is_open = |mode: u32| mode & 0o006 != 0;
    let now = facts.gateway.modes.socket.map(|mode| mode.bits);
    if config.socket.mode == SocketMode::Everybody {
        let found =
            "everybody on the machine may look (socket.mode = \"0666\"); nobody of them may change anything";
        items.not_well(Kind::SocketMode, Some(&path), Verdict::Advice, found);
    } else if now.is_some_and(is_open) {
        let found =
            format!("everybody may connect ({:04o}), which the configuration does not say", now.unwrap_or(0));
        items.mend(Kind::SocketMode, Some(&path), Verdict::Warning, found, format!("chmod o-rw {path}"));
    } else {
        items.ok(Kind::SocketMode, Some(&path), format!("{:04o}", now.unwrap_or(config.socket.mode.bits())));
    }
}

pub(in super::super) fn privileges(facts: &Facts, items: &mut Items) {
    let runs = facts.daemon.pid().is_some();
    let whose = if runs { "the daemon" } else { "whoever asks" };
    let Some(capabilities) = facts.capabilities else {
        return items.cannot_tell(Kind::Privileges, None, "the rights of the process could not be read");
    };
    // What the present ports need: neither packet sockets nor pinned memory where there is nothing of the kind.
    let shares = facts.gateway.node().is_some_and(|config| shares_any(facts, config));
    let has_cards = facts.gateway.pci_ports().next().is_some();
    let is_needed = |name: &str| match name {
        "CAP_NET_RAW" => shares,
        "CAP_IPC_LOCK" => has_cards,
        "CAP_SYS_ADMIN" => has_cards && facts.vfio.groups == 0,
        _ => true,
    };
    let missing: Vec<_> =
        NEEDED.iter().filter(|(bit, name, _)| is_needed(name) && capabilities >> bit & 1 == 0).collect();
    if missing.is_empty() {
        return items.ok(
            Kind::Privileges,
            None,
            if runs {
                "it has every right that it needs"
            } else {
                "whoever asks has every right that the daemon needs"
            },
        );
    }
    let words = super::listed(missing.iter().map(|(_, name, why)| format!("{name} ({why})")));
    if runs {
        // It dropped what it no longer needs, or works without.
        items.ok(Kind::Privileges, None, format!("the daemon runs without {words}"));
    } else {
        let found = format!("{whose} lacks {words}: the daemon is started by root, or by its unit");
        items.mend(Kind::Privileges, None, Verdict::Advice, found, "systemctl start flowgate");
    }
}
