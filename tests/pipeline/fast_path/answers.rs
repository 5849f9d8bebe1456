//! What an appliance may send: mostly what it was sent, and beside that whatever W-4 and W-5 let through or
//! refuse.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::arrivals::{Talk, set, talk};
use crate::harness::*;
use crate::pieces::*;

/// What becomes of one of the frames that were sent to appliances.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Which of them, from the last one back.
    of: usize,
    inner: Inner,
    outer: [Outer; 2],
}

/// The inner packet.
#[derive(Clone, Debug)]
pub enum Inner {
    Same,
    Flags(u8),
    Reversed,
    Byte(Index, u8),
    /// So many bytes are missing at its end.
    Cut(usize),
    /// So many bytes come after it, within the outer packet.
    Padded(usize),
    Piece(bool),
    /// It quotes what was sent.
    Error,
    /// It is of this flow.
    Stranger(Talk, bool),
}

/// The outer headers.
#[derive(Clone, Debug)]
pub enum Outer {
    Same,
    CookieBit(u8),
    EndpointBit(u8),
    AttachmentBit(u8),
    /// It comes from this target's address.
    Source(u16),
    /// It goes to another.
    Destination,
    /// The options in another order.
    Order(usize),
    /// One option more, which must be understood or need not be.
    Option(bool),
    /// A UDP checksum, right or wrong.
    Checksum(bool),
    IpOptions(usize),
    Ttl(u8),
    Fragment(u16),
    /// Its IP header says so many bytes more.
    Longer(i16),
    /// Bytes after it.
    Padded(usize),
    Cut(Index),
    Tagged,
    /// A byte of the headers is another, and the IP header's checksum says so, or does not.
    Byte(usize, u8, bool),
}

impl Answer {
    /// The last frame as it was sent.
    pub const LAST: Answer = Answer { of: 0, inner: Inner::Same, outer: [Outer::Same, Outer::Same] };

    pub fn frame(&self, sent: &[Vec<u8>]) -> Option<Vec<u8>> {
        let back = self.of.checked_rem(sent.len())?;
        let sent = sent.get(sent.len() - 1 - back)?;
        let other = self.inner.of(inner(sent));
        let mut back = answer(sent, other.as_deref());
        for outer in &self.outer {
            // Where the places are that a change is for, if the one before moved nothing.
            if back.len() >= 82 {
                outer.change(&mut back);
            }
        }
        Some(back)
    }
}

impl Inner {
    /// `None`: it is the same.
    fn of(&self, sent: &[u8]) -> Option<Vec<u8>> {
        let mut ip = sent.to_vec();
        let six = *ip.first()? >> 4 == 6;
        let transport = if six { 40 } else { 20 };
        match self {
            Inner::Same => return None,
            Inner::Flags(flags) => set(&mut ip, transport + 13, &[*flags]),
            Inner::Reversed => {
                let (at, width) = if six { (8, 16) } else { (12, 4) };
                ip.get_mut(at..transport)?.rotate_left(width);
                ip.get_mut(transport..transport + 4)?.rotate_left(2);
            }
            Inner::Byte(at, byte) => {
                let at = at.index(ip.len().min(64));
                set(&mut ip, at, &[*byte]);
            }
            Inner::Cut(bytes) => ip.truncate(ip.len().saturating_sub(*bytes).max(1)),
            Inner::Padded(bytes) => ip.resize(ip.len() + bytes, 0),
            Inner::Piece(first) if ip.len() > transport + 8 && ip[0] & 15 <= 5 => {
                return Some(fragments(&ip, &[8]).swap_remove(usize::from(!first)));
            }
            Inner::Piece(_) => return None,
            Inner::Error => {
                let (router, kind) = if six { ("2001:db8:ffff::1", [1, 0]) } else { ("203.0.113.1", [3, 1]) };
                return (ip.len() > transport).then(|| error_from(router, &ip, transport + 8, kind));
            }
            Inner::Stranger(talk, from_client) => ip = talk.ip(*from_client, ACK, 4),
        }
        Some(ip)
    }
}

const OPTIONS: usize = 50;

impl Outer {
    fn change(&self, back: &mut Vec<u8>) {
        match self {
            Outer::Same => return,
            Outer::CookieBit(bit) => flip(back, 78, *bit),
            Outer::EndpointBit(bit) => flip(back, OPTIONS + 4, *bit),
            Outer::AttachmentBit(bit) => flip(back, OPTIONS + 16, *bit),
            Outer::Source(n) => set(back, 26, &target_address(*n).octets()),
            Outer::Destination => set(back, 30, &[10, 9, 0, 77]),
            Outer::Order(order) => {
                let [endpoint, attachment, cookie] = [0..12, 12..24, 24..32]
                    .map(|part| back[OPTIONS + part.start..OPTIONS + part.end].to_vec());
                let options = match order {
                    0 => [cookie, endpoint, attachment],
                    1 => [attachment, endpoint, cookie],
                    _ => [attachment, cookie, endpoint],
                };
                set(back, OPTIONS, &options.concat());
            }
            Outer::Option(critical) => {
                let kind = if *critical { 0x85 } else { 0x05 };
                back.splice(82..82, [0x01, 0x08, kind, 1, 1, 2, 3, 4]);
                back[42] = back[42].wrapping_add(2);
                lengthen(back, 8);
                let udp = u16::from_be_bytes([back[38], back[39]]) + 8;
                set(back, 38, &udp.to_be_bytes());
            }
            Outer::Checksum(right) => {
                set(back, 40, &[0, 0]);
                let len = u16::from_be_bytes([back[38], back[39]]);
                let pseudo = [&back[26..34], &[0, 17], &len.to_be_bytes()].concat();
                let sum = checksum(&[&pseudo, &back[34..]]);
                set(back, 40, &(sum ^ u16::from(!right)).to_be_bytes());
            }
            Outer::IpOptions(words) => {
                back.splice(34..34, vec![1; 4 * words]);
                back[14] += *words as u8;
                lengthen(back, 4 * *words as i16);
            }
            Outer::Ttl(ttl) => set(back, 22, &[*ttl]),
            Outer::Fragment(field) => set(back, 20, &field.to_be_bytes()),
            Outer::Longer(more) => lengthen(back, *more),
            Outer::Padded(bytes) => return back.resize(back.len() + bytes, 0xaa),
            Outer::Cut(at) => return back.truncate(at.index(back.len())),
            Outer::Tagged => {
                back.splice(12..12, [0x81, 0x00, 0, 9]);
                return;
            }
            Outer::Byte(at, byte, told) => {
                set(back, *at, &[*byte]);
                if !told {
                    return;
                }
            }
        }
        let end = (14 + usize::from(back[14] & 15) * 4).clamp(34, back.len());
        set(back, 24, &[0, 0]);
        let sum = checksum(&[&back[14..end]]);
        set(back, 24, &sum.to_be_bytes());
    }
}

fn flip(back: &mut [u8], at: usize, bit: u8) {
    back[at + usize::from(bit / 8)] ^= 1 << (bit % 8);
}

/// The outer IP header says so many bytes more.
fn lengthen(back: &mut [u8], more: i16) {
    let len = u16::from_be_bytes([back[16], back[17]]).wrapping_add_signed(more);
    set(back, 16, &len.to_be_bytes());
}

fn changed_inner() -> impl Strategy<Value = Inner> {
    prop_oneof![
        3 => any::<u8>().prop_map(Inner::Flags),
        1 => select(vec![FIN | ACK, RST, RST | ACK, SYN]).prop_map(Inner::Flags),
        3 => Just(Inner::Reversed),
        2 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Inner::Byte(at, byte)),
        1 => (1usize..30).prop_map(Inner::Cut),
        1 => (1usize..30).prop_map(Inner::Padded),
        1 => any::<bool>().prop_map(Inner::Piece),
        1 => Just(Inner::Error),
        2 => (talk(), any::<bool>()).prop_map(|(talk, way)| Inner::Stranger(talk, way)),
    ]
}

fn changed_outer() -> impl Strategy<Value = Outer> {
    prop_oneof![
        3 => (0u8..32).prop_map(Outer::CookieBit),
        2 => (0u8..64).prop_map(Outer::EndpointBit),
        1 => (0u8..64).prop_map(Outer::AttachmentBit),
        2 => (0u16..9).prop_map(Outer::Source),
        1 => Just(Outer::Destination),
        2 => (0usize..3).prop_map(Outer::Order),
        2 => any::<bool>().prop_map(Outer::Option),
        2 => any::<bool>().prop_map(Outer::Checksum),
        1 => (1usize..4).prop_map(Outer::IpOptions),
        1 => (0u8..2).prop_map(Outer::Ttl),
        1 => select(vec![0x2000u16, 0x4000, 0x0001, 0x8000]).prop_map(Outer::Fragment),
        1 => (-40i16..40).prop_map(Outer::Longer),
        2 => (1usize..30).prop_map(Outer::Padded),
        1 => any::<Index>().prop_map(Outer::Cut),
        1 => Just(Outer::Tagged),
        3 => (0usize..82, any::<u8>(), any::<bool>()).prop_map(|(at, byte, told)| Outer::Byte(at, byte, told)),
    ]
}

/// A burst of answers.
pub fn burst() -> impl Strategy<Value = Vec<Answer>> {
    let answer = (
        prop_oneof![1 => 0usize..3, 1 => 0usize..96],
        prop_oneof![8 => Just(Inner::Same), 1 => changed_inner()],
        prop_oneof![
            10 => Just([Outer::Same, Outer::Same]),
            1 => changed_outer().prop_map(|outer| [outer, Outer::Same]),
            1 => [changed_outer(), changed_outer()],
        ],
    );
    prop::collection::vec(answer.prop_map(|(of, inner, outer)| Answer { of, inner, outer }), 1..=32)
}
