//! Telling the service manager how the daemon stands, by the protocol of sd_notify(3): datagrams of `NAME=value` lines
//! to the Unix socket that `NOTIFY_SOCKET` names. Where nothing names one, nobody is told.
//!
//! Spoken by hand, as it is one datagram: a path or, behind an `@`, a name in the kernel's own space.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::Refusal;

/// The way to the service manager.
pub struct Notify {
    socket: Option<UnixDatagram>,
    /// It is to be fed at least this often, or the daemon is taken for stuck.
    watchdog: Option<Duration>,
}

impl Notify {
    /// The way that the environment names. Taken before the daemon gives its rights away, and kept.
    ///
    /// # Errors
    /// When it names one that cannot be reached, or a time that is none: who started the daemon waits for its word.
    pub fn from_environment() -> Result<Notify, Refusal> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let watchdog = watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id())?;
        let Some(name) = variable("NOTIFY_SOCKET") else {
            return Ok(Notify { socket: None, watchdog: None });
        };
        let socket = connect(&name).map_err(|error| {
            format!("the service manager cannot be told at NOTIFY_SOCKET '{name}': {error}")
        })?;
        Ok(Notify { socket: Some(socket), watchdog })
    }

    /// How often the watchdog is to be fed; `None` if there is none.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The daemon does its work.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// How it stands, in a line.
    pub fn status(&self, status: &str) {
        self.tell(&format!("STATUS={}", one_line(status)));
    }

    /// It reads its configuration anew, until it is [`ready`](Notify::ready) again.
    pub fn reloading(&self) {
        self.tell("RELOADING=1\nSTATUS=Reads its configuration anew");
    }

    /// It ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=Stops");
    }

    /// It lives.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    fn tell(&self, words: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(words.as_bytes())
        {
            // Nobody may be held up by it, and what counts is told again.
            tracing::warn!(name: "service_manager_not_told", %error, "the service manager could not be told how the daemon stands");
        }
    }
}

fn connect(name: &str) -> io::Result<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None if name.starts_with('/') => SocketAddr::from_pathname(name)?,
        None => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is neither a path nor an @ and a name",
            ));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A service manager that has no time holds nobody up.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The watchdog that is meant for this process.
fn watchdog(usec: Option<String>, pid: Option<String>, own: u32) -> Result<Option<Duration>, Refusal> {
    let number = |name: &str, value: String| -> Result<u64, Refusal> {
        value.parse().map_err(|_| format!("{name} is '{value}', which is no number").into())
    };
    let Some(usec) = usec.map(|value| number("WATCHDOG_USEC", value)).transpose()? else { return Ok(None) };
    let meant = pid.map(|value| number("WATCHDOG_PID", value)).transpose()?;
    if usec == 0 || meant.is_some_and(|meant| meant != u64::from(own)) {
        return Ok(None);
    }
    Ok(Some(Duration::from_micros(usec)))
}

/// A line is all that a value may be.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notify(socket: UnixDatagram) -> Notify {
        Notify { socket: Some(socket), watchdog: None }
    }

    fn heard(by: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let length = by.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn it_speaks_to_a_path_and_to_a_name_in_the_kernels_own_space() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        notify(connect(path.to_str().unwrap()).unwrap()).ready("forwards\nall");
        assert_eq!(heard(&by_path), "READY=1\nSTATUS=forwards all");
        let name = format!("flowgate-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        let told = notify(connect(&format!("@{name}")).unwrap());
        told.alive();
        told.reloading();
        told.stopping();
        assert_eq!(heard(&by_name), "WATCHDOG=1");
        assert_eq!(heard(&by_name), "RELOADING=1\nSTATUS=Reads its configuration anew");
        assert_eq!(heard(&by_name), "STOPPING=1\nSTATUS=Stops");
    }

    #[test]
    fn a_name_that_leads_nowhere_is_refused() {
        for (name, why) in [
            ("run/notify", "neither a path"),
            ("/nowhere/at/all", "No such file"),
            ("@nobody-is-there", "refused"),
        ] {
            let error = connect(name).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
    }

    #[test]
    fn a_watchdog_is_fed_if_it_is_ours() {
        let of = |usec: Option<&str>, pid: Option<&str>| {
            watchdog(usec.map(str::to_owned), pid.map(str::to_owned), 7).map_err(|error| error.to_string())
        };
        let ten = Ok(Some(Duration::from_secs(10)));
        assert_eq!(of(Some("10000000"), Some("7")), ten);
        assert_eq!(of(Some("10000000"), None), ten);
        for none in [of(None, None), of(Some("10000000"), Some("8")), of(Some("0"), None)] {
            assert_eq!(none, Ok(None));
        }
        assert_eq!(of(Some("soon"), None), Err("WATCHDOG_USEC is 'soon', which is no number".to_owned()));
    }
}
