//! Writes the golden vectors anew: `cargo run -p onedraw-testkit --example golden`.

use onedraw_testkit::golden;

fn main() -> std::io::Result<()> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden");
    std::fs::write(folder.join("draws.json"), golden::lines(&golden::draws()))?;
    std::fs::write(folder.join("speculation.json"), golden::lines(&golden::speculation()))?;
    std::fs::write(folder.join("numbers.json"), golden::lines(&golden::numbers()))
}
