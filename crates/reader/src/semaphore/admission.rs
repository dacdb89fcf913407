//! Whether a read may go on: a decision over figures.

/// The limits of a semaphore. All may change while it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Reads that are admitted at the same time.
    pub count: usize,
    /// Memory of all reads, in bytes.
    pub memory_bytes: usize,
    /// And what can be borrowed beside it of a [`super::Pool`].
    pub shared_bytes: usize,
    /// Reads that wait to be admitted; more are refused.
    pub queue_max: usize,
    /// From this multiple of the memory on one read at a time gets more.
    pub serialize_multiplier: Option<u32>,
    /// From this multiple of the memory on reads that want more are ended.
    pub kill_multiplier: Option<u32>,
    /// Admitted reads that want the processor, beyond which none is admitted.
    pub cpu_concurrency: usize,
    /// A read is shed rather than admitted when no more than this part of its time is left.
    pub preemptive_abort_factor: f64,
}

/// What an admitted read is charged at first.
pub const BASE_BYTES: usize = 128 << 10;

const _: () = assert!(0 < BASE_BYTES && BASE_BYTES < 1 << 20);

impl Limits {
    /// For the reads of clients, on a shard with so much memory.
    pub fn user(shard_bytes: usize) -> Limits {
        let memory_bytes = shard_bytes / 50;
        Limits {
            count: 100,
            memory_bytes,
            shared_bytes: 0,
            queue_max: (memory_bytes / 1000).max(1),
            serialize_multiplier: Some(2),
            kill_multiplier: Some(4),
            cpu_concurrency: 2,
            preemptive_abort_factor: 0.3,
        }
    }

    /// For the node's own reads: few, never refused.
    pub fn system(shard_bytes: usize) -> Limits {
        Limits {
            count: 10,
            memory_bytes: shard_bytes / 50,
            shared_bytes: 0,
            queue_max: usize::MAX,
            serialize_multiplier: None,
            kill_multiplier: None,
            cpu_concurrency: 1,
            preemptive_abort_factor: 0.0,
        }
    }

    /// For the node's own reads while it boots, when many wait for the disk and clients for all.
    pub fn booting(shard_bytes: usize) -> Limits {
        Limits { count: 100, ..Limits::system(shard_bytes) }
    }

    /// The same, but for a part of the memory that is to be borrowed of a pool.
    pub fn sharing(self, fraction: f64) -> Limits {
        let shared_bytes = (self.memory_bytes as f64 * fraction.clamp(0.0, 1.0)) as usize;
        debug_assert!(shared_bytes <= self.memory_bytes, "{shared_bytes} bytes are shared");
        Limits { memory_bytes: self.memory_bytes - shared_bytes, shared_bytes, ..self }
    }

    /// For streaming, repair and tools.
    pub fn streaming(shard_bytes: usize) -> Limits {
        Limits::system(shard_bytes)
    }

    /// For reads that writing to materialized views needs.
    pub fn view_update(shard_bytes: usize) -> Limits {
        let user = Limits::user(shard_bytes);
        Limits { count: 50, memory_bytes: shard_bytes / 100, cpu_concurrency: 1, ..user }
    }

    /// What an admitted read is charged at first: never more than there is.
    pub fn base_bytes(&self) -> i64 {
        (self.memory_bytes + self.shared_bytes).min(BASE_BYTES) as i64
    }
    /// From how many bytes on one read at a time gets more.
    pub fn serialize_bytes(&self) -> i64 {
        self.multiple(self.serialize_multiplier)
    }
    /// From how many bytes on reads that want more are ended.
    pub fn kill_bytes(&self) -> i64 {
        self.multiple(self.kill_multiplier)
    }

    fn multiple(&self, multiplier: Option<u32>) -> i64 {
        let memory = (self.memory_bytes + self.shared_bytes) as i64;
        debug_assert!(0 <= memory, "memory of {memory} bytes");
        multiplier.map_or(i64::MAX, |multiplier| memory.saturating_mul(multiplier as i64))
    }
}

/// What a decision looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Units of count that nobody holds; negative after the limit was lowered.
    pub count_free: i64,
    /// Bytes that nobody holds, those that can be borrowed with them; negative when more are held
    /// than there are.
    pub memory_free: i64,
    /// Bytes that are held, but for what can be borrowed still.
    pub consumed: i64,
    /// Reads that were admitted and have not gone on yet, and how many there may be.
    pub ready: u32,
    pub ready_max: u32,
    /// Admitted reads that want the processor, and those of them that wait for something else.
    pub need_cpu: u32,
    pub awaits: u32,
    /// How many may wait, as the disk can do.
    pub awaits_max: usize,
    /// Whether there are inactive reads, which can be evicted.
    pub has_inactive: bool,
    /// Whether a read has the privilege.
    pub has_privileged: bool,
}

/// Who wants to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// One that waits to be admitted.
    New,
    /// An admitted one that waits for more memory.
    Memory,
}

/// What stands in a read's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    ReadyList,
    NeedCpu,
    Disk,
    Memory,
    Count,
}

/// What becomes of the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Admit,
    /// Inactive reads are evicted, then it is asked again.
    Evict(Reason),
    Wait(Reason),
}

/// Decides about the head of the queue.
pub fn decide(limits: &Limits, load: &Load, candidate: Candidate) -> Verdict {
    if load.memory_free < 0 {
        if limits.kill_bytes() <= load.consumed {
            return out_of(Reason::Memory, load);
        }
        let waits = candidate == Candidate::New || load.has_privileged;
        if limits.serialize_bytes() <= load.consumed && waits {
            return out_of(Reason::Memory, load);
        }
    }
    if candidate == Candidate::Memory {
        return Verdict::Admit;
    }
    if load.ready_max <= load.ready {
        return Verdict::Wait(Reason::ReadyList);
    }
    if limits.cpu_concurrency <= load.need_cpu.saturating_sub(load.awaits) as usize {
        return Verdict::Wait(Reason::NeedCpu);
    }
    if load.awaits_max <= (load.awaits + load.ready) as usize {
        return Verdict::Wait(Reason::Disk);
    }
    if load.memory_free < limits.base_bytes() {
        return out_of(Reason::Memory, load);
    }
    if load.count_free < 1 {
        return out_of(Reason::Count, load);
    }
    debug_assert!(0 <= load.memory_free && load.ready < load.ready_max, "fifo: {load:?}");
    Verdict::Admit
}

fn out_of(reason: Reason, load: &Load) -> Verdict {
    if load.has_inactive { Verdict::Evict(reason) } else { Verdict::Wait(reason) }
}
