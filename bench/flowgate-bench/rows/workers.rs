//! A second worker: two, each on its own CPU with its own queue of every port, table and flows, against one
//! with as many flows as each of them. The bench is the NIC: it puts each packet into the queue of the worker that
//! owns its flow. Both get a batch and work at the same time; the CPU time of each counts.
//!
//! On a machine with one CPU, and for comparison on others, they work one after the other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle, scope};
use std::time::Duration;

use flowgate::datapath::counters::WorkerCounters;
use flowgate::datapath::outbound::Handoff;
use flowgate::flow::HashSeed;
use flowgate::io::dpdk::{Eal, Mbuf, WorkerThread};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::Bench;
use crate::contenders::gateway::{
    FEW_TARGETS, Known, WorkerLoop, check_encapsulated, check_inner, forwarding, noted, seed, worker,
};
use crate::frames::{ACK, Flow, SYN, Shuffled};
use crate::report::{Figure, Row, at_least, count};
use crate::stand::{CLIENTS, Forwarder, PORTS, Stand, TARGETS, fill};
use crate::{Failure, cpu_time};

/// Packets that each worker is given at once.
const PART: usize = 512;

/// The worker that owns a flow, as the pipeline has it: a fraction of the hash's highest bits.
fn owner(seed: &HashSeed, flow: Flow, workers: u8) -> u8 {
    let hash = seed.flow(&flow.key());
    u8::try_from(((hash >> 48) * u64::from(workers)) >> 16).unwrap_or(u8::MAX)
}

/// A worker on a thread of its own.
struct Remote {
    tell: Sender<usize>,
    took: Receiver<Result<Duration, String>>,
    counters: Arc<WorkerCounters>,
}

impl Remote {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        eal: &Eal,
        cpu: u16,
        mut forwarder: WorkerLoop,
        counters: Arc<WorkerCounters>,
    ) -> (Remote, ScopedJoinHandle<'scope, ()>) {
        let (tell, told) = channel::<usize>();
        let (took_it, took) = channel();
        let eal = eal.clone();
        let handle = scope.spawn(move || {
            let placed = move_to(cpu).map_err(|error| error.to_string());
            let registered =
                placed.and_then(|()| WorkerThread::register(&eal).map_err(|error| error.to_string()));
            for count in told {
                let result =
                    registered.as_ref().map_err(String::clone).and_then(|_| work(&mut forwarder, count));
                if took_it.send(result).is_err() {
                    break;
                }
            }
            drop(forwarder);
        });
        (Remote { tell, took, counters }, handle)
    }

    fn begin(&self, count: usize) -> Result<(), Failure> {
        Ok(self.tell.send(count).map_err(|_| "a worker's thread has ended")?)
    }

    fn end(&self) -> Result<Duration, Failure> {
        Ok(self.took.recv().map_err(|_| "a worker's thread has ended")??)
    }
}

/// Moves the calling thread to a CPU, also one that the thread which started it may not use.
fn move_to(cpu: u16) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(usize::from(cpu))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Rounds until so many packets were handled; their CPU time.
fn work(forwarder: &mut WorkerLoop, count: usize) -> Result<Duration, String> {
    forwarder.resume();
    let (time, left) = cpu_time::of(|| {
        let mut left = count;
        while left > 0 {
            match forwarder.round() {
                0 => break,
                handled => left = left.saturating_sub(handled),
            }
        }
        left
    });
    if left == 0 { Ok(time) } else { Err(format!("{left} of {count} packets were not received")) }
}

/// A worker and the flows that are its own.
struct Member {
    stand: Stand<Remote>,
    flows: Vec<(u32, Known)>,
    order: Shuffled,
    expected: Shuffled,
}

impl Member {
    fn put(&mut self) -> Result<(), Failure> {
        let (flows, order) = (&self.flows, &mut self.order);
        self.stand.put(CLIENTS, PART, &mut |packet: &mut Mbuf| {
            let (number, _) = flows[order.next().ok_or("an endless order")? as usize];
            let flow = Flow::v4(number.into());
            fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, ACK))
        })
    }

    fn take(&mut self) -> Result<(), Failure> {
        let (flows, expected) = (&self.flows, &mut self.expected);
        let seen = self.stand.take(TARGETS, &mut |frame: &[u8]| {
            let (number, known) = flows[expected.next().ok_or("an endless order")? as usize];
            check_encapsulated(Flow::v4(number.into()), known, frame)
        })?;
        if seen == PART { Ok(()) } else { Err(format!("{PART} packets went in and {seen} came out").into()) }
    }

    /// Opens the flows of these numbers.
    fn establish(&mut self, numbers: &[u32]) -> Result<(), Failure> {
        for part in numbers.chunks(PART) {
            for flags in [SYN, ACK] {
                let mut flows = part.iter().map(|number| Flow::v4((*number).into()));
                self.stand.put(CLIENTS, part.len(), &mut |packet: &mut Mbuf| {
                    let flow = flows.next().ok_or("no more flows")?;
                    fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, flags))
                })?;
                self.stand.forwarder.begin(part.len())?;
                self.stand.forwarder.end()?;
                let mut expected = part.iter();
                let flows = &mut self.flows;
                self.stand.take(TARGETS, &mut |frame: &[u8]| {
                    let number = *expected.next().ok_or("more came out than went in")?;
                    if flags == SYN {
                        flows.push((number, noted(frame)?));
                    }
                    check_inner(Flow::v4(number.into()), flags, frame)
                })?;
                if expected.next().is_some() {
                    return Err("packets were lost while the flows were opened".into());
                }
            }
        }
        Ok(())
    }
}

/// Some workers of one gateway.
struct Fleet(Vec<Member>);

impl Fleet {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        bench: &Bench,
        workers: u8,
        flows: u32,
    ) -> Result<Fleet, Failure> {
        let ends = bench.rings.ends(PORTS, workers.into())?;
        let forwarding = Arc::new(forwarding(1, FEW_TARGETS));
        let seed = seed();
        let mut members = Vec::new();
        let parts = ends.inside.into_iter().zip(ends.outside).zip(Handoff::mesh(workers));
        for (id, ((inside, outside), handoff)) in (0..workers).zip(parts) {
            let made = worker((id, workers), inside, handoff, flows, Arc::clone(&forwarding))?;
            // The bench's own CPU is the last, and the first worker's: it waits while they work.
            let cpu = bench.cpus.iter().rev().cycle().nth(id.into()).copied().ok_or("no CPU")?;
            let (remote, _) = Remote::start(scope, &bench.rings.eal, cpu, made.forwarder, made.counters);
            let mut member = Member {
                stand: Stand::new(&bench.rings, outside, remote),
                flows: Vec::new(),
                order: Shuffled::below(flows),
                expected: Shuffled::below(flows),
            };
            let own = |number: &u32| owner(&seed, Flow::v4((*number).into()), workers) == id;
            let numbers: Vec<u32> = (0..).filter(own).take(flows as usize).collect();
            member.establish(&numbers)?;
            members.push(member);
        }
        Ok(Fleet(members))
    }

    /// CPU time a packet, with the workers at the same time or one after the other.
    fn take_turn(&mut self, time: Duration, together: bool) -> Result<f64, Failure> {
        let (mut spent, mut packets) = (Duration::ZERO, 0);
        while spent < time * u32::try_from(self.0.len())? {
            self.0.iter_mut().try_for_each(Member::put)?;
            if together {
                self.0.iter().try_for_each(|member| member.stand.forwarder.begin(PART))?;
            }
            for member in &self.0 {
                if !together {
                    member.stand.forwarder.begin(PART)?;
                }
                spent += member.stand.forwarder.end()?;
            }
            self.0.iter_mut().try_for_each(Member::take)?;
            packets += PART * self.0.len();
        }
        Ok(cpu_time::each(spent, packets))
    }

    fn handed_over(&self) -> u64 {
        self.0.iter().map(|member| member.stand.forwarder.counters.handed_off.get()).sum()
    }
}

/// The row.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let flows = bench.size(1 << 20);
    bench.says(format_args!("workers, {} flows each: opening them", count(flows)));
    scope(|scope| {
        let mut one = Fleet::start(scope, bench, 1, flows)?;
        let mut two = Fleet::start(scope, bench, 2, flows)?;
        let figure = |who: &str| Figure::new(who, "ns a packet");
        let (mut alone, mut both, mut in_turn) =
            (figure("one worker"), figure("two at the same time"), figure("two, one after the other"));
        let testpmd = bench.yardstick(|| {
            alone.samples.push(one.take_turn(bench.turn, true)?);
            both.samples.push(two.take_turn(bench.turn, true)?);
            in_turn.samples.push(two.take_turn(bench.turn, false)?);
            Ok(())
        })?;
        let mut row = Row::new("workers", format!("packets of two workers, {} flows each", count(flows)));
        let times = |of: &Figure| 2.0 * alone.best() / of.best();
        let has_cpus = bench.cpus.len() > 1;
        let (counted, other) = if has_cpus { (&both, &in_turn) } else { (&in_turn, &both) };
        row.verdicts.push(at_least(
            format!("packets of one, {}", counted.contender),
            times(counted),
            1.9,
            "×",
        ));
        row.notes.push(format!("{}: {:.2} ×.", other.contender, times(other)));
        row.notes.push(format!("{} packets were handed from worker to worker.", two.handed_over()));
        row.figures = vec![testpmd, alone.clone(), both.clone(), in_turn.clone()];
        Ok(vec![row])
    })
}
