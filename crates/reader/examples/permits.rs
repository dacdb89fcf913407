//! What a permit costs that need not be waited for, or (`pass`) a read that ends at once: run under
//! an instruction counter with two numbers of rounds and take the slope.

use reader::semaphore::{Limits, ReadSemaphore, Reading};
use std::rc::Rc;

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let schema = Rc::new(mutation::testing::schema());
    let semaphore = ReadSemaphore::new("user", Limits::user(1 << 30));
    let passes = std::env::args().nth(2).as_deref() == Some("pass");
    for _ in 0..rounds {
        if passes {
            std::hint::black_box(&semaphore).pass();
            continue;
        }
        let reading = Reading { schema: schema.clone(), operation: "data-query" };
        let permit = semaphore.try_admit(&reading);
        assert!(std::hint::black_box(&permit).is_some());
    }
}
