//! Rules: what is refused, why and where.

use super::*;

fn refused(text: &str) -> RuleError {
    Rule::new(text).expect_err(text)
}

#[track_caller]
fn renders(text: &str, expected: &str) {
    assert_eq!(Rule::new(text).unwrap().as_str(), expected);
}

fn option(name: &str) -> String {
    name.to_owned()
}

#[test]
fn options_that_make_another_command_are_refused() {
    let cases = [
        ("-A x", "-A"),
        ("-j x -A y", "-A"),
        ("-j x -D y", "-D"),
        ("-C x", "-C"),
        ("-I x", "-I"),
        ("-R x 1", "-R"),
        ("-L", "-L"),
        ("-S", "-S"),
        ("-F", "-F"),
        ("-Z", "-Z"),
        ("-N x", "-N"),
        ("-X x", "-X"),
        ("-E x y", "-E"),
        ("-P x", "-P"),
        ("-h", "-h"),
        ("-V", "-V"),
        ("-4 -j x", "-4"),
        ("-6 -j x", "-6"),
        ("-j x -6", "-6"),
        ("-t nat", "-t"),
        ("-tnat", "-t"),
        ("-v", "-v"),
        ("-n", "-n"),
        ("-x", "-x"),
        ("-w", "-w"),
        ("-W 1", "-W"),
        ("-M /bin/x", "-M"),
        ("-c 1 2", "-c"),
        ("-0", "-0"),
        ("-5", "-5"),
        ("-1", "-1"),
        ("-f6", "-6"),
        ("-fh", "-h"),
        ("-f4jx", "-4"),
        ("-", "-"),
        ("-ü", "-ü"),
        ("-=", "-="),
        (r#""-h""#, "-h"),
        (r#"-j x "-t" nat"#, "-t"),
        ("--", "--"),
        ("-j x -- y", "--"),
        ("--=x", "--"),
        ("--append x", "--append"),
        ("--check x", "--check"),
        ("--delete x", "--delete"),
        ("--delete-chain x", "--delete-chain"),
        ("--exact", "--exact"),
        ("--flush", "--flush"),
        ("--help", "--help"),
        ("--he", "--he"),
        ("--help=x", "--help"),
        ("--insert x", "--insert"),
        ("--ipv4", "--ipv4"),
        ("--ipv6", "--ipv6"),
        ("--ipv", "--ipv"),
        ("--line-numbers", "--line-numbers"),
        ("--list", "--list"),
        ("--list-rules", "--list-rules"),
        ("--modprobe=/bin/x", "--modprobe"),
        ("--mod x", "--mod"),
        ("--new-chain x", "--new-chain"),
        ("--numeric", "--numeric"),
        ("--policy x", "--policy"),
        ("--rename-chain x y", "--rename-chain"),
        ("--replace x 1", "--replace"),
        ("--set-counters 1 2", "--set-counters"),
        ("--set-c 1 2", "--set-c"),
        ("--table nat", "--table"),
        ("--table=nat", "--table"),
        ("--t=nat", "--t"),
        ("--verbose", "--verbose"),
        ("--version", "--version"),
        ("--ver", "--ver"),
        ("--wait", "--wait"),
        ("--wait-interval 1", "--wait-interval"),
        ("--zero", "--zero"),
    ];
    for (text, found) in cases {
        let option = option(found);
        assert_eq!(
            refused(text),
            RuleError::ForbiddenOption { option },
            "{text}"
        );
    }
}

#[test]
fn control_characters_are_refused_where_they_stand() {
    let cases = [
        ("-j x\n-A y", '\n', 4),
        ("-j x\r", '\r', 4),
        ("\0-j x", '\0', 0),
        ("-j x\0", '\0', 4),
        ("-j x\u{b}y", '\u{b}', 4),
        ("-m comment --comment ü\u{1b}", '\u{1b}', 23),
        ("-m comment --comment \"a\nb\"", '\n', 23),
        ("-m comment --comment \"a\tb\"", '\t', 23),
        ("-m comment --comment \"a\\\tb\"", '\t', 24),
        ("-m comment --comment \"a\\\"\tb\"", '\t', 25),
        ("-m comment --comment \u{7f}", '\u{7f}', 21),
        ("-m comment --comment \u{85}", '\u{85}', 21),
    ];
    for (text, character, at) in cases {
        assert_eq!(
            refused(text),
            RuleError::ControlCharacter { character, at },
            "{text:?}"
        );
    }
    assert_eq!(
        Rule::from_words(["-j", "a\tb"]),
        Err(RuleError::ControlCharacter {
            character: '\t',
            at: 1
        })
    );
}

#[test]
fn what_cannot_be_read_is_refused() {
    let word = |word: &str| RuleError::NoOption {
        word: word.to_owned(),
    };
    let empty = |name| RuleError::EmptyValue {
        option: option(name),
    };
    let missing = |name, found: Option<&str>| RuleError::MissingValue {
        option: option(name),
        found: found.map(str::to_owned),
    };
    let cases = [
        ("", RuleError::Empty),
        (" \t ", RuleError::Empty),
        ("1", word("1")),
        ("1 -j x", word("1")),
        ("!x", word("!x")),
        ("!-s 1.2.3.4", word("!-s")),
        ("COMMIT", word("COMMIT")),
        ("[0:0] -A x", word("[0:0]")),
        (r#""" -j x"#, word("")),
        (
            r#"-m comment --comment "abc"#,
            RuleError::UnterminatedQuote { at: 21 },
        ),
        (
            r#"-m comment --comment a\"b"#,
            RuleError::UnterminatedQuote { at: 23 },
        ),
        (
            r#"-m comment --comment "a\""#,
            RuleError::UnterminatedQuote { at: 21 },
        ),
        (r#"-j """#, empty("-j")),
        ("--jump=", empty("-j")),
        (r#"-m comment --comment """#, empty("--comment")),
        ("-m comment --comment=", empty("--comment")),
        (r#"-m set --match-set "" src"#, empty("--match-set")),
        (r#"-m set --match-set x """#, empty("x")),
        ("-j", missing("-j", None)),
        ("-o-a", missing("-o", Some("-a"))),
        ("--jump=-x", missing("-j", Some("-x"))),
        ("-j -p tcp", missing("-j", Some("-p"))),
        ("-p tcp --jump", missing("-j", None)),
        ("-s --dst 1.2.3.4", missing("-s", Some("--dst"))),
    ];
    for (text, error) in cases {
        assert_eq!(refused(text), error, "{text}");
    }
    assert_eq!(Rule::from_words([] as [&str; 0]), Err(RuleError::Empty));
    assert_eq!(
        Rule::from_words(["-m", "comment", "--comment", ""]),
        Err(empty("--comment"))
    );
}

#[test]
fn only_one_address_and_one_target_is_taken() {
    let several = |name, value: &str| RuleError::SeveralAddresses {
        option: option(name),
        value: value.to_owned(),
    };
    let host = |name, value: &str| RuleError::HostName {
        option: option(name),
        value: value.to_owned(),
    };
    let targets = |first: &str, second: &str| RuleError::TwoTargets {
        first: first.to_owned(),
        second: second.to_owned(),
    };
    let cases = [
        ("-s 1.2.3.4,1.2.3.5", several("-s", "1.2.3.4,1.2.3.5")),
        ("--dst=::1,::2", several("-d", "::1,::2")),
        ("-s 1.2.3.4,", several("-s", "1.2.3.4,")),
        ("-s localhost", host("-s", "localhost")),
        ("-d example.org/24", host("-d", "example.org/24")),
        ("-d dead", host("-d", "dead")),
        ("-s fe80::1%eth0", host("-s", "fe80::1%eth0")),
        ("-s ! 1.2.3.4", host("-s", "!")),
        ("-s 300", host("-s", "300")),
        ("-s 16909060/8", host("-s", "16909060/8")),
        ("-s 1.2.3.4.5", host("-s", "1.2.3.4.5")),
        ("-s 1..2", host("-s", "1..2")),
        ("-s /8", host("-s", "/8")),
        ("-j a -j b", targets("a", "b")),
        ("-j a -g b", targets("a", "b")),
        ("-ja --goto=b", targets("a", "b")),
    ];
    for (text, error) in cases {
        assert_eq!(refused(text), error, "{text}");
    }
    for address in [
        "0/0",
        "10/8",
        "1.2.3.4/255.0.255.0",
        "::/0",
        "::ffff:1.2.3.4",
        "2001:DB8::/ffff::",
    ] {
        renders(&format!("-s {address}"), &format!("-s {address}"));
    }
}

#[test]
fn a_target_that_nothing_can_be_called_is_refused() {
    let longest = "x".repeat(28);
    renders(&format!("-j {longest}"), &format!("-j {longest}"));
    for target in [
        "x".repeat(29),
        "a b".to_owned(),
        "a\"b".to_owned(),
        "a\u{a0}b".to_owned(),
    ] {
        let error = Rule::from_words(["-j", &target]).unwrap_err();
        assert_eq!(error, RuleError::TargetName { target });
    }
}

#[test]
fn a_text_that_iptables_would_cut_short_is_refused() {
    let cases = [
        ("-m comment", "--comment", 255),
        ("-j LOG", "--log-prefix", 29),
        ("-j NFLOG", "--nflog-prefix", 63),
        ("-m helper", "--helper", 29),
        ("-p tcp -j CT", "--helper", 15),
        ("-j CT", "--timeout", 31),
        ("-m recent --set", "--name", 199),
        ("-m hashlimit --hashlimit-upto 1/s", "--hashlimit-name", 254),
        ("-j TEE --gateway 1.2.3.4", "--oif", 15),
        ("-j IDLETIMER --timeout 5", "--label", 27),
        ("-j RATEEST", "--rateest-name", 15),
        ("-p tcp -m osf", "--genre", 31),
    ];
    for (rest, name, max) in cases {
        let fits = "a".repeat(max);
        renders(
            &format!("{rest} {name} {fits}"),
            &format!("{rest} {name} {fits}"),
        );
        renders(
            &format!("{rest} {name}={fits}"),
            &format!("{rest} {name}={fits}"),
        );
        let too_long = RuleError::TextTooLong {
            option: option(name),
            length: max + 1,
            max,
        };
        let shortened = &name[..name.len() - 1];
        for name in [
            format!("{name} "),
            format!("{name}="),
            format!("{shortened} "),
        ] {
            assert_eq!(
                refused(&format!("{rest} {name}{fits}a")),
                too_long,
                "{rest} {name}"
            );
            // Bytes count, not characters.
            let wide = "ä".repeat(max / 2 + 1);
            let error = refused(&format!("{rest} {name}\"{wide}\""));
            assert!(matches!(error, RuleError::TextTooLong { .. }), "{error}");
        }
    }
    // Another extension's option of the same name is another matter.
    let label = "a".repeat(100);
    renders(
        &format!("-m connlabel --label {label}"),
        &format!("-m connlabel --label {label}"),
    );
}

#[test]
fn lines_words_and_their_number_have_limits() {
    let word = |bytes| "x".repeat(bytes);
    let long = |bytes| Rule::from_words(["-m", "x", "--x", &word(bytes)]);
    assert!(long(Rule::MAX_WORD_BYTES).is_ok());
    assert_eq!(
        long(Rule::MAX_WORD_BYTES + 1),
        Err(RuleError::WordTooLong {
            start: word(20),
            length: 1_024,
            max: 1_023
        })
    );
    let many = |count| Rule::new(&format!("-j x{}", " y".repeat(count - 2)));
    assert!(many(Rule::MAX_WORDS).is_ok());
    let too_many = |count| RuleError::TooManyWords { count, max: 249 };
    assert_eq!(many(250), Err(too_many(250)));
    // As rendered: what was bundled or attached counts as the words that it becomes.
    assert_eq!(refused(&format!("-{}jx", "f".repeat(248))), too_many(250));
    assert_eq!(
        refused(&format!("-{}", "f ".repeat(300_000))),
        too_many(300_000)
    );
    let wide = |bytes: usize| {
        let piece = format!("--x {} ", word(996));
        let text = piece.repeat(bytes / 1001 + 1);
        let last = bytes - (bytes / 1001) * 1001;
        Rule::new(&format!("{}{}", &text[..bytes - last], &text[..last])).unwrap_err_or_len()
    };
    assert_eq!(wide(Rule::MAX_BYTES), Ok(Rule::MAX_BYTES));
    let length = Rule::MAX_BYTES + 1;
    assert_eq!(
        wide(length),
        Err(RuleError::TooLong {
            length,
            max: Rule::MAX_BYTES
        })
    );
}

trait LengthOrError {
    fn unwrap_err_or_len(self) -> Result<usize, RuleError>;
}

impl LengthOrError for Result<Rule, RuleError> {
    fn unwrap_err_or_len(self) -> Result<usize, RuleError> {
        self.map(|rule| rule.as_str().len())
    }
}

#[test]
fn refusals_read_as_sentences() {
    let cases = [
        (
            "",
            "a rule can't be empty: it would match every packet and do nothing",
        ),
        (
            "-j x\u{1b}",
            r"control character '\u{1b}' at byte 4: it would end or split the line",
        ),
        ("-j \"x", "the quote that opens at byte 3 is never closed"),
        (
            "5 -j x",
            r#"a rule begins with an option or with !, not with "5""#,
        ),
        (
            "-6 -j x",
            r#""-6" has no place in a rule: it names a command, a table, an IP version or an output option"#,
        ),
        ("-j", "option -j has no value"),
        ("-j -p", r#"option -j has no value: "-p" follows"#),
        (
            "-s a.b",
            r#"-s "a.b" isn't an address: a host name may stand for several rules, or for none while it can't be resolved"#,
        ),
        (
            "-s 1.1.1.1,2.2.2.2",
            r#"-s "1.1.1.1,2.2.2.2" lists several addresses, of which iptables makes several rules: write one rule for each"#,
        ),
        (
            "-j a -j b",
            r#"a rule has one target, this one has "a" and "b""#,
        ),
        (
            "-j LOG --log-prefix 123456789012345678901234567890",
            "the text of --log-prefix has 30 bytes, iptables keeps 29 and cuts off the rest",
        ),
        (
            r#"-j "a b""#,
            r#"no chain or target can be called "a b": a name has at most 28 bytes, no blank and no double quote"#,
        ),
    ];
    for (text, message) in cases {
        assert_eq!(refused(text).to_string(), message);
    }
}
