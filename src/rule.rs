//! One rule, without its chain.

use std::fmt;
use std::str::FromStr;

use crate::error::{BadRule, RuleError};
use crate::options::{self, Piece};
use crate::words::{self, UnterminatedQuote, Word};
use crate::{ChainName, IpVersion, excerpt};

/// One rule of iptables, without its chain: `-p tcp --dport 80 -j ACCEPT`.
///
/// The text is read as `iptables-restore` reads it (double quotes, backslash in quotes) and checked once;
/// whatever iptables would silently take for something else is refused. It is kept in one spelling: words
/// parted by one blank, values of core options in words of their own, `-j` for `--jump` and `--jump=`.
/// Matches and their options aren't judged: only iptables knows those.
///
/// ```
/// use iptables_updater::{Rule, RuleError};
///
/// let rule = Rule::new(r#"-p tcp  --dport 443 --jump=web-tls -m comment --comment "to TLS""#)?;
/// assert_eq!(rule.as_str(), r#"-p tcp --dport 443 -j web-tls -m comment --comment "to TLS""#);
/// assert_eq!(rule.target(), Some("web-tls"));
///
/// // iptables would drop this line without a word:
/// assert!(matches!(Rule::new("-6 -j ACCEPT"), Err(RuleError::ForbiddenOption { .. })));
/// # Ok::<(), RuleError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    text: Box<str>,
    /// The only IP version for which it is meant, if it isn't meant for both.
    only: Option<IpVersion>,
}

impl Rule {
    /// The most bytes that a rule may have as rendered. iptables reads 10,238 bytes of a line; the
    /// longest command and chain name take 32 of them.
    pub const MAX_BYTES: usize = 10_238 - "-A ".len() - ChainName::MAX_BYTES - " ".len();
    /// The most words: iptables takes 251 in a line, two are the command and the chain.
    pub const MAX_WORDS: usize = 249;
    /// The most bytes of one word.
    pub const MAX_WORD_BYTES: usize = 1_023;

    /// Reads and checks a rule.
    ///
    /// # Errors
    /// A [`RuleError`] that says what is wrong and where.
    pub fn new(text: &str) -> Result<Self, RuleError> {
        Self::from_split(&split(text)?)
    }

    /// A rule with a built-in target and nothing else.
    pub(crate) fn verdict(target: &'static str) -> Self {
        Self::of_kept_text(&format!("-j {target}"))
    }

    /// A rule of a text that a rule had.
    pub(crate) fn of_kept_text(text: &str) -> Self {
        Self {
            text: text.into(),
            only: None,
        }
    }

    /// Makes a rule of words that need no quoting: each is taken as it is.
    ///
    /// ```
    /// # use iptables_updater::Rule;
    /// let rule = Rule::from_words(["-m", "comment", "--comment", r#"say "hi""#, "-j", "ACCEPT"])?;
    /// assert_eq!(rule.as_str(), r#"-m comment --comment "say \"hi\"" -j ACCEPT"#);
    /// # Ok::<(), iptables_updater::RuleError>(())
    /// ```
    ///
    /// # Errors
    /// A [`RuleError`] that says what is wrong; places are those in the word.
    pub fn from_words<I>(words: I) -> Result<Self, RuleError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let words = words
            .into_iter()
            .map(|word| {
                let text = word.as_ref().to_owned();
                no_control(&text, false)?;
                Ok(Word { text, quoted: true })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Self::from_split(&words)
    }

    /// Reads a rule that may be written with its chain, `-A chain …`, and checks that it is this one.
    pub(crate) fn for_chain(chain: &str, text: &str) -> Result<Self, RuleError> {
        let words = split(text)?;
        match words.as_slice() {
            [command, written, rest @ ..] if matches!(&*command.text, "-A" | "--append") => {
                if written.text != chain {
                    return Err(RuleError::OtherChain {
                        written: excerpt::short(&written.text),
                        expected: chain.to_owned(),
                    });
                }
                Self::from_split(rest)
            }
            words => Self::from_split(words),
        }
    }

    fn from_split(words: &[Word]) -> Result<Self, RuleError> {
        let Some(first) = words.first() else {
            return Err(RuleError::Empty);
        };
        if !first.text.starts_with('-') && first.text != "!" {
            return Err(RuleError::NoOption {
                word: excerpt::short(&first.text),
            });
        }
        few_words(words.len())?;
        if let Some(long) = words.iter().find(|w| w.text.len() > Self::MAX_WORD_BYTES) {
            return Err(RuleError::WordTooLong {
                start: long.text.chars().take(20).collect(),
                length: long.text.len(),
                max: Self::MAX_WORD_BYTES,
            });
        }
        Self::render(&options::read(words)?)
    }

    fn render(pieces: &[Piece<'_>]) -> Result<Self, RuleError> {
        let mut text = String::new();
        let mut count = 0;
        let mut target: Option<std::ops::Range<usize>> = None;
        for piece in pieces {
            if !text.is_empty() {
                text.push(' ');
            }
            match *piece {
                Piece::Word { text: word, quoted } => {
                    count += 1;
                    words::push_word(&mut text, word, quoted);
                }
                Piece::Core(letter, value) => {
                    count += 2;
                    if matches!(letter, 'j' | 'g') {
                        target_name(value)?;
                    }
                    text.push('-');
                    text.push(letter);
                    text.push(' ');
                    let start = text.len();
                    words::push_word(&mut text, value, false);
                    if matches!(letter, 'j' | 'g')
                        && let Some(first) = target.replace(start..text.len())
                    {
                        return Err(RuleError::TwoTargets {
                            first: excerpt::short(&text[first]),
                            second: excerpt::short(value),
                        });
                    }
                }
            }
        }
        few_words(count)?;
        if text.len() > Self::MAX_BYTES {
            return Err(RuleError::TooLong {
                length: text.len(),
                max: Self::MAX_BYTES,
            });
        }
        debug_assert_eq!(Self::target_of(&text), target.map(|range| &text[range]));
        Ok(Self {
            text: text.into_boxed_str(),
            only: None,
        })
    }

    /// The same rule, meant for one IP version only: where a chain is given to both, the other leaves it out.
    ///
    /// ```
    /// # use iptables_updater::{Chain, IpVersion, Rule};
    /// let v4 = Rule::new("-s 192.0.2.0/24 -j ACCEPT")?.only_for(IpVersion::V4);
    /// let v6 = Rule::new("-s 2001:db8::/32 -j ACCEPT")?.only_for(IpVersion::V6);
    /// let chain = Chain::new("web-input", [v4, v6, Rule::new("-j DROP")?]).unwrap();
    /// assert_eq!(chain.rules().len(), 3);
    /// # Ok::<(), iptables_updater::RuleError>(())
    /// ```
    #[must_use]
    pub fn only_for(mut self, version: IpVersion) -> Self {
        self.only = Some(version);
        self
    }

    /// Whether the rule is meant for that IP version.
    pub fn is_for(&self, version: IpVersion) -> bool {
        self.only.is_none_or(|only| only == version)
    }

    /// The rule as it is written into a restore input, without its chain.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What `-j` or `-g` names: a chain, a built-in target or a target of an extension. It is the bare
    /// name: one that would need quotes is refused.
    pub fn target(&self) -> Option<&str> {
        Self::target_of(&self.text)
    }

    /// The target of a rule with that text.
    pub(crate) fn target_of(text: &str) -> Option<&str> {
        words::value_of(text, ["-j", "-g"])
    }

    /// Whether the packet goes to the target for good (`-g`): a `RETURN` there doesn't lead back here.
    pub fn is_goto(&self) -> bool {
        words::value_of(&self.text, ["-g"]).is_some()
    }
}

/// Refuses a target that no chain or target can be called: iptables would, too, but at the kernel's price.
fn target_name(name: &str) -> Result<(), RuleError> {
    if name.len() > ChainName::MAX_BYTES || name.contains(|c: char| c == '"' || c.is_whitespace()) {
        let target = excerpt::short(name);
        return Err(RuleError::TargetName { target });
    }
    Ok(())
}

fn few_words(count: usize) -> Result<(), RuleError> {
    let max = Rule::MAX_WORDS;
    if count > max {
        return Err(RuleError::TooManyWords { count, max });
    }
    Ok(())
}

fn split(text: &str) -> Result<Vec<Word>, RuleError> {
    no_control(text, true)?;
    words::split(text).map_err(|UnterminatedQuote(at)| RuleError::UnterminatedQuote { at })
}

/// Refuses control characters; a tab may part words, as a blank does.
fn no_control(text: &str, tab_between_words: bool) -> Result<(), RuleError> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        let parts_words = character == '\t' && tab_between_words && !quoted;
        if character.is_control() && !parts_words {
            return Err(RuleError::ControlCharacter { character, at });
        }
        match character {
            _ if escaped => escaped = false,
            '"' => quoted = !quoted,
            '\\' => escaped = quoted,
            _ => {}
        }
    }
    Ok(())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl AsRef<str> for Rule {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        Self::new(text)
    }
}

impl TryFrom<&str> for Rule {
    type Error = RuleError;

    fn try_from(text: &str) -> Result<Self, RuleError> {
        Self::new(text)
    }
}

/// What can be given as a rule of a chain: a [`Rule`], or text, which may name the chain as
/// iptables-save does (`-A chain …`).
pub trait IntoRule {
    /// Reads and checks the rule for that chain.
    ///
    /// # Errors
    /// The text with a [`RuleError`] that says what is wrong and where.
    fn into_rule(self, chain: &str) -> Result<Rule, BadRule>;
}

impl IntoRule for Rule {
    fn into_rule(self, _: &str) -> Result<Rule, BadRule> {
        Ok(self)
    }
}

impl IntoRule for &Rule {
    fn into_rule(self, _: &str) -> Result<Rule, BadRule> {
        Ok(self.clone())
    }
}

impl IntoRule for &str {
    fn into_rule(self, chain: &str) -> Result<Rule, BadRule> {
        Rule::for_chain(chain, self).map_err(|source| BadRule {
            text: excerpt::short(self),
            source,
        })
    }
}

impl IntoRule for &&str {
    fn into_rule(self, chain: &str) -> Result<Rule, BadRule> {
        (*self).into_rule(chain)
    }
}

impl IntoRule for String {
    fn into_rule(self, chain: &str) -> Result<Rule, BadRule> {
        self.as_str().into_rule(chain)
    }
}

impl IntoRule for &String {
    fn into_rule(self, chain: &str) -> Result<Rule, BadRule> {
        self.as_str().into_rule(chain)
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "rule_refused_tests.rs"]
mod refused_tests;
