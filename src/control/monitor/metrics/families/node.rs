//! The node as a whole, and the monitoring endpoint itself.

use std::time::Duration;

use crate::control::monitor::metrics::family::Family;
use crate::control::panics::Counts;

pub const FAMILIES: &[Family] = &[
    Family::gauge(
        "flowgate_build_info",
        &["version"],
        "1; the version is that of the running daemon",
        |_, out| out.gauge(&[env!("FLOWGATE_VERSION")], 1_u64),
    ),
    Family::gauge(
        "flowgate_start_timestamp_seconds",
        &[],
        "When the daemon started, since 1970",
        |snapshot, out| out.gauge(&[], snapshot.started),
    ),
    Family::gauge("flowgate_uptime_seconds", &[], "How long the daemon has run", |snapshot, out| {
        out.gauge(&[], snapshot.uptime.as_secs_f64())
    }),
    Family::counter(
        "flowgate_control_core_restarts",
        &[],
        "Times that the control core panicked and another went on in its place, beside the same workers",
        |snapshot, out| out.counter(&[], u64::from(snapshot.control_starts)),
    ),
    Family::counter(
        "flowgate_panics",
        &["thread"],
        "Panics: of the control core, of single conversations with its clients, and of other threads",
        |snapshot, out| {
            let Counts { control, conversations, others } = snapshot.panics;
            let each = [("control", control), ("conversation", conversations), ("other", others)];
            each.iter().try_for_each(|(thread, count)| out.counter(&[thread], *count))
        },
    ),
    Family::counter(
        "flowgate_checks_discarded",
        &[],
        "Health checks that failed while the process was stopped, and were made again: they had no chance",
        |snapshot, out| out.counter(&[], snapshot.checks_discarded),
    ),
    Family::counter(
        "flowgate_port_link_changes",
        &[],
        "Times that the link of a port came up or went down, as seen once a second",
        |snapshot, out| out.counter(&[], snapshot.port_changes),
    ),
    Family::counter(
        "flowgate_log_lines_lost",
        &[],
        "Log lines that were lost, as standard error took them too slowly or not at all",
        |snapshot, out| out.counter(&[], snapshot.log_lines_lost),
    ),
    Family::gauge("flowgate_healthy", &[], "1 if the daemon works: what /healthz says", |snapshot, out| {
        out.gauge(&[], u64::from(snapshot.is_healthy))
    }),
    Family::gauge(
        "flowgate_ready",
        &[],
        "1 if the node is to be given traffic: what /readyz says",
        |snapshot, out| out.gauge(&[], u64::from(snapshot.is_ready)),
    ),
    Family::gauge(
        "flowgate_taken_out",
        &[],
        "1 if somebody took the node out of service, as the standby of two is: it is not ready, and is not meant to be",
        |snapshot, out| out.gauge(&[], u64::from(snapshot.is_taken_out)),
    ),
    Family::gauge(
        "flowgate_configuration_generation",
        &[],
        "The number of the present configuration of objects",
        |snapshot, out| out.gauge(&[], snapshot.generation),
    ),
    Family::histogram(
        "flowgate_store_duration_seconds",
        &[],
        "How long it took to store a change, until it was on disk",
        |snapshot, out| out.histogram(&[], &snapshot.stored),
    ),
    Family::counter(
        "flowgate_store_failures",
        &[],
        "Changes that were refused because they could not be stored",
        |snapshot, out| out.counter(&[], snapshot.not_stored),
    ),
    Family::gauge(
        "flowgate_store_waiting_seconds",
        &[],
        "How long the change under way has waited for the disk by now; 0 if there is none",
        |snapshot, out| out.gauge(&[], snapshot.storing_for.as_secs_f64()),
    ),
    Family::histogram(
        "flowgate_condition_duration_seconds",
        &[],
        "From the decision on a target's health to the first packet that the last worker treats by it",
        |snapshot, out| out.histogram(&[], &snapshot.conditions),
    ),
    Family::counter(
        "flowgate_failovers",
        &[],
        "Failovers and drains that were recorded; goes on across restarts, as the records do",
        |snapshot, out| out.counter(&[], snapshot.failovers[0]),
    ),
    Family::gauge(
        "flowgate_failovers_open",
        &[],
        "Failovers and drains that go on: their records are not closed yet",
        |snapshot, out| out.gauge(&[], snapshot.failovers[1]),
    ),
    Family::counter(
        "flowgate_failovers_not_recorded",
        &[],
        "Failovers and drains that were not recorded, as too many went on at once",
        |snapshot, out| out.counter(&[], snapshot.failovers[2]),
    ),
    Family::gauge(
        "flowgate_flow_tables_info",
        &["outcome"],
        "1; the outcome is what came of the flow tables of the daemon before this one at the start",
        |snapshot, out| out.gauge(&[&snapshot.flow_tables.outcome], 1_u64),
    ),
    Family::gauge(
        "flowgate_flow_tables_kept",
        &[],
        "1 if flows will outlive the daemon; 0 if its flow tables end with it",
        |snapshot, out| out.gauge(&[], u64::from(snapshot.flow_tables.kept)),
    ),
    Family::gauge(
        "flowgate_flow_tables_lost",
        &[],
        "1 if the flow tables of the daemon before this one could not be taken over at the start, so that its flows were lost",
        |snapshot, out| out.gauge(&[], u64::from(snapshot.flow_tables.lost)),
    ),
    Family::gauge(
        "flowgate_flow_tables_flows",
        &["fate"],
        "Flows that were found at the start: taken over, torn by a crash, or of endpoints or targets that there are no more",
        |snapshot, out| {
            let tables = &snapshot.flow_tables;
            out.gauge(&["taken_over"], tables.flows)?;
            out.gauge(&["torn"], tables.torn)?;
            out.gauge(&["refused"], tables.refused)
        },
    ),
    Family::gauge(
        "flowgate_restart_gap_seconds",
        &[],
        "How long nothing was forwarded before this daemon, since the one before it; 0 if there was none",
        |snapshot, out| {
            let gap = snapshot.flow_tables.gap_milliseconds.unwrap_or(0);
            out.gauge(&[], Duration::from_millis(gap).as_secs_f64())
        },
    ),
    Family::gauge(
        "flowgate_adopt_seconds",
        &[],
        "For how long yet TCP packets of no flow begin one, as flows were lost by the start",
        |snapshot, out| out.gauge(&[], snapshot.flow_tables.adopt_seconds),
    ),
    Family::gauge(
        "flowgate_peak_bytes_per_second",
        &[],
        "Highest ten-second mean of all bytes to and from targets in the last minute",
        |snapshot, out| out.gauge(&[], snapshot.peak.bytes),
    ),
    Family::gauge(
        "flowgate_peak_packets_per_second",
        &[],
        "Highest ten-second mean of all packets to and from targets in the last minute",
        |snapshot, out| out.gauge(&[], snapshot.peak.packets),
    ),
    Family::gauge(
        "flowgate_monitor_streams",
        &[],
        "Streams of events that are open over HTTP",
        |snapshot, out| out.gauge(&[], snapshot.monitor.streams as u64),
    ),
    Family::counter(
        "flowgate_monitor_streams_refused",
        &[],
        "Streams of events that were refused because there were as many as may be",
        |snapshot, out| out.counter(&[], snapshot.monitor.streams_refused),
    ),
    Family::counter("flowgate_monitor_scrapes", &[], "Scrapes that were answered", |snapshot, out| {
        out.counter(&[], snapshot.monitor.scrapes)
    }),
    Family::counter(
        "flowgate_monitor_scrapes_given_up",
        &[],
        "Scrapes whose client had not read the answer when others wanted one",
        |snapshot, out| out.counter(&[], snapshot.monitor.scrapes_given_up),
    ),
];
