//! Flags by which long lists are had a part at a time, as `aws` has them.

#![forbid(unsafe_code)]

use clap::Args;

/// Verbs that list fetch all pages and print them as one list, unless something else is said.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct Paging {
    /// Fetch so many at a time, up to 400; all are printed in any case.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=400))]
    pub(in crate::cli) page_size: Option<u64>,
    /// Print so many at most, and a NextToken if there are more.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(in crate::cli) max_items: Option<u64>,
    /// Go on after what was printed before: its NextToken.
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) starting_token: Option<String>,
    /// Print one page alone, with the NextMarker by which the next one is had.
    #[arg(long, conflicts_with_all = ["max_items", "starting_token"])]
    pub(in crate::cli) no_paginate: bool,
    /// The same from there on: the NextMarker of the page before.
    #[arg(long, conflicts_with_all = ["max_items", "starting_token"])]
    pub(in crate::cli) marker: Option<String>,
}

/// A verb's own flags, and those of lists.
#[derive(Debug, Args)]
pub(in crate::cli) struct Listing<F: Args> {
    #[command(flatten)]
    pub(in crate::cli) what: F,
    #[command(flatten)]
    pub(in crate::cli) part: Paging,
}

/// No flags of its own.
#[derive(Debug, Args)]
pub(in crate::cli) struct NoFlags {}
