//! The control core's dealings with the network: neighbours that are asked for and handed on, and the
//! kernel's addresses on our interfaces.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::Inner;
use crate::control::kept::Kept;
use crate::control::neighbours::{Action, Hop, Neighbours, Standing};
use crate::control::netlink::News;
use crate::id::InterfaceId;
use crate::wire::ethernet::MacAddr;

/// The least time between two forwarding states of which only the network is news: a thousand targets that
/// are found within a second are some hundred compilations and not a thousand.
const BETWEEN_STATES: Duration = Duration::from_millis(10);

/// What the core needs for it.
pub struct NetworkParts {
    /// What is known of neighbours at the start.
    pub neighbours: Kept<Neighbours>,
    /// The kernel's ear.
    pub questions: mpsc::Sender<Hop>,
}

/// The network as the core knows it.
pub(super) struct Network {
    neighbours: Kept<Neighbours>,
    questions: mpsc::Sender<Hop>,
    /// Host interfaces that are there and up, or not.
    links: HashMap<InterfaceId, bool>,
    /// The forwarding state does not have the latest yet.
    dirty: bool,
    published: Instant,
}

impl Network {
    pub(super) fn new(parts: NetworkParts) -> Network {
        Network {
            neighbours: parts.neighbours,
            questions: parts.questions,
            links: HashMap::new(),
            dirty: false,
            published: Instant::now(),
        }
    }

    /// A worker has packets for a neighbour that it does not know. What follows is carried out with the
    /// next look at the network.
    pub(super) fn worker_asks(&mut self, interface: InterfaceId, address: IpAddr) {
        self.neighbours.worker_asks(Hop { interface, address }, Instant::now());
    }

    /// These neighbours are needed all the time.
    pub(super) fn name(&mut self, hops: HashSet<Hop>) {
        self.neighbours.name(hops, Instant::now());
    }

    /// A neighbour's link-layer address.
    pub(super) fn mac(&self, hop: &Hop) -> Option<MacAddr> {
        self.neighbours.mac(hop)
    }

    /// What is known of a neighbour.
    pub(super) fn standing(&self, hop: &Hop) -> Standing {
        self.neighbours.standing(hop)
    }

    /// The neighbours in use on an interface.
    pub(super) fn on(&self, interface: InterfaceId) -> Vec<Hop> {
        self.neighbours.on(interface)
    }

    /// Whether an interface's host interface is up; `None` before the kernel has said.
    pub(super) fn link_up(&self, interface: InterfaceId) -> Option<bool> {
        self.links.get(&interface).copied()
    }

    /// The workers have a forwarding state with everything that is known.
    pub(super) fn published(&mut self) {
        self.dirty = false;
        self.published = Instant::now();
    }
}

impl Inner {
    /// The kernel told something.
    pub(super) fn hear_kernel(&mut self, news: News) {
        match news {
            News::Neighbour(heard) => {
                self.network.neighbours.heard(heard, Instant::now());
                self.carry_out();
            }
            News::Addresses(interface, addresses) => {
                self.network.dirty |= self.compiler.set_locals(interface, &addresses);
            }
            News::Link(interface, up) => {
                if self.network.links.insert(interface, up) != Some(up) {
                    let facts = self.compiler.node().interfaces.get(interface.index());
                    let name = facts.map(|facts| facts.host_interface.as_str()).unwrap_or_default();
                    tracing::info!(name: "link_changed", host_interface = name, up, "a link has come up or gone down");
                }
            }
        }
    }

    /// Asks what is due, and compiles the forwarding state anew if the network has changed under it.
    pub(super) fn follow_network(&mut self) {
        self.network.neighbours.tick(Instant::now());
        self.carry_out();
        if self.network.dirty && self.network.published.elapsed() >= BETWEEN_STATES {
            self.publish();
        }
    }

    /// Carries out what the neighbours' state machine says.
    pub(super) fn carry_out(&mut self) {
        for action in self.network.neighbours.take_actions() {
            match action {
                // If the kernel is behind with answers, the machine asks again when it finds that none came.
                Action::Ask(hop) => drop(self.network.questions.try_send(hop)),
                Action::Tell(hop, mac) => {
                    let interfaces = &self.compiler.node().interfaces;
                    let interface = interfaces.get(hop.interface.index()).map(|facts| facts.name.as_str());
                    tracing::debug!(
                        name: "neighbour_changed", interface, address = %hop.address, mac = mac.map(|mac| mac.to_string()),
                        "a next hop's link-layer address is another, or is not known any more"
                    );
                    if hop.interface == self.compiler.node().underlay.interface {
                        // Workers have the targets' with their headers.
                        self.network.dirty = true;
                    } else {
                        self.workers.set_neighbour(&hop, mac);
                    }
                }
            }
        }
    }
}
