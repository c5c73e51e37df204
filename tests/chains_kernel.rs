//! The names that are accepted for chains work on the real kernel, and no prefix owns a target of the tool.

mod common;

use common::{KERNELS, each_kernel, some_kernels};
use iptables_updater::{ChainName, PrefixError, Prefixes, Rule, Table};

#[test]
fn chain_names_that_we_take_work_on_both_back_ends() {
    let names = [
        "a",
        "1",
        "123",
        "_x",
        "~x",
        "a-b",
        "a!b",
        "*foo",
        ":a",
        ":",
        "a:b",
        "a,b",
        "a%d",
        "%n%s",
        "a/b",
        "../x",
        "a\\b",
        "\\",
        "[1:2]",
        "[0:0]",
        "a[0]",
        "#foo",
        "a@b",
        "a+b",
        "+",
        "a.b",
        "$x",
        "a;b",
        "a|b",
        "a(b)",
        "a&b",
        "a<b",
        "a=b",
        "=",
        "chaîne",
        "c😀",
        "accept",
        "CONTINUE",
        "COMMIT",
        "INPUT2",
        "REJECT2",
        "input",
        "cccccccccccccccccccccccccccc",
        "ääääääääääääää",
        "`id`",
        "{a}",
        "\u{200b}",
        "\u{301}a",
    ];
    each_kernel(
        "chain_names_that_we_take_work_on_both_back_ends",
        |kernel| {
            for name in names {
                let name = ChainName::new(name).expect(name);
                let jump = Rule::from_words(["-j", name.as_str()]).expect("a jump");
                assert_eq!(jump.target(), Some(name.as_str()));
                kernel.must_restore(&format!("*filter\n:{name} - [0:0]\n:own - [0:0]\n-A {name} -j RETURN\n-A own {jump}\nCOMMIT\n"));
                kernel.must_restore(&format!(
                    "*filter\n-I {name} -p tcp\n-D {name} -j RETURN\nCOMMIT\n"
                ));
                let saved = kernel.save(Table::Filter);
                assert!(
                    saved.contains(&format!("\n:{name} - [0:0]\n")),
                    "{kernel:?}: {name:?}\n{saved}"
                );
                let rules = |chain: &str| kernel.rules(Table::Filter, chain).expect("a chain");
                assert_eq!(rules(name.as_str()), ["-p tcp"], "{kernel:?}: {name:?}");
                assert_eq!(rules("own"), [jump.as_str()], "{kernel:?}: {name:?}");
                kernel.must_restore(&format!(
                    "*filter\n:own - [0:0]\n:{name} - [0:0]\n-X {name}\n-X own\nCOMMIT\n"
                ));
            }
        },
    );
}

/// A prefix that owned a target of the tool would make a chain of every jump to it.
#[test]
fn no_target_of_the_tool_can_be_owned() {
    some_kernels("no_target_of_the_tool_can_be_owned", &KERNELS[..1], |_| {
        let libraries = ["/usr/lib", "/usr/lib64", "/lib"]
            .into_iter()
            .filter_map(|path| std::fs::read_dir(path).ok());
        let mut directories: Vec<_> = libraries
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        directories.extend(directories.clone().iter().map(|path| path.join("xtables")));
        let mut targets = Vec::new();
        for file in directories
            .iter()
            .filter_map(|path| std::fs::read_dir(path).ok())
            .flatten()
            .flatten()
        {
            let name = file.file_name().to_string_lossy().into_owned();
            let target = ["libxt_", "libipt_", "libip6t_"]
                .iter()
                .find_map(|start| name.strip_prefix(start));
            // libxt_NAT.so holds DNAT, SNAT and the like.
            if let Some(target) = target.and_then(|name| name.strip_suffix(".so"))
                && target.starts_with(|c: char| c.is_ascii_uppercase())
                && target != "NAT"
            {
                targets.push(target.to_owned());
            }
        }
        assert!(targets.len() > 20, "{targets:?}");
        for target in targets {
            let error = Prefixes::new([&target]).expect_err(&target);
            assert!(matches!(error, PrefixError::Target { .. }), "{error}");
        }
    });
}
