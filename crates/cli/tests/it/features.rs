//! The features that the product is built with.

use std::path::Path;

/// Defects that tests plant in the firmware are only in builds of those tests: only development
/// dependencies enable them.
#[test]
fn no_planted_defect_is_in_the_product() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it has a parent");
    let mut asked = 0;
    for folder in std::fs::read_dir(crates).expect("the crates are there") {
        let path = folder.expect("it can be read").path().join("Cargo.toml");
        let text = std::fs::read_to_string(&path).expect("each crate has a manifest");
        let manifest: toml::Table = text.parse().expect("it is TOML");
        for (section, value) in &manifest {
            let names = value.to_string().contains("\"planted\"");
            assert!(!names || section == "dev-dependencies", "{}: {section}", path.display());
            asked += usize::from(names);
        }
        let features = manifest.get("features").and_then(|f| f.get("default"));
        let planted = features.is_some_and(|f| f.to_string().contains("planted"));
        assert!(!planted, "{} has defects by default", path.display());
    }
    assert!(asked > 0, "nobody asks for them: then they are not tested");
}
