//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures Flowgate beside what could be used instead, on this machine: DPDK's testpmd, rte_hash, and
/// hashbrown. The contenders take turns, round by round. Times are the measuring thread's CPU time; Y is what
/// testpmd takes to swap the five-tuple of a packet over net_ring. Progress goes to standard error, the report to
/// standard output, and with --out into files.
#[derive(Debug, Parser)]
#[command(name = "flowgate-bench", version)]
pub struct Arguments {
    /// Only these rows, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    pub only: Vec<RowName>,

    /// How often the contenders take turns [default: 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,

    /// CPU time of each turn, in milliseconds; testpmd takes 200 at least [default: 60]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    pub turn: Option<u32>,

    /// Numbers of flows of `packets`, powers of two such as 1,1K,8M [default: eight of them]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = flows)]
    pub flows: Vec<u32>,

    /// Seconds of full load in `longest-burst` [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub longest: Option<u32>,

    /// Packet buffers that Flowgate and the programs in this process share: those of a batch of 1,024, which stay in
    /// L2 with what is written before them as testpmd's 256 do; 8191 is what NICs with deep rings go through
    #[arg(long, value_name = "N", default_value_t = 1535, value_parser = clap::value_parser!(u32).range(1535..=65_535))]
    pub pool: u32,

    /// Packets and rte_hash in ordinary memory, as on a machine without free hugepages
    #[arg(long)]
    pub no_huge: bool,

    /// Small tables and short rounds: to see that everything works, not how fast
    #[arg(long)]
    pub short: bool,

    /// Where report.json, report.md and cost.svg are written
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Exit with 1 if a row misses its bar
    #[arg(long)]
    pub strict: bool,
}

/// The rows. What each says here is what `--help` says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowName {
    /// The flow table's look-ups, by hash beside rte_hash (the same 40-byte keys, and 16-byte IPv4 keys) and
    /// hashbrown, and by cookie; bursts of 32 in random order, 1 M and 8 M flows
    LookUp,
    /// An old flow deleted and a new one inserted, 1 M live, beside rte_hash and hashbrown
    InsertDelete,
    /// Packets of established flows, client → appliance and appliance → client, at 1 to 8 M flows, through the worker
    /// that the daemon runs; beside testpmd, the same swap in this process, and that swap over rte_hash and
    /// hashbrown; IPv6 at 1 M. The plot is drawn from it
    Packets,
    /// First packets of flows, table of 1 M half full
    FirstPacket,
    /// SYN flood into a full table of 1 M while established flows go on
    Flood,
    /// Memory per flow, everything counted, 1 M and 8 M flows
    Memory,
    /// Growth of the longest round by a new forwarding state and by a target's new condition, 1 M flows live
    Changes,
    /// Longest round under full load with churn and ageing at 4 M flows, beside the longest of a loop that does what
    /// testpmd does
    LongestBurst,
    /// Two workers against one
    Workers,
    /// A scrape of 1,000 targets, every series, in Prometheus's text format and in OpenMetrics, of 2 and of 16 workers
    Scrape,
}

impl Arguments {
    /// Whether a row was asked for.
    pub fn wants(&self, row: RowName) -> bool {
        self.only.is_empty() || self.only.contains(&row)
    }
}

/// `64`, `64K`, `8M`: a power of two.
fn flows(text: &str) -> Result<u32, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let flows = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(1 << shift));
    match flows {
        Some(flows) if flows.is_power_of_two() && flows <= 1 << 24 => Ok(flows),
        _ => Err("expected a power of two up to 16M, such as 1, 64 or 8M".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_flows_are_powers_of_two() {
        assert_eq!(["1", "64", "1K", "8M"].map(|text| flows(text).ok()), [1, 64, 1 << 10, 1 << 23].map(Some));
        for text in ["", "K", "0", "3", "100K", "32M", "8G", "-1", "5000000000", "4096M"] {
            assert!(flows(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_rows_are_wanted_unless_some_are_named() {
        let wants = |line: &[&str]| Arguments::try_parse_from(line).expect("a line").wants(RowName::Packets);
        assert!(wants(&["flowgate-bench"]));
        assert!(wants(&["flowgate-bench", "--only", "packets,flood"]));
        assert!(!wants(&["flowgate-bench", "--only", "flood"]));
    }
}
