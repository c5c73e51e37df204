//! Values of a small set, each with the name that iptables has for it: written and read by that name.

use crate::error::debug_as_sentence;

/// The text isn't the name of any of the few things that it could name.
///
/// ```
/// use iptables_updater::{KernelChain, Table, UnknownName};
///
/// let error: UnknownName = "filters".parse::<Table>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"no table is called "filters": there are filter, nat, mangle, raw, security"#
/// );
/// assert!("input".parse::<KernelChain>().is_err()); // names are spelled as iptables spells them
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} is called {name:?}: there are {}", known.join(", "))]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    known: Vec<&'static str>,
}

debug_as_sentence!(struct UnknownName { kind, name, known });

impl UnknownName {
    /// Looks a value up by its name.
    pub(crate) fn find<T: Copy>(
        name: &str,
        kind: &'static str,
        all: &[T],
        name_of: impl Fn(T) -> &'static str,
    ) -> Result<T, Self> {
        let mut named = all.iter().copied();
        named
            .find(|value| name_of(*value) == name)
            .ok_or_else(|| Self {
                kind,
                name: crate::excerpt::short(name),
                known: all.iter().map(|value| name_of(*value)).collect(),
            })
    }
}

/// Implements `Display` and `FromStr` for an enum that has `ALL` and `name`.
macro_rules! written_by_name {
    ($type:ident, $kind:literal) => {
        /// The name; width and alignment are heeded.
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::named::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                crate::named::UnknownName::find(name, $kind, &Self::ALL, Self::name)
            }
        }
    };
}

pub(crate) use written_by_name;
