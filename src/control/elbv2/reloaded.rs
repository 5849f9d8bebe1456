//! What is read of files, and read again when they are other files: keys and certificates are renewed while the
//! daemon runs.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::rc::Rc;

/// Something made of files. What was read last stays in force as long as what is there now cannot be read.
pub struct Reloaded<T> {
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, String>>,
    present: RefCell<(Stamp, Rc<T>)>,
}

/// What tells one state of the files from another: each one's inode, size and time of its last change.
type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

impl<T> Reloaded<T> {
    /// What `read` makes of the files at `paths`.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn new(paths: Vec<PathBuf>, read: impl Fn() -> Result<T, String> + 'static) -> Result<Self, String> {
        let stamp = stamp(&paths);
        let present = RefCell::new((stamp, Rc::new(read()?)));
        Ok(Reloaded { paths, read: Box::new(read), present })
    }

    /// What the files say now.
    pub fn present(&self) -> Rc<T> {
        let mut present = self.present.borrow_mut();
        let stamp = stamp(&self.paths);
        if stamp != present.0 {
            // Stamped before it is read: what is written meanwhile is read the next time.
            present.0 = stamp;
            match (self.read)() {
                Ok(renewed) => {
                    tracing::info!(name: "elbv2_files_read", files = ?self.paths, "the elbv2 endpoint's files were read anew");
                    present.1 = Rc::new(renewed);
                }
                Err(error) => {
                    tracing::error!(
                        name: "elbv2_files_refused", files = ?self.paths, error,
                        "the elbv2 endpoint's files cannot be read; what was read before stays in force"
                    );
                }
            }
        }
        Rc::clone(&present.1)
    }
}

fn stamp(paths: &[PathBuf]) -> Stamp {
    let of = |path: &PathBuf| {
        let file = fs::metadata(path).ok()?;
        Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    };
    paths.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_has_changed_and_only_if_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        let put = |text: &str| {
            let draft = folder.path().join("draft");
            fs::write(&draft, text).unwrap();
            fs::rename(&draft, &path).unwrap();
        };
        put("1");
        let read = {
            let path = path.clone();
            move || fs::read_to_string(&path).unwrap_or_default().parse::<u32>().map_err(|e| e.to_string())
        };
        let number = Reloaded::new(vec![path.clone()], read.clone()).unwrap();
        assert_eq!(*number.present(), 1);
        put("22");
        assert_eq!(*number.present(), 22);
        put("no number");
        assert_eq!(*number.present(), 22);
        fs::remove_file(&path).unwrap();
        assert_eq!(*number.present(), 22);
        put("3");
        assert_eq!(*number.present(), 3);
        put("no number");
        assert!(Reloaded::new(vec![path], read).is_err());
    }
}
