//! What a worker says of packets that have not come. That it is what then happens every other test here holds it to
//! (`foresight.rs`); these are about how it is asked, and about what it says besides.

use flowgate::datapath::counters::{DropReason, ResetTrigger, Suppressed};
use flowgate::datapath::decide::account::Reason;
use flowgate::datapath::enquiry::{Answered, By, Ending, Question, Under};
use flowgate::datapath::forwarding::{Condition, ResetGuards};
use flowgate::datapath::messages::{FlowRecord, ToWorker};
use flowgate::flow::{Cookie, FlowState};
use flowgate::id::TargetId;

use crate::foresight::question;
use crate::harness::*;

impl Bench {
    fn reasons(&mut self, frame: &[u8]) -> (Vec<Reason>, Ending) {
        let judgement = self.foresee(LEFT, frame).judgement;
        (judgement.reasons.iter().collect(), judgement.ending)
    }

    /// The flow that has a cookie; the workers say so together.
    fn flow_with(&mut self, cookie: u32) -> Option<FlowRecord> {
        self.push_question(&Question::Cookie(Cookie(cookie)));
        self.rounds();
        let answers: Vec<Answered> =
            std::mem::take(&mut self.enquiries).into_iter().filter_map(|form| form.answer).collect();
        match answers.as_slice() {
            [Answered::Flow(record)] => Some(*record),
            [Answered::NoFlow] => None,
            other => panic!("one worker answers, not {other:?}"),
        }
    }
}

// F-5, T-1
#[test]
fn what_decides_is_told_step_by_step() {
    let mut bench = Bench::new(3);
    bench.policy.reset_on_unhealthy = true;
    bench.publish();
    let (syn, ack) = (client(4000, SYN).frame(), client(4000, ACK).frame());
    let (why, ending) = bench.reasons(&syn);
    assert_eq!(why, [Reason::NoFlow, Reason::BeginsTcp]);
    assert!(matches!(ending, Ending::Forwarded { under: Under::NewFlow, .. }));

    let target = {
        let (_, sent) = bench.one(LEFT, &syn);
        bench.target_of(&sent)
    };
    let (why, ending) = bench.reasons(&ack);
    assert_eq!(why, [Reason::Live, Reason::TargetIsIn(Condition::Healthy)]);
    assert!(
        matches!(ending, Ending::Forwarded { under: Under::Flow, target: to, .. } if to == TargetId(target))
    );

    bench.set_condition(target, Condition::Unhealthy);
    let (why, ending) = bench.reasons(&ack);
    assert_eq!(why, [Reason::Live, Reason::ResetDue(Condition::Unhealthy)]);
    let told = Some(TargetId(target));
    assert_eq!(ending, Ending::Reset { trigger: ResetTrigger::Unhealthy, target: told });
    assert_eq!(bench.reasons(&syn).0, [Reason::Live, Reason::SynReselects]);

    bench.policy.guards = ResetGuards { hold_ms: 1000, ..ResetGuards::default() };
    bench.publish();
    let (why, ending) = bench.reasons(&ack);
    assert_eq!(why.last(), Some(&Reason::Guarded(Suppressed::Hold)));
    assert!(matches!(ending, Ending::Forwarded { under: Under::Flow, .. }));
}

// F-4
#[test]
fn the_row_its_two_choices_and_what_comes_of_them_are_told() {
    let mut bench = Bench::new(3);
    let frame = client(4000, SYN).frame();
    let choice = bench.foresee(LEFT, &frame).judgement.choice.unwrap();
    assert_eq!((choice.choice.target, choice.choice.fail_open), (choice.row.first, false));
    bench.set_condition(choice.row.first.0, Condition::Unhealthy);
    let second = bench.foresee(LEFT, &frame).judgement.choice.unwrap();
    assert_eq!((second.number, second.row), (choice.number, choice.row));
    assert_eq!(second.choice.target, choice.row.second);
    bench.set_condition(choice.row.second.0, Condition::Unhealthy);
    let third = bench.foresee(LEFT, &frame).judgement.choice.unwrap().choice;
    assert!(third.target != choice.row.first && third.target != choice.row.second && !third.fail_open);
    bench.set_condition(third.target.0, Condition::Initial);
    let open = bench.foresee(LEFT, &frame).judgement.choice.unwrap().choice;
    assert_eq!((open.target, open.fail_open), (choice.row.first, true), "F-6");
}

// F-9, F-11
#[test]
fn a_flow_is_found_by_its_cookie_by_the_worker_that_owns_it_and_is_not_kept_alive() {
    let mut bench = Bench::with(2, 4, 64);
    let mut cookies = Vec::new();
    for port in 4000..4016 {
        let (_, sent) = bench.one(LEFT, &client(port, SYN).frame());
        cookies.push((port, cookie(&sent)));
    }
    bench.pass(500);
    for (port, cookie) in &cookies {
        let record = bench.flow_with(*cookie).expect("it is live");
        assert_eq!((record.initiator.1, record.cookie, record.state), (*port, *cookie, FlowState::HalfOpen));
        assert_eq!(record.now.since(record.last_seen), 500, "asking is no packet");
    }
    let workers: std::collections::BTreeSet<u8> =
        cookies.iter().map(|(_, cookie)| bench.flow_with(*cookie).unwrap().worker.0).collect();
    assert!(workers.len() > 1, "of several workers: {workers:?}");
    for nobodys in [cookies[0].1 ^ 1 << 30, cookies[0].1 | 1 << 31, u32::MAX, 0x7fff_ffff] {
        let known = cookies.iter().any(|(_, cookie)| *cookie == nobodys);
        assert!(known || bench.flow_with(nobodys).is_none(), "{nobodys:08x}");
    }
    bench.pass(60_000);
    assert!(bench.flow_with(cookies[0].1).is_none(), "it has ended meanwhile");
}

// W-5, W-7
#[test]
fn an_answer_is_explained_by_its_cookie_and_so_is_why_it_would_be_dropped() {
    let mut bench = Bench::new(1);
    let (_, sent) = bench.one(LEFT, &client(4000, SYN).frame());
    let back = answer(&sent, None);
    let told = bench.foresee(UNDER, &back).judgement;
    assert_eq!((told.by, told.flow.unwrap().record.cookie), (By::Cookie, cookie(&sent)));
    assert!(matches!(told.ending, Ending::Delivered { .. }));
    let mut stale = back.clone();
    stale[78] ^= 0x40;
    assert_eq!(bench.foresee(UNDER, &stale).judgement.ending, Ending::Dropped(DropReason::CookieStale));
    let mut strangers = back;
    strangers[29] ^= 1;
    strangers[24..26].fill(0);
    let sum = checksum(&[&strangers[14..34]]);
    strangers[24..26].copy_from_slice(&sum.to_be_bytes());
    let ending = bench.foresee(UNDER, &strangers).judgement.ending;
    assert_eq!(ending, Ending::Dropped(DropReason::NotFromTarget));
}

// F-13
#[test]
fn more_questions_than_fit_a_round_come_back_in_order_and_packets_do_not_wait_for_them() {
    let mut bench = Bench::new(1);
    let frame = client(4000, SYN).frame();
    // More than a round's messages at once, as one who explains a capture may ask.
    for number in 0..60 {
        let question = question(LEFT, &frame, None);
        bench.push(|| {
            ToWorker::Enquire(Box::new(flowgate::datapath::enquiry::Enquiry {
                number,
                question: question.clone(),
                answer: None,
            }))
        });
    }
    bench.foresees = false;
    let (_, sent) = bench.one(LEFT, &frame);
    assert_eq!(bench.target_of(&sent), 0);
    bench.pass(1);
    let numbers: Vec<u64> = bench.enquiries.iter().map(|form| form.number).collect();
    assert_eq!(numbers, (0..60).collect::<Vec<_>>(), "each comes back, in order");
    assert!(bench.enquiries.iter().all(|form| form.answer.is_some()));
}
