//! Many at once: nobody is locked out and nothing grows.

use crate::bad_input::half_a_body;
use crate::client::{Client, request};
use crate::endpoint::{GROUP, LIMITS, Served};
use flowgate::control::elbv2::Limits;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const DESCRIBE: &str = "Action=DescribeLoadBalancers&Version=2015-12-01";

#[test]
fn a_thousand_connections_that_say_nothing_lock_nobody_out() {
    let served = Served::start_with("", Limits { connections: 8, ..Limits::default() });
    let mut silent: Vec<Client> = (0..1000).map(|_| served.connect()).collect();
    let mut client = served.connect();
    for _ in 0..3 {
        assert_eq!(client.post(DESCRIBE).status, 200);
    }
    // The first comers made room; eight places are all there are.
    assert!(silent.iter_mut().take(900).all(Client::ends));
}

#[test]
fn connections_that_never_finish_their_request_lock_nobody_out() {
    let served = Served::start_with("", Limits { connections: 8, ..Limits::default() });
    let mut slow: Vec<Client> = (0..8).map(|_| served.connect()).collect();
    slow.iter_mut().for_each(|client| client.send(half_a_body()));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(served.connect().post(DESCRIBE).status, 200);
    let start = Instant::now();
    assert!(slow.iter_mut().any(|client| client.ends() && start.elapsed() < Duration::from_secs(10)));
}

#[test]
fn a_client_that_never_reads_is_ended_and_holds_no_one_up() {
    let served = Served::start_with("", LIMITS);
    let mut form = format!("Action=RegisterTargets&Version=2015-12-01&TargetGroupArn={GROUP}");
    for number in 0..2000_u32 {
        let (high, low) = (number >> 8, number & 0xff);
        write!(form, "&Targets.member.{}.Id=10.1.{high}.{low}", number + 1).unwrap();
    }
    assert_eq!(served.connect().post(&form).status, 200);
    // Half a megabyte of answer a request, in all more than any socket's buffers hold.
    let health = format!("Action=DescribeTargetHealth&Version=2015-12-01&TargetGroupArn={GROUP}");
    let mut deaf = served.connect();
    deaf.send(request("", &health).repeat(40));
    let start = Instant::now();
    // What it has not taken goes with the connection, and is not kept by the kernel either.
    while !deaf.is_reset() {
        assert!(start.elapsed() < Duration::from_secs(90), "it is still served");
        assert_eq!(served.connect().post(DESCRIBE).status, 200);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_full_group_is_registered_in_one_request() {
    let served = Served::start();
    let mut form = format!("&TargetGroupArn={GROUP}");
    for number in 0..4093_u32 {
        let (high, low, member) = (number >> 8, number & 0xff, number + 1);
        let target = format!("&Targets.member.{member}");
        write!(
            form,
            "{target}.Id=10.100.{high}.{low}{target}.Port=6081{target}.AvailabilityZone=eu-central-1a"
        )
        .unwrap();
    }
    let start = Instant::now();
    served.done("RegisterTargets", &form);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let health = served.done("DescribeTargetHealth", &format!("&TargetGroupArn={GROUP}"));
    assert_eq!(health.matches("<Id>").count(), 4096);
}
