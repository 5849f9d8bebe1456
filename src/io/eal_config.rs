//! What an operator sets of DPDK, and the arguments for EAL that come of it. Pure: what the machine
//! has is handed in.

use super::hugepages;

/// Whether packets lie in hugepages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hugepages {
    /// In hugepages if enough are free, else in ordinary memory: slower by 1.5 to 1.9.
    #[default]
    Auto,
    /// In ordinary memory.
    Never,
    /// In hugepages, or not at all.
    Always,
}

/// What an operator sets of DPDK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EalConfig {
    /// The CPUs of the workers and of the control core.
    pub cores: Vec<u16>,
    /// Where packets lie.
    pub hugepages: Hugepages,
    /// Memory for packets and rings, in MiB.
    pub memory_mb: u32,
    /// Names this process among the DPDK processes of the machine.
    pub file_prefix: String,
    /// Devices: `net_…` with their arguments, or PCI addresses.
    pub devices: Vec<String>,
    /// Arguments given to EAL as they are, after ours; a choice that one of them makes is not made by us.
    pub extra: Vec<String>,
}

/// Why no arguments can be composed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EalConfigError {
    /// There is nothing to run on.
    #[error("no cores: name at least one CPU")]
    NoCores,
    /// The hugepages asked for are not there.
    #[error(
        "hugepages are set to \"always\" and {free_mb} MiB of them are free where {wanted_mb} are needed: reserve more \
         (`echo {pages} > /proc/sys/vm/nr_hugepages` for pages of 2 MiB), lower memory_mb, or set \"auto\""
    )]
    Hugepages {
        /// Needed.
        wanted_mb: u64,
        /// There.
        free_mb: u64,
        /// How many pages of 2 MiB that makes.
        pages: u64,
    },
    /// A device's name is none.
    #[error(transparent)]
    Device(#[from] UnknownDevice),
}

/// A device's name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no device: expected a virtual one (such as net_af_packet0,iface=eth1) or a PCI address (such as \
     0000:3b:00.0)"
)]
pub struct UnknownDevice(String);

/// How DPDK finds a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Made by a driver of DPDK: `--vdev`.
    Virtual,
    /// On the PCI bus: `-a`.
    Pci,
}

/// A device as an operator writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Where it is.
    pub bus: Bus,
    /// DPDK's name for its port.
    pub name: String,
    /// Name and arguments, as EAL wants them.
    pub argument: String,
}

impl Device {
    /// Reads `name[,argument…]`. A PCI address may leave out its domain.
    ///
    /// # Errors
    /// When it is neither a virtual device's name nor a PCI address.
    pub fn parse(text: &str) -> Result<Device, UnknownDevice> {
        let (name, arguments) = text.split_at(text.find(',').unwrap_or(text.len()));
        let word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let (bus, name) =
            if word && ["net_", "eth_", "virtio_user"].iter().any(|start| name.starts_with(start)) {
                (Bus::Virtual, name.to_owned())
            } else if let Some(address) = pci_address(name) {
                (Bus::Pci, address)
            } else {
                return Err(UnknownDevice(text.to_owned()));
            };
        let argument = format!("{name}{arguments}");
        Ok(Device { bus, name, argument })
    }
}

/// `[domain:]bus:device.function` in hexadecimal, as DPDK writes it; `None` if it is not of that form.
fn pci_address(text: &str) -> Option<String> {
    let hex = |text: &str, longest: usize| {
        let fits = (1..=longest).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    let (place, function) = text.rsplit_once('.')?;
    let (rest, device) = place.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    let (domain, bus) = (hex(domain, 8)?, hex(bus, 2)?);
    let (device, function) = (hex(device, 2)?, hex(function, 1)?);
    (device < 32 && function < 8).then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

impl EalConfig {
    /// The arguments for EAL, without a program name, on a machine with these hugepages.
    ///
    /// # Errors
    /// See [`EalConfigError`].
    pub fn arguments(&self, machine: &hugepages::Hugepages) -> Result<Vec<String>, EalConfigError> {
        let devices =
            self.devices.iter().map(|device| Device::parse(device)).collect::<Result<Vec<_>, _>>()?;
        let mut args = Vec::new();
        if !self.operator_sets(&["-l", "-c", "--lcores", "--coremask", "--corelist"]) {
            args.push(self.lcores()?);
        }
        if !self.operator_sets(&[
            "--no-huge",
            "--in-memory",
            "--huge-dir",
            "--socket-mem",
            "--legacy-mem",
            "-m",
        ]) {
            args.extend(self.memory(machine, &devices)?);
        }
        args.push("--no-telemetry".to_owned());
        if !self.operator_sets(&["--file-prefix"]) {
            args.push(format!("--file-prefix={}", self.file_prefix));
        }
        let pci_wanted = devices.iter().any(|device| device.bus == Bus::Pci);
        if !pci_wanted && !self.operator_sets(&["-a", "--allow", "-b", "--block"]) {
            args.push("--no-pci".to_owned());
        }
        for device in devices {
            match device.bus {
                Bus::Virtual => args.push(format!("--vdev={}", device.argument)),
                Bus::Pci => args.extend(["-a".to_owned(), device.argument]),
            }
        }
        args.extend(self.extra.iter().cloned());
        Ok(args)
    }

    /// One lcore, DPDK's main one, that may float over all the cores: the workers are threads of our
    /// own, each pinned by itself.
    fn lcores(&self) -> Result<String, EalConfigError> {
        if self.cores.is_empty() {
            return Err(EalConfigError::NoCores);
        }
        let cores: Vec<String> = self.cores.iter().map(u16::to_string).collect();
        Ok(format!("--lcores=0@({})", cores.join(",")))
    }

    fn memory(
        &self,
        machine: &hugepages::Hugepages,
        devices: &[Device],
    ) -> Result<Vec<String>, EalConfigError> {
        let (wanted_mb, free_mb) = (u64::from(self.memory_mb), machine.free_mb());
        let huge = match self.hugepages {
            Hugepages::Never => false,
            Hugepages::Auto => free_mb >= wanted_mb,
            Hugepages::Always if free_mb < wanted_mb => {
                return Err(EalConfigError::Hugepages { wanted_mb, free_mb, pages: wanted_mb.div_ceil(2) });
            }
            Hugepages::Always => true,
        };
        let mut args = vec!["-m".to_owned(), self.memory_mb.to_string()];
        if huge {
            // No files: nothing is left behind, whatever becomes of the process.
            args.push("--in-memory".to_owned());
            // A PCI device may need physical addresses (no IOMMU): EAL finds out.
            if devices.iter().all(|device| device.bus == Bus::Virtual) {
                args.push("--iova-mode=va".to_owned());
            }
        } else {
            args.extend(["--no-huge", "--no-shconf"].map(str::to_owned));
        }
        Ok(args)
    }

    /// Whether one of `extra` is one of these options, as `--opt`, `--opt=value`, `-o` or `-ovalue`.
    fn operator_sets(&self, options: &[&str]) -> bool {
        self.extra.iter().any(|arg| {
            options.iter().any(|option| match arg.strip_prefix(option) {
                Some("") => true,
                Some(rest) => !option.starts_with("--") || rest.starts_with('='),
                None => false,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::hugepages::PageSize;

    fn machine(free_mb: u64) -> hugepages::Hugepages {
        hugepages::Hugepages { sizes: vec![PageSize { kib: 2048, total: free_mb / 2, free: free_mb / 2 }] }
    }

    fn config() -> EalConfig {
        EalConfig {
            cores: vec![1, 3],
            hugepages: Hugepages::Auto,
            memory_mb: 256,
            file_prefix: "flowgate".to_owned(),
            devices: vec!["net_af_packet0,iface=eth1,qpairs=2".to_owned()],
            extra: Vec::new(),
        }
    }

    fn compose(config: &EalConfig, free_mb: u64) -> String {
        config.arguments(&machine(free_mb)).expect("arguments").join(" ")
    }

    #[test]
    fn a_machine_with_hugepages_uses_them_and_leaves_no_files() {
        assert_eq!(
            compose(&config(), 256),
            "--lcores=0@(1,3) -m 256 --in-memory --iova-mode=va --no-telemetry --file-prefix=flowgate --no-pci \
             --vdev=net_af_packet0,iface=eth1,qpairs=2"
        );
    }

    #[test]
    fn a_machine_without_enough_hugepages_goes_on_without() {
        let without = "--lcores=0@(1,3) -m 256 --no-huge --no-shconf --no-telemetry --file-prefix=flowgate --no-pci \
                       --vdev=net_af_packet0,iface=eth1,qpairs=2";
        assert_eq!(compose(&config(), 254), without);
        assert_eq!(compose(&EalConfig { hugepages: Hugepages::Never, ..config() }, 4096), without);
    }

    #[test]
    fn hugepages_that_must_be_and_are_not_are_refused_with_what_to_do() {
        let config = EalConfig { hugepages: Hugepages::Always, memory_mb: 301, ..config() };
        let error = config.arguments(&machine(300)).expect_err("one MiB short").to_string();
        assert!(error.contains("300 MiB of them are free where 301 are needed"), "{error}");
        assert!(error.contains("echo 151 > /proc/sys/vm/nr_hugepages"), "{error}");
        assert!(config.arguments(&machine(302)).is_ok());
    }

    #[test]
    fn a_pci_device_is_allowed_by_its_full_address_and_the_bus_is_scanned() {
        let devices = vec!["3b:00.1,rx_burst=8".to_owned(), "net_null0".to_owned()];
        assert_eq!(
            compose(&EalConfig { devices, ..config() }, 1024),
            "--lcores=0@(1,3) -m 256 --in-memory --no-telemetry --file-prefix=flowgate -a 0000:3b:00.1,rx_burst=8 \
             --vdev=net_null0"
        );
    }

    #[test]
    fn what_the_operator_gives_to_eal_is_not_contradicted() {
        let extra = |args: &[&str]| {
            let extra = args.iter().map(|&arg| arg.to_owned()).collect();
            compose(&EalConfig { extra, ..config() }, 1024)
        };
        let tail = "--no-telemetry --file-prefix=flowgate --no-pci --vdev=net_af_packet0,iface=eth1,qpairs=2";
        assert_eq!(extra(&["--socket-mem=64,64"]), format!("--lcores=0@(1,3) {tail} --socket-mem=64,64"));
        assert_eq!(extra(&["-m", "64"]), format!("--lcores=0@(1,3) {tail} -m 64"));
        assert_eq!(extra(&["-l2"]), format!("-m 256 --in-memory --iova-mode=va {tail} -l2"));
        assert!(!extra(&["--file-prefix", "own"]).contains("flowgate"));
        assert!(!extra(&["-a", "0000:01:00.0"]).contains("--no-pci"));
        // An option that only starts like one of ours is another.
        assert!(extra(&["--log-level=debug", "--huge-unlink"]).contains("--in-memory"));
    }

    #[test]
    fn no_cores_is_an_error() {
        let config = EalConfig { cores: Vec::new(), ..config() };
        assert_eq!(config.arguments(&machine(0)), Err(EalConfigError::NoCores));
    }

    #[test]
    fn a_device_has_its_ports_name() {
        let name = |text| Device::parse(text).map(|device| device.name);
        assert_eq!(name("net_pcap0,rx_pcap=in.pcap").as_deref(), Ok("net_pcap0"));
        assert_eq!(name("virtio_user0,path=/dev/vhost-net").as_deref(), Ok("virtio_user0"));
        assert_eq!(name("3B:00.0").as_deref(), Ok("0000:3b:00.0"));
        assert_eq!(name("10000:e1:1f.7").as_deref(), Ok("10000:e1:1f.7"));
    }

    #[test]
    fn what_is_no_device_is_refused_with_what_was_expected() {
        for text in [
            "",
            ",",
            "eth1",
            "0000:3b:20.0",
            "3b:00.8",
            "3b:00",
            "3b:00.0.0",
            "-5:00.0",
            "+1:00.0",
            "net_x y",
        ] {
            assert_eq!(Device::parse(text), Err(UnknownDevice(text.to_owned())), "{text}");
        }
    }
}
