//! What the facts of a host mean for a node. Pure.
//!
//! Invariants
//!  - *mendable*: what is wrong or poor comes with a command, unless no command mends it; then
//!    `found` says what to do.

use crate::host::{Disk, Facts};
use std::net::SocketAddr;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What the node wants.
#[derive(Clone, Debug)]
pub(super) struct Wants {
    pub(super) shards: u64,
    pub(super) memory_bytes: u64,
    /// By option.
    pub(super) listeners: Vec<(&'static str, SocketAddr)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// A node works, and could be faster or safer.
    Poor,
    /// A node does not start, or loses what it should not.
    Wrong,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Poor => "poor",
            Verdict::Wrong => "wrong",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// The command that mends it.
    pub(super) mend: Option<String>,
}

fn fine(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Fine, found: found.into(), mend: None }
}

fn poor(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Poor, found: found.into(), mend: Some(mend.into()) }
}

fn wrong(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Wrong, found: found.into(), mend: Some(mend.into()) }
}

/// All of them, in an order that makes sense to mend them in.
pub(super) fn findings(facts: &Facts, wants: &Wants) -> Vec<Finding> {
    let mut found = vec![
        kernel(facts),
        memory(facts, wants),
        folder(facts),
        file_system(facts),
        free_space(facts),
        files(facts),
        locked(facts, wants),
        map_count(facts),
        backlog(facts),
        swap(facts),
        huge_pages(facts),
        clock(facts),
        governor(facts),
    ];
    found.extend(requests(facts, wants));
    found.extend(facts.disk.as_ref().map(scheduler));
    found.extend(addresses(facts));
    found.extend(ports(facts, wants));
    found
}

/// The first two numbers of a kernel's release.
fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel(facts: &Facts) -> Finding {
    let check = "kernel";
    let upgrade = "apt-get install --only-upgrade linux-image-amd64 && reboot";
    match release(&facts.kernel) {
        Some(version) if version < (4, 14) => {
            wrong(check, format!("{}: 4.14 or newer is needed", facts.kernel), upgrade)
        }
        Some(version) if version < (5, 15) => {
            let text = format!("{}: io_uring is used from 5.15 on", facts.kernel);
            poor(check, text, upgrade)
        }
        _ => fine(check, facts.kernel.clone()),
    }
}

fn memory(facts: &Facts, wants: &Wants) -> Finding {
    let check = "memory";
    let (has, wanted) = (facts.memory_bytes / MIB, wants.memory_bytes / MIB);
    let shard = wanted / wants.shards.max(1);
    if has != 0 && has < wanted {
        let text = format!("the node wants {wanted} MiB, the machine has {has}");
        return wrong(check, text, format!("nereid --memory {}M", has / 10 * 8));
    }
    if facts.cores != 0 && facts.cores < wants.shards {
        let text = format!("{} shards on {} cores", wants.shards, facts.cores);
        return poor(check, text, format!("nereid --smp {}", facts.cores));
    }
    if shard < 512 {
        let text =
            format!("{shard} MiB for each of {} shards; at least 1024 recommended", wants.shards);
        return poor(check, text, format!("nereid --smp {}", (wanted / 1024).max(1)));
    }
    fine(check, format!("{wanted} MiB of {has} for {} shards", wants.shards))
}

fn folder(facts: &Facts) -> Finding {
    let check = "folder";
    let Facts { folder, existing, .. } = facts;
    match (facts.is_writable, folder == existing) {
        (true, true) => fine(check, folder.clone()),
        (true, false) => fine(check, format!("{folder} can be created")),
        (false, true) => {
            let mend = format!("chown -R nereid:nereid {folder}");
            wrong(check, format!("{folder} cannot be written"), mend)
        }
        (false, false) => {
            let mend = format!("install -d -o nereid -g nereid -m 750 {folder}");
            wrong(check, format!("{folder} cannot be created in {existing}"), mend)
        }
    }
}

fn file_system(facts: &Facts) -> Finding {
    let check = "file system";
    let kind = facts.file_system.as_str();
    let device = facts.disk.as_ref().map_or("DEVICE", |disk| &disk.name);
    let mend =
        format!("mkfs.xfs /dev/{device}  # this erases it; then mount it at {}", facts.folder);
    match kind {
        "tmpfs" | "ramfs" => {
            wrong(check, format!("{kind}: data is lost when the machine stops"), mend)
        }
        "nfs" | "nfs4" | "cifs" | "smb3" => {
            wrong(check, format!("{kind}: a local disk is needed"), mend)
        }
        "overlay" => {
            let text = "overlay: data is lost with the container";
            wrong(check, text, format!("docker run -v nereid:{} ..", facts.folder))
        }
        "xfs" | "ext4" | "" => fine(check, if kind.is_empty() { "unknown" } else { kind }),
        _ => poor(check, format!("{kind}: xfs and ext4 write without waiting"), mend),
    }
}

fn free_space(facts: &Facts) -> Finding {
    let check = "free space";
    let gib = facts.free_bytes / GIB;
    let mend = format!("du -xh --max-depth=2 {} | sort -h | tail", facts.existing);
    match facts.free_bytes {
        0..GIB => wrong(check, format!("{} MiB", facts.free_bytes / MIB), mend),
        free if free < 20 * GIB => poor(check, format!("{gib} GiB; compaction needs space"), mend),
        _ => fine(check, format!("{gib} GiB")),
    }
}

fn files(facts: &Facts) -> Finding {
    let check = "open files";
    let mend = "echo 'nereid - nofile 800000' > /etc/security/limits.d/nereid.conf";
    match facts.files {
        None => fine(check, "unlimited"),
        Some(count @ 200_000..) => fine(check, count.to_string()),
        Some(count @ 10_000..) => {
            poor(check, format!("{count}; at least 200000 recommended"), mend)
        }
        Some(count) => wrong(check, format!("{count}; at least 200000 recommended"), mend),
    }
}

/// What rings share with the kernel counts on kernels before 5.12.
fn locked(facts: &Facts, wants: &Wants) -> Finding {
    let check = "locked memory";
    let needed = wants.shards * MIB;
    let mend = "echo 'nereid - memlock unlimited' >> /etc/security/limits.d/nereid.conf";
    let counts = release(&facts.kernel).is_some_and(|version| version < (5, 12));
    match facts.locked_bytes {
        Some(bytes) if bytes < needed && counts => {
            poor(check, format!("{} KiB; io_uring needs {}", bytes / 1024, needed / 1024), mend)
        }
        Some(bytes) => fine(check, format!("{} KiB", bytes / 1024)),
        None => fine(check, "unlimited"),
    }
}

/// A parameter of the kernel that should be at least so high.
fn at_least(check: &'static str, found: Option<u64>, least: u64, key: &str) -> Finding {
    match found {
        Some(value) if value < least => {
            let text = format!("{key} is {value}; at least {least} recommended");
            poor(check, text, format!("sysctl -w {key}={least}"))
        }
        Some(value) => fine(check, format!("{key} is {value}")),
        None => fine(check, "unknown"),
    }
}

fn map_count(facts: &Facts) -> Finding {
    at_least("mappings", facts.map_count, 262_144, "vm.max_map_count")
}

fn backlog(facts: &Facts) -> Finding {
    at_least("listen backlog", facts.backlog, 1024, "net.core.somaxconn")
}

/// Requests to the disk: by io_uring, or by the kernel's older interface.
fn requests(facts: &Facts, wants: &Wants) -> Vec<Finding> {
    let check = "io_uring";
    let ring = match facts.io_uring_disabled {
        Some(0) => fine(check, "allowed"),
        None if release(&facts.kernel).is_some_and(|version| (5, 15) <= version) => {
            fine(check, "allowed")
        }
        None => fine(check, "unknown; epoll is used if it is not available"),
        Some(level) => {
            let text = format!("kernel.io_uring_disabled is {level}; epoll is used instead");
            poor(check, text, "sysctl -w kernel.io_uring_disabled=0")
        }
    };
    let needed = wants.shards * 11_000;
    let aio = match (facts.aio_max, facts.aio_used) {
        (Some(most), Some(used)) if most.saturating_sub(used) < needed => {
            let text =
                format!("{used} of {most} requests are in use; the shards may need {needed}");
            let most = (used + needed).next_power_of_two().max(1 << 20);
            poor("aio", text, format!("sysctl -w fs.aio-max-nr={most}"))
        }
        (Some(most), Some(used)) => fine("aio", format!("{used} of {most} requests are in use")),
        _ => fine("aio", "unknown"),
    };
    vec![ring, aio]
}

fn swap(facts: &Facts) -> Finding {
    let check = "swap";
    let gib = facts.swap_bytes / GIB;
    match (facts.swap_bytes, facts.swappiness) {
        (0, _) => {
            let mend = "fallocate -l 4G /swapfile && chmod 600 /swapfile && mkswap /swapfile && \
                        swapon /swapfile";
            poor(check, "none: the kernel kills processes when memory runs out", mend)
        }
        (_, Some(value @ 11..)) => {
            let text = format!("{gib} GiB, and vm.swappiness is {value}");
            poor(check, text, "sysctl -w vm.swappiness=1")
        }
        _ => fine(check, format!("{gib} GiB")),
    }
}

fn huge_pages(facts: &Facts) -> Finding {
    let check = "transparent huge pages";
    let mend = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    match facts.huge_pages.as_str() {
        "always" => poor(check, "always: latency spikes, and memory that is not returned", mend),
        "" => fine(check, "unknown"),
        word => fine(check, word),
    }
}

fn clock(facts: &Facts) -> Finding {
    let check = "clock source";
    let folder = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let now = facts.clock_source.as_str();
    let fast = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
    let better = fast.iter().find(|name| facts.clock_sources.iter().any(|known| known == **name));
    match better {
        _ if fast.contains(&now) => fine(check, now),
        Some(name) => {
            let text = format!("{now}: slow to read; {name} is available");
            poor(check, text, format!("echo {name} > {folder}"))
        }
        None if now.is_empty() => fine(check, "unknown"),
        None => fine(check, format!("{now}; there is no better one")),
    }
}

fn governor(facts: &Facts) -> Finding {
    let check = "processor";
    let slow = facts.governors.iter().find(|word| *word != "performance");
    match slow {
        Some(word) => {
            let mend = "cpupower frequency-set -g performance";
            poor(check, format!("governor {word}: cores are slow at first"), mend)
        }
        None if facts.governors.is_empty() => fine(check, "not configurable"),
        None => fine(check, "governor performance"),
    }
}

fn scheduler(disk: &Disk) -> Finding {
    let check = "disk";
    let Disk { name, scheduler, schedulers, is_rotating } = disk;
    let has = |word: &str| schedulers.iter().any(|known| known == word);
    let file = format!("/sys/block/{name}/queue/scheduler");
    if *is_rotating && !name.starts_with("vd") {
        return poor(
            check,
            format!("{name} has rotating disks, or says so"),
            format!("echo 0 > /sys/block/{name}/queue/rotational  # if it is an SSD"),
        );
    }
    match scheduler.as_str() {
        "" | "none" | "noop" => fine(check, format!("{name} without a scheduler")),
        other if has("none") => poor(
            check,
            format!("{name} with {other}: none is faster"),
            format!("echo none > {file}"),
        ),
        other => fine(check, format!("{name} with {other}")),
    }
}

fn addresses(facts: &Facts) -> Vec<Finding> {
    let mut foreign = facts.foreign.clone();
    foreign.sort();
    foreign.dedup();
    let found = foreign.into_iter().map(|address| {
        let mend = "ip -brief address  # one of these";
        wrong("address", format!("{address} is not an address of this machine"), mend)
    });
    found.collect()
}

fn ports(facts: &Facts, wants: &Wants) -> Vec<Finding> {
    let mut found = Vec::new();
    for (option, address) in &wants.listeners {
        let Some((_, why)) = facts.taken.iter().find(|(taken, _)| taken == address) else {
            continue;
        };
        if facts.foreign.contains(&address.ip()) {
            continue;
        }
        let mend = format!("ss -ltnp 'sport = :{}'  # who has it", address.port());
        found.push(wrong("port", format!("{option}: {address}: {why}"), mend));
    }
    if found.is_empty() && !wants.listeners.is_empty() {
        let all = wants.listeners.iter().map(|(_, address)| address.port().to_string());
        found.push(fine("ports", format!("{} are free", all.collect::<Vec<_>>().join(", "))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that is as it should be.
    fn good() -> Facts {
        Facts {
            kernel: "6.1.0-21-amd64".to_owned(),
            cores: 4,
            memory_bytes: 16 * GIB,
            swap_bytes: 4 * GIB,
            swappiness: Some(1),
            huge_pages: "madvise".to_owned(),
            clock_source: "tsc".to_owned(),
            clock_sources: vec!["tsc".to_owned(), "hpet".to_owned()],
            governors: vec!["performance".to_owned()],
            files: Some(800_000),
            locked_bytes: None,
            aio_max: Some(1 << 20),
            aio_used: Some(0),
            io_uring_disabled: Some(0),
            map_count: Some(1 << 20),
            backlog: Some(4096),
            folder: "/var/lib/nereid".to_owned(),
            existing: "/var/lib/nereid".to_owned(),
            is_writable: true,
            file_system: "xfs".to_owned(),
            free_bytes: 100 * GIB,
            disk: Some(Disk {
                name: "nvme0n1".to_owned(),
                scheduler: "none".to_owned(),
                schedulers: vec!["none".to_owned(), "mq-deadline".to_owned()],
                is_rotating: false,
            }),
            taken: Vec::new(),
            foreign: Vec::new(),
        }
    }

    fn wants() -> Wants {
        let address = "127.0.0.1:9042".parse().expect("an address");
        let listeners = vec![("native_transport_port", address)];
        Wants { shards: 4, memory_bytes: 12 * GIB, listeners }
    }

    /// What is not fine about a host that differs from the good one so.
    fn check(change: impl Fn(&mut Facts), expected: &[&str]) {
        let mut facts = good();
        change(&mut facts);
        let found = findings(&facts, &wants());
        let bad = found.iter().filter(|it| it.verdict != Verdict::Fine).map(|it| {
            let mend = it.mend.as_deref().unwrap_or("nothing");
            format!("{} {}: {} => {mend}", it.verdict.name(), it.check, it.found)
        });
        assert_eq!(bad.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_good_host_is_fine() {
        check(|_| (), &[]);
    }

    #[test]
    fn limits_and_parameters() {
        check(
            |it| it.kernel = "4.9.1".to_owned(),
            &["wrong kernel: 4.9.1: 4.14 or newer is needed => apt-get install --only-upgrade \
               linux-image-amd64 && reboot"],
        );
        check(
            |it| it.files = Some(1024),
            &["wrong open files: 1024; at least 200000 recommended => echo 'nereid - nofile \
                 800000' > \
               /etc/security/limits.d/nereid.conf"],
        );
        check(|it| it.files = None, &[]);
        check(
            |it| (it.kernel, it.locked_bytes) = ("5.4.0".to_owned(), Some(65_536)),
            &[
                "poor kernel: 5.4.0: io_uring is used from 5.15 on => apt-get install \
                 --only-upgrade linux-image-amd64 && reboot",
                "poor locked memory: 64 KiB; io_uring needs 4096 => echo 'nereid - memlock \
                 unlimited' >> /etc/security/limits.d/nereid.conf",
            ],
        );
        check(|it| it.locked_bytes = Some(65_536), &[]);
        check(
            |it| it.map_count = Some(65_530),
            &["poor mappings: vm.max_map_count is 65530; at least 262144 recommended => sysctl \
                 -w \
               vm.max_map_count=262144"],
        );
        check(
            |it| it.backlog = Some(128),
            &["poor listen backlog: net.core.somaxconn is 128; at least 1024 recommended => \
                 sysctl -w \
               net.core.somaxconn=1024"],
        );
        check(
            |it| it.io_uring_disabled = Some(2),
            &["poor io_uring: kernel.io_uring_disabled is 2; epoll is used instead => sysctl -w \
               kernel.io_uring_disabled=0"],
        );
        check(
            |it| it.aio_used = Some((1 << 20) - 5),
            &["poor aio: 1048571 of 1048576 requests are in use; the shards may need 44000 => \
               sysctl -w fs.aio-max-nr=2097152"],
        );
    }

    #[test]
    fn memory_and_processor() {
        check(
            |it| it.memory_bytes = 8 * GIB,
            &["wrong memory: the node wants 12288 MiB, the machine has 8192 => nereid \
               --memory 6552M"],
        );
        check(|it| it.cores = 2, &["poor memory: 4 shards on 2 cores => nereid --smp 2"]);
        check(
            |it| it.swap_bytes = 0,
            &["poor swap: none: the kernel kills processes when memory runs out => fallocate \
               -l 4G /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile"],
        );
        check(
            |it| it.swappiness = Some(60),
            &["poor swap: 4 GiB, and vm.swappiness is 60 => sysctl -w vm.swappiness=1"],
        );
        check(
            |it| it.huge_pages = "always".to_owned(),
            &["poor transparent huge pages: always: latency spikes, and memory that is not \
                 returned => \
               echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"],
        );
        check(
            |it| it.clock_source = "hpet".to_owned(),
            &["poor clock source: hpet: slow to read; tsc is available => echo tsc > \
               /sys/devices/system/clocksource/clocksource0/current_clocksource"],
        );
        check(
            |it| it.governors = vec!["performance".to_owned(), "powersave".to_owned()],
            &["poor processor: governor powersave: cores are slow at first => cpupower \
               frequency-set -g performance"],
        );
        check(|it| it.governors = Vec::new(), &[]);
    }

    #[test]
    fn disks_and_folders() {
        check(
            |it| it.is_writable = false,
            &["wrong folder: /var/lib/nereid cannot be written => chown -R nereid:nereid \
               /var/lib/nereid"],
        );
        check(
            |it| (it.is_writable, it.existing) = (false, "/var/lib".to_owned()),
            &["wrong folder: /var/lib/nereid cannot be created in /var/lib => install -d -o \
                 nereid \
               -g nereid -m 750 /var/lib/nereid"],
        );
        check(|it| it.existing = "/var/lib".to_owned(), &[]);
        let mkfs = "mkfs.xfs /dev/nvme0n1  # this erases it; then mount it at /var/lib/nereid";
        check(
            |it| it.file_system = "tmpfs".to_owned(),
            &[&format!("wrong file system: tmpfs: data is lost when the machine stops => {mkfs}")],
        );
        check(
            |it| it.file_system = "btrfs".to_owned(),
            &[&format!("poor file system: btrfs: xfs and ext4 write without waiting => {mkfs}")],
        );
        check(
            |it| it.free_bytes = 5 * GIB,
            &["poor free space: 5 GiB; compaction needs space => du -xh --max-depth=2 \
                 /var/lib/nereid \
               | sort -h | tail"],
        );
        let scheduler = |it: &mut Facts| {
            it.disk.as_mut().expect("a disk").scheduler = "mq-deadline".to_owned();
        };
        check(
            scheduler,
            &["poor disk: nvme0n1 with mq-deadline: none is faster => echo none > \
               /sys/block/nvme0n1/queue/scheduler"],
        );
        check(|it| it.disk = None, &[]);
    }

    #[test]
    fn addresses_and_ports() {
        let mine: SocketAddr = "127.0.0.1:9042".parse().expect("an address");
        check(
            |it| it.taken = vec![(mine, "address in use".to_owned())],
            &["wrong port: native_transport_port: 127.0.0.1:9042: address in use => ss -ltnp \
               'sport = :9042'  # who has it"],
        );
        check(
            |it| {
                it.foreign = vec![mine.ip(); 3];
                it.taken = vec![(mine, "address not available".to_owned())];
            },
            &["wrong address: 127.0.0.1 is not an address of this machine => ip -brief address  \
               # one of these"],
        );
    }

    #[test]
    fn nothing_known_is_nothing_wrong() {
        let facts = Facts { is_writable: true, free_bytes: 100 * GIB, ..Facts::default() };
        let found = findings(&facts, &wants());
        let wrong = found.iter().find(|it| it.verdict == Verdict::Wrong);
        // No limit is the best of limits.
        assert_eq!(wrong, None);
    }
}
