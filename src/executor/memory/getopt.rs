//! Reads words as options, as `getopt_long` does: bundled letters, attached values, shortened names.

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Value,
    /// Only when attached: `-Xchain`, `--flush=chain`.
    Attached,
}

/// What comes next in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A core option, by its letter.
    Core(char, Option<String>),
    /// An option of the extension with that number in the list given, and the option's number.
    Extension(usize, usize, Option<String>),
    /// A word that is no option.
    Word(String),
    /// An option that nobody knows: the word, and what the message shows of it.
    Unknown { word: String, shown: String },
    /// An option whose value is missing, as written.
    NoValue(String),
}

const LETTERS: &[(char, Takes)] = {
    use Takes::{Attached, Nothing, Value};
    &[
        ('A', Value),
        ('C', Value),
        ('D', Value),
        ('E', Value),
        ('F', Attached),
        ('I', Value),
        ('L', Attached),
        ('M', Value),
        ('N', Value),
        ('P', Value),
        ('R', Value),
        ('S', Attached),
        ('V', Nothing),
        ('W', Attached),
        ('X', Attached),
        ('Z', Attached),
        ('4', Nothing),
        ('6', Nothing),
        ('c', Value),
        ('d', Value),
        ('f', Nothing),
        ('g', Value),
        ('h', Attached),
        ('i', Value),
        ('j', Value),
        ('m', Value),
        ('n', Nothing),
        ('o', Value),
        ('p', Value),
        ('s', Value),
        ('t', Value),
        ('v', Nothing),
        ('w', Attached),
        ('x', Nothing),
        ('0', Nothing),
    ]
};

const NAMES: &[(&str, char)] = &[
    ("append", 'A'),
    ("delete", 'D'),
    ("check", 'C'),
    ("insert", 'I'),
    ("replace", 'R'),
    ("list", 'L'),
    ("list-rules", 'S'),
    ("flush", 'F'),
    ("zero", 'Z'),
    ("new-chain", 'N'),
    ("delete-chain", 'X'),
    ("rename-chain", 'E'),
    ("policy", 'P'),
    ("source", 's'),
    ("destination", 'd'),
    ("src", 's'),
    ("dst", 'd'),
    ("protocol", 'p'),
    ("in-interface", 'i'),
    ("jump", 'j'),
    ("match", 'm'),
    ("numeric", 'n'),
    ("out-interface", 'o'),
    ("verbose", 'v'),
    ("wait", 'w'),
    ("wait-interval", 'W'),
    ("exact", 'x'),
    ("fragments", 'f'),
    ("version", 'V'),
    ("help", 'h'),
    ("line-numbers", '0'),
    ("modprobe", 'M'),
    ("set-counters", 'c'),
    ("goto", 'g'),
    ("ipv4", '4'),
    ("ipv6", '6'),
    ("table", 't'),
];

/// One long option of an extension that a line has loaded so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LongOption {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    /// Number of the extension.
    pub(super) extension: usize,
    /// Number of the option in it.
    pub(super) option: usize,
}

/// A line's words, read from left to right.
#[derive(Debug)]
pub(super) struct Words {
    rest: std::collections::VecDeque<String>,
    /// Letters of a bundle not read yet, and the bundle.
    bundle: Option<(String, String)>,
    /// The word read last and the one before: a message shows the latter when a bundle isn't read
    /// to its end.
    last: String,
    before: String,
}

impl Words {
    pub(super) fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self {
            rest: words.into_iter().collect(),
            bundle: None,
            last: String::new(),
            before: String::new(),
        }
    }

    /// Takes the next word if it looks like a value: neither an option nor `!`.
    pub(super) fn value(&mut self) -> Option<String> {
        if self.bundle.is_some() || self.rest.front()?.starts_with(['-', '!']) {
            return None;
        }
        self.any()
    }

    /// Takes the next word whatever it is.
    pub(super) fn any(&mut self) -> Option<String> {
        let word = self.rest.pop_front()?;
        self.before = std::mem::replace(&mut self.last, word.clone());
        Some(word)
    }

    /// The word read last.
    pub(super) fn last(&self) -> String {
        self.last.clone()
    }

    /// Puts a word back, to be read next.
    pub(super) fn again(&mut self, word: String) {
        self.rest.push_front(word);
    }

    /// The next item. With `open`, the options of an extension that isn't known here may follow: then
    /// a shortened name is never taken for a core option.
    pub(super) fn next(&mut self, extensions: &[LongOption], open: bool) -> Option<Item> {
        if let Some((rest, whole)) = self.bundle.take() {
            return Some(self.letter(&rest, whole));
        }
        let word = self.any()?;
        if let Some(long) = word.strip_prefix("--") {
            if long.is_empty() {
                return Some(Item::Word(word));
            }
            let long = long.to_owned();
            return Some(self.long(&word, &long, extensions, open));
        }
        match word.strip_prefix('-') {
            Some(letters) if !letters.is_empty() => {
                let letters = letters.to_owned();
                Some(self.letter(&letters, word))
            }
            _ => Some(Item::Word(word)),
        }
    }

    fn letter(&mut self, letters: &str, whole: String) -> Item {
        let mut chars = letters.chars();
        let letter = chars.next().unwrap_or('?');
        let rest = chars.as_str().to_owned();
        let Some((_, takes)) = LETTERS
            .iter()
            .find(|(known, _)| *known == letter && letter != '0')
        else {
            return Item::Unknown {
                word: whole.clone(),
                shown: if rest.is_empty() {
                    whole
                } else {
                    self.before.clone()
                },
            };
        };
        match takes {
            Takes::Nothing => {
                if !rest.is_empty() {
                    self.bundle = Some((rest, whole));
                }
                Item::Core(letter, None)
            }
            Takes::Attached => Item::Core(letter, (!rest.is_empty()).then_some(rest)),
            Takes::Value if !rest.is_empty() => Item::Core(letter, Some(rest)),
            Takes::Value => match self.any() {
                Some(value) => Item::Core(letter, Some(value)),
                None => Item::NoValue(format!("-{letter}")),
            },
        }
    }

    fn long(&mut self, word: &str, long: &str, extensions: &[LongOption], open: bool) -> Item {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        // Core options stand first in the tool's list, the extensions' after them.
        let core = |is: &dyn Fn(&str) -> bool| {
            NAMES
                .iter()
                .filter(|(n, _)| is(n))
                .map(|(_, l)| *l)
                .collect::<Vec<_>>()
        };
        let of_extension = |is: &dyn Fn(&str) -> bool| {
            // An extension loaded again stands before its older self.
            extensions
                .iter()
                .rev()
                .filter(|o| is(o.name))
                .copied()
                .collect::<Vec<_>>()
        };
        let exact = (core(&|n| n == name), of_extension(&|n| n == name));
        let found = if exact.0.is_empty() && exact.1.is_empty() {
            let mut short = (
                core(&|n| !open && n.starts_with(name)),
                of_extension(&|n| n.starts_with(name)),
            );
            short.0.dedup();
            short.1.dedup_by_key(|o| (o.extension, o.option));
            if short.0.len() + short.1.len() != 1 {
                return unknown(word);
            }
            short
        } else {
            exact
        };
        let takes = match (found.0.first(), found.1.first()) {
            (Some(letter), _) => LETTERS
                .iter()
                .find(|(known, _)| known == letter)
                .map_or(Takes::Nothing, |(_, takes)| *takes),
            (None, Some(option)) => option.takes,
            (None, None) => return unknown(word),
        };
        let value = match (takes, attached) {
            (Takes::Nothing, Some(_)) => return unknown(word),
            (Takes::Value, None) => match self.any() {
                Some(value) => Some(value),
                None => return Item::NoValue(word.to_owned()),
            },
            (_, attached) => attached,
        };
        match (found.0.first(), found.1.first()) {
            (Some(letter), _) => Item::Core(*letter, value),
            (None, Some(option)) => Item::Extension(option.extension, option.option, value),
            (None, None) => unknown(word),
        }
    }
}

fn unknown(word: &str) -> Item {
    Item::Unknown {
        word: word.to_owned(),
        shown: word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(line: &str, extensions: &[LongOption], open: bool) -> Vec<Item> {
        let mut words = Words::new(line.split(' ').map(str::to_owned));
        std::iter::from_fn(|| words.next(extensions, open)).collect()
    }

    #[test]
    fn letters_are_bundled_and_values_attached() {
        let expected = [
            Item::Core('f', None),
            Item::Core('j', Some("DROP".to_owned())),
            Item::Core('F', None),
            Item::Word("C1".to_owned()),
            Item::Core('F', Some("C1".to_owned())),
            Item::NoValue("-m".to_owned()),
        ];
        assert_eq!(items("-fj DROP -F C1 -FC1 -m", &[], false), expected);
    }

    #[test]
    fn long_names_are_shortened_where_that_says_enough() {
        let dport = LongOption {
            name: "dport",
            takes: Takes::Value,
            extension: 0,
            option: 1,
        };
        for (line, open, expected) in [
            ("--prot tcp", false, Item::Core('p', Some("tcp".to_owned()))),
            (
                "--jump=DROP",
                false,
                Item::Core('j', Some("DROP".to_owned())),
            ),
            (
                "--dpo 80",
                false,
                Item::Extension(0, 1, Some("80".to_owned())),
            ),
            ("--d", false, unknown("--d")),
            ("--set", false, Item::NoValue("--set".to_owned())),
            // Another extension's option may have this name.
            ("--set", true, unknown("--set")),
            ("--nosuch=1", false, unknown("--nosuch=1")),
        ] {
            assert_eq!(items(line, &[dport], open)[0], expected, "{line}");
        }
    }

    #[test]
    fn a_message_shows_the_word_before_an_unfinished_bundle() {
        let mut words = Words::new(["FOO", "-qj"].map(str::to_owned));
        words.any();
        let item = words.next(&[], false);
        let shown = "FOO".to_owned();
        let word = "-qj".to_owned();
        assert_eq!(item, Some(Item::Unknown { word, shown }));
    }
}
