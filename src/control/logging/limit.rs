//! How many lines each place in the program may make: so many at once, and then so many a second. Those that were too
//! many are told in number, once the place may make lines again.

use crate::control::duration::milliseconds;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Metadata;
use tracing::callsite::Identifier;

/// Lines that a place may make at once: those of a fleet's first minute are among them.
pub const AT_ONCE: u32 = 200;

/// And how many a second after that.
pub const A_SECOND: u32 = 20;

/// How often those that were too many are told.
pub const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The lines of one place.
struct Bucket {
    of: &'static Metadata<'static>,
    /// Lines that it may make, in thousandths.
    left: u64,
    at: Instant,
    suppressed: u64,
    told_at: Instant,
}

/// Lines that were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suppressed {
    /// The lines' name.
    pub name: &'static str,
    /// The part of the program that made them.
    pub module: &'static str,
    /// How many.
    pub lines: u64,
}

/// All places'.
#[derive(Default)]
pub struct Limit {
    buckets: Mutex<HashMap<Identifier, Bucket>>,
}

impl Limit {
    /// Whether a line of this place may be written now.
    pub fn admits(&self, of: &'static Metadata<'static>, now: Instant) -> bool {
        const FULL: u64 = AT_ONCE as u64 * 1000;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.entry(of.callsite()).or_insert_with(|| Bucket {
            of,
            left: FULL,
            at: now,
            suppressed: 0,
            told_at: now,
        });
        let elapsed = milliseconds(now.saturating_duration_since(bucket.at));
        // What is less than a millisecond is not lost: the time moves on by whole ones.
        bucket.at += Duration::from_millis(elapsed);
        bucket.left = bucket.left.saturating_add(elapsed.saturating_mul(A_SECOND.into())).min(FULL);
        let may = bucket.left >= 1000;
        if may {
            bucket.left -= 1000;
        } else {
            bucket.suppressed += 1;
        }
        may
    }

    /// The lines that were not written since this was last told.
    pub fn suppressed(&self, now: Instant) -> Vec<Suppressed> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let untold = |bucket: &&mut Bucket| {
            bucket.suppressed > 0 && now.saturating_duration_since(bucket.told_at) >= TOLD_EVERY
        };
        let mut told: Vec<Suppressed> = buckets
            .values_mut()
            .filter(untold)
            .map(|bucket| {
                bucket.told_at = now;
                let lines = std::mem::take(&mut bucket.suppressed);
                Suppressed {
                    name: bucket.of.name(),
                    module: bucket.of.module_path().unwrap_or_default(),
                    lines,
                }
            })
            .collect();
        told.sort_by_key(|suppressed| suppressed.name);
        told
    }
}
