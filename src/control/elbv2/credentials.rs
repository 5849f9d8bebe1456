//! The keys that requests are signed with, from a file in the form of AWS's shared credentials file, so that one
//! file serves the daemon and its clients:
//!
//! ```text
//! [terraform]
//! aws_access_key_id = AKIAEXAMPLE
//! aws_secret_access_key = …
//! [monitoring]
//! aws_access_key_id = AKIAOTHER
//! aws_secret_access_key = …
//! flowgate_role = read-only
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::control::socket::Role;

/// The longest file that is read: some thousand keys.
const MAX_FILE: u64 = 1 << 20;
/// The shortest secret. AWS's have 40 characters; one that can be guessed from a signature is none.
const MIN_SECRET: usize = 16;

/// A key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// The profile that it stands in: who signs with it.
    pub profile: String,
    /// What requests that are signed with it may do.
    pub role: Role,
    pub(super) secret: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("profile", &self.profile)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// Keys by their ids.
#[derive(Debug, Default)]
pub struct Keys(BTreeMap<String, Key>);

impl Keys {
    /// The key of that id.
    pub fn get(&self, id: &str) -> Option<&Key> {
        self.0.get(id)
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// One sentence.
    pub fn read(path: &Path) -> Result<Keys, String> {
        let said = |why: String| format!("{}: {why}", path.display());
        let file = fs::metadata(path).map_err(|error| said(format!("cannot be read: {error}")))?;
        let mode = file.mode() & 0o777;
        if mode & 0o027 != 0 {
            return Err(said(format!(
                "it has the mode {mode:04o}, and others than its owner and group could read or write its \
                 secrets: chmod 600 it"
            )));
        }
        if file.size() > MAX_FILE {
            return Err(said(format!("it is longer than {MAX_FILE} bytes")));
        }
        let text = fs::read_to_string(path).map_err(|error| said(format!("cannot be read: {error}")))?;
        Keys::parse(&text).map_err(said)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn parse(text: &str) -> Result<Keys, String> {
        let mut profiles: Vec<Profile> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                profiles.push(Profile { name: name.trim().to_owned(), line: number, ..Profile::default() });
                continue;
            }
            // What the line says is not told: it may be a secret.
            let Some((name, value)) = line.split_once('=') else {
                return Err(format!("line {number} is neither a [profile] nor a setting"));
            };
            let Some(profile) = profiles.last_mut() else {
                return Err(format!("line {number} stands before the first [profile]"));
            };
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
            let setting = match name.as_str() {
                "aws_access_key_id" => &mut profile.id,
                "aws_secret_access_key" => &mut profile.secret,
                "flowgate_role" => &mut profile.role,
                // A region, or whatever else the clients want of the file.
                _ => continue,
            };
            if setting.replace(value).is_some() {
                return Err(format!("line {number}: {name} is given twice in [{}]", profile.name));
            }
        }
        let mut keys = Keys::default();
        for profile in profiles {
            let name = profile.name.clone();
            let line = profile.line;
            let (id, key) = profile.key().map_err(|why| format!("[{name}] in line {line} {why}"))?;
            if let Some(other) = keys.0.insert(id, key) {
                return Err(format!("[{}] and [{name}] have the same aws_access_key_id", other.profile));
            }
        }
        if keys.0.is_empty() {
            return Err("it has no keys, and nobody could sign a request".to_owned());
        }
        Ok(keys)
    }
}

#[derive(Default)]
struct Profile {
    name: String,
    line: usize,
    id: Option<String>,
    secret: Option<String>,
    role: Option<String>,
}

impl Profile {
    fn key(self) -> Result<(String, Key), String> {
        let id = self.id.ok_or("has no aws_access_key_id")?;
        let secret = self.secret.ok_or("has no aws_secret_access_key")?;
        if id.is_empty()
            || id.len() > 128
            || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return Err(
                "has an aws_access_key_id that is not 1 to 128 letters, digits and underscores".to_owned()
            );
        }
        if secret.len() < MIN_SECRET {
            return Err(format!("has an aws_secret_access_key of fewer than {MIN_SECRET} characters"));
        }
        let role = match self.role.as_deref() {
            None | Some("admin") => Role::Admin,
            Some("read-only") => Role::ReadOnly,
            Some(other) => {
                return Err(format!("has the flowgate_role '{other}'; there are admin and read-only"));
            }
        };
        Ok((id, Key { profile: self.name, role, secret }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    const FILE: &str = "# keys\n[default]\naws_access_key_id=AKIAONE\naws_secret_access_key = one/secret+of=enough\n\
        region = eu-1\n\n; another\n[ monitoring ]\nAWS_ACCESS_KEY_ID = AKIATWO\n\
        aws_secret_access_key=two-secret-of-enough\nflowgate_role = read-only\n";

    #[test]
    fn keys_are_read_as_clients_read_them() {
        let keys = Keys::parse(FILE).unwrap();
        let one = keys.get("AKIAONE").unwrap();
        assert_eq!((one.profile.as_str(), one.role), ("default", Role::Admin));
        assert_eq!(one.secret, "one/secret+of=enough");
        assert_eq!(keys.get("AKIATWO").unwrap().role, Role::ReadOnly);
        assert_eq!(keys.get("AKIATHREE"), None);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_without_its_secrets() {
        for (text, expected) in [
            ("", "it has no keys, and nobody could sign a request"),
            ("aws_access_key_id = A", "line 1 stands before the first [profile]"),
            ("[a]\nsecret-in-a-line", "line 2 is neither a [profile] nor a setting"),
            ("[a]", "[a] in line 1 has no aws_access_key_id"),
            ("[a]\naws_access_key_id = A", "[a] in line 1 has no aws_secret_access_key"),
            (
                "[a]\naws_access_key_id=A\naws_access_key_id=B",
                "line 3: aws_access_key_id is given twice in [a]",
            ),
            (
                "[a]\naws_access_key_id=A/\naws_secret_access_key=1234567890123456",
                "[a] in line 1 has an aws_access_key_id that is not 1 to 128 letters, digits and underscores",
            ),
            (
                "[a]\naws_access_key_id=A\naws_secret_access_key=secret",
                "[a] in line 1 has an aws_secret_access_key of fewer than 16 characters",
            ),
            (
                "[a]\naws_access_key_id=A\naws_secret_access_key=1234567890123456\nflowgate_role=root",
                "[a] in line 1 has the flowgate_role 'root'; there are admin and read-only",
            ),
            (
                &FILE.replace("AKIATWO", "AKIAONE"),
                "[default] and [monitoring] have the same aws_access_key_id",
            ),
        ] {
            assert_eq!(Keys::parse(text).unwrap_err(), expected);
        }
        assert!(!format!("{:?}", Keys::parse(FILE).unwrap()).contains("secret-of"));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        fs::write(&path, FILE).unwrap();
        for (mode, good) in
            [(0o600, true), (0o640, true), (0o400, true), (0o644, false), (0o660, false), (0o602, false)]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(Keys::read(&path).is_ok(), good, "{mode:o}");
        }
        assert!(Keys::read(&folder.path().join("none")).unwrap_err().contains("none: cannot be read: "));
    }
}
