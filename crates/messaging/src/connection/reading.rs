//! The reading loop: from frames to those whom they concern.

use super::{Connection, Facts, Side};
use crate::budget::{OVERHEAD_BYTES, Purse};
use crate::calls::Reply;
use crate::compress;
use crate::config::Planted;
use crate::counters::add;
use crate::error::{CallError, Down, Lost, Refusal, Refused};
use crate::frame::{BODY_BYTES_MAX, Code, Header, Kind};
use crate::hello::text_of;
use crate::intake::{Ended, Intake};
use crate::outbox::CHUNK_BYTES_MAX;
use crate::streams::FAILURE_BYTES_MAX;
use runtime::sync::Permit;
use runtime::time::Instant;
use std::rc::Rc;
use stdx::Damaged;

/// The loop looks at the clock after so many frames.
const FRAMES_PER_LOOK: u64 = 8;

const _: () = assert!(CHUNK_BYTES_MAX <= BODY_BYTES_MAX, "length-first: no frame has such a piece");
const _: () = assert!(OVERHEAD_BYTES < CHUNK_BYTES_MAX, "a message costs less than its bytes");

/// A frame was taken; why the connection ends, if it does.
struct Taken(Option<Down>);

impl Connection {
    /// Reads until the connection ends.
    pub(super) async fn read_all(self: &Rc<Self>) -> Down {
        let mut intake = Intake::new(self.early.take());
        for count in 1u64.. {
            if count.is_multiple_of(FRAMES_PER_LOOK) {
                runtime::task::yield_if_needed().await;
            }
            let read = match self.read_here(&mut intake) {
                Ok(None) => {
                    let read = self.read_one(&mut intake).await;
                    add(&self.services.tally.received_bytes, intake.take_received());
                    read
                }
                Ok(Some(Taken(down))) => Ok(down),
                Err(damaged) => Err(damaged),
            };
            match read {
                Ok(None) => {}
                Ok(Some(down)) => return down,
                Err(Ended::Damaged(damaged)) => {
                    let refused = Refused::new(Refusal::Damaged, damaged.to_string());
                    self.services.complain(&self.who(), &refused, true);
                    return Down::RefusedByUs(refused);
                }
                Err(ended) => return Down::Net(ended.to_string()),
            }
        }
        unreachable!("a connection has fewer frames")
    }

    /// Does what the next frame says, if it is here whole and nothing has to be waited for: of many
    /// that came together each is a few calls.
    fn read_here(self: &Rc<Self>, intake: &mut Intake) -> Result<Option<Taken>, Ended> {
        let Some(header) = intake.here()?.filter(|header| !header.is_compressed()) else {
            return Ok(None);
        };
        self.check_size(&header)?;
        let memory = match self.purse_of(&header) {
            None => None,
            Some(purse) => match purse.try_take(header.raw_bytes as usize) {
                None => return Ok(None),
                memory => memory,
            },
        };
        let body = intake.take_here(&header);
        self.take_frame(header, body, memory).map(|down| Some(Taken(down)))
    }

    /// Reads a frame and does what it says; why the connection ends, if it does.
    async fn read_one(self: &Rc<Self>, intake: &mut Intake) -> Result<Option<Down>, Ended> {
        let header = intake.header(&self.wire, &self.pulse).await?;
        self.check_size(&header)?;
        let memory = self.memory_of(&header).await;
        let body = intake.body(&header, &self.wire, &self.pulse).await?;
        let body = match header.compression {
            None => body,
            Some(one) if !self.facts.compression.has(one) => {
                return Err(damaged("frame is compressed as was not agreed on"));
            }
            Some(compression) => {
                let unpack = move || {
                    let began = Instant::now();
                    let unpacked = compress::unpack(&header, &body, header.raw_bytes as usize);
                    (unpacked, began.elapsed().as_nanos() as u64)
                };
                let (unpacked, nanos) = match header.raw_bytes as usize <= CHUNK_BYTES_MAX {
                    true => unpack(),
                    false => runtime::task::compute(unpack).await,
                };
                self.services.tally.unpacked(compression, &header, nanos);
                unpacked?
            }
        };
        self.take_frame(header, body, memory)
    }

    /// *length-first*: a body has the length that its kind may have.
    fn check_size(&self, header: &Header) -> Result<(), Damaged> {
        let bytes_max = match header.kind {
            Kind::Chunk => CHUNK_BYTES_MAX,
            Kind::Reset | Kind::Goodbye => FAILURE_BYTES_MAX,
            _ => self.services.config.message_bytes_max,
        };
        if bytes_max < header.raw_bytes as usize {
            return Err(Damaged::new("body is longer than it may be", 0));
        }
        Ok(())
    }

    /// Whose memory a frame takes.
    fn purse_of(&self, header: &Header) -> Option<&Purse> {
        let purses = self.services.budget.of(self.facts.class);
        match header.kind {
            Kind::Request | Kind::OneWay | Kind::Open => Some(&purses.requests),
            Kind::Reply | Kind::Error => Some(&purses.replies),
            _ => None,
        }
    }

    /// Waits for memory for what asks or answers; meanwhile nothing is read.
    async fn memory_of(&self, header: &Header) -> Option<Permit> {
        let (purse, bytes) = (self.purse_of(header)?, header.raw_bytes as usize);
        if let Some(memory) = purse.try_take(bytes) {
            return Some(memory);
        }
        stdx::probe!("messaging: reading waits for memory");
        self.pulse.pause();
        let memory = purse.take(bytes).await.ok();
        self.pulse.goes_on();
        debug_assert!(memory.is_some(), "bounded-memory: purses stay open");
        memory
    }

    fn take_frame(
        self: &Rc<Self>,
        header: Header,
        body: Vec<u8>,
        memory: Option<Permit>,
    ) -> Result<Option<Down>, Ended> {
        self.check_side(&header)?;
        let Header { kind, id, extra, .. } = header;
        debug_assert_eq!(body.len(), header.raw_bytes as usize, "length-first: {kind:?}");
        debug_assert!(memory.is_none() || kind.has_id(), "bounded-memory: {kind:?} holds some");
        if kind != Kind::Beat {
            stdx::trace!("hears {}: {kind:?} {id}, {} bytes", self.who(), body.len());
        }
        match kind {
            Kind::Request | Kind::OneWay | Kind::Open => {
                let memory = memory.ok_or(Ended::Closed)?;
                self.begin(&header, body, memory)?;
            }
            Kind::Cancel => self.running.cancel(id),
            Kind::Reply => {
                let memory = memory.ok_or(Ended::Closed)?;
                self.answered(id, kind, Ok(Reply { bytes: body, _memory: memory }))?;
            }
            Kind::Error => self.answered(id, kind, Err(error_of(extra, body)?))?,
            Kind::Done => self.done(id, extra)?,
            Kind::Chunk => self.streams.arrived(id, body)?,
            Kind::End => self.streams.ended(id)?,
            Kind::Reset => {
                let code = Code::from_code(extra).ok_or(damaged("unknown end of a stream"))?;
                self.streams.reset(id, code, body);
                self.running.cancel(id);
            }
            Kind::Window => self.streams.allowed(id, extra as usize)?,
            Kind::Beat => {}
            Kind::Goodbye => return self.goodbye(extra, &body).map(Some),
        }
        Ok(None)
    }

    /// Whether a frame may come from the other end: questions from dialers, answers from acceptors,
    /// and neither of what was never begun.
    fn check_side(&self, header: &Header) -> Result<(), Damaged> {
        let Facts { side, .. } = self.facts;
        let allowed = match header.kind {
            Kind::Request | Kind::OneWay | Kind::Open | Kind::Cancel => side == Side::Acceptor,
            Kind::Reply | Kind::Error | Kind::Done => side == Side::Dialer,
            _ => true,
        };
        if !allowed {
            return Err(Damaged::new("frame of the wrong end", 0));
        }
        let begins = header.kind.has_verb();
        let last = self.last_id.get();
        if begins && header.id <= last {
            return Err(Damaged::new("id that was used before", 0));
        }
        if !begins && last < header.id {
            return Err(Damaged::new("id of nothing that was begun", 0));
        }
        Ok(())
    }

    fn answered(
        &self,
        mut id: u64,
        kind: Kind,
        outcome: Result<Reply, CallError>,
    ) -> Result<(), Damaged> {
        if self.services.is_planted(Planted::AnswersOldest) {
            id = self.calls.oldest().unwrap_or(id);
        }
        self.calls.answered(id, kind, outcome)
    }

    /// A one-way message was handled, or not.
    fn done(&self, id: u64, extra: u32) -> Result<(), Damaged> {
        let outcome = match extra {
            0 => CallError::OutcomeUnknown(Lost::TooLate),
            code => error_of(code, Vec::new())?,
        };
        // Nobody waits for it: only its place in the window is given back.
        self.calls.answered(id, Kind::Done, Err(outcome))
    }

    fn goodbye(&self, extra: u32, body: &[u8]) -> Result<Down, Ended> {
        let why = Refusal::from_code(extra).ok_or(damaged("goodbye without a reason"))?;
        let refused = Refused { why, text: text_of(body, crate::error::TEXT_BYTES_MAX)? };
        if why != Refusal::Stopping {
            self.services.complain(&self.who(), &refused, false);
        }
        Ok(Down::RefusedByPeer(refused))
    }
}

fn damaged(what: &'static str) -> Ended {
    Ended::Damaged(Damaged::new(what, 0))
}

/// What the caller is told.
fn error_of(code: u32, body: Vec<u8>) -> Result<CallError, Damaged> {
    let code = Code::from_code(code).ok_or(Damaged::new("unknown reason for no answer", 0))?;
    Ok(match code {
        Code::Failed => CallError::Failed(body),
        Code::UnknownVerb => CallError::UnknownVerb,
        Code::Stopping | Code::Crowded => CallError::PeerStops,
        Code::TooLarge => CallError::ReplyTooLarge,
        Code::TooLate | Code::Cancelled => CallError::OutcomeUnknown(Lost::TooLate),
    })
}
