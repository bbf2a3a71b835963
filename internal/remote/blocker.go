package remote

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// Blocker is what a server has at the name of a lock that it refuses.
type Blocker struct {
	Left    time.Duration // until it ended, at the time of the answer; negative: not known, or never
	Owner   string        // of the lock; empty: not known
	Label   string        // of the owner's client, as far as it is known
	Votes   error         // what each master said, if no owner has a majority; nil: not known, or one server was asked
	Permits lua.Permits   // of a semaphore, and Owner then is one of those that have some
	Wanted  int           // how many permits were asked for; 0: one
	foreign string        // why it is not a lock; empty: it may be one
	endless bool          // it has no time to live at the server, and every lock has one
	String  bool          // it is a string, and so a lock of another library
	Waits   bool          // the owner does not have the lock: it waits to write, and readers that come later wait for it
	Ended   bool          // the owner has unlocked, and the lock stays taken for a while: HoldAtLeast
	Stays   bool          // it is other data, and not a lock of any kind or version: to wait would have no end
}

// letters are the letters before the number of an owner of this library, see engine's NewOwnerID.
const letters = "hks"

// IsOwner reports whether a field is an owner of this library or of Redisson. Redisson's owners end
// in the number of a thread.
func IsOwner(field string) bool {
	const length = 36 // of a UUID; Validate knows other forms too
	if len(field) < length || uuid.Validate(field[:length]) != nil {
		return false
	}
	number, ok := strings.CutPrefix(field[length:], ":")
	if number != "" && strings.ContainsRune(letters, rune(number[0])) {
		number = number[1:]
	}
	_, err := strconv.ParseUint(number, 10, 64)
	return ok && err == nil
}

// IsForeign reports whether an owner is Redisson's.
func IsForeign(owner string) bool {
	at := strings.LastIndexByte(owner, ':') + 1
	return at > 0 && IsOwner(owner) && !strings.ContainsRune(letters, rune(owner[at]))
}

// ClientIn returns the client of an owner. It is empty if there is none.
func ClientIn(owner string) string {
	if !IsOwner(owner) {
		return ""
	}
	return owner[:strings.LastIndexByte(owner, ':')]
}

// Called returns the client of an owner, and the command by which that client can be called. Both
// are empty if it cannot be called.
func Called(owner string) (client, command string) {
	at := strings.LastIndexByte(owner, ':')
	switch {
	case at < 0 || !IsOwner(owner):
	case owner[at+1] == 'k':
		return owner[:at], "PUBLISH"
	case owner[at+1] == 's':
		return owner[:at], "SPUBLISH"
	}
	return "", ""
}

// mayBeLock reports whether a field may belong to a lock of any kind, or of a later version: all
// owners begin with a UUID.
func mayBeLock(field string) bool {
	const length = 36
	return field == otherKind || len(field) > length && field[length] == ':' && uuid.Validate(field[:length]) == nil
}

// OwnerIn returns the owner that a field names. A lock that stays taken for the rest of a time
// (HoldAtLeast of package holdfast) names the owner that released it. The field then has a 0 before
// the number. No owner's name has one, so no command of the owner finds the field.
func OwnerIn(field string) string {
	at := strings.LastIndexByte(field, ':') + 1
	if number, left := strings.CutPrefix(field[at:], "h0"); left && number != "" {
		return field[:at] + "h" + number
	}
	return field
}

// otherKind is the field in which Redisson's read-write locks say whether the owner reads or
// writes.
const otherKind = "mode"

// InTheWay makes a Blocker of the fields of a hash and the milliseconds that the hash has to live.
// Without fields the owner is not known.
func InTheWay(millis int64, fields ...string) Blocker {
	b := Blocker{Left: Remaining(millis), endless: millis == -1}
	switch {
	case len(fields) == 0:
	case slices.Contains(fields, otherKind):
		b.foreign = "is a lock of another kind, a read-write lock; choose another name"
	case len(fields) == 1 && IsOwner(fields[0]):
		b.Owner = OwnerIn(fields[0])
		b.Ended = b.Owner != fields[0]
	default:
		b.Stays = b.endless && !slices.ContainsFunc(fields, mayBeLock)
		if len(fields) == 1 {
			b.foreign = "its field " + printable.Quote(fmt.Sprintf("%.60s", fields[0])) + " is not a lock owner, " + noLock
			break
		}
		for i, field := range fields {
			fields[i] = printable.Quote(fmt.Sprintf("%.60s", field))
		}
		b.foreign = "has the fields " + strings.Join(fields, ", ") + ", and a lock has one, its owner, " + noLock
	}
	return b
}

// RefusedBy makes a Blocker of a refusal.
func RefusedBy(r lua.Refusal) Blocker {
	if r.Waits {
		return Blocker{Left: Remaining(r.Millis), Owner: r.Writer, Waits: true}
	}
	b := InTheWay(r.Millis, r.Fields()...)
	b.Permits = r.Permits
	switch {
	case r.String:
		b.String, b.foreign = true, "holds a string, as the locks of other libraries do"
		if b.endless {
			b.foreign += "; if it is not a lock, choose another name"
		}
	case r.Many > 0:
		b.Stays = b.endless
		b.foreign = fmt.Sprintf("has %d fields, and a lock has one, its owner, "+noLock, r.Many)
	}
	return b
}

// Mistake returns the error that the name of the lock is the key of something else. It is nil if
// the key may be a lock, or has a time to live. (Rejected: to refuse a key with a time to live too.
// A later version may have fields that this one does not know, and sets their time to live.)
func (b Blocker) Mistake(name string) error {
	if !b.Stays {
		return nil
	}
	return fmt.Errorf("the key %s has no time to live, and %s", printable.Name(name), b.foreign)
}

const noLock = "so it is not a lock of this library or of Redisson; look at it with HGETALL, and delete it or choose another name"

// Text says what is in the way, according to an answer of that age. It is empty if nothing is
// known.
func (b Blocker) Text(age time.Duration) string {
	left, age := b.Left.Round(time.Millisecond), age.Round(time.Millisecond)
	owner := b.Owner
	if owner == "" {
		owner = "another owner"
	} else if b.Label != "" {
		owner += " (" + b.Label + ")"
	}
	switch {
	case b.Waits && !IsOwner(b.Owner): // text that another program wrote
		return printable.Quote(b.Owner) + " waits to write, and readers that come later wait until it has written"
	case b.Waits:
		return owner + " waits to write, and readers that come later wait until it has written"
	case b.Votes != nil:
		return b.Votes.Error()
	case b.Several():
		return b.permits(age)
	case b.foreign != "" && b.Left < 0:
		return "its key has no time to live, and " + b.foreign
	case b.foreign != "":
		return fmt.Sprintf("its key has %v to live, and %s", left, b.foreign)
	case b.endless:
		return "its key has no time to live, " + noLock
	case b.Left < 0 && b.Owner == "":
		return ""
	case b.Left < 0:
		return "held by " + owner
	case b.Left > century-year:
		return fmt.Sprintf("held by %s, whose lease has no end", owner)
	case age < news && age < left && b.Ended:
		return fmt.Sprintf("held by %s, which has unlocked and leaves the lock taken for another %v", owner, left-age)
	case age < news && age < left:
		return fmt.Sprintf("held by %s, whose lease has %v left", owner, left-age)
	case b.Ended:
		return fmt.Sprintf("held by %s, which has unlocked and left the lock taken for another %v when it was last seen, %v ago", owner, left, age)
	}
	return fmt.Sprintf("held by %s, whose lease had %v left when it was last seen, %v ago", owner, left, age)
}

// Several reports whether the owner is only one of those that may be in the way: a request for permits of a semaphore
// waits for any of those that are out, or for earlier requests.
func (b Blocker) Several() bool { return b.Permits.All > 1 || b.Permits.Free > 0 }

// permits says how many are free, like "0 of 5 permits free, 3 waiting".
func (b Blocker) permits(age time.Duration) string {
	text := fmt.Sprintf("%d of %d permits free", max(b.Permits.Free, 0), b.Permits.All)
	if b.Permits.Free < 0 { // their number was reduced
		text += fmt.Sprintf(", %d out", b.Permits.All-b.Permits.Free)
	}
	if b.Wanted > 1 {
		text += fmt.Sprintf(", %d asked for", b.Wanted)
	}
	if b.Permits.Waiters > 0 {
		text += fmt.Sprintf(", %d waiting", b.Permits.Waiters)
	}
	if age >= news {
		text += fmt.Sprintf(" when last seen, %v ago", age)
	}
	return text
}

// news is the age up to which an answer counts as current. The lease may have been renewed since.
const news = time.Second

// century is the longest rest of a lease that a text names. A lease of more than 99 years is said
// to have no end.
const year, century = 365 * 24 * time.Hour, 100 * year

// Remaining converts the milliseconds that, according to a server, are left of a lease. -1 stands
// for a lease without an end. The result is a century at most, so that sums stay within the range
// of a Duration.
func Remaining(millis int64) time.Duration {
	return time.Duration(min(max(millis, -1), century.Milliseconds())) * time.Millisecond
}
