use super::*;

#[test]
fn paths_and_parameters_are_decoded() {
    let check = |path: &str, query: &str, segments: &[&str], parameters: &[(&str, &str)]| {
        let call = Call::new(&Method::GET, path, query);
        assert_eq!(call.path, segments, "{path}");
        let found: Vec<(&str, &str)> =
            call.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, parameters, "{query}");
    };
    check("/", "", &[], &[]);
    check("/a//b/", "", &["a", "b"], &[]);
    check(
        "/a/x%3Ay%2Fz",
        "c=1&d=x+y%2B&e",
        &["a", "x:y/z"],
        &[("c", "1"), ("d", "x y+"), ("e", "")],
    );
    check("/%ff%zz", "%=%", &["\u{fffd}%zz"], &[("%", "%")]);
}

#[test]
fn the_last_of_equal_parameters_counts() {
    let call = Call::new(&Method::POST, "/x", "a=1&b=false&a=2&c=");
    assert_eq!((call.parameter("a"), call.parameter("z")), (Some("2"), None));
    assert_eq!(call.flag("b", true), Ok(false));
    assert_eq!((call.flag("c", true), call.flag("z", false)), (Ok(true), Ok(false)));
    let refused = call.flag("a", true).unwrap_err();
    assert_eq!(refused.status, 400);
    assert!(String::from_utf8(refused.body).unwrap().contains("a: not true or false: 2"));
}
