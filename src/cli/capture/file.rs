//! Where the capture is written. What is there is whole at any moment: if the disk is full, what of the last blocks did
//! not fit is taken away again.

#![forbid(unsafe_code)]

use super::blocks;
use crate::cli::client::CliError;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file, or standard output.
pub(super) struct Sink {
    path: PathBuf,
    /// `None`: standard output.
    file: Option<File>,
    packets: u64,
    bytes: u64,
}

impl Sink {
    /// A new file, in place of one that is there. Only its owner may read it, as it has what passed the gateway.
    pub(super) fn open(path: &Path) -> Result<Sink, CliError> {
        let file = if path.as_os_str() == "-" {
            None
        } else {
            let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
            Some(opened.map_err(|error| CliError::Capture {
                path: path.into(),
                error,
                packets: 0,
                bytes: 0,
            })?)
        };
        Ok(Sink { path: path.to_owned(), file, packets: 0, bytes: 0 })
    }

    /// Its name for people.
    pub(super) fn name(&self) -> String {
        if self.file.is_some() { self.path.display().to_string() } else { "standard output".to_owned() }
    }

    /// Writes whole blocks.
    pub(super) fn write(&mut self, blocks: &[u8]) -> Result<(), CliError> {
        let (written, result) = match &mut self.file {
            Some(file) => write_as_much(file, blocks),
            None => write_as_much(&mut io::stdout().lock(), blocks),
        };
        let whole = blocks::whole(blocks.get(..written).unwrap_or(blocks));
        self.packets += whole.packets;
        self.bytes += whole.len as u64;
        let Err(error) = result else { return Ok(()) };
        let Some(file) = &self.file else {
            return Err(match error.kind() {
                io::ErrorKind::BrokenPipe => CliError::ReaderGone,
                _ => CliError::Output(error),
            });
        };
        // Of what is no file (a pipe with a name, a device) nothing can be taken away.
        file.set_len(self.bytes).ok();
        let (packets, bytes) = (self.packets, self.bytes);
        Err(CliError::Capture { path: self.path.clone(), error, packets, bytes })
    }
}

/// How much was written, and why not all.
fn write_as_much(to: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match to.write(rest) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, to.flush())
}
