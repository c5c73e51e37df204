//! Whatever is accepted as a rule means to the real tool what it means to us: one rule, in one chain.

mod common;

use std::fmt::Write as _;

use common::{Kernel, each_kernel};
use iptables_updater::{Backend, Rule, RuleError, Table};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

const COMMENT: &str = "-m comment --comment ";

/// The rules of one chain in a saved table, one a line.
fn rules_in<'a>(saved: &'a str, chain: &str) -> Vec<&'a str> {
    let start = format!("-A {chain} ");
    saved
        .lines()
        .filter_map(|line| line.strip_prefix(&start))
        .collect()
}

/// What a saved comment says: in quotes a backslash takes the next character as it is.
fn comment_of(rule: &str) -> String {
    let value = rule.split_once("--comment ").expect(rule).1;
    let Some(quoted) = value.strip_prefix('"') else {
        return value.split(' ').next().unwrap_or_default().to_owned();
    };
    let mut text = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next().expect("a closing quote") {
            '"' => return text,
            '\\' => text.push(chars.next().expect("an escaped character")),
            c => text.push(c),
        }
    }
}

/// Loads the rules in order, returns the comments that iptables-save then shows, and proves with `-C`
/// and `-D` that each rule is found again.
fn comments_after_loading(kernel: Kernel, rules: &[Rule]) -> Vec<String> {
    let lines = |command: &str| {
        rules.iter().fold(String::new(), |mut text, rule| {
            let _ = writeln!(text, "-{command} own {rule}");
            text
        })
    };
    kernel.must_restore(&format!("*filter\n:own - [0:0]\n{}COMMIT\n", lines("A")));
    let comments = rules_in(&kernel.save(Table::Filter), "own")
        .into_iter()
        .map(comment_of)
        .collect();
    kernel.must_restore(&format!("*filter\n{}{}COMMIT\n", lines("C"), lines("D")));
    assert_eq!(
        rules_in(&kernel.save(Table::Filter), "own"),
        [] as [&str; 0]
    );
    comments
}

#[test]
fn any_word_arrives_as_it_is() {
    let mut runner = TestRunner::deterministic();
    let strategy = prop_oneof![
        "[^\\p{Cc}]{1,40}",
        r#"["'\\ a-c!#*:-]{1,12}"#,
        "-{1,2}[a-zA-Z]{1,8}",
        "( |\\PC){1,60}"
    ];
    let mut words: Vec<String> =
        std::iter::repeat_with(|| strategy.new_tree(&mut runner).expect("a word").current())
            .take(400)
            .filter(|word| word.len() <= 255)
            .collect();
    for word in [
        "COMMIT", "*nat", ":x", "-j", "-A own", "\"", "\\", "\\\"", "'", "  ", "!", "[0:0]", "#",
    ] {
        words.push(word.to_owned());
    }
    each_kernel("any_word_arrives_as_it_is", |kernel| {
        let by_words: Vec<_> = words
            .iter()
            .map(|word| Rule::from_words(["-m", "comment", "--comment", word]).expect(word))
            .collect();
        assert_eq!(
            comments_after_loading(kernel, &by_words),
            words,
            "{kernel:?}"
        );
        let by_hand: Vec<_> = words
            .iter()
            .enumerate()
            .map(|(n, word)| {
                // Every other word with each of its characters escaped, needed or not.
                let escaped: String = word
                    .chars()
                    .flat_map(|c| [(n % 2 == 0 || "\"\\".contains(c)).then_some('\\'), Some(c)])
                    .flatten()
                    .collect();
                Rule::new(&format!("{COMMENT}\"{escaped}\" -j RETURN")).expect(word)
            })
            .collect();
        assert_eq!(
            comments_after_loading(kernel, &by_hand),
            words,
            "{kernel:?}"
        );
    });
}

#[test]
fn quoting_is_read_as_the_tool_reads_it() {
    // How the comment is written, and what it says; `None` where the tool refuses the line.
    let cases: &[(&str, Option<&str>)] = &[
        ("plain", Some("plain")),
        (r#""a b""#, Some("a b")),
        (r#""it's""#, Some("it's")),
        ("it's", Some("it's")),
        ("'a", Some("'a")),
        ("'a b'", None),
        (r#""a\"b""#, Some("a\"b")),
        (r#""a\\b""#, Some(r"a\b")),
        (r#""a\b""#, Some("ab")),
        (r#""a\nb""#, Some("anb")),
        (r"a\b", Some(r"a\b")),
        (r"a\\b", Some(r"a\\b")),
        (r#"a"b c""#, Some("ab c")),
        (r#"a"b"c"#, None),
        (r#""a""b""#, None),
        (r#""a"b"#, None),
        (r#""  ""#, Some("  ")),
        (r##""#x""##, Some("#x")),
        ("#x", Some("#x")),
        (r#""$x `id` ;""#, Some("$x `id` ;")),
        (r#""-t nat""#, Some("-t nat")),
        ("naïve☃", Some("naïve☃")),
    ];
    each_kernel("quoting_is_read_as_the_tool_reads_it", |kernel| {
        for (written, says) in cases {
            let text = format!("{COMMENT}{written} -j RETURN");
            let rule = Rule::new(&text).expect(&text);
            // As written and as rendered: the tool must make the same of both.
            for line in [text.as_str(), rule.as_str()] {
                let output =
                    kernel.restore(&format!("*filter\n:own - [0:0]\n-A own {line}\nCOMMIT\n"));
                let saved = kernel.save(Table::Filter);
                let comments: Vec<_> = rules_in(&saved, "own")
                    .into_iter()
                    .map(comment_of)
                    .collect();
                assert_eq!(
                    output.status.success(),
                    says.is_some(),
                    "{kernel:?}: {line}"
                );
                assert_eq!(
                    comments.first().map(String::as_str),
                    *says,
                    "{kernel:?}: {line}"
                );
                kernel.must_restore("*filter\n:own - [0:0]\n-X own\nCOMMIT\n");
            }
        }
    });
}

#[test]
fn the_limits_are_the_tools() {
    // 38 comments fill a line; the last one is as long as it must be.
    let line_of = |bytes: usize| {
        let mut text = format!("{COMMENT}{} ", "x".repeat(250)).repeat(37);
        text.push_str(COMMENT);
        let rest = bytes - text.len();
        text + &"y".repeat(rest)
    };
    let rule_of_words = |count: usize| {
        let comments = format!("{COMMENT}x ").repeat((count - 5) / 4);
        let rest = ["", "-o x"][(count - 5) % 4 / 2];
        format!("{comments} ! -i lo -j RETURN {rest}")
    };
    let long_word =
        |bytes: usize| format!("-m conntrack --ctstate {}", &"NEW,".repeat(300)[..bytes]);
    let chain = "c".repeat(28);
    let raw = |kernel: Kernel, rule: &str| {
        let output = kernel.restore(&format!(
            "*filter\n:{chain} - [0:0]\n-A {chain} {rule}\n-A {chain} -j RETURN\nCOMMIT\n"
        ));
        let count = rules_in(&kernel.save(Table::Filter), &chain).len();
        (output.status.success(), count)
    };
    each_kernel("the_limits_are_the_tools", |kernel| {
        let longest = line_of(Rule::MAX_BYTES);
        assert!(Rule::new(&longest).is_ok());
        assert_eq!(raw(kernel, &longest), (true, 2), "{kernel:?}");
        // The line may have 10,239 bytes, and then its number is wrong; at 10,240 it is split.
        assert!(Rule::new(&line_of(Rule::MAX_BYTES + 1)).is_err());
        assert_ne!(
            raw(kernel, &line_of(Rule::MAX_BYTES + 2)),
            (true, 2),
            "{kernel:?}"
        );

        let most = rule_of_words(Rule::MAX_WORDS);
        assert_eq!(most.split_whitespace().count(), Rule::MAX_WORDS);
        assert!(Rule::new(&most).is_ok());
        assert_eq!(raw(kernel, &most), (true, 2), "{kernel:?}");
        let one_more = format!("{most} x");
        assert!(matches!(
            Rule::new(&one_more),
            Err(RuleError::TooManyWords { .. })
        ));
        let output = kernel.restore(&format!("*filter\n-A {chain} {one_more}\nCOMMIT\n"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("cannot handle more arguments"),
            "{kernel:?}: {stderr}"
        );

        // 1,023 bytes end in `NEW` without a comma.
        let longest = long_word(Rule::MAX_WORD_BYTES);
        assert!(Rule::new(&longest).is_ok());
        assert_eq!(raw(kernel, &longest), (true, 2), "{kernel:?}");
        let longer = long_word(Rule::MAX_WORD_BYTES + 4);
        assert!(Rule::new(&longer).is_err());
        assert!(!raw(kernel, &longer).0, "{kernel:?}");
    });
}

/// A text of the longest length arrives whole; with one byte more the tool cuts it without a word.
#[test]
fn texts_are_cut_exactly_where_we_refuse_them() {
    // The table, the rule before and after the text, and its greatest length.
    let cases = [
        (Table::Filter, "-m comment --comment", "", 255),
        (Table::Filter, "-m recent --set --name", "", 199),
        (
            Table::Filter,
            "-m hashlimit --hashlimit-upto 1/s --hashlimit-name",
            "",
            254,
        ),
        (Table::Filter, "-m helper --helper", "", 29),
        (Table::Filter, "-p tcp -m osf --genre", "", 31),
        (Table::Filter, "-j LOG --log-prefix", "", 29),
        (Table::Filter, "-j NFLOG --nflog-prefix", "", 63),
        (Table::Filter, "-j IDLETIMER --timeout 5 --label", "", 27),
        (Table::Filter, "-j TEE --gateway 192.0.2.1 --oif", "", 15),
        (
            Table::Filter,
            "-j RATEEST --rateest-name",
            "--rateest-interval 250ms --rateest-ewmalog 500ms",
            15,
        ),
    ];
    each_kernel("texts_are_cut_exactly_where_we_refuse_them", |kernel| {
        // How much of a text arrives; `None` if the tool, or a kernel without the extension, refuses it.
        let kept = |table: Table, rule: &str| -> Option<usize> {
            let output =
                kernel.restore(&format!("*{table}\n:own - [0:0]\n-A own {rule}\nCOMMIT\n"));
            let saved = kernel.save(table);
            kernel.must_restore(&format!("*{table}\n:own - [0:0]\n-X own\nCOMMIT\n"));
            let rule = *rules_in(&saved, "own").first()?;
            let text = rule
                .split([' ', '"'])
                .find(|word| word.starts_with("zzz"))?;
            output.status.success().then_some(text.len())
        };
        for (table, before, after, max) in cases {
            let rule = |length: usize| format!("{before} {} {after}", "z".repeat(length));
            let fits = Rule::new(&rule(max)).expect(before);
            assert!(
                matches!(
                    Rule::new(&rule(max + 1)),
                    Err(RuleError::TextTooLong { .. })
                ),
                "{before}"
            );
            let Some(whole) = kept(table, fits.as_str()) else {
                println!("{kernel:?} has no {before}");
                continue;
            };
            assert_eq!(whole, max, "{kernel:?}: {before}");
            // nf_tables keeps twice as much of this one: the limit is the smaller of the two.
            if (kernel.backend, before) != (Backend::NfTables, "-j NFLOG --nflog-prefix") {
                assert_eq!(
                    kept(table, &rule(max + 1)),
                    Some(max),
                    "{kernel:?}: {before}"
                );
            }
        }
    });
}

#[test]
fn an_option_of_the_policy_match_stays_one() {
    each_kernel("an_option_of_the_policy_match_stays_one", |kernel| {
        let text = "-m policy --dir in --pol ipsec --proto esp";
        for (n, text) in [
            text.to_owned(),
            Rule::new(text).expect("a rule").to_string(),
        ]
        .iter()
        .enumerate()
        {
            kernel.must_restore(&format!(
                "*filter\n:own-{n} - [0:0]\n-A own-{n} {text}\nCOMMIT\n"
            ));
            let rules = kernel.rules(Table::Filter, &format!("own-{n}"));
            assert_eq!(
                rules.as_deref(),
                Some([text.clone()].as_slice()),
                "{kernel:?}"
            );
        }
    });
}
