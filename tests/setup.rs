//! `scripts/setup` on a made-up host: a folder with the files of the kernel and of `/etc` that it reads, and programs that
//! stand for driverctl, modprobe and the like. What it does it says first, does once, and puts back exactly.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A made-up host.
struct Fake {
    folder: tempfile::TempDir,
}

/// Cards: a free one, one in use, a disk controller, one of Mellanox.
const FREE: &str = "0000:3b:00.0";
const IN_USE: &str = "0000:3b:00.1";
const DISKS: &str = "0000:5e:00.0";
const MELLANOX: &str = "0000:c1:00.0";

impl Fake {
    fn new() -> Fake {
        let fake = Fake { folder: tempfile::tempdir().expect("a temporary folder") };
        fs::create_dir(fake.path("")).expect("writable");
        fs::create_dir(fake.tools()).expect("writable");
        for (path, text) in [
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n"),
            ("sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/kernel/iommu_groups/7/type", "DMA\n"),
            ("proc/cmdline", "quiet\n"),
            ("proc/cpuinfo", "vendor_id : GenuineIntel\n"),
            ("etc/security/limits.d/flowgate.conf", "# an older one\n"),
        ] {
            fake.write(path, text);
        }
        for (address, vendor, class, driver, interface) in [
            (FREE, "0x8086", "0x020000", "ice", "ens1f0"),
            (IN_USE, "0x8086", "0x020000", "ice", "ens1f1"),
            (DISKS, "0x1000", "0x010700", "mpt3sas", ""),
            (MELLANOX, "0x15b3", "0x020000", "mlx5_core", "ens2"),
        ] {
            let device = format!("sys/bus/pci/devices/{address}");
            fake.write(&format!("{device}/vendor"), &format!("{vendor}\n"));
            fake.write(&format!("{device}/class"), &format!("{class}\n"));
            symlink(format!("../../drivers/{driver}"), fake.path(&format!("{device}/driver")))
                .expect("writable");
            if !interface.is_empty() {
                fs::create_dir_all(fake.path(&format!("{device}/net/{interface}"))).expect("writable");
            }
        }
        let root = fake.path("");
        let root = root.display();
        let rebind = format!("ln -sfn ../../drivers/$2 {root}/sys/bus/pci/devices/$1/driver");
        fake.tool("rebind", &rebind);
        fake.tool("modprobe", &format!("[ $1 = -r ] && {{ rm -rf {root}/sys/module/$(echo $2 | tr - _); exit; }}\nmkdir -p {root}/sys/module/$(echo $1 | tr - _)"));
        fake.tool("update-grub", "echo anew");
        fake.tool("ip", "[ $5 = ens1f1 ] && echo '3: ens1f1 inet 10.0.0.9/24'\nexit 0");
        // All that is needed is installed.
        fake.tool("dpkg-query", "echo installed");
        fake.tool(
            "driverctl",
            &format!(
                "if [ $1 = set-override ]; then mkdir -p {root}/etc/driverctl.d; echo $3 > {root}/etc/driverctl.d/$2; rebind $2 $3\n\
                 else rm {root}/etc/driverctl.d/$2; rmdir {root}/etc/driverctl.d; rebind $2 ice; fi"
            ),
        );
        fake
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    fn tools(&self) -> PathBuf {
        self.folder.path().join("tools")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(path, text).expect("writable");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn tool(&self, name: &str, script: &str) {
        let path = self.tools().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writable");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }

    fn without_driverctl(self) -> Fake {
        fs::remove_file(self.tools().join("driverctl")).expect("it is there");
        self.tool("dpdk-devbind.py", "[ $1 = -b ] && rebind $3 $2");
        self
    }

    fn run(&self, words: &str) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/setup");
        let mut command = Command::new(script);
        command.args(words.split_whitespace()).env("FLOWGATE_SETUP_ROOT", self.folder.path().join("root"));
        // Nothing of this machine's own that would change it.
        command.env("PATH", format!("{}:/usr/bin:/bin", self.tools().display()));
        command.stdin(std::process::Stdio::null()).output().expect("the script runs")
    }

    /// What it says when all goes well.
    fn must(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// What it says on standard error when it refuses.
    fn refused(&self, words: &str) -> String {
        let before = self.all();
        let output = self.run(words);
        assert!(!output.status.success(), "{words}: {output:?}");
        assert_eq!(self.all(), before, "{words} changed something");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Every file, link and empty folder of the host.
    fn all(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.path("")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("readable") {
                let path = entry.expect("readable").path();
                let kind = fs::symlink_metadata(&path).expect("readable").file_type();
                let content = if kind.is_symlink() {
                    format!("-> {}", fs::read_link(&path).expect("a link").display())
                } else if kind.is_dir() {
                    folders.push(path);
                    continue;
                } else {
                    fs::read_to_string(&path).expect("text")
                };
                all.insert(path, content.trim_end().to_owned());
            }
        }
        all
    }
}

const EVERYTHING: &str = "--hugepages 512 --hugepages 256 --node 1 --bind 0000:3b:00.0 --governor --memory-lock --isolate 2-9,12 --packages";

#[test]
fn it_says_first_what_it_will_do_and_does_nothing_without_leave() {
    let fake = Fake::new();
    let before = fake.all();
    for leave in ["--dry-run", ""] {
        let said = fake.must(&format!("{EVERYTHING} {leave}"));
        for words in [
            "reserve 512 pages of 2 MiB now (there are 16)",
            "reserve 256 pages of 2 MiB on NUMA node 1 now (there are 0)",
            "have it so at each boot (/etc/systemd/system/flowgate-hugepages.service)",
            "load the module vfio-pci",
            "hand the card 0000:3b:00.0 (driver ice) to vfio-pci, now and at each boot, by driverctl",
            "at full frequency now (its governor is powersave)",
            "keep the cores 2-9,12 for workers from the next boot on: isolcpus=managed_irq,domain,2-9,12 nohz_full=2-9,12 rcu_nocbs=2-9,12",
            "lock memory without limit",
        ] {
            assert!(said.contains(words), "{words} is missing from {said}");
        }
        assert_eq!(said.contains("nothing was done: --yes does it"), leave.is_empty(), "{said}");
        assert_eq!(fake.all(), before);
    }
}

#[test]
fn it_does_once_what_it_said_and_puts_back_exactly_that() {
    for fake in [Fake::new(), Fake::new().without_driverctl()] {
        let before = fake.all();
        fake.must(&format!("{EVERYTHING} --yes"));
        assert_eq!(fake.read("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "512");
        assert_eq!(fake.read("sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"), "256");
        let unit = fake.read("etc/systemd/system/flowgate-hugepages.service");
        let line =
            "ExecStart=/bin/sh -c 'echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages'\n";
        assert!(unit.contains(line) && unit.contains("echo 256 > /sys/devices/system/node/node1/"), "{unit}");
        let enabled = fake.path("etc/systemd/system/multi-user.target.wants/flowgate-hugepages.service");
        assert!(fs::symlink_metadata(enabled).expect("it is enabled").is_symlink());
        let driver = fs::read_link(fake.path(&format!("sys/bus/pci/devices/{FREE}/driver"))).expect("a link");
        assert!(driver.ends_with("vfio-pci"));
        assert!(
            fake.read("etc/default/grub.d/flowgate-isolate.cfg")
                .contains("isolcpus=managed_irq,domain,2-9,12 ")
        );
        assert!(fake.read("etc/security/limits.d/flowgate.conf").contains("@flowgate - memlock unlimited"));

        let done = fake.all();
        let said = fake.must(&format!("{EVERYTHING} --yes"));
        assert!(said.starts_with("nothing to do: all is so already\n"), "{said}");
        assert_eq!(fake.all(), done, "the second run changed something");

        // More of a kind is added to what is there.
        fake.must("--hugepages 600 --yes");
        let unit = fake.read("etc/systemd/system/flowgate-hugepages.service");
        assert!(
            unit.contains("echo 600 > ") && unit.contains("echo 256 > ") && !unit.contains("echo 512"),
            "{unit}"
        );

        assert!(fake.must("--undo --yes").ends_with("all is as it was\n"));
        assert_eq!(fake.all(), before);
        assert_eq!(fake.must("--undo --yes"), "there is nothing to put back\n");
    }
}

#[test]
fn without_driverctl_a_unit_binds_the_card_at_boot() {
    let fake = Fake::new().without_driverctl();
    fake.must(&format!("--bind {FREE} --yes"));
    let unit = fake.read("etc/systemd/system/flowgate-bind.service");
    assert!(unit.contains(&format!("dpdk-devbind.py -b vfio-pci {FREE}\n")), "{unit}");
}

#[test]
fn what_was_changed_since_is_left_alone_and_told() {
    let fake = Fake::new();
    fake.must("--hugepages 512 --memory-lock --governor --yes");
    fake.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "700\n");
    fake.write("etc/security/limits.d/flowgate.conf", "# by hand\n");
    let output = fake.run("--undo --yes");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    for path in ["nr_hugepages: it was changed since", "limits.d/flowgate.conf: it was changed since"] {
        assert!(said.contains(path), "{said}");
    }
    assert_eq!(fake.read("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "700\n");
    assert_eq!(fake.read("etc/security/limits.d/flowgate.conf"), "# by hand\n");
    assert_eq!(fake.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), "powersave");
}

#[test]
fn what_cannot_be_put_back_is_tried_again() {
    let fake = Fake::new();
    let before = fake.all();
    fake.must(&format!("--bind {FREE} --memory-lock --yes"));
    let driverctl = fs::read_to_string(fake.tools().join("driverctl")).expect("text");
    fake.tool("driverctl", "exit 1");
    let output = fake.run("--undo --yes");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("this could not be put back, and --undo tries it again: driverctl {FREE}")),
        "{said}"
    );
    assert_eq!(fake.read("etc/security/limits.d/flowgate.conf"), "# an older one\n", "the rest was");
    fs::write(fake.tools().join("driverctl"), driverctl).expect("writable");
    fake.must("--undo --yes");
    assert_eq!(fake.all(), before);
}

#[test]
fn a_step_that_fails_ends_it_and_what_was_done_can_be_put_back() {
    let fake = Fake::new();
    let before = fake.all();
    fake.tool("driverctl", "[ $1 = unset-override ] || { echo 'no such device' >&2; exit 1; }");
    let output = fake.run(&format!("--hugepages 512 --bind {FREE} --memory-lock --yes"));
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no such device") && said.contains("--undo puts it back"), "{said}");
    assert_eq!(
        fake.read("etc/security/limits.d/flowgate.conf"),
        "# an older one\n",
        "what came after it was not done"
    );
    assert_eq!(fake.read("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "512");
    fake.must("--undo --yes");
    assert_eq!(fake.all(), before);
}

#[test]
fn a_value_that_cannot_be_written_is_a_step_that_fails() {
    let fake = Fake::new();
    fs::remove_dir_all(fake.path("sys/kernel/iommu_groups")).expect("it is there");
    let before = fake.all();
    // The module comes without the switch.
    let output = fake.run("--noiommu --memory-lock --yes");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("that did not work"), "{said}");
    assert_eq!(fake.read("etc/security/limits.d/flowgate.conf"), "# an older one\n", "nothing came after it");
    fake.must("--undo --yes");
    assert_eq!(fake.all(), before);
}

#[test]
fn what_was_saved_is_kept_until_it_is_back_whatever_is_done_in_between() {
    let fake = Fake::new();
    let before = fake.all();
    fake.must("--hugepages 512 --memory-lock --yes");
    fake.tool("cp", "echo 'cp: no room' >&2; exit 1");
    let output = fake.run("--undo --yes");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("this could not be put back, and --undo tries it again: file /etc/security/limits.d"),
        "{said}"
    );
    fs::remove_file(fake.tools().join("cp")).expect("it is there");
    fake.must("--isolate 2-9 --governor --hugepages 256 --yes");
    fake.must("--undo --yes");
    assert_eq!(fake.all(), before);
}

#[test]
fn packages_that_others_need_stay_and_are_told() {
    let fake = Fake::new();
    // Who needs the library has come later.
    fake.tool(
        "apt-get",
        "case \"$*\" in *-s*) ;; *) echo \"$*\" >> $FLOWGATE_SETUP_ROOT/../apt ;; esac\n\
         for word in \"$@\"; do case $word in\n\
         purge | -s | -y) ;;\n\
         librte-*) echo \"Purg $word [22.11]\"; echo 'Remv flowgate [0.1]' ;;\n\
         *) echo \"Purg $word [1]\" ;;\n\
         esac; done",
    );
    let packages =
        |names: &str| fake.write("var/lib/flowgate-setup/journal", &format!("packages {names} \n"));
    packages("driverctl librte-eal23 librte-ring23 pciutils");
    let output = fake.run("--undo --yes");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the packages librte-eal23 librte-ring23 stay, as others need them: flowgate\n"),
        "{said}"
    );
    let done = || fs::read_to_string(fake.folder.path().join("apt")).expect("text");
    assert_eq!(done(), "purge -y driverctl pciutils\n");
    packages("driverctl pciutils");
    fake.must("--undo --yes");
    assert_eq!(done(), "purge -y driverctl pciutils\npurge -y driverctl pciutils\n");
    // A simulation that fails takes nothing out.
    fake.tool("apt-get", "exit 100");
    packages("driverctl");
    let output = fake.run("--undo --yes");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("this could not be put back") && !output.status.success(), "{said}");
}

#[test]
fn what_would_cut_a_host_off_or_cannot_be_is_refused_and_nothing_is_done() {
    let fake = Fake::new();
    for (words, said) in [
        (
            format!("--bind {IN_USE} --yes"),
            "ens1f1 (0000:3b:00.1) has addresses, and you may be connected by it",
        ),
        (format!("--bind {DISKS} --yes"), "0000:5e:00.0 is no network card (class 0x010700)"),
        (format!("--bind {MELLANOX} --force --yes"), "is a card of Mellanox"),
        ("--bind 0000:77:00.0 --yes".to_owned(), "there is no PCI device 0000:77:00.0"),
        ("--bind 3b:00.0 --yes".to_owned(), "'3b:00.0' is no PCI address such as 0000:3b:00.0"),
        ("--hugepages many --yes".to_owned(), "--hugepages needs a number of pages"),
        ("--hugepages 4 --node 3 --yes".to_owned(), "no pages of 2 MiB on NUMA node 3"),
        ("--hugepages-1g 4 --yes".to_owned(), "this machine has no pages of 1 GiB"),
        ("--isolate all --yes".to_owned(), "'all' is no list of cores"),
        ("--noiommu --yes".to_owned(), "the IOMMU is on"),
        ("--nonsense".to_owned(), "there is no option '--nonsense'"),
        // One that cannot be keeps all from being done.
        (format!("--hugepages 512 --bind {DISKS} --yes"), "is no network card"),
    ] {
        let told = fake.refused(&words);
        assert!(told.contains(said) && told.lines().count() == 1, "{words}: {told}");
    }
    fake.must(&format!("--bind {IN_USE} --force --yes"));
}

#[test]
fn without_an_iommu_a_card_is_handed_out_only_if_that_is_asked_for() {
    let fake = Fake::new();
    fs::remove_dir_all(fake.path("sys/kernel/iommu_groups")).expect("it is there");
    let before = fake.all();
    assert!(fake.refused(&format!("--bind {FREE} --yes")).contains("the IOMMU is off"));
    let said = fake.must("--iommu --dry-run");
    assert!(said.contains("turn the IOMMU on from the next boot on: intel_iommu=on iommu=pt"), "{said}");
    // The switch is there once the module is.
    let switch = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    fake.write(switch, "N\n");
    let with_switch = fake.all();
    fake.must(&format!("--bind {FREE} --noiommu --yes"));
    assert_eq!(fake.read(switch), "Y");
    assert!(
        fake.read("etc/modprobe.d/flowgate-vfio.conf").contains("options vfio enable_unsafe_noiommu_mode=1")
    );
    fake.must("--undo --yes");
    assert_eq!(fake.all(), with_switch);
    assert_ne!(before, with_switch);
}

/// The kernel's own hugepages, on this machine: eight more, and back again.
#[test]
fn real_hugepages_are_reserved_and_put_back_as_they_were_found() {
    let folder = Path::new("/sys/kernel/mm/hugepages");
    let path = folder.join("hugepages-2048kB/nr_hugepages");
    let count = || fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let (Some(before), true) = (count(), is_root) else {
        eprintln!("not tried: no hugepages, or not root");
        return;
    };
    let fake = Fake::new();
    fs::remove_dir_all(fake.path("sys/kernel/mm/hugepages")).expect("it is there");
    symlink(folder, fake.path("sys/kernel/mm/hugepages")).expect("writable");
    fake.must(&format!("--hugepages {} --yes", before + 8));
    let during = count();
    fake.must("--undo --yes");
    assert_eq!((during, count()), (Some(before + 8), Some(before)));
}
