//! The kernel's grace periods (RCU), expedited while packet sockets are opened and closed.
//!
//! A socket of `net_af_packet` waits for four of them as it is opened and for three as it is closed, each time for some 15 ms, in
//! which nothing is forwarded: with three ports that is most of what a restart takes. The kernel can do with far
//! less, at the price of an interrupt to each core that is at work, and so has a switch for it, which is of the whole machine.
//! It is on for as long as sockets are opened or closed, some 100 ms each.
//!
//! That it is on by us is noted in the state directory meanwhile: the daemon after one that was killed just then turns it off.
//! Where it cannot be turned on (a container has no right to it) nothing is different but the time.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use flowgate::control::node::NodeConfig;

/// The kernel's switch.
const SWITCH: &str = "/sys/kernel/rcu_expedited";

/// The file of the state directory in which it is noted: the boot's number.
const NOTE: &str = "grace-periods-expedited";

/// The switch, off; dropped, it is off again.
pub struct GracePeriods {
    /// Open, as the right to open it is given away after the start; `None` where it is not ours to turn.
    switch: Option<File>,
    note: PathBuf,
    boot: String,
    is_on: bool,
}

impl GracePeriods {
    /// Of the node with this configuration; what a daemon before this one has left on is turned off.
    pub fn new(config: &NodeConfig) -> GracePeriods {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut periods = GracePeriods::of(Path::new(SWITCH), &config.state_directory, boot.trim());
        // The kernel has no socket of a port that it does not know.
        if !config.ports.iter().any(|port| port.device.argument("iface").is_some()) {
            periods.switch = None;
        }
        periods
    }

    fn of(switch: &Path, state_directory: &Path, boot: &str) -> GracePeriods {
        let note = state_directory.join(NOTE);
        let was_noted = fs::read_to_string(&note).is_ok_and(|noted| noted == boot);
        let is_on = fs::read_to_string(switch).is_ok_and(|value| value.trim() != "0");
        let file = || File::options().write(true).open(switch).ok();
        let mut periods = GracePeriods { switch: None, note, boot: boot.to_owned(), is_on: false };
        if is_on && was_noted {
            periods.switch = file();
            periods.is_on = true;
            periods.put_back();
        } else if !is_on {
            // If it is on, somebody wants it so.
            periods.switch = file();
        }
        periods
    }

    /// Turns it on.
    pub fn expedite(&mut self) {
        let Some(switch) = &self.switch else { return };
        // Nobody would turn it off after a kill otherwise.
        let done = fs::write(&self.note, &self.boot).and_then(|()| write(switch, "1"));
        self.is_on = done.is_ok();
        if let Err(error) = done {
            tracing::debug!(name: "grace_periods_stay", %error, "the kernel's grace periods are not expedited: opening and closing ports takes longer");
            fs::remove_file(&self.note).ok();
        }
    }

    /// Turns it off again.
    pub fn put_back(&mut self) {
        let Some(switch) = &self.switch else { return };
        if !std::mem::take(&mut self.is_on) {
            return;
        }
        match write(switch, "0") {
            Ok(()) => {
                fs::remove_file(&self.note).ok();
            }
            Err(error) => {
                tracing::warn!(name: "kernel_key_not_put_back", key = SWITCH, before = "0", %error, "a key of the kernel could not be put back");
            }
        }
    }
}

impl Drop for GracePeriods {
    fn drop(&mut self) {
        self.put_back();
    }
}

fn write(switch: &File, value: &str) -> io::Result<()> {
    switch.write_all_at(value.as_bytes(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new(value: &str) -> Host {
            let host = Host(tempfile::tempdir().unwrap());
            fs::write(host.switch(), value).unwrap();
            host
        }

        fn switch(&self) -> PathBuf {
            self.0.path().join("rcu_expedited")
        }

        fn daemon(&self, boot: &str) -> GracePeriods {
            GracePeriods::of(&self.switch(), self.0.path(), boot)
        }

        fn value(&self) -> String {
            fs::read_to_string(self.switch()).unwrap().trim().to_owned()
        }

        fn is_noted(&self) -> bool {
            self.0.path().join(NOTE).exists()
        }
    }

    #[test]
    fn it_is_on_for_as_long_as_it_is_asked_for_and_off_at_the_end() {
        let host = Host::new("0\n");
        let mut periods = host.daemon("boot");
        assert_eq!(host.value(), "0");
        periods.expedite();
        assert!(host.value() == "1" && host.is_noted());
        periods.put_back();
        assert!(host.value() == "0" && !host.is_noted());
        periods.expedite();
        assert_eq!(host.value(), "1");
        drop(periods);
        assert!(host.value() == "0" && !host.is_noted());
    }

    #[test]
    fn what_somebody_else_has_turned_on_stays_on() {
        let host = Host::new("1\n");
        let mut periods = host.daemon("boot");
        periods.expedite();
        assert!(!host.is_noted());
        drop(periods);
        assert_eq!(host.value(), "1");
    }

    #[test]
    fn what_a_daemon_that_was_killed_has_left_on_the_next_one_turns_off() {
        let host = Host::new("0\n");
        let mut killed = host.daemon("boot");
        killed.expedite();
        // As after a kill.
        std::mem::forget(killed);
        let mut next = host.daemon("boot");
        assert!(host.value() == "0" && !host.is_noted());
        next.expedite();
        assert_eq!(host.value(), "1");
        std::mem::forget(next);
        // Of another boot, in which somebody else has turned it on.
        drop(host.daemon("another"));
        assert_eq!(host.value(), "1");
    }

    #[test]
    fn a_machine_without_the_switch_is_as_it_was() {
        let host = Host::new("0");
        fs::remove_file(host.switch()).unwrap();
        let mut periods = host.daemon("boot");
        periods.expedite();
        assert!(!host.is_noted() && !host.switch().exists());
    }
}
