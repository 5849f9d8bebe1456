//! The generator's loop: takes what has arrived at each port, sends what is due, and hands over what it measured.
//! It knows neither DPDK nor the clock: a test plays whole loads through ports of memory.

use std::sync::Arc;

use flowgate::io::{BURST, Burst, PacketBuf, PortQueue};
use flowgate::wire::ethernet::HEADER_LEN;
use rtrb::{Consumer, Producer};

use super::appliance::Appliances;
use super::attack::shots::Shots;
use super::attack::{Kind, Side};
use super::ends::{Clients, Common, Servers, ip_len, send_data};
use super::flows::{Flows, State};
use super::frames::Frames;
use super::measure::{INTERVALS_A_SECOND, Interval, Nanoseconds, Standings};
use super::names::Way;
use super::orders::{Orders, Phase};
use super::port::{Port, Source};

/// SYNs, or FINs, that wait for an answer at once while all flows open or close: what any ring has room for.
const AT_ONCE: usize = 256;

/// More packets a second than any port takes.
const FASTEST: u64 = 1_000_000_000;

/// A load's unchanging part.
#[derive(Clone, Debug)]
pub struct Load {
    pub flows: u32,
    /// Flows that end and open anew in a second.
    pub new_flows: u64,
    /// SYNs in a second that belong to no flow.
    pub syn_flood: u64,
    /// Packets in a second of an attack, when there is one; `None`: no load with attacks. `u64::MAX`: as many as can be.
    pub attack_rate: Option<u64>,
    /// Which ends send data.
    pub ways: Vec<Way>,
    /// The order in which sizes are sent, as numbers of [`Frames`]' sizes.
    pub sizes: Vec<usize>,
}

/// What may be sent by now, of something that has a rate.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// Packets, in units of 10⁻⁹.
    billionths: u64,
}

impl Budget {
    /// What is missed for longer than a millisecond is missed for good: a burst of all that would be a load that
    /// nobody asked for.
    fn grow(&mut self, rate: u64, elapsed_ns: u64) {
        let rate = rate.min(FASTEST);
        let most = (rate / 1000).max(BURST as u64) * 1_000_000_000;
        self.billionths = self.billionths.saturating_add(rate.saturating_mul(elapsed_ns)).min(most);
    }

    fn packets(self, most: usize) -> usize {
        usize::try_from(self.billionths / 1_000_000_000).unwrap_or(usize::MAX).min(most)
    }

    fn spend(&mut self, packets: usize) {
        self.billionths = self.billionths.saturating_sub(packets as u64 * 1_000_000_000);
    }
}

/// The ends of the rings between the generator's thread and the one that shows figures.
pub struct Reports {
    pub full: Producer<Box<Interval>>,
    pub empty: Consumer<Box<Interval>>,
}

/// The ports that this process plays; what is missing somebody else plays.
pub struct Ports<Q: PortQueue> {
    pub clients: Option<Port<Q>>,
    pub servers: Option<Port<Q>>,
    pub targets: Option<Port<Q>>,
}

/// The generator.
pub struct Engine<Q: PortQueue, S: Source<Buf = Q::Buf>> {
    load: Load,
    orders: Arc<Orders>,
    common: Common<S>,
    ports: Ports<Q>,
    clients: Clients,
    servers: Servers,
    appliances: Appliances<Q::Buf>,
    reports: Reports,
    /// What each way may send.
    data: [Budget; 2],
    new_flows: Budget,
    flood: Budget,
    attack: Budget,
    shots: Shots,
    /// Packets of attacks so far.
    attacked: u64,
    /// Rounds with an attack: which comes first, the attack or the data, takes turns.
    turns: u64,
    /// The next of the sizes, each way.
    size: [usize; 2],
    /// The slot that opens next, in the beginning.
    next_to_open: u32,
    started: u64,
    next_report_ns: u64,
}

/// What an engine is made of.
pub struct EngineParts<Q: PortQueue, S> {
    pub load: Load,
    pub orders: Arc<Orders>,
    pub frames: Frames,
    pub source: S,
    pub nanoseconds: Nanoseconds,
    pub ports: Ports<Q>,
    pub appliances: Appliances<Q::Buf>,
    pub reports: Reports,
    pub targets: usize,
    /// What attacks are made by.
    pub shots: Shots,
    /// Now, in cycles.
    pub now: u64,
}

impl<Q: PortQueue, S: Source<Buf = Q::Buf>> Engine<Q, S> {
    pub fn new(parts: EngineParts<Q, S>) -> Engine<Q, S> {
        Engine {
            clients: Clients::new(parts.load.flows),
            servers: Servers::new(parts.load.flows),
            load: parts.load,
            orders: parts.orders,
            common: Common {
                frames: parts.frames,
                source: parts.source,
                interval: Box::new(Interval::new(parts.targets)),
                nanoseconds: parts.nanoseconds,
                now: parts.now,
                now_ns: 0,
            },
            ports: parts.ports,
            appliances: parts.appliances,
            reports: parts.reports,
            data: [Budget::default(); 2],
            new_flows: Budget::default(),
            flood: Budget::default(),
            attack: Budget::default(),
            shots: parts.shots,
            attacked: 0,
            turns: 0,
            size: [0; 2],
            next_to_open: 0,
            started: parts.now,
            next_report_ns: 0,
        }
    }

    /// One round at `now` (cycles); returns how many packets it received and sent.
    pub fn round(&mut self, now: u64) -> usize {
        let before = self.common.now_ns;
        self.common.now = now;
        self.common.now_ns = self.common.nanoseconds.of_cycles(now.wrapping_sub(self.started));
        let elapsed = self.common.now_ns - before;
        let phase = self.orders.phase();
        self.clients.reopens = matches!(phase, Phase::Open | Phase::Run);

        let mut handled = self.take_arrived();
        handled += match phase {
            Phase::Open => self.open(),
            Phase::Run => self.run(elapsed),
            Phase::Close => self.close(),
            Phase::Wait | Phase::Drain | Phase::Stop => 0,
        };
        if let Some(port) = &mut self.ports.clients {
            self.clients.retry(&mut self.common, port);
            port.flush();
        }
        if let Some(port) = &mut self.ports.servers {
            port.flush();
        }
        self.report();
        handled
    }

    /// Takes a burst of each port.
    fn take_arrived(&mut self) -> usize {
        let Ports { clients, servers, targets } = &mut self.ports;
        let mut handled = 0;
        if let Some(port) = targets {
            handled += self.appliances.round(&mut self.common, port, &self.orders);
        }
        let mut burst = Burst::new();
        if let Some(port) = clients {
            port.receive(&mut burst);
            handled += burst.len();
            burst.iter().for_each(|packet| self.clients.take(&mut self.common, port, packet.bytes()));
            port.discard(&mut burst);
            port.flush();
        }
        if let Some(port) = servers {
            port.receive(&mut burst);
            handled += burst.len();
            burst.iter().for_each(|packet| self.servers.take(&mut self.common, port, packet.bytes()));
            port.discard(&mut burst);
            port.flush();
        }
        if let Some(port) = targets {
            handled += self.appliances.round(&mut self.common, port, &self.orders);
        }
        handled
    }

    /// Opens flows that never were, a few at a time.
    fn open(&mut self) -> usize {
        let Some(port) = &mut self.ports.clients else { return 0 };
        let opening = self.clients.flows.count(State::Opening) as usize;
        let most = AT_ONCE.saturating_sub(opening).min(port.room());
        let left = (self.load.flows - self.next_to_open) as usize;
        for _ in 0..most.min(left) {
            self.clients.open(&mut self.common, port, self.next_to_open);
            self.next_to_open += 1;
        }
        most.min(left)
    }

    fn run(&mut self, elapsed_ns: u64) -> usize {
        let attack = self.orders.attack();
        self.turns += u64::from(attack.is_some());
        // A full port has room for whoever comes first.
        let before = attack.filter(|_| self.turns.is_multiple_of(2));
        let after = attack.filter(|_| before.is_none());
        let mut sent = before.map_or(0, |kind| self.attack(kind, elapsed_ns));
        sent += self.load_ends(elapsed_ns);
        sent + after.map_or(0, |kind| self.attack(kind, elapsed_ns))
    }

    /// Sends what is due of an attack. What the port has no room for is lost, as the attacker does not wait.
    fn attack(&mut self, kind: Kind, elapsed_ns: u64) -> usize {
        let port = match kind.side() {
            Side::Clients => &mut self.ports.clients,
            Side::Targets => &mut self.ports.targets,
            Side::Control => return 0,
        };
        let Some(port) = port else { return 0 };
        let rate = self.load.attack_rate.unwrap_or(0);
        self.attack.grow(rate, elapsed_ns);
        let due = if rate == u64::MAX { BURST } else { self.attack.packets(BURST) };
        self.attack.spend(due);
        port.flush();
        let (most, mut sent) = (due.min(port.room()), 0);
        while sent < most {
            let common = &mut self.common;
            let len = if kind.side() == Side::Targets {
                let other = self.shots.of_no_flow(&common.frames);
                let (len, known) =
                    (other.len() as u64, self.appliances.forge(common, port, (kind, self.attacked), &other));
                known.then_some(len)
            } else {
                self.shots.next(kind, &self.clients.flows, &common.frames).and_then(|shot| {
                    let (len, mut said) = (self.shots.len(shot, &common.frames), 0);
                    let Common { frames, source, .. } = common;
                    let write = |out: &mut [u8]| {
                        self.shots.write(shot, frames, out);
                        said = ip_len(&out[HEADER_LEN..]);
                    };
                    port.write(source, len, write).then_some(said)
                })
            };
            let Some(len) = len else { break };
            common.interval.counts.attack_sent += 1;
            common.interval.counts.attack_bytes += len;
            self.attacked += 1;
            sent += 1;
        }
        self.common.interval.counts.attack_refused += (due - sent) as u64;
        port.flush();
        sent
    }

    /// Sends what is due of the ends' data, closes what is due to close, and the flood.
    fn load_ends(&mut self, elapsed_ns: u64) -> usize {
        let mut sent = 0;
        let rate = self.orders.rate() / self.load.ways.len().max(1) as u64;
        for at in 0..self.load.ways.len() {
            let way = self.load.ways[at];
            self.data[way.index()].grow(rate, elapsed_ns);
            sent += self.send_due(way);
        }
        let Some(port) = &mut self.ports.clients else { return sent };
        self.new_flows.grow(self.load.new_flows, elapsed_ns);
        for _ in 0..self.new_flows.packets(port.room()) {
            self.clients.close_one(&mut self.common, port);
            self.new_flows.spend(1);
            sent += 1;
        }
        self.flood.grow(self.load.syn_flood, elapsed_ns);
        for _ in 0..self.flood.packets(port.room()) {
            if !self.clients.flood(&mut self.common, port) {
                break;
            }
            self.flood.spend(1);
            sent += 1;
        }
        sent
    }

    /// Sends the data that is due one way, as far as the port takes it.
    fn send_due(&mut self, way: Way) -> usize {
        let (port, flows) = match way {
            Way::Up => (&mut self.ports.clients, &mut self.clients.flows),
            Way::Down => (&mut self.ports.servers, &mut self.servers.flows),
        };
        let Some(port) = port else { return 0 };
        let budget = &mut self.data[way.index()];
        let due = budget.packets(BURST);
        let most = due.min(port.room());
        let size = &mut self.size[way.index()];
        let mut sent = 0;
        while sent < most && send_data(&mut self.common, port, flows, way, self.load.sizes[*size]) {
            sent += 1;
            *size = if *size + 1 < self.load.sizes.len() { *size + 1 } else { 0 };
        }
        if self.load.attack_rate.is_some() {
            // Nobody waits for an attacker: what a full queue would have dropped is lost.
            budget.spend(due);
            self.common.interval.counts.left_out[way.index()] += (due - sent) as u64;
        } else {
            budget.spend(sent);
        }
        self.common.interval.counts.stalled += u64::from(sent < due);
        port.flush();
        sent
    }

    /// Closes flows, a few at a time.
    fn close(&mut self) -> usize {
        let Some(port) = &mut self.ports.clients else { return 0 };
        let closing = self.clients.flows.count(State::Closing) as usize;
        let most = AT_ONCE.saturating_sub(closing).min(port.room());
        let mut closed = 0;
        while closed < most && self.clients.close_one(&mut self.common, port) {
            closed += 1;
        }
        closed
    }

    /// Hands over what was measured, once it is time and there is an empty interval to go on with.
    fn report(&mut self) {
        if self.common.now_ns < self.next_report_ns {
            return;
        }
        let Ok(mut empty) = self.reports.empty.pop() else { return };
        self.next_report_ns = self.common.now_ns + 1_000_000_000 / u64::from(INTERVALS_A_SECOND);
        empty.clear();
        let mut full = std::mem::replace(&mut self.common.interval, empty);
        full.ends = match &self.ports {
            Ports { clients: Some(_), .. } => standings(&self.clients.flows),
            Ports { servers: Some(_), .. } => standings(&self.servers.flows),
            Ports { .. } => Standings::default(),
        };
        // There are no more intervals than the ring has room for.
        if let Err(rtrb::PushError::Full(lost)) = self.reports.full.push(full) {
            self.common.interval.add(&lost);
        }
    }
}

fn standings(flows: &Flows) -> Standings {
    Standings { established: flows.count(State::Established), closed: flows.count(State::Closed) }
}

#[cfg(test)]
mod tests;
