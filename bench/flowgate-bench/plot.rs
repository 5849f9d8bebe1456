//! The cost of a packet against the number of flows, as a picture.

use std::path::Path;

use plotters::prelude::*;

use crate::report::{Figure, count};

/// One contender's curve: a colour that is told from the others without colour vision too, by its lightness.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x88, 0x88, 0x88),
    RGBColor(0xbb, 0xbb, 0xbb),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x45, 0x90),
    RGBColor(0x00, 0x9e, 0x73),
];

const SIZE: (u32, u32) = (960, 560);

/// Draws the best figures of `curve`, which is by number of flows: to each the contenders', always in the
/// same order.
pub fn draw(path: &Path, curve: &[(u32, Vec<&Figure>)]) -> Result<(), Box<dyn std::error::Error>> {
    let (Some((least, contenders)), Some((most, _))) = (curve.first(), curve.last()) else { return Ok(()) };
    let costs = curve.iter().flat_map(|(_, figures)| figures.iter().map(|figure| figure.best()));
    let highest = costs.fold(0.0, f64::max) * 1.1;
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    // One number of flows alone would be an axis of no length.
    let (from, to) = (f64::from(*least), f64::from(*most).max(f64::from(*least) * 2.0));
    let mut chart = ChartBuilder::on(&area)
        .caption("CPU time of a packet, by number of flows", ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d((from..to).log_scale().base(2.0), 0.0..highest)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 16))
        .x_labels(24)
        .x_label_formatter(&|flows| label(*flows))
        .x_desc("flows, each packet of another")
        .y_desc("ns a packet, best round")
        .draw()?;
    for (place, contender) in contenders.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let points: Vec<(f64, f64)> = curve
            .iter()
            .filter_map(|(flows, figures)| Some((f64::from(*flows), figures.get(place)?.best())))
            .collect();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(3)))?
            .label(&contender.contender)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(3)));
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .label_font(("sans-serif", 18))
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .legend_area_size(32)
        .draw()?;
    area.present()?;
    Ok(())
}

/// A power of two as people write it; nothing for what lies between.
fn label(flows: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the axis")]
    let whole = flows.round() as u32;
    if whole.is_power_of_two() { count(whole) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_its_curve_and_its_name() {
        let figure = |who: &str, cost: f64| {
            let mut figure = Figure::new(who, "ns a packet");
            figure.samples.push(cost);
            figure
        };
        let few = [figure("testpmd", 12.0), figure("Flowgate", 25.0)];
        let many = [figure("testpmd", 12.0), figure("Flowgate", 50.0)];
        let path = std::env::temp_dir().join(format!("flowgate-bench-plot-{}.svg", std::process::id()));
        draw(&path, &[(1, few.iter().collect()), (1 << 23, many.iter().collect())]).expect("a picture");
        let text = std::fs::read_to_string(&path).expect("the file");
        std::fs::remove_file(&path).expect("the file");
        for part in ["<svg", "testpmd", "Flowgate", "8 M", "flows, each packet of another"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(text.matches("<circle").count(), 4);
    }
}
