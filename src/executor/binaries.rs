//! Which programs to run, and where they are.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::ExecutorError;
use crate::{Backend, IpVersion};

/// Where iptables is on most systems, though not in the `PATH` of every user.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// The two programs that an executor runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) restore: PathBuf,
    pub(super) save: PathBuf,
}

impl Binaries {
    /// The programs' names: the system's default (`iptables-restore`), or those of a back end
    /// (`iptables-nft-restore`).
    pub(super) fn named(version: IpVersion, backend: Option<Backend>) -> Self {
        let base = match version {
            IpVersion::V4 => "iptables",
            IpVersion::V6 => "ip6tables",
        };
        let backend = match backend {
            None => "",
            Some(Backend::NfTables) => "-nft",
            Some(Backend::Legacy) => "-legacy",
        };
        Self {
            restore: format!("{base}{backend}-restore").into(),
            save: format!("{base}{backend}-save").into(),
        }
    }

    /// The same with the paths at which they were found.
    pub(super) fn found(&self) -> Result<Self, ExecutorError> {
        Ok(Self {
            restore: find(&self.restore)?,
            save: find(&self.save)?,
        })
    }
}

/// The folders in which programs are looked for: those of `PATH`, then the system's own.
pub(super) fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    let folders = folders.chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    // A folder from PATH can't have a colon in it.
    env::join_paths(folders).unwrap_or(path)
}

/// Finds a program: a name in the search path, a path as it is.
pub(super) fn find(program: &Path) -> Result<PathBuf, ExecutorError> {
    let is_path = program.parent() != Some(Path::new(""));
    let candidates = if is_path {
        vec![program.to_owned()]
    } else {
        let join = |folder: PathBuf| folder.join(program);
        env::split_paths(&search_path()).map(join).collect()
    };
    let mut unusable = None;
    for candidate in candidates {
        match fs::metadata(&candidate) {
            Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => {
                return Ok(candidate);
            }
            Ok(_) => unusable = unusable.or(Some(candidate)),
            Err(_) => {}
        }
    }
    Err(match unusable {
        Some(program) => ExecutorError::NotExecutable { program },
        None => ExecutorError::NotFound {
            program: program.to_owned(),
        },
    })
}
