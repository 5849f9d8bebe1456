//! A file that is replaced as a whole or not at all, whenever the power goes: the new text goes to
//! a file beside it, that is made durable, takes the old one's name, and the folder is made durable
//! too.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The steps of a replacement, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The new file is made, empty.
    Create,
    /// The text is written to it.
    Write,
    /// The new file is made durable.
    SyncFile,
    /// The new file takes the old one's name.
    Rename,
    /// The folder, and with it the new name, is made durable.
    SyncFolder,
}

/// The disk as `replace` sees it; tests stand between the steps here, and see what was made durable.
pub(super) trait Disk {
    /// Called before every step; its error is the step's.
    fn before(&mut self, step: Step) -> io::Result<()>;

    /// Makes a file's bytes, or a folder's names, durable.
    fn sync(&mut self, file: &File) -> io::Result<()>;
}

/// The real one.
pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn before(&mut self, _: Step) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_all()
    }
}

/// Replaces `folder/name` by `text`, under the permissions `mode`.
///
/// On an error the file holds what it held, or, if it was the last step that failed, already `text`.
pub(super) fn replace(
    folder: &Path,
    name: &str,
    mode: u32,
    text: &[u8],
    disk: &mut impl Disk,
) -> io::Result<()> {
    let new = beside(folder, name);
    disk.before(Step::Create)?;
    // What a crash may have left there could have other permissions, or be a link.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    disk.before(Step::Write)?;
    file.write_all(text)?;
    disk.before(Step::SyncFile)?;
    disk.sync(&file)?;
    disk.before(Step::Rename)?;
    fs::rename(&new, folder.join(name))?;
    disk.before(Step::SyncFolder)?;
    disk.sync(&File::open(folder)?)
}

/// Makes `folder` and whatever is missing above it, each under the permissions `mode` and each
/// durable in the folder that it is in.
pub(super) fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                make_folder(parent, mode)?;
                make_folder(folder, mode)
            }
            _ => Err(error),
        },
        Err(error) => Err(error),
        Ok(()) => match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent),
            _ => sync_folder(Path::new(".")),
        },
    }
}

/// Makes the names in `folder` durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Where the text goes before it takes the name.
fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.new"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    const STEPS: [Step; 5] = [Step::Create, Step::Write, Step::SyncFile, Step::Rename, Step::SyncFolder];

    /// Fails before the step `last`, and remembers what was made durable: which file or folder, and
    /// how long it was at the time.
    #[derive(Default)]
    struct Watched {
        last: Option<Step>,
        steps: Vec<Step>,
        durable: Vec<(Step, u64, u64)>,
    }

    impl Disk for Watched {
        fn before(&mut self, step: Step) -> io::Result<()> {
            self.steps.push(step);
            if Some(step) == self.last { Err(io::Error::other("the power went")) } else { Ok(()) }
        }

        fn sync(&mut self, file: &File) -> io::Result<()> {
            let metadata = file.metadata()?;
            let step = *self.steps.last().expect("no sync comes before the first step");
            self.durable.push((step, metadata.ino(), metadata.len()));
            RealDisk.sync(file)
        }
    }

    fn replace_until(folder: &Path, text: &[u8], last: Option<Step>) -> io::Result<()> {
        replace(folder, "file", 0o600, text, &mut Watched { last, ..Watched::default() })
    }

    #[test]
    fn wherever_it_ends_the_file_holds_the_old_text_or_the_new_and_nothing_else() {
        for last in STEPS {
            let folder = tempfile::tempdir().expect("a folder");
            let read = || fs::read(folder.path().join("file")).expect("the file");
            replace_until(folder.path(), b"old", None).expect("nothing in the way");
            replace_until(folder.path(), b"new", Some(last)).expect_err("it was interrupted");
            let expected: &[u8] = if last == Step::SyncFolder { b"new" } else { b"old" };
            assert_eq!(read(), expected, "interrupted before {last:?}");
            // And what was left lying about is not in the way of the next.
            replace_until(folder.path(), b"next", None).expect("nothing in the way");
            assert_eq!(read(), b"next", "after one that was interrupted before {last:?}");
        }
    }

    #[test]
    fn the_text_is_durable_before_it_takes_the_name_and_the_name_before_it_is_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut disk = Watched::default();
        replace(folder.path(), "file", 0o600, b"text", &mut disk).expect("nothing in the way");
        assert_eq!(disk.steps, STEPS);
        let file = fs::metadata(folder.path().join("file")).expect("the file");
        let names = fs::metadata(folder.path()).expect("the folder");
        assert_eq!(
            disk.durable,
            [(Step::SyncFile, file.ino(), 4), (Step::SyncFolder, names.ino(), names.len())]
        );
    }

    #[test]
    fn permissions_are_those_asked_for_also_after_a_crash() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(beside(folder.path(), "file"), "left by a crash").expect("a file");
        replace_until(folder.path(), b"secret", None).expect("nothing in the way");
        let mode = fs::metadata(folder.path().join("file")).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
