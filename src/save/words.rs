//! Finds a saved rule's end and its target among its words.
//!
//! iptables-save writes words apart by one blank. Free text that is more than letters, digits, `_` and `-`
//! stands in double quotes, which therefore open at a word's beginning; inside, `\` takes the next
//! character as it is, and a newline is a character like others. Names of chains and interfaces are
//! never quoted, whatever they hold.

use std::ops::Range;

/// Where a rule ends, and the name after its `-j` or `-g`.
pub(super) struct Words {
    pub(super) end: usize,
    pub(super) target: Option<Range<usize>>,
}

/// Reads the words of the rule that begins there, up to its newline or the text's end; `None` if a
/// quote isn't closed. `is_odd_name` tells whether a chain of that name is declared where any have names that
/// are more than one word, or empty.
pub(super) fn read(text: &str, start: usize, is_odd_name: impl Fn(&str) -> bool) -> Option<Words> {
    let bytes = text.as_bytes();
    let mut target = None;
    // What the word before says about this one.
    let mut value = Value::Any;
    let mut at = start;
    loop {
        let before = std::mem::replace(&mut value, Value::Any);
        match bytes.get(at) {
            None | Some(b'\n') => return Some(Words { end: at, target }),
            Some(b' ') => {
                value = before;
                at += 1;
            }
            Some(b'"') if before != Value::Raw => at = after_quote(bytes, at)?,
            Some(first) => {
                let end = end_of_word(bytes, at);
                if *first == b'-' && before == Value::Any {
                    let word = &bytes[at..end];
                    if target.is_none() && matches!(word, b"-j" | b"-g") {
                        target = target_at(text, end, &is_odd_name);
                        at = target.as_ref().map_or(end, |target| target.end);
                        continue;
                    }
                    value = value_of(word);
                }
                at = end;
            }
        }
    }
}

/// What is known of a word from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// Nothing: it may be an option or a value, bare or quoted.
    Any,
    /// It is a value, perhaps quoted.
    Text,
    /// It is a value, and never quoted.
    Raw,
}

/// What follows an option, where the value may look like an option or begin with a quote.
fn value_of(option: &[u8]) -> Value {
    match option {
        b"--comment" | b"--helper" | b"--log-prefix" | b"--nflog-prefix" | b"--ulog-prefix"
        | b"--nfacct-name" | b"--led-trigger-id" => Value::Text,
        b"-i" | b"-o" | b"--physdev-in" | b"--physdev-out" | b"--match-set" | b"--name"
        | b"--hashlimit-name" | b"--rateest" | b"--rateest1" | b"--rateest2" => Value::Raw,
        _ => Value::Any,
    }
}

/// The target whose name follows the `-j` or `-g` that ends there.
fn target_at(
    text: &str,
    option_end: usize,
    is_odd_name: impl Fn(&str) -> bool,
) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if bytes.get(option_end) != Some(&b' ') {
        return None;
    }
    let start = option_end + 1;
    let end = end_of_word(bytes, start);
    let alone = matches!(bytes.get(end), None | Some(b'\n'));
    if alone && end > start {
        return Some(start..end);
    }
    // A jump to a chain has no options: the name is the rest of the line.
    let rest = start + super::parse::line_at(text, start).len();
    if is_odd_name(&text[start..rest]) {
        return Some(start..rest);
    }
    let blanks = bytes[start..].iter().take_while(|b| **b == b' ').count();
    let start = start + blanks;
    let end = end_of_word(bytes, start);
    (end > start).then_some(start..end)
}

/// Where the word ends that begins there.
pub(super) fn end_of_word(bytes: &[u8], at: usize) -> usize {
    let length = bytes[at..].iter().position(|b| matches!(b, b' ' | b'\n'));
    length.map_or(bytes.len(), |length| at + length)
}

/// The place after the quote that closes the one at `open`.
fn after_quote(bytes: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}
