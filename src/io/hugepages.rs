//! How many hugepages the machine has to spare, read before DPDK starts: it decides whether packets
//! and flow tables lie in them.

use std::fs;
use std::io;
use std::path::Path;

/// Where the kernel tells.
const FOLDER: &str = "/sys/kernel/mm/hugepages";

/// Hugepages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageSize {
    /// Size of a page in KiB.
    pub kib: u64,
    /// Pages reserved in all.
    pub total: u64,
    /// Pages that nobody uses or has a claim on.
    pub free: u64,
}

/// The hugepages of a machine, by size, smallest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hugepages {
    /// One entry a size that the kernel knows.
    pub sizes: Vec<PageSize>,
}

impl Hugepages {
    /// Those of this machine; none if the kernel has no hugepages.
    ///
    /// # Errors
    /// When the kernel's files cannot be read, or hold something else than a number.
    pub fn of_this_machine() -> io::Result<Hugepages> {
        Hugepages::read(Path::new(FOLDER))
    }

    fn read(folder: &Path) -> io::Result<Hugepages> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Hugepages::default()),
            entries => entries?,
        };
        let mut sizes = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let kib = name
                .to_str()
                .and_then(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok());
            let Some(kib) = kib else { continue };
            let number = |file: &str| {
                let path = entry.path().join(file);
                fs::read_to_string(&path)?.trim().parse::<u64>().map_err(|error| {
                    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
                })
            };
            // Reserved pages are counted as free by the kernel until they are touched.
            let free = number("free_hugepages")?.saturating_sub(number("resv_hugepages")?);
            sizes.push(PageSize { kib, total: number("nr_hugepages")?, free });
        }
        sizes.sort_unstable();
        Ok(Hugepages { sizes })
    }

    /// What is free in pages of all sizes, in MiB.
    pub fn free_mb(&self) -> u64 {
        self.sizes.iter().map(|size| size.kib.saturating_mul(size.free)).sum::<u64>() / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(sizes: &[(u64, u64, u64, u64)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("folder");
        for (kib, total, free, reserved) in sizes {
            let size = folder.path().join(format!("hugepages-{kib}kB"));
            fs::create_dir(&size).expect("folder");
            for (file, number) in
                [("nr_hugepages", total), ("free_hugepages", free), ("resv_hugepages", reserved)]
            {
                fs::write(size.join(file), format!("{number}\n")).expect("file");
            }
        }
        folder
    }

    #[test]
    fn free_pages_of_all_sizes_are_added_up_without_those_that_are_spoken_for() {
        let folder = machine(&[(1_048_576, 2, 1, 0), (2048, 512, 200, 50)]);
        let pages = Hugepages::read(folder.path()).expect("readable");
        assert_eq!(
            pages.sizes,
            [PageSize { kib: 2048, total: 512, free: 150 }, PageSize { kib: 1_048_576, total: 2, free: 1 },]
        );
        assert_eq!(pages.free_mb(), 300 + 1024);
    }

    #[test]
    fn a_kernel_without_hugepages_has_none() {
        let folder = tempfile::tempdir().expect("folder");
        let pages = Hugepages::read(&folder.path().join("nothing")).expect("no error");
        assert_eq!(pages.free_mb(), 0);
    }

    #[test]
    fn a_file_that_holds_no_number_is_named() {
        let folder = machine(&[(2048, 1, 1, 0)]);
        fs::write(folder.path().join("hugepages-2048kB/nr_hugepages"), "many").expect("file");
        let error = Hugepages::read(folder.path()).expect_err("no number").to_string();
        assert!(error.contains("hugepages-2048kB/nr_hugepages"), "{error}");
    }
}
