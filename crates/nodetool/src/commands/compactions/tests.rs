use super::*;

#[test]
fn names_in_base_36_are_uuids() {
    let check = |name: &str, expected: &str| assert_eq!(generation(name), expected);
    check("3glx_0srx_1lvc01zhjn9048se29", "5d022760-b617-11ef-8294-8437c36f0e31");
    check("3glx_0sru_3zlr42ksepk902v8dt", "5b756ce0-b617-11ef-a97d-8438c36f0e31");
    for name in
        ["12", "", "_", "a_b", "a_b_c", "zzzzzzzzzzzzz_1_1lvc01zhjn9048se29", "a_b_1\u{fc}c0x"]
    {
        check(name, name);
    }
}

#[test]
fn what_runs_is_told_with_the_time_that_is_left() {
    let one = json!({
        "id": "1", "task_type": "COMPACTION", "ks": "ks", "cf": "t", "unit": "bytes",
        "completed": 1 << 20, "total": 3 << 20,
    });
    let check = |limit: u64, is_human: bool, expected: &str| {
        assert_eq!(running_text(&json!([one]), limit, is_human), expected);
    };
    check(
        1,
        true,
        "id compaction type keyspace table completed total   unit  progress\n\
         1  COMPACTION      ks       t     1.00 MB   3.00 MB bytes 33.33%  \n\
         Active compaction remaining time :   0h00m02s\n",
    );
    check(
        0,
        false,
        "id compaction type keyspace table completed total   unit  progress\n\
         1  COMPACTION      ks       t     1048576   3145728 bytes 33.33%  \n\
         Active compaction remaining time :        n/a\n",
    );
}
