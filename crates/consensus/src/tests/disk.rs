//! A log in a file of the simulated disk: a record a change, with its checksum.

use crate::entry::{Cut, Entry};
use crate::traits::{Change, Failed, Hard, Loaded, Local, Log};
use runtime::io::{AlignedBuf, File, IoClass, OpenOptions, fs};
use std::cell::{Cell, RefCell};
use stdx::{Cursor, Damaged, Put};

const PATH: &str = "/raft/log";
/// The file is written anew when it is larger.
const FILE_BYTES_MAX: u64 = 64 << 10;

pub(super) struct DiskLog {
    file: RefCell<Option<File>>,
    end: Cell<u64>,
    now: RefCell<Loaded>,
}

impl DiskLog {
    pub(super) fn new() -> DiskLog {
        DiskLog { file: RefCell::default(), end: Cell::new(0), now: RefCell::default() }
    }
}

fn failed(error: impl std::fmt::Display) -> Failed {
    Failed(error.to_string())
}

fn encode(change: &Change) -> Vec<u8> {
    let mut body = Vec::new();
    for cut in [&change.staged, &change.install, &change.cut] {
        body.put_u8(cut.is_some() as u8);
        cut.iter().for_each(|cut| cut.encode(&mut body));
    }
    body.put_u8(change.hard.is_some() as u8);
    if let Some(hard) = change.hard {
        [hard.term, hard.vote, hard.commit].iter().for_each(|word| body.put_u64(*word));
    }
    body.put_u32(change.entries.len() as u32);
    change.entries.iter().for_each(|entry| entry.encode(&mut body));
    let mut out = Vec::new();
    out.put_u32(body.len() as u32);
    out.put_u32(stdx::checksum::crc32(&body));
    out.put(&body);
    out
}

fn decode(cursor: &mut Cursor<'_>) -> Result<Change, Damaged> {
    let len = cursor.u32("length")?;
    let sum = cursor.u32("checksum")?;
    let body = cursor.take(len as usize, "body")?;
    if stdx::checksum::crc32(body) != sum || body.is_empty() {
        return Err(cursor.damaged("torn"));
    }
    let mut body = Cursor::new(body);
    let mut cuts = [None, None, None];
    for cut in &mut cuts {
        if body.u8("cut")? == 1 {
            *cut = Some(Cut::decode(&mut body)?);
        }
    }
    let [staged, install, cut] = cuts;
    let mut hard = None;
    if body.u8("hard")? == 1 {
        let (term, vote) = (body.u64("term")?, body.u64("vote")?);
        hard = Some(Hard { term, vote, commit: body.u64("commit")? });
    }
    let count = body.u32("entries")?;
    let entries = (0..count).map(|_| Entry::decode(&mut body)).collect::<Result<_, _>>()?;
    Ok(Change { staged, install, entries, hard, cut })
}

/// What a log has after a change.
fn fold(into: &mut Loaded, change: &Change) {
    into.staged = change.staged.clone();
    if let Some(cut) = &change.install {
        into.cut = Some(cut.clone());
        into.entries.clear();
    }
    if let Some(first) = change.entries.first() {
        into.entries.retain(|entry| entry.index < first.index);
        into.entries.extend(change.entries.iter().cloned());
    }
    if let Some(hard) = change.hard {
        into.hard = hard;
    }
    if let Some(cut) = &change.cut {
        into.cut = Some(cut.clone());
        into.entries.retain(|entry| cut.index < entry.index);
    }
}

/// All of a log as one record.
fn whole(loaded: &Loaded) -> Vec<u8> {
    encode(&Change {
        staged: loaded.staged.clone(),
        install: loaded.cut.clone(),
        entries: loaded.entries.clone(),
        hard: Some(loaded.hard),
        cut: None,
    })
}

impl DiskLog {
    async fn open(&self) -> Result<Loaded, Failed> {
        fs::create_dir_all("/raft").await.map_err(failed)?;
        fs::sync_dir("/").await.map_err(failed)?;
        let mut loaded = Loaded::default();
        if fs::exists(PATH).await.map_err(failed)? {
            let bytes = fs::read_file(PATH).await.map_err(failed)?;
            let mut cursor = Cursor::new(&bytes);
            while let Ok(change) = decode(&mut cursor) {
                fold(&mut loaded, &change);
            }
        }
        self.write_anew(&loaded).await?;
        *self.now.borrow_mut() = loaded.clone();
        Ok(loaded)
    }

    async fn write_anew(&self, loaded: &Loaded) -> Result<(), Failed> {
        let bytes = whole(loaded);
        fs::write_file_atomic(PATH, &bytes).await.map_err(failed)?;
        let options = OpenOptions::read_write().buffered();
        let file = File::open(PATH, options).await.map_err(failed)?;
        *self.file.borrow_mut() = Some(file);
        self.end.set(bytes.len() as u64);
        Ok(())
    }

    async fn append(&self, change: &Change) -> Result<(), Failed> {
        let mut now = self.now.borrow().clone();
        fold(&mut now, change);
        if FILE_BYTES_MAX < self.end.get() {
            self.write_anew(&now).await?;
        } else {
            let bytes = encode(change);
            let file = self.file.borrow().clone();
            let file = file.ok_or_else(|| failed("not loaded"))?;
            let buf = AlignedBuf::copy_from(&bytes);
            file.write_at(IoClass::System, self.end.get(), buf).await.map_err(failed)?;
            file.fdatasync(IoClass::System).await.map_err(failed)?;
            self.end.set(self.end.get() + bytes.len() as u64);
        }
        *self.now.borrow_mut() = now;
        Ok(())
    }
}

impl Log for DiskLog {
    fn load(&self) -> Local<'_, Result<Loaded, Failed>> {
        Box::pin(self.open())
    }

    fn write<'a>(&'a self, change: &'a Change) -> Local<'a, Result<(), Failed>> {
        Box::pin(self.append(change))
    }
}
