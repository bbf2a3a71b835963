// Package defence switches single defences of the library off, so that a test can show that the
// fault it makes is real: with the defence off, the same test must fail.
//
// The library itself reads no switch. The conditions that do are put into a copy of its files by package overlay, and the tests
// are built of that copy, with go test -overlay. In a test that is built without it, [Switch.Without] skips.
//
// A switch is global to the process, so a test that uses one does not run in parallel with others. Defences that are part of a
// script need no switch: a test has its own client send another script in its place, see package mutant.
package defence

import "sync/atomic"

// Switch is one defence.
type Switch struct{ off atomic.Bool }

// The defences that can be switched off.
var (
	ToldOnce  Switch // a holder for which its own client waits again and again is told of once
	OwnNumber Switch // waits of callers that hold something are looked at however many others wait
	SeenTwice Switch // a circle of waits counts when it was seen again in texts that were made later
	Share     Switch // who looks at locks waits until what that cost the server is a share of the time

	NoRetry      Switch // go-redis does not send a script again on its own
	Resend       Switch // an operation without an answer is sent again
	RepeatedGone Switch // a release that finds nothing, after one that got no answer, is a success
	Taken        Switch // but not if others have had the lock since: then it may have been lost before
	Undo         Switch // an acquisition that its caller left is given back
	Landed       Switch // and once more when it is answered after that
	UndoAgain    Switch // and given back again, for a straggler of it that arrives after the first time
	Longest      Switch // and again for as long as the longest lease may stand that was asked for
	SlowGrant    Switch // a grant whose answer came too late to be trusted is asked for again
	FreshOwner   Switch // an owner id with a command that may still arrive is not used again
	KindIDs      Switch // each kind of lock knows an owner by an id of its own
	OneKind      Switch // a name that the owner holds by another kind is refused
	Detach       Switch // Unlock is sent although its context is cancelled
	Unlocks      Switch // Close waits for each Unlock that is under way
	LeaseEnd     Switch // a waiter sleeps no longer than the lease that it knows of
	PassOn       Switch // a waiter cancelled in the moment that it is woken passes the wake-up on
	Overdue      Switch // a server that stalls is noticed, and who comes then can leave
	Together     Switch // those who left a queue are given back by one script
	Haste        Switch // a caller waits for the answer to its own command no longer than its deadline
	Served       Switch // places of those whom a run has served are given back
	Overtake     Switch // commands do not wait for a sending that takes long
	OwnAnswer    Switch // who travels in one script with others gets its own answer
	LostForAll   Switch // and an error of the network leaves open whether it ran
	AsyncLog     Switch // log records are handled asynchronously, so that callers do not wait for them
	AsyncEvents  Switch // events without a caller are delivered to an observer asynchronously
	ToldEnds     Switch // an observer receives ends that no Unlock caused
	Caught       Switch // a panic of an observer's function goes no further
	NobodyHas    Switch // what was granted to a goroutine that an observer ends is given back
	// BesideStrings: where the key became a string of another library's, there is nothing to give back
	BesideStrings Switch
	Lanes         Switch // what goes to one master of a cluster does not wait for another
	Panics        Switch // a command in which a hook of go-redis panics is one that failed
	Glance        Switch // who asks a hold's context has it look at the clock
	Noted         Switch // who leaves before an answer knows what others of its client were told
	Outage        Switch // who was refused by nobody is not told that somebody has the lock
	Unopened      Switch // a command whose caller has left, or that a server refused as any other, says that the server was asked and has not answered
	Redial        Switch // who leaves while go-redis dials again is told why it does

	Gone Switch // nothing is sent any more for a caller who has left

	AnswerWithin Switch // a script without an answer ends with the retry budget, also without ReadTimeout

	CannotListen Switch // a waiter that cannot listen asks

	// Of waiters with places in a queue at the server.

	PlaceUnsubscribed Switch // a place is requested even if the mailbox is not subscribed in time
	Listening         Switch // a place is asked for when the mailbox is subscribed, not before
	Poll              Switch // a client that waits looks after the queue, also when nothing happens
	Refresh           Switch // and puts off the deadlines of its places
	GrantTime         Switch // a grant is trusted from when it was made, not from when it was heard of
	// OwnMessage is that the word of an earlier grant to the same owner is not taken for this one's.
	OwnMessage Switch

	// Of locks that are handed off within a client.

	Reserved      Switch // a lock is handed off with a reserved token, never with a made-up one
	Look          Switch // after a while the holder asks the server whether others want the lock
	YieldTurn     Switch // and then its client yields to them
	Turns         Switch // each of them
	RedissonTurns Switch // if clients of Redisson compete, a turn is one grant
	HeadStart     Switch // for as long as one who is far away needs
	Half          Switch // a lease that is half over is not handed off
	Believes      Switch // "not held" is not believed while a command is out that may have released the lock
	Rest          Switch // a subscription of one's own that only lingers is not taken for another client twice
	Longer        Switch // a lease that stands for longer than was asked for is not handed off
	Front         Switch // nor is a lock by one who does not have the front place
	Inner         Switch // a plain lease is renewed only while a renewed hold in it lasts
	LatePass      Switch // a lock is not handed off after a question that may reach the server late, and release it there
	HandBack      Switch // a caller that takes the lock over while leaving hands it off, or back
	Outlast       Switch // what is under way for who leaves goes on for those behind
	LateFor       Switch // but not for long where the servers are silent
	SilentWay     Switch // what was asked for who left is given back where a connection is silent, before its read ends
	InTime        Switch // a place in a queue ends before a grant comes too late for its caller

	// Of locks that a client keeps without a holder.

	KeptCalled Switch // who is refused calls the client, which gives the lock back
	KeptWanted Switch // so does the next Unlock, if somebody holds the lock
	KeptMissed Switch // and so does the client if it may have missed a call
	KeptGap    Switch // if somebody holds the lock then, the server is asked who waits
	KeptIdle   Switch // the lock is given back when it was idle for too long
	KeptAsk    Switch // now and then the server is asked who waits and does not call
	KeptLeaves Switch // the next Lock of the client waits for the end of that
	KeptForced Switch // a client whose lock is forced free is called

	// Of locks that several masters grant together.

	Withdraw    Switch // the votes of a minority are given back
	Quiet       Switch // and that is announced to nobody
	LastWord    Switch // a refusal by the master that is asked first is not the last word
	Undisturbed Switch // a caller who asks once takes no votes of an election under way
	FindOut     Switch // a silent master is asked whether it is back although the caller has left
	Remember    Switch // who was refused a lock a moment ago asks one master first
	Listeners   Switch // a majority is asked who waits for a lock that is handed off, not one master
	Tell        Switch // a majority is told of a token that the others do not have
	Join        Switch // a master that has forgotten a hold is asked to take it back
	Retake      Switch // as soon as it says so, whoever waits for that
	Restarts    Switch // a master that may have forgotten what it granted does not count
	VoteRun     Switch // a vote tells since when its master runs, also over a connection that was there before
	Replicas    Switch // a grant that too few replicas have is none
	Gaps        Switch // a hold is lost when a majority may have granted the lock to somebody else meanwhile
	// a vote that was decided on before the win is on its way then, although the machine sends it later
	Begun Switch
	Anew  Switch // but not because masters were started anew, whose votes count for nobody then
	// a hold is renewed once more when a master that was another's has granted it for so long that it counts as never lost
	Settle    Switch
	Clocks    Switch // tokens are proposed by the clocks of the masters, not by that of the client
	Stay      Switch // a lock that is to stay taken for a while is not released before
	JoinStays Switch // and a master that is asked to take it back keeps it for as long
	LeaveLate Switch // a vote that comes to a master after the lock was left there is left too

	// Of an election.

	WaitLead Switch // who was leader and is still at work does not campaign again
	TermEnd  Switch // who observes looks again when the lease of the leader would have ended

	// Of a read-write lock.

	Upgrade Switch // who reads and wants to write is refused, and does not wait for itself
	OwnRead Switch // a read that waits asks again when its owner is granted the write

	// Of several locks that are taken as one.

	OneOrder     Switch // they are taken in one order, whatever order they are given in
	Behind       Switch // nothing is held that comes after what is waited for
	AllOrNone    Switch // what was granted is given back if one is not
	GivesAllBack Switch // all are given back, also if that fails for one
	JoinedEnds   Switch // the hold of all ends with the first that is lost
	SetTurns     Switch // calls of one client for the same members ask one after another
	Group        Switch // members that are acquired at once share a pipeline
	Forgo        Switch // what nobody has seen is released, whatever HoldAtLeast says

	// Of the watchdog and of subscriptions.

	Deadline     Switch // a hold ends by the local clock when nobody confirms its lease
	Bound        Switch // renewal ends with the hold
	Asleep       Switch // the time for which the machine slept counts
	AsyncRenewal Switch // renewals are sent asynchronously, so the clock goes on while a server is silent
	Recheck      Switch // what was forgotten, or ran out, since its batch was made is not sent
	Life         Switch // the verdict on an earlier grant is not taken for this one's
	TooLate      Switch // what the server says after the deadline does not count
	SendTime     Switch // a lease is trusted from when it was asked for, not from when the answer came
	Length       Switch // a confirmation counts for the length that the server was asked for
	Narrow       Switch // what is renewed is not due again before the attempt has ended
	RenewAt      Switch // a renewal that was wanted at a moment does not come sooner, with others
	Doubt        Switch // when the wall clock has jumped all leases are renewed
	Rewake       Switch // a subscription that is confirmed, for the first time or again, is a wake-up
	JoinWake     Switch // and so is joining one that is confirmed
	Resubscribe  Switch // a channel that the server has taken off is subscribed anew
	Probing      Switch // when several channels are refused together, each is tried by itself
	Follow       Switch // a subscription at a server that commands no longer go to is replaced
	AtMaster     Switch // and so is one of a cluster whose server is a replica
)

// Off reports whether the defence is switched off.
func (s *Switch) Off() bool { return s.off.Load() }

// Without switches the defence off and returns the function that switches it on again.
func (s *Switch) Without(t T) (restore func()) {
	Need(t)
	s.Drop()
	return func() { s.off.Store(false) }
}

// Drop switches the defence off for good. It is for a process that a test has started.
func (s *Switch) Drop() { s.off.Store(true) }

// T is what is needed of a [testing.T].
type T interface {
	Helper()
	Skip(args ...any)
}

// Need skips a test that was built without the overlay: its switches would switch nothing.
func Need(t T) {
	t.Helper()
	if !Built {
		t.Skip("built without the switches of internal/testkit/defence; scripts/test.sh has them, " +
			"and so has: O=$(go run ./internal/testkit/overlay) && go test -race -count=1 -overlay \"$O\" ./pkg")
	}
}
