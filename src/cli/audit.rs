//! `flowgate audit`: the review before the next target fails, for people and, by its exit code, for scripts.

#![forbid(unsafe_code)]

use super::Session;
use super::arguments::AuditFlags;
use super::client::{CliError, typed};
use super::table::{Look, number, optional, setting, text};
use crate::control::socket::views::{Audit, Finding, GroupAudit, Severity};

pub(super) fn run(session: &mut Session, flags: AuditFlags) -> Result<(), CliError> {
    let result = session.client.call("audit", &flags.params())?;
    let worst = typed::<Audit>(result.clone())?.worst;
    session.output.emit(result, shown)?;
    match worst {
        Some(Severity::Warning) => Err(CliError::FoundWarnings),
        Some(Severity::Critical) => Err(CliError::FoundCritical),
        Some(Severity::Notice) | None => Ok(()),
    }
}

fn shown(audit: &Audit, look: &Look) -> String {
    let mut shown: Vec<String> = audit.target_groups.iter().map(|group| group_shown(group, look)).collect();
    shown.extend(audit.findings.iter().map(|one| finding(one, look)));
    let count = |severity| audit.findings.iter().filter(|finding| finding.severity == severity).count();
    let counts = [Severity::Critical, Severity::Warning, Severity::Notice].map(count);
    let [critical, warnings, notices] = counts;
    shown.push(format!(
        "{critical} critical, {warnings} to be warned of, {notices} to be known. docs/audit.md has more of each.\n"
    ));
    shown.join("\n")
}

fn group_shown(group: &GroupAudit, look: &Look) -> String {
    let on = |on| if on { "on" } else { "off" };
    let used = group.load_balancer.as_ref().map_or_else(|| "unused".to_owned(), |name| format!("of {name}"));
    let head = format!(
        "{} ({used}): {}, {}; resets on unhealthy {}, on deregistration {}, on idle timeout {}. \
         A dead target is noticed after {}, at worst {}; its first reset is held back for {}.",
        group.target_group,
        group.failover,
        group.stickiness,
        on(group.reset_on_unhealthy),
        on(group.reset_on_deregistration),
        on(group.reset_on_idle_timeout),
        setting(group.detection_time_ms),
        setting(group.worst_detection_time_ms),
        setting(group.hold_ms)
    );
    let head = look.paragraph("", &head);
    if group.targets.is_empty() {
        return head;
    }
    let ms = |time: Option<f64>| optional(time.map(|ms| format!("{ms} ms")));
    let rows = group.targets.iter().map(|target| {
        [
            text(target.target),
            look.state(target.state),
            number(target.flows),
            number(format!("{:.1}", target.share_percent)),
            number(target.would_end),
            ms(target.usual_answer_ms),
            ms(target.slowest_answer_ms),
        ]
    });
    let headings = ["TARGET", "STATE", "FLOWS", "SHARE %", "WOULD END", "ANSWERS IN", "AT MOST"];
    format!("{head}{}", look.table(headings, rows.collect()))
}

fn finding(finding: &Finding, look: &Look) -> String {
    let Finding { id, severity, object, what, why, command } = finding;
    let command =
        command.as_ref().map(|command| look.paragraph("  to change it: ", command)).unwrap_or_default();
    let head = look.paragraph(&format!("{severity}: "), &format!("{object}: {what} [{id}]"));
    format!("{head}{}{command}", look.paragraph("  why it matters: ", why))
}
