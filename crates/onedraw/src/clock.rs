//! Clocks: those of the standard library, and in WebAssembly, where it has none, those of JavaScript. No token
//! depends on them.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod system {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    pub use std::time::Instant;

    /// The time since 1970 began. A clock that stands before 1970 was never set, and gives 0.
    pub fn since_1970() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
mod system {
    use std::ops::Sub;
    use std::time::Duration;

    use wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = performance, js_name = now)]
        fn milliseconds() -> f64;

        #[wasm_bindgen(js_namespace = Date, js_name = now)]
        fn milliseconds_since_1970() -> f64;
    }

    /// A moment of JavaScript's `performance.now()`, with what this workspace uses of
    /// `std::time::Instant`. Browsers round it, to between 5 µs and 1 ms.
    #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
    pub struct Instant(Duration);

    impl Instant {
        /// This moment.
        pub fn now() -> Self {
            Self(duration(milliseconds()))
        }

        /// The time since this moment.
        pub fn elapsed(&self) -> Duration {
            Self::now() - *self
        }
    }

    impl Sub for Instant {
        type Output = Duration;

        /// 0 where `earlier` is the later one.
        fn sub(self, earlier: Self) -> Duration {
            self.0.saturating_sub(earlier.0)
        }
    }

    /// The time since 1970 began.
    pub fn since_1970() -> Duration {
        duration(milliseconds_since_1970())
    }

    fn duration(milliseconds: f64) -> Duration {
        Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default()
    }
}

pub use system::{Instant, since_1970};
