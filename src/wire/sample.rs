//! Packets for tests, put together field by field from the RFCs' pictures with an obvious checksum. Shares
//! nothing with the code under test, so that the two cannot agree on the same mistake.

/// RFC 1071 as it is written: words, carries, complement.
pub fn naive_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !u16::try_from(sum).unwrap()
}

/// An IPv4 packet with a right header checksum.
pub fn ipv4(src: [u8; 4], dst: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_with(src, dst, protocol, 0x4000, &[], payload)
}

/// The same with its flags and fragment offset, and options (whole words).
pub fn ipv4_with(
    src: [u8; 4],
    dst: [u8; 4],
    protocol: u8,
    flags_and_offset: u16,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let header_len = 20 + options.len();
    let total_len = u16::try_from(header_len + payload.len()).unwrap();
    let mut packet = vec![0x40 | u8::try_from(header_len / 4).unwrap(), 0];
    packet.extend(total_len.to_be_bytes());
    packet.extend(0x1234u16.to_be_bytes());
    packet.extend(flags_and_offset.to_be_bytes());
    packet.extend([61, protocol, 0, 0]);
    packet.extend(src);
    packet.extend(dst);
    packet.extend(options);
    let checksum = naive_checksum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(payload);
    packet
}

/// An IPv6 packet.
pub fn ipv6(src: [u8; 16], dst: [u8; 16], next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0x12, 0x34, 0x56];
    packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend([next_header, 61]);
    packet.extend(src);
    packet.extend(dst);
    packet.extend(payload);
    packet
}

/// A TCP segment; its checksum is left 0.
pub fn tcp(ports: (u16, u16), seq: u32, ack: u32, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(ports.0.to_be_bytes());
    segment.extend(ports.1.to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([u8::try_from(5 + options.len() / 4).unwrap() << 4, flags]);
    segment.extend(0xfaf0u16.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(options);
    segment.extend(payload);
    segment
}

/// A UDP datagram; its checksum is left 0.
pub fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(ports.0.to_be_bytes());
    datagram.extend(ports.1.to_be_bytes());
    datagram.extend(u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
    datagram.extend([0; 2]);
    datagram.extend(payload);
    datagram
}

/// Whether the TCP or UDP checksum of an IPv4 packet without options, or an IPv6 packet without extension
/// headers, is right.
pub fn transport_checksum_is_right(ip: &[u8]) -> bool {
    let (addresses, protocol, transport) =
        if ip[0] >> 4 == 4 { (&ip[12..20], ip[9], &ip[20..]) } else { (&ip[8..40], ip[6], &ip[40..]) };
    let mut summed = addresses.to_vec();
    summed.extend([0, protocol]);
    summed.extend(u16::try_from(transport.len()).unwrap().to_be_bytes());
    summed.extend(transport);
    naive_checksum(&summed) == 0
}
