//! The table of failures: what iptables prints, and what that means.
//!
//! Measured on iptables 1.8.9, with older spellings beside. `*` stands for any text, `{}` for the name of a
//! chain, target, set or table. The first row that matches a line anywhere on standard error wins, so what
//! is certain stands above what is general.

use crate::FailureClass;

/// One row: a line of standard error, without the program's name before it.
pub(super) struct Row {
    /// `None` where the meaning depends on what the named line of the input does.
    pub(super) class: Option<FailureClass>,
    pub(super) text: &'static str,
}

/// `class: text, text, …;` once for each class.
macro_rules! rows {
    ($($class:ident: $($text:literal,)+;)+) => {
        &[$($(Row { class: rows!(@ $class), text: $text },)+)+]
    };
    (@ Bare) => { None };
    (@ $class:ident) => { Some(FailureClass::$class) };
}

pub(super) const ROWS: &[Row] = rows! {
    // Legacy. "Perhaps you want to use the -w option?" follows in versions before 1.8. With a semicolon in place
    // of the full stop, old versions say that they are still waiting.
    LockHeld:
        "Another app is currently holding the xtables lock. *",
        "Can't lock *: Resource temporarily unavailable",
    ;
    LockFile:
        "Fatal: can't open lock file *",
    ;
    NoPrivilege:
        "Could not fetch rule set generation id: Permission denied (you must be root)",
        "Cannot initialize: Permission denied (you must be root)",
        "can't initialize * table `{}': Permission denied (you must be root)",
        "line * failed: Permission denied (you must be root).",
        "sendmsg() failed: Operation not permitted",
        "Failed to initialize nft: Operation not permitted",
        "Failed to list table names in *: Permission denied",
    ;
    // The kernel was busy, or somebody deleted the table or made the chain at the same instant. The lines
    // that follow name rules that couldn't be put for that reason alone.
    Race:
        "Could not fetch rule set generation id: Resource temporarily unavailable",
        "Could not fetch rule set generation id: Interrupted system call",
        "Could not fetch rule set generation id: No buffer space available",
        "Could not fetch rule set generation id: Memory allocation problem",
        "sendmsg() failed: Resource temporarily unavailable",
        "sendmsg() failed: Interrupted system call",
        "sendmsg() failed: No buffer space available",
        "sendmsg() failed: Cannot allocate memory",
        "line * failed: Resource temporarily unavailable.",
        "line * failed: Interrupted system call.",
        "line * failed: No buffer space available.",
        "line * failed: Memory allocation problem.",
        "Failed to initialize nft: Too many open files",
        "Failed to initialize nft: Cannot allocate memory",
        "Cannot initialize: Resource temporarily unavailable",
        "Cannot initialize: Interrupted system call",
        "Cannot initialize: Memory allocation problem",
        "line *: CHAIN_USER_ADD failed (File exists): chain {}",
        "line *: CHAIN_USER_ADD failed (No such file or directory): chain {}",
    ;
    TooManyLinks:
        "line *: * failed (Too many links)*",
    ;
    // nf_tables names the COMMIT line for a missing target.
    TargetAbsent:
        "Chain '{}' does not exist",
        "Couldn't load target `{}':No such file or directory",
        "goto '{}' is not a chain",
        "Set {} doesn't exist.",
        "line * failed: No chain/target/match by that name.",
    ;
    RuleAbsent:
        "line * failed: Bad rule (does a matching rule exist in that chain?).",
        // Somebody else has deleted it at the same instant.
        "line *: RULE_DELETE failed (No such file or directory): rule in chain *",
    ;
    ChainExists:
        "line * failed: Chain already exists.",
    ;
    // CHAIN_USER_DEL up to 1.8.6.
    ChainBusy:
        "line *: CHAIN_DEL failed (Device or resource busy): chain {}",
        "line *: CHAIN_USER_DEL failed (Device or resource busy): chain {}",
    ;
    // Legacy says the first of these without the privilege, too.
    NoTable:
        "unable to initialize table '{}'",
        "line * table name '{}' invalid",
        "Table `{}' does not exist",
        "Cannot initialize: Table does not exist (do you need to insmod?)",
    ;
    NoKernelSupport:
        "Failed to initialize nft: Protocol not supported",
        "Failed to initialize nft: Address family not supported by protocol",
    ;
    // Whatever else stops the parser, an unknown match among it.
    Refused:
        "Error occurred at line: *",
        "COMMIT expected at line *",
        "Could not fetch rule set generation id: *",
        "sendmsg() failed: *",
    ;
    // A mere warning, unless the kernel then refuses the rule.
    NoKernelSupport:
        "Warning: Extension {} revision * not supported, missing kernel module?",
        "Warning: Extension {} is not supported, missing kernel module?",
    ;
    // A chain that went, or an object of an extension: reading the table again will tell.
    TargetAbsent:
        "line *: RULE_* failed (No such file or directory): rule in chain *",
    ;
    Bare:
        "line * failed",
    ;
};
