//! Counters that only rise: what Prometheus would scrape, from one time to the next in one life of the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Values by their series: name and labels.
pub type Series = BTreeMap<String, f64>;

/// The series of one scrape whose kind is `counter`, or that count into the buckets of a histogram.
pub fn counters(text: &str) -> Series {
    let mut rising = BTreeSet::new();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            if let Some((name, "counter" | "histogram")) = declared.split_once(' ') {
                rising.insert(name);
            }
        } else if let Some((series, value)) = line.rsplit_once(' ')
            && !line.starts_with('#')
        {
            let name = series.split('{').next().unwrap_or(series);
            let stem = ["_total", "_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
            if (rising.contains(name) || stem.is_some_and(|stem| rising.contains(stem)))
                && let Ok(value) = value.parse()
            {
                found.insert(series.to_owned(), value);
            }
        }
    }
    found
}

/// Each counter that is lower than before, but for those of targets that were deregistered: one that is registered again
/// begins at nothing (docs/metrics.md).
pub fn fallen(before: &Series, now: &Series, deregistered: &[Ipv4Addr]) -> Vec<String> {
    falls(before, now)
        .filter(|(series, ..)| !deregistered.iter().any(|target| is_of(series, *target)))
        .map(|(series, was, is)| format!("{series} fell from {was} to {is}"))
        .collect()
}

/// Those of the targets whose series fell, are gone or were not there before.
pub fn begun_anew(before: &Series, now: &Series, targets: &[Ipv4Addr]) -> BTreeSet<Ipv4Addr> {
    let fell = |target| falls(before, now).any(|(series, ..)| is_of(series, target));
    let has = |all: &Series, target| all.keys().any(|series| is_of(series, target));
    let came_or_went = |target| !has(before, target) || !has(now, target);
    targets.iter().copied().filter(|target| fell(*target) || came_or_went(*target)).collect()
}

fn falls<'a>(before: &'a Series, now: &'a Series) -> impl Iterator<Item = (&'a str, f64, f64)> {
    let both = before.iter().filter_map(|(series, was)| Some((series.as_str(), *was, *now.get(series)?)));
    both.filter(|(_, was, is)| is < was)
}

fn is_of(series: &str, target: Ipv4Addr) -> bool {
    series.contains(&format!("target=\"{target}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# HELP a_total What.\n# TYPE a_total counter\na_total{t=\"1\"} 5\na_total{t=\"2\"} 7\n\
                          # TYPE b gauge\nb 9\n# TYPE c histogram\nc_bucket{le=\"1\"} 2\nc_sum 1.5\nc_count 2\n\
                          # TYPE d counter\nd_total 4\n";

    #[test]
    fn a_counter_that_falls_is_told_and_a_gauge_may() {
        let before = counters(BEFORE);
        assert_eq!(before.len(), 6, "{before:?}");
        assert_eq!(fallen(&before, &before, &[]), Vec::<String>::new());
        let now = counters(
            &BEFORE.replace("\"2\"} 7", "\"2\"} 6").replace("b 9", "b 1").replace("d_total 4", "d_total 3"),
        );
        assert_eq!(
            fallen(&before, &now, &[]),
            ["a_total{t=\"2\"} fell from 7 to 6", "d_total fell from 4 to 3"]
        );
        let bucket = counters(&BEFORE.replace("le=\"1\"} 2", "le=\"1\"} 1"));
        assert_eq!(fallen(&before, &bucket, &[]).len(), 1);
    }

    #[test]
    fn a_target_that_was_deregistered_may_begin_at_nothing_and_no_other() {
        let text = |one: u32, two: u32| {
            format!(
                "# TYPE a_total counter\na_total{{target=\"10.0.0.1\"}} {one}\na_total{{target=\"10.0.0.11\"}} {two}\n"
            )
        };
        let (before, now) = (counters(&text(5, 5)), counters(&text(1, 1)));
        let one = [Ipv4Addr::new(10, 0, 0, 1)];
        assert_eq!(fallen(&before, &now, &one), ["a_total{target=\"10.0.0.11\"} fell from 5 to 1"]);
        assert_eq!(begun_anew(&before, &now, &one), BTreeSet::from(one));
        assert_eq!(begun_anew(&before, &BTreeMap::new(), &one), BTreeSet::from(one));
        assert_eq!(begun_anew(&BTreeMap::new(), &now, &one), BTreeSet::from(one));
        assert_eq!(begun_anew(&before, &counters(&text(6, 1)), &one), BTreeSet::new());
    }

    #[test]
    fn a_series_may_come_and_go() {
        let (before, without) = (counters(BEFORE), counters(&BEFORE.replace("a_total{t=\"1\"} 5\n", "")));
        assert_eq!(fallen(&before, &without, &[]), Vec::<String>::new());
        assert_eq!(fallen(&without, &before, &[]), Vec::<String>::new());
    }
}
