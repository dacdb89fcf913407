//! Compacting a stream: what covers what, what expired, what may be purged; and, for queries, the
//! limits that end a page. Pure: fragments in, fragments (or a page) out.
