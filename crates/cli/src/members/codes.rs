//! Exit codes of errors of logs and caches: a device, a backing or a description that is wrong is
//! an invalid request; damage, and a device that fails, is a failure. What `inspect` and `check`
//! find missing beside what they can read is damage.

use crate::out;
use tantalum_cache::{flash, volume};
use tantalum_log::{LogError, OpenError, VolumeError};

/// Of a log that is not made or opened.
pub fn open_code(error: &OpenError) -> u8 {
    match error {
        OpenError::Damaged(_)
        | OpenError::Io { .. }
        | OpenError::NotCopied
        | OpenError::Superblock(_)
        | OpenError::State(_) => out::FAILED,
        OpenError::OfNoUse(error) => open_code(error),
        _ => out::USAGE,
    }
}

/// Of an open log.
pub fn log_code(error: &LogError) -> u8 {
    match error {
        LogError::Replace(error) => open_code(error),
        _ => out::FAILED,
    }
}

/// Of a log volume that is not made or does not start.
pub fn volume_code(error: &VolumeError) -> u8 {
    match error {
        VolumeError::Open(error) => open_code(error),
        VolumeError::Log(error) => log_code(error),
        VolumeError::PowerLost | VolumeError::Backing { .. } | VolumeError::LabelDamaged(_) => {
            out::FAILED
        }
        _ => out::USAGE,
    }
}

/// Of a cache that is not made, opened or read.
pub fn cache_open_code(error: &flash::OpenError) -> u8 {
    match error {
        flash::OpenError::Damaged { .. }
        | flash::OpenError::Io { .. }
        | flash::OpenError::Head { .. } => out::FAILED,
        _ => out::USAGE,
    }
}

/// Of a cache volume that does not start.
pub fn cache_volume_code(error: &volume::VolumeError) -> u8 {
    match error {
        volume::VolumeError::Open(error) => cache_open_code(error),
        volume::VolumeError::PowerLost | volume::VolumeError::Cache(_) => out::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::IoError;

    #[test]
    fn a_wrong_device_is_an_invalid_request_and_damage_is_a_failure() {
        let of_no_use = |error| OpenError::OfNoUse(Box::new(error));
        let device = || "a".to_string();
        for (error, code) in [
            (OpenError::NoLog(device()), out::USAGE),
            (OpenError::Hedging(device()), out::USAGE),
            (OpenError::Superblock(device()), out::FAILED),
            (of_no_use(OpenError::NoLog(device())), out::USAGE),
            (of_no_use(OpenError::State(device())), out::FAILED),
        ] {
            assert_eq!(volume_code(&VolumeError::Open(error.clone())), code, "{error}");
            assert_eq!(log_code(&LogError::Replace(error.clone())), code, "{error}");
        }
        let (backing, error) = (device(), IoError::Failed("broken"));
        assert_eq!(volume_code(&VolumeError::Backing { backing, error }), out::FAILED);
        assert_eq!(
            volume_code(&VolumeError::Resized { backing: device(), was: 2, is: 1 }),
            out::USAGE
        );
    }
}
