//! Copies structures from and to the memory of C (`abi`, 1).

use crate::abi::Record;
use crate::error::Failure;

/// Copies as much of `value` into the caller's record as fits, zeros the rest, and sets its size to
/// the number of bytes copied.
///
/// # Safety
/// `out` is null or points to a record with a correct size field.
pub(crate) unsafe fn put<T: Record>(out: *mut T, value: &T) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    let size = unsafe { size_of_record(out) }?;
    let (own, to) = (size_of::<T>(), out.cast::<u8>());
    let common = size.min(own);
    // SAFETY: `size` bytes at `out` are the caller's record, `own` bytes are `value`. The record is
    // written byte by byte, so alignment does not matter.
    unsafe {
        to.copy_from_nonoverlapping((value as *const T).cast::<u8>(), common);
        to.add(common).write_bytes(0, size - common);
        to.cast::<u64>().write_unaligned(common as u64);
    }
    Ok(())
}

/// The caller's record. Fields that it does not have are zero; fields that this library does not
/// know must be zero.
///
/// # Safety
/// `from` is null or points to a record with a correct size field.
pub(crate) unsafe fn take<T: Record>(from: *const T) -> Result<T, Failure> {
    // SAFETY: the caller guarantees it.
    let size = unsafe { size_of_record(from) }?;
    let mut record = T::default();
    let common = size.min(size_of::<T>());
    let bytes = from.cast::<u8>();
    // SAFETY: `size` bytes at `from` are the caller's record; any bytes are a value of `T`.
    unsafe { (&raw mut record).cast::<u8>().copy_from_nonoverlapping(bytes, common) };
    for i in common..size {
        // SAFETY: within the caller's record.
        if unsafe { bytes.add(i).read() } != 0 {
            return Err(Failure::invalid("the options have a field that this library has not"));
        }
    }
    Ok(record)
}

/// Whether there is room for a record: asked before a call does what is to be told there.
///
/// # Safety
/// `out` is null or points to a record with a correct size field.
pub(crate) unsafe fn room<T: Record>(out: *const T) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    unsafe { size_of_record(out) }.map(|_| ())
}

/// The same of a record that may be null.
///
/// # Safety
/// `out` is null or points to a record with a correct size field.
pub(crate) unsafe fn room_or_null<T: Record>(out: *const T) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    if out.is_null() { Ok(()) } else { unsafe { room(out) } }
}

/// So many bytes lie between the records of the caller's array: what its first one has. A program
/// that was built with another version of the library has records of another size.
///
/// # Safety
/// `first` is null or points to a record with a correct size field.
#[cfg(feature = "cache")]
pub(crate) unsafe fn stride<T: Record>(first: *const T) -> Result<usize, Failure> {
    // SAFETY: the caller guarantees it.
    unsafe { size_of_record(first) }
}

/// # Safety
/// `record` is null or points to a record with a correct size field.
unsafe fn size_of_record<T: Record>(record: *const T) -> Result<usize, Failure> {
    if record.is_null() {
        return Err(Failure::invalid("a structure is null"));
    }
    // SAFETY: a record begins with its size.
    let size = unsafe { record.cast::<u64>().read_unaligned() };
    // The bound catches most sizes that were never set.
    if size < 8 || size % 8 != 0 || size > 65_536 {
        return Err(Failure::invalid("set the structure's size to its sizeof first"));
    }
    Ok(size as usize)
}
