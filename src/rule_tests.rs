//! Rules: what is taken, in which spelling, and what is refused, why and where.

use super::*;
use proptest::prelude::*;

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
fn a_rule_is_kept_in_one_spelling() {
    let cases = [
        ("  -p  tcp\t-j ACCEPT ", "-p tcp -j ACCEPT"),
        ("--jump=x", "-j x"),
        ("--jump x", "-j x"),
        ("--goto=x", "-g x"),
        ("--jum x", "-j x"),
        ("-jx", "-j x"),
        ("-gx", "-g x"),
        ("-ptcp -s10.0.0.1 -ieth0", "-p tcp -s 10.0.0.1 -i eth0"),
        ("--proto tcp --source=::1", "-p tcp -s ::1"),
        ("--src 1.2.3.4 --dst 1.2.3.4", "-s 1.2.3.4 -d 1.2.3.4"),
        ("--in-interface a --out-interface b", "-i a -o b"),
        ("--match=comment --comment x", "-m comment --comment x"),
        ("-fjDROP", "-f -j DROP"),
        ("! --fragments -j DROP", "! --fragments -j DROP"),
        (r#"-m comment --comment "x""#, "-m comment --comment x"),
        (
            r#"-m comment --comment "a b\c""#,
            r#"-m comment --comment "a bc""#,
        ),
        (
            r#"-m comment --comment "a\\ b""#,
            r#"-m comment --comment "a\\ b""#,
        ),
        (r"-m comment --comment a\b", r"-m comment --comment a\b"),
        (
            r#"-m comment --comment "-h""#,
            r#"-m comment --comment "-h""#,
        ),
        ("-m comment --comment -h", "-m comment --comment -h"),
        ("-m comment --comment=-h", "-m comment --comment=-h"),
        (
            r#"-j LOG --log-prefix "-A x" -f"#,
            r#"-j LOG --log-prefix "-A x" -f"#,
        ),
        (
            "-m string --hex-string -|00| --algo bm",
            "-m string --hex-string -|00| --algo bm",
        ),
    ];
    for (text, expected) in cases {
        renders(text, expected);
    }
}

#[test]
fn the_spelling_is_a_fixed_point() {
    for text in [
        "--jump=x -m comment --comment \"a \\\"b\"",
        "-fj x",
        "-m comment --comment \"-h\"",
    ] {
        let rule = Rule::new(text).unwrap();
        assert_eq!(Rule::new(rule.as_str()).unwrap(), rule);
    }
}

#[test]
fn the_target_is_found_and_not_in_a_comment() {
    let cases = [
        ("-j web-a", Some("web-a")),
        ("--jump=web-a", Some("web-a")),
        ("-g web-a -m comment --comment x", Some("web-a")),
        ("-jweb-a", Some("web-a")),
        ("-fjweb-a", Some("web-a")),
        (r#"-m comment --comment "-j web-a""#, None),
        ("-m comment --comment -j", None),
        ("-m comment --comment=-jweb-a", None),
        ("-m comment --comment -jweb-b -j web-a", Some("web-a")),
        ("-p tcp", None),
    ];
    for (text, target) in cases {
        assert_eq!(Rule::new(text).unwrap().target(), target, "{text}");
    }
}

/// `--proto` is `-p` shortened, unless `-m policy` has an option of that whole name.
#[test]
fn an_option_of_a_loaded_extension_is_not_taken_for_a_core_option() {
    renders(
        "-m policy --dir in --pol ipsec --proto esp",
        "-m policy --dir in --pol ipsec --proto esp",
    );
    renders(
        "--proto esp -m policy --dir in --pol none",
        "-p esp -m policy --dir in --pol none",
    );
    for text in [
        "-m set --set x src",
        "-j CLUSTERIP --new --hashmode sourceip",
        "-m recent --set --name x",
        "-m connlabel --label x --set",
    ] {
        renders(text, text);
    }
    for text in [
        "--set 5 6",
        "-m comment --comment recent --set 5 6",
        "--pol ACCEPT",
        "-m mark --set 1",
    ] {
        assert!(
            matches!(refused(text), RuleError::ForbiddenOption { .. }),
            "{text}"
        );
    }
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

/// The forms of the list that we refuse though iptables takes them, and why.
const REFUSED_FORMS: &[(&str, &str)] = &[
    ("", "an empty rule is more likely a mistake than a wish"),
    (
        "-s localhost -j ACCEPT",
        "a host name may stand for several rules",
    ),
    ("-s 192.0.2.1,192.0.2.2 -j ACCEPT", "two rules"),
    (r#"-m comment --comment "" -j ACCEPT"#, "an empty value"),
    (
        "-m comment --comment \"tab\there\" -j ACCEPT",
        "a control character",
    ),
];

/// Those that iptables cuts short, by their beginnings.
const CUT_FORMS: &[&str] = &[
    r#"-m comment --comment "kkkkkkkkkkk"#,
    r#"-j LOG --log-prefix "pppppppppp"#,
    "-j NFLOG --nflog-prefix qqqqqqqqqq",
];

#[test]
fn every_form_in_which_rules_are_written_is_taken_but_those_named() {
    let forms: Vec<_> = include_str!("../tests/data/rule-forms.txt")
        .lines()
        .filter_map(|line| Some(line.split_once('\t')?.1))
        .collect();
    assert_eq!(forms.len(), 193);
    for form in &forms {
        let cut = CUT_FORMS.iter().any(|start| form.starts_with(start));
        match Rule::new(form) {
            Ok(_) => assert!(
                !cut && REFUSED_FORMS.iter().all(|(refused, _)| refused != form),
                "{form}"
            ),
            Err(RuleError::TextTooLong { .. }) if cut => {}
            Err(error) => assert!(
                REFUSED_FORMS.iter().any(|(refused, _)| refused == form),
                "{form}: {error}"
            ),
        }
    }
    let known = |form: &str| forms.iter().any(|known| known.starts_with(form));
    assert!(REFUSED_FORMS.iter().all(|(form, _)| known(form)));
    assert!(CUT_FORMS.iter().all(|form| known(form)));
}

#[test]
fn a_rule_is_small() {
    assert!(size_of::<Rule>() <= 24);
}

proptest! {
    #[test]
    fn any_text_is_a_rule_in_its_own_spelling_or_refused_in_clean_words(
        text in prop_oneof![any::<String>(), r#"(-[a-zA-Z0-9]{1,3}|--[a-z]{1,9}=?|!|[ "\\\t]|[a-z0-9]{1,4}| ){1,12}"#]
    ) {
        match Rule::new(&text) {
            Ok(rule) => {
                prop_assert!(!rule.as_str().contains(char::is_control));
                prop_assert_eq!(Rule::new(rule.as_str()), Ok(rule));
            }
            Err(error) => {
                let bad = BadRule { text: excerpt::short(&text), source: error };
                prop_assert!(!bad.to_string().contains(char::is_control), "{bad}");
            }
        }
    }
}
