//! Services of a shard: one slot per type, found by the code that runs on the shard.
//!
//! A simulated node shares its thread with others, so a `thread_local!` cannot hold these.
//!
//! Invariants
//!  - *slot-is-type*: what is in the slot of a type is of that type.

use crate::core::with;
use std::any::{Any, TypeId};
use std::rc::Rc;

/// Puts `value` into this shard's slot for `T`, replacing what was there.
pub fn set<T: 'static>(value: Rc<T>) {
    let old = with(|shard| shard.locals.borrow_mut().insert(TypeId::of::<T>(), value));
    // Dropped here, where no cell of the shard is borrowed.
    drop(old);
}

/// This shard's `T`. Panics, naming the type, when none was set.
pub fn get<T: 'static>() -> Rc<T> {
    match try_get() {
        Some(value) => value,
        None => panic!("no {} on this shard", std::any::type_name::<T>()),
    }
}

/// This shard's `T`, if one was set.
pub fn try_get<T: 'static>() -> Option<Rc<T>> {
    let value: Rc<dyn Any> = with(|shard| shard.locals.borrow().get(&TypeId::of::<T>()).cloned())?;
    let value = value.downcast();
    debug_assert!(value.is_ok(), "slot-is-type: {}", std::any::type_name::<T>());
    value.ok()
}

/// This shard's `T`; a default one is set where there was none.
pub fn get_or_default<T: Default + 'static>() -> Rc<T> {
    try_get().unwrap_or_else(|| {
        let value = Rc::new(T::default());
        set(value.clone());
        value
    })
}

/// Empties this shard's slot for `T`.
pub fn clear<T: 'static>() {
    let old = with(|shard| shard.locals.borrow_mut().remove(&TypeId::of::<T>()));
    drop(old);
}
