//! Base64 (RFC 4648 section 4): bytes within a line of JSON.

#![forbid(unsafe_code)]

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of these bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |n: usize| u32::from(three.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for n in 0..4 {
            let padding = n > three.len();
            let six = ALPHABET[(bits >> (18 - 6 * n) & 63) as usize];
            text.push(if padding { '=' } else { char::from(six) });
        }
    }
    text
}

/// The bytes of such a text; `None` if it is none.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut fours = text.chunks(4).peekable();
    while let Some(four) = fours.next() {
        let padding = four.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && fours.peek().is_some()) {
            return None;
        }
        let mut digits = four.iter().take(4 - padding);
        let bits = digits.try_fold(0, |bits, digit| Some(bits << 6 | value(*digit)?))?;
        let three = (bits << (6 * padding)).to_be_bytes();
        bytes.extend_from_slice(&three[1..4 - padding]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 4648, section 10.
    const VECTORS: [(&str, &str); 7] = [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ];

    #[test]
    fn the_vectors_of_the_rfc_hold_both_ways() {
        for (bytes, text) in VECTORS {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn every_byte_comes_back_and_no_other_text_is_taken() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        for text in ["Z", "Zg=", "Zg==Zg==", "Z===", "====", "Zg==\n", "Z g=", "Zm9v!AAA", "=Zg="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
