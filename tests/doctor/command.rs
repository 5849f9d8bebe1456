//! The command itself: exit codes, forms, records of this machine.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::folder;

fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowgate"));
    command.arg("doctor").args(arguments).env_remove("FLOWGATE_SOCKET").env_remove("FLOWGATE_OUTPUT");
    command.output().expect("the command runs")
}

fn host(name: &str) -> String {
    format!("{}/tests/doctor/hosts/{name}.txt", env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn the_exit_code_says_how_bad_it_is() {
    for (name, code) in [("e810", 0), ("virtio", 7), ("two-sockets", 8), ("just-racked", 8)] {
        let output = doctor(&["--root", &host(name)]);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stdout));
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    }
    let output = doctor(&["--root", "/no/such/record"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert_eq!(
        text(&output.stderr),
        "flowgate: cannot read /no/such/record: No such file or directory (os error 2)\n"
    );
}

#[test]
fn it_is_json_for_programs_and_can_be_queried() {
    let output = doctor(&["--root", &host("two-sockets"), "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["Host"], &report["Worst"]), (&"gw-two-sockets".into(), &"problem".into()));
    let output = doctor(&[
        "--root",
        &host("two-sockets"),
        "--output",
        "text",
        "--query",
        "Items[?Verdict=='problem'].[Id,Object,Verdict]",
    ]);
    assert_eq!(text(&output.stdout), "iommu-group\ttargets\tproblem\n");
}

#[test]
fn what_is_not_well_is_told_with_its_reason_and_its_command() {
    let shown = text(&doctor(&["--root", &host("two-sockets"), "--brief"]).stdout);
    for words in [
        "warning      NUMA node 1: 0 MiB are free there",
        "to mend it: scripts/setup --hugepages 1801 --node 1 --yes",
        "why it matters: Memory of another NUMA node",
        "more of it: docs/bare-metal.md#hugepages-node",
        // The same of several ports is said once.
        "left, right, targets: the card is on node 0, and workers run on node 1",
    ] {
        assert!(shown.contains(words), "{words} is missing from\n{shown}");
    }
    // Where the package is, its own script is named.
    let packaged = text(&doctor(&["--root", &host("virtio"), "--brief"]).stdout);
    let words = "to mend it: /usr/share/flowgate/scripts/setup --hugepages 256 --yes";
    assert!(packaged.contains(words) && !packaged.contains(" scripts/setup"), "{packaged}");
    assert!(!shown.contains("  ok "), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

/// Both forms of a record of this machine say of it what the machine itself says.
#[test]
fn this_machine_is_recorded_without_what_is_none_of_anybodys_business() {
    let (_kept, root) = folder();
    let config = root.join("node.toml");
    let seed = "5a".repeat(32);
    let ring = "framecnt=4096,blocksz=65536,framesz=2048";
    std::fs::write(
        &config,
        format!(
            "hash_seed = \"{seed}\"\nstate_directory = \"{0}/state\"\n[socket]\npath = \"{0}/socket\"\n[workers]\ncores = [0]\n\
             [[ports]]\nname = \"lan\"\ndevice = \"net_af_packet0,iface=lo,{ring}\"\n[[ports]]\nname = \"under\"\ndevice = \"net_null0\"\nmtu = 1600\n\
             [underlay]\nport = \"under\"\naddress = \"192.0.2.1/24\"\n\
             [[endpoints]]\nname = \"a\"\nid = 1\nkind = \"routed\"\nload_balancer = \"gw\"\n\
             [[endpoints.interfaces]]\nport = \"lan\"\naddresses = [\"10.1.0.1/24\"]\n",
            root.display()
        ),
    )
    .expect("writable");
    let config = config.display().to_string();
    for name in ["record.txt", "record"] {
        let path = root.join(name).display().to_string();
        let live = doctor(&["--config", &config, "--record", &path, "--json"]);
        assert!(live.stderr.is_empty(), "{}", text(&live.stderr));
        let again = doctor(&["--root", &path, "--json"]);
        assert_eq!(text(&again.stdout), text(&live.stdout), "{name}");
        assert_eq!(again.status.code(), live.status.code());
        let all = everything_in(Path::new(&path));
        assert!(!all.contains(&seed), "the hash seed is in {name}");
        assert!(all.contains("name = \"lan\""), "{all}");
        let line = std::fs::read_to_string("/proc/cmdline").expect("readable");
        let private = line.split_whitespace().filter(|word| word.contains("root=") || word.contains("init"));
        for word in private {
            assert!(!all.contains(word), "{word} of the kernel's command line is in {name}");
        }
    }
    let again = doctor(&["--config", &config, "--record", &root.join("record").display().to_string()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("the folder is not empty"), "{}", text(&again.stderr));
}

fn everything_in(path: &Path) -> String {
    if path.is_file() {
        return std::fs::read_to_string(path).expect("text");
    }
    let folder = std::fs::read_dir(path).into_iter().flatten();
    folder.map(|entry| everything_in(&entry.expect("readable").path())).collect()
}
