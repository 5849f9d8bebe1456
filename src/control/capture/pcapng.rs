//! The pcapng format (draft-ietf-opsawg-pcapng), as much of it as a capture needs, block by block.
//!
//! Every block begins and ends with its length and is a multiple of 4 bytes long; so is every option in it. Numbers
//! are little-endian, which the first block says.

/// Bytes on a link of Ethernet.
const LINKTYPE_ETHERNET: u16 = 1;
/// Bytes of IPv4 or IPv6, without a link header.
const LINKTYPE_RAW: u16 = 101;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const EPB_QUEUE: u16 = 6;
const ISB_STARTTIME: u16 = 2;
const ISB_ENDTIME: u16 = 3;
const ISB_IFDROP: u16 = 5;
const ISB_FILTERACCEPT: u16 = 6;
const ISB_USRDELIV: u16 = 8;

/// An interface of the file.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub description: &'a str,
    /// Whether its packets have a link header.
    pub is_ethernet: bool,
    /// Bytes that are kept of each packet.
    pub snap_len: u32,
}

/// A packet of the file.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its interface, by the order of their blocks.
    pub interface: u32,
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Whether it came in or went out.
    pub is_inbound: bool,
    /// The queue that it was seen at.
    pub queue: u32,
    /// Its bytes on the link.
    pub length: u32,
    /// As many of them as were kept.
    pub bytes: &'a [u8],
    /// What is said of it.
    pub comment: &'a str,
}

/// What is said of an interface at the end.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'a> {
    /// Which.
    pub interface: u32,
    /// When the capture began and ended, in nanoseconds since 1970.
    pub unix_ns: (u64, u64),
    /// Packets that were asked for.
    pub accepted: u64,
    /// Of these, those that are not in the file.
    pub dropped: u64,
    /// Of these, those that are.
    pub delivered: u64,
    /// Why there are not all.
    pub comment: &'a str,
}

/// Blocks, one behind the other.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Forgets what comes after so many bytes.
    pub fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// The blocks so far; there are none then.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The beginning of a file.
    pub fn section(&mut self, application: &str, comment: &str) {
        self.block(SECTION_HEADER, |out| {
            out.u32(BYTE_ORDER);
            out.u32(1); // version 1.0
            out.u64(u64::MAX); // of a length that is not known yet
            out.option(SHB_USERAPPL, application.as_bytes());
            out.option(OPT_COMMENT, comment.as_bytes());
        });
    }

    /// An interface: the next in number.
    pub fn interface(&mut self, interface: &Interface<'_>) {
        let link = if interface.is_ethernet { LINKTYPE_ETHERNET } else { LINKTYPE_RAW };
        self.block(INTERFACE, |out| {
            out.u32(link.into());
            out.u32(interface.snap_len);
            out.option(IF_NAME, interface.name.as_bytes());
            out.option(IF_DESCRIPTION, interface.description.as_bytes());
            out.option(IF_TSRESOL, &[9]); // 10^-9 s
        });
    }

    /// A packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.block(PACKET, |out| {
            out.u32(packet.interface);
            out.time(packet.unix_ns);
            out.u32(u32::try_from(packet.bytes.len()).unwrap_or(u32::MAX));
            out.u32(packet.length);
            out.padded(packet.bytes);
            out.option(OPT_COMMENT, packet.comment.as_bytes());
            let direction: u32 = if packet.is_inbound { 1 } else { 2 };
            out.option(EPB_FLAGS, &direction.to_le_bytes());
            out.option(EPB_QUEUE, &packet.queue.to_le_bytes());
        });
    }

    /// What is said of an interface at the end.
    pub fn statistics(&mut self, of: &Statistics<'_>) {
        let time = |time: u64| time.rotate_right(32).to_le_bytes();
        self.block(STATISTICS, |out| {
            out.u32(of.interface);
            out.time(of.unix_ns.1);
            out.option(ISB_STARTTIME, &time(of.unix_ns.0));
            out.option(ISB_ENDTIME, &time(of.unix_ns.1));
            out.option(ISB_IFDROP, &of.dropped.to_le_bytes());
            out.option(ISB_FILTERACCEPT, &of.accepted.to_le_bytes());
            out.option(ISB_USRDELIV, &of.delivered.to_le_bytes());
            if !of.comment.is_empty() {
                out.option(OPT_COMMENT, of.comment.as_bytes());
            }
        });
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Body<'_>)) {
        let start = self.out.len();
        self.out.extend(kind.to_le_bytes());
        self.out.extend([0; 4]);
        body(&mut Body(&mut self.out));
        // The end of the options.
        self.out.extend([0; 4]);
        let length = u32::try_from(self.out.len() - start + 4).unwrap_or(u32::MAX).to_le_bytes();
        self.out[start + 4..start + 8].copy_from_slice(&length);
        self.out.extend(length);
    }
}

/// The inside of a block.
struct Body<'a>(&'a mut Vec<u8>);

impl Body<'_> {
    fn u32(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    /// The high half first, whatever the order of bytes.
    fn time(&mut self, time: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "the halves")]
        let (high, low) = ((time >> 32) as u32, time as u32);
        self.u32(high);
        self.u32(low);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.extend(std::iter::repeat_n(0, bytes.len().next_multiple_of(4) - bytes.len()));
    }

    /// An option's length has 16 bits; what is longer is cut.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
        self.0.extend(code.to_le_bytes());
        self.0.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
        self.padded(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written out by the draft's figures, by hand.
    #[test]
    fn a_packet_block_is_byte_for_byte_what_the_draft_says() {
        let mut writer = Writer::default();
        writer.packet(&Packet {
            interface: 2,
            unix_ns: 0x0102_0304_0506_0708,
            is_inbound: false,
            queue: 3,
            length: 1500,
            bytes: &[0xaa, 0xbb, 0xcc],
            comment: "hello",
        });
        let expected: &[&[u8]] = &[
            &[6, 0, 0, 0],
            &[68, 0, 0, 0],
            &[2, 0, 0, 0],
            &[4, 3, 2, 1],
            &[8, 7, 6, 5],
            &[3, 0, 0, 0],
            &[0xdc, 5, 0, 0],
            &[0xaa, 0xbb, 0xcc, 0],
            &[1, 0, 5, 0],
            b"hello\0\0\0",
            &[2, 0, 4, 0, 2, 0, 0, 0],
            &[6, 0, 4, 0, 3, 0, 0, 0],
            &[0, 0, 0, 0],
            &[68, 0, 0, 0],
        ];
        assert_eq!(writer.take(), expected.concat());
        assert!(writer.is_empty());
    }

    #[test]
    fn a_comment_too_long_for_an_option_is_cut_and_the_block_stays_whole() {
        let mut writer = Writer::default();
        writer.section("flowgated", &"x".repeat(70_000));
        let bytes = writer.take();
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        assert_eq!(length, bytes.len());
        assert_eq!(bytes[4..8], bytes[bytes.len() - 4..]);
        assert_eq!(bytes.len() % 4, 0);
    }
}
