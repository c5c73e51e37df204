//! How errors look in `{:?}`: as the sentence, because that is what `fn main() -> Result<(), Error>` and `unwrap` print.

/// Implements `Debug`: `{:?}` is the sentence of `Display`, with the advice in it, and `{:#?}` the structure, as derived.
macro_rules! debug_as_sentence {
    (enum $type:ident, ($($tuple:ident),*), {$($name:ident { $($field:ident),* }),* $(,)?}) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if !f.alternate() {
                    return std::fmt::Display::fmt(self, f);
                }
                match self {
                    $(Self::$tuple(inner) => {
                        f.debug_tuple(stringify!($tuple)).field(inner).finish()
                    })*
                    $(Self::$name { $($field),* } => {
                        f.debug_struct(stringify!($name))$(.field(stringify!($field), $field))*.finish()
                    })*
                }
            }
        }
    };
    (struct $type:ident { $($field:ident),* $(,)? }) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if !f.alternate() {
                    return std::fmt::Display::fmt(self, f);
                }
                let Self { $($field),* } = self;
                f.debug_struct(stringify!($type))$(.field(stringify!($field), $field))*.finish()
            }
        }
    };
}

pub(crate) use debug_as_sentence;

#[cfg(test)]
mod tests {
    use std::process::Termination;

    use crate::memory::Fault;
    use crate::{
        Backend, BadRule, Chain, ChainName, Error, ExecutorError, FailureClass, IpVersion,
        IptablesUpdater, MemoryExecutor, Prefixes, RestoreError, Rule, SavedTable, Table,
    };

    fn not_owned() -> Error {
        Error::NotOwned {
            chain: ChainName::new("db-in").unwrap(),
            prefixes: Prefixes::new(["web-"]).unwrap(),
        }
    }

    #[test]
    fn what_main_prints_is_the_sentence() {
        let sentence =
            "chain db-in isn't owned: its name begins with none of this updater's prefixes (web-)";
        assert_eq!(format!("{:?}", not_owned()), sentence);
        let gone = ExecutorError::NotFound {
            program: "/sbin/iptables".into(),
        };
        assert!(format!("{gone:?}").contains("install the package `iptables`"));
        assert_eq!(format!("{:?}", Error::from(gone.clone())), gone.to_string());
        let bad = Chain::new("web-in", ["-j"]).unwrap_err();
        assert_eq!(format!("{bad:?}"), bad.to_string());
        let table = "nta".parse::<Table>().unwrap_err();
        assert_eq!(format!("{table:?}"), table.to_string());
        let answer: Result<(), Error> = Err(not_owned());
        assert_eq!(format!("{answer:?}"), format!("Err({sentence})"));
        // A type that `main` can return.
        assert_ne!(
            format!("{:?}", answer.report()),
            format!("{:?}", std::process::ExitCode::SUCCESS)
        );
    }

    /// What is returned by value has the sentence too: `fn main() -> Result<(), Box<dyn Error>>` prints any of them.
    #[test]
    fn so_is_it_for_errors_of_values_and_of_the_tools() {
        let rule = Rule::new("-s example.org -j ACCEPT").unwrap_err();
        let errors: [Box<dyn std::error::Error>; 6] = [
            rule.clone().into(),
            "-x".parse::<ChainName>().unwrap_err().into(),
            Prefixes::new(["A"]).unwrap_err().into(),
            BadRule {
                text: "-s example.org".to_owned(),
                source: rule,
            }
            .into(),
            SavedTable::parse(b"*filter\n", Table::Filter)
                .unwrap_err()
                .into(),
            restore_error().into(),
        ];
        for error in errors {
            assert_eq!(format!("{error:?}"), error.to_string());
            let structure = format!("{error:#?}");
            assert_ne!(structure, error.to_string());
            assert!(structure.contains("\n    "), "{structure}");
        }
    }

    fn restore_error() -> RestoreError {
        let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
        kernel.fail_restore(1, Fault::Fails(FailureClass::Refused));
        let mut filter = IptablesUpdater::builder(Table::Filter)
            .chain_prefix("web-")
            .open(kernel)
            .unwrap();
        match filter.rewrite_chains([Chain::new("web-in", ["-j DROP"]).unwrap()]) {
            Err(Error::Restore(error)) => *error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_structure_is_in_the_alternate_form() {
        let structure = "NotOwned {\n    chain: \"db-in\",\n    prefixes: Prefixes(\n        [\n            \"web-\",\n        ],\n    ),\n}";
        assert_eq!(format!("{:#?}", not_owned()), structure);
        let bad = Error::from(Chain::new("web-in", ["-j"]).unwrap_err());
        let structure = format!("{bad:#?}");
        assert!(structure.starts_with("Chain(\n    Rule {\n"), "{structure}");
        assert!(structure.contains("number: 1,"), "{structure}");
    }
}
