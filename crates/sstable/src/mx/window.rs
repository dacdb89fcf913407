//! A stretch of a file, read forward: what is loaded of it, and how much is loaded next.
//!
//! Invariants
//!  - *exact*: nothing past the end of the stretch is read.

use crate::compress::data::ReadFile;
use reader::ReadError;
use runtime::io::IoClass;
use std::rc::Rc;

/// A stretch up to this long is read at once.
const WHOLE_BYTES: u64 = 64 << 10;
/// The first read of a longer one, and the most that a later one reads ahead.
const STEP_BYTES: std::ops::RangeInclusive<u64> = (16 << 10)..=(256 << 10);

/// See the module.
#[derive(Debug)]
pub struct Window {
    file: Rc<ReadFile>,
    class: IoClass,
    buf: Vec<u8>,
    /// What of `buf` is consumed.
    at: usize,
    /// The position behind `buf`.
    loaded: u64,
    end: u64,
    step: u64,
}

impl Window {
    /// An empty stretch.
    pub fn new(file: Rc<ReadFile>, class: IoClass) -> Window {
        Window { file, class, buf: Vec::new(), at: 0, loaded: 0, end: 0, step: 0 }
    }

    /// Goes to another stretch.
    pub fn reset(&mut self, start: u64, end: u64) {
        assert!(start <= end && end <= self.file.len(), "a stretch past the end of the file");
        self.buf.clear();
        self.at = 0;
        self.loaded = start;
        self.end = end;
        self.step = if end - start <= WHOLE_BYTES { WHOLE_BYTES } else { *STEP_BYTES.start() };
    }

    /// What the first read of the present stretch takes at least.
    pub fn set_step(&mut self, step: u64) {
        self.step = step;
    }

    /// Bytes of the buffer.
    pub fn memory_bytes(&self) -> usize {
        self.buf.capacity()
    }
    /// The file.
    pub fn file(&self) -> &ReadFile {
        &self.file
    }
    /// What is loaded and not consumed.
    pub fn rest(&self) -> &[u8] {
        &self.buf[self.at..]
    }
    /// Where `rest` starts.
    pub fn position(&self) -> u64 {
        self.loaded - (self.buf.len() - self.at) as u64
    }
    /// Bytes between `position` and the end of the stretch.
    pub fn remaining(&self) -> u64 {
        self.end - self.position()
    }
    /// Whether all of the stretch is loaded.
    pub fn is_loaded(&self) -> bool {
        self.loaded == self.end
    }
    /// Consumes `count` bytes of `rest`.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.buf.len() - self.at, "more consumed than loaded");
        self.at += count;
    }

    /// Goes forward by `count` bytes of the stretch, loaded or not.
    pub fn skip(&mut self, count: u64) {
        assert!(count <= self.remaining(), "a skip past the end of the stretch");
        let here = (self.buf.len() - self.at) as u64;
        if count <= here {
            self.at += count as usize;
        } else {
            self.loaded += count - here;
            self.buf.clear();
            self.at = 0;
        }
    }

    /// Loads such that `rest` has at least `want` bytes, or all there are.
    pub async fn load(&mut self, want: usize) -> Result<(), ReadError> {
        let here = self.buf.len() - self.at;
        if want <= here || self.is_loaded() {
            return Ok(());
        }
        self.buf.drain(..self.at);
        self.at = 0;
        let more = ((want - here) as u64).max(self.step);
        let end = self.file.round_up(self.loaded.saturating_add(more)).min(self.end);
        self.step = (self.step * 2).min(*STEP_BYTES.end());
        let range = self.loaded..end;
        self.file.read(self.class, range, &mut self.buf).await?;
        self.loaded = end;
        Ok(())
    }
}
