//! Who may do what, by what the kernel says of who has connected. Needs root, to be somebody else.

use crate::client::Client;
use crate::fake::Daemon;
use flowgate::control::socket::{Limits, Role, methods};
use serde_json::json;
use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// `nobody`, and a group that is nobody's.
const NOBODY: u32 = 65_534;
/// The group `daemon`, which every Linux system has.
const GROUP: (&str, u32) = ("daemon", 1);
const OTHER_GROUPS: [u32; 40] = [4242; 40];

/// A daemon with a socket of the group `daemon`, in a folder that all may look into; none if we are not
/// root and cannot be others.
pub fn daemon(limits: Limits, mode: u32) -> Option<Daemon> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return None;
    }
    let daemon = Daemon::start_for(limits, Some(GROUP.0), mode);
    set_permissions(daemon.folder(), Permissions::from_mode(0o755)).unwrap();
    Some(daemon)
}

/// Connects as another user. On a thread of its own, as it cannot become root again.
fn connect_as(uid: u32, gid: u32, groups: &[u32], path: &Path) -> io::Result<UnixStream> {
    let become_them = || {
        // SAFETY: system calls on three numbers and a slice that outlives its call. Unlike libc's functions of
        // the same names these change the calling thread alone.
        unsafe {
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0
                && libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
                && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
        }
    };
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                assert!(become_them(), "{}", io::Error::last_os_error());
                UnixStream::connect(path)
            })
            .join()
            .unwrap()
    })
}

/// A connection of somebody who only looks.
pub fn connect_as_nobody(daemon: &Daemon) -> UnixStream {
    connect_as(NOBODY, NOBODY, &[], &daemon.path()).unwrap()
}

/// The role in the hello, and the client.
fn greeted(stream: UnixStream) -> (String, Client) {
    let mut client = Client::over(stream);
    let hello = client.read();
    (hello["params"]["Role"].as_str().unwrap().to_owned(), client)
}

#[test]
fn the_kernel_says_who_is_an_admin_also_by_a_supplementary_group() {
    let Some(daemon) = daemon(Limits::default(), 0o666) else { return };
    let many = [&OTHER_GROUPS[..], &[GROUP.1]].concat();
    for (uid, gid, groups, role) in [
        (0, 0, &[][..], "admin"),
        (NOBODY, GROUP.1, &[], "admin"),
        (NOBODY, NOBODY, &[GROUP.1], "admin"),
        (NOBODY, NOBODY, &many, "admin"),
        (NOBODY, NOBODY, &[], "read-only"),
        (NOBODY, NOBODY, &OTHER_GROUPS, "read-only"),
    ] {
        let (seen, mut client) = greeted(connect_as(uid, gid, groups, &daemon.path()).unwrap());
        assert_eq!(seen, role, "uid {uid}, gid {gid}, groups {groups:?}");
        let made =
            client.call("register-targets", json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.9"}]}));
        assert_eq!(made.is_ok(), role == "admin", "{made:?}");
    }
}

#[test]
fn whoever_only_looks_sees_everything_and_is_refused_every_change() {
    let Some(daemon) = daemon(Limits::default(), 0o666) else { return };
    let (_, mut client) = greeted(connect_as_nobody(&daemon));
    for method in methods::debug_dispatcher().methods() {
        // Without parameters: what gets as far as asking for them was allowed.
        let error = client.call(method.name, json!({})).err();
        let kind = error.as_ref().map(|error| error["data"]["kind"].as_str().unwrap().to_owned());
        let denied = kind.as_deref() == Some("AccessDenied");
        assert_eq!(denied, method.role == Role::Admin, "{}: {error:?}", method.name);
        if let Some(error) = error.filter(|_| denied) {
            assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32000), &json!("method")));
            assert!(error["data"]["hint"].as_str().unwrap().contains("a member of the socket's group"));
        }
    }
    // Nor by a notification, which is answered by nothing.
    let generation = |client: &mut Client| client.call("subscribe", json!({})).unwrap()["Generation"].clone();
    client
        .send(b"{\"jsonrpc\":\"2.0\",\"method\":\"delete-listener\",\"params\":{\"ListenerArn\":\"gw\"}}\n");
    assert_eq!(generation(&mut client), 0);
}

#[test]
fn the_mode_says_who_gets_in_at_all() {
    for (mode, group_may, others_may) in [(0o600, false, false), (0o660, true, false), (0o666, true, true)] {
        let Some(daemon) = daemon(Limits::default(), mode) else { return };
        let may = |groups: &[u32]| match connect_as(NOBODY, NOBODY, groups, &daemon.path()) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
            Err(error) => panic!("{error}"),
        };
        assert_eq!((may(&[GROUP.1]), may(&[])), (group_may, others_may), "{mode:o}");
    }
}

#[test]
fn those_who_only_look_take_no_admins_place() {
    let Some(daemon) = daemon(Limits { connections: 4, subscribers: 3 }, 0o666) else { return };
    let stranger = || connect_as_nobody(&daemon);
    let mut admins: Vec<Client> = (0..2).map(|_| Client::connect(&daemon.path())).collect();
    // Of three places for subscribers they have two.
    let mut strangers: Vec<Client> = (0..2).map(|_| greeted(stranger()).1).collect();
    for stranger in &mut strangers {
        stranger.call("subscribe", json!({})).unwrap();
    }
    // The house is full; neither a silent admin nor a subscriber makes room for one more.
    let mut turned_away = Client::over(stranger());
    assert_eq!(turned_away.read()["params"]["Reason"], "full");
    assert!(turned_away.ends());
    // An admin gets in, and the place is that of the admin silent longest.
    admins[0].call("describe-ports", json!({})).unwrap();
    let mut third = Client::connect(&daemon.path());
    assert_eq!(admins[1].read()["params"]["Reason"], "idle");
    third.call("subscribe", json!({})).unwrap();
}

#[test]
fn the_silent_who_only_look_make_room_first() {
    let Some(daemon) = daemon(Limits { connections: 2, subscribers: 1 }, 0o666) else { return };
    let mut admin = Client::connect(&daemon.path());
    let (_, mut stranger) = greeted(connect_as_nobody(&daemon));
    // The admin is silent for longer.
    stranger.call("describe-ports", json!({})).unwrap();
    let mut other = Client::connect(&daemon.path());
    assert_eq!(stranger.read()["params"]["Reason"], "idle");
    for client in [&mut admin, &mut other] {
        client.call("describe-ports", json!({})).unwrap();
    }
}

#[test]
fn half_of_the_subscribers_may_be_peers_that_only_read() {
    let Some(daemon) = daemon(Limits { connections: 8, subscribers: 3 }, 0o666) else { return };
    let mut strangers: Vec<Client> = (0..3).map(|_| greeted(connect_as_nobody(&daemon)).1).collect();
    assert!(strangers[0].call("subscribe", json!({})).is_ok());
    assert!(strangers[1].call("subscribe", json!({})).is_ok());
    let error = strangers[2].call("subscribe", json!({})).unwrap_err();
    assert_eq!(error["data"]["kind"], "TooManySubscribers");
    Client::connect(&daemon.path()).call("subscribe", json!({})).unwrap();
}
