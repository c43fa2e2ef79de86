//! Errors of the log in the words of the command line: what is an option of the library there is one
//! of the command here.

use std::fmt::Display;

/// What the library says, and what the command says.
const WORDS: [(&str, &str); 9] = [
    ("name it too", "bring it back, and name it in the description"),
    ("create the log with `force`", "create it with --force"),
    ("format it with `force`", "create it with --force"),
    ("open it with `salvage`", "use --salvage"),
    (
        "open the log without it, with `degraded`",
        "`tantalum log recover --degraded` goes on without it, and then `tantalum log replace` puts \
         a new device in its place (if that was interrupted, repeat it)",
    ),
    (
        "open the log with `degraded` to go on without this device",
        "`tantalum log recover --degraded` goes on without it",
    ),
    (
        "open it again, with `degraded` if",
        "open it again, with `tantalum log recover --degraded` if",
    ),
    ("`expects` says", "its description says"),
    ("open the log without hedging", "set `hedging = false` in the log's description"),
];

/// An error of the log in the words of the command line.
pub fn in_words(error: impl Display) -> String {
    let text = error.to_string();
    WORDS.iter().fold(text, |text, (of_library, of_command)| text.replace(of_library, of_command))
}

/// How another device gets the place of one that is lost to the log of this description.
pub fn put_another(description: impl Display, lost: impl Display) -> String {
    format!(
        "`tantalum log replace {description} --lost {lost} --with PATH` puts another device in its \
         place"
    )
}

/// The same, and what it means for the replacement of a device.
const WORDS_OF_REPLACE: [(&str, &str); 2] = [
    ("create it with --force to destroy that", "--force destroys that"),
    (
        "use --salvage to keep what is before",
        "the device that is to be replaced may have what lies there: move the checkpoint beyond it \
         first (with a backing `tantalum log recover` does), and repeat the command",
    ),
];

/// The same of a device that is to take the place of a lost one.
pub fn in_words_of_replace(error: impl Display) -> String {
    let text = in_words(error);
    WORDS_OF_REPLACE
        .iter()
        .fold(text, |text, (of_log, of_replace)| text.replace(of_log, of_replace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::{Caps, CommandKind, Faults, Payload, PowerCycle, RamDevice, RamOptions};
    use tantalum_log::{
        CreateOptions, Damage, Log, LogDevice, Lsn, OpenError, OpenOptions, VolumeError,
    };
    use tantalum_rt::{Rt, Runtime};

    /// What the opening of a log with two copies says if one device is missing, or fails.
    async fn without_a_device(rt: Rt) -> Vec<OpenError> {
        let caps = Caps::power_safe(1024, Payload::Bytes);
        let ram = |i| Faults::new(&rt, RamDevice::new(&rt, RamOptions::new(caps)), &format!("{i}"));
        let boxes: Vec<_> = (0..2).map(ram).collect();
        let named =
            |(i, b): (usize, &Faults<RamDevice>)| LogDevice::new(format!("device {i}"), b.device());
        let all: Vec<LogDevice<Faults<RamDevice>>> = boxes.iter().enumerate().map(named).collect();
        let options = CreateOptions { copies: 2, ..CreateOptions::default() };
        Log::create(&rt, &all, None, &options).await.expect("it is created");
        let open =
            |devices: &[LogDevice<_>]| Log::open(&rt, devices.to_vec(), OpenOptions::default());
        let missing = open(&all[..1]).await.err().expect("a device is missing");
        boxes[0].fail_nth(CommandKind::Read, 1);
        let failing = open(&all).await.err().expect("a device fails");
        vec![missing, failing]
    }

    /// No word of the library is left, and each pair of words is needed.
    #[test]
    fn each_error_that_names_an_option_names_that_of_the_command() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let opening = runtime.block_on(without_a_device(rt)).expect("it ends");
        let device = || "a device".to_string();
        let (lsn, watermark, place) = (Lsn(1), Lsn(2), None);
        let mut said: Vec<String> = opening.iter().map(ToString::to_string).collect();
        said.extend([
            OpenError::NotBlank { device: device(), what: device() }.to_string(),
            VolumeError::NotBlank { backing: device(), what: "a label" }.to_string(),
            OpenError::Damaged(Damage { lsn, watermark, place }).to_string(),
            OpenError::NotCopied.to_string(),
            OpenError::Hedging(device()).to_string(),
            OpenError::Differs { device: device(), what: "copies", made: 2, expected: 1 }
                .to_string(),
        ]);
        for (word, _) in WORDS {
            assert!(said.iter().any(|text| text.contains(word)), "nothing says {word}: {said:?}");
        }
        for text in said {
            let told = in_words(&text);
            let left = ["`force`", "`salvage`", "`degraded`", "without hedging", "`expects`"];
            assert!(!left.iter().any(|word| told.contains(word)), "{told}");
            assert_ne!(told, text);
        }
    }
}
