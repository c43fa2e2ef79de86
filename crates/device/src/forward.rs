//! `forward!`: the methods that a wrapper passes on to what it wraps.

/// Methods of [`BlockDevice`](crate::BlockDevice) and [`PowerCycle`](crate::PowerCycle) that do
/// nothing but call the same method of a field. It stands inside the `impl` of the trait, before
/// the methods that do more:
///
/// ```
/// use std::cell::Cell;
/// use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, forward};
///
/// /// Counts writes.
/// struct Counting<D> {
///     inner: D,
///     writes: Cell<u64>,
/// }
///
/// impl<D: BlockDevice> BlockDevice for Counting<D> {
///     forward!(inner: caps, is_alive, arm_queue, read, write_atomic, flush, discard, allocation);
///
///     async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
///         self.writes.set(self.writes.get() + 1);
///         self.inner.write(at, data, want).await
///     }
/// }
/// ```
///
/// A method that is neither named nor written has the trait's default, or is missing.
#[macro_export]
macro_rules! forward {
    (@caps $inner:tt) => {
        fn caps(&self) -> &$crate::Caps {
            $crate::BlockDevice::caps(&self.$inner)
        }
    };
    (@is_alive $inner:tt) => {
        fn is_alive(&self) -> bool {
            $crate::BlockDevice::is_alive(&self.$inner)
        }
    };
    (@arm_queue $inner:tt) => {
        fn arm_queue(&self) -> Option<u32> {
            $crate::BlockDevice::arm_queue(&self.$inner)
        }
    };
    (@blocks_its_thread $inner:tt) => {
        fn blocks_its_thread(&self) -> bool {
            $crate::BlockDevice::blocks_its_thread(&self.$inner)
        }
    };
    (@read $inner:tt) => {
        async fn read(
            &self,
            at: $crate::Block,
            buf: $crate::DataMut<'_>,
        ) -> Result<(), $crate::IoError> {
            $crate::BlockDevice::read(&self.$inner, at, buf).await
        }
    };
    (@write $inner:tt) => {
        async fn write(
            &self,
            at: $crate::Block,
            data: $crate::Data<'_>,
            want: $crate::Durability,
        ) -> Result<(), $crate::IoError> {
            $crate::BlockDevice::write(&self.$inner, at, data, want).await
        }
    };
    (@write_atomic $inner:tt) => {
        async fn write_atomic(
            &self,
            group: &[$crate::Extent<'_>],
        ) -> Result<(), $crate::AtomicError> {
            $crate::BlockDevice::write_atomic(&self.$inner, group).await
        }
    };
    (@flush $inner:tt) => {
        async fn flush(&self) -> Result<(), $crate::IoError> {
            $crate::BlockDevice::flush(&self.$inner).await
        }
    };
    (@discard $inner:tt) => {
        async fn discard(&self, range: $crate::Blocks) -> Result<(), $crate::IoError> {
            $crate::BlockDevice::discard(&self.$inner, range).await
        }
    };
    (@allocation $inner:tt) => {
        async fn allocation(
            &self,
            range: $crate::Blocks,
        ) -> Result<$crate::Allocation, $crate::IoError> {
            $crate::BlockDevice::allocation(&self.$inner, range).await
        }
    };
    (@wants_exits $inner:tt) => {
        fn wants_exits(&self) -> bool {
            $crate::BlockDevice::wants_exits(&self.$inner)
        }
    };
    (@left $inner:tt) => {
        async fn left(
            &self,
            range: $crate::Blocks,
            data: Option<$crate::Data<'_>>,
        ) -> Result<(), $crate::IoError> {
            $crate::BlockDevice::left(&self.$inner, range, data).await
        }
    };
    (@cut $inner:tt) => {
        fn cut(&self) {
            $crate::PowerCycle::cut(&self.$inner);
        }
    };
    (@off $inner:tt) => {
        async fn off(&self) {
            $crate::PowerCycle::off(&self.$inner).await;
        }
    };
    (@power_on $inner:tt) => {
        async fn power_on(&self) -> Result<(), $crate::IoError> {
            $crate::PowerCycle::power_on(&self.$inner).await
        }
    };
    ($inner:tt: $($method:ident),+ $(,)?) => {
        $($crate::forward!(@$method $inner);)+
    };
}

/// Makes an enum of devices one device: every method of [`BlockDevice`](crate::BlockDevice) calls that
/// of the kind that is there. Each kind has one field.
///
/// ```
/// use tantalum_device::{BlockDevice, Disk, Partition, RamDevice, either_device};
///
/// /// Part of a disk, or memory.
/// #[derive(Clone)]
/// enum Place {
///     Disk(Partition<Disk>),
///     Ram(RamDevice),
/// }
///
/// either_device!(Place: Disk, Ram);
///
/// fn blocks(of: &Place) -> u64 {
///     of.caps().blocks
/// }
/// ```
///
/// Unlike those of [`forward!`](crate::forward!), no method has the trait's default.
#[macro_export]
macro_rules! either_device {
    (@call $on:ident, $d:ident => $call:expr; $($kind:ident)+) => {
        match $on {
            $(Self::$kind($d) => $call,)+
        }
    };
    ($of:ty: $($kind:ident),+ $(,)?) => {
        impl $crate::BlockDevice for $of {
            fn caps(&self) -> &$crate::Caps {
                $crate::either_device!(@call self, d => $crate::BlockDevice::caps(d); $($kind)+)
            }

            fn is_alive(&self) -> bool {
                $crate::either_device!(@call self, d => $crate::BlockDevice::is_alive(d); $($kind)+)
            }

            fn arm_queue(&self) -> Option<u32> {
                $crate::either_device!(@call self, d => $crate::BlockDevice::arm_queue(d); $($kind)+)
            }

            fn blocks_its_thread(&self) -> bool {
                $crate::either_device!(
                    @call self, d => $crate::BlockDevice::blocks_its_thread(d); $($kind)+
                )
            }

            async fn read(
                &self,
                at: $crate::Block,
                buf: $crate::DataMut<'_>,
            ) -> Result<(), $crate::IoError> {
                $crate::either_device!(
                    @call self, d => $crate::BlockDevice::read(d, at, buf).await; $($kind)+
                )
            }

            async fn write(
                &self,
                at: $crate::Block,
                data: $crate::Data<'_>,
                want: $crate::Durability,
            ) -> Result<(), $crate::IoError> {
                $crate::either_device!(
                    @call self, d => $crate::BlockDevice::write(d, at, data, want).await; $($kind)+
                )
            }

            async fn write_atomic(
                &self,
                group: &[$crate::Extent<'_>],
            ) -> Result<(), $crate::AtomicError> {
                $crate::either_device!(
                    @call self, d => $crate::BlockDevice::write_atomic(d, group).await; $($kind)+
                )
            }

            async fn flush(&self) -> Result<(), $crate::IoError> {
                $crate::either_device!(
                    @call self, d => $crate::BlockDevice::flush(d).await; $($kind)+
                )
            }

            async fn discard(&self, range: $crate::Blocks) -> Result<(), $crate::IoError> {
                $crate::either_device!(
                    @call self, d => $crate::BlockDevice::discard(d, range).await; $($kind)+
                )
            }

            async fn allocation(
                &self,
                range: $crate::Blocks,
            ) -> Result<$crate::Allocation, $crate::IoError> {
                $crate::either_device!(
                    @call self, d => $crate::BlockDevice::allocation(d, range).await; $($kind)+
                )
            }

            fn wants_exits(&self) -> bool {
                $crate::either_device!(@call self, d => $crate::BlockDevice::wants_exits(d); $($kind)+)
            }

            async fn left(
                &self,
                range: $crate::Blocks,
                data: Option<$crate::Data<'_>>,
            ) -> Result<(), $crate::IoError> {
                $crate::either_device!(
                    @call self, d => $crate::BlockDevice::left(d, range, data).await; $($kind)+
                )
            }
        }
    };
}
