//! Rounds without an attack and rounds with it, in turn, over the same flows; and what there is to complain of.

use std::time::Duration;

use super::counted::{Counted, Gateway};
use super::crowd::{Crowd, Deeds, Doors};
use super::{Kind, Side};
use crate::conductor::Conductor;
use crate::devices::Refusal;
use crate::measure::{Interval, Played};
use crate::options::Options;
use crate::orders::Orders;

/// What came of rounds of one sort.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    pub total: Interval,
    pub lasted: Duration,
    /// What the gateway counted meanwhile.
    pub counted: Counted,
}

/// What came of an attack.
pub struct Row {
    pub kind: Kind,
    pub without: Rounds,
    pub with: Rounds,
    /// What slow clients did.
    pub deeds: Option<Deeds>,
}

impl Rounds {
    fn add(&mut self, total: &Interval, lasted: Duration, counted: &Counted) {
        self.total.add(total);
        self.lasted += lasted;
        self.counted.add(counted);
    }

    /// What the gateway's counters have besides the load and its own host's packets: the attack's share, by how it ended.
    pub fn of_attack(&self) -> Vec<(String, u64)> {
        let counts = &self.total.counts;
        let ours = |name: &str| match name {
            "forwarded" => counts.at_appliance.iter().sum(),
            "delivered" => counts.arrived.iter().sum(),
            _ => 0,
        };
        let ends =
            self.counted.ends.iter().filter(|(name, _)| !["host", "from_host"].contains(&name.as_str()));
        let rest = ends.map(|(name, count)| (name.clone(), count.saturating_sub(ours(name))));
        rest.filter(|(_, count)| *count > 0).collect()
    }
}

impl Row {
    /// What is not as it should be, a sentence each. `bears`: whether the rate is one that nothing may be lost at.
    pub fn complaints(&self, bears: bool) -> Vec<String> {
        let mut complaints = Vec::new();
        let Rounds { total, .. } = &self.with;
        let counts = &total.counts;
        let mut complain = |is_wrong: bool, what: String| {
            if is_wrong {
                complaints.push(format!("{}: {what}", self.kind.name()));
            }
        };
        for (rounds, when) in [(&self.without, "without"), (&self.with, "with")] {
            let counts = &rounds.total.counts;
            let lost = Played::ALL.lost(counts);
            complain(
                bears && lost > 0,
                format!("{lost} packets of established flows were lost {when} the attack"),
            );
            let resets: u64 = counts.resets.iter().sum();
            complain(
                bears && resets > 0,
                format!("{resets} resets came to established flows {when} the attack"),
            );
            complain(
                counts.violations() > 0,
                format!("{} violations {when} the attack", counts.violations()),
            );
        }
        let without = self.without.of_attack();
        complain(bears && !without.is_empty(), format!("without the attack there were {without:?}"));
        let of_attack = self.with.of_attack();
        let strange =
            of_attack.iter().filter(|(name, _)| !self.kind.may_be_counted_as().contains(&name.as_str()));
        let strange: Vec<_> = strange.collect();
        complain(bears && !strange.is_empty(), format!("counted as {strange:?}"));
        // C-1: once as it came in from the attacker, and once as it came back from an appliance.
        let came = counts.attack_sent + counts.attack_at_appliance;
        let ended: u64 = of_attack.iter().map(|(_, count)| count).sum();
        complain(
            bears && came != ended,
            format!("{came} packets of it came in, and {ended} ended under some name"),
        );
        let end =
            |wanted: &str| of_attack.iter().find(|(name, _)| name == wanted).map_or(0, |(_, count)| *count);
        let (arrived, answers) = (counts.attack_arrived, counts.attack_answers);
        complain(
            bears && arrived != end("delivered"),
            format!("{} delivered, and {arrived} arrived", end("delivered")),
        );
        complain(
            bears && answers != end("answered"),
            format!("{} answered, and {answers} answers came", end("answered")),
        );
        complain(answers > counts.attack_sent, format!("{answers} answers to {}", counts.attack_sent));
        let (bytes, caused) = (counts.attack_answer_bytes, counts.attack_bytes);
        complain(bytes > caused, format!("{bytes} bytes of answers to {caused}"));
        complain(
            self.kind.side() != Side::Control && counts.attack_sent == 0,
            "no packet of it was sent".to_owned(),
        );
        if let Some(deeds) = &self.deeds {
            complain(deeds.connections == 0, "no slow client could connect".to_owned());
            complain(
                deeds.honest.is_empty() || deeds.unanswered > 0,
                format!("{} honest requests had no answer", deeds.unanswered),
            );
        }
        complaints
    }
}

/// Leads through all attacks that are asked for. The flows are open.
pub fn lead(options: &Options, conductor: &mut Conductor, orders: &Orders) -> Result<Vec<Row>, Refusal> {
    let doors = options.doors()?;
    let gateway = Gateway { socket: doors.socket.clone() };
    let mut rows = Vec::new();
    for &kind in &options.attack.0 {
        rows.push(attack(kind, options, conductor, orders, (&gateway, &doors))?);
    }
    Ok(rows)
}

fn attack(
    kind: Kind,
    options: &Options,
    conductor: &mut Conductor,
    orders: &Orders,
    (gateway, doors): (&Gateway, &Doors),
) -> Result<Row, Refusal> {
    let fresh = || Rounds { total: Interval::new(options.targets.0.len()), ..Rounds::default() };
    let mut row = Row { kind, without: fresh(), with: fresh(), deeds: None };
    let mut before = gateway.at_rest()?;
    for _ in 0..options.rounds {
        for is_attack in [false, true] {
            orders.set_attack(is_attack.then_some(kind));
            let crowd = (is_attack && kind.side() == Side::Control).then(|| Crowd::start(kind, doors));
            let outcome = conductor.run(options.duration);
            orders.set_attack(None);
            if let Some(crowd) = crowd {
                row.deeds.get_or_insert_default().add(crowd?.end()?);
            }
            let (outcome, after) = (outcome?, gateway.at_rest()?);
            let counted = after.clone().since(&before);
            before = after;
            let rounds = if is_attack { &mut row.with } else { &mut row.without };
            rounds.add(&outcome.total, outcome.lasted, &counted);
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of a gateway that did nothing wrong: 100 packets of the load, and 50 of an attack that is answered ten times.
    fn sound() -> Row {
        let mut rounds = Rounds { total: Interval::new(1), ..Rounds::default() };
        let counts = &mut rounds.total.counts;
        (counts.sent, counts.at_appliance, counts.returned, counts.arrived) =
            ([100, 0], [100, 0], [100, 0], [100, 0]);
        let mut end = |name: &str, count| rounds.counted.ends.insert(name.to_owned(), count);
        end("forwarded", 100);
        end("delivered", 100);
        end("host", 3);
        let without = rounds.clone();
        rounds.counted.ends.insert("answered".to_owned(), 10);
        rounds.counted.ends.insert("reset_suppressed".to_owned(), 40);
        let counts = &mut rounds.total.counts;
        (counts.attack_sent, counts.attack_bytes) = (50, 2000);
        (counts.attack_answers, counts.attack_answer_bytes) = (10, 400);
        Row { kind: Kind::NoFlow, without, with: rounds, deeds: None }
    }

    fn complaints(change: impl FnOnce(&mut Row)) -> String {
        let mut row = sound();
        change(&mut row);
        row.complaints(true).join("; ")
    }

    #[test]
    fn whatever_is_wrong_is_complained_of_and_what_is_right_is_not() {
        assert_eq!(complaints(|_| ()), "");
        let lost = complaints(|row| row.with.total.counts.arrived = [99, 0]);
        assert!(lost.contains("1 packets of established flows were lost with"), "{lost}");
        let before = complaints(|row| row.without.total.counts.arrived = [99, 0]);
        assert!(before.contains("lost without"), "{before}");
        let reset = complaints(|row| row.with.total.counts.resets = [0, 1]);
        assert!(reset.contains("1 resets came"), "{reset}");
        let moved = complaints(|row| row.with.total.counts.moved = 1);
        assert!(moved.contains("1 violations with"), "{moved}");
        let end = |row: &mut Row, name: &str, count| row.with.counted.ends.insert(name.to_owned(), count);
        let strange = complaints(|row| {
            end(row, "cookie_stale", 1);
        });
        assert!(strange.contains("counted as [(\"cookie_stale\", 1)]"), "{strange}");
        for count in [39, 41] {
            let uncounted = complaints(|row| {
                end(row, "reset_suppressed", count);
            });
            assert!(uncounted.contains("50 packets of it came in"), "{uncounted}");
        }
        let more = complaints(|row| row.with.total.counts.attack_answers = 51);
        assert!(more.contains("51 answers to 50"), "{more}");
        let larger = complaints(|row| row.with.total.counts.attack_answer_bytes = 2001);
        assert!(larger.contains("2001 bytes of answers to 2000"), "{larger}");
        let none = complaints(|row| row.with.total.counts.attack_sent = 0);
        assert!(none.contains("no packet of it was sent"), "{none}");
        let deaf = Deeds { connections: 1, unanswered: 1, ..Deeds::default() };
        let unanswered = complaints(|row| row.deeds = Some(deaf));
        assert!(unanswered.contains("1 honest requests had no answer"), "{unanswered}");
    }
}
