//! Random texts, and real rules changed at random: what a careless or hostile caller might hand in.

use iptables_updater::Table;

/// `SplitMix64`: the same numbers for ever, whatever becomes of the crates that make random ones.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    fn of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

/// Words that mean something to iptables, most of them nothing good in a rule.
const WORDS: &[&str] = &[
    "\n-A own-base -j DROP",
    "\"\n-F own-base",
    "\n",
    "-h",
    "-V",
    "-4",
    "-6",
    "-t",
    "nat",
    "--table",
    "-A",
    "-D",
    "-I",
    "-R",
    "-X",
    "-F",
    "-Z",
    "-N",
    "-P",
    "-E",
    "-L",
    "-S",
    "-C",
    "-f",
    "-f6",
    "-f4",
    "-fh",
    "-c",
    "-v",
    "-n",
    "-x",
    "-w",
    "-W",
    "-M",
    "-0",
    "-1",
    "--",
    "-",
    "!",
    "!!",
    "1",
    "2",
    "99",
    "0",
    "--jum",
    "--jump",
    "--j",
    "--ver",
    "--ipv",
    "--ipv6",
    "--he",
    "--mod",
    "--modprobe=/bin/true",
    "--set",
    "--set-counters",
    "--pol",
    "--proto",
    "--prot",
    "--line",
    "--dest",
    "--sou",
    "--in",
    "--goto",
    "--g",
    "--m",
    "--wait",
    "--exact",
    "--zero",
    "--flush",
    "-jACCEPT",
    "-gBAR",
    "--jump=ACCEPT",
    "--goto=BAR",
    "-j",
    "-g",
    "-m",
    "-p",
    "-s",
    "-d",
    "-i",
    "-o",
    "ACCEPT",
    "DROP",
    "RETURN",
    "BAR",
    "own-base",
    "INPUT",
    "NOSUCH",
    "LOG",
    "comment",
    "--comment",
    "tcp",
    "-ptcp",
    "-mcomment",
    "--comment=x",
    "--comment=",
    "\"\"",
    "\"",
    "\"a b\"",
    "\"-h\"",
    "\"-A x\"",
    "\\",
    "\\\"",
    "'",
    "'a",
    "b'",
    "#",
    "COMMIT",
    "*filter",
    "*nat",
    ":own-x",
    "[0:0]",
    "[1:2]",
    ",",
    "=",
    "--=",
    "-=",
    "0/0",
    "::/0",
    "10.0.0.0/8",
    "2001:db8::/32",
    "localhost",
    "1.2.3.4,5.6.7.8",
    "+",
    "lo",
    "\u{a0}",
    "ü",
    "😀",
    "\u{2028}",
    "../x",
    "standard",
    "%n%s",
    "$x",
    "`id`",
];

const CHARACTERS: &[char] = &[
    '"', '\\', '\'', '\0', '\n', '\r', '\t', ' ', '!', '-', '=', ',', '/', ':', '#', '*', '[',
    '\u{1}', '\u{b}', '\u{c}', '\u{1b}', '\u{7f}', '\u{85}', 'ä', '6', 'h', 'V',
];

/// Bytes read as text, or a line of what iptables finds meaning in.
pub fn random_text(random: &mut Random) -> String {
    match random.below(4) {
        0 => {
            let length = random.below(60);
            let bytes: Vec<u8> = (0..length)
                .map(|_| random.next().to_le_bytes()[0])
                .collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        1 => {
            let length = random.below(30);
            let printable =
                |random: &mut Random| char::from(b' ' + random.next().to_le_bytes()[0] % 95);
            "-".to_owned() + &(0..length).map(|_| printable(random)).collect::<String>()
        }
        2 => {
            let length = random.below(16);
            (0..length)
                .map(|_| CHARACTERS[random.below(CHARACTERS.len())])
                .collect()
        }
        _ => {
            let length = 1 + random.below(7);
            let words: Vec<_> = (0..length).map(|_| random.of(WORDS)).collect();
            words.join(" ")
        }
    }
}

/// One of the forms with one to three changes.
pub fn mutated(random: &mut Random, forms: &[(Table, String)]) -> (Table, String) {
    let (table, form) = &forms[random.below(forms.len())];
    let mut text = form.clone();
    for _ in 0..=random.below(3) {
        text = change(random, &text, forms);
    }
    (*table, text)
}

fn change(random: &mut Random, text: &str, forms: &[(Table, String)]) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let at = random.below(words.len());
    let other = random.below(words.len());
    match random.below(16) {
        0 => words.swap(at, other),
        1 => {
            words.remove(at);
        }
        2 => words.insert(other, words[at].clone()),
        3..=5 => words.insert(at, random.of(WORDS).to_owned()),
        6 => random.of(WORDS).clone_into(&mut words[at]),
        7 | 8 => {
            let places: Vec<_> = text
                .char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .collect();
            let mut text = text.to_owned();
            text.insert(
                places[random.below(places.len())],
                CHARACTERS[random.below(CHARACTERS.len())],
            );
            return text;
        }
        // An option and its value in one word: `-jACCEPT`, `--jump=ACCEPT`, and bundles of letters.
        9 if at + 1 < words.len() => {
            let next = words.remove(at + 1);
            let long = words[at].starts_with("--");
            words[at] = format!(
                "{}{}{}",
                words[at],
                if long { "=" } else { "" },
                next.trim_start_matches('-')
            );
        }
        10 => {
            let keep = 3 + random.below(6);
            if words[at].starts_with("--") && words[at].is_char_boundary(keep.min(words[at].len()))
            {
                words[at].truncate(keep);
            }
        }
        11 => words[at] = words[at].repeat(1 + random.below(3) * random.below(200)),
        12 => words.insert(other, format!("\"{}\"", words[at].replace('"', ""))),
        13 => words[at] = format!("\"{}\"", words[at].replace('"', "")),
        14 => words.insert(0, random.below(4).to_string()),
        _ => {
            let (_, tail) = &forms[random.below(forms.len())];
            words.truncate(at);
            words.extend(tail.split(' ').skip(random.below(4)).map(str::to_owned));
        }
    }
    words.join(" ")
}
