//! Signature Version 4, verified: a request is of whoever holds the secret, for this service, in this quarter
//! of an hour, with these very bytes.
//!
//! The canonical request is made of what arrived, never of what the client says of it: the body's hash is computed,
//! and `X-Amz-Content-Sha256` has to agree. The same signature a second time is a matter for [`once`](super::once).

use std::fmt::Write as _;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};
use ring::hmac;

use super::credentials::{Key, Keys};
use super::fault::Fault;

/// How far a client's clock may be off, in seconds. AWS allows as much.
const MAX_SKEW: i64 = 15 * 60;
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "elasticloadbalancing";
const TERMINATOR: &str = "aws4_request";

/// Who has signed a request, and the signature.
#[derive(Debug)]
pub struct Signed<'k> {
    /// Whose request it is.
    pub key: &'k Key,
    /// HMAC-SHA256 of what was signed.
    pub signature: [u8; 32],
}

/// Whose request it is: `POST /` with these headers and this body, at `now` in seconds since 1970.
///
/// # Errors
/// If it is nobody's.
pub fn verify<'k>(keys: &'k Keys, headers: &HeaderMap, body: &[u8], now: i64) -> Result<Signed<'k>, Fault> {
    let Some(authorization) = headers.get(AUTHORIZATION) else {
        return Err(forbidden("MissingAuthenticationToken", "Request is missing Authentication Token"));
    };
    let authorization = authorization.to_str().map_err(|_| incomplete("Authorization is not ASCII"))?;
    let claim = Claim::read(authorization)?;
    let date = text(headers, "x-amz-date")
        .ok_or_else(|| incomplete("Authorization needs an 'X-Amz-Date' header beside it"))?;
    check_scope(&claim, date)?;
    check_time(date, now)?;
    check_headers(&claim, headers)?;
    // Long-lived keys alone are known here; those that have a session token would be temporary.
    let unknown =
        || forbidden("InvalidClientTokenId", "The security token included in the request is invalid.");
    if headers.contains_key("x-amz-security-token") {
        return Err(unknown());
    }
    let key = keys.get(claim.key_id).ok_or_else(unknown)?;
    let hash = hex(digest(&SHA256, body).as_ref());
    if text(headers, "x-amz-content-sha256").is_some_and(|said| said != hash) {
        return Err(mismatch());
    }
    let canonical = canonical_request(&claim, headers, &hash);
    let scope = [claim.date, claim.region, SERVICE, TERMINATOR].join("/");
    let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{}", hex(digest(&SHA256, &canonical).as_ref()));
    // Compared in a time that does not depend on the bytes.
    hmac::verify(&signing_key(&key.secret, &claim), to_sign.as_bytes(), &claim.signature)
        .map_err(|_| mismatch())?;
    Ok(Signed { key, signature: claim.signature })
}

/// What an `Authorization` header says.
struct Claim<'a> {
    key_id: &'a str,
    date: &'a str,
    region: &'a str,
    service: &'a str,
    terminator: &'a str,
    signed_headers: &'a str,
    signature: [u8; 32],
}

impl<'a> Claim<'a> {
    fn read(authorization: &'a str) -> Result<Self, Fault> {
        let Some(parts) = authorization.trim().strip_prefix(ALGORITHM) else {
            return Err(incomplete(&format!("Authorization must begin with {ALGORITHM}")));
        };
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for part in parts.split(',').map(str::trim) {
            let place = match part.split_once('=') {
                Some(("Credential", value)) => credential.replace(value),
                Some(("SignedHeaders", value)) => signed_headers.replace(value),
                Some(("Signature", value)) => signature.replace(value),
                _ => return Err(incomplete("Authorization has Credential, SignedHeaders and Signature")),
            };
            if place.is_some() {
                return Err(incomplete("Authorization has a part twice"));
            }
        }
        let missing = |part: &str| incomplete(&format!("Authorization needs a '{part}' parameter"));
        let credential = credential.ok_or_else(|| missing("Credential"))?;
        let signature = signature.ok_or_else(|| missing("Signature"))?;
        let mut scope = credential.split('/');
        let mut next = || scope.next().filter(|part| !part.is_empty());
        let (Some(key_id), Some(date), Some(region), Some(service), Some(terminator), None) =
            (next(), next(), next(), next(), next(), scope.next())
        else {
            return Err(incomplete("Credential must be KEY/DATE/REGION/SERVICE/aws4_request"));
        };
        Ok(Claim {
            key_id,
            date,
            region,
            service,
            terminator,
            signed_headers: signed_headers.ok_or_else(|| missing("SignedHeaders"))?,
            signature: unhex(signature)
                .ok_or_else(|| incomplete("Signature must be 64 hexadecimal digits"))?,
        })
    }
}

fn check_scope(claim: &Claim<'_>, date: &str) -> Result<(), Fault> {
    if claim.service != SERVICE || claim.terminator != TERMINATOR {
        let message = format!(
            "Credential should be scoped to correct service: '{SERVICE}', and end with '{TERMINATOR}'."
        );
        return Err(forbidden("SignatureDoesNotMatch", &message));
    }
    if date.get(..8) != Some(claim.date) {
        let message = format!("Date in Credential scope does not match X-Amz-Date: '{}'", claim.date);
        return Err(forbidden("SignatureDoesNotMatch", &message));
    }
    Ok(())
}

fn check_time(date: &str, now: i64) -> Result<(), Fault> {
    let signed_at =
        seconds(date).ok_or_else(|| incomplete("X-Amz-Date must be of the form 20260801T123000Z"))?;
    let when = |seconds: i64| {
        let moment = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        moment.strftime("%Y%m%dT%H%M%SZ").to_string()
    };
    if signed_at < now - MAX_SKEW {
        let message = format!(
            "Signature expired: {date} is now earlier than {} ({} - 15 min.)",
            when(now - MAX_SKEW),
            when(now)
        );
        return Err(forbidden("SignatureDoesNotMatch", &message));
    }
    if signed_at > now + MAX_SKEW {
        let message = format!(
            "Signature not yet current: {date} is still later than {} ({} + 15 min.)",
            when(now + MAX_SKEW),
            when(now)
        );
        return Err(forbidden("SignatureDoesNotMatch", &message));
    }
    Ok(())
}

/// Whoever could add or change a header that is not signed could say something in the signer's name.
fn check_headers(claim: &Claim<'_>, headers: &HeaderMap) -> Result<(), Fault> {
    let signed: Vec<&str> = claim.signed_headers.split(';').collect();
    if signed.iter().any(|name| headers.get(*name).is_none()) {
        return Err(incomplete("A header that SignedHeaders names is not in the request"));
    }
    let must = |name: &&HeaderName| {
        let name = name.as_str();
        matches!(name, "host" | "content-type") || name.starts_with("x-amz-")
    };
    match headers.keys().filter(must).find(|name| !signed.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(forbidden("SignatureDoesNotMatch", &format!("The header '{name}' must be signed"))),
    }
}

fn canonical_request(claim: &Claim<'_>, headers: &HeaderMap, hash: &str) -> Vec<u8> {
    let mut canonical = b"POST\n/\n\n".to_vec();
    for name in claim.signed_headers.split(';') {
        canonical.extend(name.as_bytes());
        canonical.push(b':');
        for (index, value) in headers.get_all(name).iter().enumerate() {
            if index > 0 {
                canonical.push(b',');
            }
            let words = value.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            for (index, word) in words.enumerate() {
                if index > 0 {
                    canonical.push(b' ');
                }
                canonical.extend(word);
            }
        }
        canonical.push(b'\n');
    }
    canonical.extend(format!("\n{}\n{hash}", claim.signed_headers).bytes());
    canonical
}

fn signing_key(secret: &str, claim: &Claim<'_>) -> hmac::Key {
    let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{secret}").as_bytes());
    [claim.date, claim.region, SERVICE, TERMINATOR].iter().fold(first, |key, part| {
        hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
    })
}

/// `20260801T123000Z` in seconds since 1970.
fn seconds(date: &str) -> Option<i64> {
    let sound = date.len() == 16
        && date.bytes().enumerate().all(|(at, byte)| match at {
            8 => byte == b'T',
            15 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    let part = |from: usize, to: usize| date.get(from..to)?.parse::<i8>().ok();
    let year = date.get(..4)?.parse::<i16>().ok().filter(|_| sound)?;
    let time =
        DateTime::new(year, part(4, 6)?, part(6, 8)?, part(9, 11)?, part(11, 13)?, part(13, 15)?, 0).ok()?;
    Some(TimeZone::UTC.to_timestamp(time).ok()?.as_second())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // A string takes whatever is written to it.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// 64 hexadecimal digits in lower case, as 32 bytes.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn forbidden(code: &str, message: &str) -> Fault {
    Fault::new(code, message).status(StatusCode::FORBIDDEN)
}

fn incomplete(message: &str) -> Fault {
    Fault::new("IncompleteSignature", format!("{message}."))
}

fn mismatch() -> Fault {
    forbidden(
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
         Access Key and signing method. Consult the service documentation for details.",
    )
}

#[cfg(test)]
mod tests;
