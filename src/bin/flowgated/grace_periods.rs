//! The kernel's grace periods (RCU), expedited while packet sockets are opened and closed.
//!
//! A socket of `net_af_packet` waits for four of them as it is opened and for three as it is closed, each time for some 15 ms, in
//! which nothing is forwarded: with three ports that is most of what a restart takes. The kernel can do with far
//! less, at the price of an interrupt to each core that is at work, and so has a switch for it, which is of the whole machine.
//! It is on while DPDK and the ports start, some 80 ms with three ports, and while they are closed, less than 30 ms.
//!
//! That it is on by us is noted in memory meanwhile, which no disk that hangs holds up: the daemon after one that was killed just
//! then turns it off. Nobody but root and the daemon's user can leave such a note.
//! Where it cannot be turned on (a container has no right to it) nothing is different but the time.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use flowgate::control::node::{NodeConfig, Tables};
use flowgate::io::owner::Owner;

use super::notes;

/// The kernel's switch.
const SWITCH: &str = "/sys/kernel/rcu_expedited";

/// Where it is noted, in a file named after the state directory: the boot's number.
const NOTES: &str = "/dev/shm";

/// The switch, off; dropped, it is off again.
pub struct GracePeriods {
    /// Open, as the right to open it is given away after the start; `None` where it is not ours to turn.
    switch: Option<File>,
    note: PathBuf,
    boot: String,
    is_on: bool,
}

impl GracePeriods {
    /// Of the node with this configuration and the daemon's user; what a daemon before this one has left on is turned off.
    pub fn new(config: &NodeConfig, owner: Owner) -> GracePeriods {
        let name = format!("{}.grace-periods", Tables::name(&config.state_directory));
        let mut periods =
            GracePeriods::of(Path::new(SWITCH), Path::new(NOTES).join(name), &notes::boot(), owner);
        // The kernel has no socket of a port that it does not know.
        if !config.ports.iter().any(|port| port.device.argument("iface").is_some()) {
            periods.switch = None;
        }
        periods
    }

    fn of(switch: &Path, note: PathBuf, boot: &str, owner: Owner) -> GracePeriods {
        let was_noted = !boot.is_empty() && read_note(&note, owner).is_ok_and(|noted| noted == boot);
        let file = File::options().read(true).write(true).open(switch).ok();
        let mut periods = GracePeriods { switch: file, note, boot: boot.to_owned(), is_on: false };
        if was_noted {
            periods.is_on = true;
            periods.put_back();
        }
        periods
    }

    /// Turns it on, unless somebody else has: then they want it so.
    pub fn expedite(&mut self) {
        let Some(switch) = self.switch.as_ref().filter(|switch| is_off(switch)) else { return };
        // Nobody would turn it off after a kill otherwise.
        let done = write_note(&self.note, &self.boot).and_then(|()| write(switch, "1"));
        self.is_on = done.is_ok();
        if let Err(error) = done {
            tracing::debug!(name: "grace_periods_stay", %error, "the kernel's grace periods are not expedited: opening and closing ports takes longer");
            fs::remove_file(&self.note).ok();
        }
    }

    /// Has it on for as long as this is at work, and no longer.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.expedite();
        let done = work();
        self.put_back();
        done
    }

    /// Turns it off again.
    fn put_back(&mut self) {
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

/// What is noted, by root or the daemon's user.
fn read_note(path: &Path, owner: Owner) -> io::Result<String> {
    // Where others may make files, a link is not followed and nobody waited for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() || ![0, owner.uid, Owner::present().uid].contains(&about.uid()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut noted = String::new();
    file.take(64).read_to_string(&mut noted)?;
    Ok(noted)
}

/// Notes it in a file of its own: whatever is there by that name is not written to.
fn write_note(path: &Path, boot: &str) -> io::Result<()> {
    notes::remove(path)?;
    File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(boot.as_bytes())
}

/// Whether it is known to be off.
fn is_off(switch: &File) -> bool {
    let mut value = [0; 8];
    switch.read_at(&mut value, 0).is_ok_and(|length| value[..length].trim_ascii() == b"0")
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

        fn note(&self) -> PathBuf {
            self.0.path().join("note")
        }

        fn daemon(&self, boot: &str) -> GracePeriods {
            GracePeriods::of(&self.switch(), self.note(), boot, Owner::present())
        }

        fn value(&self) -> String {
            fs::read_to_string(self.switch()).unwrap().trim().to_owned()
        }

        fn is_noted(&self) -> bool {
            self.note().exists()
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
    fn it_is_on_during_the_work_and_off_after_it() {
        let host = Host::new("0\n");
        let mut periods = host.daemon("boot");
        let failed: Result<(), String> = periods.during(|| Err(host.value()));
        assert_eq!(failed, Err("1".to_owned()));
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
    fn what_an_operator_turns_on_while_the_daemon_runs_stays_on() {
        let host = Host::new("0\n");
        let mut periods = host.daemon("boot");
        periods.expedite();
        periods.put_back();
        fs::write(host.switch(), "1\n").unwrap();
        periods.expedite();
        assert!(!host.is_noted());
        drop(periods);
        assert_eq!(host.value(), "1");
    }

    #[test]
    fn a_link_in_the_place_of_the_note_is_not_written_through() {
        let host = Host::new("0\n");
        let precious = host.0.path().join("shadow");
        fs::write(&precious, "root:x").unwrap();
        std::os::unix::fs::symlink(&precious, host.note()).unwrap();
        let mut periods = host.daemon("boot");
        periods.expedite();
        assert!(host.value() == "1" && host.is_noted());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "root:x");
        // Nor is one read through.
        std::mem::forget(periods);
        fs::write(&precious, "boot").unwrap();
        fs::remove_file(host.note()).unwrap();
        std::os::unix::fs::symlink(&precious, host.note()).unwrap();
        drop(host.daemon("boot"));
        assert_eq!(host.value(), "1");
    }

    #[test]
    fn a_fifo_in_the_place_of_the_note_holds_nobody_up() {
        let host = Host::new("0\n");
        nix::unistd::mkfifo(&host.note(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (done, ended) = std::sync::mpsc::channel();
        let (switch, note) = (host.switch(), host.note());
        std::thread::spawn(move || {
            let mut periods = GracePeriods::of(&switch, note, "boot", Owner::present());
            periods.expedite();
            std::mem::forget(periods);
            done.send(()).ok();
        });
        ended.recv_timeout(std::time::Duration::from_secs(10)).expect("it waits for the FIFO");
        assert!(host.value() == "1" && host.note().metadata().unwrap().is_file());
    }

    #[test]
    fn a_note_of_anybody_else_turns_nothing_off() {
        let host = Host::new("1\n");
        fs::write(host.note(), "boot").unwrap();
        if std::os::unix::fs::chown(host.note(), Some(65_534), None).is_err() {
            // Without the right to give files away there is nobody else.
            return;
        }
        drop(host.daemon("boot"));
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
