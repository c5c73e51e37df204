//! How `iptables-restore` splits a line into words, and how to write a word so that it comes out whole.
//!
//! The rules, measured on iptables 1.8.9 (both back ends):
//! - blank and tab separate words;
//! - `"` opens a quoted part anywhere in a word; inside it, a backslash takes the next character
//!   as it is; the closing `"` *ends the word*, so `"a""b"` is two words;
//! - outside quotes a backslash and a single quote are ordinary characters.

/// The line can't be split: a `"` at this byte is never closed.
///
/// iptables would swallow the rest of the line, its newline included, into the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnterminatedQuote(pub(crate) usize);

/// One word of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// What iptables takes the word to be, quotes and escapes resolved.
    pub(crate) text: String,
    /// Whether it was (partly) written in quotes. Tools before 1.8.3 look for options such as `-t`
    /// in unquoted words, even where the word is another option's value.
    pub(crate) quoted: bool,
}

/// Splits a line as `iptables-restore` does.
pub(crate) fn split(line: &str) -> Result<Vec<Word>, UnterminatedQuote> {
    let mut words = Vec::new();
    let mut text = String::new();
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                quoted_part(&mut chars, &mut text).ok_or(UnterminatedQuote(at))?;
                words.push(Word {
                    text: std::mem::take(&mut text),
                    quoted: true,
                });
            }
            ' ' | '\t' | '\n' => {
                if !text.is_empty() {
                    words.push(Word {
                        text: std::mem::take(&mut text),
                        quoted: false,
                    });
                }
            }
            _ => text.push(c),
        }
    }
    if !text.is_empty() {
        words.push(Word {
            text,
            quoted: false,
        });
    }
    Ok(words)
}

/// Reads on to the closing quote; `None` if the line ends first.
fn quoted_part(chars: &mut std::str::CharIndices<'_>, text: &mut String) -> Option<()> {
    loop {
        match chars.next()?.1 {
            '"' => return Some(()),
            '\\' => text.push(chars.next()?.1),
            c => text.push(c),
        }
    }
}

/// Appends the word so that [`split`] gives it back: bare where that is possible and wanted.
pub(crate) fn push_word(line: &mut String, text: &str, quoted: bool) {
    let bare = !text.is_empty() && !text.contains([' ', '\t', '\n', '"']);
    // A word that looks like an option keeps the quotes it came with, see `Word::quoted`; so an option is
    // told from a value that looks like one.
    if bare && !(quoted && text.starts_with('-')) {
        line.push_str(text);
        return;
    }
    line.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            line.push('\\');
        }
        line.push(c);
    }
    line.push('"');
}

/// The word that follows one of these options in a line of written words, which has one of them at most. What is in
/// quotes is no option.
pub(crate) fn value_of<'l, const N: usize>(line: &'l str, options: [&str; N]) -> Option<&'l str> {
    if !line.contains('"') {
        // Most lines have no quotes, and their target at the end: look from there.
        let mut words = line.as_bytes().rsplit(|byte| *byte == b' ');
        let mut rest = line.len() - words.next()?.len();
        let mut value = rest..line.len();
        for word in words {
            let start = rest - 1 - word.len();
            if options.iter().any(|option| option.as_bytes() == word) {
                return Some(&line[value]);
            }
            value = start..rest - 1;
            rest = start;
        }
        return None;
    }
    let mut rest = line;
    let mut found = false;
    loop {
        let end = end_of_word(rest);
        let word = &rest[..end];
        if found {
            return Some(word);
        }
        found = options.contains(&word);
        rest = rest[end..].strip_prefix(' ')?;
    }
}

/// Where the written word ends with which the line begins.
fn end_of_word(line: &str) -> usize {
    let bytes = line.as_bytes();
    let mut at = 0;
    if bytes.first() != Some(&b'"') {
        return line.find(' ').unwrap_or(line.len());
    }
    loop {
        at += 1;
        match bytes.get(at) {
            Some(b'\\') => at += 1,
            Some(b'"') => return at + 1,
            Some(_) => {}
            None => return line.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(line: &str) -> Vec<String> {
        split(line)
            .unwrap()
            .into_iter()
            .map(|word| word.text)
            .collect()
    }

    #[test]
    fn words_end_at_blanks_and_at_closing_quotes() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  \t ", &[]),
            ("-p  tcp\t-j ACCEPT ", &["-p", "tcp", "-j", "ACCEPT"]),
            (r#""a b" c"#, &["a b", "c"]),
            (r#""a""b""#, &["a", "b"]),
            (r#"a"b c"d"#, &["ab c", "d"]),
            (r#""" x"#, &["", "x"]),
            (r#""a\"b" "a\\b" "a\nb""#, &["a\"b", "a\\b", "anb"]),
            (r"a\b it's 'a b'", &[r"a\b", "it's", "'a", "b'"]),
        ];
        for (line, words) in cases {
            assert_eq!(texts(line), *words, "{line}");
        }
    }

    #[test]
    fn an_open_quote_is_found_where_it_opens() {
        for (line, at) in [
            (r#"-m "abc"#, 3),
            (r#"a\"b"#, 2),
            (r#""a\""#, 0),
            (r#""a" x"b"#, 5),
        ] {
            assert_eq!(split(line), Err(UnterminatedQuote(at)), "{line}");
        }
    }

    #[test]
    fn a_value_is_that_of_an_option_out_of_quotes() {
        for (line, value) in [
            ("-j DROP", Some("DROP")),
            ("-p tcp -g web-a", Some("web-a")),
            (r#"--comment "-j" -j web-a --x"#, Some("web-a")),
            (r#"--comment "a -j b" -g web-a"#, Some("web-a")),
            (r#"--comment "a\" -j b" -p tcp"#, None),
            (r#"--comment "a\\" -j b"#, Some("b")),
            ("-jx -p tcp", None),
            ("", None),
        ] {
            assert_eq!(value_of(line, ["-j", "-g"]), value, "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_written_word_comes_back(words in prop::collection::vec((any::<String>(), any::<bool>()), 0..6)) {
            let mut line = String::new();
            for (text, quoted) in &words {
                push_word(&mut line, text, *quoted);
                line.push(' ');
            }
            let back = texts(&line);
            let expected: Vec<_> = words.into_iter().map(|(text, _)| text).collect();
            prop_assert_eq!(back, expected);
        }

        #[test]
        fn any_line_splits_or_is_refused(line in any::<String>()) {
            let _ = split(&line);
        }
    }
}
