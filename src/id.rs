//! The small numbers that everything is named by, each a type of its own so that they cannot be
//! mixed up, and the data path's clock unit.

#![forbid(unsafe_code)]

macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The id as an index into the array it names.
            #[inline]
            pub fn index(self) -> usize {
                usize::from(self.0)
            }
        }
    };
}

index_type! {
    /// A port of this node, in the order of the configuration (not DPDK's own number).
    PortId(u16)
}
index_type! {
    /// A receive or transmit queue of a port. Worker `n` owns queue `n` of every port.
    QueueId(u16)
}
index_type! {
    /// A worker core, from 0.
    WorkerId(u8)
}
index_type! {
    /// A target's slot on this node. A slot is given to another target only after the last flow of
    /// the one before has ended.
    TargetId(u16)
}
index_type! {
    /// A load balancer (gateway) of this node.
    GatewayId(u16)
}
index_type! {
    /// An endpoint of this node, in the order of the configuration. Not the 64-bit id that GENEVE
    /// carries.
    EndpointId(u16)
}
index_type! {
    /// An interface of this node: one port and VLAN of a routed endpoint, or the target side. Given at
    /// start and the same for as long as the daemon runs.
    InterfaceId(u16)
}

/// A point in the data path's time: milliseconds since the process started, wrapping after 49.7
/// days. Two points are compared only when they are less than half of that apart; the ageing hand
/// of the flow table sees to it that no older one is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Millis(pub u32);

impl Millis {
    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is in fact later.
    #[inline]
    pub fn since(self, earlier: Millis) -> u32 {
        let distance = self.0.wrapping_sub(earlier.0);
        if distance > u32::MAX / 2 { 0 } else { distance }
    }

    /// The point `ms` later.
    #[inline]
    #[must_use]
    pub fn plus(self, ms: u32) -> Millis {
        Millis(self.0.wrapping_add(ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // F-9
    #[test]
    fn time_passes_across_the_wrap() {
        let before = Millis(u32::MAX - 10);
        assert_eq!(before.plus(30).since(before), 30);
        assert_eq!(before.since(before.plus(30)), 0);
    }
}
