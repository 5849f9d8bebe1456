//! Objects that come and go while packets do: what an operator deletes and makes again.

use serde_json::json;

use crate::lab::gateway::{Attributes, LOAD_BALANCER, TARGET_GROUP};
use crate::lab::traffic::{PATIENCE, datagram_must_cross, udp_pair};
use crate::lab::{Family, Lab, wait_for};

#[test]
fn the_packets_of_a_deleted_load_balancer_are_dropped_until_it_is_made_again() {
    // A-9, O-1, C-1
    let mut lab = Lab::started(1, Attributes::default());
    let (client, server) = udp_pair(&lab, Family::V4);
    datagram_must_cross(&client, &server, b"served");
    let delete = json!({"LoadBalancerArn": LOAD_BALANCER});
    let protect = |lab: &Lab, flag: &str| {
        let attributes = json!([{"Key": "deletion_protection.enabled", "Value": flag}]);
        let params = json!({"LoadBalancerArn": LOAD_BALANCER, "Attributes": attributes});
        lab.gateway().rpc.must("modify-load-balancer-attributes", params);
    };
    protect(&lab, "true");
    let refused = lab.gateway().rpc.call("delete-load-balancer", delete.clone()).expect_err("protected");
    assert_eq!(refused["data"]["kind"], "OperationNotPermitted");
    datagram_must_cross(&client, &server, b"served still");
    protect(&lab, "false");
    lab.gateway().rpc.must("delete-load-balancer", delete);
    let must_be_dropped = |lab: &Lab| {
        let before = lab.dropped("no_load_balancer");
        client.send(b"to nobody").expect("the kernel takes it");
        wait_for("the datagram to be dropped", PATIENCE, || {
            (lab.dropped("no_load_balancer") > before).then_some(())
        });
    };
    must_be_dropped(&lab);
    let unused = Some(("unused".to_owned(), Some("Target.NotInUse".to_owned())));
    assert_eq!(lab.state_of(0), unused);

    // A crash later it is gone still, and the daemon starts.
    lab.kill_gateway();
    lab.start_gateway();
    must_be_dropped(&lab);
    let rpc = &lab.gateway().rpc;
    rpc.must("create-load-balancer", json!({"Name": LOAD_BALANCER, "IpAddressType": "dualstack"}));
    must_be_dropped(&lab);
    let action = json!([{"Type": "forward", "TargetGroupArn": TARGET_GROUP}]);
    rpc.must("create-listener", json!({"LoadBalancerArn": LOAD_BALANCER, "DefaultActions": action}));
    lab.wait_for_state(0, "healthy");
    datagram_must_cross(&client, &server, b"served again");
    lab.all_counted_at_rest(); // C-1
}
