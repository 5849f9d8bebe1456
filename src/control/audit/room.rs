//! Whether there is anybody to take over, and room for what comes.

use super::facts::{BalancerFacts, Facts, GroupFacts};
use super::kinds::{Kind, with_command};
use crate::control::explain::words::set;
use crate::control::health::HealthState;
use crate::control::socket::views::Finding;
use crate::control::troubles::limits::TABLE_FILLING_PERCENT;
use crate::wire::geneve::OVERHEAD;
use crate::wire::ipv6::MINIMUM_MTU;

pub(super) fn look_at_group(facts: &Facts, group: &GroupFacts, found: &mut Vec<Finding>) {
    let Some(balancer) = &group.balancer else {
        let what = format!("No listener forwards to target group {}.", group.name);
        let command = format!(
            "flowgate create-listener --load-balancer NAME --default-actions Type=forward,TargetGroupArn={}",
            group.name
        );
        found.push(with_command(Kind::GroupUnused.found(&group.name, what), command));
        return;
    };
    targets(facts, group, balancer, found);
    mtu(facts, balancer, found);
}

fn targets(facts: &Facts, group: &GroupFacts, balancer: &BalancerFacts, found: &mut Vec<Finding>) {
    let registered = group.targets.iter().filter(|target| target.registered).count();
    let in_scope: Vec<_> = group.in_scope().collect();
    let unused = group.targets.iter().filter(|it| it.registered && it.state == HealthState::Unused).count();
    let register = format!("flowgate register-targets --target-group {} --targets Id=ADDRESS", group.name);
    let cross_zone = set(&balancer.name, "load_balancing.cross_zone.enabled=true");
    match in_scope.as_slice() {
        [] => {
            let what =
                format!("Target group {} has no target in scope ({registered} registered).", group.name);
            let command = if unused > 0 { cross_zone.clone() } else { register };
            found.push(with_command(Kind::NoTarget.found(&group.name, what), command));
        }
        [one] if unused == 0 => {
            let what = format!("Target {} is the only one.", one.address);
            found.push(with_command(Kind::OneTarget.found(&group.name, what), register));
        }
        [one] => {
            let zone = facts.node.zone.as_deref().unwrap_or("this");
            let what = format!(
                "Target {} is the only one of zone {zone}; {unused} of other zones are not used.",
                one.address
            );
            found.push(with_command(Kind::ZoneOneTarget.found(&group.name, what), cross_zone.clone()));
        }
        // A zone of one among them: with cross-zone the others take over (F-4).
        _ => {}
    }
    if unused > 0 && in_scope.len() > 1 && !balancer.cross_zone {
        let what = format!("{unused} of {registered} targets are not of this node's zone.");
        found.push(with_command(Kind::OutOfZone.found(&group.name, what), cross_zone));
    }
}

fn mtu(facts: &Facts, balancer: &BalancerFacts, found: &mut Vec<Finding>) {
    #[expect(clippy::cast_possible_truncation, reason = "68")]
    const AROUND: (u16, u16) = (OVERHEAD as u16, MINIMUM_MTU);
    let node = &facts.node;
    let room = node.target_side_mtu.saturating_sub(AROUND.0);
    if balancer.dualstack && room < AROUND.1 {
        let what = format!(
            "Port {} of the target side takes {} bytes: {room} are left for the packet.",
            node.target_side, node.target_side_mtu
        );
        found.push(Kind::TargetSideMtuV6.found(&balancer.name, what));
    }
    let widest = node
        .entrances
        .iter()
        .filter(|entrance| entrance.load_balancer == balancer.name)
        .max_by_key(|entrance| entrance.mtu);
    let Some(entrance) = widest.filter(|entrance| entrance.mtu > room) else { return };
    let what = format!(
        "Port {} of endpoint {} takes packets of {} bytes, and port {} of the target side leaves {room} of its {}; it needs {}.",
        entrance.port,
        entrance.endpoint,
        entrance.mtu,
        node.target_side,
        node.target_side_mtu,
        entrance.mtu.saturating_add(AROUND.0)
    );
    let finding = Kind::TargetSideMtu.found(&balancer.name, what);
    found.push(match balancer.listener.mss_clamp {
        false => with_command(finding, set(&balancer.name, "flowgate.tcp.mss_clamp=true")),
        true => finding,
    });
}

pub(super) fn look_at_node(facts: &Facts, found: &mut Vec<Finding>) {
    for name in &facts.without_listener {
        let what = format!("Load balancer {name} has no listener.");
        let command = format!(
            "flowgate create-listener --load-balancer {name} --default-actions Type=forward,TargetGroupArn=NAME"
        );
        found.push(with_command(Kind::NoListener.found(name, what), command));
    }
    for worker in &facts.workers {
        if worker.flows * 100 > worker.capacity * TABLE_FILLING_PERCENT && worker.capacity > 0 {
            let what = format!(
                "The flow table of worker {} has {} of {} entries in use.",
                worker.worker, worker.flows, worker.capacity
            );
            found.push(Kind::TableFilling.found(format!("worker {}", worker.worker), what));
        }
    }
}
