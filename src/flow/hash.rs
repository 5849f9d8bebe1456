//! The keyed hash that spreads flows over buckets, workers and rows of the target choice.
//!
//! NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: "UMAC", CRYPTO 1999; section 4) over the key's words,
//! then one folded multiplication. NH adds a secret word to each input word, multiplies the sums in pairs
//! and adds the 128-bit products: for any two different keys, chosen by anyone who does not know the
//! secret, the chance over the secret that the sums are equal is at most 2^-64. The multiplication of the
//! sum's two halves, each with a secret of its own, brings every input bit to every output bit and hides
//! NH's linear structure, so that two flows that are seen (by timing) to share a bucket say nothing of a
//! third. Clients pick their own tuples; an unkeyed hash, or one linear in the tuple such as Toeplitz,
//! would let one client fill one bucket. This holds as long as the seed is secret: it is drawn at start,
//! or kept with the configuration where nodes must agree, and never shown.
//!
//! An IPv4 flow's name fits two words and takes one multiplication before the last; an IPv6 flow's takes
//! three that do not wait for each other.
#![forbid(unsafe_code)]

use std::fmt;
use std::hint::black_box;
use std::io::Read;

use super::key::FlowKey;

/// Secret words used by one hash.
const LANES: usize = 8;

/// Odd, and without pattern in its bits (2^64 over the golden ratio).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The secret a hash is keyed by.
#[derive(Clone, PartialEq, Eq)]
pub struct HashSeed {
    lanes: [u64; LANES],
}

/// How much of a flow's tuple decides its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuple {
    /// Both addresses.
    Two,
    /// Both addresses and the protocol.
    Three,
    /// Both addresses, the protocol, both ports.
    Five,
}

impl HashSeed {
    /// A seed that nobody knows, from the operating system.
    ///
    /// # Errors
    /// What reading `/dev/urandom` returns.
    pub fn from_os() -> std::io::Result<HashSeed> {
        let mut bytes = [0; LANES * 8];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mut lanes = [0; LANES];
        for (lane, chunk) in lanes.iter_mut().zip(bytes.chunks_exact(8)) {
            *lane = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        Ok(HashSeed { lanes })
    }

    /// The seed that follows from a secret, the same on every node that has it. The secret must be
    /// random and long (16 bytes or more): what is easily guessed stays so.
    #[must_use]
    pub fn from_secret(secret: &[u8]) -> HashSeed {
        let absorb = |start: u64| {
            secret.iter().fold(start, |state, byte| scramble((state ^ u64::from(*byte)).wrapping_add(MIX)))
        };
        // Two states from different starts, so that 128 bits of a secret are not squeezed into 64.
        let (mut a, b) = (absorb(1), absorb(2));
        let lanes = std::array::from_fn(|_| {
            a = a.wrapping_add(MIX);
            scramble(a ^ scramble(b.wrapping_add(a)))
        });
        HashSeed { lanes }
    }

    /// The secret itself, to be kept where nobody else reads.
    #[must_use]
    pub fn secret(&self) -> [u64; 8] {
        self.lanes
    }

    /// The seed that such a secret is of.
    #[must_use]
    pub fn of_secret(lanes: [u64; 8]) -> HashSeed {
        HashSeed { lanes }
    }

    /// Tells one seed from another without giving it away.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.agreed([0x1d; 5])
    }

    /// The hash of a flow, the same in both directions. Bits 0–31 pick the table's bucket, 32–47 are
    /// its tag, 48–63 are left to choose the worker: each use sees bits the others have not sorted by.
    #[inline(always)]
    #[must_use]
    pub fn flow(&self, key: &FlowKey) -> u64 {
        if key.version() == 4 {
            return self.flow_of_v4(key);
        }
        self.mix(self.sum(*key.words()))
    }

    /// The same of an IPv4 flow: two words hold all that there is, and take one product.
    #[inline(always)]
    #[must_use]
    pub fn flow_of_v4(&self, key: &FlowKey) -> u64 {
        let ([addresses, .., rest], [k0, k1, ..]) = (*key.words(), self.lanes);
        self.mix(product(addresses.wrapping_add(k0), rest.wrapping_add(k1)))
    }

    /// The hash that decides a new flow's target (F-3, F-4), the same in both directions. The
    /// endpoint is left out: its number is this node's own, and every node must choose the same.
    #[inline]
    #[must_use]
    pub fn choice(&self, key: &FlowKey, tuple: Tuple) -> u64 {
        use super::key::Direction::LowToHigh;
        let ((low_address, low), (high_address, high)) = (key.source(LowToHigh), key.destination(LowToHigh));
        let protocol = u64::from(key.protocol()) + 1;
        let rest = match tuple {
            Tuple::Two => 0,
            Tuple::Three => protocol << 32,
            Tuple::Five => protocol << 32 | u64::from(high) << 16 | u64::from(low),
        };
        let [low_a, high_a] = halves(low_address);
        let [low_b, high_b] = halves(high_address);
        self.agreed([low_a, high_a, low_b, high_b, rest])
    }

    /// The hash of two words, for what is named by less than a flow.
    #[inline]
    #[must_use]
    pub fn pair(&self, a: u64, b: u64) -> u64 {
        self.agreed([a, b, 0, 0, 0])
    }

    /// What nodes of one site must agree on, be they of one release or not: so it stays as it was first given out, a
    /// step longer than it would need to be.
    #[inline]
    fn agreed(&self, words: [u64; 5]) -> u64 {
        let folded = self.mix(self.sum(words));
        let mixed = (folded ^ folded >> 32).wrapping_mul(MIX);
        mixed ^ mixed >> 29
    }

    #[inline(always)]
    fn sum(&self, mut word: [u64; 5]) -> u128 {
        let [k0, k1, k2, k3, k4, k5, ..] = self.lanes;
        // Out of the compiler's sight for a moment: else it finds two products to be a vector of two,
        // and takes longer to get them into vector registers and back than the hash does without.
        word[2] = black_box(word[2]);
        product(word[0].wrapping_add(k0), word[1].wrapping_add(k1))
            .wrapping_add(product(word[2].wrapping_add(k2), word[3].wrapping_add(k3)))
            .wrapping_add(product(word[4].wrapping_add(k4), k5))
    }

    #[inline(always)]
    fn mix(&self, sum: u128) -> u64 {
        let ([.., k6, k7], [low, high]) = (self.lanes, halves(sum));
        let [low, high] = halves(product(low ^ k6, high ^ k7));
        low ^ high
    }
}

/// The seed is not for logs.
impl fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSeed(secret)")
    }
}

#[inline]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// The less significant half and the more significant one.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the halves that are wanted")]
fn halves(x: u128) -> [u64; 2] {
    [x as u64, (x >> 64) as u64]
}

/// SplitMix64's output step, a bijection.
fn scramble(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::EndpointId;

    fn seed(n: u8) -> HashSeed {
        HashSeed::from_secret(&[n; 32])
    }

    /// Flows of one client network to one server: a few bits differ, as an attacker's would.
    fn neighbours(n: u32) -> FlowKey {
        let source = 0x0a00_0000 + (n >> 8);
        let port = u16::try_from(1024 + (n & 0xff)).unwrap();
        FlowKey::new(EndpointId(0), 4, 6, source.into(), 0xc0a8_0001, port, 443).0
    }

    fn counts(bins: usize, hashes: impl Iterator<Item = u64>) -> Vec<u32> {
        let mut counts = vec![0; bins];
        for hash in hashes {
            counts[usize::try_from(hash).unwrap() & (bins - 1)] += 1;
        }
        counts
    }

    // F-4
    #[test]
    fn every_input_bit_moves_every_output_bit_half_of_the_time() {
        const TRIALS: u32 = 400;
        let seed = seed(1);
        for bit in 0..320 {
            let mut flips = [0; 64];
            for trial in 0..TRIALS {
                let mut words = *neighbours(trial * 77).words();
                let before = seed.mix(seed.sum(words));
                words[bit / 64] ^= 1 << (bit % 64);
                let change = before ^ seed.mix(seed.sum(words));
                for (out, flips) in flips.iter_mut().enumerate() {
                    *flips += u32::from(change >> out & 1 == 1);
                }
            }
            // 0.5 ± 6 standard deviations of 400 fair coins.
            assert!(flips.iter().all(|n| (140..=260).contains(n)), "input bit {bit}: {flips:?}");
        }
    }

    // F-4, W-3
    #[test]
    fn neighbouring_flows_spread_evenly_in_each_part_of_the_hash() {
        const BINS: usize = 1024;
        const FLOWS: u32 = 32 * 1024;
        for (name, shift) in [("bucket", 0), ("bucket, upper", 16), ("tag", 32), ("worker", 48)] {
            let seed = seed(2);
            let counts = counts(BINS, (0..FLOWS).map(|n| seed.flow(&neighbours(n)) >> shift));
            let chi_square: f64 = counts.iter().map(|n| (f64::from(*n) - 32.0).powi(2) / 32.0).sum();
            // 1,023 degrees of freedom, deviation 45: too even is as suspicious as too uneven.
            assert!((chi_square - 1023.0).abs() < 270.0, "{name}: {chi_square}");
        }
    }

    #[test]
    fn flows_that_crowd_one_bucket_under_one_seed_do_not_under_another() {
        let (known, secret) = (seed(3), seed(4));
        let crowd: Vec<_> =
            (0..64 * 1024).map(neighbours).filter(|key| known.flow(key) & 63 == 0).take(640).collect();
        assert_eq!(crowd.len(), 640);
        let counts = counts(64, crowd.iter().map(|key| secret.flow(key)));
        assert!(counts.iter().all(|n| *n < 30), "ten each expected: {counts:?}");
    }

    #[test]
    fn f_3_the_choice_sees_as_much_of_the_tuple_as_it_is_told() {
        let seed = seed(5);
        let key =
            |protocol, port, endpoint| FlowKey::new(EndpointId(endpoint), 4, protocol, 9, 8, port, 443).0;
        let base = key(6, 1000, 0);
        for (tuple, by_port, by_protocol) in
            [(Tuple::Two, false, false), (Tuple::Three, false, true), (Tuple::Five, true, true)]
        {
            let choice = |key| seed.choice(&key, tuple);
            assert_eq!(choice(base) != choice(key(6, 1001, 0)), by_port, "{tuple:?}");
            assert_eq!(choice(base) != choice(key(17, 1000, 0)), by_protocol, "{tuple:?}");
            assert_eq!(choice(base), choice(key(6, 1000, 1)), "F-4: the same on every node");
        }
        let flow = |endpoint| seed.flow(&key(6, 1000, endpoint));
        assert_ne!(flow(0), flow(1), "F-1: the endpoint is of the flow");
    }

    #[test]
    fn a_seed_follows_from_its_secret_and_from_every_byte_of_it() {
        let ids: std::collections::HashSet<_> = (0..16_usize)
            .flat_map(|byte| (0..8).map(move |bit| (byte, bit)))
            .map(|(byte, bit)| {
                let mut secret = [7; 16];
                secret[byte] ^= 1 << bit;
                HashSeed::from_secret(&secret).id()
            })
            .collect();
        assert_eq!(ids.len(), 128);
        assert_eq!(seed(9), seed(9));
        assert_ne!(HashSeed::from_secret(b"a"), HashSeed::from_secret(b"a\0"));
    }

    // F-4
    #[test]
    fn a_seed_from_the_system_is_new_each_time_and_is_not_printed() {
        let (a, b) = (HashSeed::from_os().unwrap(), HashSeed::from_os().unwrap());
        assert_ne!(a, b);
        assert_eq!(format!("{a:?}"), "HashSeed(secret)");
    }
}
