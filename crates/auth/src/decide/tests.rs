use super::*;
use crate::level::DRIVER;
use crate::permission::Permission;
use crate::resource::Need;

/// Carries out decisions written one a line: `+r` creates a role, `-r` drops it, `a<b` grants `a`
/// to `b`, `a!b` revokes that, `r:SELECT@data/ks` grants, `r~SELECT@data/ks` revokes,
/// `?data/ks` tells that it is gone. Returns the first refusal.
fn run(state: &mut State, script: &str) -> Result<(), Refused> {
    for line in script.split_whitespace() {
        let changes = decide(state, line)?;
        changes.into_iter().for_each(|change| state.apply(change));
    }
    Ok(())
}

fn decide(state: &State, line: &str) -> Decision {
    let refused = Otherwise::Refused;
    let split = |sign| line.split_once(sign);
    if let Some(role) = line.strip_prefix('+') {
        return state.create_role(role, RoleOptions::default(), None, refused);
    }
    if let Some(role) = line.strip_prefix('-') {
        return state.drop_role(role, refused);
    }
    if let Some(name) = line.strip_prefix('?') {
        return Ok(state.revoke_all_on(&Resource::parse(name).expect("a resource")));
    }
    let on = |rest: &str| {
        let (permission, name) = rest.split_once('@').expect("a grant");
        let permission = Permission::by_name(permission).expect("a permission");
        (PermissionSet::of(&[permission]), Resource::parse(name).expect("a resource"))
    };
    if let Some((role, rest)) = split(':') {
        let (permissions, resource) = on(rest);
        return state.grant(role, permissions, &resource);
    }
    if let Some((role, rest)) = split('~') {
        let (permissions, resource) = on(rest);
        return state.revoke(role, permissions, &resource);
    }
    match (split('<'), split('!')) {
        (Some((role, member)), _) => state.grant_role(role, member),
        (_, Some((role, member))) => state.revoke_role(role, member),
        _ => panic!("{line}"),
    }
}

fn made(script: &str) -> State {
    let mut state = State::default();
    run(&mut state, script).expect("a script that works");
    state
}

fn may(state: &State, role: &str, permission: Permission, name: &str) -> bool {
    let resource = Resource::parse(name).expect("a resource");
    state.permits(&state.rights(role), &Need::new(permission, resource))
}

#[test]
fn grants_flow_down_the_tree_and_up_the_graph() {
    let state = made("+a +b +c a<b b<c a:SELECT@data/ks c:EXECUTE@functions");
    let check = |role, permission, name, expected| {
        assert_eq!(may(&state, role, permission, name), expected, "{role} {permission} {name}");
    };
    use Permission::{Execute, Modify, Select};
    for role in ["a", "b", "c"] {
        check(role, Select, "data/ks", true);
        check(role, Select, "data/ks/t", true);
        check(role, Modify, "data/ks/t", false);
        check(role, Select, "data", false);
        check(role, Select, "data/ksx/t", false);
        check(role, Execute, "functions/ks/f[]", role == "c");
    }
    check("nobody", Select, "data/ks/t", false);
}

#[test]
fn superusers_may_everything_and_so_may_their_members() {
    let mut state = made("+root +a +b root<a");
    let is_superuser = Some(true);
    let options = RoleOptions { is_superuser, ..RoleOptions::default() };
    let changes = state.alter_role("root", options, Otherwise::Refused).expect("a change");
    changes.into_iter().for_each(|change| state.apply(change));
    assert!(may(&state, "a", Permission::Drop, "data/ks"));
    assert!(!may(&state, "b", Permission::Drop, "data/ks"));
}

#[test]
fn circles_are_refused() {
    let check = |script: &str, expected: &str| {
        let refused = run(&mut State::default(), script).expect_err("a refusal");
        assert_eq!(refused.to_string(), expected, "{script}");
    };
    check("+a a<a", "a already includes role a.");
    check("+a +b a<b b<a", "b already includes role a.");
    check("+a +b +c a<b b<c c<a", "c already includes role a.");
    check("+a +b +c a<b b<c a<c", "c already includes role a.");
    check("+a +a", "Role a already exists.");
    check("-a", "Role a doesn't exist.");
    check("+a a<b", "Role b doesn't exist.");
    check("+b a<b", "Role a doesn't exist.");
    check("+a +b a!b", "b was not granted role a, so it cannot be revoked.");
    check("a:SELECT@data", "Role a doesn't exist.");
}

#[test]
fn circles_of_rows_end() {
    let member = |role: &str, member: &str| Change::Member {
        role: role.to_owned(),
        member: member.to_owned(),
        is_member: true,
    };
    let mut state = made("+a +b");
    [member("a", "b"), member("b", "a")].into_iter().for_each(|change| state.apply(change));
    assert_eq!(state.rights("a").roles, ["a", "b"]);
}

#[test]
fn a_dropped_role_leaves_nothing() {
    let script = "+a +b +c a<b b<c b:SELECT@data/ks c:ALTER@roles/b -b +b";
    let state = made(script);
    assert_eq!(state.rights("b").roles, ["b"]);
    assert_eq!(state.rights("c").roles, ["c"]);
    assert!(!may(&state, "b", Permission::Select, "data/ks"));
    assert!(!may(&state, "c", Permission::Alter, "roles/b"));
    assert!(state.granted_on.is_empty() && state.members.is_empty());
}

#[test]
fn what_goes_takes_its_grants_along() {
    let script = "+a +b a:SELECT@data/ks/t b:DROP@data/ks a:SELECT@data/ksx a:SELECT@data \
                  a:EXECUTE@functions/ks/f[] b:EXECUTE@functions/ks";
    let state = made(&format!("{script} ?data/ks"));
    let left = |state: &State| state.granted_on.keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(left(&state), "data data/ksx functions/ks functions/ks/f[]");
    let state = made(&format!("{script} ?functions/ks"));
    assert_eq!(left(&state), "data data/ks data/ks/t data/ksx");
    let state = made(&format!("{script} ?data/ks/t ?functions/ks/f[]"));
    assert_eq!(left(&state), "data data/ks data/ksx functions/ks");
}

#[test]
fn creators_have_all_that_applies() {
    let state = made("+a");
    let resource = Resource::table("ks", "t");
    let change = state.grant_to_creator("a", &resource).expect("a grant");
    let Change::Grants { permissions, .. } = change else { panic!("{change:?}") };
    assert_eq!(permissions, resource.applicable());
    assert_eq!(state.grant_to_creator("nobody", &resource), None);
}

#[test]
fn grants_and_revokes_repeat_without_effect() {
    let state = made("+a a:SELECT@data/ks");
    assert_eq!(decide(&state, "a:SELECT@data/ks"), Ok(Vec::new()));
    assert_eq!(decide(&state, "a~MODIFY@data/ks"), Ok(Vec::new()));
    // What does not apply is not granted.
    assert_eq!(decide(&state, "a:EXECUTE@data/ks"), Ok(Vec::new()));
    let state = made("+a a:SELECT@data/ks a~SELECT@data/ks");
    assert!(state.granted_on.is_empty() && state.grants_of("a").is_empty());
}

#[test]
fn service_levels_come_and_go() {
    let mut state = made("+a +b a<b");
    let options = LevelOptions { shares: Some(200), ..LevelOptions::default() };
    let apply = |state: &mut State, decision: Decision| {
        decision.expect("a change").into_iter().for_each(|change| state.apply(change));
    };
    let created = state.create_level("gold", &options, Otherwise::Refused);
    apply(&mut state, created);
    let attached = state.attach_level("gold", "a");
    apply(&mut state, attached);
    assert_eq!(state.attachments(), [("a", "gold")]);
    let of_member = state.effective_level("b").and_then(|level| level.shares);
    assert_eq!(of_member, Some(("gold".to_owned(), 200)));
    let again = state.create_level("gold", &options, Otherwise::Refused);
    assert_eq!(again, Err(Refused::LevelExists("gold".to_owned())));
    assert_eq!(state.create_level("gold", &options, Otherwise::Ignored), Ok(Vec::new()));
    assert_eq!(state.attach_level("x", "a"), Err(Refused::NoLevel("x".to_owned())));
    assert_eq!(state.attach_level("gold", "x"), Err(Refused::NoRole("x".to_owned())));
    let dropped = state.drop_level("gold", Otherwise::Refused);
    apply(&mut state, dropped);
    assert_eq!((state.effective_level("b"), state.attachments()), (None, Vec::new()));
}

#[test]
fn there_is_room_for_some_service_levels() {
    let mut state = State::default();
    let apply = |state: &mut State, decided: Decision| {
        decided.expect("changes").into_iter().for_each(|change| state.apply(change));
    };
    let create = |state: &State, name: &str| {
        state.create_level(name, &LevelOptions::default(), Otherwise::Refused)
    };
    let made = create(&state, DRIVER);
    apply(&mut state, made);
    for index in 0..COUNT_MAX {
        let made = create(&state, &format!("l{index}"));
        apply(&mut state, made);
    }
    assert_eq!(create(&state, "more"), Err(Refused::NoRoomForLevels));
    assert_eq!(create(&state, DRIVER), Err(Refused::LevelExists(DRIVER.to_owned())));
    // Another may have the room of the level of drivers.
    let dropped = state.drop_level(DRIVER, Otherwise::Refused);
    apply(&mut state, dropped);
    let made = create(&state, "more");
    apply(&mut state, made);
    assert_eq!(create(&state, DRIVER), Err(Refused::NoRoomForLevels));
}

#[test]
fn the_default_level_is_fixed() {
    let state = made("+a");
    let options = LevelOptions::default();
    let check = |decision: Decision, what: &str| {
        assert_eq!(
            decision.expect_err("a refusal").to_string(),
            format!("The default service level, default, {what}")
        );
    };
    let created = state.create_level("default", &options, Otherwise::Refused);
    check(created, "already exists and cannot be created");
    check(state.alter_level("default", &options), "cannot be altered");
    check(state.drop_level("default", Otherwise::Refused), "cannot be dropped");
    check(
        state.attach_level("default", "a"),
        "cannot be attached to a role. If you want to detach an attached service level, use the \
         DETACH SERVICE LEVEL statement",
    );
}

#[test]
fn names_that_no_key_can_hold_are_refused() {
    let mut state = State::default();
    let long = "r".repeat(ROLE_BYTES_MAX + 1);
    assert_eq!(run(&mut state, &format!("+{long}")), Err(Refused::LongRole("a role")));
    run(&mut state, &format!("+{}", &long[1..])).expect("a role");
    let options =
        RoleOptions { attributes: Some(vec![(long, String::new())]), ..RoleOptions::default() };
    let refused = Err(Refused::LongRole("an option of a role"));
    assert_eq!(state.create_role("r", options.clone(), None, Otherwise::Refused), refused);
    run(&mut state, "+r").expect("a role");
    assert_eq!(state.alter_role("r", options, Otherwise::Refused), refused);
}
