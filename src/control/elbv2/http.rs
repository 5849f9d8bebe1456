//! One HTTP request: taken in whole, or refused.
//!
//! What is not exactly what clients of this API send is refused, so that nothing in front of or behind us can see
//! another request in the same bytes: one length and no transfer encoding, one host, the address '/' and no more.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use super::fault::Fault;
use crate::control::http::is_this_machine;

/// The longest body. The 4,096 targets that a group holds, each with port and zone, take half of it.
pub const MAX_BODY: usize = 1 << 20;

/// A request's head and body.
pub struct Asked {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Who may ask without saying who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// Programs of this machine: no web page that a browser here shows, neither by a form of its own nor by a
    /// name that it has made to mean this machine.
    LocalPrograms,
    /// Nobody: whoever asks has signed.
    None,
}

/// Takes a request in.
///
/// # Errors
/// What is wrong with it.
pub async fn take(
    request: Request<Incoming>,
    strangers: Strangers,
    patience: Duration,
) -> Result<Asked, Fault> {
    check_head(&request, strangers).map_err(Fault::closing)?;
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_long());
    }
    let body = match timeout(patience, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(too_long()),
        Ok(Err(error)) => {
            return Err(Fault::new("IncompleteBody", format!("The body did not arrive: {error}")).closing());
        }
        Err(_) => {
            let message = format!("The body did not arrive within {} s", patience.as_secs());
            return Err(Fault::new("RequestTimeout", message).status(StatusCode::REQUEST_TIMEOUT).closing());
        }
    };
    Ok(Asked { headers: head.headers, body })
}

fn too_long() -> Fault {
    Fault::new("RequestEntityTooLarge", format!("The body is longer than {MAX_BODY} bytes"))
        .status(StatusCode::PAYLOAD_TOO_LARGE)
        .closing()
}

fn check_head(request: &Request<Incoming>, strangers: Strangers) -> Result<(), Fault> {
    let headers = request.headers();
    if headers.contains_key(TRANSFER_ENCODING) {
        let message = "A body is sent with its Content-Length and without a Transfer-Encoding";
        return Err(Fault::new("MissingContentLength", message).status(StatusCode::LENGTH_REQUIRED));
    }
    let host =
        the_only(headers, &HOST)?.ok_or_else(|| Fault::new("InvalidRequest", "The request has no Host"))?;
    if strangers == Strangers::LocalPrograms {
        if headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site") {
            let message =
                "Web pages are not served: the endpoint has no credentials by which it could know them";
            return Err(Fault::new("AccessDenied", message).status(StatusCode::FORBIDDEN));
        }
        if !is_this_machine(host) {
            let message = "Without credentials only this machine is served, by the name localhost or by a loopback address";
            return Err(Fault::new("AccessDenied", message).status(StatusCode::FORBIDDEN));
        }
    }
    if request.method() != Method::POST {
        let message = format!("The method {} is not served: actions are sent by POST", request.method());
        return Err(Fault::new("MethodNotAllowed", message).status(StatusCode::METHOD_NOT_ALLOWED));
    }
    // An address with a host in it is for a proxy, which would go by that host where we went by the other.
    let address = request.uri();
    if address.authority().is_some() || address.path() != "/" || address.query().is_some() {
        let message = "Actions are sent to the path '/', with all of their parameters in the body";
        return Err(Fault::new("InvalidRequest", message).status(StatusCode::NOT_FOUND));
    }
    let form = "application/x-www-form-urlencoded";
    let kind = the_only(headers, &CONTENT_TYPE)?.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(form) {
        let message = format!("The body's type must be {form}");
        return Err(Fault::new("InvalidRequest", message).status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Ok(())
}

/// The header that may be there once.
fn the_only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Fault> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (first, None) => Ok(first),
        _ => Err(Fault::new("InvalidRequest", format!("There is more than one {name} header"))),
    }
}

/// An answer of XML.
pub fn respond(status: StatusCode, xml: Vec<u8>, request_id: &str, closes: bool) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(xml)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/xml"));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert("x-amzn-requestid", id);
    }
    if closes {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
