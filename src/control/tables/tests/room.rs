//! Where there is room for the files and where there is none: in file systems of the tests' own, which only a process in a mount
//! namespace of its own sees.

use std::path::Path;
use std::process::Command;

use super::*;

/// What tells the inner half of a test where to work.
const INNER: &str = "FLOWGATE_TABLES_TEST_FOLDER";

/// Runs a test of this module by itself where `mount` has mounted what it needs, below a folder that `$FOLDER` names.
fn where_mounted(mount: &str, test: &str) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-e", "-c"])
        .arg(format!("{mount}\nexec \"$0\" --exact --ignored --nocapture \"$1\""))
        .arg(std::env::current_exe().unwrap())
        .arg(format!("control::tables::tests::room::{test}"))
        .env("FOLDER", folder.path())
        .env(INNER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// A node whose tables lie where nobody said they should.
fn node_in(folder: &Path) -> Node {
    let mut node = Node::new();
    node.folder = tempfile::tempdir_in(folder).unwrap();
    node.settings.directory = None;
    node
}

fn inner_folder() -> PathBuf {
    std::env::var_os(INNER).expect("the outer half of the test says").into()
}

#[test]
fn a_full_memory_file_system_is_told_and_nothing_is_left_in_it() {
    where_mounted("mount -t tmpfs -o size=18m tmpfs /dev/shm", "in_a_full_memory_file_system");
}

/// 18 MiB: the file that says what the tables are fits in, and one worker's does not.
#[test]
#[ignore = "the inner half of another test"]
fn in_a_full_memory_file_system() {
    let node = node_in(Path::new("/tmp"));
    let tables = node.open();
    let told = tables.restart.sentence();
    let Outcome::NotKept(why) = &tables.restart.outcome else { panic!("{told}") };
    assert!(
        why.contains("cannot take the memory for /dev/shm/flowgate.") && why.contains("No space left"),
        "{told}"
    );
    assert!(!told.contains('\n'), "{told}");
    assert!(tables.workers.iter().all(|worker| worker.table.is_empty() && worker.links.is_none()));
    assert!(tables.restart.adopt_until.is_none(), "nothing was there to be lost");
    let folder = node.settings.folder(node.folder.path());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "what was made is taken away");

    // There is room now, and then no more: what is there is taken over all the same.
    let remount = |size: &str| {
        let done = Command::new("mount").args(["-o", &format!("remount,size={size}"), "/dev/shm"]).status();
        assert!(done.unwrap().success());
    };
    drop(tables);
    remount("64m");
    let mut tables = node.open();
    assert_eq!(tables.restart.outcome, Outcome::First);
    hand_on(&tables);
    insert(&mut tables.workers[0].table, 1);
    drop(tables);
    let filler = vec![0; 1 << 20];
    let mut number = 0;
    while std::fs::write(format!("/dev/shm/filler-{number}"), &filler).is_ok() {
        number += 1;
    }
    let tables = node.open();
    assert_eq!((&tables.restart.outcome, tables.restart.kept), (&Outcome::TakenOver, 1));
    let last = resume::lock(&tables.keeper).last().cloned().unwrap();
    resume::lock(&tables.keeper)
        .keep(Resume {
            gateways: vec![crate::control::model::Name::try_from("gw".to_owned()).unwrap()],
            ..last
        })
        .unwrap();
}

/// Huge pages that the kernel has; put back when dropped.
struct Reserved(u64);

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

impl Reserved {
    fn more(pages: u64) -> Option<Reserved> {
        let now = || std::fs::read_to_string(RESERVED).ok()?.trim().parse::<u64>().ok();
        let before = now()?;
        std::fs::write(RESERVED, (before + pages).to_string()).ok()?;
        let reserved = Reserved(before);
        (now()? >= before + pages).then_some(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        std::fs::write(RESERVED, self.0.to_string()).unwrap();
    }
}

#[test]
fn tables_in_reserved_pages_are_taken_over_from_there() {
    let Some(_reserved) = Reserved::more(4) else {
        eprintln!("not tested: the kernel reserves no huge pages of 2 MiB here");
        return;
    };
    let mount = "mkdir \"$FOLDER/huge\" && mount -t hugetlbfs -o pagesize=2M none \"$FOLDER/huge\"";
    where_mounted(mount, "in_reserved_pages");
}

#[test]
#[ignore = "the inner half of another test"]
fn in_reserved_pages() {
    let folder = inner_folder();
    let node = node_in(Path::new("/tmp"));
    let plan = || Plan { pages: Pages::Huge, ..node.plan() };
    let open = || NodeTables::open(&plan()).unwrap();
    let mut tables = open();
    assert_eq!(tables.restart.outcome, Outcome::First);
    let pages: Vec<String> = tables.workers.iter().map(|worker| worker.table.pages().to_string()).collect();
    assert_eq!(pages, ["hugepages of 2 MiB"; 2]);
    let folders: Vec<PathBuf> = tables.folders().map(Path::to_owned).collect();
    assert!(folders.iter().any(|path| path.starts_with(&folder)), "{folders:?}");
    hand_on(&tables);
    for n in 0..100 {
        tables.workers.iter_mut().for_each(|worker| insert(&mut worker.table, n));
    }
    tables.workers.iter_mut().for_each(|worker| worker.table.note_round(tables.clock.now(), true));
    drop(tables);
    let tables = open();
    let Restart { outcome, kept, refused, .. } = &tables.restart;
    assert_eq!((outcome, kept, refused), (&Outcome::TakenOver, &180, &20));
    assert_eq!(tables.workers[1].table.pages().to_string(), "hugepages of 2 MiB");
    drop(tables);
    // Of another capacity: those of before are given back, and the new ones find room.
    let bigger = Plan { capacity: 2048, ..plan() };
    let tables = NodeTables::open(&bigger).unwrap();
    assert!(matches!(tables.restart.outcome, Outcome::Lost(_)), "{:?}", tables.restart);
    assert_eq!(tables.workers[0].table.pages().to_string(), "hugepages of 2 MiB");
    let shm = node.settings.folder(node.folder.path());
    drop(tables);
    std::fs::remove_dir_all(shm).unwrap();
}
