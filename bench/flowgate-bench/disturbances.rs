//! What else the CPU did: for rows that ask for the longest of something, where one interrupt among
//! millions of rounds would be the answer.
//!
//! The kernel's time for an interrupt and for what follows it is counted as the interrupted thread's (unless it was
//! built to tell them apart), so CPU time alone does not leave it out. What is measured while the CPU took an
//! interrupt, or while the thread had to leave it to another, says nothing of the code that is measured.

use std::fs::File;
use std::io::{Read, Seek};

use nix::sys::resource::{UsageWho, getrusage};

use crate::Failure;

/// Counts disturbances of the calling thread, which stays on one CPU.
pub struct Disturbances {
    interrupts: File,
    column: usize,
    text: String,
}

impl Disturbances {
    /// Of `cpu`.
    pub fn of(cpu: u16) -> Result<Disturbances, Failure> {
        let mut interrupts = File::open("/proc/interrupts")?;
        let mut text = String::new();
        interrupts.read_to_string(&mut text)?;
        let column =
            column_of(cpu, &text).ok_or_else(|| format!("/proc/interrupts does not have CPU {cpu}"))?;
        Ok(Disturbances { interrupts, column, text })
    }

    /// How many there were so far. Takes some 50 µs: not to be called within a measurement.
    pub fn count(&mut self) -> Result<u64, Failure> {
        self.interrupts.rewind()?;
        self.text.clear();
        self.interrupts.read_to_string(&mut self.text)?;
        let lost = getrusage(UsageWho::RUSAGE_THREAD)?.involuntary_context_switches();
        Ok(sum(self.column, &self.text) + u64::try_from(lost)?)
    }
}

/// The place of a CPU among the numbers of each line.
fn column_of(cpu: u16, text: &str) -> Option<usize> {
    let name = format!("CPU{cpu}");
    text.lines().next()?.split_whitespace().position(|word| word == name)
}

/// The sum of a column.
fn sum(column: usize, text: &str) -> u64 {
    let numbers = |line: &str| line.split_whitespace().nth(column + 1)?.parse::<u64>().ok();
    text.lines().skip(1).filter_map(numbers).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpus_interrupts_are_added_up_and_lines_without_them_left_out() {
        let text = "           CPU0       CPU2
   4:         10         20   IO-APIC   4-edge      ttyS0
 LOC:     300000     400000   Local timer interrupts
 ERR:          7
 MIS:          0
";
        let column = column_of(2, text).expect("there is one");
        assert_eq!((column, sum(column, text)), (1, 400_020));
        assert_eq!(sum(column_of(0, text).expect("there is one"), text), 300_017);
        assert_eq!(column_of(1, text), None);
    }

    #[test]
    fn a_timer_disturbs_who_works_for_long_enough() {
        let cpu = u16::try_from(nix::sched::sched_getcpu().expect("a CPU")).expect("a small number");
        let mut disturbances = Disturbances::of(cpu).expect("the kernel tells");
        let before = disturbances.count().expect("a count");
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(disturbances.count().expect("a count") >= before);
    }
}
