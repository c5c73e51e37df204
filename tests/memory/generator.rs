//! Random restore inputs: good ones, almost good ones, and hostile ones.

use std::fmt::Write as _;

use iptables_updater::{IpVersion, MemoryExecutor, Table};

/// The numbers of `SplitMix64`: the same inputs for the same seed, everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).expect("a small number")
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Writes inputs for a table whose present state it may look at.
pub struct Generator<'a> {
    pub random: Random,
    pub version: IpVersion,
    pub now: &'a MemoryExecutor,
}

const OWN: [&str; 5] = ["C1", "C2", "C3", "own-chain", "z"];

const HOSTILE_NAMES: [&str; 18] = [
    "ACCEPT",
    "DROP",
    "LOG",
    "-x",
    "!x",
    "accept",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "a\"b",
    "PREROUTING",
    "INPUT",
    "1",
    "#c",
    "*c",
    ":c",
    "[1:2]",
    "ünï",
    "a=b",
];

const MATCHES: [&str; 42] = [
    "-p tcp --dport 80",
    "-p tcp -m tcp --dport 80",
    "-p tcp --dport 80:90 --sport 1024:",
    "-p tcp ! --dport 22",
    "-p tcp --syn",
    "-p tcp -m tcp ! --tcp-flags SYN,ACK SYN",
    "-p udp --dport domain",
    "-p udp -m udp --sport 53",
    "-p TCP",
    "-p 17",
    "-p all",
    "! -p tcp",
    "-p icmp",
    "-p ipv6-icmp",
    "-i eth0",
    "-i eth+",
    "! -i lo",
    "-o eth1",
    "! -o eth+",
    "-i +",
    "-m comment --comment plain",
    "-m comment --comment \"two words\"",
    "-m comment --comment \"it's \\\"quoted\\\" \\\\ here\"",
    "-m comment --comment \"-j DROP\"",
    "-m comment --comment \"\"",
    "-m comment --comment ünï;code",
    "-m state --state ESTABLISHED,NEW",
    "-m conntrack --ctstate ESTABLISHED,RELATED",
    "-m conntrack ! --ctstate INVALID",
    "-m mark --mark 0x1",
    "-m mark ! --mark 2/0xff",
    "-m limit --limit 5/m",
    "-m limit --limit 10/sec --limit-burst 7",
    "-p tcp -m multiport --dports http,https",
    "-p udp -m multiport ! --sports 1:3,9",
    "-p tcp -m multiport --ports 5 -m comment --comment x",
    "-m set --match-set okset src",
    "-m set ! --match-set okset dst,src",
    "-m comment --comment a -p tcp --dport 1",
    "--protocol tcp --destination-port 443",
    "--prot udp",
    "-p tcp -m comment --comment c --dport 7",
];

const TARGETS: [&str; 30] = [
    "-j ACCEPT",
    "-j ACCEPT",
    "-j DROP",
    "-j RETURN",
    "-j RETURN",
    "--jump ACCEPT",
    "",
    "-j LOG",
    "-j LOG --log-prefix \"seen: \" --log-level info",
    "-j LOG --log-level 4 --log-uid",
    "-j NFLOG",
    "-j NFLOG --nflog-group 3 --nflog-prefix \"a b\"",
    "-j REJECT",
    "-j REJECT --reject-with tcp-reset",
    "-p tcp -j REJECT --reject-with tcp-reset",
    "-j MARK --set-mark 1",
    "-j MARK --set-xmark 0x4000/0x4000",
    "-j MARK --or-mark 0x10",
    "-j MARK --and-mark 0xff",
    "-j MASQUERADE",
    "-j MASQUERADE --random-fully",
    "-p tcp -j MASQUERADE --to-ports 100-200",
    "-j SNAT --to-source ADDRESS",
    "-j DNAT --to ADDRESS",
    "-p tcp -j DNAT --to-destination ADDRESS",
    "-p tcp -j REDIRECT --to-port 8080",
    "-p udp --dport 53 -j REDIRECT --to-ports 53",
    "-j ACCEPT -m comment --comment late",
    "-j QUEUE",
    "-j NFQUEUE --queue-num 3",
];

const HOSTILE: [&str; 79] = [
    "-i a/b",
    "-o \"a b\" -m nosuch",
    "-p ah -j ACCEPT",
    "-p ipv6-route",
    "-p esp -p ah",
    "--in-interface=eth0",
    "-ptcp -ieth0",
    "-jACCEPT",
    "--jump=DROP",
    "-gC1",
    "--goto=C1",
    "-s192.0.2.1",
    "--destination=2001:db8::1",
    "-mcomment --comment=x",
    "--match=mark --mark=1",
    "-j",
    "-j \"\"",
    "-g ACCEPT",
    "-g REJECT",
    "-j nosuch",
    "-g nosuch",
    "-j ACCEPT -j DROP",
    "-j ACCEPT extra",
    "extra -j ACCEPT",
    "! -j ACCEPT",
    "! ! -i lo",
    "-i lo !",
    "-m",
    "-m nosuch",
    "! -m comment --comment x",
    "-m comment",
    "-m comment --comment",
    "-m comment --comment a --comment b",
    "--comment x",
    "--dport 80",
    "-m tcp --dport 80 -j ACCEPT",
    "-p udp -m tcp --dport 80",
    "-p tcp --dport 99999",
    "-p tcp --dport nosuchservice",
    "-p tcp --dport 9:1",
    "-p tcp --dport 1,2",
    "-p tcp --dport 1 --dport 2",
    "-p nosuch",
    "-p 300",
    "-p tcp -p udp",
    "! -p all",
    "-m multiport --dports 1",
    "-p tcp -m multiport --dports 1,70000",
    "-p tcp -m multiport --dports 1 --sports 2",
    "-p tcp -m multiport",
    "-m state --state NOSUCH",
    "-m state",
    "-m conntrack",
    "-m conntrack --ctstate NOSUCH",
    "-m mark --mark zz",
    "-m mark",
    "-m limit --limit 5/fortnight",
    "-m limit --limit 100000/second",
    "-m limit ! --limit 1/s",
    "-m limit --limit 1/s --limit-burst 100000",
    "-m set --match-set nosuch src",
    "-m set --match-set okset",
    "-m set --match-set okset sideways",
    "-i \"\"",
    "-i eeeeeeeeeeeeeeee",
    "-i lo -i lo",
    "-s nosuch.invalid",
    "-s \"\"",
    "-q",
    "--nosuch",
    "--nosuch=1 -j ACCEPT",
    "-j LOG --log-level 9",
    "-j LOG --log-prefix \"\"",
    "-j REJECT --reject-with nosuch",
    "-j MARK",
    "-j MARK --set-mark 1 --set-mark 2",
    "-j DNAT",
    "-j REDIRECT --to-ports 80",
    "-j MASQUERADE --nosuch",
];

const HOSTILE_LINES: [&str; 61] = [
    "-A C1 -m comment --comment \"open -j ACCEPT",
    "-A C1 -m comment --comment a\"b -j ACCEPT",
    "-A C1 -m comment --comment \"a\\\" -j ACCEPT",
    "-A C1 -m comment --comment 'a b' -j ACCEPT",
    "-A C1 -m comment --comment \"a\"\"b\" -j ACCEPT",
    "-A C1 -j ACCEPT\r",
    "-A C1 -m comment --comment x\r",
    "-A C1 -j ACC\0EPT",
    "\0-A C1 -j ACCEPT",
    "-A C1 -n -j ACCEPT",
    "-X C1 -j ACCEPT",
    "-F C1 C2",
    "-FC1",
    "--flush=C1",
    "-A C1 -fj ACCEPT",
    "hello world",
    "  # indented",
    "   ",
    "",
    "# comment",
    " :C1 - [0:0]",
    ":",
    ":C1",
    ":C2\t-\t[0:0]",
    ": C3 -",
    ":C3 ACCEPT [0:0]",
    ":INPUT REJECT [0:0]",
    ":OUTPUT drop",
    ":PREROUTING ACCEPT [0:0]",
    "-t nat -A C1 -j ACCEPT",
    "-w -A C1 -j ACCEPT",
    "-4 -A C1 -j ACCEPT",
    "-6 -A C1 -j ACCEPT",
    "-A C1 -6 -j ACCEPT",
    "-h",
    "-V",
    "-A",
    "-D C1",
    "-D C1 0",
    "-D C1 -1",
    "-D C1 abc",
    "-D C1 1 -j ACCEPT",
    "-I C1 0 -j ACCEPT",
    "-R C1 -j ACCEPT",
    "-R C1 0 -j ACCEPT",
    "-A C1 -I C2 -j ACCEPT",
    "-X C1 C2",
    "-E C1",
    "-P INPUT REJECT",
    "-P C1 DROP",
    "-P INPUT",
    "-N ACCEPT",
    "-N LOG",
    "-N -x",
    "-F nosuch",
    "-X nosuch",
    "-Z nosuch",
    "[5:600 -A C1 -j ACCEPT",
    "[a:b] -A C1 -j ACCEPT",
    "*filter",
    "-A C1 -c 5 -j ACCEPT",
];

impl Generator<'_> {
    /// One restore input, of one block or more.
    pub fn input(&mut self) -> String {
        let mut input = String::new();
        if self.random.chance(3) {
            input.push_str("# Generated by a test\n\n");
        }
        let blocks = if self.random.chance(90) { 1 } else { 2 };
        for _ in 0..blocks {
            let table = self.table();
            self.block(table, &mut input);
        }
        match self.random.below(150) {
            0 => input.push_str("COMMIT\n"),
            1 => input.push_str("-A C1 -j ACCEPT\n"),
            2 => {
                input.pop();
            }
            3 => {
                let lines = input.lines().count();
                input = input.lines().take(lines - 1).collect::<Vec<_>>().join("\n") + "\n";
            }
            4 => input.insert_str(0, "*nosuch\nCOMMIT\n"),
            _ => {}
        }
        input
    }

    fn table(&mut self) -> Table {
        match self.random.below(20) {
            0..=12 => Table::Filter,
            13..=16 => Table::Nat,
            17..=18 => Table::Mangle,
            _ => Table::Raw,
        }
    }

    fn block(&mut self, table: Table, input: &mut String) {
        let start = input.len();
        let _ = writeln!(input, "*{table}");
        // Chains that a block declares are there for its later lines.
        let mut declared = Vec::new();
        if self.random.chance(4) {
            self.ladder(table, input);
        }
        if self.random.chance(55) {
            for name in OWN {
                if self.random.chance(45) {
                    let _ = writeln!(input, ":{name} - [0:0]");
                    declared.push(name.to_owned());
                }
            }
        }
        let hostile = if self.random.chance(50) { 0 } else { 12 };
        // Most lines that would be refused are left out, so that the tables fill.
        let prudent = [97, 85, 0][self.random.below(3)];
        for _ in 0..self.random.below(12) {
            let touched = input[start..].to_owned();
            let line = if self.random.chance(hostile) {
                self.hostile_line()
            } else {
                self.command(table, &mut declared, hostile)
            };
            // iptables-nft uses freed memory when a block replaces a rule that it has itself written.
            let replaces = line
                .strip_prefix("-R ")
                .and_then(|rest| rest.split(' ').next());
            if replaces.is_some_and(|chain| touched.contains(chain)) {
                continue;
            }
            let before = input.len();
            let _ = writeln!(input, "{line}");
            if self.random.chance(prudent) && !self.accepted(input) {
                input.truncate(before);
            }
        }
        input.push_str("COMMIT\n");
    }

    /// Whether the simulated kernel would take the input if it ended here; it is as before then.
    fn accepted(&self, input: &str) -> bool {
        self.now.as_other_program(|other| {
            let saved = Table::ALL.map(|table| other.save(table));
            let outcome = other.restore(&format!("{input}COMMIT\n"));
            for saved in &saved {
                other.put_back(saved);
            }
            outcome.exit.is_success()
        })
    }

    fn hostile_line(&mut self) -> String {
        if self.random.chance(88) {
            return self.random.of(&HOSTILE_LINES).to_owned();
        }
        let long = [254, 255, 256, 1_022, 1_023, 1_024][self.random.below(6)];
        match self.random.below(5) {
            0 => format!("-A C1 -m comment --comment {} -j ACCEPT", "k".repeat(long)),
            1 => {
                let words = 40 + self.random.below(4);
                format!("-A C1 {}-j ACCEPT", "-m comment --comment x ".repeat(words))
                    + &" -m".repeat(words)
            }
            2 => {
                let words = 122 + self.random.below(4);
                format!("-A C1 {}-j ACCEPT", "-m mark ".repeat(words))
            }
            3 => {
                let blanks = 10_210 + self.random.below(40);
                format!("-A C1 {}-j RETURN", " ".repeat(blanks))
            }
            _ => format!(
                "-A C1 -j LOG --log-prefix {}",
                "p".repeat(26 + self.random.below(6))
            ),
        }
    }

    /// Chains nested about as deep as nf_tables allows.
    fn ladder(&mut self, table: Table, input: &mut String) {
        let depth = 13 + self.random.below(5);
        for step in 0..depth {
            let _ = writeln!(input, ":L{step} - [0:0]");
        }
        for step in 1..depth {
            let go = self.random.of(&["-j", "-g"]);
            let _ = writeln!(input, "-A L{} {go} L{step}", step - 1);
        }
        let chain = self.chain(table, &[]);
        let _ = writeln!(input, "-A {chain} -j L{}", self.random.below(3));
    }

    /// A chain that is there, most of the time.
    fn chain(&mut self, table: Table, declared: &[String]) -> String {
        if self.random.chance(2) {
            return self.random.of(&HOSTILE_NAMES).to_owned();
        }
        if self.random.chance(4) {
            return self.random.of(&OWN).to_owned();
        }
        let mut names = self.now.chains(table);
        names.extend_from_slice(declared);
        names.extend_from_slice(declared);
        names[self.random.below(names.len())].clone()
    }

    fn own_chain(&mut self, table: Table, declared: &[String]) -> String {
        for _ in 0..4 {
            let name = self.chain(table, declared);
            if !name.bytes().all(|b| b.is_ascii_uppercase()) {
                return name;
            }
        }
        self.random.of(&OWN).to_owned()
    }

    fn command(&mut self, table: Table, declared: &mut Vec<String>, hostile: usize) -> String {
        let chain = self.chain(table, declared);
        match self.random.below(100) {
            0..=44 => {
                let counters = if self.random.chance(3) {
                    "[5:600] "
                } else {
                    ""
                };
                let verb = self.random.of(&["-A", "-A", "-A", "-A", "--append"]);
                format!(
                    "{counters}{verb} {chain} {}",
                    self.rule(table, declared, hostile)
                )
            }
            45..=56 => {
                let number = match self.random.below(4) {
                    0 => String::new(),
                    _ => format!("{} ", 1 + self.random.below(4)),
                };
                format!("-I {chain} {number}{}", self.rule(table, declared, hostile))
            }
            57..=69 => {
                let verb = self.random.of(&["-D", "-D", "-D", "-C", "--delete"]);
                let rules = self.now.rules(table, &chain).unwrap_or_default();
                if !rules.is_empty() && self.random.chance(80) {
                    let at = self.random.below(rules.len());
                    return format!("{verb} {chain} {}", rules[at]);
                }
                format!("{verb} {chain} {}", self.rule(table, declared, hostile))
            }
            70..=73 => format!("-D {chain} {}", 1 + self.random.below(3)),
            74..=78 => {
                let number = 1 + self.random.below(3);
                format!(
                    "-R {chain} {number} {}",
                    self.rule(table, declared, hostile)
                )
            }
            79..=82 => format!("-F {chain}"),
            83 => self.random.of(&["-F", "-X", "-Z"]).to_owned(),
            84..=89 => format!("-X {}", self.own_chain(table, declared)),
            90..=92 => {
                let name = self.own_chain(table, declared);
                declared.push(name.clone());
                format!("-N {name}")
            }
            93 => format!("-Z {chain}"),
            94..=95 => {
                let from = self.own_chain(table, declared);
                format!("-E {from} renamed{}", self.random.below(3))
            }
            96 => {
                let policy = self.random.of(&["ACCEPT", "DROP"]);
                format!("-P {chain} {policy}")
            }
            97 => {
                let policy = self.random.of(&["ACCEPT", "DROP", "-"]);
                format!(":{chain} {policy} [0:0]")
            }
            _ => {
                let name = self.chain(table, declared);
                declared.push(name.clone());
                format!(":{name} - [0:0]")
            }
        }
    }

    fn addresses(&mut self) -> String {
        let first = self.address().to_owned();
        if self.random.chance(5) {
            return format!("{first},{}", self.address());
        }
        first
    }

    fn address(&mut self) -> &'static str {
        match self.version {
            IpVersion::V4 => self.random.of(&[
                "192.0.2.1",
                "192.0.2.1/32",
                "10.1.2.3/8",
                "198.51.100.0/255.255.255.0",
                "0.0.0.0/0",
                "203.0.113.7/25",
            ]),
            IpVersion::V6 => self.random.of(&[
                "2001:db8::1",
                "2001:DB8:0::5/64",
                "::/0",
                "fe80::/10",
                "2001:db8::2/128",
            ]),
        }
    }

    fn rule(&mut self, table: Table, declared: &[String], hostile: usize) -> String {
        let mut parts = Vec::new();
        for option in ["-s", "-d"] {
            if self.random.chance(15) {
                let not = if self.random.chance(15) { "! " } else { "" };
                parts.push(format!("{not}{option} {}", self.addresses()));
            }
        }
        if self.random.chance(50) {
            parts.push(self.random.of(&MATCHES).to_owned());
        }
        if self.random.chance(hostile) {
            parts.push(self.random.of(&HOSTILE).to_owned());
        } else if self.random.chance(45) {
            let go = self.random.of(&["-j", "-j", "-j", "-g", "--goto"]);
            parts.push(format!("{go} {}", self.own_chain(table, declared)));
        } else {
            let address = match self.version {
                IpVersion::V4 => "192.0.2.9",
                IpVersion::V6 => "2001:db8::9",
            };
            let target = if self.random.chance(75) {
                let simple = 7;
                match TARGETS[self.random.below(simple)] {
                    "-j DROP" if table == Table::Nat => "-j RETURN",
                    target => target,
                }
            } else {
                self.random.of(&TARGETS)
            };
            parts.push(target.replace("ADDRESS", address));
        }
        if self.random.chance(20) {
            parts.reverse();
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" ")
    }
}
