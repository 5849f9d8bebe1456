//! Has the workers say what would become of packets, and puts that into words.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::sync::oneshot;

use super::service::STUCK;
use super::{Core, Inner};
use crate::control::explain::frame::{self, LinkTo};
use crate::control::explain::story::{Given, Names, tell};
use crate::control::explain::words::Subject;
use crate::control::explain::{Asked, NotExplained, Packets, Tuple};
use crate::control::health::HealthState;
use crate::control::socket::views::{Explanation, FlowRecord};
use crate::datapath::enquiry::{Answered, By, Ending, Enquiry, Judgement, Question};
use crate::datapath::forwarding::PortRole;
use crate::datapath::fragments::{Datagram, First};
use crate::datapath::interfaces::VlanTags;
use crate::datapath::messages;
use crate::flow::Cookie;
use crate::id::{EndpointId, InterfaceId, PortId, TargetId};
use crate::io::PacketBuf;
use crate::io::memory::MemoryBuf;
use crate::wire::ethernet::Link;
use crate::wire::geneve::outer;
use crate::wire::packet::Fragment;

/// How long the workers may take over one question.
const PATIENCE: Duration = Duration::from_secs(2);

/// Questions that are under way at once, of all who ask.
const UNDER_WAY: usize = 256;

/// What the workers were asked and have not all answered.
#[derive(Default)]
pub(super) struct Enquiries {
    last: u64,
    under_way: HashMap<u64, Pending>,
}

struct Pending {
    forms: Vec<Enquiry>,
    left: usize,
    done: oneshot::Sender<Vec<Enquiry>>,
}

impl Enquiries {
    /// Those of a control core after so many others: what comes back of theirs is none of these.
    pub(super) fn of_life(number: u32) -> Enquiries {
        Enquiries { last: u64::from(number) << 32, under_way: HashMap::new() }
    }

    /// A question to so many workers: its number, and where their forms come out.
    fn begin(&mut self, workers: usize) -> Option<(u64, oneshot::Receiver<Vec<Enquiry>>)> {
        if self.under_way.len() >= UNDER_WAY {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        let (done, receiver) = oneshot::channel();
        self.under_way.insert(self.last, Pending { forms: Vec::new(), left: workers, done });
        Some((self.last, receiver))
    }

    /// A worker has sent a form back.
    pub(super) fn came_back(&mut self, form: Enquiry) {
        let number = form.number;
        let Some(pending) = self.under_way.get_mut(&number) else { return };
        pending.forms.push(form);
        pending.left = pending.left.saturating_sub(1);
        if pending.left == 0
            && let Some(pending) = self.under_way.remove(&number)
        {
            // Whoever asked may have gone.
            pending.done.send(pending.forms).ok();
        }
    }
}

/// The first fragments among the frames that are explained together.
type Firsts = Vec<(Datagram, First)>;

impl Core {
    /// What would become of these packets.
    pub(super) async fn explain_packets(&self, asked: Asked) -> Result<Vec<Explanation>, NotExplained> {
        let mut firsts = Firsts::new();
        match &asked.packets {
            Packets::Tuple(tuple) => {
                let (port, link) = self.entrance(&asked, None)?;
                Ok(vec![self.explain_tuple(port, &link, tuple, &mut firsts).await?])
            }
            Packets::OfCookie { cookie, flags, from_responder } => {
                let record = self.flow_of(*cookie).await?;
                let (from, to) = match from_responder {
                    false => (record.initiator, record.responder),
                    true => (record.responder, record.initiator),
                };
                let tuple = Tuple {
                    protocol: record.protocol,
                    source: from,
                    destination: to,
                    flags: *flags,
                    payload: 0,
                };
                let (port, link) = self.entrance(&asked, Some(record.endpoint))?;
                Ok(vec![self.explain_tuple(port, &link, &tuple, &mut firsts).await?])
            }
            Packets::Frames { frames, ip_only } => {
                let mut explained = Vec::with_capacity(frames.len());
                for frame in frames {
                    let on_target_side = if asked.port.is_none() { self.on_target_side(frame) } else { None };
                    let told = match on_target_side {
                        Some(port) => self.explain_frame(port, frame, &mut firsts).await?,
                        None => {
                            let (port, link) = self.entrance(&asked, None)?;
                            if *ip_only {
                                self.explain_frame(port, &frame::framed(&link, frame), &mut firsts).await?
                            } else {
                                self.explain_frame(port, frame, &mut firsts).await?
                            }
                        }
                    };
                    explained.push(told);
                }
                Ok(explained)
            }
        }
    }

    async fn explain_tuple(
        &self,
        port: PortId,
        link: &LinkTo,
        tuple: &Tuple,
        firsts: &mut Firsts,
    ) -> Result<Explanation, NotExplained> {
        // The method has seen to it that both addresses are of one version.
        let packet = frame::packet(tuple).unwrap_or_default();
        self.explain_frame(port, &frame::framed(link, &packet), firsts).await
    }

    async fn explain_frame(
        &self,
        port: PortId,
        frame: &[u8],
        firsts: &mut Firsts,
    ) -> Result<Explanation, NotExplained> {
        let (mut judgement, mut answer) = self.judged(port, frame, None).await?;
        if let Some(datagram) = judgement.datagram {
            let known = firsts.iter().rev().find(|(of, _)| *of == datagram).map(|(_, first)| *first);
            if judgement.ending == Ending::WaitsForFirst && known.is_some() {
                (judgement, answer) = self.judged(port, frame, known).await?;
            }
            if let Some(arrival) = judgement.arrival.filter(|it| it.packet.fragment == Fragment::First) {
                firsts.push((datagram, First::of(&arrival.packet)));
            }
        }
        let names = Known { ports: self.port_names(), inner: &self.inner.borrow() };
        Ok(tell(&judgement, &Given { port, frame, answer: &answer }, &names))
    }

    /// What the workers make of a frame, and what answers it.
    async fn judged(
        &self,
        port: PortId,
        frame: &[u8],
        mut first: Option<First>,
    ) -> Result<(Judgement, Vec<u8>), NotExplained> {
        // Asked once more where a worker knows the first fragment of a later one.
        for _ in 0..2 {
            let question = Question::Frame { port, frame: MemoryBuf::new(frame), first };
            let mut best = None;
            for Enquiry { question, answer, .. } in self.ask(&question).await? {
                let Question::Frame { frame, .. } = question else { continue };
                match answer {
                    // What an ICMP error quotes goes before what it is by itself.
                    Some(Answered::Judged(judgement)) if best.is_none() || judgement.by == By::Quoted => {
                        best = Some((judgement, frame.bytes().to_vec()));
                    }
                    Some(Answered::Follows(seen)) => first = Some(seen),
                    _ => {}
                }
            }
            if let Some(best) = best {
                return Ok(best);
            }
        }
        Err(NotExplained::Unavailable("no worker says what becomes of the packet".to_owned()))
    }

    async fn flow_of(&self, cookie: u32) -> Result<messages::FlowRecord, NotExplained> {
        let forms = self.ask(&Question::Cookie(Cookie(cookie))).await?;
        let found = forms.into_iter().find_map(|form| match form.answer {
            Some(Answered::Flow(record)) => Some(record),
            _ => None,
        });
        found.ok_or(if Cookie(cookie).is_stateless() {
            NotExplained::Stateless(cookie)
        } else {
            NotExplained::NoFlow(cookie)
        })
    }

    /// Puts a question to every worker; their forms, filled in.
    async fn ask(&self, question: &Question) -> Result<Vec<Enquiry>, NotExplained> {
        let receiver = {
            let mut inner = self.inner.borrow_mut();
            let Inner { enquiries, workers, .. } = &mut *inner;
            if !workers.have_room() {
                return Err(NotExplained::Unavailable(STUCK.to_owned()));
            }
            let begun = enquiries.begin(workers.links().len());
            let Some((number, receiver)) = begun else {
                return Err(NotExplained::Unavailable(
                    "too many questions are under way: ask again".to_owned(),
                ));
            };
            workers.enquire(|| Enquiry { number, question: question.clone(), answer: None });
            receiver
        };
        match tokio::time::timeout(PATIENCE, receiver).await {
            Ok(Ok(forms)) => Ok(forms),
            _ => Err(NotExplained::Unavailable(format!(
                "the workers did not answer within {} s",
                PATIENCE.as_secs()
            ))),
        }
    }

    fn port_names(&self) -> Vec<String> {
        (self.ports)().into_iter().map(|port| port.port_name).collect()
    }

    /// The target side's port, if a frame is GENEVE to this gateway.
    fn on_target_side(&self, frame: &[u8]) -> Option<PortId> {
        let inner = self.inner.borrow();
        let underlay = &inner.compiler.node().underlay;
        let link = Link::parse(frame).ok()?;
        let outer = outer::parse(frame.get(usize::from(link.header_len)..)?).ok()?;
        (outer.dst_ip == underlay.address).then_some(underlay.port)
    }

    /// Where a packet comes in, and what its frame needs there.
    fn entrance(&self, asked: &Asked, known: Option<EndpointId>) -> Result<(PortId, LinkTo), NotExplained> {
        let names = self.port_names();
        let inner = self.inner.borrow();
        let node = inner.compiler.node();
        let place = |name: &str| {
            let place = names.iter().position(|port| port == name);
            place.and_then(|place| u16::try_from(place).ok()).map(PortId)
        };
        let port = match &asked.port {
            Some(name) => Some(place(name).ok_or_else(|| NotExplained::NoPort(name.clone()))?),
            None => None,
        };
        let endpoint = match (&asked.endpoint, known, port) {
            (Some(name), ..) => {
                let place = node.endpoints.iter().position(|endpoint| endpoint.name.as_str() == name);
                Some(place.ok_or_else(|| NotExplained::NoEndpoint(name.clone()))?)
            }
            (None, Some(id), _) => Some(id.index()),
            (None, None, Some(_)) => None,
            (None, None, None) if node.endpoints.len() == 1 => Some(0),
            (None, None, None) => {
                let names: Vec<&str> = node.endpoints.iter().map(|one| one.name.as_str()).collect();
                return Err(NotExplained::WhichEndpoint(names.join(", ")));
            }
        };
        let of_endpoint =
            |of: Option<EndpointId>| endpoint.is_none_or(|wanted| of.is_some_and(|of| of.index() == wanted));
        let interface = node.interfaces.iter().map(|facts| &facts.forwarding).find(|interface| {
            interface.endpoint.is_some()
                && of_endpoint(interface.endpoint)
                && port.is_none_or(|port| interface.port == port)
        });
        if let Some(interface) = interface {
            return Ok((interface.port, LinkTo { mac: Some(interface.mac), tags: interface.tags }));
        }
        let of_wire = || {
            let first = endpoint.and_then(|place| node.endpoints.get(place)?.port_names.first());
            first.and_then(|name| place(name.as_str()))
        };
        let port = port.or_else(of_wire);
        let port = port.ok_or_else(|| NotExplained::NoPort(asked.port.clone().unwrap_or_default()))?;
        Ok((port, LinkTo { mac: None, tags: VlanTags::UNTAGGED }))
    }
}

/// The names as they are now.
struct Known<'a> {
    ports: Vec<String>,
    inner: &'a Inner,
}

impl Names for Known<'_> {
    fn target(&self, id: TargetId) -> Option<(Ipv4Addr, Option<HealthState>)> {
        let key = self.inner.slots.holder(id)?;
        Some((key.address, self.inner.health.view(key).map(|view| view.state)))
    }

    fn port(&self, id: PortId) -> String {
        self.ports.get(id.index()).cloned().unwrap_or_else(|| id.0.to_string())
    }

    fn interface(&self, id: InterfaceId) -> String {
        let facts = self.inner.compiler.node().interfaces.get(id.index());
        facts.map_or_else(|| id.0.to_string(), |facts| facts.name.clone())
    }

    fn flow(&self, record: &messages::FlowRecord) -> FlowRecord {
        self.inner.flow_view(record)
    }

    fn endpoint(&self, judgement: &Judgement, port: PortId) -> Option<String> {
        let node = self.inner.compiler.node();
        let named = |id: EndpointId| node.endpoints.get(id.index()).map(|endpoint| endpoint.name.to_string());
        if let Some(arrival) = &judgement.arrival {
            return named(arrival.endpoint);
        }
        match node.ports.get(port.index())? {
            PortRole::Wire { endpoint, .. } => named(*endpoint),
            // Which one is not said by a frame that is none's: the port's first.
            PortRole::Routed(_) => {
                let name = self.port(port);
                let of_port = |one: &&crate::control::compile::EndpointFacts| {
                    one.port_names.iter().any(|own| own.as_str() == name)
                };
                node.endpoints.iter().find(of_port).map(|endpoint| endpoint.name.to_string())
            }
            PortRole::Underlay | PortRole::Unused => None,
        }
    }

    fn subject(&self, judgement: &Judgement) -> Option<Subject> {
        let node = self.inner.compiler.node();
        let of_arrival = judgement.arrival.map(|arrival| arrival.endpoint);
        let endpoint = of_arrival.or(judgement.flow.map(|flow| flow.record.endpoint))?;
        let name = &node.endpoints.get(endpoint.index())?.load_balancer;
        let balancer = self.inner.state.load_balancer(name.as_str()).ok()?;
        let group = self.inner.state.target_group_of(balancer)?;
        let facts = judgement.flow.map(|flow| flow.facts);
        let flow = judgement.flow.map(|flow| flow.record);
        Some(Subject {
            balancer: name.to_string(),
            group: group.name.to_string(),
            target: flow.and_then(|flow| self.target(flow.target)).map(|(target, _)| target),
            unhealthy_for_ms: facts.map_or(0, |facts| facts.unhealthy_for),
            healthy_percent: judgement.around.map_or(0, |around| around.healthy_percent),
            settings: group.settings(),
            listener: self.inner.state.listener_settings(balancer)?,
        })
    }
}
