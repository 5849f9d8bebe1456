//! Batches (JSON-RPC 2.0, section 6): an array of requests on one line, answered by an array.
//!
//! Each element is cut out and read by itself, as a line would be. Promises that a batch costs no more memory than its
//! line and one pointer an element; how its answers are sent bit by bit is the connection's.

#![forbid(unsafe_code)]

use super::rpc::{self, INVALID_REQUEST, RpcError};
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Requests in one batch. An answer is up to a hundred times as long as its request, so that a line of the
/// shortest would be answered without end.
pub const MAX_BATCH: usize = 1000;

/// The elements of `line` if it is a batch; none if it is anything else.
///
/// # Errors
/// When it is no JSON, is empty, or has too many elements: one error for the whole.
pub(super) fn elements(line: &[u8]) -> Option<Result<Vec<&[u8]>, RpcError>> {
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace())?;
    (*first == b'[').then(|| cut(line))
}

fn cut(line: &[u8]) -> Result<Vec<&[u8]>, RpcError> {
    let Elements(elements) = serde_json::from_slice(line).map_err(|error| rpc::not_json(line, &error))?;
    match elements.len() {
        0 => Err(RpcError::new(INVALID_REQUEST, "InvalidRequest", "an empty batch")),
        1..=MAX_BATCH => Ok(elements),
        _ => {
            let message = format!("a batch of more than {MAX_BATCH} requests; none was carried out");
            Err(RpcError::new(INVALID_REQUEST, "BatchTooLong", message).hint("divide the batch into several"))
        }
    }
}

/// The elements of an array, uncut; of too many, one more than there may be.
struct Elements<'a>(Vec<&'a [u8]>);

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Array;

        impl<'de> Visitor<'de> for Array {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of requests")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Elements<'de>, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = array.next_element::<&RawValue>()? {
                    if elements.len() <= MAX_BATCH {
                        elements.push(element.get().as_bytes());
                    }
                }
                Ok(Elements(elements))
            }
        }

        deserializer.deserialize_seq(Array)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rpc::PARSE_ERROR;
    use super::*;
    use proptest::prelude::*;

    fn texts(line: &str) -> Vec<&str> {
        let elements = elements(line.as_bytes()).unwrap().unwrap();
        elements.into_iter().map(|element| std::str::from_utf8(element).unwrap()).collect()
    }

    fn fault(line: &[u8]) -> (i32, String) {
        let error = elements(line).unwrap().unwrap_err();
        (error.code, error.data.kind)
    }

    #[test]
    fn the_elements_are_cut_out_as_they_stand() {
        assert_eq!(
            texts(r#" [ {"a" : [1, "]"]},2 , "x\n,", [] ]"#),
            [r#"{"a" : [1, "]"]}"#, "2", r#""x\n,""#, "[]"]
        );
    }

    #[test]
    fn what_is_no_array_is_no_batch() {
        for line in ["", "  ", "{}", "{\"a\":[1]}", "7", "x[", "\"[\""] {
            assert!(elements(line.as_bytes()).is_none(), "{line:?}");
        }
    }

    #[test]
    fn a_batch_is_as_long_as_it_may_be_and_no_longer() {
        let of = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert_eq!(texts(&of(MAX_BATCH)).len(), MAX_BATCH);
        assert_eq!(fault(of(MAX_BATCH + 1).as_bytes()), (INVALID_REQUEST, "BatchTooLong".to_owned()));
        assert_eq!(fault(of(500_000).as_bytes()), (INVALID_REQUEST, "BatchTooLong".to_owned()));
        assert_eq!(fault(b"[ ]"), (INVALID_REQUEST, "InvalidRequest".to_owned()));
    }

    #[test]
    fn what_is_wrong_with_the_whole_is_one_parse_error() {
        for line in [&b"["[..], b"[1", b"[1,]", b"[1]]", b"[1] 2", b"[\"\xff\"]", b"[{]}", b"[1 2]"] {
            assert_eq!(fault(line), (PARSE_ERROR, "ParseError".to_owned()), "{line:?}");
        }
    }

    #[test]
    fn nesting_without_end_is_cut_without_recursion() {
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(texts(&deep), [&deep[1..deep.len() - 1]]);
    }

    proptest! {
        #[test]
        fn any_bytes_after_a_bracket_are_elements_or_an_error(rest in proptest::collection::vec(any::<u8>(), 0..60)) {
            let line = [b"[", &rest[..]].concat();
            let seen = elements(&line).unwrap();
            let expected = serde_json::from_slice::<Vec<serde_json::Value>>(&line);
            prop_assert_eq!(seen.is_ok(), expected.is_ok_and(|array| !array.is_empty()));
        }
    }
}
