//! What can be explored: a subject, the judge of what it holds, and the blueprint of which it
//! is built.
//!
//! 1. A subject may consist of any number of media. A copy is one of all of them, at one moment.
//! 2. What must survive is for the judge to say. Block devices have one: [`crate::Contract`].
//! 3. A copy and its judge know nothing of those they come from: neither changes the other.

use crate::command::Command;
use crate::failure::Failure;
use std::fmt::Debug;
use tantalum_device::Operation;
use tantalum_rt::{Nanos, Rt};

/// Something with a plug. Cheap to clone; a clone is the same one.
///
/// [The page of the crate](crate) has one with a judge of its own. Devices have both already:
///
/// ```
/// use tantalum_explore::{Blueprint, Command, Judge, RamBlueprint, Subject};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let ram = RamBlueprint::volatile(64).build(&runtime.handle())?;
/// let checked = runtime.block_on(async move {
///     let judge = ram.judge();
///     Subject::start(&ram).await.expect("it starts");
///     let session = judge.session(&ram);
///     judge.send(&session, Command::Write(3, 1)).await?;
///     judge.send(&session, Command::Flush).await?;
///     Subject::cut(&ram);
///     Subject::start(&ram).await.expect("it starts");
///     judge.check(&ram).await
/// });
/// assert_eq!(checked.unwrap(), Ok(()));
/// # Ok::<(), String>(())
/// ```
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait Subject: Clone + 'static {
    /// The judge that holds it to its promises.
    type Judge: Judge<Subject = Self>;

    /// A judge of a subject that holds nothing yet.
    fn judge(&self) -> Self::Judge;

    /// Cuts the power, at this instant. Harmless if there is none.
    fn cut(&self);

    /// Waits until all is done that can be done without power.
    async fn off(&self) {}

    /// Restores the power, and waits until it takes commands. A cut meanwhile ends it.
    ///
    /// # Errors
    /// Why it does not start, in a line.
    async fn start(&self) -> Result<(), String>;

    /// Waits until nothing of the start goes on.
    ///
    /// # Errors
    /// What failed in it after commands were taken, in a line.
    async fn settle(&self) -> Result<(), String> {
        Ok(())
    }

    /// All its media as a cut at this moment leaves them, in another runtime, on their way to
    /// being without power ([`Subject::off`]); this one goes on. `None` if the power is failing
    /// already: then a cut changes nothing.
    fn cut_copy(&self, rt: &Rt) -> Option<Self>;

    /// Checks its memory against itself and its media. No time passes.
    ///
    /// # Errors
    /// The first invariant that does not hold, in a line.
    fn audit(&self) -> Result<(), String> {
        Ok(())
    }

    /// Why it may lose what it promised to keep, in a line: its capacitors had too little energy for
    /// one of its power losses. `None` if they had enough, or if it has none.
    fn shortage(&self) -> Option<String> {
        None
    }

    /// From now on remembers what its media do.
    fn record_operations(&self) {}

    /// What its media did since then: the moments at which it is cut, beside those of commands
    /// and random ones. It remembers no more.
    fn take_operations(&self) -> Vec<Operation> {
        Vec::new()
    }

    /// Orders that one operation of a medium fails, `after` so many others of its kind. A
    /// subject whose media never fail does nothing.
    fn fail(&self, _fault: Fault, _after: u64) {}

    /// Cancels ordered failures that have not happened yet.
    fn fail_nothing(&self) {}
}

/// An operation of a medium that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A program of a flash array.
    Program,
    /// An erase of a flash array.
    Erase,
}

/// Says what a subject must hold. It sends the commands, so that it knows them. Cheap to clone; a
/// clone is the same judge.
///
/// [`Subject`] has an example.
#[allow(async_fn_in_trait)]
pub trait Judge: Clone + 'static {
    /// What it judges.
    type Subject;

    /// What commands are sent over from one start to the next cut.
    type Session: Clone + 'static;

    /// A judge of a copy that is cut at this moment: a command that has not ended may have
    /// happened or not.
    #[must_use]
    fn fork(&self) -> Self;

    /// Commands to a subject that has power.
    fn session(&self, subject: &Self::Subject) -> Self::Session;

    /// Sends a command. [`Command::Pause`], [`Command::Cycle`] and faults never come here; what
    /// the others mean is for the judge to say.
    ///
    /// # Errors
    /// [`Failure::of_command`] if it failed though it had to succeed, or the power went.
    async fn send(&self, session: &Self::Session, command: Command) -> Result<(), Failure>;

    /// Compares all that a subject holds after a start with what it promised. What is seen is
    /// what must be there from now on. No command is in flight.
    ///
    /// # Errors
    /// What is lost, torn or made up.
    async fn check(&self, subject: &Self::Subject) -> Result<(), Failure>;

    /// Reads everything while there is power: it must be the newest. No command is in flight.
    ///
    /// # Errors
    /// What is not.
    async fn read_all(&self, _subject: &Self::Subject) -> Result<(), Failure> {
        Ok(())
    }
}

/// Builds a subject, the same one each time: it is all that decides what the subject is.
///
/// [`Built`] has an example.
pub trait Blueprint: Clone + Debug + PartialEq + 'static {
    /// What it builds.
    type Subject: Subject;

    /// A name for reports and tests.
    fn name(&self) -> String;

    /// One that holds nothing, without power.
    ///
    /// # Errors
    /// Why it cannot be built, in a line.
    fn build(&self, rt: &Rt) -> Result<Self::Subject, String>;

    /// So many that belong together, as the members of an array.
    ///
    /// # Errors
    /// Why one cannot be built, in a line.
    fn build_several(&self, rt: &Rt, count: u32) -> Result<Vec<Self::Subject>, String> {
        (0..count).map(|_| self.build(rt)).collect()
    }

    /// What commands may ask of it.
    ///
    /// # Errors
    /// Why it cannot be built, in a line.
    fn room(&self) -> Result<Room, String>;

    /// The time that a change of its media takes: the last cut of a case comes within three.
    fn step(&self) -> Nanos;

    /// A Rust expression that makes this blueprint, with full paths; its indented lines are printed
    /// as they are.
    fn to_rust(&self) -> String;
}

/// What commands may ask of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Commands name blocks (or whatever the judge takes them for) below this.
    pub blocks: u64,
    /// Operations of its media that may fail.
    pub faults: u32,
}

/// A blueprint that is a function: for a subject of one's own.
///
/// ```
/// use tantalum_explore::{Blueprint, Built, Ingredients, Nesting, RamBlueprint, Tally};
/// use tantalum_rt::{Nanos, Rt};
///
/// let build = |rt: &Rt| RamBlueprint::volatile(64).build(rt);
/// let ram = Built { rust: "ram()", blocks: 64, step: Nanos::from_micros(50), build };
/// let what = Ingredients { commands: 20, then: 4, ..Ingredients::default() };
/// let scenario = what.scenario(ram, 1)?;
/// let points: Vec<_> = scenario.points(10).unwrap().into_iter().enumerate().collect();
/// let mut tally = Tally::default();
/// assert_eq!(scenario.explore(&points, Nesting::default(), &mut tally, &|| ()), Ok(()));
/// assert!(tally.all_cuts() > 0);
/// # Ok::<(), String>(())
/// ```
pub struct Built<S> {
    /// A Rust expression that makes this blueprint. Two with the same one are the same.
    pub rust: &'static str,
    /// Commands name blocks (or whatever the judge takes them for) below this.
    pub blocks: u64,
    /// The time that a change of its media takes.
    pub step: Nanos,
    /// Makes one that holds nothing, without power.
    pub build: fn(&Rt) -> Result<S, String>,
}

impl<S> Clone for Built<S> {
    fn clone(&self) -> Built<S> {
        Built { ..*self }
    }
}

impl<S> PartialEq for Built<S> {
    fn eq(&self, other: &Built<S>) -> bool {
        self.rust == other.rust
    }
}

impl<S> Debug for Built<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.rust)
    }
}

impl<S: Subject> Blueprint for Built<S> {
    type Subject = S;

    fn name(&self) -> String {
        self.rust.into()
    }

    fn build(&self, rt: &Rt) -> Result<S, String> {
        (self.build)(rt)
    }

    fn room(&self) -> Result<Room, String> {
        Ok(Room { blocks: self.blocks, faults: 0 })
    }

    fn step(&self) -> Nanos {
        self.step
    }

    fn to_rust(&self) -> String {
        self.rust.into()
    }
}
