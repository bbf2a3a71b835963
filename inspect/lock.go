package inspect

import (
	"slices"
	"time"
)

// Kind is what a name looks like.
type Kind string

// The kinds.
const (
	Nothing   Kind = "none"      // there is nothing at the name, nor beside it
	Free      Kind = "free"      // nobody has it; it had a token within the last hour, so it was a lock
	Plain     Kind = "lock"      // of rlock, of fairlock without waiters, or a master's part of redlock; Redisson's too
	Fair      Kind = "fairlock"  // it has a queue
	ReadWrite Kind = "rwlock"    //
	Semaphore Kind = "semaphore" //
	Latch     Kind = "latch"     // or somebody's counter, see the package comment
	Election  Kind = "election"  // somebody has announced itself as the leader
	Foreign   Kind = "foreign"   // the key is not a lock
)

// Lock is what the server knows of a name at one moment.
type Lock struct {
	Name string // as it stands in Redis: with the prefix of the client, see Prefix of holdfast.Options
	Kind Kind
	// Type is that of the name's key, as TYPE has it: "hash", "string", "none".
	Type string
	At   time.Time // by the server's clock
	// Remaining is what is left of the key's time to live. For a plain lock that is the lease. Negative:
	// the key has none, or there is no key.
	Remaining time.Duration
	// Token is the last fencing token that was granted; 0: none is known. If a client hands a lock off
	// among its goroutines, Token is the last one that it has reserved, which may be greater than that of
	// the holder.
	Token   uint64
	Holders []Holder
	Waiters int      // those whose places count; -1 if the kind has no queue in Redis; see Uncounted
	Queue   []Waiter // the first ones, in their order if there is one; with those whose places have ended
	// Listening is how many connections listen for the lock's release at this server; -1: not known. A
	// client has one, however many of its callers wait: see Uncounted.
	Listening int
	Permits   *Permits // of a semaphore
	Count     int64    // of a latch: the count that is left
	Leader    *Leader  // of an election
	Problems  []Problem
	// More says that there are more holders or waiters than Holders and Queue have.
	More bool
	// Server is the address of the master that answered; empty: not known.
	Server string
}

// Held reports whether somebody has the lock, or some of its permits, or a latch is not open.
func (l *Lock) Held() bool { return len(l.Holders) > 0 || l.Kind == Latch && l.Count > 0 }

// Uncounted reports whether callers may wait of whom Redis knows nothing. Callers of an rlock, a
// redlock and an rwlock wait behind each other within their client, and only the first of them has a
// place or listens: none if the client itself has the lock. So neither Waiters nor Listening counts
// the waiters inside a holder's process. Redisson's callers all listen.
func (l *Lock) Uncounted() bool {
	return (l.Kind == Plain || l.Kind == ReadWrite) && slices.ContainsFunc(l.Holders, func(h Holder) bool { return !h.Redisson })
}

// Waiting returns how many wait, as far as Redis knows: who has a place. Where waiters have no places
// it is how many connections listen for the release, and about is true. Of a read-write lock only those
// that wait to write have places, and all that wait listen: if more listen than have places, the others
// wait to read, and all are counted by their connections. Waiting returns -1 if nothing is known.
func (l *Lock) Waiting() (n int, about bool) {
	switch {
	case l.Kind == ReadWrite && l.Listening > l.Waiters:
		return l.Listening, true
	case l.Waiters > 0, l.Waiters == 0 && !l.Uncounted():
		return l.Waiters, false
	case l.Listening > 0:
		return l.Listening, true
	case l.Listening < 0, l.Uncounted():
		return -1, false
	}
	return 0, false
}

// Granted returns when the server granted the lock to its holder, by the server's clock. The token is
// that time, as long as the clock did not go back. Granted returns the zero Time if the time is not
// known: for readers, permits, and tokens that are ahead of the clock.
func (l *Lock) Granted() time.Time {
	const beginning = 1_000_000_000_000_000 // microseconds: 2001, which no token of a clock is before
	if len(l.Holders) != 1 || l.Holders[0].Mode == Read || l.Permits != nil || l.Token < beginning {
		return time.Time{}
	}
	if granted := time.UnixMicro(int64(l.Token)); !granted.After(l.At) { //nolint:gosec // tokens are below 2^53
		return granted
	}
	return time.Time{}
}

// Mode is how an owner holds a read-write lock.
type Mode string

// The modes.
const (
	Read  Mode = "read"
	Write Mode = "write"
)

// Holder is an owner that has a lock.
type Holder struct {
	// Owner is "<client uuid>:h<number>", with a k or an s for the h if the client keeps locks, and
	// Redisson's without a letter. For a permit of Redisson's it is the permit's id.
	Owner string
	// Raw is the owner as it stands in Redis, which is what [Inspector.End] compares.
	Raw string
	// Count is how often it has entered the lock, or how many permits it has.
	Count     int
	Remaining time.Duration // of its lease; negative: it has no end
	Mode      Mode          // of a read-write lock, else empty
	Redisson  bool          // it is a client of Redisson
	Left      bool          // it has unlocked, and the lock stays taken for a while: HoldAtLeast
	Label     string        // who the client is, see Label of holdfast.Options
}

// Client is the id of the holder's client, empty if it has none.
func (h Holder) Client() string { return clientOf(h.Owner) }

// Waiter is an owner with a place.
type Waiter struct {
	Owner     string
	Remaining time.Duration // for how long its place counts if its client sends nothing; negative: the place has ended
	Listening int           // connections that listen on its client's channel; 0: it is dead or out of reach; -1: not known
	Wants     int           // permits; 1 for all others
	Redisson  bool
	Label     string
}

// Client is the id of the waiter's client.
func (w Waiter) Client() string { return clientOf(w.Owner) }

// Alive reports whether the place counts, and whether its client listens, as far as that is known.
func (w Waiter) Alive() bool { return w.Remaining > 0 && w.Listening != 0 }

// Permits is what a semaphore has.
type Permits struct {
	All   int64 // how many there are
	Free  int64 // negative if more are out than there are
	Out   int64 // whose leases have not ended
	Ended int64 // whose leases have ended: they are free for the next caller, and count as Free
}

// Leader is what the leader of an election has announced.
type Leader struct {
	Owner string
	Token uint64
	Value string // the first kilobyte of it
}

// Trouble is a class of problems, for programs.
type Trouble string

// The classes.
const (
	NoEnd        Trouble = "no-end"        // a lock without a time to live
	NoOwner      Trouble = "no-owner"      // a count, or a number of permits, without an owner
	NotALock     Trouble = "not-a-lock"    // a key of another type, or a hash that is not a lock
	WrongType    Trouble = "wrong-type"    // a key beside the lock is of a type that it cannot have
	BadToken     Trouble = "bad-token"     // the token's key holds no token
	NoToken      Trouble = "no-token"      // an owner of this library has the lock, and its token is gone
	DeadQueue    Trouble = "dead-queue"    // there are waiters, and none of their clients is alive
	Unreadable   Trouble = "unreadable"    // the server refused to show it
	TwoSpellings Trouble = "two-spellings" // "a" and "{a}" are two keys with one token
)

// Problem is something that looks wrong.
type Problem struct {
	Trouble Trouble
	Text    string // what it is and what to do, for people
}

func (p Problem) String() string { return p.Text }
