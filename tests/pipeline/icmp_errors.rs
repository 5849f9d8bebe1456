//! ICMP errors follow the flow that they quote (M-5), with 1, 2 and 4 workers, whichever of them an error comes
//! to; and extension headers are walked (M-6).

use flowgate::datapath::counters::{DropReason, Outcome, WorkerCounters};
use flowgate::datapath::forwarding::Condition;
use flowgate::id::TargetId;

use crate::harness::*;
use crate::pieces::*;

/// A flow, and the frame in which its SYN went to the target.
fn begun(bench: &mut Bench, six: bool, port: u16) -> (Segment, Vec<u8>) {
    let syn = if six { client(port, SYN).over_ipv6() } else { client(port, SYN) };
    let (_, out) = bench.one(LEFT, &syn.frame());
    (syn, out)
}

fn of_flows(bench: &Bench) -> (u64, u64) {
    let sum = |of: fn(&WorkerCounters) -> u64| bench.counters.iter().map(|all| of(all)).sum();
    (sum(|all| all.errors_of_flows.get()), sum(|all| all.errors_of_no_flow.get()))
}

// M-5, W-5
#[test]
fn an_icmp_error_about_a_flow_goes_to_its_target_and_back_to_who_sent_what_it_quotes() {
    for workers in [1u8, 2, 4] {
        for (six, router) in
            [(false, "203.0.113.1"), (true, "2001:db8:ffff::1"), (false, SERVER), (true, SERVER6)]
        {
            let mut bench = Bench::with(8, workers, 1024);
            for port in 1..20 {
                let (syn, out) = begun(&mut bench, six, port);
                let headers = if six { 40 } else { 20 };
                let too_big = if six { [2, 0] } else { [3, 4] };
                for (quoted, kind) in
                    [(headers + 8, too_big), (headers + 20, [3, 1]), (1000, [1 + 10 * u8::from(!six), 0])]
                {
                    let error = error_from(router, &syn.ip(), quoted, kind);
                    let worker = usize::from(port) % usize::from(workers);
                    let sent = bench.put_at(worker, RIGHT, &from_server(&error));
                    assert_eq!(sent.len(), 1, "{workers} workers: {:?}", bench.drops());
                    let (leaves_by, frame) = &sent[0];
                    assert_eq!((*leaves_by, cookie(frame), inner(frame)), (UNDER, cookie(&out), &error[..]));
                    assert_eq!(bench.target_of(frame), bench.target_of(&out));
                    let (leaves_by, delivered) = bench.one(UNDER, &answer(frame, None));
                    assert_eq!((leaves_by, &delivered[14..]), (LEFT, &error[..]), "to the client");
                    assert_eq!(delivered[..6], CLIENT_MAC);
                }
            }
            let flows: u64 = (0..8).map(|target| bench.live_flows(target)).sum();
            assert_eq!(flows, 19, "no flow of their own");
            assert_eq!(of_flows(&bench), (57, 0));
            bench.assert_settled();
        }
    }
}

// M-5
#[test]
fn an_icmp_error_about_what_the_server_sent_goes_to_the_server() {
    let mut bench = Bench::new(2);
    let (syn, out) = begun(&mut bench, false, 4000);
    bench.one(RIGHT, &client(4000, SYN | ACK).reversed().frame());
    let data = Segment { flags: ACK, ..syn.reversed() }.with_payload(&noise(1400));
    let error = error_from("203.0.113.9", &data.ip(), 28, [3, 4]);
    let (_, frame) = bench.one(LEFT, &from_client(&error));
    assert_eq!(cookie(&frame), cookie(&out));
    let (port, delivered) = bench.one(UNDER, &answer(&frame, None));
    assert_eq!((port, delivered), (RIGHT, from_client(&error)));
}

// M-5, R-5, F-9, T-1
#[test]
fn an_icmp_error_restarts_no_timer_moves_nothing_and_is_never_answered() {
    let mut bench = Bench::new(2);
    bench.policy.reset_on_unhealthy = true;
    bench.policy.reset_on_idle = true;
    bench.publish();
    let (syn, out) = begun(&mut bench, false, 4000);
    bench.one(LEFT, &client(4000, ACK).frame());
    let error = from_server(&error_from(SERVER, &syn.ip(), 28, [3, 1]));
    bench.set_condition(bench.target_of(&out), Condition::Unhealthy);
    let (port, frame) = bench.one(RIGHT, &error);
    assert_eq!((port, cookie(&frame)), (UNDER, cookie(&out)));
    bench.set_condition(bench.target_of(&out), Condition::Healthy);
    bench.pass(349_000);
    assert_eq!(cookie(&bench.one(RIGHT, &error).1), cookie(&out));
    bench.pass(2_000);
    assert_eq!(bench.live_flows(0) + bench.live_flows(1), 0, "350 s after the client's last packet");
    // Of an expired flow: one of its own, and the remembered flow stays so (F-10).
    assert_ne!(cookie(&bench.one(RIGHT, &error).1), cookie(&out));
    assert_eq!(bench.outcome(Outcome::Answered), 0);
    assert_eq!(bench.one(LEFT, &client(4000, ACK).frame()).0, LEFT, "R-3");
    bench.assert_settled();
}

// M-5, F-1
#[test]
fn an_icmp_error_about_no_known_flow_is_one_of_its_own() {
    for workers in [1u8, 2, 4] {
        let mut bench = Bench::with(8, workers, 1024);
        let unknown = client(9, ACK).ip();
        let about_unknown = error_from("203.0.113.1", &unknown, 28, [3, 1]);
        let mut cookies = Vec::new();
        for worker in 0..usize::from(workers) {
            let out = bench.put_at(worker, RIGHT, &from_server(&about_unknown));
            assert_eq!(out.len(), 1);
            cookies.push(cookie(&out[0].1));
            let (port, delivered) = bench.one(UNDER, &answer(&out[0].1, None));
            assert_eq!((port, delivered), (LEFT, from_server(&about_unknown)));
        }
        assert!(cookies.iter().all(|cookie| *cookie == cookies[0]), "on one worker: {cookies:x?}");
        assert_eq!(of_flows(&bench), (0, u64::from(workers)));
        bench.assert_settled();
    }
}

// M-5
#[test]
fn quotes_of_nonsense_harm_no_flow() {
    for workers in [1u8, 4] {
        let mut bench = Bench::with(2, workers, 1024);
        let (syn, out) = begun(&mut bench, false, 4000);
        let quote = syn.ip();
        let mut nonsense: Vec<Vec<u8>> =
            (0..28).map(|cut| error_from(SERVER, &quote, cut.max(16), [3, 1])).collect();
        for byte in 0..28 {
            let mut spoiled = quote.clone();
            spoiled[byte] ^= 0xa5;
            let mut error = error_from(SERVER, &quote, 28, [11, 0]);
            error.truncate(28);
            error.extend(&spoiled[..28]);
            nonsense.push(error);
        }
        // It quotes the flow, but goes to somebody who did not send that.
        let mut astray = error_from(SERVER, &quote, 28, [3, 1]);
        astray[19] ^= 1;
        nonsense.push(with_options(&astray, &[]));
        // An error that quotes an error that quotes the flow.
        nonsense.push(error_from(SERVER, &error_from(CLIENT, &quote, 28, [3, 1]), 56, [3, 1]));
        for (n, error) in nonsense.iter().enumerate() {
            bench.put_at(n % usize::from(workers), RIGHT, &from_server(error));
        }
        assert_eq!(cookie(&bench.one(LEFT, &client(4000, ACK).frame()).1), cookie(&out));
        let (known, unknown) = of_flows(&bench);
        assert!(unknown >= 40 && known < 20, "{known} {unknown}");
        let flows: u64 = (0..2).map(|target| bench.live_flows(target)).sum();
        assert!(flows <= 4, "all of one pair of hosts are one flow: {flows}");
        bench.assert_settled();
    }
}

// M-5, M-2: path MTU discovery of what is behind the gateway.
#[test]
fn what_a_router_behind_the_gateway_says_of_a_packet_reaches_its_sender() {
    let mut bench = Bench::new(1);
    begun(&mut bench, false, 4000);
    let data = client(4000, ACK).with_payload(&noise(1400));
    let (_, out) = bench.one(LEFT, &data.frame());
    let (_, forwarded) = bench.one(UNDER, &answer(&out, None));
    let needed = error_from("198.51.100.1", &forwarded[14..], 548, [3, 4]);
    let (_, out) = bench.one(RIGHT, &from_server(&needed));
    assert_eq!(bench.one(UNDER, &answer(&out, None)), (LEFT, from_server(&needed)));
    assert_eq!(bench.counters[0].target(TargetId(0)).new_flows.get(), 1);
}

// M-6
#[test]
fn extension_headers_are_walked_and_kept_both_ways() {
    let mut bench = Bench::new(2);
    let plain = client(4000, 0).udp().over_ipv6().with_payload(&noise(100)).ip();
    let (_, out) = bench.one(LEFT, &from_client(&plain));
    let with = |headers: &[(u8, &[u8])]| {
        let mut ip = plain[..40].to_vec();
        let mut chain = Vec::new();
        for (n, (kind, header)) in headers.iter().enumerate() {
            if n == 0 {
                ip[6] = *kind;
            }
            chain.push(headers.get(n + 1).map_or(17, |next| next.0));
            chain.extend(*header);
        }
        chain.extend(&plain[40..]);
        ip[4..6].copy_from_slice(&(chain.len() as u16).to_be_bytes());
        ip.extend(chain);
        ip
    };
    let options: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let authentication: &[u8] = &[4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
    for headers in [
        &[(0, options)][..],
        &[(60, options)],
        &[(43, &[0, 0, 0, 0, 0, 0, 0])],
        &[(51, authentication)],
        &[(44, &[0, 0, 0, 0, 0, 0, 9])],
        &[(0, options), (60, options), (43, options), (51, authentication), (60, options)],
    ] {
        let ip = with(headers);
        let (_, through) = bench.one(LEFT, &from_client(&ip));
        assert_eq!((cookie(&through), inner(&through)), (cookie(&out), &ip[..]), "{headers:?}");
        assert_eq!(bench.one(UNDER, &answer(&through, None)), (RIGHT, from_client(&ip)));
    }
    let too_many = [(60u8, options); 9];
    assert_eq!(bench.dropped(LEFT, &from_client(&with(&too_many))), DropReason::IpMalformed);
    assert_eq!(bench.dropped(UNDER, &answer(&out, Some(&with(&too_many)))), DropReason::InnerMalformed);
    // ESP, mobility and "no next header" end the walk: flows of their own, by addresses and protocol.
    let mut cookies = vec![cookie(&out)];
    for last in [50, 135, 59] {
        let mut ip = plain.clone();
        ip[6] = last;
        let (_, through) = bench.one(LEFT, &from_client(&ip));
        assert_eq!(bench.one(UNDER, &answer(&through, None)), (RIGHT, from_client(&ip)));
        assert!(!cookies.contains(&cookie(&through)));
        cookies.push(cookie(&through));
    }
    bench.assert_settled();
}

// W-5, M-5
#[test]
fn an_icmp_error_that_an_appliance_returns_goes_to_the_sender_of_what_it_quotes_or_nowhere() {
    let mut bench = Bench::new(1);
    let (syn, out) = begun(&mut bench, false, 1);
    let error = error_from("203.0.113.1", &syn.ip(), 28, [3, 1]);
    let (leaves_by, delivered) = bench.one(UNDER, &answer(&out, Some(&error)));
    assert_eq!((leaves_by, &delivered[14..]), (LEFT, &error[..]));
    let mut to_another = error.clone();
    to_another[16..20].copy_from_slice(&[203, 0, 113, 77]);
    assert_eq!(bench.dropped(UNDER, &answer(&out, Some(&to_another))), DropReason::InnerMismatch);
    bench.assert_settled();
}

// M-5, R-9
#[test]
fn an_icmp_error_about_a_flow_that_was_reset_and_owes_is_one_of_its_own() {
    let mut bench = Bench::new(2);
    bench.policy.reset_on_unhealthy = true;
    bench.policy.both_ends = true;
    bench.publish();
    let (syn, out) = begun(&mut bench, false, 1);
    bench.set_condition(bench.target_of(&out), Condition::Unhealthy);
    let (port, _) = bench.one(LEFT, &client(1, ACK).frame());
    assert_eq!(port, LEFT, "R-1");
    let error = error_from("203.0.113.1", &syn.ip(), 28, [3, 1]);
    let (_, sent) = bench.one(RIGHT, &from_server(&error));
    assert_eq!(of_flows(&bench), (0, 1));
    let (port, delivered) = bench.one(UNDER, &answer(&sent, None));
    assert_eq!((port, delivered), (LEFT, from_server(&error)));
    // and the server is told all the same.
    let reply = Segment { flags: ACK, ..syn.reversed() };
    assert_eq!(bench.one(RIGHT, &reply.frame()).0, RIGHT);
    bench.assert_settled();
}
