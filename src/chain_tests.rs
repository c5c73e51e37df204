//! Chain names and chains: what is taken and what is refused.

use super::*;
use crate::{HookChain, Table};

fn refused(name: &str) -> ChainNameError {
    ChainName::new(name).expect_err(name)
}

#[test]
fn names_that_both_back_ends_take_are_taken() {
    let names = [
        "a", "123", "1", "_x", "~x", "a-b", "a!b", "*foo", "a:b", ":a", "a,b", "a%d", "a/b",
        r"a\b", "[1:2]", "a[0]", "#foo", "a#b", "a@b", "a+b", "a.b", "$x", "a;b", "a|b", "a(b)",
        "a&b", "a<b", "a=b", "chaîne", "c😀", "accept", "CONTINUE", "ERROR", "INPUT2", "REJECT",
        "LOG", "input", "ACCEPT2",
    ];
    for name in names {
        assert_eq!(ChainName::new(name).unwrap().as_str(), name);
        assert_eq!(HookChain::new(name).unwrap().as_str(), name);
    }
}

#[test]
fn names_that_would_be_read_as_something_else_are_refused() {
    let character = |name: &str, character| ChainNameError::Character {
        name: name.to_owned(),
        character,
    };
    for (name, unfit) in [
        ("a b", ' '),
        (" a", ' '),
        ("a\tb", '\t'),
        ("a\nb", '\n'),
        ("a\0b", '\0'),
        ("a\u{1}b", '\u{1}'),
        ("a\u{7f}b", '\u{7f}'),
        ("a\u{85}b", '\u{85}'),
        ("a\u{a0}b", '\u{a0}'),
        ("a\u{2028}b", '\u{2028}'),
        ("a\"b", '"'),
        ("a'b", '\''),
        ("\"\"", '"'),
    ] {
        assert_eq!(refused(name), character(name, unfit));
    }
    assert_eq!(refused(""), ChainNameError::Empty);
    for name in ["-foo", "!foo", "-", "!", "--"] {
        let name = name.to_owned();
        assert_eq!(refused(&name), ChainNameError::Lead { name });
    }
    for name in ["ACCEPT", "DROP", "RETURN", "QUEUE"] {
        let name = name.to_owned();
        assert_eq!(refused(&name), ChainNameError::BuiltInTarget { name });
    }
    for kernel in KernelChain::ALL {
        assert_eq!(refused(kernel.name()), ChainNameError::KernelChain(kernel));
    }
}

#[test]
fn a_name_has_28_bytes_and_no_more() {
    for name in ["c".repeat(28), "ä".repeat(14), "😀".repeat(7)] {
        assert_eq!(ChainName::new(&name).unwrap().as_str(), name);
    }
    for name in [
        "c".repeat(29),
        format!("c{}", "ä".repeat(14)),
        "中".repeat(10),
    ] {
        let length = name.len();
        assert_eq!(refused(&name), ChainNameError::TooLong { name, length });
    }
    let error = refused(&"x".repeat(1 << 20));
    assert!(error.to_string().len() < 300, "{error}");
    assert!(error.to_string().contains("has 1048576 bytes"), "{error}");
}

#[test]
fn refusals_read_as_sentences() {
    let cases = [
        ("", "a chain name can't be empty"),
        (
            "a\u{1b}[31m",
            r#"chain name "a\u{1b}[31m" has '\u{1b}' in it: blanks, control characters and quotes can't stand in a name"#,
        ),
        (
            "-x",
            r#"chain name "-x" begins with '-': iptables would read it as an option"#,
        ),
        (
            "DROP",
            "DROP is a built-in target, no chain can have its name",
        ),
        (
            "INPUT",
            "INPUT is a kernel chain: it can be hooked, but not owned",
        ),
        (
            "ccccccccccccccccccccccccccccc",
            r#"chain name "ccccccccccccccccccccccccccccc" has 29 bytes, iptables takes at most 28"#,
        ),
    ];
    for (name, message) in cases {
        assert_eq!(refused(name).to_string(), message);
    }
}

#[test]
fn a_hook_chain_is_checked_against_its_table() {
    let forward = HookChain::new("FORWARD").unwrap();
    assert_eq!(forward.check_in(Table::Filter), Ok(()));
    let error = forward.check_in(Table::Nat).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table nat has no kernel chain FORWARD: it has PREROUTING, INPUT, OUTPUT, POSTROUTING"
    );
    for table in Table::ALL {
        assert_eq!(
            HookChain::new("DOCKER-USER").unwrap().check_in(table),
            Ok(())
        );
        for chain in KernelChain::ALL {
            assert_eq!(
                HookChain::from(chain).check_in(table).is_ok(),
                table.has(chain)
            );
        }
    }
    assert!(matches!(
        HookChain::new("DROP"),
        Err(ChainNameError::BuiltInTarget { .. })
    ));
    assert!(matches!(HookChain::new(""), Err(ChainNameError::Empty)));
}

#[test]
fn a_chain_error_names_the_chain_and_the_rule() {
    let error = Chain::new("web-a", ["-j RETURN", "-A web-b -j RETURN"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"chain web-a, rule 2: "-A web-b -j RETURN": the rule is written for chain "web-b", but belongs to "web-a""#
    );
    let error = Chain::new("web-a\u{1b}", [] as [&str; 0]).unwrap_err();
    assert!(matches!(
        error,
        ChainError::Name(ChainNameError::Character { .. })
    ));
    let error = Chain::new("web-a", ["-j RETURN\u{1b}"]).unwrap_err();
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
    let error = Chain::new("web-a", ["x".repeat(100_000)]).unwrap_err();
    assert!(error.to_string().len() < 500, "{error}");
}

#[test]
fn a_chain_takes_rules_texts_and_texts_with_its_name() {
    let rule = Rule::new("-j RETURN").unwrap();
    let as_rules = Chain::new("web-a", [&rule]).unwrap();
    for text in [
        "-j RETURN",
        "-A web-a -j RETURN",
        "--append web-a --jump=RETURN",
        "-A \"web-a\" -j RETURN",
    ] {
        assert_eq!(Chain::new("web-a", [text]).unwrap(), as_rules, "{text}");
    }
    let texts = ["-j RETURN"];
    assert_eq!(Chain::new("web-a", texts.iter()).unwrap(), as_rules);
    assert_eq!(
        Chain::new("web-a", texts.map(str::to_owned)).unwrap(),
        as_rules
    );
    let chain = as_rules.requires(["web-c", "web-b"]).unwrap();
    let required: Vec<_> = chain
        .explicit_requirements()
        .map(ChainName::as_str)
        .collect();
    assert_eq!(required, ["web-b", "web-c"]);
    assert!(matches!(
        chain.requires(["INPUT"]),
        Err(ChainError::Name(_))
    ));
}
