//! Reading the blocks of a pcapng file that the daemon wrote: little-endian, whole.

#![forbid(unsafe_code)]

const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const OPT_COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const EPB_FLAGS: u16 = 2;
const LINKTYPE_ETHERNET: u32 = 1;

/// A block that says something to who prints packets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block<'a> {
    /// An interface, the next in number.
    Interface { name: &'a str, is_ethernet: bool },
    /// A packet.
    Packet(Packet<'a>),
    /// Any other.
    Other,
}

/// A packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    pub(super) interface: usize,
    pub(super) unix_ns: u64,
    pub(super) is_inbound: bool,
    pub(super) length: u32,
    pub(super) bytes: &'a [u8],
    pub(super) comment: &'a str,
}

/// The whole blocks at the beginning of some bytes.
pub(super) struct Whole {
    pub(super) packets: u64,
    pub(super) len: usize,
}

/// How many whole blocks there are, and how many of them are packets.
pub(super) fn whole(bytes: &[u8]) -> Whole {
    let (mut packets, mut len) = (0, 0);
    while let Some((kind, block)) = bytes.get(len..).and_then(first) {
        packets += u64::from(kind == PACKET);
        len += block.len() + AROUND;
    }
    Whole { packets, len }
}

/// Kind and length before a block's body, and the length behind it.
const AROUND: usize = 12;

/// The kind and the body of the first block.
fn first(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let length = number(bytes, 4)? as usize;
    Some((number(bytes, 0)?, bytes.get(..length)?.get(8..length.checked_sub(4)?)?))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Each of the blocks.
pub(super) fn blocks(mut bytes: &[u8]) -> impl Iterator<Item = Block<'_>> {
    std::iter::from_fn(move || {
        let (kind, body) = first(bytes)?;
        bytes = &bytes[body.len() + AROUND..];
        Some(match kind {
            INTERFACE => interface(body).unwrap_or(Block::Other),
            PACKET => packet(body).map_or(Block::Other, Block::Packet),
            _ => Block::Other,
        })
    })
}

fn interface(body: &[u8]) -> Option<Block<'_>> {
    let name = option(body.get(8..)?, IF_NAME).and_then(|name| std::str::from_utf8(name).ok());
    let is_ethernet = number(body, 0)? & 0xffff == LINKTYPE_ETHERNET;
    Some(Block::Interface { name: name.unwrap_or("?"), is_ethernet })
}

fn packet(body: &[u8]) -> Option<Packet<'_>> {
    let kept = number(body, 12)? as usize;
    let options = body.get(20 + kept.next_multiple_of(4)..)?;
    let comment = option(options, OPT_COMMENT).and_then(|comment| std::str::from_utf8(comment).ok());
    let flags = option(options, EPB_FLAGS).and_then(|flags| number(flags, 0));
    Some(Packet {
        interface: number(body, 0)? as usize,
        unix_ns: u64::from(number(body, 4)?) << 32 | u64::from(number(body, 8)?),
        is_inbound: flags.is_some_and(|flags| flags & 3 == 1),
        length: number(body, 16)?,
        bytes: body.get(20..20 + kept)?,
        comment: comment.unwrap_or_default(),
    })
}

/// The first option of a code.
fn option(mut options: &[u8], code: u16) -> Option<&[u8]> {
    loop {
        let both = number(options, 0)?;
        let (found, len) = (both & 0xffff, (both >> 16) as usize);
        let value = options.get(4..4 + len)?;
        if found == u32::from(code) {
            return Some(value);
        }
        options = options.get(4 + len.next_multiple_of(4)..).filter(|_| found != 0)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::capture::pcapng;

    fn file() -> Vec<u8> {
        let mut writer = pcapng::Writer::default();
        writer.section("flowgated", "all packets");
        let interface =
            pcapng::Interface { name: "lan0", description: "a port", is_ethernet: true, snap_len: 100 };
        writer.interface(&interface);
        writer.interface(&pcapng::Interface { name: "waiting", is_ethernet: false, ..interface });
        for length in 0..9 {
            writer.packet(&pcapng::Packet {
                interface: 1,
                unix_ns: 1_795_985_257_123_456_789,
                is_inbound: length % 2 == 1,
                queue: 3,
                length: 1500,
                bytes: &[1, 2, 3, 4, 5, 6, 7, 8][..length],
                comment: "arrived, forwarded",
            });
        }
        writer.take()
    }

    #[test]
    fn what_the_daemon_writes_is_read() {
        let file = file();
        let mut all = blocks(&file);
        assert_eq!(all.next(), Some(Block::Other));
        assert_eq!(all.next(), Some(Block::Interface { name: "lan0", is_ethernet: true }));
        assert_eq!(all.next(), Some(Block::Interface { name: "waiting", is_ethernet: false }));
        for length in 0..9 {
            let expected = Packet {
                interface: 1,
                unix_ns: 1_795_985_257_123_456_789,
                is_inbound: length % 2 == 1,
                length: 1500,
                bytes: &[1, 2, 3, 4, 5, 6, 7, 8][..length],
                comment: "arrived, forwarded",
            };
            assert_eq!(all.next(), Some(Block::Packet(expected)));
        }
        assert_eq!(all.next(), None);
    }

    #[test]
    fn of_a_file_that_is_cut_anywhere_the_whole_blocks_are_told() {
        let file = file();
        let mut lens = Vec::new();
        for end in 0..=file.len() {
            let whole = whole(&file[..end]);
            assert!(whole.len <= end);
            assert_eq!(
                blocks(&file[..end]).filter(|block| matches!(block, Block::Packet(_))).count() as u64,
                whole.packets
            );
            lens.push(whole.len);
        }
        lens.dedup();
        assert_eq!(lens.len(), 1 + 12, "nothing, and each block");
        assert_eq!(lens.last(), Some(&file.len()));
    }

    #[test]
    fn blocks_that_contradict_themselves_are_the_end() {
        for block in [[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 11, 0, 0, 0, 11, 0, 0, 0]] {
            assert_eq!(blocks(&block).count(), 0);
            assert_eq!(whole(&block).len, 0);
        }
    }
}
