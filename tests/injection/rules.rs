//! Rules that try to be another line, command, table or chain.

use iptables_updater::{Chain, ChainError, Error, Placement, Position, Rule, RuleError};

use super::{nothing_ran, open, presentable};

/// Each text, and the variant of the error.
const REFUSED: &[(&str, &str)] = &[
    // Another line.
    ("-j RETURN\n-A INPUT -j DROP", "ControlCharacter"),
    ("-j RETURN\nCOMMIT\n*nat", "ControlCharacter"),
    ("-j RETURN\r\n-F INPUT", "ControlCharacter"),
    ("-j RETURN\r", "ControlCharacter"),
    ("-j RETURN\u{b}-F", "ControlCharacter"),
    ("-j RETURN\u{c}-F", "ControlCharacter"),
    ("-j RETURN\u{85}-F", "ControlCharacter"),
    (
        "-m comment --comment \"a\nCOMMIT\n*nat\n\" -j RETURN",
        "ControlCharacter",
    ),
    ("-j RETURN\0 -p tcp", "ControlCharacter"),
    (
        "-m comment --comment \"\u{1b}[2J\u{1b}]0;x\u{7}\"",
        "ControlCharacter",
    ),
    ("-m comment --comment \"\u{9b}31m\"", "ControlCharacter"),
    // An unclosed quote takes in what follows.
    ("-m comment --comment \"a", "UnterminatedQuote"),
    ("-j RETURN \"", "UnterminatedQuote"),
    ("-m comment --comment \"a\\\" -j DROP", "UnterminatedQuote"),
    // Another command.
    ("-D INPUT 1", "ForbiddenOption"),
    ("-F INPUT", "ForbiddenOption"),
    ("-F", "ForbiddenOption"),
    ("-X", "ForbiddenOption"),
    ("-P INPUT DROP", "ForbiddenOption"),
    ("-I INPUT -j DROP", "ForbiddenOption"),
    ("-N web-evil", "ForbiddenOption"),
    ("-E web-a web-b", "ForbiddenOption"),
    ("-Z", "ForbiddenOption"),
    ("-h", "ForbiddenOption"),
    ("-V", "ForbiddenOption"),
    ("-j RETURN -h", "ForbiddenOption"),
    ("-p tcp -V", "ForbiddenOption"),
    ("-j RETURN -A INPUT", "ForbiddenOption"),
    ("-j RETURN --flush", "ForbiddenOption"),
    ("-j RETURN --flu", "ForbiddenOption"),
    ("-j RETURN --delete-chain=web-b", "ForbiddenOption"),
    ("-j RETURN --modprobe=/tmp/evil", "ForbiddenOption"),
    ("-j RETURN -M /tmp/evil", "ForbiddenOption"),
    ("-j RETURN -M/tmp/evil", "ForbiddenOption"),
    ("-j RETURN --set-counters 1 1", "ForbiddenOption"),
    ("-j RETURN -fF", "ForbiddenOption"),
    // Another table or IP version.
    ("-t nat -j RETURN", "ForbiddenOption"),
    ("-j RETURN -t nat", "ForbiddenOption"),
    ("-j RETURN -tnat", "ForbiddenOption"),
    ("-j RETURN --table=nat", "ForbiddenOption"),
    ("-j RETURN --tab nat", "ForbiddenOption"),
    ("-6 -j RETURN", "ForbiddenOption"),
    ("-4 -j RETURN", "ForbiddenOption"),
    ("-j RETURN --ipv6", "ForbiddenOption"),
    ("-j RETURN \"-6\"", "ForbiddenOption"),
    ("-j RETURN -w", "ForbiddenOption"),
    ("-j RETURN --", "ForbiddenOption"),
    // Another chain.
    ("-A INPUT -j DROP", "OtherChain"),
    ("--append INPUT -j DROP", "OtherChain"),
    ("-A \"web-a \" -j DROP", "OtherChain"),
    ("INPUT -j DROP", "NoOption"),
    ("1 -j DROP", "NoOption"),
    ("COMMIT", "NoOption"),
    ("*nat", "NoOption"),
    (":web-evil - [0:0]", "NoOption"),
    ("# a comment", "NoOption"),
    ("[1:1] -A INPUT -j DROP", "NoOption"),
    // A name that is printed without quotes, and read back as what it says.
    ("-o \"443 -j web-b\" -j RETURN", "BlankInName"),
    ("-i \"x -j DROP\"", "BlankInName"),
    ("--in-interface=\"x -j DROP\"", "BlankInName"),
    ("-m set --match-set \"s src -j DROP\" src", "BlankInName"),
    ("-m recent --name \"x -j DROP\" --set", "BlankInName"),
    ("-m physdev --physdev-in \"x -j DROP\"", "BlankInName"),
    ("-j SET --add-set \"x y\" src", "BlankInName"),
    // Several rules or targets, or none.
    ("-s 192.0.2.1,192.0.2.2 -j DROP", "SeveralAddresses"),
    ("-s evil.example -j DROP", "HostName"),
    ("-j RETURN -j DROP", "TwoTargets"),
    ("-j RETURN --goto=web-b", "TwoTargets"),
    ("-j \"web b\"", "TargetName"),
    ("-j \"\"", "EmptyValue"),
    ("-j -F", "MissingValue"),
    ("-j", "MissingValue"),
    ("", "Empty"),
    (" \t", "Empty"),
];

fn variant(error: &RuleError) -> String {
    let debug = format!("{error:#?}");
    debug.split([' ', '(']).next().unwrap().to_owned()
}

/// Texts that are refused for their length.
fn too_long() -> Vec<(String, &'static str)> {
    let fits = |option: &str, bytes: usize| format!("{option} {} -j RETURN", "x".repeat(bytes));
    vec![
        (fits("-m comment --comment", 256), "TextTooLong"),
        (fits("-m comment --comment", 1_024), "WordTooLong"),
        (
            "-j LOG --log-prefix ".to_owned() + &"x".repeat(30),
            "TextTooLong",
        ),
        (
            "-j NFLOG --nflog-prefix ".to_owned() + &"x".repeat(64),
            "TextTooLong",
        ),
        // Its tail would run as a command of its own.
        (
            format!(
                "-j RETURN {} -F INPUT",
                format!("--x {} ", "y".repeat(1_000)).repeat(11)
            ),
            "ForbiddenOption",
        ),
        (
            format!(
                "-j RETURN {}",
                format!("--x {} ", "y".repeat(1_000)).repeat(11)
            ),
            "TooLong",
        ),
        (format!("-j RETURN{}", " --x".repeat(300)), "TooManyWords"),
        ("-j ".to_owned() + &"x".repeat(29), "TargetName"),
    ]
}

#[test]
fn a_rule_stays_one_rule_at_every_way_in() {
    let (kernel, mut updater) = open();
    let fixed = REFUSED
        .iter()
        .map(|(text, reason)| ((*text).to_owned(), *reason));
    for (text, reason) in fixed.chain(too_long()) {
        let text = text.as_str();
        // Only where a chain is known may a rule be written with it.
        let alone = Rule::new(text).expect_err(text);
        let expected = if reason == "OtherChain" {
            "ForbiddenOption"
        } else {
            reason
        };
        assert_eq!(variant(&alone), expected, "{text:?}");
        presentable(&alone);
        match Chain::new("web-a", ["-j RETURN", text]).expect_err(text) {
            ChainError::Rule {
                chain,
                number,
                source,
            } => {
                assert_eq!((&*chain, number), ("web-a", 2), "{text:?}");
                assert_eq!(variant(&source.source), reason, "{text:?}");
                presentable(&source);
            }
            other => panic!("{text:?}: {other}"),
        }
        let chain = "OUTPUT";
        let results = [
            updater.ensure_rule_inserted(chain, text),
            updater.ensure_rule_appended(chain, text.to_owned()),
            updater.ensure_rule_removed(chain, text),
            updater.ensure_rule(Position::Append, chain, text).map(drop),
            updater.delete_rule(chain, text).map(drop),
            updater
                .ensure_hooks(chain, ["-j web-a", text], Placement::Top)
                .map(drop),
        ];
        for result in results {
            match result.expect_err(text) {
                Error::HookRule { chain, source } => {
                    assert_eq!(chain, "OUTPUT");
                    assert_eq!(variant(&source.source), reason, "{text:?}");
                    presentable(&source);
                }
                other => panic!("{text:?}: {other}"),
            }
        }
        let result = updater.set_missing_chain_override("web-b", [text]);
        match result.expect_err(text) {
            Error::Chain(ChainError::Rule { source, .. }) => {
                assert_eq!(variant(&source.source), reason, "{text:?}");
            }
            other => panic!("{text:?}: {other}"),
        }
        nothing_ran(&kernel, &updater, text);
    }
}
