//! Options that `aws` has for every command and this one has no use for.

#![forbid(unsafe_code)]

use clap::Args;

/// So that a command line of `aws elbv2` serves as it is, they are taken and make no difference.
#[derive(Debug, Args)]
pub(in crate::cli) struct AwsFlags {
    #[arg(long, global = true, hide = true, value_name = "REGION")]
    region: Option<String>,
    #[arg(long, global = true, hide = true, value_name = "PROFILE")]
    profile: Option<String>,
    #[arg(long, global = true, hide = true)]
    no_cli_pager: bool,
    #[arg(long, global = true, hide = true)]
    no_cli_auto_prompt: bool,
    #[arg(long, global = true, hide = true)]
    cli_auto_prompt: bool,
    #[arg(long, global = true, hide = true, value_parser = ["on", "off", "auto"], value_name = "WHEN")]
    color: Option<String>,
    #[arg(long, global = true, hide = true)]
    debug: bool,
    #[arg(long, global = true, hide = true, value_name = "PATH")]
    ca_bundle: Option<String>,
    #[arg(long, global = true, hide = true, value_name = "FORMAT")]
    cli_binary_format: Option<String>,
    #[arg(long, global = true, hide = true)]
    no_sign_request: bool,
    #[arg(long, global = true, hide = true)]
    no_verify_ssl: bool,
    #[arg(long, global = true, hide = true, value_name = "SECONDS")]
    cli_read_timeout: Option<u64>,
    #[arg(long, global = true, hide = true, value_name = "SECONDS")]
    cli_connect_timeout: Option<u64>,
    /// It would be meant for another door.
    #[arg(long, global = true, hide = true, value_name = "URL", value_parser = no_endpoint)]
    endpoint_url: Option<String>,
    /// The members of the request as JSON, by the names that AWS has for them, or file://PATH with them in it; a flag that is given
    /// as well counts for more.
    #[arg(long, global = true, help_heading = super::EVERY_VERB, value_name = "JSON")]
    cli_input_json: Option<String>,
}

fn no_endpoint(_: &str) -> Result<String, String> {
    Err("flowgate asks the daemon by its control socket (--socket PATH); the elbv2 endpoint is for aws itself".to_owned())
}
