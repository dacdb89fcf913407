//! What the machine is like, as far as a node cares: read from the kernel before any shard runs.
//!
//! Nothing is decided here. What cannot be read is left empty: a fact that is not known is not held
//! against the machine.

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// The machine, its limits, and the folder of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Such as `6.1.0-21-amd64`.
    pub kernel: String,
    pub cores: u64,
    /// Of the machine, or of the group of processes that this one is in.
    pub memory_bytes: u64,
    pub swap_bytes: u64,
    pub swappiness: Option<u64>,
    /// The chosen word of `transparent_hugepage/enabled`.
    pub huge_pages: String,
    pub clock_source: String,
    /// Those that could be chosen.
    pub clock_sources: Vec<String>,
    /// Of all cores, each once.
    pub governors: Vec<String>,
    /// File descriptors; None: any number.
    pub files: Option<u64>,
    /// Bytes that may be kept from being swapped out; None: any number.
    pub locked_bytes: Option<u64>,
    pub aio_max: Option<u64>,
    pub aio_used: Option<u64>,
    /// 0: for all, 1: for some, 2: for nobody.
    pub io_uring_disabled: Option<u64>,
    pub map_count: Option<u64>,
    pub backlog: Option<u64>,
    pub folder: String,
    /// The nearest folder above that exists; the same where the folder does.
    pub existing: String,
    pub is_writable: bool,
    pub file_system: String,
    pub free_bytes: u64,
    pub disk: Option<Disk>,
    /// Of the ports that were asked for: what is served there by somebody else, and why we cannot.
    pub taken: Vec<(SocketAddr, String)>,
    /// Of the addresses that were asked for: those that no interface has.
    pub foreign: Vec<IpAddr>,
}

/// The disk below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Such as `nvme0n1`.
    pub name: String,
    pub scheduler: String,
    pub schedulers: Vec<String>,
    pub is_rotating: bool,
}

/// The facts of this machine about a data folder, addresses and ports to be.
pub fn facts(folder: &Path, addresses: &[IpAddr], ports: &[SocketAddr]) -> Facts {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let existing = folder.ancestors().find(|it| it.is_dir()).unwrap_or(Path::new("/")).to_owned();
    let (clock_source, clock_sources) = clocks();
    Facts {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cores: std::thread::available_parallelism().map_or(0, |count| count.get() as u64),
        memory_bytes: memory_bytes(),
        swap_bytes: swap_bytes(),
        swappiness: number("/proc/sys/vm/swappiness"),
        huge_pages: chosen(&text("/sys/kernel/mm/transparent_hugepage/enabled")),
        clock_source,
        clock_sources,
        governors: governors(),
        files: getrlimit(Resource::Nofile).current,
        locked_bytes: getrlimit(Resource::Memlock).current,
        aio_max: number("/proc/sys/fs/aio-max-nr"),
        aio_used: number("/proc/sys/fs/aio-nr"),
        io_uring_disabled: number("/proc/sys/kernel/io_uring_disabled"),
        map_count: number("/proc/sys/vm/max_map_count"),
        backlog: number("/proc/sys/net/core/somaxconn"),
        folder: folder.display().to_string(),
        is_writable: rustix::fs::access(&existing, rustix::fs::Access::WRITE_OK).is_ok(),
        file_system: file_system(&existing),
        free_bytes: free_bytes(&existing),
        disk: disk(&existing),
        existing: existing.display().to_string(),
        taken: ports.iter().filter_map(taken).collect(),
        foreign: addresses.iter().copied().filter(is_foreign).collect(),
    }
}

/// What a file of the kernel holds; nothing where there is none.
#[allow(clippy::disallowed_methods, reason = "no shard runs")]
fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn number(path: &str) -> Option<u64> {
    text(path).parse().ok()
}

/// The word in brackets of a list that marks its choice so.
fn chosen(text: &str) -> String {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.unwrap_or_default().to_owned()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram as u64 * u64::from(info.mem_unit);
    number("/sys/fs/cgroup/memory.max").map_or(machine, |limit| limit.min(machine))
}

fn swap_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalswap as u64 * u64::from(info.mem_unit)
}

fn clocks() -> (String, Vec<String>) {
    let folder = Path::new("/sys/devices/system/clocksource/clocksource0");
    let known = words(&text(folder.join("available_clocksource")));
    (text(folder.join("current_clocksource")), known)
}

#[allow(clippy::disallowed_methods, reason = "no shard runs")]
fn governors() -> Vec<String> {
    let cores = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let governors = cores.map(|core| text(core.path().join("cpufreq/scaling_governor")));
    let mut governors: Vec<String> = governors.filter(|word| !word.is_empty()).collect();
    governors.sort();
    governors.dedup();
    governors
}

/// The type of the file system that a folder is on, as it is mounted.
fn file_system(folder: &Path) -> String {
    let mounts = text("/proc/self/mountinfo");
    mount_of(&mounts, folder).unwrap_or_default()
}

/// Of the lines of `mountinfo`, the type of the one that is mounted deepest above a folder; the
/// last of those at the same place hides the others.
fn mount_of(mounts: &str, folder: &Path) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    for line in mounts.lines() {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        let depth = Path::new(&point).components().count();
        let is_above = folder.starts_with(&point);
        if is_above && best.as_ref().is_none_or(|(deepest, _)| *deepest <= depth) {
            best = Some((depth, after.split(' ').next()?.to_owned()));
        }
    }
    best.map(|(_, kind)| kind)
}

fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |facts| facts.f_bavail * facts.f_frsize)
}

/// The disk that a folder is on, where it is on one.
#[allow(clippy::disallowed_methods, reason = "no shard runs")]
fn disk(folder: &Path) -> Option<Disk> {
    let device = rustix::fs::stat(folder).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let path = fs::canonicalize(link).ok()?;
    // A partition stands below its disk.
    let disk = path.ancestors().take(2).find(|it| it.join("queue/scheduler").is_file())?;
    let schedulers = text(disk.join("queue/scheduler"));
    Some(Disk {
        name: disk.file_name()?.to_string_lossy().into_owned(),
        scheduler: chosen(&schedulers),
        schedulers: words(&schedulers),
        is_rotating: text(disk.join("queue/rotational")) == "1",
    })
}

/// Why nothing can be served at an address.
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "no shard runs")]
fn taken(address: &SocketAddr) -> Option<(SocketAddr, String)> {
    match TcpListener::bind(address) {
        Ok(_) => None,
        Err(error) => Some((*address, error.kind().to_string())),
    }
}

#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "no shard runs")]
fn is_foreign(address: &IpAddr) -> bool {
    let bound = TcpListener::bind(SocketAddr::new(*address, 0));
    bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("none"), "");
        assert_eq!(words("[none] mq-deadline"), ["none", "mq-deadline"]);
        let mounts = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      22 21 0:20 / /dev rw - devtmpfs udev rw\n\
                      23 21 8:1 / /my\\040data rw - xfs /dev/sda1 rw\n\
                      24 21 8:2 / /my\\040data rw - btrfs /dev/sda2 rw";
        let check = |folder: &str, expected: &str| {
            assert_eq!(mount_of(mounts, Path::new(folder)).as_deref(), Some(expected), "{folder}");
        };
        check("/var/lib", "ext4");
        check("/dev/shm", "devtmpfs");
        check("/device", "ext4");
        check("/my data/x", "btrfs");
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn facts_of_this_machine() {
        let folder = std::env::temp_dir().join("nereid-no-such-folder/below");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mine = listener.local_addr().expect("an address");
        let foreign = "192.0.2.1".parse().expect("an address");
        let facts = facts(&folder, &[mine.ip(), foreign], &[mine]);
        assert!(0 < facts.cores && 0 < facts.memory_bytes && !facts.kernel.is_empty());
        assert!(facts.folder.ends_with("nereid-no-such-folder/below"));
        assert!(Path::new(&facts.existing).is_dir() && facts.folder != facts.existing);
        assert!(!facts.file_system.is_empty() && 0 < facts.free_bytes);
        assert_eq!(facts.taken, [(mine, "address in use".to_owned())]);
        assert_eq!(facts.foreign, [foreign]);
    }
}
