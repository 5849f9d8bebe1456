//! Flows of a table that another process has left: what stands beside the table is made of it.

use super::{Flows, is_live};
use crate::datapath::counters::WorkerCounters;
use crate::datapath::links::LinkTable;
use crate::flow::{EntryId, LinkId};
use crate::id::Millis;
use crate::wire::packet::protocol;

impl Flows {
    /// Goes on with a table that was taken over and the headers that were kept with it: counts its flows by target and
    /// endpoint, has them hold their headers, and forgets numbers of headers that there are no more (the next packet of
    /// that side tells it anew).
    pub fn resume(
        &mut self,
        links: Option<LinkTable>,
        adopt_until: Option<Millis>,
        counters: &WorkerCounters,
    ) {
        if let Some(links) = links {
            self.links = links;
        }
        self.adopt_until = adopt_until;
        self.last_overflow = self.table.overflow();
        // What was sent without state just before is answered just after.
        self.last_stateless = self.last_overflow;
        let mut lost: Vec<EntryId> = Vec::new();
        let Flows { table, links, .. } = self;
        table.each(|id, entry| {
            if entry.is_in(crate::flow::FlowState::Owing) {
                counters.target(entry.target).owing_flows.add(1);
            }
            let live = is_live(entry);
            for link in entry.link.into_iter().filter(|link| *link != LinkId::NONE) {
                match links.has(link) {
                    true if live => links.hold(link),
                    true => {}
                    false => lost.push(id),
                }
            }
            if live {
                counters.endpoint_flows(entry.key().endpoint()).add(1);
                let target = counters.target(entry.target);
                target.active_flows.add(1);
                if entry.key().protocol() == protocol::TCP {
                    target.active_tcp_flows.add(1);
                }
            }
        });
        for id in lost {
            let entry = self.table.entry_mut(id);
            for link in &mut entry.link {
                if !self.links.has(*link) {
                    *link = LinkId::NONE;
                }
            }
        }
        counters.flow_entries.set(u64::from(self.table.len()));
    }
}
