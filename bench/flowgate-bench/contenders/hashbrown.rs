//! `hashbrown`, the hash map of Rust's own library, with its own default hash (foldhash, seeded).

use flowgate::flow::FlowKey;

/// Flows by whole key.
pub type Map = hashbrown::HashMap<FlowKey, u32>;

/// A map with room for so many flows, so that none of it is grown while it is measured.
pub fn with_room_for(flows: u32) -> Map {
    Map::with_capacity(flows as usize)
}
