//! Every frame that a test puts in is asked about first (`flowgate explain`), and what was said must be what
//! then happens: the same ending, target, cookie's life and source port, the same drop reason, the same bytes of
//! a reset or an ICMP error. So each test of the pipeline, and every random history, is a test of explanations.

use flowgate::datapath::counters::{DropReason, IcmpAnswer, Outcome, ResetTrigger};
use flowgate::datapath::enquiry::{Answered, By, Ending, Enquiry, ExitSeen, Judgement, Question, Under};
use flowgate::datapath::fragments::First;
use flowgate::datapath::messages::ToWorker;
use flowgate::id::{GatewayId, TargetId};
use flowgate::io::PacketBuf;
use flowgate::io::memory::MemoryBuf;

use crate::harness::{Bench, UNDER, port_id, source_port, target_address};

/// What hangs on other packets at the same time, and so is not foreseen.
const UNFORESEEN: [DropReason; 7] = [
    DropReason::TransmitFull,
    DropReason::HandoffFull,
    DropReason::LinkTableFull,
    DropReason::NoBuffer,
    DropReason::HostFull,
    DropReason::WaitFull,
    DropReason::FragmentFull,
];

/// What the workers said of a frame.
pub struct Foreseen {
    pub judgement: Judgement,
    /// The frame, or what answers it.
    frame: Vec<u8>,
}

/// What is counted, over all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    received: u64,
    outcomes: Vec<u64>,
    drops: Vec<u64>,
    resets: Vec<u64>,
    icmp_answers: Vec<u64>,
    new_flows: u64,
    moved: u64,
    stateless: u64,
    suppressed: u64,
    fragments_waiting: u64,
    unsettled: usize,
    look_ups: [u64; 2],
}

/// What would become of a frame at a port.
pub fn question(port: usize, frame: &[u8], first: Option<First>) -> Question {
    Question::Frame { port: port_id(port), frame: MemoryBuf::new(frame), first }
}

impl Bench {
    /// Leaves a question in every worker's ring, to be found at its next round.
    pub fn push_question(&mut self, question: &Question) {
        self.push(|| {
            ToWorker::Enquire(Box::new(Enquiry { number: 7, question: question.clone(), answer: None }))
        });
    }

    /// What would become of a frame. Asking changes nothing, but for what time does meanwhile.
    pub fn foresee(&mut self, port: usize, frame: &[u8]) -> Foreseen {
        self.rounds();
        let before = self.counted();
        self.push_question(&question(port, frame, None));
        self.rounds();
        let mut said = self.said();
        if let Err(first) = said {
            self.push_question(&question(port, frame, Some(first)));
            self.rounds();
            said = self.said();
        }
        assert_eq!(self.counted(), before, "a question changed something");
        said.expect("not sent on twice")
    }

    /// What the workers have said, or what the first fragment of a later one said, to be asked again with it.
    pub fn said(&mut self) -> Result<Foreseen, First> {
        let forms = std::mem::take(&mut self.enquiries);
        assert_eq!(forms.len(), self.workers.len(), "every form comes back");
        let mut judged = Vec::new();
        for form in forms {
            let Question::Frame { frame, .. } = form.question else { panic!("another question") };
            match form.answer {
                Some(Answered::Judged(judgement)) => {
                    judged.push(Foreseen { judgement, frame: frame.bytes().to_vec() });
                }
                Some(Answered::Follows(first)) => return Err(first),
                Some(other) => panic!("{other:?} is no answer to a frame"),
                None => {}
            }
        }
        let quoted = judged.iter().position(|foreseen| foreseen.judgement.by == By::Quoted);
        assert!(!judged.is_empty(), "nobody says what becomes of it");
        Ok(judged.swap_remove(quoted.unwrap_or(0)))
    }

    pub fn counted(&self) -> Counted {
        let all = || self.counters.iter();
        let gateways = || all().flat_map(|all| (0..3).map(|id| all.gateway(GatewayId(id))));
        let targets = || all().flat_map(|all| (0..self.targets).map(|id| all.target(TargetId(id))));
        let reset = |trigger: &ResetTrigger| gateways().map(|of| of.resets[trigger.index()].get()).sum();
        let answers = |kind: &IcmpAnswer| all().map(|all| all.icmp_answers[kind.index()].get()).sum();
        Counted {
            received: all().map(|all| all.received.get()).sum(),
            outcomes: Outcome::ALL.iter().map(|outcome| self.outcome(*outcome)).collect(),
            drops: DropReason::ALL
                .iter()
                .map(|reason| all().map(|all| all.drops[reason.index()].get()).sum())
                .collect(),
            resets: ResetTrigger::ALL.iter().map(reset).collect(),
            icmp_answers: IcmpAnswer::ALL.iter().map(answers).collect(),
            new_flows: targets().map(|of| of.new_flows.get()).sum(),
            moved: targets().map(|of| of.moved_away.get()).sum(),
            stateless: gateways().map(|of| of.stateless_packets.get()).sum(),
            suppressed: gateways().flat_map(|of| of.suppressed.iter().map(|count| count.get())).sum(),
            fragments_waiting: self.waiting(),
            unsettled: self.workers.iter().map(|worker| worker.unsettled()).sum(),
            look_ups: [
                all().map(|all| all.lookups_by_hash.get()).sum(),
                all().map(|all| all.lookups_by_cookie.get()).sum(),
            ],
        }
    }

    /// Holds what was said against what came of it.
    pub fn compare(&self, foreseen: &Foreseen, before: &Counted, port: usize, out: &[(usize, Vec<u8>)]) {
        let Foreseen { judgement, frame } = foreseen;
        let after = self.counted();
        let grew = |of: fn(&Counted) -> u64| of(&after).wrapping_sub(of(before));
        if grew(|counted| counted.received) != 1 {
            return; // A fragment that others waited for, or the host's own at the same time.
        }
        let grown = |after: &[u64], before: &[u64]| -> Vec<usize> {
            (0..after.len()).filter(|n| after[*n] > before[*n]).collect()
        };
        let dropped = grown(&after.drops, &before.drops);
        if dropped.iter().any(|n| UNFORESEEN.contains(&DropReason::ALL[*n])) {
            return;
        }
        let outcomes = grown(&after.outcomes, &before.outcomes);
        let released = after.fragments_waiting < before.fragments_waiting;
        let ended = |outcome: Outcome| outcomes == [outcome.index()] && dropped.is_empty();
        let told = || format!("said {judgement:?}, did {out:02x?}; {before:?}, then {after:?}");
        let whole = |agrees: bool| assert!(agrees || released, "{}", told());
        match judgement.ending {
            Ending::Forwarded { target, under, source_port: from, pieces } => {
                whole(ended(Outcome::Forwarded));
                let mine: Vec<_> = out.iter().filter(|(by, _)| *by == UNDER).collect();
                whole(mine.len() == pieces);
                let address = target_address(target.0).octets();
                whole(mine.iter().all(|(_, frame)| frame[30..34] == address && source_port(frame) == from));
                let (new, moved) = (grew(|counted| counted.new_flows), grew(|counted| counted.moved));
                let stateless = grew(|counted| counted.stateless);
                whole(
                    (new, moved, stateless)
                        == match under {
                            Under::Flow => (0, 0, 0),
                            Under::Moved => (0, 1, 0),
                            Under::NewFlow => (1, 0, 0),
                            Under::Stateless => (0, 0, 1),
                        },
                );
                if let (Under::Flow | Under::Moved, Some(flow)) = (under, judgement.flow) {
                    whole(mine.iter().all(|(_, frame)| crate::harness::cookie(frame) == flow.record.cookie));
                }
                whole(grew(|counted| counted.suppressed) == u64::from(is_held(judgement)));
            }
            Ending::Reset { trigger, .. } => {
                whole(ended(Outcome::Answered));
                // What silent flows are told at the same time is not of this packet.
                let mine: Vec<_> = grown(&after.resets, &before.resets)
                    .into_iter()
                    .filter(|n| *n != ResetTrigger::Proactive.index())
                    .collect();
                whole(mine == [trigger.index()]);
                whole(out.iter().any(|(by, sent)| *by == port && sent == frame));
            }
            Ending::Error(answer) => {
                whole(ended(Outcome::Answered) || after.unsettled > before.unsettled);
                if after.unsettled == before.unsettled {
                    whole(grown(&after.icmp_answers, &before.icmp_answers) == [answer.index()]);
                }
                // One to the sender of an answer is not written out.
                if port != UNDER {
                    whole(out.iter().any(|(by, sent)| *by == port && sent == frame));
                }
            }
            Ending::Delivered { exit: ExitSeen::Port(by), .. } => {
                whole(ended(Outcome::Delivered));
                whole(out.iter().any(|(sent_by, _)| port_id(*sent_by) == by));
            }
            Ending::Delivered { exit: ExitSeen::Interface { port: by, pieces, waits, .. }, .. } => {
                if waits {
                    whole(after.unsettled > before.unsettled);
                } else {
                    whole(ended(Outcome::Delivered));
                    whole(out.iter().filter(|(sent_by, _)| port_id(*sent_by) == by).count() == pieces);
                }
            }
            Ending::Crosses(peer) => {
                whole(ended(Outcome::Crossed));
                whole(out.iter().any(|(by, _)| port_id(*by) == peer));
            }
            Ending::Host(_) => whole(ended(Outcome::Host)),
            Ending::WaitsForFirst => {
                whole(outcomes.is_empty() && dropped.is_empty());
                whole(after.fragments_waiting > before.fragments_waiting);
            }
            Ending::Dropped(reason) => whole(dropped == [reason.index()] && outcomes.is_empty()),
        }
    }
}

fn is_held(judgement: &Judgement) -> bool {
    use flowgate::datapath::decide::Verdict;
    matches!(judgement.verdict, Some(Verdict::Held(..)))
}
