//! Makes a failing history short: whole runs of steps are left out, then single ones, then what is left is
//! made plainer, as long as it fails (delta debugging).

use crate::histories::model::Attributes;
use crate::histories::script::{History, Step};

/// The shortest history that `fails` and that can be had from this one by leaving out.
pub fn shrink(history: &History, fails: impl Fn(&History) -> bool) -> History {
    let mut best = history.clone();
    loop {
        let before = best.clone();
        leave_out(&mut best, &fails);
        make_plainer(&mut best, &fails);
        if best == before {
            return best;
        }
    }
}

fn leave_out(best: &mut History, fails: &impl Fn(&History) -> bool) {
    let mut run = best.steps.len().div_ceil(2);
    while run > 0 {
        // From the end, as what comes after the failure is of no use.
        let mut from = best.steps.len();
        while from > 0 {
            let start = from.saturating_sub(run);
            let mut shorter = best.clone();
            shorter.steps.drain(start..from);
            if fails(&shorter) {
                *best = shorter;
            }
            from = start;
        }
        run /= 2;
    }
}

fn make_plainer(best: &mut History, fails: &impl Fn(&History) -> bool) {
    let shapes: [fn(&History) -> History; 3] = [
        |history| History {
            workers: 1,
            steps: history.steps.iter().map(at_the_first_worker).collect(),
            ..history.clone()
        },
        |history| History { capacity: 64, ..history.clone() },
        |history| History { targets: 3, ..history.clone() },
    ];
    for plainer in shapes {
        let changed = plainer(best);
        if changed != *best && fails(&changed) {
            *best = changed;
        }
    }
    for number in 0..best.steps.len() {
        // Each by itself, as what made it plainer before is to stay.
        for way in 0..plainer(&best.steps[number]).len() {
            let Some(step) = plainer(&best.steps[number]).into_iter().nth(way) else { break };
            let mut changed = best.clone();
            changed.steps[number] = step;
            if changed != *best && fails(&changed) {
                *best = changed;
            }
        }
    }
}

fn at_the_first_worker(step: &Step) -> Step {
    let mut step = step.clone();
    if let Step::Packet { at, .. } | Step::Return { at, .. } | Step::Forge { at, .. } = &mut step {
        *at = 0;
    }
    step
}

/// The same step with one thing less to it.
fn plainer(step: &Step) -> Vec<Step> {
    let mut steps = vec![at_the_first_worker(step)];
    match *step {
        Step::Packet { flow, from, flags, at, spoiled } => {
            if spoiled {
                steps.push(Step::Packet { flow, from, flags, at, spoiled: false });
            }
            let fewer = (0..8).map(|bit| flags & !(1 << bit)).filter(|fewer| *fewer != flags);
            steps.extend(fewer.map(|flags| Step::Packet { flow, from, flags, at, spoiled }));
        }
        Step::Return { flow, at, own, .. } => steps.push(Step::Return { flow, before: 0, own, at }),
        Step::Set(attributes) => {
            let defaults = Attributes::default();
            let of_default: [fn(&mut Attributes, &Attributes); 15] = [
                |to, from| to.stickiness = from.stickiness,
                |to, from| to.rebalance = from.rebalance,
                |to, from| to.reset_unhealthy = from.reset_unhealthy,
                |to, from| to.reset_deregistered = from.reset_deregistered,
                |to, from| to.reset_idle = from.reset_idle,
                |to, from| to.unknown = from.unknown,
                |to, from| to.syn_reselect = from.syn_reselect,
                |to, from| to.established = from.established,
                |to, from| to.half_open = from.half_open,
                |to, from| to.closed = from.closed,
                |to, from| to.other = from.other,
                |to, from| to.both_ends = from.both_ends,
                |to, from| to.proactive = from.proactive,
                |to, from| to.hold = from.hold,
                |to, from| to.min_healthy_percent = from.min_healthy_percent,
            ];
            steps.extend(of_default.iter().map(|set| {
                let mut plainer = attributes;
                set(&mut plainer, &defaults);
                Step::Set(plainer)
            }));
        }
        Step::Wait { ms, hand: true } => steps.push(Step::Wait { ms, hand: false }),
        Step::Wait { .. } | Step::Forge { .. } | Step::Target { .. } => {}
    }
    steps
}
