use super::*;
use std::collections::BTreeSet;

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// A disk with one durable file `f` of `len` bytes of 1.
fn one_file(len: usize) -> (SimDisk, Inode) {
    let mut disk = SimDisk::new();
    let inode = disk.open(path("f"), libc::O_CREAT).unwrap();
    disk.write(inode, 0, &vec![1; len], 0).unwrap();
    disk.sync_all();
    (disk, inode)
}

#[test]
fn what_was_synced_survives_and_the_rest_takes_every_shape() {
    let mut shapes = BTreeSet::new();
    for seed in 0..200 {
        let (mut disk, inode) = one_file(1024);
        disk.write(inode, 0, &[2; 1024], 0).unwrap();
        disk.crash(&mut Prng::from_seed(seed));
        let content = disk.read(inode, 0, 4096);
        assert_eq!(content.len(), 1024);
        for sector in content.chunks(512) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "torn within a sector");
        }
        shapes.insert((content[0], content[512]));
    }
    assert_eq!(shapes, BTreeSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
}

#[test]
fn a_sync_covers_what_was_there_when_it_began() {
    let mut later_kept = BTreeSet::new();
    for seed in 0..100 {
        let (mut disk, inode) = one_file(1);
        disk.write(inode, 0, &[2], 0).unwrap();
        let mark = disk.sync_mark(inode);
        disk.write(inode, 1, &[3], 0).unwrap();
        disk.sync(inode, mark);
        disk.crash(&mut Prng::from_seed(seed));
        let content = disk.read(inode, 0, 10).to_vec();
        assert_eq!(content[0], 2);
        later_kept.insert(content.len());
    }
    assert_eq!(later_kept, BTreeSet::from([1, 2]));
}

#[test]
fn names_survive_with_their_directory() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let mut disk = SimDisk::new();
        let mut run = |op| disk.perform(&op).unwrap().unwrap();
        run(FsOp::CreateDirAll("d".into()));
        run(FsOp::SyncDir("/".into()));
        let mut open = |name| disk.open(path(name), libc::O_CREAT).unwrap();
        let (kept, _) = (open("d/kept"), open("d/old"));
        disk.perform(&FsOp::SyncDir("d".into())).unwrap().unwrap();
        disk.perform(&FsOp::Rename("d/old".into(), "d/new".into())).unwrap().unwrap();
        disk.crash(&mut Prng::from_seed(seed));
        assert_eq!(disk.find_file(path("d/kept")), Some(kept));
        seen.insert(disk.files());
    }
    let lists = [["/d/kept", "/d/new"], ["/d/kept", "/d/old"]];
    assert_eq!(seen, lists.map(|list| list.map(String::from).to_vec()).into());
}

#[test]
fn a_failed_sync_is_not_made_good_by_the_next() {
    let mut lost = false;
    for seed in 0..50 {
        let mut prng = Prng::from_seed(seed);
        let (mut disk, inode) = one_file(1);
        disk.write(inode, 0, &[2], 0).unwrap();
        disk.sync_failed(inode, disk.sync_mark(inode), &mut prng);
        disk.sync(inode, disk.sync_mark(inode));
        disk.crash(&mut prng);
        lost |= disk.read(inode, 0, 1) == [1];
    }
    assert!(lost);
}

#[test]
fn a_full_disk_refuses_growth_alone() {
    let (mut disk, inode) = one_file(100);
    disk.capacity = Some(150);
    assert_eq!(disk.write(inode, 0, &[0; 150], 0), Ok(150));
    assert_eq!(disk.write(inode, 150, &[0; 1], 0), Err(libc::ENOSPC));
    assert_eq!(disk.write(inode, 0, &[0; 10], 0), Ok(10));
}

#[test]
fn an_edit_is_not_undone_by_what_is_pending() {
    for seed in 0..50 {
        let (mut disk, inode) = one_file(10);
        disk.allocate(inode, 20).unwrap();
        disk.edit(inode, |bytes| bytes.truncate(5));
        assert_eq!(disk.len(inode), 5);
        disk.crash(&mut Prng::from_seed(seed));
        assert_eq!(disk.len(inode), 5, "seed {seed}");
    }
}
