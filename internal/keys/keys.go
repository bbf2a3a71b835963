// Package keys spells the Redis keys and channels of a lock, and nothing else in the module does.
//
// The names are Redisson's, so that Go and Java services share locks. Every key of one lock is in
// one slot of a cluster: a name without braces is put into a hash tag by its derived keys, a name
// with a hash tag of its own keeps it. Not promised: that two kinds of lock with one name are
// independent. They share the hash on purpose and exclude each other.
package keys

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// Prefixes of the keys that are derived from a lock's name.
const (
	channelPrefix = "redisson_lock__channel"
	tokenPrefix   = "redisson_lock_token"
	queuePrefix   = "redisson_lock_queue"
	timeoutPrefix = "redisson_lock_timeout"
	rwPrefix      = "redisson_rwlock"
	permitsPrefix = "redisson_sc"

	// Ours: Redisson has none.
	fencePrefix         = "holdfast_fence"
	writersPrefix       = "holdfast_rwlock_writers"
	latchCallPrefix     = "holdfast_latch"
	permitQueuePrefix   = "holdfast_semaphore_queue"
	permitPlacesPrefix  = "holdfast_semaphore_places"
	permitWantsPrefix   = "holdfast_semaphore_wants"
	electionPrefix      = "holdfast_election"
	electionChannelName = "holdfast_election__channel"
)

// Lock is the set of keys of one lock. The hash itself is stored under the plain name.
type Lock struct {
	Name    string // hash: owner -> hold count
	Channel string // pub/sub channel on which a release is announced, and the key of the longest head start
	Token   string // string: the fencing token granted last

	// Of a fair lock.
	Queue     string // list of owners that wait
	Deadlines string // sorted set: owner -> until when its place counts
}

// For returns the keys of the lock called name, which must have passed [Check].
func For(name string) Lock {
	return Lock{
		Name: name, Channel: prefix(channelPrefix, name), Token: prefix(tokenPrefix, name),
		Queue: prefix(queuePrefix, name), Deadlines: prefix(timeoutPrefix, name),
	}
}

// ReadWrite is the set of keys of one read-write lock. The hash is stored under the plain name.
type ReadWrite struct {
	Name    string // hash: "mode", and owners with their counts
	Channel string // pub/sub channel on which a release is announced
	Token   string // string: the fencing token of the last write
	Writers string // sorted set: owner that waits to write -> until when its place counts
}

// ForReadWrite returns the keys of the read-write lock called name, which must have passed [Check].
func ForReadWrite(name string) ReadWrite {
	return ReadWrite{
		Name: name, Channel: prefix(rwPrefix, name), Token: prefix(tokenPrefix, name),
		Writers: prefix(writersPrefix, name),
	}
}

// Permits is the set of keys of one semaphore. How many are free is stored under the plain name.
type Permits struct {
	Name    string // string: how many permits are free
	Ends    string // sorted set: permit that is out -> until when
	Channel string // pub/sub channel on which it is announced how many are free
	Token   string // string: the fencing token granted last
	Queue   string // sorted set: owner that waits -> when it came
	Places  string // sorted set: owner that waits -> until when its place counts
	Wants   string // hash: owner that waits -> how many permits it wants, if more than one
	Counts  string // string: what counts the number, as [Latch.Counts]
}

// ForPermits returns the keys of the semaphore called name, which must have passed [Check].
func ForPermits(name string) Permits {
	return Permits{
		Name: name, Ends: inTag(name) + ":timeout", Channel: prefix(permitsPrefix, name), Token: prefix(tokenPrefix, name),
		Queue: prefix(permitQueuePrefix, name), Places: prefix(permitPlacesPrefix, name), Wants: prefix(permitWantsPrefix, name),
		Counts: prefix(latchCallPrefix, name),
	}
}

// Reader is the key that ends with the lease of an owner that reads. Redisson has one for each of an
// owner's holds, this library only the first.
func (k ReadWrite) Reader(owner string) string {
	return inTag(k.Name) + ":" + owner + ":rwlock_timeout:1"
}

// inTag is Redisson's suffixName without the suffix: a name with an opening brace brings its own hash tag.
func inTag(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// latchChannel is what Redisson's channels of latches begin with. What follows stands in braces,
// whether it has some of its own or not.
const latchChannel = "redisson_countdownlatch__channel__"

// Latch is what there is of one latch. The count is stored under the plain name.
type Latch struct {
	Name    string // string: what is left to count
	Counts  string // string: whether a latch or a semaphore counts that number; Redisson has no such key
	Channel string // pub/sub channel on which it is announced that the latch was set or is open
	// Sharded is the channel for sharded pub/sub. For a name with a hash tag of its own it is not
	// Redisson's, whose channel would be in another slot: there Redisson's latches do not work.
	Sharded string
}

// ForLatch returns the keys of the latch called name, which must have passed [Check].
func ForLatch(name string) Latch {
	l := Latch{Name: name, Counts: prefix(latchCallPrefix, name), Channel: latchChannel + "{" + name + "}"}
	if l.Sharded = l.Channel; strings.Contains(name, "{") {
		l.Sharded = prefix(latchChannel, name)
	}
	return l
}

// Call is the key by which a call is remembered.
func (l Latch) Call(id string) string { return l.Counts + ":" + id }

// Mailbox is the channel on which one waiter of a fair lock is called: an owner, or a client for
// all of its own.
func (l Lock) Mailbox(of string) string { return l.Channel + ":" + of }

// Election is the key of what the leader of an election says of itself, and the channel on which
// changes are announced. The rest of an election is the lock of its name.
func Election(name string) (said, channel string) {
	return prefix(electionPrefix, name), prefix(electionChannelName, name)
}

// Fence is the key of the last fencing token that has written to a key, which must have passed
// [OneSlot]. "a" and "{a}" share one, as they share the token of a lock: at worst a write is
// refused that nobody overtook.
func Fence(key string) string { return prefix(fencePrefix, key) }

// prefix is Redisson's prefixName: a name with an opening brace brings its own hash tag.
func prefix(p, name string) string {
	if strings.Contains(name, "{") {
		return p + ":" + name
	}
	return p + ":{" + name + "}"
}

// Check refuses a name that no lock can have: an empty one, and those that [OneSlot] refuses.
func Check(name string) error {
	if name == "" {
		return errors.New("name is empty; give the lock a name")
	}
	return OneSlot("name", name)
}

// MaxName is how many bytes the name of a lock may have that this library takes, prefix included. Each of its keys and
// each command has the name in it. Redisson and earlier versions may have locks with longer names: these can be looked at
// and released.
const MaxName = 1024

// OneSlot refuses a name whose keys could not all be in one slot of a cluster; what says what it
// is. Redis hashes what stands between the first "{" and the first "}" after it, if that is not
// empty, and else the whole key; Redisson tests only for "{", and its rule has to be kept, so the
// names for which the two disagree are refused. They are refused on a single server too: a name
// that works there and breaks on the day of the move to a cluster would be a trap.
func OneSlot(what, name string) error {
	_, tail, open := strings.Cut(name, "{")
	if !open {
		if strings.Contains(name, "}") {
			return fmt.Errorf("%s %s has a closing brace without an opening one, which would put its keys "+
				"into two cluster slots; remove it", what, printable.Quote(name))
		}
		return nil
	}
	switch tag, _, closed := strings.Cut(tail, "}"); {
	case !closed:
		return fmt.Errorf("%s %s opens a hash tag and does not close it, which would put its keys into two "+
			"cluster slots; close it or remove the brace", what, printable.Quote(name))
	case tag == "":
		return fmt.Errorf("%s %s has an empty hash tag, which would put its keys into two cluster slots; "+
			"fill it or remove the braces", what, printable.Quote(name))
	}
	return nil
}
