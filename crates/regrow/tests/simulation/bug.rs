//! Bugs that can be planted between the engine and its server or its clients. The checker must find each.

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Two answers change places on their way from the server.
    AnswersCross,
    /// A call is written to the server twice.
    CallsTwice,
    /// A restarted server is told of a subscription twice.
    SubscribesTwice,
    /// A restarted server is not told of a subscription.
    ForgetsSubscription,
    /// The server hears the answer to its question twice.
    RepliesTwice,
    /// A server hears the answer to a question of the one before it.
    RepliesToTheNext,
    /// A process is said to be gone, and goes later.
    SaysGoneTooSoon,
    /// A process is said to be gone, and stays.
    LeavesProcess,
    /// A call never ends.
    Swallows,
    /// A call ends twice.
    EndsTwice,
    /// A call ends long after its deadline.
    EndsLate,
    /// A client is told that a call did not run, though it may have.
    Lies,
    /// A client is handed the answer to a call of another client.
    CrossesClients,
    /// A fault is charged that nobody was told of.
    HidesFaults,
    /// What the server said before its answer reaches the client after it.
    Disorders,
    /// A client is not told that a list has changed.
    HidesChanges,
    /// A connection that never comes back.
    StaysDown,
    /// A call fails because its server is away for a moment.
    HasNoPatience,
    /// None: all passes as it is, but through the same hands.
    Harmless,
    /// Somebody throws real dice.
    ThrowsDice,
}

impl Bug {
    /// All that break a promise.
    pub const ALL: [Bug; 18] = [
        Bug::AnswersCross,
        Bug::CallsTwice,
        Bug::SubscribesTwice,
        Bug::ForgetsSubscription,
        Bug::RepliesTwice,
        Bug::RepliesToTheNext,
        Bug::SaysGoneTooSoon,
        Bug::LeavesProcess,
        Bug::Swallows,
        Bug::EndsTwice,
        Bug::EndsLate,
        Bug::Lies,
        Bug::CrossesClients,
        Bug::HidesFaults,
        Bug::Disorders,
        Bug::HidesChanges,
        Bug::StaysDown,
        Bug::HasNoPatience,
    ];

    /// Whether it sits between the engine and the server.
    pub fn is_far(self) -> bool {
        use Bug::*;
        matches!(
            self,
            AnswersCross
                | CallsTwice
                | SubscribesTwice
                | ForgetsSubscription
                | RepliesTwice
                | RepliesToTheNext
                | SaysGoneTooSoon
                | LeavesProcess
                | StaysDown
                | Harmless
        )
    }

    /// The promise that it breaks.
    pub fn breaks(self) -> &'static str {
        match self {
            Bug::AnswersCross | Bug::RepliesTwice | Bug::RepliesToTheNext => "P7",
            Bug::CallsTwice | Bug::Lies => "P3",
            Bug::SubscribesTwice | Bug::ForgetsSubscription => "P15",
            Bug::SaysGoneTooSoon => "P1",
            Bug::LeavesProcess => "P6",
            Bug::Swallows | Bug::EndsTwice | Bug::EndsLate => "P2",
            Bug::CrossesClients => "P14",
            Bug::HidesFaults => "P4",
            Bug::Disorders => "order",
            Bug::HidesChanges => "lists",
            Bug::StaysDown => "recovery",
            Bug::HasNoPatience => "patience",
            Bug::Harmless | Bug::ThrowsDice => "nothing",
        }
    }
}
