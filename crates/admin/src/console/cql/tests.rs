use super::*;
use hyper::Method;

/// Lets `ann` in with the password `secret`, or everybody.
struct Planted {
    asks_passwords: bool,
}

struct PlantedSession {
    user: Option<String>,
}

impl Cql for Planted {
    fn asks_passwords(&self) -> bool {
        self.asks_passwords
    }

    fn login(
        &self,
        _: Option<SocketAddr>,
        credentials: Option<Credentials>,
    ) -> LocalFuture<'_, Result<Rc<dyn Session>, Failure>> {
        let user = credentials.map(|it| (it.name, it.password));
        let is_known = match &user {
            None => !self.asks_passwords,
            Some((name, password)) => (name.as_str(), password.as_str()) == ("ann", "sec:ret"),
        };
        Box::pin(async move {
            let session = Rc::new(PlantedSession { user: user.map(|(name, _)| name) });
            match is_known {
                true => Ok(session as Rc<dyn Session>),
                false => Err(Failure { code: 0x0100, message: "wrong".to_owned() }),
            }
        })
    }
}

impl Session for PlantedSession {
    fn user(&self) -> Option<String> {
        self.user.clone()
    }

    fn execute(&self, asked: Asked) -> LocalFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            match asked.statement.as_str() {
                "bad" => Err(Failure { code: 0x2000, message: "line 1: no".to_owned() }),
                _ => Ok(Outcome { done: "done".to_owned(), ..Outcome::default() }),
            }
        })
    }
}

fn sessions(asks_passwords: bool) -> Sessions {
    Sessions::new(Rc::new(Planted { asks_passwords }))
}

fn call(headers: &[(&'static str, &str)], body: &str) -> Call {
    let mut call = Call::new(&Method::POST, "/console/api/cql", "");
    for (name, value) in headers {
        call.headers.insert(*name, value.parse().unwrap());
    }
    call.body = body.as_bytes().to_vec();
    call
}

fn basic(text: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(text))
}

async fn secret(sessions: &Sessions, headers: &[(&'static str, &str)]) -> Result<String, u16> {
    let answer = sessions.login(&call(headers, "")).await.map_err(|answer| answer.status)?;
    let value: Value = serde_json::from_slice(&answer.body).unwrap();
    Ok(value["session"].as_str().unwrap().to_owned())
}

async fn status(sessions: &Sessions, secret: &str, statement: &str) -> u16 {
    let body = json!({ "statement": statement }).to_string();
    let done = sessions.execute(&call(&[(SESSION, secret)], &body)).await;
    done.unwrap_or_else(|answer| answer).status
}

#[test]
fn with_passwords_only_who_logs_in_is_served() {
    runtime::sim::test(1, || async {
        let sessions = sessions(true);
        let (right, wrong) = (basic("ann:sec:ret"), basic("ann:secret"));
        assert_eq!(secret(&sessions, &[]).await, Err(401));
        assert_eq!(secret(&sessions, &[("authorization", &wrong)]).await, Err(401));
        assert_eq!(secret(&sessions, &[("authorization", "Basic %%%")]).await, Err(400));
        assert_eq!(secret(&sessions, &[("authorization", "Bearer x")]).await, Err(400));
        let known = secret(&sessions, &[("authorization", &right)]).await.unwrap();
        assert_eq!(status(&sessions, &known, "SELECT").await, 200);
        assert_eq!(status(&sessions, &known, "bad").await, 400);
        for unknown in ["", "0", &known[1..], &known.replace(&known[..1], "z")] {
            assert_eq!(status(&sessions, unknown, "SELECT").await, 401, "{unknown}");
        }
        assert!(sessions.check(&call(&[], "")).is_err());
        assert!(sessions.check(&call(&[(SESSION, &known)], "")).is_ok());
        sessions.logout(&call(&[(SESSION, &known)], ""));
        assert_eq!(status(&sessions, &known, "SELECT").await, 401);
    });
}

#[test]
fn who_fails_again_waits_longer() {
    runtime::sim::test(1, || async {
        let sessions = sessions(true);
        let (right, wrong) = (basic("ann:sec:ret"), basic("ann:secret"));
        let mut taken = Vec::new();
        for _ in 0..9 {
            let began = Instant::now();
            assert_eq!(secret(&sessions, &[("authorization", &wrong)]).await, Err(401));
            taken.push(began.elapsed().as_millis());
        }
        assert_eq!(taken, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
        let began = Instant::now();
        assert!(secret(&sessions, &[("authorization", &right)]).await.is_ok());
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(sessions.held_back(Instant::now() + FORGOTTEN_AFTER), DELAY_MIN);
    });
}

#[test]
fn without_passwords_everybody_has_a_session_of_their_own() {
    runtime::sim::test(1, || async {
        let sessions = sessions(false);
        let (one, other) = (secret(&sessions, &[]).await, secret(&sessions, &[]).await);
        assert_ne!(one, other);
        assert_eq!(one.clone().unwrap().len(), 64);
        assert_eq!(status(&sessions, &one.unwrap(), "SELECT").await, 200);
        assert_eq!(status(&sessions, "", "SELECT").await, 401);
        assert!(sessions.check(&call(&[], "")).is_ok());
    });
}

#[test]
fn sessions_are_bounded_and_end() {
    runtime::sim::test(1, || async {
        let sessions = sessions(false);
        let first = secret(&sessions, &[]).await.unwrap();
        let second = secret(&sessions, &[]).await.unwrap();
        assert_eq!(status(&sessions, &first, "SELECT").await, 200);
        for _ in 0..SESSIONS_MAX - 1 {
            secret(&sessions, &[]).await.unwrap();
        }
        // The one that was silent for longest has made room.
        assert_eq!(status(&sessions, &second, "SELECT").await, 401);
        assert_eq!(status(&sessions, &first, "SELECT").await, 200);
        runtime::time::sleep(IDLE_MAX).await;
        assert_eq!(status(&sessions, &first, "SELECT").await, 401);
        assert!(sessions.all.borrow().is_empty());
    });
}

#[test]
fn what_is_asked_for_is_read_or_refused() {
    let check = |body: &str, expected: Result<Asked, &'static str>| {
        assert_eq!(asked(body.as_bytes()), expected, "{body}");
    };
    let plain = Asked {
        statement: "SELECT 1".to_owned(),
        page_size: 100,
        paging_state: None,
        consistency: "ONE".to_owned(),
        origin: Origin::Editor,
    };
    check(r#"{"statement": " SELECT 1; "}"#, Ok(plain.clone()));
    for (flag, origin) in [("trace", Origin::Traced), ("page", Origin::Page)] {
        let body = format!(r#"{{"statement": "SELECT 1", "{flag}": true}}"#);
        check(&body, Ok(Asked { origin, ..plain.clone() }));
    }
    let paged = Asked {
        page_size: 1000,
        paging_state: Some(vec![0, 255]),
        consistency: "ALL".to_owned(),
        ..plain
    };
    let body = r#"{"statement": "SELECT 1", "page_size": 9999, "paging_state": "00ff",
                   "consistency": "ALL"}"#;
    check(body, Ok(paged));
    check("", Err("the body is not JSON"));
    check("{}", Err("statement: a text is wanted"));
    check(r#"{"statement": "x", "page_size": "a"}"#, Err("page_size: not a number"));
    check(
        "{\"statement\": \"x\", \"paging_state\": \"0\u{e9}\"}",
        Err("paging_state: not of an answer"),
    );
    let long = json!({ "statement": "x".repeat(STATEMENT_BYTES_MAX + 1) }).to_string();
    check(&long, Err("statement: longer than 64 KiB"));
}

#[test]
fn rows_are_told_with_their_types() {
    let cell = |text: &str, is_clipped| Some(Cell { text: text.to_owned(), is_clipped });
    let rows = Rows {
        columns: vec![Column { name: "v".to_owned(), ty: "text".to_owned() }],
        rows: vec![vec![cell("a", false)], vec![None], vec![cell("b", true)]],
        next: Some(vec![1, 2]),
    };
    let told = shown(Outcome { rows: Some(rows), ..Outcome::default() }, 7);
    assert_eq!(told["columns"], json!([{ "name": "v", "type": "text" }]));
    assert_eq!(told["rows"], json!([["a"], [null], [{ "clipped": "b" }]]));
    assert_eq!((&told["next"], &told["micros"]), (&json!("0102"), &json!(7)));
}
