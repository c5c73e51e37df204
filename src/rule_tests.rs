//! Rules: what is taken, and in which spelling.

use super::*;
use proptest::prelude::*;

#[track_caller]
fn renders(text: &str, expected: &str) {
    assert_eq!(Rule::new(text).unwrap().as_str(), expected);
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
        ("-m comment --comment -h", r#"-m comment --comment "-h""#),
        (
            r#""-m" "comment" "--comment" "x""#,
            "-m comment --comment x",
        ),
        ("-m comment --comment=-h", "-m comment --comment=-h"),
        (
            r#"-j LOG --log-prefix "-A x" -f"#,
            r#"-j LOG --log-prefix "-A x" -f"#,
        ),
        (
            "-m string --hex-string -|00| --algo bm",
            r#"-m string --hex-string "-|00|" --algo bm"#,
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
            matches!(Rule::new(text), Err(RuleError::ForbiddenOption { .. })),
            "{text}"
        );
    }
}

#[test]
fn no_option_of_an_extension_is_refused_or_taken_for_a_core_one() {
    let mut checked = 0;
    for line in include_str!("../tests/data/extension-options.txt").lines() {
        let mut words = line.split(' ');
        let extension = words.next().unwrap_or_default();
        let load = if extension.starts_with(char::is_uppercase) {
            "-j"
        } else {
            "-m"
        };
        for name in words.filter(|_| extension != "#") {
            let text = format!("{load} {extension} --{name} x");
            renders(&text, &text);
            checked += 1;
        }
    }
    assert!(checked > 300, "{checked}");
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
