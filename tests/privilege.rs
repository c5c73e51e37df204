//! The privileges that a program needs, and no others: on nf_tables `CAP_NET_ADMIN`, on legacy `CAP_NET_RAW` as well and a
//! lock file that it may open. Each as the user nobody, with an empty set of everything else.

mod common;

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use common::{Kernel, each_kernel};
use iptables_updater::{Backend, Chain, Error, FailureClass, IptablesUpdater, Table};

const NOBODY: u32 = 65_534;
/// Says to the test `as_a_child` which kernel it has to use.
const ROLE: &str = "IPTABLES_UPDATER_PRIVILEGE_TEST";

/// All that an updater does to a table.
fn use_everything(kernel: Kernel) -> Result<(), Error> {
    let mut updater = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(kernel.executor())?;
    updater.rewrite_chains([Chain::new("web-a", ["-p tcp -j web-b"])?])?;
    updater.ensure_rule_inserted("INPUT", "-j web-a")?;
    assert!(updater.refresh()?.is_empty());
    updater.ensure_rule_removed("INPUT", "-j web-a")?;
    updater.delete_chains(["web-a"])?;
    updater.cleanup()?;
    assert!(kernel.chains(Table::Filter, "web-").is_empty());
    Ok(())
}

/// Run by the other tests in a process with few privileges; by itself it does nothing.
#[test]
fn as_a_child() {
    let Ok(role) = env::var(ROLE) else { return };
    let kernels = common::KERNELS.into_iter();
    let mut kernels = kernels.filter(|kernel| format!("{kernel:?}") == role);
    let kernel = kernels.next().expect("a kernel");
    match use_everything(kernel) {
        Ok(()) => {}
        Err(error) => panic!("class {:?}: {error}", error.class()),
    }
}

/// Whether all goes well with these capabilities only, as nobody; and what was said.
fn with_capabilities(kernel: Kernel, capabilities: &str) -> (bool, String) {
    let only = format!("-all,{capabilities}");
    let output = Command::new("setpriv")
        .args([
            "--reuid",
            &NOBODY.to_string(),
            "--regid",
            &NOBODY.to_string(),
        ])
        .args(["--clear-groups", "--no-new-privs"])
        .args([
            "--inh-caps",
            &only,
            "--ambient-caps",
            &only,
            "--bounding-set",
            &only,
        ])
        .arg(env::current_exe().expect("this program"))
        .args(["--exact", "as_a_child", "--nocapture"])
        .env(ROLE, format!("{kernel:?}"))
        .output()
        .expect("setpriv");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    (output.status.success(), said.into_owned())
}

#[test]
fn two_capabilities_at_most_and_a_lock_file_are_enough() {
    each_kernel(
        "two_capabilities_at_most_and_a_lock_file_are_enough",
        |kernel| {
            let needed = match kernel.backend {
                Backend::NfTables => "+net_admin",
                Backend::Legacy => "+net_admin,+net_raw",
            };
            if kernel.backend == Backend::Legacy {
                // The test's own, as the machine's is.
                let only_root = fs::Permissions::from_mode(0o755);
                fs::set_permissions("/run", only_root).expect("root's");
                let (fine, said) = with_capabilities(kernel, needed);
                let class = format!("class {:?}", Some(FailureClass::LockFile));
                assert!(!fine && said.contains(&class), "{said}");
                fs::write("/run/xtables.lock", "").expect("a lock file");
                chown("/run/xtables.lock", Some(NOBODY), None).expect("given away");
            }
            let (fine, said) = with_capabilities(kernel, needed);
            assert!(fine, "{said}");
            for too_few in ["+net_raw", "+chown"] {
                let (fine, said) = with_capabilities(kernel, too_few);
                let class = format!("class {:?}", Some(FailureClass::NoPrivilege));
                assert!(!fine && said.contains(&class), "{too_few}: {said}");
            }
        },
    );
}
