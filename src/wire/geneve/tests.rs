//! What [`parse`] makes of our own options, other orders, other options, and damage.

use proptest::prelude::*;

use super::*;

const ENDPOINT: [u8; 12] = [0x01, 0x08, 1, 2, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
const ATTACHMENT: [u8; 12] = [0x01, 0x08, 2, 2, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28];
const COOKIE: [u8; 8] = [0x01, 0x08, 3, 1, 0x31, 0x32, 0x33, 0x34];
/// Another vendor's option, one word of data, not critical.
const FOREIGN: [u8; 8] = [0x01, 0x03, 0x07, 1, 0xde, 0xad, 0xbe, 0xef];

fn header(options_len: usize, protocol: u16) -> [u8; 8] {
    let [high, low] = protocol.to_be_bytes();
    [u8::try_from(options_len / 4).unwrap(), 0, high, low, 0, 0, 0, 0]
}

fn packet(options: &[&[u8]]) -> Vec<u8> {
    let options = options.concat();
    let mut bytes = header(options.len(), 0x0800).to_vec();
    bytes.extend(options);
    bytes.extend(b"inner");
    bytes
}

fn ours() -> Vec<u8> {
    packet(&[&ENDPOINT, &ATTACHMENT, &COOKIE])
}

fn received(inner_offset: u16) -> Result<Received, GeneveError> {
    Ok(Received {
        cookie: 0x3132_3334,
        endpoint_id: 0x1112_1314_1516_1718,
        attachment_id: 0x2122_2324_2526_2728,
        inner_offset,
        protocol: 0x0800,
    })
}

// W-2
#[test]
fn our_own_options_are_read_and_the_inner_packet_follows_them() {
    assert_eq!(parse(&ours()), received(40));
    assert!(has_canonical_options(&ours()));
    assert_eq!(&ours()[40..], b"inner");
}

// W-4
#[test]
fn options_in_any_order_are_read_alike() {
    let options: [&[u8]; 4] = [&ENDPOINT, &ATTACHMENT, &COOKIE, &FOREIGN];
    let mut orders = 0;
    for a in 0..4 {
        for b in (0..4).filter(|&b| b != a) {
            for c in (0..4).filter(|&c| c != a && c != b) {
                let d = 6 - a - b - c;
                let bytes = packet(&[options[a], options[b], options[c], options[d]]);
                assert_eq!(parse(&bytes), received(48), "{a}{b}{c}{d}");
                assert!(!has_canonical_options(&bytes));
                orders += 1;
            }
        }
    }
    assert_eq!(orders, 24);
    assert_eq!(parse(&packet(&[&COOKIE, &ATTACHMENT, &ENDPOINT])), received(40));
}

// W-4
#[test]
fn unknown_options_reserved_bits_and_any_vni_change_nothing() {
    let empty_foreign = [0xff, 0xff, 0x01, 0];
    let bytes = packet(&[&FOREIGN, &empty_foreign, &ENDPOINT, &ATTACHMENT, &FOREIGN, &COOKIE]);
    assert_eq!(parse(&bytes), received(60));
    let mut bytes = ours();
    bytes[1] = 0x7f; // "critical options are there", and six reserved bits
    bytes[4..8].copy_from_slice(&[0xab, 0xcd, 0xef, 0xff]);
    bytes[11] |= 0xe0; // reserved bits of the first option
    assert_eq!(parse(&bytes), received(40));
}

// W-5
#[test]
fn every_fault_has_its_own_name() {
    let mut critical = FOREIGN;
    critical[2] |= 0x80;
    let with = |at: usize, value: u8| {
        let mut bytes = ours();
        bytes[at] = value;
        parse(&bytes)
    };
    assert_eq!(with(0, 0x48), Err(GeneveError::WrongVersion(1)));
    assert_eq!(with(1, 0x80), Err(GeneveError::Control));
    assert_eq!(with(2, 0x65), Err(GeneveError::WrongProtocol(0x6500)));
    assert_eq!(with(11, 3), Err(GeneveError::BadOptionLength(1)));
    assert_eq!(with(35, 31), Err(GeneveError::OptionsOverlapping));
    assert_eq!(
        parse(&packet(&[&ENDPOINT, &critical, &ATTACHMENT, &COOKIE])),
        Err(GeneveError::CriticalOptionUnknown { class: 0x0103, option_type: 0x87 })
    );
    // Our own class with a type that has the critical bit is an option that we do not know.
    assert_eq!(with(10, 0x81), Err(GeneveError::CriticalOptionUnknown { class: 0x0108, option_type: 0x81 }));
    assert_eq!(
        parse(&packet(&[&ENDPOINT, &ATTACHMENT, &COOKIE, &COOKIE])),
        Err(GeneveError::DuplicateOption(3))
    );
    assert_eq!(parse(&packet(&[&ENDPOINT, &ATTACHMENT])), Err(GeneveError::MissingCookie));
    assert_eq!(parse(&packet(&[&ENDPOINT, &COOKIE])), Err(GeneveError::MissingAttachmentId));
    assert_eq!(parse(&packet(&[&ATTACHMENT, &COOKIE])), Err(GeneveError::MissingEndpointId));
    assert_eq!(parse(&packet(&[])), Err(GeneveError::MissingCookie));
}

// W-5
#[test]
fn a_packet_cut_anywhere_before_its_inner_packet_is_refused() {
    for len in 0..40 {
        let expected = if len < 8 { GeneveError::Truncated } else { GeneveError::OptionsTruncated };
        assert_eq!(parse(&ours()[..len]), Err(expected), "cut to {len}");
    }
    assert_eq!(parse(&ours()[..40]), received(40));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    // W-4, W-5
    #[test]
    fn damaged_options_never_panic_and_the_fast_way_agrees_with_the_walk(
        mutations in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
        extra in any::<bool>(),
        cut in 0usize..60,
    ) {
        let mut bytes = if extra { packet(&[&ENDPOINT, &FOREIGN, &ATTACHMENT, &COOKIE]) } else { ours() };
        for (at, value) in mutations {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cut < bytes.len() {
            bytes.truncate(bytes.len() - cut);
        }
        let parsed = parse(&bytes);
        prop_assert_eq!(parsed, parse_any_order(&bytes));
        if let Ok(parsed) = parsed {
            prop_assert!(usize::from(parsed.inner_offset) <= bytes.len());
        }
    }

    // W-5
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(parse(&bytes), parse_any_order(&bytes));
        prop_assert!(!has_canonical_options(&bytes) || bytes.len() >= 36);
    }
}
