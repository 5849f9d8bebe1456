//! Against a real kernel: a veth pair between two network namespaces, ours and a neighbour's.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::*;
use crate::control::neighbours::{Action, Heard, Hop, Neighbours};
use crate::id::InterfaceId;
use crate::wire::ethernet::MacAddr;

const INTERFACE: InterfaceId = InterfaceId(3);
const PATIENCE: Duration = Duration::from_secs(20);

/// Two namespaces of this test's own, joined by a link; gone when dropped.
struct Pair {
    ours: String,
    theirs: String,
}

impl Pair {
    fn new(what: &str) -> Pair {
        let name = |side: &str| format!("fgnl-{}-{what}-{side}", std::process::id());
        let pair = Pair { ours: name("a"), theirs: name("b") };
        for netns in [&pair.ours, &pair.theirs] {
            ip(&format!("netns add {netns}"));
            for key in ["default/accept_dad", "all/accept_dad", "default/router_solicitations"] {
                run(
                    "ip",
                    &format!("netns exec {netns} sysctl -qw net.ipv6.conf.{}=0", key.replace('/', ".")),
                );
            }
        }
        let (ours, theirs) = (&pair.ours, &pair.theirs);
        ip(&format!("link add host0 netns {ours} type veth peer name eth0 netns {theirs}"));
        ip(&format!("-n {ours} link set host0 up"));
        ip(&format!("-n {theirs} link set eth0 address 02:00:00:00:00:0a up"));
        ip(&format!("-n {theirs} addr add 10.77.0.2/24 dev eth0"));
        ip(&format!("-n {theirs} addr add 2001:db8:77::2/64 dev eth0 nodad"));
        pair
    }

    /// The neighbour's machine gets another link-layer address, and says so by a gratuitous ARP.
    fn change_mac(&self) {
        run("ip", &format!("netns exec {} sysctl -qw net.ipv4.conf.eth0.arp_notify=1", self.theirs));
        ip(&format!("-n {} link set eth0 address 02:00:00:00:00:0b", self.theirs));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for netns in [&self.ours, &self.theirs] {
            // There is nothing more to be done about one that cannot be taken away.
            Command::new("ip").args(["netns", "del", netns]).status().ok();
        }
    }
}

fn ip(words: &str) {
    run("ip", words);
}

fn run(program: &str, words: &str) {
    let status = Command::new(program).args(words.split_whitespace()).status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{program} {words}: {status:?}");
}

/// Runs `test` on a thread inside our namespace of a pair. No other test's thread is moved.
fn inside<T: Send>(pair: &Pair, test: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let netns = std::fs::File::open(format!("/run/netns/{}", pair.ours)).expect("it is there");
            nix::sched::setns(netns, nix::sched::CloneFlags::CLONE_NEWNET).expect("the tests run as root");
            test()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The state machine on a real kernel, as the control core drives it.
struct Driven {
    neighbours: Neighbours,
    questions: mpsc::Sender<Hop>,
    news: mpsc::UnboundedReceiver<News>,
    told: Vec<(Hop, Option<MacAddr>)>,
    addresses: Vec<IpAddr>,
    up: Option<bool>,
}

impl Driven {
    async fn until(&mut self, what: &str, reached: impl Fn(&Driven) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !reached(self) {
            assert!(Instant::now() < deadline, "waited in vain for {what}: {:?}", self.told);
            if let Ok(Some(news)) = tokio::time::timeout(Duration::from_millis(10), self.news.recv()).await {
                match news {
                    News::Neighbour(heard) => self.neighbours.heard(heard, Instant::now()),
                    News::Addresses(INTERFACE, addresses) => self.addresses = addresses,
                    News::Link(INTERFACE, up) => self.up = Some(up),
                    other => panic!("of no interface of ours: {other:?}"),
                }
            }
            self.neighbours.tick(Instant::now());
            self.act();
        }
    }

    fn act(&mut self) {
        for action in self.neighbours.take_actions() {
            match action {
                Action::Ask(hop) => self.questions.try_send(hop).expect("there is room"),
                Action::Tell(hop, mac) => self.told.push((hop, mac)),
            }
        }
    }

    fn name(&mut self, hops: &[Hop]) {
        self.neighbours.name(hops.iter().copied().collect(), Instant::now());
        self.act();
    }
}

fn driven(pair: &Pair, test: impl AsyncFnOnce(&mut Driven) + Send) {
    inside(pair, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (questions, asked) = mpsc::channel(64);
        let (tell, news) = mpsc::unbounded_channel();
        let watched = vec![Watched { link: "host0".to_owned(), interface: INTERFACE }];
        let mut driven = Driven {
            neighbours: Neighbours::default(),
            questions,
            news,
            told: Vec::new(),
            addresses: Vec::new(),
            up: None,
        };
        runtime.block_on(async {
            tokio::select! {
                () = watch(watched, asked, tell) => panic!("it ends only when nobody hears it"),
                () = test(&mut driven) => {}
            }
        });
    });
}

fn hop(address: &str) -> Hop {
    Hop { interface: INTERFACE, address: address.parse().expect("an address") }
}

#[test]
fn a_neighbour_is_resolved_followed_to_another_address_and_given_up_when_it_is_gone() {
    let pair = Pair::new("follow");
    ip(&format!("-n {} addr add 10.77.0.1/24 dev host0", pair.ours));
    ip(&format!("-n {} addr add 2001:db8:77::1/64 dev host0 nodad", pair.ours));
    // A machine that is gone is given up in two seconds in the place of eight.
    for (family, key) in [("ipv4", "delay_first_probe_time"), ("ipv6", "delay_first_probe_time")] {
        run("ip", &format!("netns exec {} sysctl -qw net.{family}.neigh.host0.{key}=1", pair.ours));
        run(
            "ip",
            &format!("netns exec {} sysctl -qw net.{family}.neigh.host0.retrans_time_ms=300", pair.ours),
        );
        run(
            "ip",
            &format!(
                "netns exec {} sysctl -qw net.{family}.neigh.host0.base_reachable_time_ms=1000",
                pair.ours
            ),
        );
    }
    let (v4, v6) = (hop("10.77.0.2"), hop("2001:db8:77::2"));
    let [first, second] = [10, 11].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
    driven(&pair, async |driven| {
        driven.until("the link", |driven| driven.up == Some(true)).await;
        let own: [IpAddr; 2] = ["10.77.0.1", "2001:db8:77::1"].map(|text| text.parse().expect("an address"));
        let known = |driven: &Driven| own.iter().all(|address| driven.addresses.contains(address));
        driven.until("our addresses", known).await;
        driven.name(&[v4, v6]);
        driven.until("both families", |driven| driven.told.len() == 2).await;
        assert!(driven.told.contains(&(v4, Some(first))) && driven.told.contains(&(v6, Some(first))));

        driven.told.clear();
        let began = Instant::now();
        pair.change_mac();
        driven.until("the new address", |driven| driven.told.contains(&(v4, Some(second)))).await;
        assert!(began.elapsed() < Duration::from_secs(2), "a gratuitous ARP is heard at once");

        driven.told.clear();
        // The link stays up, so that the kernel has no reason of its own to look: without being asked again
        // it would keep the neighbour, stale, for ever.
        ip(&format!("-n {} addr del 10.77.0.2/24 dev eth0", pair.theirs));
        driven.until("the end of it", |driven| driven.told.contains(&(v4, None))).await;
        assert_eq!(driven.neighbours.mac(&v4), None);

        driven.told.clear();
        ip(&format!("-n {} addr add 10.77.0.2/24 dev eth0", pair.theirs));
        driven.until("its return", |driven| driven.told.contains(&(v4, Some(second)))).await;
    });
}

#[test]
fn a_question_before_the_first_account_is_kept_until_the_links_are_known() {
    let pair = Pair::new("early");
    ip(&format!("-n {} addr add 10.77.0.1/24 dev host0", pair.ours));
    let wanted = hop("10.77.0.2");
    driven(&pair, async |driven| {
        // Nothing was heard yet: the kernel has not been asked what links there are.
        driven.name(&[wanted]);
        let began = Instant::now();
        driven.until("the neighbour", |driven| !driven.told.is_empty()).await;
        assert_eq!(driven.told, [(wanted, Some(MacAddr([2, 0, 0, 0, 0, 10])))]);
        // A refusal would have it asked for again after three seconds.
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    });
}

#[test]
fn one_that_nobody_has_is_asked_for_again_and_again_and_found_when_it_comes() {
    let pair = Pair::new("late");
    ip(&format!("-n {} addr add 10.77.0.1/24 dev host0", pair.ours));
    run("ip", &format!("netns exec {} sysctl -qw net.ipv4.neigh.host0.retrans_time_ms=100", pair.ours));
    let late = hop("10.77.0.9");
    driven(&pair, async |driven| {
        driven.until("the link", |driven| driven.up == Some(true)).await;
        driven.name(&[late]);
        let failed = |driven: &Driven| {
            driven.neighbours.standing(&late)
                == crate::control::neighbours::Standing::Kernel(Some(
                    crate::control::neighbours::Reachability::Failed,
                ))
        };
        driven.until("the failure", failed).await;
        ip(&format!("-n {} addr add 10.77.0.9/24 dev eth0", pair.theirs));
        driven.until("the latecomer", |driven| !driven.told.is_empty()).await;
        assert_eq!(driven.told, [(late, Some(MacAddr([2, 0, 0, 0, 0, 10])))]);
    });
}

#[test]
fn links_and_addresses_that_come_and_go_are_told() {
    let pair = Pair::new("links");
    driven(&pair, async |driven| {
        driven.until("the link", |driven| driven.up == Some(true)).await;
        ip(&format!("-n {} addr add 10.77.0.1/24 dev host0", pair.ours));
        let ours: IpAddr = "10.77.0.1".parse().expect("an address");
        driven.until("the address", |driven| driven.addresses.contains(&ours)).await;
        ip(&format!("-n {} addr del 10.77.0.1/24 dev host0", pair.ours));
        driven.until("its end", |driven| !driven.addresses.contains(&ours)).await;
        ip(&format!("-n {} link set host0 down", pair.ours));
        driven.until("the link to go down", |driven| driven.up == Some(false)).await;
        // Another device under the same name has another number.
        ip(&format!("-n {} link del host0", pair.ours));
        ip(&format!("link add host0 netns {} type veth peer name eth0 netns {}", pair.ours, pair.theirs));
        ip(&format!("-n {} addr add 10.77.0.1/24 dev host0", pair.ours));
        ip(&format!("-n {} link set host0 up", pair.ours));
        ip(&format!("-n {} link set eth0 address 02:00:00:00:00:0c up", pair.theirs));
        ip(&format!("-n {} addr add 10.77.0.2/24 dev eth0", pair.theirs));
        driven
            .until("the new link", |driven| driven.up == Some(true) && driven.addresses.contains(&ours))
            .await;
        driven.name(&[hop("10.77.0.2")]);
        driven.until("the neighbour on it", |driven| !driven.told.is_empty()).await;
        assert_eq!(driven.told, [(hop("10.77.0.2"), Some(MacAddr([2, 0, 0, 0, 0, 12])))]);
    });
}

#[test]
fn a_question_on_a_link_that_is_not_there_is_refused() {
    let pair = Pair::new("none");
    inside(&pair, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (questions, asked) = mpsc::channel(1);
            let (tell, mut news) = mpsc::unbounded_channel();
            let watched = vec![Watched { link: "nosuch0".to_owned(), interface: INTERFACE }];
            let hears = async {
                questions.send(hop("10.77.0.2")).await.expect("it listens");
                while news.recv().await.expect("it tells")
                    != News::Neighbour(Heard::Refused(hop("10.77.0.2")))
                {}
            };
            tokio::select! {
                () = watch(watched, asked, tell) => panic!("it ends only when nobody hears it"),
                () = hears => {}
                () = tokio::time::sleep(PATIENCE) => panic!("no refusal"),
            }
        });
    });
}

#[test]
fn a_link_is_set_up_with_its_addresses() {
    let pair = Pair::new("setup");
    inside(&pair, || {
        let mut links = Links::open().expect("netlink");
        let index = links.index("host0").expect("it is there");
        assert!(links.index("nosuch0").is_err());
        links.set_up(index, [2, 0, 0, 0, 9, 9], 1400).expect("a right of root");
        for (address, length) in [("10.77.0.1", 24), ("2001:db8:77::1", 64)] {
            let address = address.parse().expect("an address");
            links.add_address(index, address, length).expect("added");
            links.add_address(index, address, length).expect("it has it already");
            let link =
                links.all().expect("told").into_iter().find(|link| link.index == index).expect("there");
            assert!(link.addresses.contains(&address) && link.up && !link.is_tap());
        }
        let said = Command::new("ip").args(["addr", "show", "host0"]).output().expect("ip").stdout;
        let said = String::from_utf8_lossy(&said);
        for words in ["mtu 1400", "02:00:00:00:09:09", "inet 10.77.0.1/24", "inet6 2001:db8:77::1/64"] {
            assert!(said.contains(words), "'{words}' is missing from {said}");
        }
    });
}

#[test]
fn a_carrier_is_seen_at_once_and_lost_when_the_other_end_goes_down() {
    let pair = Pair::new("carrier");
    inside(&pair, || {
        let mut links = Links::open().expect("the kernel has sockets");
        assert!(links.has_carrier("host0").expect("the kernel tells"));
        assert!(!links.has_carrier("host1").expect("the kernel tells"), "there is none of that name");
        ip(&format!("-n {} link set eth0 down", pair.theirs));
        assert!(!links.has_carrier("host0").expect("the kernel tells"));
        // Again and again, as a new link's operational state is late: its carrier is not.
        for _ in 0..10 {
            ip(&format!("-n {} link set eth0 up", pair.theirs));
            assert!(links.has_carrier("host0").expect("the kernel tells"));
            ip(&format!("-n {} link set eth0 down", pair.theirs));
        }
    });
}
