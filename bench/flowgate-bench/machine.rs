//! The machine that the figures are of.

use std::fs;
use std::path::Path;

use serde::Serialize;

use flowgate::io::dpdk::Eal;
use flowgate::io::hugepages::Hugepages;

/// What may matter to who reads the figures. Empty where the system does not tell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    pub flowgate: String,
    pub cpu: String,
    pub cpus: usize,
    /// As the kernel has it at the start.
    pub mhz: String,
    pub caches: Vec<String>,
    /// The hypervisor flag is set.
    pub virtual_machine: bool,
    pub memory_mib: u64,
    pub kernel: String,
    pub dpdk: String,
    /// Pages of each size in KiB: reserved, and free at the start.
    pub hugepages: Vec<(u64, u64, u64)>,
    /// Whether packets lie in them.
    pub packets_in_hugepages: bool,
    /// Of 1, 5 and 15 minutes at the start: what else the machine did.
    pub load: String,
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

impl Machine {
    /// This one, now.
    pub fn look(cpus: usize) -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let of_cpu = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let memory = read("/proc/meminfo");
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total = total.and_then(|total| total.split_whitespace().next()?.parse::<u64>().ok());
        let hugepages = Hugepages::of_this_machine().unwrap_or_default();
        Machine {
            flowgate: env!("CARGO_PKG_VERSION").to_owned(),
            cpu: of_cpu("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus,
            mhz: of_cpu("cpu MHz").unwrap_or_default(),
            caches: caches(),
            virtual_machine: of_cpu("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            memory_mib: total.unwrap_or(0) / 1024,
            kernel: read("/proc/sys/kernel/osrelease"),
            dpdk: Eal::version(),
            hugepages: hugepages.sizes.iter().map(|size| (size.kib, size.total, size.free)).collect(),
            packets_in_hugepages: false,
            load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
        }
    }

    /// For people.
    pub fn markdown(&self) -> String {
        let kind = if self.virtual_machine { "a virtual machine" } else { "hardware" };
        let pages: Vec<String> = self
            .hugepages
            .iter()
            .map(|(kib, total, free)| format!("{total} of {} MiB, {free} free", kib / 1024))
            .collect();
        let packets = if self.packets_in_hugepages {
            "packets lie in them"
        } else {
            "**packets and rte_hash lie in ordinary memory**"
        };
        format!(
            "| | |\n|---|---|\n| CPU | {}, {} MHz, {} CPUs, {kind} |\n| caches | {} |\n| memory | {} MiB |\n| hugepages | \
             {}; {packets} |\n| kernel | {} |\n| DPDK | {} |\n| Flowgate | {} |\n| load before | {} |\n",
            self.cpu,
            self.mhz,
            self.cpus,
            self.caches.join(", "),
            self.memory_mib,
            pages.join("; "),
            self.kernel,
            self.dpdk,
            self.flowgate,
            self.load,
        )
    }
}

/// The caches of the first CPU, such as `L2 1280K`.
fn caches() -> Vec<String> {
    let folder = Path::new("/sys/devices/system/cpu/cpu0/cache");
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut caches: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("index"))
        .map(|entry| entry.path())
        .filter(|cache| read(cache.join("type")) != "Instruction")
        .map(|cache| format!("L{} {}", read(cache.join("level")), read(cache.join("size"))))
        .collect();
    caches.sort();
    caches
}
