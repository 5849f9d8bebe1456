//! A second worker: two, each on its own CPU with its own queue of every port, table and flows, against one
//! with as many flows as each of them. The bench is the NIC: what it puts into a worker's queue is of flows that the
//! worker owns, and it stands on that worker's CPU, as it does in every other row. The two work at the same time,
//! each for its turn; the CPU time of both counts.
//!
//! For comparison, and for the verdict on a machine with one CPU, they also work one after the other.

use std::sync::Arc;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use flowgate::datapath::counters::WorkerCounters;
use flowgate::datapath::outbound::Handoff;
use flowgate::flow::HashSeed;
use flowgate::io::dpdk::{Eal, Mbuf, WorkerThread};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::Bench;
use crate::contenders::gateway::{
    FEW_TARGETS, Known, WorkerLoop, check_encapsulated, check_inner, noted, seed, worker,
};
use crate::frames::{ACK, Flow, SYN, Shuffled};
use crate::one_wire::forwarding;
use crate::report::{Figure, Row, at_least, count};
use crate::rings::BATCH;
use crate::stand::{CLIENTS, PORTS, Stand, TARGETS, fill};
use crate::{Failure, cpu_time};

/// The worker that owns a flow, as the pipeline has it: a fraction of the hash's highest bits.
fn owner(seed: &HashSeed, flow: Flow, workers: u8) -> u8 {
    let hash = seed.flow(&flow.key());
    u8::try_from(((hash >> 48) * u64::from(workers)) >> 16).unwrap_or(u8::MAX)
}

/// A worker with the bench around it, and the flows that are its own.
struct Member {
    stand: Stand<WorkerLoop>,
    counters: Arc<WorkerCounters>,
    flows: Vec<(u32, Known)>,
    order: Shuffled,
    cpu: u16,
    eal: Eal,
}

impl Member {
    /// Opens the flows of these numbers.
    fn establish(&mut self, numbers: impl Iterator<Item = u32> + Clone, flows: usize) -> Result<(), Failure> {
        for flags in [SYN, ACK] {
            let (mut opened, mut expected) = (numbers.clone(), numbers.clone());
            let noticed = &mut self.flows;
            self.stand.play(
                (CLIENTS, TARGETS),
                flows,
                |packet: &mut Mbuf| {
                    let flow = Flow::v4(opened.next().ok_or("no more flows")?.into());
                    fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, flags))
                },
                |frame| {
                    let number = expected.next().ok_or("no more flows")?;
                    if flags == SYN {
                        noticed.push((number, noted(frame)?));
                    }
                    check_inner(Flow::v4(number.into()), flags, frame)
                },
            )?;
        }
        Ok(())
    }

    /// CPU time, and the packets handled in it.
    fn take_turn(&mut self, time: Duration) -> Result<(Duration, usize), Failure> {
        let (mut spent, mut packets) = (Duration::ZERO, 0);
        while spent < time {
            let mut expected = self.order.clone();
            let (flows, order) = (&self.flows, &mut self.order);
            spent += self.stand.play(
                (CLIENTS, TARGETS),
                BATCH,
                |packet: &mut Mbuf| {
                    let (number, _) = flows[order.next().ok_or("an endless order")? as usize];
                    let flow = Flow::v4(number.into());
                    fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, ACK))
                },
                |frame| {
                    let (number, known) = flows[expected.next().ok_or("an endless order")? as usize];
                    check_encapsulated(Flow::v4(number.into()), known, frame)
                },
            )?;
            packets += BATCH;
        }
        Ok((spent, packets))
    }

    /// Has `work` done with it on its own CPU, by a thread that DPDK knows.
    fn on_its_cpu<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Member) -> Result<T, Failure> + Send + 'static,
    ) -> JoinHandle<Result<(Member, T), String>> {
        spawn(move || {
            move_to(self.cpu).map_err(|error| error.to_string())?;
            let _known = WorkerThread::register(&self.eal).map_err(|error| error.to_string())?;
            let result = work(&mut self).map_err(|error| error.to_string())?;
            Ok((self, result))
        })
    }
}

/// What a thread of [`Member::on_its_cpu`] came to.
fn joined<T>(thread: JoinHandle<Result<T, String>>) -> Result<T, Failure> {
    Ok(thread.join().map_err(|_| "a worker's thread has panicked")??)
}

/// Moves the calling thread to a CPU, also one that the thread which started it may not use.
fn move_to(cpu: u16) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(usize::from(cpu))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// The workers of one gateway.
struct Fleet(Vec<Member>);

impl Fleet {
    fn start(bench: &Bench, workers: u8, flows: u32) -> Result<Fleet, Failure> {
        let ends = bench.rings.ends(PORTS, workers.into())?;
        let forwarding = Arc::new(forwarding(&seed(), 1, FEW_TARGETS));
        let mut members = Vec::new();
        let parts = ends.inside.into_iter().zip(ends.outside).zip(Handoff::mesh(workers));
        for (id, ((inside, outside), handoff)) in (0..workers).zip(parts) {
            let made = worker((id, workers), inside, handoff, flows, Arc::clone(&forwarding))?;
            // The last CPU first, where the bench is in every other row.
            let cpu = bench.cpus.iter().rev().cycle().nth(id.into()).copied().ok_or("no CPU")?;
            let rings = Arc::new(bench.rings.with_packets_of_its_own()?);
            let member = Member {
                eal: rings.eal.clone(),
                stand: Stand::new(&rings, outside, made.forwarder),
                counters: made.counters,
                flows: Vec::new(),
                order: Shuffled::below(flows),
                cpu,
            };
            let thread = member.on_its_cpu(move |member| {
                let seed = seed();
                let own = move |number: &u32| owner(&seed, Flow::v4((*number).into()), workers) == id;
                member.establish((0..).filter(own), flows as usize)
            });
            members.push(joined(thread)?.0);
        }
        Ok(Fleet(members))
    }

    /// The CPU time a packet of each, at the same time or one after the other, goes into `figures`.
    fn take_turn(&mut self, time: Duration, together: bool, figures: &mut [Figure]) -> Result<(), Failure> {
        let mut threads = Vec::new();
        let mut done = Vec::new();
        for member in self.0.drain(..) {
            let thread = member.on_its_cpu(move |member| member.take_turn(time));
            if together {
                threads.push(thread);
            } else {
                done.push(joined(thread)?);
            }
        }
        for thread in threads {
            done.push(joined(thread)?);
        }
        for ((member, (spent, packets)), figure) in done.into_iter().zip(figures) {
            figure.samples.push(cpu_time::each(spent, packets));
            self.0.push(member);
        }
        Ok(())
    }

    fn handed_over(&self) -> u64 {
        self.0.iter().map(|member| member.counters.handed_off.get()).sum()
    }
}

/// The row.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let flows = bench.size(1 << 20);
    bench.says(format_args!("workers, {} flows each: opening them", count(flows)));
    let mut one = Fleet::start(bench, 1, flows)?;
    let mut two = Fleet::start(bench, 2, flows)?;
    let figure = |who: &str| Figure::new(who, "ns a packet");
    let mut alone = [figure("one worker alone")];
    let mut both = ["first", "second"].map(|which| figure(&format!("{which} of two at the same time")));
    let mut in_turn =
        ["first", "second"].map(|which| figure(&format!("{which} of two, one after the other")));
    let testpmd = bench.yardstick(|| {
        one.take_turn(bench.turn, true, &mut alone)?;
        two.take_turn(bench.turn, true, &mut both)?;
        two.take_turn(bench.turn, false, &mut in_turn)
    })?;
    let mut row = Row::new("workers", format!("packets of two workers, {} flows each", count(flows)));
    // What two do in a while, each at its cost, in terms of what one does.
    let times = |of: &[Figure; 2]| of.iter().map(|figure| alone[0].best() / figure.best()).sum::<f64>();
    let (together, apart) = (times(&both), times(&in_turn));
    let (counted, how) = if bench.cpus.len() > 1 {
        (together, "at the same time")
    } else {
        (apart, "one after the other, as there is one CPU")
    };
    row.verdicts.push(at_least(format!("packets of one, {how}"), counted, 1.9, "×"));
    row.notes.push(format!("At the same time {together:.2} ×, one after the other {apart:.2} ×."));
    row.notes.push(format!("{} packets were handed from worker to worker.", two.handed_over()));
    row.figures.push(testpmd);
    row.figures.extend(alone.into_iter().chain(both).chain(in_turn));
    Ok(vec![row])
}
