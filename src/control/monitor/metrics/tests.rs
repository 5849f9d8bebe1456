use std::collections::HashSet;

use hyper::header::HeaderValue;

use super::*;

fn wanted(accept: &[&'static str]) -> Format {
    let mut headers = HeaderMap::new();
    for value in accept {
        headers.append(ACCEPT, HeaderValue::from_static(value));
    }
    Format::wanted(&headers)
}

#[test]
fn openmetrics_is_for_who_asks_for_it() {
    for accept in [&[][..], &["*/*"], &["text/plain"], &["text/html,application/xhtml+xml,*/*;q=0.8"]] {
        assert_eq!(wanted(accept), Format::Text, "{accept:?}");
    }
    // As Prometheus asks, of two versions.
    let of_2_42 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                   text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let text_first = "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5";
    assert_eq!(wanted(&[of_2_42]), Format::OpenMetrics);
    assert_eq!(wanted(&[text_first]), Format::Text);
    assert_eq!(wanted(&["text/plain;q=0", "application/openmetrics-text"]), Format::OpenMetrics);
    assert_eq!(wanted(&["application/openmetrics-text;q=0"]), Format::Text);
}

#[test]
fn every_family_has_a_name_and_a_meaning_of_its_own() {
    let all = || FAMILIES.iter().flat_map(|(_, families)| families.iter());
    let names: HashSet<String> = all().map(Family::name).collect();
    assert_eq!(names.len(), all().count());
    for family in all() {
        let (name, help) = (family.name(), family.help());
        assert!(name.starts_with("flowgate_"), "{name}");
        assert!(!help.is_empty() && !help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
        let labels: HashSet<_> = family.labels().iter().collect();
        assert_eq!(labels.len(), family.labels().len(), "{name}");
        assert!(
            !labels.contains(&"le") && !labels.contains(&"job") && !labels.contains(&"instance"),
            "{name}"
        );
    }
}
