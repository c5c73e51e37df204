//! How iptables reads the words of a rule as options, and which of them have no place in a rule.
//!
//! iptables parses rules with `getopt_long`: one-letter options may be bundled (`-f4` is `-f -4`) and
//! carry their value attached (`-jDROP`), long ones may be shortened (`--jum`) and joined by `=`. What
//! comes out here is plain: the core options by their letter with the value apart, everything else as
//! it was written. Whether an option of an extension takes a value isn't known here, so a word that
//! follows one and looks like an option is read as an option: what is refused then is refused rightly
//! or, at worst, has to be written as `--option=value`.

use crate::error::RuleError;
use crate::excerpt;
use crate::words::Word;

/// One piece of a rule, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A core option with its value: the letter is one of `psdiojgm`.
    Core(char, &'a str),
    /// Any other word, to be written as it is.
    Word { text: &'a str, quoted: bool },
}

/// Core options that take a value, by letter and by long names.
const CORE: &[(char, &[&str])] = &[
    ('p', &["protocol"]),
    ('s', &["source", "src"]),
    ('d', &["destination", "dst"]),
    ('i', &["in-interface"]),
    ('o', &["out-interface"]),
    ('j', &["jump"]),
    ('g', &["goto"]),
    ('m', &["match"]),
];

/// Long options that make a line another command, table or IP version, or that end its parsing.
const FORBIDDEN: &[&str] = &[
    "append",
    "check",
    "delete",
    "delete-chain",
    "exact",
    "flush",
    "help",
    "insert",
    "ipv4",
    "ipv6",
    "line-numbers",
    "list",
    "list-rules",
    "modprobe",
    "new-chain",
    "numeric",
    "policy",
    "rename-chain",
    "replace",
    "set-counters",
    "table",
    "verbose",
    "version",
    "wait",
    "wait-interval",
    "zero",
];

/// Extensions with an option whose whole name is a beginning of one of the names above: where the
/// extension is loaded, getopt takes the name for its option, otherwise for the core one.
const OF_EXTENSIONS: &[(&str, &str)] = &[
    ("CLUSTERIP", "new"),
    ("connlabel", "set"),
    ("policy", "pol"),
    ("policy", "proto"),
    ("recent", "set"),
    ("set", "set"),
];

/// Options of extensions with free text as their value, and how many bytes of it iptables keeps:
/// the rest is cut off silently. Measured on 1.8.9 where this kernel has the extension (`nflog-prefix`
/// on legacy; nf_tables keeps 127); the size of the kernel's field otherwise.
const TEXT: &[(&str, &str, usize)] = &[
    ("CT", "helper", 15),
    ("CT", "timeout", 31),
    ("IDLETIMER", "label", 27),
    ("LOG", "log-prefix", 29),
    ("NFLOG", "nflog-prefix", 63),
    ("RATEEST", "rateest-name", 15),
    ("SECMARK", "selctx", 255),
    ("TEE", "oif", 15),
    ("ULOG", "ulog-prefix", 31),
    ("bpf", "object-pinned", 511),
    ("cgroup", "path", 511),
    ("comment", "comment", 255),
    ("hashlimit", "hashlimit-name", 254),
    ("helper", "helper", 29),
    ("nfacct", "nfacct-name", 31),
    ("osf", "genre", 31),
    ("rateest", "rateest", 15),
    ("rateest", "rateest1", 15),
    ("rateest", "rateest2", 15),
    ("recent", "name", 199),
    ("string", "algo", 15),
    ("string", "hex-string", usize::MAX),
    ("string", "string", usize::MAX),
];

/// Options of extensions whose value is a name that iptables-save prints without quotes, whatever it holds: with a blank
/// in it, the line reads as another rule, for this library as for iptables-restore. So do `-i` and `-o`.
const PRINTED_BARE: &[(&str, &str)] = &[
    ("SET", "add-set"),
    ("SET", "del-set"),
    ("SET", "map-set"),
    ("hashlimit", "hashlimit-name"),
    ("physdev", "physdev-in"),
    ("physdev", "physdev-out"),
    ("rateest", "rateest"),
    ("rateest", "rateest1"),
    ("rateest", "rateest2"),
    ("recent", "name"),
    ("set", "match-set"),
];

/// Reads the words of a rule.
pub(crate) fn read(words: &[Word]) -> Result<Vec<Piece<'_>>, RuleError> {
    let mut reader = Reader {
        words: words.iter(),
        pieces: Vec::with_capacity(words.len()),
    };
    while let Some(word) = reader.words.next() {
        reader.word(word)?;
    }
    Ok(reader.pieces)
}

struct Reader<'a> {
    words: std::slice::Iter<'a, Word>,
    pieces: Vec<Piece<'a>>,
}

impl<'a> Reader<'a> {
    fn word(&mut self, word: &'a Word) -> Result<(), RuleError> {
        let text = word.text.as_str();
        if let Some(long) = text.strip_prefix("--") {
            self.long(word, long)
        } else if let Some(letters) = text.strip_prefix('-') {
            self.letters(text, letters)
        } else {
            if text.is_empty() {
                return Err(RuleError::EmptyValue {
                    option: self.last_option(),
                });
            }
            self.push(word);
            Ok(())
        }
    }

    fn letters(&mut self, text: &'a str, letters: &'a str) -> Result<(), RuleError> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            if letter == 'f' {
                self.pieces.push(Piece::Word {
                    text: "-f",
                    quoted: false,
                });
            } else if CORE.iter().any(|(core, _)| *core == letter) {
                let attached = rest.as_str();
                return self.core(letter, (!attached.is_empty()).then_some(attached));
            } else {
                return Err(forbidden(format!("-{letter}")));
            }
        }
        if letters.is_empty() {
            return Err(forbidden(text.to_owned()));
        }
        Ok(())
    }

    fn long(&mut self, word: &'a Word, long: &'a str) -> Result<(), RuleError> {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        if let Some(letter) = core_named(|core| core == name) {
            return self.core(letter, attached);
        }
        let mut extensions = OF_EXTENSIONS.iter();
        if !extensions.any(|(extension, option)| *option == name && self.loaded(extension)) {
            if FORBIDDEN.iter().any(|f| f.starts_with(name)) {
                return Err(forbidden(format!("--{name}")));
            }
            if let Some(letter) = core_named(|core| core.starts_with(name)) {
                return self.core(letter, attached);
            }
        }
        if attached == Some("") {
            return Err(RuleError::EmptyValue {
                option: format!("--{name}"),
            });
        }
        // Only values keep their quotes.
        self.pieces.push(Piece::Word {
            text: &word.text,
            quoted: false,
        });
        self.text(name, attached)
    }

    fn core(&mut self, letter: char, attached: Option<&'a str>) -> Result<(), RuleError> {
        let option = || format!("-{letter}");
        let value = attached.or_else(|| self.words.next().map(|word| word.text.as_str()));
        let value = match value {
            Some("") => return Err(RuleError::EmptyValue { option: option() }),
            Some(value) if !value.starts_with('-') => value,
            found => {
                return Err(RuleError::MissingValue {
                    option: option(),
                    found: found.map(str::to_owned),
                });
            }
        };
        if matches!(letter, 's' | 'd') {
            one_address(letter, value)?;
        }
        if matches!(letter, 'i' | 'o') {
            no_blank(option, value)?;
        }
        self.pieces.push(Piece::Core(letter, value));
        Ok(())
    }

    /// Checks free text and names. Only a name written out in full takes the next word along
    /// whatever it looks like: a shortened one may stand for an option that takes no value.
    fn text(&mut self, name: &str, attached: Option<&'a str>) -> Result<(), RuleError> {
        let next = self.words.as_slice().first();
        let Some(value) = attached.or(next.map(|word| word.text.as_str())) else {
            return Ok(());
        };
        for (extension, full) in PRINTED_BARE {
            if full.starts_with(name) && self.loaded(extension) {
                no_blank(|| format!("--{full}"), value)?;
            }
        }
        let mut in_full = false;
        for (extension, full, max) in TEXT {
            if !full.starts_with(name) || !self.loaded(extension) {
                continue;
            }
            if value.len() > *max {
                return Err(RuleError::TextTooLong {
                    option: format!("--{full}"),
                    length: value.len(),
                    max: *max,
                });
            }
            in_full |= *full == name;
        }
        if let (true, None, Some(word)) = (in_full, attached, next)
            && !word.text.is_empty()
        {
            self.words.next();
            self.pieces.push(Piece::Word {
                text: &word.text,
                quoted: true,
            });
        }
        Ok(())
    }

    /// Whether the rule has named this match or target so far: iptables knows no other options.
    fn loaded(&self, extension: &str) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Core('m' | 'j', name) if *name == extension))
    }

    fn push(&mut self, word: &'a Word) {
        self.pieces.push(Piece::Word {
            text: &word.text,
            quoted: word.quoted,
        });
    }

    fn last_option(&self) -> String {
        match self.pieces.last() {
            Some(Piece::Core(letter, _)) => format!("-{letter}"),
            Some(Piece::Word { text, .. }) => (*text).to_owned(),
            None => String::new(),
        }
    }
}

fn core_named(is: impl Fn(&str) -> bool) -> Option<char> {
    CORE.iter()
        .find(|(_, names)| names.iter().any(|name| is(name)))
        .map(|(letter, _)| *letter)
}

fn forbidden(option: String) -> RuleError {
    RuleError::ForbiddenOption { option }
}

fn no_blank(option: impl FnOnce() -> String, value: &str) -> Result<(), RuleError> {
    if value.contains(char::is_whitespace) {
        return Err(RuleError::BlankInName {
            option: option(),
            value: excerpt::short(value),
        });
    }
    Ok(())
}

/// iptables makes one rule of each address in a list, and of each address that a host name has.
fn one_address(letter: char, value: &str) -> Result<(), RuleError> {
    let option = format!("-{letter}");
    let value = value.to_owned();
    if value.contains(',') {
        return Err(RuleError::SeveralAddresses { option, value });
    }
    // Fewer than four numbers are filled up with zeros: `10/8`. A single one over 255 would be read as a
    // whole address: `300` as `0.0.1.44`.
    let address = value.split('/').next().unwrap_or_default();
    let numbers = address.split('.').count();
    let v4 = numbers <= 4
        && address
            .split('.')
            .all(|number| number.parse::<u8>().is_ok())
        && value
            .bytes()
            .all(|b| b.is_ascii_digit() || b"./".contains(&b));
    let v6 = value.contains(':')
        && value
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || b":./".contains(&b));
    if v4 || v6 {
        Ok(())
    } else {
        Err(RuleError::HostName { option, value })
    }
}
