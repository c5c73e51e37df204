//! Diffs and graphs of plans, on the simulated kernel.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::{
    Backend, Chain, Executor, IpVersion, IptablesUpdater, MemoryExecutor, Placement, Plan, Request,
    Table,
};

fn open(left: &str) -> IptablesUpdater<MemoryExecutor> {
    let mut executor = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    let input = format!("*filter\n{left}COMMIT\n");
    assert!(executor.restore(&input).unwrap().exit.is_success());
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    builder.open(executor).unwrap()
}

fn chain(name: &str, rules: &[&str]) -> Chain {
    Chain::new(name, rules).unwrap()
}

fn rewrite(name: &str, rules: &[&str]) -> Request {
    Request::rewrite([chain(name, rules)])
}

fn numbered(count: usize) -> Vec<String> {
    (1..=count)
        .map(|n| format!("-p tcp --dport {n} -j ACCEPT"))
        .collect()
}

#[test]
fn a_diff_has_hunks_with_three_rules_around_each_change() {
    let mut updater = open("");
    let mut rules = numbered(30);
    updater
        .rewrite_chains([Chain::new("web-a", &rules).unwrap()])
        .unwrap();
    rules[4] = "-j DROP".to_owned();
    rules.remove(20);
    let plan = updater.plan(&[Request::rewrite([Chain::new("web-a", &rules).unwrap()])]);
    let port = |n: usize| format!(" -A web-a -p tcp --dport {n} -j ACCEPT\n");
    let ports = |range: std::ops::RangeInclusive<usize>| range.map(port).collect::<String>();
    let expected = [
        "--- programmed\n+++ planned\n@@ -2,7 +2,7 @@ chain web-a\n",
        &ports(2..=4),
        "--A web-a -p tcp --dport 5 -j ACCEPT\n+-A web-a -j DROP\n",
        &ports(6..=8),
        "@@ -18,7 +18,6 @@ chain web-a\n",
        &ports(18..=20),
        "--A web-a -p tcp --dport 21 -j ACCEPT\n",
        &ports(22..=24),
    ];
    assert_eq!(plan.unwrap().diff().to_string(), expected.concat());
}

#[test]
fn a_diff_tells_what_becomes_of_a_chain() {
    let mut updater = open(":web-old - [0:0]\n-A web-old -j ACCEPT\n");
    updater
        .rewrite_chains([
            chain("web-in", &["-j web-a", "-j web-b"]),
            chain("web-a", &["-j ACCEPT"]),
            chain("web-gone", &["-j DROP"]),
            chain("web-same", &["-j DROP"]),
        ])
        .unwrap();
    let requests = [
        Request::delete(["web-a", "web-gone"]).unwrap(),
        rewrite("web-b", &[]),
        rewrite("web-c", &["-j web-d"]),
        rewrite("web-empty", &[]),
        rewrite("web-old", &["-j DROP"]),
        rewrite("web-same", &["-j DROP"]),
    ];
    let stub = |name| format!("-A {name} -m comment --comment \"missing chain {name}\" -j DROP");
    let expected = [
        "--- programmed\n+++ planned\n",
        "@@ -1 +1 @@ chain web-a, a stub from now on\n--A web-a -j ACCEPT\n",
        &format!("+{}\n", stub("web-a")),
        "@@ -1 +0,0 @@ chain web-b, no longer a stub\n",
        &format!("-{}\n", stub("web-b")),
        "@@ -0,0 +1 @@ chain web-c, new\n+-A web-c -j web-d\n",
        "@@ -0,0 +1 @@ chain web-d, new, a stub\n",
        &format!("+{}\n", stub("web-d")),
        "@@ -0,0 +0,0 @@ chain web-empty, new\n",
        "@@ -1 +0,0 @@ chain web-gone, deleted\n--A web-gone -j DROP\n",
        "@@ -0,0 +1 @@ chain web-old, left by a previous run, its old rules aren't known\n",
        "+-A web-old -j DROP\n",
    ];
    let plan = updater.plan(&requests).unwrap();
    assert_eq!(plan.diff().to_string(), expected.concat());
}

#[test]
fn a_diff_of_nothing_is_empty_and_colours_only_colour() {
    let mut updater = open("");
    updater
        .rewrite_chains([chain("web-a", &["-j DROP"])])
        .unwrap();
    let same = updater.plan(&[rewrite("web-a", &["-j DROP"])]).unwrap();
    assert!(same.diff().is_empty());
    assert_eq!(same.diff().coloured().to_string(), "");

    let plan = updater.plan(&[rewrite("web-a", &["-j ACCEPT"])]).unwrap();
    assert!(!plan.diff().is_empty());
    let coloured = plan.diff().coloured().to_string();
    assert!(
        coloured.contains("\x1b[31m--A web-a -j DROP\x1b[0m\n"),
        "{coloured:?}"
    );
    assert!(
        coloured.contains("\x1b[32m+-A web-a -j ACCEPT\x1b[0m\n"),
        "{coloured:?}"
    );
    let codes = ["\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[1m", "\x1b[0m"];
    let uncoloured = codes
        .iter()
        .fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(uncoloured, plan.diff().to_string());
}

/// One of everything: kinds of chains, of edges, and of what becomes of a chain.
fn plan_of_everything() -> Plan {
    let mut updater = open(":web-old - [0:0]\n:DOCKER-USER - [0:0]\n");
    updater
        .rewrite_chains([
            chain("web-in", &["-j web-a"]),
            chain("web-gone", &["-j DROP"]),
            chain("web-same", &["-j DROP"]),
        ])
        .unwrap();
    updater.ensure_rule_inserted("INPUT", "-j web-in").unwrap();
    updater.ensure_rule_removed("OUTPUT", "-j web-in").unwrap();
    let group = ["-g web-same"];
    updater
        .ensure_hooks("DOCKER-USER", group, Placement::Top)
        .unwrap();
    let rules = ["-p tcp -j web-a", "-j web-a", "-g web-same"];
    let input = chain("web-in", &rules).requires(["web-extra"]).unwrap();
    let requests = [
        Request::rewrite([input]),
        Request::delete(["web-gone"]).unwrap(),
    ];
    updater.plan(&requests).unwrap()
}

#[test]
fn a_graph_in_dot() {
    let expected = r##"digraph plan {
    rankdir=LR;
    node [shape=box, fontname="sans-serif"];
    n0 [label="web-a\nstub, 1 rule", style="filled,dashed", fillcolor="#ffffff", color="#e65100"];
    n1 [label="web-extra\nnew, stub, 1 rule", style="filled,dashed", fillcolor="#c8e6c9", color="#e65100"];
    n2 [label="web-gone\ndeleted", style="filled", fillcolor="#ffcdd2", color="#333333"];
    n3 [label="web-in\nchanged, 3 rules", style="filled", fillcolor="#fff3b0", color="#333333"];
    n4 [label="web-old\nrules not known", style="filled,dotted", fillcolor="#ffffff", color="#888888"];
    n5 [label="web-same\n1 rule", style="filled", fillcolor="#ffffff", color="#333333"];
    n6 [label="INPUT\nnot owned", style="filled,rounded", fillcolor="#ffffff", color="#888888"];
    n7 [label="DOCKER-USER\nnot owned", style="filled,rounded", fillcolor="#ffffff", color="#888888"];
    n3 -> n0;
    n3 -> n1 [label="requires", style=dashed];
    n3 -> n5 [label="goto", style=bold, arrowhead=empty];
    n6 -> n3;
    n7 -> n5 [label="goto", style=bold, arrowhead=empty];
}
"##;
    assert_eq!(plan_of_everything().graph().to_dot(), expected);
}

#[test]
fn a_graph_in_mermaid() {
    let expected = r#"flowchart LR
    n0["web-a<br/>stub, 1 rule"]
    n1["web-extra<br/>new, stub, 1 rule"]
    n2["web-gone<br/>deleted"]
    n3["web-in<br/>changed, 3 rules"]
    n4["web-old<br/>rules not known"]
    n5["web-same<br/>1 rule"]
    n6(["INPUT<br/>not owned"])
    n7(["DOCKER-USER<br/>not owned"])
    n3 --> n0
    n3 -.->|requires| n1
    n3 ==>|goto| n5
    n6 --> n3
    n7 ==>|goto| n5
    classDef new fill:#c8e6c9,color:#000000
    class n1 new
    classDef changed fill:#fff3b0,color:#000000
    class n3 changed
    classDef deleted fill:#ffcdd2,color:#000000
    class n2 deleted
    classDef stub stroke:#e65100,stroke-dasharray:5 5
    class n0,n1 stub
"#;
    assert_eq!(plan_of_everything().graph().to_mermaid(), expected);
}

/// Names with whatever Graphviz, Mermaid, Markdown or HTML could take for its own.
const HOSTILE: [&str; 5] = [
    r"web-\N\",
    "web-<b>&lt;",
    "web-];end#35;`x`",
    "web-{a|b}-->n0",
    "web-%%_*ä",
];

#[test]
fn hostile_names_stay_names() {
    let requests = HOSTILE.map(|name| rewrite(name, &["-j DROP"]));
    let graph = open("").plan(&requests).unwrap().graph();
    let (dot, mermaid) = (graph.to_dot(), graph.to_mermaid());
    for name in [
        r"web-\\N\\\nnew",
        r"web-<b>&amp;lt;\nnew",
        r"web-];end#35;`x`\nnew",
        r"web-{a|b}-->n0\nnew",
        r"web-%%_*ä\nnew",
    ] {
        assert!(
            dot.contains(&format!("label=\"{name}, 1 rule\"")),
            "{name}: {dot}"
        );
    }
    for name in [
        "web-#92;N#92;",
        "web-#60;b#62;#38;lt#59;",
        "web-#93;#59;end#35;35#59;#96;x#96;",
        "web-#123;a#124;b#125;--#62;n0",
        "web-#37;#37;#95;#42;ä",
    ] {
        let label = format!("[\"{name}<br/>new, 1 rule\"]\n");
        assert!(mermaid.contains(&label), "{name}: {mermaid}");
    }
}

#[test]
fn graphviz_draws_what_was_meant() {
    let mut requests = HOSTILE.map(|name| rewrite(name, &["-j DROP"])).to_vec();
    requests.push(rewrite(
        "web-in",
        &HOSTILE
            .map(|name| format!("-j {name}"))
            .each_ref()
            .map(String::as_str),
    ));
    let graph = open("").plan(&requests).unwrap().graph();
    let dot = Command::new("dot")
        .arg("-Tsvg")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut dot = match dot {
        Ok(dot) => dot,
        Err(error) => {
            // Around the test harness's capture, so that it is seen without --nocapture.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: graphviz_draws_what_was_meant: dot can't be run: {error}"
            );
            return;
        }
    };
    let mut input = dot.stdin.take().unwrap();
    input.write_all(graph.to_dot().as_bytes()).unwrap();
    drop(input);
    let output = dot.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !errors.contains("syntax"),
        "{errors}"
    );
    let svg = String::from_utf8(output.stdout).unwrap();
    let read = |text: &str| {
        let entities = [
            ("&#45;", "-"),
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&#39;", "'"),
            ("&quot;", "\""),
        ];
        let text = entities
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        text.replace("&amp;", "&")
    };
    let texts: Vec<String> = svg
        .split("</text>")
        .filter_map(|part| part.rsplit_once('>').map(|(_, text)| read(text)))
        .collect();
    for name in HOSTILE {
        assert!(
            texts.iter().any(|text| text == name),
            "{name} isn't in {texts:?}"
        );
    }
}
