//! A worker that goes on with the flows of one whose process is gone.

use super::{LINKS, Worker};
use crate::datapath::links::LinkTable;
use crate::flow::{HashSeed, KeptLinks};
use crate::id::{Millis, PortId, TargetId};
use crate::io::PortQueue;

/// What it goes on with besides its table.
pub struct Resumed<'a> {
    /// The link-layer headers that the table's flows refer to.
    pub links: KeptLinks,
    /// Whether a port is the one that had its number before.
    pub is_same_port: &'a dyn Fn(PortId) -> bool,
    /// Keys the table of link-layer headers.
    pub link_seed: HashSeed,
    /// Targets that are unhealthy, and since when.
    pub unhealthy: &'a [(TargetId, Millis)],
    /// Until when TCP packets of no flow begin one, as flows were lost by the restart (F-8).
    pub adopt_until: Option<Millis>,
}

impl<Q: PortQueue> Worker<Q> {
    /// To be called before the first round.
    pub fn resume(&mut self, resumed: Resumed<'_>) {
        let Resumed { links, is_same_port, link_seed, unhealthy, adopt_until } = resumed;
        let links = LinkTable::resumed(LINKS, link_seed, links, is_same_port);
        let pipeline = &mut self.pipeline;
        pipeline.flows.resume(links, adopt_until, &pipeline.counters);
        pipeline.conditions.resume(unhealthy);
        // The hand goes on from where it was, and makes up for the time in which nobody moved it.
        self.aged_at = pipeline.flows.table.beat().round;
    }
}
