//! Long lists, a page at a time, as AWS has it: `PageSize` and `Marker` in, `NextMarker` out.
//!
//! A marker is the key of the last object of its page, so that objects which come and go between two
//! pages neither hide another nor show one twice.

#![forbid(unsafe_code)]

use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many objects a page holds at most: 1–400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "i64", into = "i64")]
#[schemars(extend("minimum" = 1, "maximum" = 400))]
pub struct PageSize(u16);

impl PageSize {
    /// The largest page that AWS gives, which is also the size of its pages where none is asked for.
    pub const MAX: PageSize = PageSize(400);

    /// The number.
    pub fn get(self) -> usize {
        self.0.into()
    }
}

impl TryFrom<i64> for PageSize {
    type Error = String;

    fn try_from(size: i64) -> Result<PageSize, String> {
        match u16::try_from(size) {
            Ok(size) if (1..=PageSize::MAX.0).contains(&size) => Ok(PageSize(size)),
            _ => Err(format!("'PageSize' value '{size}' must be between '1-{}' inclusive", PageSize::MAX.0)),
        }
    }
}

impl From<PageSize> for i64 {
    fn from(size: PageSize) -> i64 {
        size.0.into()
    }
}

/// How a list is ordered, which decides what comes after a marker whose object is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By key: the objects whose keys are greater.
    ByKey,
    /// As it was asked for: nobody knows.
    AsAsked,
}

/// The page of `items` after `marker`, and the marker of the next page if there is more. Without a
/// size a page has all of the rest. Items of an earlier item's key are left out.
pub(super) fn page<T>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> &str,
    order: Order,
    marker: Option<&str>,
    size: Option<PageSize>,
) -> Result<(Vec<T>, Option<String>), RpcError> {
    let mut items: Vec<T> = items.into_iter().collect();
    if order == Order::AsAsked {
        let mut seen = std::collections::HashSet::new();
        items.retain(|item| seen.insert(key(item).to_owned()));
    }
    if let Some(marker) = marker {
        let start = match items.iter().position(|item| key(item) == marker) {
            Some(last) => last + 1,
            None if order == Order::ByKey => items.partition_point(|item| key(item) < marker),
            None => {
                let shown: String = marker.chars().take(64).collect();
                let message = format!("'{shown}' is not a marker of the list that is asked for");
                return Err(RpcError::invalid_params("Marker", message));
            }
        };
        items.drain(..start);
    }
    let mut next = None;
    if let Some(PageSize(size)) = size
        && items.len() > usize::from(size)
    {
        items.truncate(size.into());
        next = items.last().map(|item| key(item).to_owned());
    }
    Ok((items, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(items: &[&'static str], order: Order, size: u16) -> Vec<Vec<&'static str>> {
        let (mut all, mut marker) = (Vec::new(), None);
        loop {
            let asked = items.iter().copied();
            let (one, next) =
                page(asked, |item| item, order, marker.as_deref(), Some(PageSize(size))).expect("a page");
            all.push(one);
            match next {
                Some(next) => marker = Some(next),
                None => return all,
            }
            assert!(all.len() < 100, "pages without end");
        }
    }

    #[test]
    fn pages_together_are_the_list() {
        let items = ["a", "b", "c", "d", "e"];
        assert_eq!(pages(&items, Order::ByKey, 2), [&["a", "b"][..], &["c", "d"], &["e"]]);
        assert_eq!(pages(&items, Order::ByKey, 5), [items], "no empty page at the end");
        assert_eq!(pages(&[], Order::ByKey, 1), [[""; 0]]);
        assert_eq!(pages(&["b", "a", "b", "b", "c"], Order::AsAsked, 1), [["b"], ["a"], ["c"]]);
    }

    #[test]
    fn an_object_that_went_between_two_pages_hides_no_other() {
        let after = |items: &[&'static str], order, marker: &str| {
            page(items.iter().copied(), |item| item, order, Some(marker), None).map(|(items, _)| items)
        };
        assert_eq!(after(&["a", "c", "d"], Order::ByKey, "b"), Ok(vec!["c", "d"]));
        assert_eq!(after(&["a"], Order::ByKey, "b"), Ok(vec![]));
        let error = after(&["a"], Order::AsAsked, "b").expect_err("nobody knows what came after it");
        assert_eq!(error.data.path.as_deref(), Some("Marker"));
    }

    #[test]
    fn a_page_has_1_to_400_objects() {
        for (size, fits) in [(0, false), (1, true), (400, true), (401, false), (65_537, false), (-1, false)] {
            assert_eq!(PageSize::try_from(size).is_ok(), fits, "{size}");
        }
    }
}
