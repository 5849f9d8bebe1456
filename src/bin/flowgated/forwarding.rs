//! The kernel's IPv4 forwarding, off on devices for as long as the daemon runs.
//!
//! What is turned off is noted in the state directory before, until it was put back: a daemon that was killed puts nothing
//! back, and the one after it finds the switch off and would take that for how it was. A note holds for the boot in
//! which it was made. It has devices alone: whoever can write it can have their forwarding turned on, and nothing else.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flowgate::control::store::open_plain;
use flowgate::control::survey::ipv4_forwarding;

use super::notes;

/// The file of the state directory in which it is noted: the boot's number, and a device a line.
const NOTE: &str = "forwarding-off";

/// The devices whose forwarding was on and is off; dropped, it is on again.
pub struct Forwarding {
    /// `/proc/sys`.
    switches: PathBuf,
    note: PathBuf,
    boot: String,
    devices: BTreeSet<String>,
}

impl Forwarding {
    /// With what a daemon before this one has not put back.
    pub fn noted(state_directory: &Path) -> Forwarding {
        Forwarding::below(Path::new("/proc/sys"), state_directory, &notes::boot())
    }

    fn below(switches: &Path, state_directory: &Path, boot: &str) -> Forwarding {
        let note = state_directory.join(NOTE);
        let mut text = String::new();
        let read = open_plain(OpenOptions::new().read(true), &note)
            .and_then(|mut file| file.read_to_string(&mut text));
        if read.is_err() {
            text.clear();
        }
        let mut lines = text.lines();
        let is_of_boot = !boot.is_empty() && lines.next() == Some(boot);
        // Nobody's name leads elsewhere.
        let is_device =
            |name: &&str| !name.is_empty() && !name.contains('/') && *name != "." && *name != "..";
        let devices = lines.filter(is_device).filter(|_| is_of_boot).map(str::to_owned).collect();
        Forwarding { switches: switches.to_owned(), note, boot: boot.to_owned(), devices }
    }

    /// Whether a switch below `/proc/sys` was on, if it is off by us.
    pub fn was_on(&self, switch: &str) -> bool {
        self.devices.iter().any(|device| ipv4_forwarding(device) == switch)
    }

    /// Has forwarding be off on these devices, on which it is on or was, and on again on all others that were noted.
    ///
    /// # Errors
    /// The device on which it cannot be turned off, and the kernel's reason.
    pub fn turn_off(&mut self, devices: &[&str]) -> Result<(), (String, io::Error)> {
        let others: Vec<String> =
            self.devices.iter().filter(|noted| !devices.contains(&noted.as_str())).cloned().collect();
        self.put_back(others);
        for device in devices {
            if self.devices.insert((*device).to_owned()) {
                self.write_note();
            }
            fs::write(self.switch(device), "0").map_err(|error| ((*device).to_owned(), error))?;
        }
        Ok(())
    }

    fn switch(&self, device: &str) -> PathBuf {
        self.switches.join(ipv4_forwarding(device))
    }

    /// Turns it on again; a device that is gone has no switch.
    fn put_back(&mut self, devices: impl IntoIterator<Item = String>) {
        let before = self.devices.len();
        for device in devices {
            match fs::write(self.switch(&device), "1") {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let key = self.switch(&device);
                    tracing::warn!(name: "kernel_key_not_put_back", key = %key.display(), before = "1", %error, "a key of the kernel could not be put back");
                }
                Ok(()) | Err(_) => {
                    self.devices.remove(&device);
                }
            }
        }
        if self.devices.len() != before {
            self.write_note();
        }
    }

    /// Notes the devices as they are now. A disk that takes nothing keeps nobody from a start.
    fn write_note(&self) {
        let write = || -> io::Result<()> {
            if self.devices.is_empty() {
                return notes::remove(&self.note);
            }
            let mut text = format!("{}\n", self.boot);
            for device in &self.devices {
                text.push_str(device);
                text.push('\n');
            }
            let new = self.note.with_extension("new");
            // Made anew: the folder is the daemon's user's, whose links root is not to follow.
            notes::remove(&new)?;
            let mut file = File::create_new(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.note)
        };
        if let Err(error) = write() {
            tracing::warn!(name: "kernel_key_not_noted", path = %self.note.display(), %error, "what was changed in the kernel could not be noted: after a kill it is not put back");
        }
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.put_back(self.devices.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Host {
            let host = Host(tempfile::tempdir().unwrap());
            for device in ["eth0", "eth1"] {
                let switch = host.switch(device);
                fs::create_dir_all(switch.parent().unwrap()).unwrap();
                fs::write(switch, "1\n").unwrap();
            }
            fs::create_dir(host.0.path().join("state")).unwrap();
            host
        }

        fn switch(&self, device: &str) -> PathBuf {
            self.0.path().join("sys").join(ipv4_forwarding(device))
        }

        fn is_on(&self, device: &str) -> bool {
            fs::read_to_string(self.switch(device)).unwrap().trim() == "1"
        }

        fn daemon(&self, boot: &str) -> Forwarding {
            Forwarding::below(&self.0.path().join("sys"), &self.0.path().join("state"), boot)
        }

        fn note(&self) -> Option<String> {
            fs::read_to_string(self.0.path().join("state").join(NOTE)).ok()
        }
    }

    #[test]
    fn what_a_daemon_that_was_killed_has_turned_off_the_next_one_puts_back() {
        let host = Host::new();
        let mut killed = host.daemon("boot");
        killed.turn_off(&["eth0", "eth1"]).unwrap();
        assert_eq!(host.note().as_deref(), Some("boot\neth0\neth1\n"));
        // As after a kill.
        std::mem::forget(killed);
        assert!(!host.is_on("eth0") && !host.is_on("eth1"));
        let mut next = host.daemon("boot");
        assert!(next.was_on(&ipv4_forwarding("eth0")) && !next.was_on(&ipv4_forwarding("eth2")));
        // The other is in its configuration no longer.
        next.turn_off(&["eth0"]).unwrap();
        assert!(!host.is_on("eth0") && host.is_on("eth1"));
        assert_eq!(host.note().as_deref(), Some("boot\neth0\n"));
        drop(next);
        assert!(host.is_on("eth0"));
        assert_eq!(host.note(), None);
    }

    #[test]
    fn a_link_in_the_place_of_the_note_is_not_written_through() {
        let host = Host::new();
        let precious = host.0.path().join("shadow");
        fs::write(&precious, "root:x").unwrap();
        let draft = host.0.path().join("state").join(NOTE).with_extension("new");
        std::os::unix::fs::symlink(&precious, &draft).unwrap();
        let mut forwarding = host.daemon("boot");
        forwarding.turn_off(&["eth0"]).unwrap();
        assert_eq!(host.note().as_deref(), Some("boot\neth0\n"));
        assert_eq!(fs::read_to_string(&precious).unwrap(), "root:x");
    }

    #[test]
    fn a_note_of_another_boot_and_a_name_that_leads_elsewhere_are_passed_over() {
        let host = Host::new();
        let mut killed = host.daemon("boot");
        killed.turn_off(&["eth0"]).unwrap();
        std::mem::forget(killed);
        assert!(!host.daemon("another").was_on(&ipv4_forwarding("eth0")));
        assert!(!host.is_on("eth0"), "it is as the system was set up");
        fs::write(host.0.path().join("state").join(NOTE), "boot\n../all\n..\n\neth1\n").unwrap();
        assert_eq!(host.daemon("boot").devices, BTreeSet::from(["eth1".to_owned()]));
    }

    #[test]
    fn a_device_that_is_gone_is_forgotten_and_a_disk_that_takes_nothing_keeps_nobody_from_a_start() {
        let host = Host::new();
        let mut forwarding = host.daemon("boot");
        forwarding.turn_off(&["eth0"]).unwrap();
        fs::remove_dir_all(host.switch("eth0").parent().unwrap()).unwrap();
        drop(forwarding);
        assert_eq!(host.note(), None);
        fs::remove_dir(host.0.path().join("state")).unwrap();
        let mut forwarding = host.daemon("boot");
        forwarding.turn_off(&["eth1"]).unwrap();
        assert!(!host.is_on("eth1"));
        drop(forwarding);
        assert!(host.is_on("eth1"));
        assert_eq!(host.daemon("boot").turn_off(&["eth9"]).unwrap_err().0, "eth9");
    }
}
