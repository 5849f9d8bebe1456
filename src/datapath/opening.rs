//! Making some flows at once: what is alike of them is counted once for all.

use super::counters::WorkerCounters;
use super::flow_log::Why;
use super::flows::{Flows, count_new, note_evicted, settle};
use crate::flow::{
    Cookie, Direction, Entry, EntryId, FlowKey, FlowState, LinkId, NewEntry, NotInserted, Seat,
};
use crate::id::{EndpointId, Millis, PortId, WorkerId};
use crate::wire::ethernet::HEADER_LEN;
use crate::wire::packet::protocol;

/// A worker's flows while first packets from one endpoint make some of them, most by one station. Until the last was
/// made, endpoint and header are counted for more flows than they have, never for fewer.
pub struct Opening<'a> {
    flows: &'a mut Flows,
    counters: &'a WorkerCounters,
    endpoint: EndpointId,
    /// How many are not made yet, of those that are counted.
    left: u32,
    /// How many of the endpoint's flows have made room.
    gone: u32,
    /// The header of the next one, held for all that are left.
    link: LinkId,
    /// How many flows that made room held it.
    released: u32,
}

impl<'a> Opening<'a> {
    /// For at most so many flows of this endpoint.
    #[inline(always)]
    pub fn new(
        flows: &'a mut Flows,
        counters: &'a WorkerCounters,
        endpoint: EndpointId,
        most: u32,
    ) -> Opening<'a> {
        counters.endpoint_flows(endpoint).add(most.into());
        Opening { flows, counters, endpoint, left: most, gone: 0, link: LinkId::NONE, released: 0 }
    }

    /// The link-layer header, without tags, of the next one. `None`: there is no room for it.
    #[inline(always)]
    pub fn link(&mut self, port: PortId, header: &[u8; HEADER_LEN]) -> Option<LinkId> {
        if self.flows.links.is_plain(self.link, port, header) {
            Some(self.link)
        } else {
            self.other_link(port, header)
        }
    }

    #[cold]
    #[inline(never)]
    fn other_link(&mut self, port: PortId, header: &[u8; HEADER_LEN]) -> Option<LinkId> {
        self.let_go();
        let link = self.flows.links.intern_plain(port, header)?;
        self.flows.links.hold_for(link, self.left);
        self.link = link;
        Some(link)
    }

    /// The header is held for no more flows than have it.
    fn let_go(&mut self) {
        let link = std::mem::replace(&mut self.link, LinkId::NONE);
        self.flows.links.release_for(link, self.left + std::mem::take(&mut self.released));
    }

    /// See [`Table::seat`](crate::flow::Table::seat).
    #[inline(always)]
    pub fn seat(&mut self, hash: u64, key: &FlowKey, now: Millis) -> Result<Seat, NotInserted> {
        self.flows.seat(hash, key, now, self.counters)
    }

    /// Makes a flow, whose header is the last one that was asked for. Whoever had to make room for it is ended first.
    #[inline(always)]
    pub fn take(&mut self, seat: Seat, key: &FlowKey, new: NewEntry) -> (EntryId, &Entry) {
        let Opening { flows, counters, endpoint, left, gone, link, released } = self;
        let Flows { table, links, log, last_eviction, .. } = &mut **flows;
        let now = new.now;
        *left -= 1;
        count_new(new.target, key.protocol() == protocol::TCP, counters);
        table.take(seat, key, new, |id, entry| {
            note_evicted(last_eviction, entry, now, counters);
            let [low, high] = entry.link;
            let alike = low == *link && high == LinkId::NONE || low == LinkId::NONE && high == *link;
            if !entry.is_in(FlowState::HalfOpen) || entry.key().endpoint() != *endpoint || !alike {
                return settle((links, log), (id, entry), (None, Why::Evicted), counters);
            }
            // As `settle` does.
            if let Some(log) = log {
                log.end(id, entry, (None, Why::Evicted), counters);
            }
            (*gone, *released) = (*gone + 1, *released + 1);
            let target = counters.target(entry.target);
            target.active_flows.sub(1);
            target.active_tcp_flows.sub(1);
        })
    }

    /// Counts the packet that has made a flow, where flow logs are on.
    #[inline(always)]
    pub fn count_first(&mut self, id: EntryId, direction: Direction, bytes: u32) {
        if let Some(log) = &mut self.flows.log {
            log.open(id);
            log.count_out(id, direction, bytes);
        }
    }

    /// See [`Flows::stateless_cookie`].
    #[inline(always)]
    pub fn stateless_cookie(
        &mut self,
        worker: WorkerId,
        hash: u64,
        direction: Direction,
        now: Millis,
    ) -> Cookie {
        self.flows.stateless_cookie(worker, hash, (direction, self.link), now)
    }
}

impl Drop for Opening<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.let_go();
        self.counters.endpoint_flows(self.endpoint).sub((self.left + self.gone).into());
        self.counters.flow_entries.set(u64::from(self.flows.table.len()));
    }
}
