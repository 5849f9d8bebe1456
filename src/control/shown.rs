//! Numbers as people read them in sentences and tables.

/// `1 flow`, `12 flows`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// A rate in three digits: `0`, `0.3`, `950`, `12.3k`, `1.25M`.
pub(crate) fn scaled(rate: f64) -> String {
    let (value, unit) = match rate {
        // What is little is not nothing.
        rate if rate < 9.95 && (rate - rate.round()).abs() >= 0.05 => return format!("{rate:.1}"),
        rate if rate < 999.5 => return format!("{rate:.0}"),
        rate if rate < 999_500.0 => (rate / 1e3, "k"),
        rate if rate < 999.5e6 => (rate / 1e6, "M"),
        rate => (rate / 1e9, "G"),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$}{unit}")
}

/// A span of time in its two largest units: `340ms`, `12.5s`, `4m 12s`, `3h 5m`, `2d 7h`.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if (1..1000).contains(&ms) {
        format!("{ms}ms")
    } else if seconds < 60 {
        match ms % 1000 / 100 {
            0 => format!("{seconds}s"),
            tenths => format!("{seconds}.{tenths}s"),
        }
    } else if hours == 0 {
        format!("{minutes}m {}s", seconds % 60)
    } else if days == 0 {
        format!("{hours}h {}m", minutes % 60)
    } else {
        format!("{days}d {}h", hours % 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_its_noun_in_the_plural_but_for_one() {
        assert_eq!([0, 1, 12].map(|count| counted(count, "flow")), ["0 flows", "1 flow", "12 flows"]);
    }

    #[test]
    fn a_rate_has_three_digits_and_a_small_one_is_not_nothing() {
        for (rate, expected) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (1.02, "1"),
            (9.97, "10"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (999_600.0, "1.00M"),
            (1_254_000.0, "1.25M"),
            (99_960_000.0, "100M"),
            (1.5e9, "1.50G"),
        ] {
            assert_eq!(scaled(rate), expected);
        }
    }

    #[test]
    fn a_span_has_its_two_largest_units() {
        for (ms, expected) in [
            (0, "0s"),
            (99, "99ms"),
            (340, "340ms"),
            (12_500, "12.5s"),
            (59_999, "59.9s"),
            (60_000, "1m 0s"),
            (252_000, "4m 12s"),
            (11_100_000, "3h 5m"),
            (198_000_000, "2d 7h"),
        ] {
            assert_eq!(span(ms), expected, "{ms}");
        }
    }
}
