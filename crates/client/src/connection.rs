//! A connection with many requests in flight.
//!
//! One task sends what was asked, as much at once as there is; one takes the answers.

use crate::answer::{self, Answer, HEADER_BYTES, Header, Prepared, Rows};
use crate::request::{self, Consistency, Page, opcode};
use crate::target::Target;
use runtime::sync::{Notify, OneshotSender, Semaphore, oneshot};
use runtime::task::Scope;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use stdx::{Damaged, HashMap, Put};
use tls::Stream;

/// *bounded*: requests in flight on one connection.
pub const REQUESTS_MAX: usize = 1024;
/// What a read takes in at most.
const INPUT_BYTES: usize = 64 << 10;
/// Memory of requests that is kept for the next ones.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// Codes of errors that say nothing about the request itself.
mod code {
    pub(super) const SERVER: u32 = 0x0000;
    pub(super) const CREDENTIALS: u32 = 0x0100;
    pub(super) const UNAVAILABLE: u32 = 0x1000;
    pub(super) const OVERLOADED: u32 = 0x1001;
    pub(super) const BOOTSTRAPPING: u32 = 0x1002;
    pub(super) const WRITE_TIMEOUT: u32 = 0x1100;
    pub(super) const READ_TIMEOUT: u32 = 0x1200;
    pub(super) const READ_FAILURE: u32 = 0x1300;
    pub(super) const WRITE_FAILURE: u32 = 0x1500;
    pub(super) const INVALID: u32 = 0x2200;
    pub(super) const UNPREPARED: u32 = 0x2500;
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection could not be made, ended, or the node did not answer in time.
    Lost(String),
    /// The node answered with an error.
    Refused { code: u32, message: String },
}

impl Failure {
    /// Whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            Failure::Lost(_) => true,
            Failure::Refused { code, .. } => matches!(
                *code,
                code::SERVER
                    | code::UNAVAILABLE
                    | code::OVERLOADED
                    | code::BOOTSTRAPPING
                    | code::WRITE_TIMEOUT
                    | code::READ_TIMEOUT
                    | code::READ_FAILURE
                    | code::WRITE_FAILURE
            ),
        }
    }

    /// Whether the node has done nothing of the request.
    pub fn did_nothing(&self) -> bool {
        let Failure::Refused { code, .. } = self else { return false };
        matches!(*code, code::UNAVAILABLE | code::OVERLOADED | code::BOOTSTRAPPING)
    }

    /// Whether the node does not know a statement that was prepared.
    pub fn is_unprepared(&self) -> bool {
        matches!(self, Failure::Refused { code: code::UNPREPARED, .. })
    }

    /// Whether values of the request are at fault.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Failure::Refused { code: code::INVALID, .. })
    }

    /// Whether the role or its password is wrong.
    pub fn is_login(&self) -> bool {
        matches!(self, Failure::Refused { code: code::CREDENTIALS, .. })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Lost(why) => f.write_str(why),
            Failure::Refused { message, .. } => f.write_str(message),
        }
    }
}
impl std::error::Error for Failure {}

impl From<Damaged> for Failure {
    fn from(damaged: Damaged) -> Failure {
        Failure::Lost(format!("the node's answer cannot be read: {damaged}"))
    }
}

type Outcome = Result<Answer, Failure>;

/// A connection that is logged in.
#[derive(Debug)]
pub struct Connection {
    shared: Rc<Shared>,
    /// What the node said of itself.
    supported: HashMap<String, String>,
    _tasks: Scope,
}

#[derive(Debug)]
struct Shared {
    stream: Stream,
    /// Requests that are not sent yet.
    output: RefCell<Vec<u8>>,
    filled: Notify,
    /// Who waits for the answer of each stream.
    waiting: RefCell<Vec<Option<OneshotSender<Outcome>>>>,
    /// Streams without a request.
    free: RefCell<Vec<u16>>,
    /// *bounded*
    room: Semaphore,
    broken: RefCell<Option<String>>,
}

impl Connection {
    /// Connects and logs in.
    pub async fn open(target: &Target) -> Result<Connection, Failure> {
        let stream = target.connect().await.map_err(Failure::Lost)?;
        let shared = Rc::new(Shared {
            stream,
            output: RefCell::default(),
            filled: Notify::new(),
            waiting: RefCell::new((0..REQUESTS_MAX).map(|_| None).collect()),
            free: RefCell::new((0..REQUESTS_MAX as u16).rev().collect()),
            room: Semaphore::new(REQUESTS_MAX, usize::MAX),
            broken: RefCell::new(None),
        });
        let tasks = Scope::new();
        let (sending, taking) = (shared.clone(), shared.clone());
        tasks.spawn(async move { sending.send().await });
        tasks.spawn(async move { taking.take().await });
        let mut made = Connection { shared, supported: HashMap::default(), _tasks: tasks };
        made.greet(target).await?;
        Ok(made)
    }

    async fn greet(&mut self, target: &Target) -> Result<(), Failure> {
        let answer = self.ask(target, opcode::OPTIONS, &[]).await?;
        self.supported = answer::supported(&answer.body)?;
        let answer = self.ask(target, opcode::STARTUP, &request::startup("nereid")).await?;
        match (answer.opcode, &target.login) {
            (opcode::READY, _) => Ok(()),
            (opcode::AUTHENTICATE, Some(login)) => {
                let credentials = request::credentials(login);
                let answer = self.ask(target, opcode::AUTH_RESPONSE, &credentials).await?;
                match answer.opcode {
                    opcode::AUTH_SUCCESS => Ok(()),
                    _ => Err(refused_login("the node wants more than a password")),
                }
            }
            (opcode::AUTHENTICATE, None) => {
                Err(refused_login("the node asks for a user and a password"))
            }
            _ => Err(Failure::Lost("the node's answer to STARTUP is not understood".into())),
        }
    }

    /// What the node says of itself under that name.
    pub fn supports(&self, name: &str) -> Option<&str> {
        self.supported.get(name).map(String::as_str)
    }

    /// Whether it ended.
    pub fn is_broken(&self) -> bool {
        self.shared.broken.borrow().is_some()
    }

    /// Sends a request and waits for its answer (*one-answer*), as long as `target` says.
    pub async fn ask(&self, target: &Target, opcode: u8, body: &[u8]) -> Outcome {
        let shared = &self.shared;
        let Ok(_permit) = shared.room.acquire(1).await else {
            return Err(Failure::Lost("the connection ended".into()));
        };
        if let Some(why) = &*shared.broken.borrow() {
            return Err(Failure::Lost(why.clone()));
        }
        let (sender, receiver) = oneshot();
        let stream = shared.free.borrow_mut().pop().expect("a stream for each permit");
        shared.waiting.borrow_mut()[usize::from(stream)] = Some(sender);
        shared.put(stream, opcode, body);
        match runtime::time::timeout(target.timeout, receiver).await {
            Ok(Ok(Ok(answer))) if answer.opcode == opcode::ERROR => {
                let (code, message) = answer::error(&answer.body)?;
                Err(Failure::Refused { code, message })
            }
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Failure::Lost("the connection ended".into())),
            Err(_) => {
                let why = format!("no answer within {:?}", target.timeout);
                shared.lose(&why);
                Err(Failure::Lost(why))
            }
        }
    }

    /// Prepares a statement.
    pub async fn prepare(&self, target: &Target, text: &str) -> Result<Prepared, Failure> {
        let answer = self.ask(target, opcode::PREPARE, &request::prepare(text)).await?;
        Ok(Prepared::read(&answer.body)?)
    }

    /// Asks for the rows of a statement without values, all of one page.
    pub async fn rows(&self, target: &Target, text: &str) -> Result<Rows, Failure> {
        self.page(target, text, Consistency::ONE, Page { rows: 10_000, state: None }).await
    }

    /// Asks for a page of the rows of a statement without values.
    pub async fn page(
        &self,
        target: &Target,
        text: &str,
        consistency: Consistency,
        page: Page<'_>,
    ) -> Result<Rows, Failure> {
        let body = request::query(text, consistency, Some(page));
        let answer = self.ask(target, opcode::QUERY, &body).await?;
        Ok(Rows::read(&answer.body)?)
    }
}

fn refused_login(why: &str) -> Failure {
    Failure::Refused { code: code::CREDENTIALS, message: why.to_string() }
}

impl Shared {
    fn put(&self, stream: u16, opcode: u8, body: &[u8]) {
        let mut output = self.output.borrow_mut();
        output.reserve(HEADER_BYTES + body.len());
        output.put(&[4, 0]);
        output.put_u16(stream);
        output.put_u8(opcode);
        output.put_u32(body.len() as u32);
        output.put(body);
        self.filled.notify_one();
    }

    async fn send(&self) {
        let mut spare = Vec::new();
        while self.broken.borrow().is_none() {
            let full =
                std::mem::replace(&mut *self.output.borrow_mut(), std::mem::take(&mut spare));
            if full.is_empty() {
                spare = full;
                self.filled.notified().await;
                continue;
            }
            let (written, back) = self.stream.write_all(full).await;
            if let Err(error) = written {
                return self.lose(&error.to_string());
            }
            if back.capacity() <= SPARE_BYTES_MAX {
                spare = back;
                spare.clear();
            }
        }
    }

    async fn take(&self) {
        let mut input = Vec::with_capacity(INPUT_BYTES);
        loop {
            let (read, buffer) = self.stream.read(input).await;
            input = buffer;
            match read {
                Ok(1..) => {}
                Ok(_) => return self.lose("the node ended the connection"),
                Err(error) => return self.lose(&error.to_string()),
            }
            match self.distribute(&input) {
                Ok(used) => {
                    input.drain(..used);
                }
                Err(damaged) => return self.lose(&Failure::from(damaged).to_string()),
            }
            runtime::task::yield_if_needed().await;
        }
    }

    /// Gives answers to who waits for them: how many bytes those were.
    fn distribute(&self, input: &[u8]) -> Result<usize, Damaged> {
        let mut used = 0;
        while let Some(header) = Header::read(&input[used..])? {
            let start = used + HEADER_BYTES;
            let Some(body) = input.get(start..start + header.body_bytes) else { break };
            used = start + body.len();
            if header.stream < 0 {
                continue; // An event.
            }
            let unasked = Damaged { what: "an answer that nobody asked for", at: 0 };
            let sender =
                self.waiting.borrow_mut().get_mut(header.stream as usize).and_then(Option::take);
            let sender = sender.ok_or(unasked)?;
            self.free.borrow_mut().push(header.stream as u16);
            // Who does not wait any more has no use for it.
            let _ = sender.send(Ok(Answer::new(header, body)?));
        }
        Ok(used)
    }

    /// Ends the connection; all who wait are told why (*one-answer*).
    fn lose(&self, why: &str) {
        if self.broken.borrow().is_some() {
            return;
        }
        self.broken.replace(Some(why.to_string()));
        let waiting: Vec<_> =
            self.waiting.borrow_mut().iter_mut().filter_map(Option::take).collect();
        for sender in waiting {
            let _ = sender.send(Err(Failure::Lost(why.to_string())));
        }
        self.room.close();
        self.filled.notify_one();
        let _ = self.stream.shutdown_both();
    }
}
