//! Following the kernel: one socket that is subscribed first and then asks for everything there is, so
//! that the last word on anything is the newest. When the socket overflows, or a link is made anew under
//! another number, everything is asked for again.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage};
use netlink_sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket, protocols::NETLINK_ROUTE};
use tokio::sync::mpsc::{Receiver, UnboundedSender};

use super::{Message, family, link_name, messages, neighbour_address, own_address, reachability, request};
use crate::control::neighbours::{Heard, Hop};
use crate::id::InterfaceId;
use crate::wire::ethernet::MacAddr;

/// rtnetlink(7): links, neighbours, IPv4 addresses, IPv6 addresses.
const GROUPS: [u32; 4] = [1, 3, 5, 9];

/// Room for what the kernel tells while we are busy: some ten thousand changes.
const RECEIVE_BUFFER: libc::c_int = 4 << 20;

/// After the socket failed, until it is opened again.
const BEFORE_ANOTHER: Duration = Duration::from_secs(1);

/// The sequence numbers of the three accounts; questions have those above.
const LINKS: u32 = 1;
const ADDRESSES: u32 = 2;
const NEIGHBOURS: u32 = 3;
const FIRST_QUESTION: u32 = 16;

/// Questions whose answer is remembered to be awaited. The kernel answers each before it takes the next.
const QUESTIONS: usize = 4096;

/// A host interface to be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The kernel's name for it.
    pub link: String,
    /// What it is to us.
    pub interface: InterfaceId,
}

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Of a neighbour, or of all.
    Neighbour(Heard),
    /// The kernel's addresses on an interface are these.
    Addresses(InterfaceId, Vec<IpAddr>),
    /// The host interface is there and up, or not.
    Link(InterfaceId, bool),
}

/// Follows these links, and puts `questions` to the kernel, until nobody hears the news any more.
pub async fn watch(links: Vec<Watched>, mut questions: Receiver<Hop>, news: UnboundedSender<News>) {
    while !news.is_closed() {
        let mut session = Session {
            watched: &links,
            news: &news,
            links: HashMap::new(),
            addresses: HashMap::new(),
            asked: HashMap::new(),
            sequence: FIRST_QUESTION,
            again: false,
            complete: false,
        };
        if let Err(error) = session.run(&mut questions).await {
            tracing::warn!(name: "neighbours_not_followed", %error, "the kernel's neighbours are not followed for a moment");
        }
        tokio::time::sleep(BEFORE_ANOTHER).await;
    }
}

struct Session<'a> {
    watched: &'a [Watched],
    news: &'a UnboundedSender<News>,
    /// Our links by the kernel's number.
    links: HashMap<u32, InterfaceId>,
    /// Their addresses.
    addresses: HashMap<u32, BTreeSet<IpAddr>>,
    /// Questions under way, by sequence number.
    asked: HashMap<u32, Hop>,
    sequence: u32,
    /// The first account was given whole. Until then no question is put: the link that it is about may not
    /// be known yet, and it would be refused.
    complete: bool,
    /// Something changed under the account that is being given: it must be given again.
    again: bool,
}

impl Session<'_> {
    async fn run(&mut self, questions: &mut Receiver<Hop>) -> io::Result<()> {
        let socket = open()?;
        self.begin(&socket).await?;
        loop {
            tokio::select! {
                received = socket.recv_from_full() => {
                    let (datagram, sender) = received?;
                    // Only the kernel has number 0; others may write to our socket.
                    if sender.port_number() == 0 {
                        for message in messages(&datagram) {
                            self.take(&socket, message).await?;
                        }
                    }
                }
                question = questions.recv(), if self.complete => match question {
                    Some(hop) => self.ask(&socket, hop).await?,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Asks for everything: links first, as the rest is by their numbers.
    async fn begin(&mut self, socket: &TokioSocket) -> io::Result<()> {
        self.again = false;
        self.tell(News::Neighbour(Heard::Anew));
        let ask = RouteNetlinkMessage::GetLink(LinkMessage::default());
        send(socket, ask, NLM_F_REQUEST | NLM_F_DUMP, LINKS).await
    }

    async fn take(&mut self, socket: &TokioSocket, message: Message) -> io::Result<()> {
        let (header, payload) = message.into_parts();
        self.again |= header.flags & NLM_F_DUMP_INTR != 0;
        match payload {
            NetlinkPayload::InnerMessage(inner) => {
                if self.hear(&inner) && header.sequence_number == 0 {
                    // A link of ours came under a new number: what is on it was told before we knew.
                    self.begin(socket).await?;
                }
                Ok(())
            }
            NetlinkPayload::Done(_) => self.done(socket, header.sequence_number).await,
            NetlinkPayload::Error(answer) => {
                let hop = self.asked.remove(&header.sequence_number);
                match (answer.code, hop) {
                    (None, _) => Ok(()),
                    (Some(_), Some(hop)) => {
                        tracing::debug!(
                            name: "neighbour_not_asked", interface = hop.interface.0, address = %hop.address,
                            error = %answer.to_io(), "the kernel refused to look for a neighbour"
                        );
                        self.tell(News::Neighbour(Heard::Refused(hop)));
                        Ok(())
                    }
                    // An account was refused: without it nothing is known.
                    (Some(_), None) if header.sequence_number < FIRST_QUESTION => Err(answer.to_io()),
                    (Some(_), None) => Ok(()),
                }
            }
            NetlinkPayload::Overrun(_) => Err(io::Error::from_raw_os_error(libc::ENOBUFS)),
            _ => Ok(()),
        }
    }

    /// An account is complete; on to the next.
    async fn done(&mut self, socket: &TokioSocket, sequence: u32) -> io::Result<()> {
        match sequence {
            LINKS => {
                for Watched { interface, .. } in self.watched {
                    if !self.links.values().any(|known| known == interface) {
                        self.tell(News::Link(*interface, false));
                    }
                }
                self.addresses.clear();
                let ask = RouteNetlinkMessage::GetAddress(AddressMessage::default());
                send(socket, ask, NLM_F_REQUEST | NLM_F_DUMP, ADDRESSES).await
            }
            ADDRESSES => {
                for (link, interface) in self.links.clone() {
                    self.tell_addresses(link, interface);
                }
                let ask = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
                send(socket, ask, NLM_F_REQUEST | NLM_F_DUMP, NEIGHBOURS).await
            }
            NEIGHBOURS if self.again => self.begin(socket).await,
            NEIGHBOURS => {
                self.complete = true;
                self.tell(News::Neighbour(Heard::Complete));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes in what the kernel says; true if a link of ours is new.
    fn hear(&mut self, message: &RouteNetlinkMessage) -> bool {
        match message {
            RouteNetlinkMessage::NewLink(link) => return self.link(link),
            RouteNetlinkMessage::DelLink(link) => {
                if let Some(interface) = self.links.remove(&link.header.index) {
                    self.tell(News::Link(interface, false));
                }
            }
            RouteNetlinkMessage::NewAddress(address) => self.address(address, true),
            RouteNetlinkMessage::DelAddress(address) => self.address(address, false),
            RouteNetlinkMessage::NewNeighbour(neighbour) => self.neighbour(neighbour, true),
            RouteNetlinkMessage::DelNeighbour(neighbour) => self.neighbour(neighbour, false),
            _ => {}
        }
        false
    }

    fn link(&mut self, link: &LinkMessage) -> bool {
        let index = link.header.index;
        let wanted = link_name(link).and_then(|name| self.watched.iter().find(|known| known.link == name));
        let Some(Watched { interface, .. }) = wanted else {
            // It may have been ours under another name.
            if link_name(link).is_some()
                && let Some(interface) = self.links.remove(&index)
            {
                self.tell(News::Link(interface, false));
            }
            return false;
        };
        let up = link.header.flags.contains(LinkFlags::Up | LinkFlags::Running);
        self.tell(News::Link(*interface, up));
        self.links.insert(index, *interface).is_none()
    }

    fn address(&mut self, message: &AddressMessage, is_there: bool) {
        let (index, Some(address)) = (message.header.index, own_address(message)) else { return };
        let Some(&interface) = self.links.get(&index) else { return };
        let known = self.addresses.entry(index).or_default();
        let changed = if is_there { known.insert(address) } else { known.remove(&address) };
        if changed {
            self.tell_addresses(index, interface);
        }
    }

    fn tell_addresses(&self, link: u32, interface: InterfaceId) {
        let addresses = self.addresses.get(&link).into_iter().flatten().copied().collect();
        self.tell(News::Addresses(interface, addresses));
    }

    fn neighbour(&self, message: &NeighbourMessage, is_there: bool) {
        let Some(&interface) = self.links.get(&message.header.ifindex) else { return };
        let Some(address) = neighbour_address(message) else { return };
        let hop = Hop { interface, address };
        let mac = message.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => station(bytes),
            _ => None,
        });
        let Some(state) = reachability(message.header.state) else { return };
        let heard = if is_there { Heard::Is(hop, state, mac) } else { Heard::Gone(hop) };
        self.tell(News::Neighbour(heard));
    }

    /// Has the kernel use the neighbour: it resolves one that it does not know, and probes one that is stale.
    async fn ask(&mut self, socket: &TokioSocket, hop: Hop) -> io::Result<()> {
        let link = self.links.iter().find(|(_, interface)| **interface == hop.interface);
        let Some((index, _)) = link.filter(|_| self.asked.len() < QUESTIONS) else {
            self.tell(News::Neighbour(Heard::Refused(hop)));
            return Ok(());
        };
        let mut message = NeighbourMessage::default();
        message.header.family = family(hop.address);
        message.header.ifindex = *index;
        message.header.flags = NeighbourFlags::Use;
        message.attributes.push(NeighbourAttribute::Destination(hop.address.into()));
        self.sequence = self.sequence.checked_add(1).unwrap_or(FIRST_QUESTION);
        self.asked.insert(self.sequence, hop);
        let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
        send(socket, RouteNetlinkMessage::NewNeighbour(message), flags, self.sequence).await
    }

    fn tell(&self, news: News) {
        // Nobody hears it any more when the daemon ends.
        self.news.send(news).ok();
    }
}

/// A link-layer address of one station; an interface without such addresses has others.
fn station(bytes: &[u8]) -> Option<MacAddr> {
    let mac: [u8; 6] = bytes.try_into().ok()?;
    (mac[0] & 1 == 0 && mac != [0; 6]).then_some(MacAddr(mac))
}

fn open() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind_auto()?;
    let inner = socket.socket_ref();
    inner.set_rx_buf_sz(RECEIVE_BUFFER)?;
    for group in GROUPS {
        inner.add_membership(group)?;
    }
    Ok(socket)
}

async fn send(
    socket: &TokioSocket,
    message: RouteNetlinkMessage,
    flags: u16,
    sequence: u32,
) -> io::Result<()> {
    let bytes = request(message, flags, sequence);
    socket.send_to(&bytes, &SocketAddr::new(0, 0)).await.map(drop)
}
