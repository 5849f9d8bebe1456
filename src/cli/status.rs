//! `flowgate status`, and `flowgate` alone: how the daemon stands, what is wrong with it, and what to do next.

#![forbid(unsafe_code)]

use super::table::Look;
use crate::control::shown::span;
use crate::control::socket::views::{Overview, Trouble};

/// What the package calls the node's configuration.
const CONFIGURATION: &str = "/etc/flowgate/node.toml";

/// Where the package has examples.
const EXAMPLES: &str = "/usr/share/doc/flowgate/examples";

pub(super) fn shown(overview: &Overview, look: &Look) -> String {
    let node = &overview.node;
    let (version, up) = (&node.version, span(node.uptime_ms));
    let mut text = format!("flowgated {version}, up {up}. {}.\n", overview.sentence());
    if overview.readiness.ready {
        text += "It is ready for traffic.\n";
    } else {
        text += &look.paragraph("It is NOT READY: ", &overview.readiness.missing.join("; "));
    }
    if node.is_replaced {
        text += "Another build is installed. This one goes on until `systemctl restart flowgate`.\n";
    }
    for trouble in &overview.troubles {
        text += &format!("\n{}", wrong(trouble, overview, look));
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

/// Something that is wrong, since when, and what to do about it.
fn wrong(trouble: &Trouble, overview: &Overview, look: &Look) -> String {
    let Trouble { kind, severity, what, since, to_do, figures, command, .. } = trouble;
    let head = look.paragraph(&format!("{severity}: "), &format!("{what}. [{kind}]"));
    let ago = span(overview.at.since(*since) / 1000 * 1000);
    let figures = if figures.is_empty() { String::new() } else { format!(": {figures}") };
    let since = look.paragraph("  since ", &format!("{} ({ago} ago){figures}", look.moment(*since)));
    let command = command.as_ref().map(|command| look.paragraph("  see: ", command)).unwrap_or_default();
    format!("{head}{since}{}{command}", look.paragraph("  to do: ", to_do))
}

/// What a node still wants before it forwards.
fn next(overview: &Overview) -> Vec<String> {
    if overview.is_idle() {
        return vec![
            format!(
                "Give {CONFIGURATION} cores, ports, underlay and endpoints; {EXAMPLES}/node.toml has them all."
            ),
            "flowgate doctor: what this host and that file still lack, each with the command that mends it."
                .to_owned(),
            format!("flowgated --config {CONFIGURATION} --check"),
            "systemctl restart flowgate".to_owned(),
        ];
    }
    if !overview.leads_somewhere() {
        return vec![
            format!(
                "Make a load balancer with a listener, a target group and targets; {EXAMPLES}/objects.json has them."
            ),
            "flowgate apply --file objects.json".to_owned(),
            "flowgate audit".to_owned(),
        ];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Arguments;
    use super::super::top::fixture;
    use super::*;
    use crate::control::troubles::fixture::{judged, well};
    use clap::Parser as _;
    use jiff::tz::TimeZone;

    fn said(overview: &Overview) -> String {
        shown(overview, &Look::plain(overview.at, TimeZone::UTC))
    }

    #[test]
    fn a_node_that_forwards_has_nothing_left_to_do() {
        let overview = judged([well(1)]);
        let text = said(&overview);
        assert!(text.starts_with("flowgated 0.1.0, up 3d 4h. Forwards: "), "{text}");
        assert!(!text.contains("What to do next"), "{text}");
    }

    #[test]
    fn what_is_wrong_is_told_with_what_to_do_and_so_is_why_the_node_is_not_ready() {
        let mut overview = fixture::overview(2);
        let text = said(&overview);
        let expected = "It is ready for traffic.

critical: firewalls/10.0.0.2 is unhealthy (Request timed out): its flows are reset.
          [target-unhealthy]
  since 2026-11-29 20:46:37.007 +00:00 (1m 2s ago): 125 flows left, 25 flows reset in the last
        minute
  to do: See to the appliance: what the checks saw is behind its name.
  see: flowgate report 7

notice: firewalls/10.0.0.3 drains. [target-draining]
";
        assert!(text.contains(expected), "{text}");
        overview.readiness.ready = false;
        overview.readiness.missing = vec!["standby".to_owned(), "worker 1 does not go by it".to_owned()];
        assert!(
            said(&overview).contains("It is NOT READY: standby; worker 1 does not go by it\n"),
            "{}",
            said(&overview)
        );
    }

    #[test]
    fn a_node_without_ports_is_told_where_to_give_it_some() {
        let mut overview = fixture::overview(1);
        (overview.workers, overview.ports) = (Vec::new(), Vec::new());
        let text = said(&overview);
        assert!(text.contains("Idle: the configuration has no ports, and nothing is forwarded.\n"), "{text}");
        assert!(text.contains("  1. Give /etc/flowgate/node.toml cores, ports"), "{text}");
        assert!(text.contains("  4. systemctl restart flowgate\n"), "{text}");
    }

    #[test]
    fn a_node_without_targets_is_told_how_to_have_some() {
        let mut overview = fixture::overview(1);
        overview.target_groups.clear();
        let text = said(&overview);
        assert!(text.contains("Drops what comes, as no load balancer leads to a target; "), "{text}");
        assert!(text.contains("  2. flowgate apply --file objects.json\n"), "{text}");
    }

    /// What people are told to type can be typed.
    #[test]
    fn every_command_that_is_told_can_be_read() {
        let mut overviews = [fixture::overview(1), fixture::overview(1), fixture::overview(2)];
        overviews[0].target_groups.clear();
        (overviews[1].workers, overviews[1].ports) = (Vec::new(), Vec::new());
        let steps = overviews.iter().flat_map(next);
        let of_troubles = overviews.iter().flat_map(|overview| &overview.troubles);
        let told: Vec<String> =
            steps.chain(of_troubles.filter_map(|trouble| trouble.command.clone())).collect();
        let commands: Vec<&str> = told
            .iter()
            .map(|told| told.split(": ").next().unwrap())
            .filter(|told| told.starts_with("flowgate "))
            .collect();
        assert!(commands.len() > 3, "{commands:?}");
        for command in commands {
            if let Err(error) = Arguments::try_parse_from(command.split(' ')) {
                panic!("{command}: {error}");
            }
        }
    }

    #[test]
    fn a_build_that_waits_for_a_restart_is_told() {
        let mut overview = fixture::overview(1);
        overview.node.is_replaced = true;
        assert!(
            said(&overview).contains("goes on until `systemctl restart flowgate`"),
            "{}",
            said(&overview)
        );
    }
}
