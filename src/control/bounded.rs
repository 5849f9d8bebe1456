//! Numbers that parameters and configuration bound: refused by the one sentence wherever they come from.

/// Declares a number of its own type from its least, its most, what it is if nothing is said, and what people call it.
macro_rules! bounded_number {
    ($(#[$doc:meta])* $name:ident($least:literal..=$most:literal, $default:literal, $what:literal)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "u64", into = "u64")]
        pub struct $name(#[schemars(range(min = $least, max = $most))] u64);

        impl $name {
            /// The number.
            #[must_use]
            pub fn get(self) -> u64 {
                self.0
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name($default)
            }
        }

        impl TryFrom<u64> for $name {
            type Error = String;

            fn try_from(number: u64) -> Result<$name, String> {
                let allowed = ($least..=$most).contains(&number);
                allowed.then_some($name(number)).ok_or_else(|| {
                    format!(concat!($what, " '{}' must be between '{}-{}' inclusive"), number, $least, $most)
                })
            }
        }

        impl From<$name> for u64 {
            fn from(number: $name) -> u64 {
                number.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                text.parse::<u64>().map_err(|error| error.to_string())?.try_into()
            }
        }
    };
}

pub(crate) use bounded_number;
