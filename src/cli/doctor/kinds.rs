//! Every item that the doctor looks at: its id, its area, why it matters, and the function that looks. The table is what
//! docs/bare-metal.md is made of.

use super::checks::{cards, cores, gateway, links, memory, network, permissions, targets};
use super::facts::Facts;
use super::items::Items;
use serde::{Deserialize, Serialize};

/// What items are listed under, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// The daemon and its two documents.
    Gateway,
    /// Hugepages and locked memory.
    Memory,
    /// The ports' devices.
    Cards,
    /// The cores of workers.
    Cores,
    /// The kernel's part in the network, and the way to the targets.
    Network,
    /// Who may do what.
    Permissions,
}

impl Area {
    /// Every area, in the order in which they are shown.
    pub const ALL: [Area; 6] =
        [Area::Gateway, Area::Memory, Area::Cards, Area::Cores, Area::Network, Area::Permissions];

    /// The heading.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Area::Gateway => "Gateway",
            Area::Memory => "Memory",
            Area::Cards => "Cards",
            Area::Cores => "Cores",
            Area::Network => "Network",
            Area::Permissions => "Permissions",
        }
    }
}

macro_rules! kinds {
    ($($kind:ident = $id:literal, $area:ident, $look:path, $why:literal;)+) => {
        /// An item.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $why] $kind,)+
        }

        impl Kind {
            /// Every item, in the order in which they are shown.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)+];

            /// What it is called.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self { $(Kind::$kind => $id,)+ }
            }

            /// What it is listed under.
            #[must_use]
            pub fn area(self) -> Area {
                match self { $(Kind::$kind => Area::$area,)+ }
            }

            /// Why it matters.
            #[must_use]
            pub fn why(self) -> &'static str {
                match self { $(Kind::$kind => $why,)+ }
            }

            /// Looks at it.
            pub(super) fn look(self, facts: &Facts, items: &mut Items) {
                match self { $(Kind::$kind => $look(facts, items),)+ }
            }
        }
    };
}

kinds! {
    Configuration = "configuration", Gateway, gateway::configuration,
        "The daemon does not start on a configuration that it cannot read; what else is looked at here follows from it.";
    Objects = "objects", Gateway, gateway::objects,
        "Without a load balancer and targets the gateway drops what its endpoints bring.";
    Daemon = "daemon", Gateway, gateway::daemon,
        "What a card can and whether targets resolve is known for certain only by the daemon that uses them.";
    Workers = "workers", Gateway, gateway::workers,
        "A worker that gives no sign of life forwards nothing, and the packets of its queues are lost.";
    Everything = "everything-read", Gateway, gateway::everything_read,
        "What may not be read cannot be judged: run the doctor as root.";

    HugepagesFree = "hugepages-free", Memory, memory::free,
        "Packets in ordinary memory cost 1.5 to 1.9 times the time, and flow tables in it walk the page tables with each look-up.";
    HugepagesSize = "hugepages-size", Memory, memory::size,
        "A flow table of half a GiB and more is looked up faster in pages of 1 GiB: fewer of them have to be found.";
    HugepagesNode = "hugepages-node", Memory, memory::node,
        "Memory of another NUMA node is reached through the link between the sockets, with each packet.";
    HugepagesBoot = "hugepages-boot", Memory, memory::boot,
        "Pages that are reserved by hand are gone after the next boot, and later there may not be enough memory in one piece.";
    KeptTables = "kept-tables", Memory, memory::kept_tables,
        "Flows outlive the daemon in memory files. Where these find no room its flow tables end with it, and so does every flow at a restart.";
    MemoryLock = "memory-lock", Memory, memory::lock,
        "vfio pins the memory that a card reads and writes. A limit on locked memory refuses that to any user but root.";

    Device = "device", Cards, cards::device,
        "A port whose device is not there keeps the daemon from starting.";
    Driver = "driver", Cards, cards::driver,
        "DPDK opens a card that is bound to vfio-pci, or one of Mellanox with its own driver; one that the kernel uses it leaves alone.";
    DriverBoot = "driver-boot", Cards, cards::boot,
        "A card that was bound by hand is the kernel's again after the next boot, and the daemon does not start.";
    Vfio = "vfio", Cards, cards::vfio,
        "Without vfio-pci no card can be handed to the daemon safely.";
    Iommu = "iommu", Cards, cards::iommu,
        "The IOMMU keeps a card from writing anywhere but into the daemon's memory. Without it only root may use vfio, and a fault of the card is one of the whole machine.";
    IommuGroup = "iommu-group", Cards, cards::group,
        "vfio hands out whole groups: a card is refused while the kernel has another device of its group.";
    Firmware = "firmware", Cards, links::firmware,
        "DPDK's drivers are written against versions of the firmware, and for Intel's E800 series against a package that they load; without these a card does not open or has no RSS.";
    Link = "link", Cards, links::link,
        "No packet passes where the link is down; one of half duplex loses them.";
    PcieLink = "pcie-link", Cards, links::pcie,
        "A card in a slot of fewer or slower lanes than it has cannot carry its own speed.";
    Rss = "rss", Cards, links::rss,
        "With several workers the card must spread packets, both directions of a flow alike. Where it cannot, workers hand packets to each other, which costs about as much as forwarding.";
    Queues = "queues", Cards, links::queues,
        "Each worker has a queue of every port: a device with fewer keeps the daemon from starting.";
    NicNode = "nic-node", Cards, links::node,
        "Each packet crosses the link between the sockets when its card and its worker are on different NUMA nodes.";

    CoresOnline = "cores-online", Cores, cores::online,
        "A worker on a core that is not there, or not allowed, keeps the daemon from starting.";
    CoresIsolated = "cores-isolated", Cores, cores::isolated,
        "Whatever else runs on a worker's core holds up each packet for as long as it runs: milliseconds, where the kernel takes turns.";
    CoresTickless = "cores-tickless", Cores, cores::tickless,
        "The kernel's own clock interrupts a core that is not tickless some hundred times a second, for microseconds.";
    CoreSiblings = "core-siblings", Cores, cores::siblings,
        "Two hyper-threads share one core's units: two workers on them do about 1.2 times the work of one.";
    Governor = "governor", Cores, cores::governor,
        "A governor that saves power takes milliseconds to raise a core's frequency, and packets wait meanwhile.";
    ClockSource = "clock-source", Cores, cores::clock,
        "Timers and rates go by the CPU's counter. Where the kernel does not trust it, it may stop or run at changing speed.";

    HostInterface = "host-interface", Network, network::host_interface,
        "The kernel answers ARP and finds neighbours for the gateway's addresses, on the interface that it shares or that is given to it.";
    KernelAddresses = "kernel-addresses", Network, network::addresses,
        "An address of the kernel's on a wire's device is answered for by the kernel, and traffic to it never crosses.";
    KernelForwarding = "kernel-forwarding", Network, network::forwarding,
        "What the kernel forwards from a device that it shares with the gateway arrives twice.";
    KernelBridge = "kernel-bridge", Network, network::bridge,
        "A bridge or bond of the kernel's over a device that it shares with the gateway sends each frame on as well.";
    ReversePath = "reverse-path", Network, network::reverse_path,
        "A strict filter drops what comes in where the kernel would not answer by: answers to health checks, so that targets look dead.";
    TunnelPort = "tunnel-port", Network, network::tunnel_port,
        "Another program on UDP 6081 takes what appliances return, and keeps the daemon from starting.";
    MtuDevice = "mtu-device", Network, targets::mtu_device,
        "A device with a smaller MTU than its port is configured with drops the longest packets, or keeps the daemon from starting.";
    MtuTargetSide = "mtu-target-side", Network, targets::mtu_target_side,
        "GENEVE takes 68 bytes: what does not fit is fragmented, or its sender told to send less, which firewalls like to lose.";
    TargetPath = "target-path", Network, targets::target_path,
        "Every switch on the way to a target, and the target itself, must carry packets of the target side's full size: one that does not loses them without a word.";
    CheckRoute = "check-route", Network, targets::check_route,
        "Health checks go by the kernel's routes: one that leaves by another interface than the tunnel's says nothing of the way that traffic takes.";
    Neighbours = "neighbours", Network, targets::neighbours,
        "Packets to a target whose link-layer address is not known are dropped, whatever its health checks say.";

    ConfigurationMode = "configuration-mode", Permissions, permissions::configuration,
        "Whoever may write the configuration decides what root runs; whoever may read the hash seed can aim flows at one target.";
    StateDirectory = "state-directory", Permissions, permissions::state,
        "Changes are refused while the state directory cannot be written.";
    SocketMode = "socket-mode", Permissions, permissions::socket,
        "A socket for everybody shows flows and addresses to every user of the machine.";
    Privileges = "privileges", Permissions, permissions::privileges,
        "Without the rights to open packet sockets, to set up interfaces and to pin memory the daemon does not start.";
}
