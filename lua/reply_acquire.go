package lua

import "cmp"

// Grant is the reply Done of the scripts that grant a lock of one server: acquire, acquire_beside,
// fair_acquire, rw_read, rw_write and sem_acquire. See the headers of these files.
type Grant struct {
	Token string // decimal
	Last  string // the last of the tokens that are reserved from Token on; empty or Token: there is one
	Time  string // of the server, in microseconds, decimal
}

// Grant decodes the reply of a script that grants a lock.
func (r Reply) Grant() Grant {
	token := r.text(0)
	// Where the server's time does not follow, the token is that time.
	return Grant{Token: token, Last: r.text(1), Time: cmp.Or(r.text(2), token)}
}

// Refusal is the reply Denied of the same scripts, and of fair_join and sem_join: what the lock's
// key holds that is in the way. Three methods decode it, because the values before the hash's
// fields differ: [Reply.Refusal], [Reply.QueueRefusal] and [Reply.RwRefusal].
type Refusal struct {
	Millis int64 // until what is in the way ends; -1: its key has no time to live

	// Only fair_acquire, fair_join, sem_acquire and sem_join tell these two.
	Time    string // of the server, in microseconds, decimal
	Foreign bool   // the owner has a place, and a client of Redisson may call it next

	// Ticket goes into the later attempts of the same request. Only rw_read tells it.
	Ticket string

	// What the key holds. Without any of these the hash has as many fields as [Refusal.Fields]
	// returns.
	String bool   // a string, which is a lock of another library
	Waits  bool   // a lock that nobody writes, and Writer waits to write
	Writer string // empty unless Waits
	Many   int64  // a hash with more fields than are listed, namely so many; 0: all are listed

	// Permits are those of a semaphore. Only sem_acquire and sem_join tell them.
	Permits Permits

	fields []any
}

// Permits says how many permits a semaphore has, and why a request for some is refused.
type Permits struct {
	All     int64 // how many there are; 0: not known, or it is not a semaphore
	Free    int64 // how many of them are not out; below 0 if more are out than there are
	Waiters int64 // how many owners wait, with the refused one if it has a place
}

// Fields returns the fields of the lock's hash. A lock has one, its owner. There are none where the
// user may not list them. They are a new slice each time.
func (f Refusal) Fields() []string { return Reply{values: f.fields}.texts(0) }

// What the scripts reply instead of the fields of the hash.
const (
	isString    = -1 // the key is a string
	writerWaits = -2 // a writer waits, whose owner id follows
	ofPermits   = -3 // it is a semaphore, whose Permits follow, and then an owner
)

// Refusal decodes {0, pttl, field...}, the refusal of acquire and acquire_beside.
func (r Reply) Refusal() Refusal { return r.refusal(1) }

// QueueRefusal decodes {0, pttl, time, foreign, field...}, the refusal of fair_acquire, fair_join,
// sem_acquire and sem_join. The last two have [Permits] before the owner.
func (r Reply) QueueRefusal() Refusal {
	f := r.refusal(3)
	f.Time, f.Foreign = r.text(1), r.number(2) == 1
	return f
}

// RwRefusal decodes {0, ms, ticket, field...}, the refusal of rw_read and rw_write.
func (r Reply) RwRefusal() Refusal {
	f := r.refusal(2)
	f.Ticket = r.text(1)
	return f
}

// refusal decodes the milliseconds, and the fields of the hash from the i-th value on.
func (r Reply) refusal(i int) Refusal {
	f := Refusal{Millis: r.number(0)}
	switch n := r.number(i); {
	case n == writerWaits:
		f.Waits, f.Writer = true, r.text(i+1)
	case n == isString:
		f.String = true
	case n == ofPermits:
		f.Permits = r.permits(i + 1)
		if i+4 < len(r.values) {
			f.fields = r.values[i+4:]
		}
	case n > 0:
		f.Many = n
	case i < len(r.values):
		f.fields = r.values[i:]
	}
	return f
}

// permits decodes {permits, free, waiters} from the i-th value on.
func (r Reply) permits(i int) Permits {
	return Permits{All: r.number(i), Free: r.number(i + 1), Waiters: r.number(i + 2)}
}
