//! Signed changes, each carried out once.
//!
//! A signature holds for a quarter of an hour, and whoever can listen to the network has the bytes that it signs. So the
//! signatures of changes are remembered for as long as they could be sent again, and what comes under one of them a
//! second time is refused. A client that repeats itself signs anew, under another moment; only within one second are its
//! signatures the same, and then the ids that AWS's clients give to each call and attempt are not. These are not
//! always signed, so they are gone by for some seconds only.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::HeaderMap;
use ring::digest::{SHA256, digest};

use super::fault::Fault;

/// How long a signature could be sent again: from a quarter of an hour before its moment to one after it.
const MEMORY: Duration = Duration::from_secs(30 * 60);
/// And how many are remembered: nine changes a second for that long, in some megabytes.
const MOST: usize = 16_384;
/// How far apart what was signed in one second may arrive.
const SAME_SECOND: Duration = Duration::from_secs(5);
/// How often a client may repeat itself within that second.
const MOST_SENDINGS: usize = 16;
/// The headers by which AWS's clients tell their calls and attempts apart.
const SENDING: [&str; 2] = ["amz-sdk-invocation-id", "amz-sdk-request"];

type Signature = [u8; 32];
type Sending = [u8; 32];

/// The signatures of changes that were let in. Those of refused ones stay as well: what is refused now may be carried
/// out later, when a listener sends it again.
#[derive(Default)]
pub struct Once {
    known: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    uses: HashMap<Signature, Use>,
    /// The same, the oldest first.
    order: VecDeque<(Instant, Signature)>,
}

struct Use {
    first: Instant,
    at: jiff::Timestamp,
    sendings: Vec<Sending>,
}

impl Once {
    /// Lets a change in under this signature, which has been verified, if it is not one that was let in before.
    ///
    /// # Errors
    /// If it is.
    pub fn admit(&self, signature: Signature, headers: &HeaderMap, now: Instant) -> Result<(), Fault> {
        let mut known = self.known.borrow_mut();
        known.forget(now);
        let sending = sending_of(headers);
        match known.uses.get_mut(&signature) {
            None => {
                let at = jiff::Timestamp::now();
                known.uses.insert(signature, Use { first: now, at, sendings: vec![sending] });
                known.order.push_back((now, signature));
            }
            Some(before) if before.may_send(&sending, now) => before.sendings.push(sending),
            Some(before) => return Err(before.again()),
        }
        Ok(())
    }
}

impl Known {
    /// Forgets what cannot be sent again, and the oldest of too many.
    fn forget(&mut self, now: Instant) {
        while let Some((since, signature)) = self.order.front().copied() {
            let is_over = now.saturating_duration_since(since) > MEMORY;
            if !is_over && self.order.len() < MOST {
                return;
            }
            self.order.pop_front();
            self.uses.remove(&signature);
        }
    }
}

impl Use {
    fn may_send(&self, sending: &Sending, now: Instant) -> bool {
        let is_soon = now.saturating_duration_since(self.first) <= SAME_SECOND;
        is_soon && self.sendings.len() < MOST_SENDINGS && !self.sendings.contains(sending)
    }

    fn again(&self) -> Fault {
        let message = format!(
            "Signature already used: what it signs was asked for at {}. Sign the request anew to have it done again.",
            self.at.strftime("%Y%m%dT%H%M%SZ")
        );
        Fault::new("SignatureDoesNotMatch", message).status(StatusCode::FORBIDDEN)
    }
}

/// What tells this sending from others under the same signature.
fn sending_of(headers: &HeaderMap) -> Sending {
    let mut said = Vec::new();
    for value in SENDING.iter().flat_map(|name| headers.get_all(*name)) {
        said.extend_from_slice(value.as_bytes());
        said.push(0);
    }
    let mut sending = [0; 32];
    sending.copy_from_slice(digest(&SHA256, &said).as_ref());
    sending
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn headers(invocation: &str, attempt: &str) -> HeaderMap {
        let values = [invocation, attempt].map(|value| HeaderValue::from_str(value).unwrap());
        SENDING.into_iter().map(HeaderName::from_static).zip(values).collect()
    }

    fn is_admitted(once: &Once, signature: u8, headers: &HeaderMap, now: Instant) -> bool {
        once.admit([signature; 32], headers, now).is_ok()
    }

    #[test]
    fn the_same_bytes_are_let_in_once() {
        let (once, now) = (Once::default(), Instant::now());
        let plain = HeaderMap::new();
        assert!(is_admitted(&once, 1, &plain, now));
        let refusal = once.admit([1; 32], &plain, now).unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.code.as_str()), (403, "SignatureDoesNotMatch"));
        assert!(refusal.message.starts_with("Signature already used: "), "{refusal}");
        assert!(!is_admitted(&once, 1, &plain, now + MEMORY));
        assert!(is_admitted(&once, 2, &plain, now));
    }

    #[test]
    fn a_client_may_repeat_itself_within_the_second() {
        let (once, now) = (Once::default(), Instant::now());
        assert!(is_admitted(&once, 1, &headers("a", "attempt=1"), now));
        assert!(is_admitted(&once, 1, &headers("a", "attempt=2; max=5"), now + Duration::from_secs(1)));
        assert!(is_admitted(&once, 1, &headers("b", "attempt=1"), now + SAME_SECOND));
        assert!(!is_admitted(&once, 1, &headers("a", "attempt=1"), now + SAME_SECOND));
        // Whoever listened can make ids up, but not for long.
        assert!(!is_admitted(
            &once,
            1,
            &headers("c", "attempt=1"),
            now + SAME_SECOND + Duration::from_millis(1)
        ));
        let within = |n| is_admitted(&once, 2, &headers(&format!("n{n}"), ""), now);
        assert_eq!((0..100).filter(|n| within(*n)).count(), MOST_SENDINGS);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let (once, now) = (Once::default(), Instant::now());
        let signature = |number: usize| {
            let mut signature = [0; 32];
            signature[..8].copy_from_slice(&number.to_be_bytes());
            signature
        };
        for number in 0..MOST + 100 {
            once.admit(signature(number), &HeaderMap::new(), now).unwrap();
            // What is refused takes no place, however often it comes.
            assert!(once.admit(signature(number), &HeaderMap::new(), now).is_err());
        }
        let known = once.known.borrow();
        assert_eq!(known.uses.len(), known.order.len());
        assert!(known.order.len() <= MOST, "{}", known.order.len());
        drop(known);
        // The last of those that are remembered, and the first.
        assert!(once.admit(signature(MOST + 99), &HeaderMap::new(), now).is_err());
        assert!(once.admit(signature(101), &HeaderMap::new(), now).is_err());
        assert!(once.admit(signature(0), &HeaderMap::new(), now).is_ok());
    }

    #[test]
    fn what_cannot_be_sent_again_is_forgotten() {
        let (once, now) = (Once::default(), Instant::now());
        assert!(is_admitted(&once, 1, &HeaderMap::new(), now));
        assert!(is_admitted(&once, 2, &HeaderMap::new(), now + MEMORY + Duration::from_secs(1)));
        assert_eq!(once.known.borrow().uses.len(), 1);
    }
}
