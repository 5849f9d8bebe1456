//! How much a row likes a target: weighted rendezvous hashing (Thaler, Ravishankar 1998; with weights as
//! in Schindelhauer, Schomaker 2005). A target draws a number `u` in (0, 1) for each row and scores
//! `−ln(u) / weight`; the lowest score has the row. A target's scores depend on nothing but the seed,
//! its own address and its own weight, so that one target's change never moves a row between two
//! others, and every node that has the seed and the list has the same table, in whatever order the list came.
//!
//! The draws of one target are not independent: they are stratified, a keyed permutation of the 65,536
//! rows with a keyed fraction below it, so that each target has its exact share of good and bad draws. By
//! calculation that takes 1 − 1/√2 off the spread of rows over many targets.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;
use std::ops::Range;

use super::ROWS;
use crate::flow::HashSeed;
use crate::id::TargetId;

/// A target as the choice sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    target: TargetId,
    address: Ipv4Addr,
    weight: u16,
    /// 1 / weight; infinite for a weight of 0.
    share: f64,
    /// Keys of the permutation.
    round: [u16; 8],
    /// Key of the fraction below it.
    fraction: u64,
}

/// A target's score, lowest first, with the address to break ties. 16 bytes: a row's two are in one cache line.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Score {
    value: f64,
    address: u32,
    target: TargetId,
}

impl Score {
    /// Worse than any target's.
    pub(super) const NONE: Score = Score { value: f64::INFINITY, address: u32::MAX, target: TargetId(0) };

    /// Whether it is worse than `limit`.
    pub(super) fn is_above(self, limit: f64) -> bool {
        self.value > limit
    }

    /// Whose it is; nobody's if it is [`Score::NONE`].
    pub(super) fn target(self) -> Option<TargetId> {
        (self.value < f64::INFINITY).then_some(self.target)
    }
}

/// Less than 1 by more than the rounding of `ln` and of two products.
const BELOW_ONE: f64 = 1.0 - 1.0 / (1_u64 << 40) as f64;

impl Member {
    /// A target of this address and weight under the seed. Weight 0: no row likes it.
    #[must_use]
    pub fn new(seed: &HashSeed, target: TargetId, address: Ipv4Addr, weight: u16) -> Member {
        let bits = u64::from(address.to_bits());
        let mut round = [0; 8];
        let words = [seed.pair(bits, 1), seed.pair(bits, 2)].map(u64::to_le_bytes);
        for (key, bytes) in round.iter_mut().zip(words.as_flattened().chunks_exact(2)) {
            *key = bytes.iter().rev().fold(0, |key, byte| key << 8 | u16::from(*byte));
        }
        let mut member =
            Member { target, address, weight: 0, share: 0.0, round, fraction: seed.pair(bits, 3) };
        member.set_weight(weight);
        member
    }

    /// The target.
    #[must_use]
    pub fn target(&self) -> TargetId {
        self.target
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Its weight.
    #[must_use]
    pub fn weight(&self) -> u16 {
        self.weight
    }

    pub(super) fn set_weight(&mut self, weight: u16) {
        self.weight = weight;
        self.share = 1.0 / f64::from(weight);
    }

    /// The target's score for a row if it is better than `limit`.
    #[inline]
    pub(super) fn score_below(&self, row: u16, limit: Score) -> Option<Score> {
        self.score_of(self.permute(row), row, limit)
    }

    /// The same where it is known that the draw for the row is of this stratum.
    ///
    /// Most are not better, and for them the logarithm is not taken: `−ln(u)` is at least `1 − u`.
    #[inline]
    pub(super) fn score_of(&self, stratum: u16, row: u16, limit: Score) -> Option<Score> {
        let u = self.draw(stratum, row);
        if self.weight == 0 || (1.0 - u) * self.share * BELOW_ONE > limit.value {
            return None;
        }
        // libm's, as the platform's own may differ in the last bit between two nodes.
        let (address, target) = (self.address.to_bits(), self.target);
        let score = Score { value: -libm::log(u) * self.share, address, target };
        (score < limit).then_some(score)
    }

    /// The lowest stratum by whose draws the target may score no worse than `limit`; 65,536 if there is none. Of the
    /// strata from there on one or two do not.
    pub(super) fn strata_within(&self, limit: f64) -> usize {
        if self.weight == 0 {
            return ROWS;
        }
        // Draws of stratum `n` are below (n + 1) / 65,536, and of a score within the limit at least e^(−limit × weight).
        // One stratum more is far more than rounding.
        #[expect(clippy::cast_possible_truncation, reason = "from 0 to 65,536")]
        let lowest = (libm::exp(-limit * f64::from(self.weight)) * 65_536.0) as usize;
        lowest.saturating_sub(1)
    }

    /// The rows for which the target's draws are of these strata, with the stratum, best draw first.
    pub(super) fn rows_of(&self, strata: Range<usize>) -> impl Iterator<Item = (u16, u16)> {
        let inverses = [1, 3, 5, 7].map(|n| inverse(self.round[n] | 1));
        let strata = strata.rev().filter_map(|stratum| u16::try_from(stratum).ok());
        strata.map(move |stratum| (self.permute_back(stratum, inverses), stratum))
    }

    /// The row that [`Member::permute`] makes this of.
    #[inline]
    fn permute_back(&self, stratum: u16, inverses: [u16; 4]) -> u16 {
        let k = &self.round;
        let mut x = stratum ^ stratum >> 7 ^ stratum >> 14;
        x = x.wrapping_mul(inverses[3]) ^ k[6];
        x ^= x >> 8;
        x = x.wrapping_mul(inverses[2]) ^ k[4];
        x ^= x >> 9;
        x = x.wrapping_mul(inverses[1]) ^ k[2];
        x ^= x >> 7 ^ x >> 14;
        x.wrapping_mul(inverses[0]) ^ k[0]
    }

    /// The target's draw for a row, which is of this stratum: odd multiples of 2^-49, hence exact and neither 0 nor 1.
    #[inline]
    fn draw(&self, stratum: u16, row: u16) -> f64 {
        let n = u64::from(stratum) << 32 | u64::from(self.fraction(row));
        (2 * n + 1) as f64 / (1_u64 << 49) as f64
    }

    /// A keyed permutation of the rows: every step is invertible.
    #[inline]
    fn permute(&self, row: u16) -> u16 {
        let k = &self.round;
        let mut x = (row ^ k[0]).wrapping_mul(k[1] | 1);
        x ^= x >> 7;
        x = (x ^ k[2]).wrapping_mul(k[3] | 1);
        x ^= x >> 9;
        x = (x ^ k[4]).wrapping_mul(k[5] | 1);
        x ^= x >> 8;
        x = (x ^ k[6]).wrapping_mul(k[7] | 1);
        x ^ x >> 7
    }

    #[inline]
    fn fraction(&self, row: u16) -> u32 {
        let x = (self.fraction ^ u64::from(row)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
    }
}

/// The number by which `odd` times it is 1, modulo 2^16 (Newton: each step doubles the bits that are right,
/// and the number itself has three).
fn inverse(odd: u16) -> u16 {
    (0..3).fold(odd, |x, _| x.wrapping_mul(2_u16.wrapping_sub(odd.wrapping_mul(x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u8, weight: u16) -> Member {
        let seed = HashSeed::from_secret(&[n; 16]);
        Member::new(&seed, TargetId(0), Ipv4Addr::new(10, 0, 0, n), weight)
    }

    // F-4
    #[test]
    fn a_targets_draws_fill_every_stratum_once() {
        for n in 0..10 {
            let member = member(n, 1);
            let mut seen = vec![false; 1 << 16];
            for row in 0..=u16::MAX {
                let u = member.draw(member.permute(row), row);
                assert!(u > 0.0 && u < 1.0);
                #[expect(clippy::cast_possible_truncation, reason = "u is below 1")]
                let stratum = &mut seen[(u * 65_536.0) as usize];
                assert!(!std::mem::replace(stratum, true), "row {row}");
            }
        }
    }

    // F-4
    #[test]
    fn the_permutation_is_taken_back() {
        for n in 0..10 {
            let member = member(n, 1);
            let inverses = [1, 3, 5, 7].map(|n| inverse(member.round[n] | 1));
            for row in 0..=u16::MAX {
                assert_eq!(member.permute_back(member.permute(row), inverses), row);
            }
        }
    }

    // F-4
    #[test]
    fn no_row_within_a_limit_is_left_out_and_few_beyond_it_are_in() {
        let limits = [
            (1, 0.0),
            (1, 1e-4),
            (1, 0.02),
            (3, 0.02),
            (65_535, 1e-7),
            (1, 0.7),
            (1, 99.0),
            (1, f64::INFINITY),
        ];
        for (weight, limit) in limits {
            let member = member(3, weight);
            let found: Vec<(u16, u16)> = member.rows_of(member.strata_within(limit)..ROWS).collect();
            assert!(found.iter().all(|(row, stratum)| member.permute(*row) == *stratum));
            let mut found: Vec<u16> = found.into_iter().map(|(row, _)| row).collect();
            found.sort_unstable();
            let value = |row: u16| -libm::log(member.draw(member.permute(row), row)) / f64::from(weight);
            let expected: Vec<u16> = (0..=u16::MAX).filter(|row| value(*row) <= limit).collect();
            assert!(expected.iter().all(|row| found.binary_search(row).is_ok()), "{weight} {limit}");
            assert!(found.is_sorted_by(|one, next| one < next), "{weight} {limit}: a row comes twice");
            assert!(found.len() <= expected.len() + 2, "{weight} {limit}: {}", found.len());
        }
        let weightless = member(3, 0);
        assert_eq!(weightless.rows_of(weightless.strata_within(f64::INFINITY)..ROWS).count(), 0);
    }

    /// The shortcut must never hide a score that is better than the limit.
    // F-4
    #[test]
    fn a_score_is_given_just_if_it_is_below_the_limit() {
        for weight in [1, 3, 65_535] {
            let member = member(1, weight);
            for row in (0..=u16::MAX).step_by(3) {
                let value = -libm::log(member.draw(member.permute(row), row)) / f64::from(weight);
                let limit = |factor: f64| Score { value: value * factor, address: 0, target: TargetId(0) };
                let close = 4.0 * f64::EPSILON;
                assert!(member.score_below(row, limit(1.0 + close)).is_some());
                assert!(member.score_below(row, limit(1.0 - close)).is_none());
            }
        }
    }

    // F-4
    #[test]
    fn equal_scores_go_to_the_lower_address() {
        let member = member(5, 1);
        let own = member.score_below(9, Score::NONE).unwrap();
        assert!(member.score_below(9, own).is_none());
        assert!(member.score_below(9, Score { address: own.address + 1, ..own }).is_some());
        assert!(member.score_below(9, Score { address: own.address - 1, ..own }).is_none());
    }
}
