//! A disk that does not answer: a file system of the test's own, frozen as a storage network freezes one that is lost.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;

use crate::lab::gateway::{Attributes, TARGET_GROUP};
use crate::lab::rpc::Rpc;
use crate::lab::{Lab, wait_for};

/// An ext4 in a file, under `folder`. It is seen by this thread and by what it starts.
struct Disk(PathBuf);

impl Disk {
    /// None where the kernel lends no loop device.
    fn under(folder: &Path, image: &Path) -> Option<Disk> {
        unshare(CloneFlags::CLONE_NEWNS).expect("as root");
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("of our own");
        let bytes = std::fs::File::create(image).and_then(|file| file.set_len(16 << 20));
        bytes.expect("the lab's folder is writable");
        std::fs::create_dir_all(folder).expect("the lab's folder is writable");
        must(Command::new("mkfs.ext4").arg("-q").arg(image));
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(image).arg(folder).status();
        mounted.expect("mount is installed").success().then(|| Disk(folder.to_owned()))
    }

    fn freeze(&self) {
        must(Command::new("fsfreeze").arg("-f").arg(&self.0));
    }

    fn thaw(&self) {
        must(Command::new("fsfreeze").arg("-u").arg(&self.0));
    }
}

impl Drop for Disk {
    /// Else a daemon that waits for it could not even be killed. If it is not frozen that fails, and nothing is wrong.
    fn drop(&mut self) {
        Command::new("fsfreeze").arg("-u").arg(&self.0).output().ok();
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

fn must(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}");
}

// H-7
#[test]
fn a_disk_that_hangs_holds_up_the_change_and_neither_health_nor_questions() {
    let mut lab = Lab::new(1);
    let Some(disk) = Disk::under(&lab.path("state"), &lab.path("image")) else {
        println!("left out: there is no loop device");
        return;
    };
    lab.start_all(Attributes::default());
    disk.freeze();
    let socket = lab.path("flowgated.sock");
    let change = std::thread::spawn(move || {
        let attributes = json!([{"Key": "deregistration_delay.timeout_seconds", "Value": "7"}]);
        let params = json!({"TargetGroupArn": TARGET_GROUP, "Attributes": attributes});
        Rpc::new(socket).call("modify-target-group-attributes", params)
    });
    std::thread::sleep(Duration::from_millis(300));
    let delay = |lab: &Lab| {
        let answer = lab
            .gateway()
            .rpc
            .must("describe-target-group-attributes", json!({"TargetGroupArn": TARGET_GROUP}));
        let attributes = answer["Attributes"].as_array().expect("a list").clone();
        let one = attributes.into_iter().find(|one| one["Key"] == "deregistration_delay.timeout_seconds");
        one.expect("it has this one")["Value"].as_str().expect("text").to_owned()
    };
    let asked = Instant::now();
    assert_eq!(delay(&lab), "300", "what is not on disk is not so yet");
    assert!(asked.elapsed() < Duration::from_secs(1), "a question took {:?}", asked.elapsed());
    lab.kill_reflector(0);
    lab.gateway().events.state_of(lab.appliances[0].address, "unhealthy");
    assert!(!change.is_finished(), "the disk answers");
    let waits = wait_for("the change that waits to be told", Duration::from_secs(20), || {
        let overview = lab.gateway().rpc.must("get-overview", json!({}));
        let troubles = overview["Troubles"].as_array().expect("a list").clone();
        let waits = troubles.into_iter().find(|trouble| trouble["Kind"] == "store-waits")?;
        let [now, since] =
            [&overview["At"], &waits["Since"]].map(|at| at["UnixMs"].as_u64().expect("a number"));
        Some((now - since, waits["Severity"].clone()))
    });
    assert!((5000..7000).contains(&waits.0) && waits.1 == "critical", "{waits:?}");
    disk.thaw();
    change.join().expect("no panic").expect("it was accepted");
    assert_eq!(delay(&lab), "7");
    // It was stored before it was answered.
    lab.kill_gateway();
    lab.start_gateway();
    assert_eq!(delay(&lab), "7");
    lab.stop_gateway();
}
