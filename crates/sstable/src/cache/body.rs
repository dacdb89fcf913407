//! What is in the cache under the name of a page: its content, or the load that will bring it.

use super::PAGE_BYTES;
use super::partition_page::PartitionPage;
use reader::ReadError;
use runtime::io::DmaBuf;
use runtime::sync::Notify;
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PageKind {
    /// 4096 bytes of a file.
    File,
    /// A parsed page of a partition index.
    Partitions,
}

/// What is in a slot.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// Somebody loads it.
    Loading(Rc<Load>),
    /// Bytes of a file.
    File(Rc<PageBytes>),
    /// A page of a partition index.
    Partitions(Rc<PartitionPage>),
}

/// A load under way.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(super) ended: Notify,
    /// Why it failed. A load that was given up leaves nothing.
    pub(super) error: RefCell<Option<ReadError>>,
}

impl Load {
    /// Waits until it ended, well (the page may be there), given up (it is not) or with an error.
    pub(crate) async fn ended(&self) -> Result<(), ReadError> {
        self.ended.notified().await;
        self.error.borrow().clone().map_or(Ok(()), Err)
    }
}

/// The bytes of a page, as they came from the disk or cut out of a longer request.
pub(crate) enum PageBytes {
    Read(DmaBuf),
    Cut(Box<[u8]>),
}

impl PageBytes {
    /// A page that was read alone: what takes less than half of its buffer leaves that.
    pub(super) fn of(buf: DmaBuf) -> PageBytes {
        debug_assert!(buf.len() <= PAGE_BYTES as usize, "accounted: a page of {} bytes", buf.len());
        match buf.len() <= PAGE_BYTES as usize / 2 {
            true => PageBytes::Cut((&*buf).into()),
            false => PageBytes::Read(buf),
        }
    }

    /// Bytes of memory it takes: a page's buffer is a page, however short the page.
    pub(super) fn memory_bytes(&self) -> usize {
        debug_assert!(self.len() <= PAGE_BYTES as usize, "accounted: a page of {}", self.len());
        let beside = std::mem::size_of::<PageBytes>() + 2 * std::mem::size_of::<usize>();
        beside
            + match self {
                PageBytes::Read(_) => PAGE_BYTES as usize,
                PageBytes::Cut(bytes) => bytes.len(),
            }
    }
}

impl Deref for PageBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            PageBytes::Read(buf) => buf,
            PageBytes::Cut(bytes) => bytes,
        }
    }
}

impl fmt::Debug for PageBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageBytes({})", self.len())
    }
}
