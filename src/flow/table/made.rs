//! How a table comes to be: in memory of its own, in a fresh file, or in a file where another process left one.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io;

use thiserror::Error;

use super::header::Identity;
use super::{Header, MAX_CAPACITY, NotThisTable, Table, TableConfig, TableError};
use crate::flow::cookie::CookieLayout;
use crate::flow::entry::{Entry, FlowState};
use crate::flow::free::FreeRing;
use crate::flow::index::{Bucket, Index};
use crate::flow::kept_links::{KeptLink, KeptLinks, LINKS};
use crate::flow::memory::Carver;
use crate::flow::pages::FilePages;
use crate::flow::queue::Queue;

/// A file for a table.
#[derive(Debug)]
pub struct InFile<'a> {
    /// It is as long as [`TableConfig::file_bytes`] says.
    pub file: &'a File,
    /// What pages it has.
    pub pages: FilePages,
    /// Tells the tables of one making from those of any other.
    pub making: u64,
}

/// Why there is no table in a file.
#[derive(Debug, Error)]
pub enum NotFound {
    /// It is not the one.
    #[error(transparent)]
    NotThis(#[from] NotThisTable),
    /// It cannot be had.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// How large everything is.
#[derive(Clone, Copy)]
struct Sizes {
    buckets: u32,
    queue: u32,
    bytes: usize,
}

impl Sizes {
    fn of(capacity: u32) -> Result<Sizes, TableError> {
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(TableError::Capacity(capacity));
        }
        let buckets = Index::buckets_for(capacity);
        let lines = (size_of::<Header>() / 64) as u64 + u64::from(buckets) + u64::from(capacity) + 1;
        let queue = Queue::places_for(capacity);
        let numbers = u64::from(capacity) + 2 * u64::from(queue);
        let bytes = usize::try_from(lines * 64 + numbers * 4).unwrap_or(usize::MAX);
        Ok(Sizes { buckets, queue, bytes })
    }

    /// With the link-layer headers, which only a table in a file has.
    fn in_file(&self, pages: FilePages) -> usize {
        let links = (usize::from(LINKS) + 1) * size_of::<KeptLink>() + 64;
        pages.whole(self.bytes.saturating_add(links))
    }
}

/// How long a file for a table of so many flows is, in bytes.
///
/// # Errors
/// If the capacity is out of range.
pub fn file_bytes(capacity: u32, pages: FilePages) -> Result<usize, TableError> {
    Ok(Sizes::of(capacity)?.in_file(pages))
}

impl TableConfig {
    fn sizes(&self) -> Result<Sizes, TableError> {
        Sizes::of(self.capacity)
    }

    /// How long a file for such a table is.
    ///
    /// # Errors
    /// If the capacity is out of range.
    pub fn file_bytes(&self, pages: FilePages) -> Result<usize, TableError> {
        file_bytes(self.capacity, pages)
    }

    fn identity(&self, making: u64) -> Result<Identity, TableError> {
        let cookies = CookieLayout::new(u32::from(self.workers), self.capacity)?;
        let identity = Identity {
            capacity: self.capacity,
            buckets: self.sizes()?.buckets,
            worker: u16::from(self.worker.0),
            workers: u16::from(self.workers),
            cookie_bits: cookies.bits(),
            making,
            seed_id: self.seed.id(),
            ..Identity::blank()
        };
        Ok(identity.sealed())
    }
}

impl Table {
    /// Maps and touches the table's memory. To be called on the core that will use it, so that it comes from
    /// that core's memory; it is the only call that may take long.
    ///
    /// # Errors
    /// If the capacity is out of range, cookies would have too few bits, or memory is short.
    pub fn new(config: TableConfig) -> Result<Table, TableError> {
        let bytes = config.sizes()?.bytes;
        config.identity(0)?;
        let carver = Carver::map(bytes, config.pages).map_err(config.no_memory(bytes))?;
        let mut table = Table::over(&config, carver)?;
        table.begin_empty(config.identity(0)?);
        Ok(table)
    }

    /// An empty table in a file that is all zeros.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub fn create_in(config: &TableConfig, place: &InFile<'_>) -> Result<Table, TableError> {
        let mut table = Table::map_in(config, place)?;
        table.begin_empty(config.identity(place.making)?);
        Ok(table)
    }

    /// The table that another process has left in a file, as it was left. To be
    /// [taken over](Table::take_over) before anything else is asked of it.
    ///
    /// # Errors
    /// If it is another table, or as [`Table::new`].
    pub fn find_in(config: &TableConfig, place: &InFile<'_>) -> Result<Table, NotFound> {
        let identity = config.identity(place.making)?;
        let table = Table::map_in(config, place)?;
        table.header.at(0).identity.must_be(&identity)?;
        Ok(table)
    }

    pub(super) fn map_in(config: &TableConfig, place: &InFile<'_>) -> Result<Table, TableError> {
        let bytes = config.file_bytes(place.pages)?;
        let carver = Carver::map_file(place.file, bytes, place.pages).map_err(config.no_memory(bytes))?;
        let mut carver = carver;
        let mut table = Table::over_carved(config, &mut carver)?;
        let links = carver.carve::<KeptLink>(u32::from(LINKS) + 1);
        let short = || config.no_memory(bytes)(io::ErrorKind::OutOfMemory.into());
        table.kept_links = Some(KeptLinks::new(links.ok_or_else(short)?));
        Ok(table)
    }

    fn over(config: &TableConfig, mut carver: Carver) -> Result<Table, TableError> {
        Table::over_carved(config, &mut carver)
    }

    fn over_carved(config: &TableConfig, carver: &mut Carver) -> Result<Table, TableError> {
        let &TableConfig { capacity, worker, workers, ref seed, .. } = config;
        let Sizes { buckets, queue, bytes } = config.sizes()?;
        let cookies = CookieLayout::new(u32::from(workers), capacity)?;
        let short = || config.no_memory(bytes)(io::ErrorKind::OutOfMemory.into());
        let header = carver.carve::<Header>(1).ok_or_else(short)?;
        let index = Index::new(carver.carve::<Bucket>(buckets).ok_or_else(short)?);
        let mut entries = carver.carve::<Entry>(capacity + 1).ok_or_else(short)?;
        entries.at_mut(capacity).free_torn(0);
        let free = FreeRing::new(carver.carve::<u32>(capacity).ok_or_else(short)?);
        let half_open = Queue::new(carver.carve::<u32>(queue).ok_or_else(short)?, capacity);
        let ended = Queue::new(carver.carve::<u32>(queue).ok_or_else(short)?, capacity);
        Ok(Table {
            header,
            index,
            entries,
            free,
            half_open,
            ended,
            seed: seed.clone(),
            cookies,
            own_cookies: cookies.own(worker),
            kept_links: None,
            pages: carver.kind(),
            bytes: carver.len(),
        })
    }

    fn begin_empty(&mut self, identity: Identity) {
        let capacity = self.capacity();
        let header = self.header.at_mut(0);
        header.changing.counts[FlowState::Free.index()] = capacity;
        header.identity = identity;
    }

    /// Where the link-layer headers are kept that flows refer to; `None` in memory of its own, which nobody takes over.
    pub fn kept_links(&mut self) -> Option<KeptLinks> {
        self.kept_links.take()
    }
}

impl TableConfig {
    fn no_memory(&self, bytes: usize) -> impl Fn(io::Error) -> TableError {
        let capacity = self.capacity;
        move |source| TableError::Memory { capacity, bytes, source }
    }
}
