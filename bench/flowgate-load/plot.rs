//! Rates and latencies over time, as SVG: two panels over one axis of time, the upper one from 0, the lower one
//! logarithmic, as latencies span decades.

use super::report::Point;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 840.0;
/// Top and bottom of each panel.
const RATES: (f64, f64) = (40.0, 260.0);
const LATENCIES: (f64, f64) = (310.0, 520.0);

struct Line<'a> {
    name: &'a str,
    colour: &'a str,
    of: fn(&Point) -> f64,
}

const RATE_LINES: [Line<'static>; 2] = [
    Line { name: "sent a second", colour: "#888888", of: Point::sent_per_second },
    Line { name: "arrived a second", colour: "#1f77b4", of: Point::arrived_per_second },
];

const LATENCY_LINES: [Line<'static>; 3] = [
    Line { name: "p50", colour: "#2ca02c", of: |point| point.p50_us },
    Line { name: "p99", colour: "#ff7f0e", of: |point| point.p99_us },
    Line { name: "max", colour: "#d62728", of: |point| point.max_us },
];

/// The drawing of these points.
pub fn draw(points: &[Point]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let end = points.last().map_or(1.0, |point| point.at).max(0.1);
    let x = |at: f64| LEFT + at / end * (RIGHT - LEFT);
    seconds(&mut svg, end, &x);

    let highest = points.iter().flat_map(|point| RATE_LINES.iter().map(|line| (line.of)(point)));
    let step = nice_step(highest.fold(1.0, f64::max));
    let top = step * 5.0;
    for n in 0..=5u32 {
        let value = step * f64::from(n);
        rule(&mut svg, y_of(RATES, value / top), &short(value));
    }
    lines(&mut svg, points, &RATE_LINES, RATES, &x, |value| value / top, "packets a second");

    let (low, high) = decades(points);
    let place = |value: f64| (value.max(low).log10() - low.log10()) / (high.log10() - low.log10());
    let mut value = low;
    while value <= high * 1.001 {
        rule(&mut svg, y_of(LATENCIES, place(value)), &short(value));
        value *= 10.0;
    }
    lines(&mut svg, points, &LATENCY_LINES, LATENCIES, &x, place, "microseconds from end to end");
    svg + "</svg>\n"
}

fn y_of((top, bottom): (f64, f64), share: f64) -> f64 {
    bottom - share * (bottom - top)
}

/// A step of 1, 2 or 5 times a power of ten, five of which reach above the highest value.
fn nice_step(highest: f64) -> f64 {
    let least = highest / 5.0;
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|&step| step >= least)
        .unwrap_or(least)
}

/// Powers of ten around all latencies.
fn decades(points: &[Point]) -> (f64, f64) {
    let values = || {
        points
            .iter()
            .flat_map(|point| LATENCY_LINES.iter().map(|line| (line.of)(point)))
            .filter(|&value| value > 0.0)
    };
    let power = |value: f64| 10f64.powf(value.log10().floor());
    let low = power(values().fold(f64::INFINITY, f64::min).min(1e6));
    let high = power(values().fold(low, f64::max)) * 10.0;
    (low, high)
}

fn seconds(svg: &mut String, end: f64, x: &impl Fn(f64) -> f64) {
    let step = nice_step(end);
    let mut at = 0.0;
    while at <= end * 1.001 {
        let (x, bottom) = (x(at), LATENCIES.1 + 18.0);
        *svg += &format!("<text x=\"{x:.1}\" y=\"{bottom}\" text-anchor=\"middle\">{at} s</text>\n");
        at += step;
    }
}

fn rule(svg: &mut String, y: f64, label: &str) {
    let (x, below) = (LEFT - 6.0, y + 4.0);
    *svg += &format!(
        "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#dddddd\"/>\
         <text x=\"{x}\" y=\"{below:.1}\" text-anchor=\"end\">{label}</text>\n"
    );
}

fn lines(
    svg: &mut String,
    points: &[Point],
    lines: &[Line<'_>],
    panel: (f64, f64),
    x: &impl Fn(f64) -> f64,
    place: impl Fn(f64) -> f64,
    title: &str,
) {
    let above = panel.0 - 12.0;
    *svg += &format!("<text x=\"{LEFT}\" y=\"{above}\" font-weight=\"bold\">{title}</text>\n");
    let mut legend = RIGHT;
    for Line { name, colour, of } in lines.iter().rev() {
        *svg += &format!(
            "<text x=\"{legend}\" y=\"{above}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>\n"
        );
        legend -= 130.0;
        let path: Vec<String> =
            points.iter().map(|p| format!("{:.1} {:.1}", x(p.at), y_of(panel, place(of(p))))).collect();
        if !path.is_empty() {
            let path = path.join("L");
            *svg +=
                &format!("<path d=\"M{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n");
        }
    }
}

/// A number with k or M.
fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Counts;

    #[test]
    fn every_point_is_within_its_panel() {
        let point = |n: u32| Point {
            at: f64::from(n),
            lasted: 1.0,
            counts: Counts { sent: [u64::from(n) * 1000, 7], arrived: [5, 5], ..Counts::default() },
            p50_us: 3.0,
            p99_us: 40.0 * f64::from(n),
            max_us: 12_345.0,
        };
        let svg = draw(&(1..30).map(point).collect::<Vec<_>>());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        let drawn = svg.lines().filter(|line| line.contains("stroke-width"));
        let panels = [RATES, RATES, LATENCIES, LATENCIES, LATENCIES];
        assert_eq!(drawn.clone().count(), panels.len());
        for (line, panel) in drawn.zip(panels) {
            let path = line.split('"').nth(1).expect("a path");
            for place in path.trim_start_matches('M').split('L') {
                let (x, y) = place.split_once(' ').expect("two numbers");
                let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
                assert!((LEFT..=RIGHT).contains(&x) && (panel.0..=panel.1).contains(&y), "{x} {y}");
            }
        }
    }

    #[test]
    fn a_plot_of_nothing_is_a_plot() {
        assert!(draw(&[]).ends_with("</svg>\n"));
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([1.0, 7.0, 4_900_000.0].map(nice_step), [0.2, 2.0, 1_000_000.0]);
    }
}
