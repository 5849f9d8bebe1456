//! `flowgate status`, and `flowgate` alone: how the daemon stands, and what to do next.

#![forbid(unsafe_code)]

use super::table::{Look, span};
use crate::control::socket::views::Overview;

/// What the package calls the node's configuration.
const CONFIGURATION: &str = "/etc/flowgate/node.toml";

/// Where the package has examples.
const EXAMPLES: &str = "/usr/share/doc/flowgate/examples";

pub(super) fn shown(overview: &Overview, _: &Look) -> String {
    let node = &overview.node;
    let (version, up) = (&node.version, span(node.uptime_ms));
    let mut text = format!("flowgated {version}, up {up}. {}.\n", overview.sentence());
    if node.is_replaced {
        text += "Another build is installed. This one goes on until `systemctl restart flowgate`.\n";
    }
    let steps = next(overview);
    if !steps.is_empty() {
        text += "\nWhat to do next:\n";
        for (step, number) in steps.iter().zip(1..) {
            text += &format!("  {number}. {step}\n");
        }
    }
    text
}

/// What a node still wants before it forwards.
fn next(overview: &Overview) -> Vec<String> {
    if overview.is_idle() {
        return vec![
            format!(
                "Give {CONFIGURATION} cores, ports, underlay and endpoints; {EXAMPLES}/node.toml has them all."
            ),
            format!("flowgated --config {CONFIGURATION} --check"),
            "systemctl restart flowgate".to_owned(),
        ];
    }
    if !overview.leads_somewhere() {
        return vec![
            format!(
                "Make a load balancer with a listener, a target group and targets; {EXAMPLES}/objects.json has them."
            ),
            "flowgate apply objects.json".to_owned(),
            "flowgate audit".to_owned(),
        ];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::super::top::fixture;
    use super::*;
    use jiff::tz::TimeZone;

    fn said(overview: &Overview) -> String {
        shown(overview, &Look::plain(overview.at, TimeZone::UTC))
    }

    #[test]
    fn a_node_that_forwards_has_nothing_left_to_do() {
        let overview = fixture::overview(0);
        let text = said(&overview);
        assert!(text.starts_with("flowgated 0.1.0, up 3d 4h. Forwards: "), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn a_node_without_ports_is_told_where_to_give_it_some() {
        let mut overview = fixture::overview(0);
        (overview.workers, overview.ports) = (Vec::new(), Vec::new());
        let text = said(&overview);
        assert!(text.contains("Idle: the configuration has no ports, and nothing is forwarded.\n"), "{text}");
        assert!(text.contains("  1. Give /etc/flowgate/node.toml cores, ports"), "{text}");
        assert!(text.contains("  3. systemctl restart flowgate\n"), "{text}");
    }

    #[test]
    fn a_node_without_targets_is_told_how_to_have_some() {
        let mut overview = fixture::overview(0);
        overview.target_groups.clear();
        let text = said(&overview);
        assert!(text.contains("Drops what comes, as no load balancer leads to a target; "), "{text}");
        assert!(text.contains("  2. flowgate apply objects.json\n"), "{text}");
    }

    #[test]
    fn a_build_that_waits_for_a_restart_is_told() {
        let mut overview = fixture::overview(0);
        overview.node.is_replaced = true;
        assert!(
            said(&overview).contains("goes on until `systemctl restart flowgate`"),
            "{}",
            said(&overview)
        );
    }
}
