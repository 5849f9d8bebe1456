# Everything of a gateway that Terraform can say, in two forms: `form = 2` is what the first becomes.

terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "endpoint" { type = string }

variable "form" {
  type    = number
  default = 1
}

provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "AKIATEST"
  secret_key                  = "a-secret-of-the-tests"
  skip_credentials_validation = true
  skip_requesting_account_id  = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  max_retries                 = 2
  endpoints {
    elbv2 = var.endpoint
    ec2   = var.endpoint
  }
  default_tags { tags = { by = "terraform" } }
}

locals {
  first   = var.form == 1
  subnets = local.first ? ["subnet-a"] : ["subnet-a", "subnet-b"]
  targets = local.first ? ["192.0.2.11", "192.0.2.12"] : ["192.0.2.12", "192.0.2.13"]
}

resource "aws_lb" "gw" {
  name                             = "gw"
  load_balancer_type               = "gateway"
  ip_address_type                  = local.first ? "ipv4" : "dualstack"
  enable_cross_zone_load_balancing = local.first
  enable_deletion_protection       = false
  tags                             = { team = "perimeter", form = var.form }

  dynamic "subnet_mapping" {
    for_each = local.subnets
    content { subnet_id = subnet_mapping.value }
  }
}

resource "aws_lb_target_group" "fw" {
  name_prefix          = "fw-"
  protocol             = "GENEVE"
  port                 = 6081
  target_type          = "ip"
  vpc_id               = "vpc-0123"
  deregistration_delay = local.first ? 0 : 120
  tags                 = { team = "perimeter" }

  stickiness {
    enabled = local.first
    type    = "source_ip_dest_ip"
  }
  target_failover {
    on_deregistration = local.first ? "rebalance" : "no_rebalance"
    on_unhealthy      = local.first ? "rebalance" : "no_rebalance"
  }
  health_check {
    protocol            = "HTTP"
    port                = local.first ? "traffic-port" : "8080"
    path                = local.first ? "/healthz" : "/ready"
    matcher             = local.first ? "200-299" : "200,301-302"
    interval            = local.first ? 20 : 10
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = local.first ? 2 : 3
  }
}

# With the health check of no block, which is AWS's.
resource "aws_lb_target_group" "spare" {
  name        = "spare"
  protocol    = "GENEVE"
  port        = 6081
  target_type = "ip"
  vpc_id      = "vpc-0123"
}

resource "aws_lb_listener" "gw" {
  load_balancer_arn        = aws_lb.gw.arn
  tcp_idle_timeout_seconds = local.first ? null : 400
  tags                     = { form = var.form }

  default_action {
    type             = "forward"
    target_group_arn = local.first ? aws_lb_target_group.fw.arn : null
    dynamic "forward" {
      for_each = local.first ? [] : [aws_lb_target_group.fw.arn]
      content {
        target_group { arn = forward.value }
      }
    }
  }
}

resource "aws_lb_target_group_attachment" "of" {
  for_each          = toset(local.targets)
  target_group_arn  = aws_lb_target_group.fw.arn
  target_id         = each.value
  port              = 6081
  availability_zone = "a"
}

data "aws_lb" "gw" { arn = aws_lb_listener.gw.load_balancer_arn }
data "aws_lb_target_group" "fw" { arn = aws_lb_target_group.fw.arn }
data "aws_lb_listener" "gw" { arn = aws_lb_listener.gw.arn }

output "balancer" { value = data.aws_lb.gw.name }
output "group" { value = data.aws_lb_target_group.fw.health_check[0].path }
output "listener" { value = data.aws_lb_listener.gw.default_action[0].target_group_arn }
