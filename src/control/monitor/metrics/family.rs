//! A family of series: its name, type, labels and meaning, and how it is written. There is one table of them
//! (`families`); what is served and what `docs/metrics.md` lists are both made from it.

use std::fmt;

use arrayvec::ArrayVec;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use super::snapshot::Snapshot;
use crate::control::histogram::Histogram;

/// The most labels that a series has.
const MAX_LABELS: usize = 6;

/// What kind of figure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; the name has `_total` behind it where it is served.
    Counter,
    /// It comes and goes.
    Gauge,
    /// Durations or sizes, counted by class.
    Histogram,
}

type Write = fn(&Snapshot, &mut Series<'_>) -> fmt::Result;

/// A family of series.
#[derive(Clone, Copy)]
pub struct Family {
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    cloudwatch: &'static [&'static str],
    write: Write,
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Family {
    /// A counter. `name` is without `_total`; `help` is a sentence without its full stop.
    pub const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        write: Write,
    ) -> Self {
        Family { name, kind: Kind::Counter, labels, help, cloudwatch: &[], write }
    }

    /// A gauge.
    pub const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        write: Write,
    ) -> Self {
        Family { name, kind: Kind::Gauge, labels, help, cloudwatch: &[], write }
    }

    /// A histogram.
    pub const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        write: Write,
    ) -> Self {
        Family { name, kind: Kind::Histogram, labels, help, cloudwatch: &[], write }
    }

    /// The same, which is also what CloudWatch has under these names.
    pub const fn cloudwatch(self, names: &'static [&'static str]) -> Self {
        Family { cloudwatch: names, ..self }
    }

    /// The name under which it is served.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Gauge | Kind::Histogram => self.name.to_owned(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The labels of its series.
    pub fn labels(&self) -> &'static [&'static str] {
        self.labels
    }

    /// What it means.
    pub fn help(&self) -> &'static str {
        self.help
    }

    /// CloudWatch's names for it.
    pub fn cloudwatch_names(&self) -> &'static [&'static str] {
        self.cloudwatch
    }

    /// Writes its series.
    pub(super) fn encode(&self, snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        let encoder = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        (self.write)(snapshot, &mut Series { encoder, keys: self.labels })
    }
}

/// Where the series of a family are written. The values of labels are given in the order of their names.
pub struct Series<'a> {
    encoder: MetricEncoder<'a>,
    keys: &'static [&'static str],
}

type Labels<'v> = ArrayVec<(&'static str, &'v str), MAX_LABELS>;

impl Series<'_> {
    fn labels<'v>(&self, values: &[&'v str]) -> Labels<'v> {
        debug_assert_eq!(self.keys.len(), values.len(), "{:?}", self.keys);
        self.keys.iter().copied().zip(values.iter().copied()).take(MAX_LABELS).collect()
    }

    /// Writes a counter's series.
    pub fn counter(&mut self, values: &[&str], value: impl EncodeCounterValue) -> fmt::Result {
        let labels = self.labels(values);
        match labels.as_slice() {
            [] => self.encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
            labels => self.encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None),
        }
    }

    /// Writes a gauge's series.
    pub fn gauge(&mut self, values: &[&str], value: impl EncodeGaugeValue) -> fmt::Result {
        let labels = self.labels(values);
        match labels.as_slice() {
            [] => self.encoder.encode_gauge(&value),
            labels => self.encoder.encode_family(&labels)?.encode_gauge(&value),
        }
    }

    /// Writes a histogram's series.
    pub fn histogram(&mut self, values: &[&str], histogram: &Histogram) -> fmt::Result {
        let classes: Vec<(f64, u64)> = histogram.classes().collect();
        self.classes(values, histogram.sum().as_secs_f64(), &classes)
    }

    /// Writes a histogram's series from the upper bound and the count of each class.
    pub fn classes(&mut self, values: &[&str], sum: f64, classes: &[(f64, u64)]) -> fmt::Result {
        let count = classes.iter().map(|(_, count)| count).sum();
        let labels = self.labels(values);
        match labels.as_slice() {
            [] => self.encoder.encode_histogram::<NoLabelSet>(sum, count, classes, None),
            labels => {
                self.encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, classes, None)
            }
        }
    }
}
