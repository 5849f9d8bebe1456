//! `flowgate top` in a terminal of tmux, beside a real gateway: what its operator reads there when an appliance
//! dies under load, and that the numbers are those that the gateway counted.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::lab::gateway::Attributes;
use crate::lab::tmux::{Tmux, unbroken};
use crate::lab::traffic::{Connection, PATIENCE, is_silent, must_be_reset, udp_pair};
use crate::lab::{Family, Lab, wait_for};

/// Datagrams through the gateway, until it is dropped: some for each appliance.
struct Load {
    stop: Arc<AtomicBool>,
    senders: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start(lab: &Lab, flows: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let sender = |_| {
            let (client, server) = udp_pair(lab, Family::V4);
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    client.send(&[7; 200]).expect("the kernel takes it");
                    thread::sleep(Duration::from_millis(2));
                }
                drop(server);
            })
        };
        Load { senders: (0..flows).map(sender).collect(), stop }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.senders.drain(..).for_each(|sender| drop(sender.join()));
    }
}

/// The columns of the row of `target`.
fn row(screen: &str, target: Ipv4Addr) -> Vec<String> {
    let address = target.to_string();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows = screen.lines().map(words);
    let mut of_target = rows.filter(|words| words.iter().take(2).any(|word| *word == address));
    of_target.next().unwrap_or_else(|| panic!("{target} is not on the screen:\n{screen}"))
}

const ATTRIBUTES: Attributes<'_> = Attributes {
    target_group: &[
        ("send_tcp_reset.on_unhealthy.enabled", "true"),
        ("send_tcp_reset.on_deregistration.enabled", "true"),
        ("deregistration_delay.timeout_seconds", "60"),
    ],
    listener: &[],
};

// H-5, R-1, R-8, T-3
#[test]
fn what_happens_when_an_appliance_dies_under_load_is_read_from_the_screen() {
    let mut lab = Lab::started(3, ATTRIBUTES);
    let load = Load::start(&lab, 12);
    let mut connections: Vec<Connection> = (0..12).map(|_| lab.connect(Family::V4)).collect();
    let dead = lab.appliance_of(&connections[0]);
    let address = lab.appliances[dead].address;
    let (mut dying, living): (Vec<_>, Vec<_>) =
        connections.drain(..).partition(|connection| lab.appliance_of(connection) == dead);

    let tmux = Tmux::top(&lab, 80, 24);
    let screen = tmux.wait_until("said that all is well, with rates", |screen| {
        screen.contains("Nothing is wrong: 3 healthy.") && !screen.contains("- packets/s")
    });
    assert_eq!(row(&screen, address)[1..2], ["healthy"], "{screen}");
    assert!(screen.contains("inspection -> firewalls     3/3"), "{screen}");

    lab.kill_reflector(dead);
    let screen = tmux.wait_for(&format!("!! firewalls/{address} is unhealthy"));
    println!("{screen}");
    let flows = lab.gateway().rpc.must("get-overview", serde_json::json!({}));
    let target = |overview: &serde_json::Value| {
        let targets = overview["TargetGroups"][0]["Targets"].as_array().expect("a list").clone();
        targets.into_iter().find(|target| target["Address"] == address.to_string()).expect("it is there")
    };
    assert_eq!(target(&flows)["State"], "unhealthy");
    for connection in &mut dying {
        // The next packet of its client is answered with a reset.
        drop(std::io::Write::write_all(&mut connection.client, b"anybody there?"));
        must_be_reset(&mut connection.client);
    }
    // A worker tells what it counted a moment after it has sent it.
    let resets = wait_for("every reset to be counted", PATIENCE, || {
        Some(lab.counted("TCP_ELB_Reset_Count")).filter(|resets| *resets >= dying.len() as u64)
    });
    assert!(resets > 0);
    let screen = tmux.wait_until("the resets", |screen| {
        unbroken(screen)
            .contains(&format!("{} reset in the last minute", crate::lab::flows(dying.len() as u64)))
            && screen.contains("TCP resets sent (unhealthy)")
    });
    println!("{screen}");
    // The dead one is on top, with what the gateway counted for it, and so says the line of its load balancer.
    let first = screen.lines().find(|line| line.starts_with("! ")).expect("a row with a sign");
    assert!(first.contains(&address.to_string()), "{screen}");
    let words = row(&screen, address);
    assert_eq!(words[2], "unhealthy", "{screen}");
    assert_eq!(words.last(), Some(&resets.to_string()), "{screen}");
    assert_eq!(
        target(&lab.gateway().rpc.must("get-overview", serde_json::json!({})))["Traffic"]["Resets"]["Unhealthy"],
        resets
    );
    let balancer = screen.lines().find(|line| line.starts_with("inspection -> firewalls")).expect("its line");
    assert!(balancer.contains(" 2/3 ") && balancer.ends_with(&format!(" {resets}")), "{screen}");
    assert!(screen.contains("health  firewalls/"), "the event:\n{screen}");

    // The target in full.
    tmux.press(&["Enter"]);
    let screen = tmux.wait_for("failover   1 at ");
    println!("{screen}");
    assert!(screen.contains(&format!("firewalls/{address} of inspection")), "{screen}");
    assert!(
        screen.contains("Target.FailedHealthChecks") && screen.contains("Connection refused"),
        "{screen}"
    );
    assert!(screen.contains(&format!("{resets} resets sent")), "{screen}");
    assert!(screen.contains(&format!("{} reset, 0 moved", dying.len())), "its failover:\n{screen}");
    assert!(screen.contains("WHAT HAPPENED TO IT") && screen.contains("TCP resets sent"), "{screen}");
    tmux.press(&["Escape"]);

    // It comes back, and another one is drained from here.
    lab.start_reflector(dead, &[]);
    lab.wait_for_state(dead, "healthy");
    let screen = tmux.wait_until("all three in", |screen| screen.contains(" 3/3 "));
    assert!(!screen.contains("is unhealthy"), "{screen}");
    let leaving = lab.appliance_of(&living[0]);
    let name = lab.appliances[leaving].address.to_string();
    tmux.press(&["/"]);
    tmux.press(&["-l", &name]);
    tmux.press(&["Enter"]);
    tmux.wait_for(&format!("[1 with '{name}']"));
    tmux.press(&["d"]);
    let screen = tmux.wait_for(&format!("Drain firewalls/{name}?"));
    println!("{screen}");
    assert!(screen.contains("would be drained, then reset."), "{screen}");
    assert_eq!(lab.state_of(leaving).expect("known").0, "healthy", "not before it is wanted");
    tmux.press(&["y"]);
    let screen = tmux.wait_for("DRAINS");
    println!("{screen}");
    assert!(screen.contains(&format!("firewalls/{name}: ")), "{screen}");
    assert_eq!(lab.state_of(leaving).expect("known").0, "draining");

    // However small: what matters is on it, and it is still the same view.
    tmux.run(&["resize-window", "-x", "10", "-y", "3"]);
    let screen = tmux.wait_for("2/3 in");
    assert_eq!(screen.lines().count(), 3, "{screen}");
    println!("{screen}");
    tmux.run(&["resize-window", "-x", "120", "-y", "40"]);
    // What was said of the drain has had its time, and the keys are there again.
    tmux.wait_for("tab next part");
    tmux.press(&["q"]);
    let screen = tmux.wait_for("ENDED WITH 0");
    assert!(!screen.contains("EVENTS"), "the screen from before is there again:\n{screen}");
    drop(load);
    drop(living);
}

#[test]
fn on_a_terminal_of_10x3_from_the_start_a_failover_is_seen() {
    let mut lab = Lab::started(2, ATTRIBUTES);
    let mut connection = lab.connect(Family::V4);
    let dead = lab.appliance_of(&connection);
    let tmux = Tmux::top(&lab, 10, 3);
    tmux.wait_until("said that all is well", |screen| {
        screen.contains("2/2 in") && screen.contains("all well")
    });
    lab.kill_reflector(dead);
    let screen = tmux.wait_for("1/2 in");
    assert!(screen.contains("1 wrong"), "{screen}");
    assert!(is_silent(&mut connection.client, Duration::from_millis(50)));
    // The daemon goes, and comes back.
    lab.stop_gateway();
    tmux.wait_for("NO DAEMON");
    lab.start_gateway();
    tmux.wait_for("/2 in");
    tmux.press(&["C-c"]);
    tmux.wait_for("ENDED");
}
