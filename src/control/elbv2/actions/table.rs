//! The actions that are served, and what each takes and gives.
//!
//! The names of parameters and members are those of the API's model. What a gateway on bare metal has no use for
//! is ignored where that changes nothing that was asked for, and refused elsewhere.

use super::super::shape::{Kind, Member, Shape, TEXTS, ignored, refused, taken};
use super::{Action, adapt};

/// The actions of the API that are about other kinds of load balancer.
pub const NOT_A_GATEWAYS: &[&str] = &[
    "AddListenerCertificates",
    "AddTrustStoreRevocations",
    "CreateRule",
    "CreateTrustStore",
    "DeleteRule",
    "DeleteSharedTrustStoreAssociation",
    "DeleteTrustStore",
    "DescribeListenerCertificates",
    "DescribeSSLPolicies",
    "DescribeTrustStoreAssociations",
    "DescribeTrustStoreRevocations",
    "DescribeTrustStores",
    "GetResourcePolicy",
    "GetTrustStoreCaCertificatesBundle",
    "GetTrustStoreRevocationContent",
    "ModifyCapacityReservation",
    "ModifyIpPools",
    "ModifyRule",
    "ModifyTrustStore",
    "RemoveListenerCertificates",
    "RemoveTrustStoreRevocations",
    "SetRulePriorities",
    "SetSecurityGroups",
];

const INVALID: &str = "ValidationError";
const CONFIGURATION: &str = "InvalidConfigurationRequest";

const LOAD_BALANCER: Member = taken("LoadBalancerArn", Shape::Arn(Kind::LoadBalancer));
const LISTENER: Member = taken("ListenerArn", Shape::Arn(Kind::Listener));
const TARGET_GROUP: Member = taken("TargetGroupArn", Shape::Arn(Kind::TargetGroup));
const LOAD_BALANCERS: Shape = Shape::List(&Shape::Arn(Kind::LoadBalancer));
const LISTENERS: Shape = Shape::List(&Shape::Arn(Kind::Listener));
const TARGET_GROUPS: Shape = Shape::List(&Shape::Arn(Kind::TargetGroup));
const RULES: Shape = Shape::List(&Shape::Arn(Kind::Rule));
const RESOURCES: Member = taken("ResourceArns", Shape::List(&Shape::Arn(Kind::Resource)));
const NAME: Member = taken("Name", Shape::Text);
const NAMES: Member = taken("Names", TEXTS);
const MARKER: Member = taken("Marker", Shape::Text);
const PAGE_SIZE: Member = taken("PageSize", Shape::Number);
const NEXT_MARKER: Member = taken("NextMarker", Shape::Text);
const IP_ADDRESS_TYPE: Member = taken("IpAddressType", Shape::Text);

const PAIRS: Shape =
    Shape::List(&Shape::Structure(&[taken("Key", Shape::Text), taken("Value", Shape::Text)]));
const TAGS: Member = taken("Tags", PAIRS);
const ATTRIBUTES: Member = taken("Attributes", PAIRS);

const SUBNETS: Member = taken("Subnets", TEXTS);
const SUBNET_MAPPINGS: Member = taken(
    "SubnetMappings",
    Shape::List(&Shape::Structure(&[
        taken("SubnetId", Shape::Text),
        taken("AllocationId", Shape::Text),
        taken("PrivateIPv4Address", Shape::Text),
        taken("IPv6Address", Shape::Text),
        refused("SourceNatIpv6Prefix", CONFIGURATION, NO_SOURCE_NAT_WHY),
    ])),
);
const NO_SOURCE_NAT_WHY: &str =
    "Source NAT prefixes are not supported for load balancers with type 'gateway'";
const NO_SOURCE_NAT: Member = refused("EnablePrefixForIpv6SourceNat", CONFIGURATION, NO_SOURCE_NAT_WHY);

const ZONES: Member = taken(
    "AvailabilityZones",
    Shape::List(&Shape::Structure(&[taken("ZoneName", Shape::Text), taken("SubnetId", Shape::Text)])),
);
const LOAD_BALANCERS_OUT: Member = taken(
    "LoadBalancers",
    Shape::List(&Shape::Structure(&[
        taken("LoadBalancerArn", Shape::Text),
        taken("CreatedTime", Shape::Moment),
        taken("LoadBalancerName", Shape::Text),
        taken("VpcId", Shape::Text),
        taken("State", Shape::Structure(&[taken("Code", Shape::Text), taken("Reason", Shape::Text)])),
        taken("Type", Shape::Text),
        ZONES,
        IP_ADDRESS_TYPE,
    ])),
);

const FORWARD: Shape = Shape::Structure(&[
    taken("TargetGroups", Shape::List(&Shape::Structure(&[TARGET_GROUP, taken("Weight", Shape::Number)]))),
    taken(
        "TargetGroupStickinessConfig",
        Shape::Structure(&[taken("Enabled", Shape::Flag), taken("DurationSeconds", Shape::Number)]),
    ),
]);
const ACTION: &str = "InvalidLoadBalancerAction";
const ONLY_FORWARD: &str = "A Gateway Load Balancer's listener can only forward to a target group";
const ACTIONS_SHAPE: Shape = Shape::List(&Shape::Structure(&[
    taken("Type", Shape::Text),
    TARGET_GROUP,
    ignored("Order"),
    taken("ForwardConfig", FORWARD),
    refused("AuthenticateOidcConfig", ACTION, ONLY_FORWARD),
    refused("AuthenticateCognitoConfig", ACTION, ONLY_FORWARD),
    refused("RedirectConfig", ACTION, ONLY_FORWARD),
    refused("FixedResponseConfig", ACTION, ONLY_FORWARD),
    refused("JwtValidationConfig", ACTION, ONLY_FORWARD),
]));
const DEFAULT_ACTIONS: Member = taken("DefaultActions", ACTIONS_SHAPE);
const NO_TLS: &str = "A Gateway Load Balancer's listener does not end TLS";
const LISTENERS_OUT: Member =
    taken("Listeners", Shape::List(&Shape::Structure(&[LISTENER, LOAD_BALANCER, DEFAULT_ACTIONS])));

const MATCHER: Member = taken(
    "Matcher",
    Shape::Structure(&[
        taken("HttpCode", Shape::Text),
        refused("GrpcCode", CONFIGURATION, "GENEVE target groups have no gRPC health checks"),
    ]),
);
/// The parameters of a target group's health check, and others.
macro_rules! with_health_check {
    ($($member:expr),* $(,)?) => {
        &[
            taken("HealthCheckProtocol", Shape::Text),
            taken("HealthCheckPort", Shape::Text),
            taken("HealthCheckEnabled", Shape::Flag),
            taken("HealthCheckPath", Shape::Text),
            taken("HealthCheckIntervalSeconds", Shape::Number),
            taken("HealthCheckTimeoutSeconds", Shape::Number),
            taken("HealthyThresholdCount", Shape::Number),
            taken("UnhealthyThresholdCount", Shape::Number),
            MATCHER,
            $($member),*
        ]
    };
}
const TARGET_GROUPS_OUT: Member = taken(
    "TargetGroups",
    Shape::List(&Shape::Structure(with_health_check![
        taken("TargetGroupArn", Shape::Text),
        taken("TargetGroupName", Shape::Text),
        taken("Protocol", Shape::Text),
        taken("Port", Shape::Number),
        taken("VpcId", Shape::Text),
        taken("LoadBalancerArns", TEXTS),
        taken("TargetType", Shape::Text),
        IP_ADDRESS_TYPE,
    ])),
);

const NO_QUIC: Member = refused("QuicServerId", CONFIGURATION, "GENEVE targets have no QUIC server id");
/// Targets by their addresses: a target has one zone, whatever zone is given with it.
const TARGETS: Member = taken(
    "Targets",
    Shape::List(&Shape::Structure(&[
        taken("Id", Shape::Text),
        taken("Port", Shape::Number),
        ignored("AvailabilityZone"),
        NO_QUIC,
    ])),
);
const TARGET_OUT: Shape = Shape::Structure(&[
    taken("Id", Shape::Text),
    taken("Port", Shape::Number),
    taken("AvailabilityZone", Shape::Text),
]);
const HEALTH_OUT: Member = taken(
    "TargetHealthDescriptions",
    Shape::List(&Shape::Structure(&[
        taken("Target", TARGET_OUT),
        taken("HealthCheckPort", Shape::Text),
        taken(
            "TargetHealth",
            Shape::Structure(&[
                taken("State", Shape::Text),
                taken("Reason", Shape::Text),
                taken("Description", Shape::Text),
            ]),
        ),
    ])),
);

/// An action that says what its method says.
const fn plain(
    name: &'static str,
    method: &'static str,
    input: &'static [Member],
    output: &'static [Member],
) -> Action {
    Action {
        name,
        method,
        input,
        output: Shape::Structure(output),
        prepare: adapt::as_it_is,
        finish: adapt::as_answered,
    }
}

/// Every action that is served.
pub static ACTIONS: &[Action] = &[
    Action {
        prepare: adapt::a_gateway,
        ..plain(
            "CreateLoadBalancer",
            "create-load-balancer",
            &[
                NAME,
                SUBNETS,
                SUBNET_MAPPINGS,
                taken("SecurityGroups", TEXTS),
                taken("Scheme", Shape::Text),
                TAGS,
                taken("Type", Shape::Text),
                IP_ADDRESS_TYPE,
                refused(
                    "CustomerOwnedIpv4Pool",
                    CONFIGURATION,
                    "Address pools are not supported for load balancers with type 'gateway'",
                ),
                NO_SOURCE_NAT,
                refused(
                    "IpamPools",
                    CONFIGURATION,
                    "Address pools are not supported for load balancers with type 'gateway'",
                ),
            ],
            &[LOAD_BALANCERS_OUT],
        )
    },
    plain(
        "DescribeLoadBalancers",
        "describe-load-balancers",
        &[taken("LoadBalancerArns", LOAD_BALANCERS), NAMES, MARKER, PAGE_SIZE],
        &[LOAD_BALANCERS_OUT, NEXT_MARKER],
    ),
    plain("DeleteLoadBalancer", "delete-load-balancer", &[LOAD_BALANCER], &[]),
    plain(
        "DescribeLoadBalancerAttributes",
        "describe-load-balancer-attributes",
        &[LOAD_BALANCER],
        &[ATTRIBUTES],
    ),
    plain(
        "ModifyLoadBalancerAttributes",
        "modify-load-balancer-attributes",
        &[LOAD_BALANCER, ATTRIBUTES],
        &[ATTRIBUTES],
    ),
    plain(
        "SetSubnets",
        "set-subnets",
        &[LOAD_BALANCER, SUBNETS, SUBNET_MAPPINGS, IP_ADDRESS_TYPE, NO_SOURCE_NAT],
        &[ZONES, IP_ADDRESS_TYPE],
    ),
    plain("SetIpAddressType", "set-ip-address-type", &[LOAD_BALANCER, IP_ADDRESS_TYPE], &[IP_ADDRESS_TYPE]),
    // Nothing can be reserved, which is what Terraform and others ask after.
    Action {
        prepare: adapt::that_load_balancer,
        finish: adapt::nothing_reserved,
        ..plain(
            "DescribeCapacityReservation",
            "describe-load-balancers",
            &[LOAD_BALANCER],
            &[
                taken("DecreaseRequestsRemaining", Shape::Number),
                taken("CapacityReservationState", Shape::List(&Shape::Structure(&[]))),
            ],
        )
    },
    Action {
        prepare: adapt::no_empty_vpc,
        ..plain(
            "CreateTargetGroup",
            "create-target-group",
            with_health_check![
                NAME,
                taken("Protocol", Shape::Text),
                taken("Port", Shape::Number),
                taken("VpcId", Shape::Text),
                taken("TargetType", Shape::Text),
                TAGS,
                IP_ADDRESS_TYPE,
                refused("ProtocolVersion", INVALID, "GENEVE target groups have no protocol version"),
                refused(
                    "TargetControlPort",
                    CONFIGURATION,
                    "GENEVE target groups have no target control port"
                ),
            ],
            &[TARGET_GROUPS_OUT],
        )
    },
    plain(
        "DescribeTargetGroups",
        "describe-target-groups",
        &[LOAD_BALANCER, taken("TargetGroupArns", TARGET_GROUPS), NAMES, MARKER, PAGE_SIZE],
        &[TARGET_GROUPS_OUT, NEXT_MARKER],
    ),
    plain("ModifyTargetGroup", "modify-target-group", with_health_check![TARGET_GROUP], &[TARGET_GROUPS_OUT]),
    plain("DeleteTargetGroup", "delete-target-group", &[TARGET_GROUP], &[]),
    plain(
        "DescribeTargetGroupAttributes",
        "describe-target-group-attributes",
        &[TARGET_GROUP],
        &[ATTRIBUTES],
    ),
    plain(
        "ModifyTargetGroupAttributes",
        "modify-target-group-attributes",
        &[TARGET_GROUP, ATTRIBUTES],
        &[ATTRIBUTES],
    ),
    plain(
        "RegisterTargets",
        "register-targets",
        &[
            TARGET_GROUP,
            taken(
                "Targets",
                Shape::List(&Shape::Structure(&[
                    taken("Id", Shape::Text),
                    taken("Port", Shape::Number),
                    taken("AvailabilityZone", Shape::Text),
                    NO_QUIC,
                ])),
            ),
        ],
        &[],
    ),
    plain("DeregisterTargets", "deregister-targets", &[TARGET_GROUP, TARGETS], &[]),
    Action {
        finish: adapt::checked_port,
        ..plain(
            "DescribeTargetHealth",
            "describe-target-health",
            &[TARGET_GROUP, TARGETS, ignored("Include")],
            &[HEALTH_OUT],
        )
    },
    Action {
        prepare: adapt::no_stickiness,
        ..plain(
            "CreateListener",
            "create-listener",
            &[
                LOAD_BALANCER,
                DEFAULT_ACTIONS,
                TAGS,
                taken("Port", Shape::Number),
                taken("Protocol", Shape::Text),
                refused("SslPolicy", CONFIGURATION, NO_TLS),
                refused("Certificates", CONFIGURATION, NO_TLS),
                refused("AlpnPolicy", CONFIGURATION, NO_TLS),
                refused("MutualAuthentication", CONFIGURATION, NO_TLS),
            ],
            &[LISTENERS_OUT],
        )
    },
    plain(
        "DescribeListeners",
        "describe-listeners",
        &[LOAD_BALANCER, taken("ListenerArns", LISTENERS), MARKER, PAGE_SIZE],
        &[LISTENERS_OUT, NEXT_MARKER],
    ),
    Action {
        prepare: adapt::no_stickiness,
        ..plain(
            "ModifyListener",
            "modify-listener",
            &[
                LISTENER,
                DEFAULT_ACTIONS,
                taken("Port", Shape::Number),
                taken("Protocol", Shape::Text),
                refused("SslPolicy", CONFIGURATION, NO_TLS),
                refused("Certificates", CONFIGURATION, NO_TLS),
                refused("AlpnPolicy", CONFIGURATION, NO_TLS),
                refused("MutualAuthentication", CONFIGURATION, NO_TLS),
            ],
            &[LISTENERS_OUT],
        )
    },
    plain("DeleteListener", "delete-listener", &[LISTENER], &[]),
    plain("DescribeListenerAttributes", "describe-listener-attributes", &[LISTENER], &[ATTRIBUTES]),
    plain("ModifyListenerAttributes", "modify-listener-attributes", &[LISTENER, ATTRIBUTES], &[ATTRIBUTES]),
    plain("AddTags", "add-tags", &[RESOURCES, TAGS], &[]),
    plain("RemoveTags", "remove-tags", &[RESOURCES, taken("TagKeys", TEXTS)], &[]),
    plain(
        "DescribeTags",
        "describe-tags",
        &[RESOURCES],
        &[taken(
            "TagDescriptions",
            Shape::List(&Shape::Structure(&[taken("ResourceArn", Shape::Text), TAGS])),
        )],
    ),
    plain(
        "DescribeRules",
        "describe-rules",
        &[LISTENER, taken("RuleArns", RULES), MARKER, PAGE_SIZE],
        &[
            taken(
                "Rules",
                Shape::List(&Shape::Structure(&[
                    taken("RuleArn", Shape::Text),
                    taken("Priority", Shape::Text),
                    taken("Conditions", Shape::List(&Shape::Structure(&[]))),
                    taken("Actions", ACTIONS_SHAPE),
                    taken("IsDefault", Shape::Flag),
                ])),
            ),
            NEXT_MARKER,
        ],
    ),
    plain(
        "DescribeAccountLimits",
        "describe-account-limits",
        &[MARKER, PAGE_SIZE],
        &[
            taken(
                "Limits",
                Shape::List(&Shape::Structure(&[taken("Name", Shape::Text), taken("Max", Shape::Text)])),
            ),
            NEXT_MARKER,
        ],
    ),
];
