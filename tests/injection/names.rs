//! Names of chains that try to be options, several words, or another line.

use iptables_updater::{Chain, ChainError, ChainName, ChainNameError, Error, HookChain, Request};

use super::{nothing_ran, open, presentable};

/// Each name, and the variant of the error.
pub const REFUSED: &[(&str, &str)] = &[
    ("", "Empty"),
    ("-F", "Lead"),
    ("-x", "Lead"),
    ("--flush", "Lead"),
    ("-t", "Lead"),
    ("!x", "Lead"),
    ("!", "Lead"),
    ("web a", "Character"),
    ("web-a -j ACCEPT", "Character"),
    ("web-a\tx", "Character"),
    ("web-a\n-F INPUT", "Character"),
    ("web-a\n", "Character"),
    ("web-a\r", "Character"),
    ("web-\0", "Character"),
    ("web-\u{1b}[31m", "Character"),
    ("web-\u{9b}31m", "Character"),
    ("web-\u{85}", "Character"),
    ("web-\u{2028}x", "Character"),
    ("web-\u{a0}x", "Character"),
    ("web-\"", "Character"),
    ("web-'", "Character"),
    (" - [0:0]", "Character"),
    ("web-a - [0:0]", "Character"),
    ("web-aaaaaaaaaaaaaaaaaaaaaaaaa", "TooLong"),
    ("web-äääääääääääää", "TooLong"),
    ("ACCEPT", "BuiltInTarget"),
    ("DROP", "BuiltInTarget"),
    ("RETURN", "BuiltInTarget"),
    ("QUEUE", "BuiltInTarget"),
    ("INPUT", "KernelChain"),
    ("POSTROUTING", "KernelChain"),
];

fn variant(error: &ChainNameError) -> String {
    let debug = format!("{error:#?}");
    debug.split([' ', '(']).next().unwrap().to_owned()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, name: &str, reason: &str) {
    let error = result.expect_err(name);
    match &error {
        Error::ChainName(found) | Error::Chain(ChainError::Name(found)) => {
            assert_eq!(variant(found), reason, "{name:?}");
        }
        other => panic!("{name:?}: {other}"),
    }
    presentable(&error);
}

#[test]
fn a_name_stays_one_name_at_every_way_in() {
    let (kernel, mut updater) = open();
    for (name, reason) in REFUSED {
        refused(ChainName::new(name).map_err(Error::from), name, reason);
        refused(
            Chain::new(*name, ["-j RETURN"]).map_err(Error::from),
            name,
            reason,
        );
        let chain = Chain::new("web-a", ["-j RETURN"]).unwrap();
        refused(chain.requires([*name]).map_err(Error::from), name, reason);
        refused(Request::delete([*name]).map_err(Error::from), name, reason);
        refused(updater.delete_chains(["web-a", name]), name, reason);
        refused(
            updater.set_missing_chain_override(*name, ["-j DROP"]),
            name,
            reason,
        );
        // A kernel chain may be hooked, in a table that has it.
        let (hook, exists) = (HookChain::new(name), *reason == "KernelChain");
        assert_eq!(hook.is_ok(), exists, "{name:?}");
        if exists {
            continue;
        }
        refused(hook.map_err(Error::from), name, reason);
        refused(
            updater.ensure_rule_inserted(*name, "-j web-a"),
            name,
            reason,
        );
        refused(
            updater.ensure_rule_appended(*name, "-j web-a"),
            name,
            reason,
        );
        refused(updater.ensure_rule_removed(*name, "-j web-a"), name, reason);
        refused(updater.delete_rule(*name, "-j web-a"), name, reason);
        refused(updater.ensure_chain(*name), name, reason);
        refused(updater.allow_foreign(*name), name, reason);
        refused(updater.flush_chain(*name), name, reason);
        refused(updater.delete_chain(*name), name, reason);
        refused(updater.chain_exists(*name), name, reason);
        refused(updater.rules(*name), name, reason);
        nothing_ran(&kernel, &updater, name);
    }
}
