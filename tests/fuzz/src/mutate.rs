//! Changes to an input by words instead of bits: what is fuzzed here is text, and most of what a broken word finds is
//! that it is broken.

use std::ops::Range;

/// Numbers at the edges of what fields can hold; besides them small ones are tried.
const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "9223372036854775808",
    "1e9",
    "0.5",
];
/// A number up to which any may be tried.
const SMALL: u64 = 128;

/// `input` with one of its words another, gone, there twice, or changed places with another; `seed` says which.
/// It is at most `longest` bytes long.
pub fn mutate(input: &[u8], seed: u32, longest: usize) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    let words = words(input);
    if words.is_empty() {
        return input.to_vec();
    }
    let mut pick = || words[chance.below(words.len() as u64)].clone();
    let (one, other) = (pick(), pick());
    let text = |range: &Range<usize>| input[range.clone()].to_vec();
    let instead = match chance.below(6) {
        0 | 1 if input[one.clone()].iter().all(u8::is_ascii_digit) => match chance.below(2) {
            0 => NUMBERS[chance.below(NUMBERS.len() as u64)].as_bytes().to_vec(),
            _ => chance.below(SMALL).to_string().into_bytes(),
        },
        0..=2 => text(&other),
        3 => Vec::new(),
        4 => [text(&one), text(&one)].concat(),
        // A stretch of words, such as a member of a list, once more or in the place of a word.
        _ => text(&(one.start.min(other.start)..one.end.max(other.end))),
    };
    let mut output = [&input[..one.start], &instead, &input[one.end..]].concat();
    output.truncate(longest);
    output
}

/// Where the words are: letters and digits together, everything else by itself.
fn words(input: &[u8]) -> Vec<Range<usize>> {
    let is_of_a_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, byte) in input.iter().enumerate() {
        match words.last_mut() {
            Some(last) if at > 0 && is_of_a_word(byte) && is_of_a_word(&input[at - 1]) => last.end = at + 1,
            _ => words.push(at..at + 1),
        }
    }
    words
}

/// Xorshift: no randomness to rely on, and the same from the same seed.
struct Chance(u64);

impl Chance {
    /// Seeds that follow each other lead to nothing alike.
    fn new(seed: u32) -> Chance {
        let mixed = (u64::from(seed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Chance(mixed ^ mixed >> 29)
    }

    fn below(&mut self, limit: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_number_becomes_any_other_and_a_word_another_of_the_text() {
        let all: HashSet<Vec<u8>> = (0..100_000).map(|seed| mutate(b"{\"weight\": 3}", seed, 100)).collect();
        for expected in [
            "{\"weight\": 77}",
            "{\"weight\": 65536}",
            "{\"weight\": weight}",
            "{\"weight\": }",
            "{\"3\": 3}",
        ] {
            assert!(all.contains(expected.as_bytes()), "{expected}");
        }
    }

    #[test]
    fn no_input_is_too_short_and_none_becomes_too_long() {
        for seed in 0..100 {
            assert_eq!(mutate(b"", seed, 10), b"");
            assert!(mutate(b"one two 3", seed, 10).len() <= 10);
        }
    }
}
